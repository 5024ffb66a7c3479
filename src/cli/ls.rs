//! `exp ls [EXPERIMENT]`: runs and where they stand.

use super::{current_store, json, needed_store, run::shown};
use crate::{
    base::{Exit, Result, folders::Root},
    spec::leaf::{self, Leaf},
    store::{RunRow, Store},
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp ls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the runs of this experiment
    experiment: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    // Nothing was ever run under this root: no runs for all, an error for one experiment.
    let store = if args.experiment.is_some() { Some(needed_store(root)?) } else { current_store(root)? };
    let rows = store.as_ref().map_or(Ok(Vec::new()), |s| s.runs(args.experiment.as_deref()))?;
    match store {
        _ if args.json => ui::print_json(&json::runs(&rows)),
        Some(store) if !rows.is_empty() => ui::print(&table(&store, &rows)?),
        _ => ui::note(&format!("no runs under {} yet; `exp run SPEC` makes some", shown(&root.runs()))),
    }
    Ok(Exit::Done)
}

/// The runs as a table: identity, the settings in which they differ, state, results.
pub fn table(store: &Store, rows: &[RunRow]) -> Result<String> {
    let digits = store.shortest(&rows.iter().map(|r| r.id).collect::<Vec<_>>())?;
    let leaves: Vec<_> = rows.iter().map(|r| r.config.leaves()).collect();
    let experiment = |r: &RunRow| r.experiments.first().cloned().unwrap_or_default();
    let known = store.experiments()?.into_iter().filter(|e| rows.iter().any(|r| experiment(r) == e.name));
    let swept: Vec<String> = known.flat_map(|e| e.axes).collect();
    // What decides no result, such as which checkpoints are kept, is of interest only to a spec that varies it.
    let matters = |leaf: &&Leaf| leaf.can_be_axis() || swept.iter().any(|path| path == leaf.path);
    let differing = leaf::all().iter().filter(matters).filter(|leaf| tells_apart(leaf, rows));
    let differing: Vec<&str> = differing.map(|leaf| leaf.path).collect();
    let several = rows.iter().any(|r| experiment(r) != experiment(&rows[0]));

    let mut columns = vec![words("run")];
    columns.extend(several.then(|| words("experiment")));
    columns.extend(format::headings(&differing, &[]).into_iter().map(numbers));
    columns.extend(["step", "best val loss", "bits/char", "tok/s"].map(numbers));
    columns.push(words("state"));

    let cells: Vec<Vec<String>> = rows
        .iter()
        .zip(&leaves)
        .map(|(r, leaves)| {
            let mut row = vec![r.id.to_string()[..digits].to_owned()];
            row.extend(several.then(|| experiment(r)));
            row.extend(
                differing
                    .iter()
                    .map(|p| leaves.get(*p).map_or(String::new(), |v| format::short(&format::value(v), 24))),
            );
            row.push(format!("{}/{}", r.step, r.config.train.steps));
            row.push(format::loss(r.best.map(|b| b.1)));
            row.push(bits_per_char(r).map_or("–".into(), |b| format!("{b:.3}")));
            row.push(r.tokens_per_second.map_or("–".into(), format::count));
            row.push(state(r));
            row
        })
        .collect();
    Ok(table::render(&columns, &cells))
}

/// Whether the runs differ in a leaf, other than by following leaves, or a preset, that they differ in anyway.
fn tells_apart(leaf: &Leaf, rows: &[RunRow]) -> bool {
    let differs = rows.iter().any(|r| leaf.get(&r.config) != leaf.get(&rows[0].config));
    let follows = || rows.iter().all(|r| leaf.get(&r.config) == leaf.left_out(&r.config));
    differs && !follows()
}

/// The best validation loss in bits per character.
fn bits_per_char(r: &RunRow) -> Option<f64> {
    let ready = r.ready.as_ref()?;
    Some(r.best?.1 / std::f64::consts::LN_2 / ready.chars_per_token)
}

/// The state with its reason, on one line.
fn state(r: &RunRow) -> String {
    match r.state.why() {
        // `exp show` has the whole reason.
        Some(why) => format!("{}: {}", r.state.word(), format::short(why, 60)),
        None => r.state.word().to_owned(),
    }
}
