//! `exp tag RUN TAG…`: call a run something, so that conditions find it again (`"good" in tags`).

use std::collections::BTreeMap;

use serde_json::json;

use super::{columns::Columns, current_store, json, needed_store};
use crate::{
    base::{Error, Exit, Result, RunId, folders::Root},
    spec::expr::Expr,
    store::{
        RunRow, Store,
        tags::{self, Change},
    },
    ui::{
        self,
        format::plural,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp tag`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "exp tag [RUN] [TAG]... [--remove] [--json]
       exp tag --where <CONDITION> [TAG]... [--remove] [--json]")]
pub struct Args {
    /// The run: any unique prefix of its id; left out beside --where
    run: Option<String>,

    /// What it is called; without any, what there is already is listed
    #[arg(value_name = "TAG")]
    tags: Vec<String>,

    /// All runs of which this holds, instead of one: 'best_val_loss < 1.7 and layers == 4'
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,

    /// Take the tags away
    #[arg(long, requires = "run")]
    remove: bool,

    /// Print JSON: the runs (as `exp ls --json`), or the list of tags
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let condition = args.condition.as_ref().map(|text| Expr::condition(text, &Columns)).transpose()?;
    let (run, first) = if condition.is_some() { (None, args.run.as_ref()) } else { (args.run.as_deref(), None) };
    let tags = named(first.into_iter().chain(&args.tags))?;
    if tags.is_empty() && args.remove {
        return Err(Error::new(Exit::Usage, "taking tags away", "none is named").hint("exp tag RUN TAG --remove"));
    }
    if tags.is_empty() && run.is_none() {
        let rows = current_store(root)?.map_or(Ok(Vec::new()), |store| chosen(&store, None, condition.as_ref()))?;
        list(&rows, args.json);
        return Ok(Exit::Done);
    }
    let mut store = needed_store(root)?;
    let rows = chosen(&store, run, condition.as_ref())?;
    if tags.is_empty() {
        list(&rows, args.json);
        return Ok(Exit::Done);
    }
    let ids: Vec<RunId> = rows.iter().map(|row| row.id).collect();
    let change = if args.remove { Change::Remove } else { Change::Add };
    let changed = store.tag(&ids, &tags, change)?;
    for (tag, changed) in tags.iter().zip(&changed) {
        ui::note(&outcome(tag, &ids, changed.len(), change));
    }
    if args.json {
        let now = store.runs(None)?.into_iter().filter(|row| ids.contains(&row.id));
        ui::print_json(&json::runs(&now.collect::<Vec<_>>()));
    }
    Ok(Exit::Done)
}

/// The tags of the command line, each once.
fn named<'a>(words: impl Iterator<Item = &'a String>) -> Result<Vec<String>> {
    let mut tags: Vec<String> = Vec::new();
    for tag in words {
        tags::check(tag)
            .map_err(|why| Error::new(Exit::Usage, format!("reading the tag {tag:?}"), why).hint(tags::RULE))?;
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    Ok(tags)
}

/// One run, or those of which a condition holds, or all.
fn chosen(store: &Store, run: Option<&str>, condition: Option<&Expr>) -> Result<Vec<RunRow>> {
    match run {
        Some(prefix) => Ok(vec![store.find(prefix)?]),
        None => {
            let mut rows = store.runs(None)?;
            rows.retain(|row| condition.is_none_or(|c| c.holds(&|index| Columns::value(index, row))));
            Ok(rows)
        }
    }
}

/// What came of a tag, in a line.
fn outcome(tag: &str, runs: &[RunId], changed: usize, change: Change) -> String {
    let same = runs.len() - changed;
    match (runs, change) {
        ([], _) => "there is no such run".into(),
        ([run], Change::Add) if changed == 1 => format!("run {} is tagged {tag}", run.short()),
        ([run], Change::Add) => format!("run {} has the tag {tag} already", run.short()),
        ([run], Change::Remove) if changed == 1 => format!("run {} no longer has the tag {tag}", run.short()),
        ([run], Change::Remove) => format!("run {} does not have the tag {tag}", run.short()),
        (_, Change::Add) => format!("{tag}: {} tagged, {same} had it already", plural(changed, "run")),
        (_, Change::Remove) => format!("{tag}: taken from {}, {same} did not have it", plural(changed, "run")),
    }
}

/// The tags of some runs, and how many of them have each.
fn list(rows: &[RunRow], as_json: bool) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().flat_map(|row| &row.tags).for_each(|tag| *counts.entry(tag).or_default() += 1);
    if as_json {
        ui::print_json(&counts.iter().map(|(tag, runs)| json!({"tag": tag, "runs": runs})).collect());
    } else if counts.is_empty() {
        ui::note("no tags yet; `exp tag RUN TAG` gives one");
    } else {
        let cells: Vec<_> = counts.iter().map(|(tag, runs)| vec![(*tag).to_owned(), runs.to_string()]).collect();
        ui::print(&table::render(&[words("tag"), numbers("runs")], &cells));
    }
}
