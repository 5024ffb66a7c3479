//! `exp ls [EXPERIMENT]`: runs and where they stand.

use super::{current_store, json};
use crate::{
    base::{Exit, Result, folders::Root},
    store::RunRow,
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
    let (rows, digits) = match (current_store(root)?, &args.experiment) {
        (Some(store), Some(name)) => {
            store.experiment(name)?; // an unknown name is an error, not an empty list
            (store.runs(Some(name))?, store.shortest(&[])?)
        }
        (Some(store), None) => (store.runs(None)?, store.shortest(&[])?),
        (None, Some(_)) => (super::needed_store(root)?.runs(None)?, 0),
        (None, None) => (Vec::new(), 0),
    };
    if args.json {
        ui::print_json(&json::runs(&rows));
    } else if rows.is_empty() {
        ui::note("no runs yet; `exp run experiments/depth_sweep.yaml` makes some");
    } else {
        ui::print(&table(&rows, digits));
    }
    Ok(Exit::Done)
}

/// The runs as a table: identity, the settings in which they differ, state, results. `digits` of the id are shown.
pub fn table(rows: &[RunRow], digits: usize) -> String {
    let leaves: Vec<_> = rows.iter().map(|r| r.config.leaves()).collect();
    let differing: Vec<&String> = leaves
        .first()
        .into_iter()
        .flat_map(|first| first.iter())
        .filter(|(path, value)| leaves.iter().any(|l| l.get(*path) != Some(value)) && !is_derived(path))
        .map(|(path, _)| path)
        .collect();
    let experiment = |r: &RunRow| r.experiments.first().cloned().unwrap_or_default();
    let several = rows.iter().any(|r| experiment(r) != experiment(&rows[0]));

    let mut columns = vec![words("run")];
    columns.extend(several.then(|| words("experiment")));
    columns.extend(differing.iter().map(|p| numbers(format::leaf(p))));
    columns.extend(["step", "val loss", "bits/char", "tok/s"].map(numbers));
    columns.push(words("state"));

    let cells: Vec<Vec<String>> = rows
        .iter()
        .zip(&leaves)
        .map(|(r, leaves)| {
            let mut row = vec![r.id.to_string()[..digits].to_owned()];
            row.extend(several.then(|| experiment(r)));
            row.extend(differing.iter().map(|p| leaves.get(*p).map_or(String::new(), format::value)));
            row.push(format!("{}/{}", r.step, r.config.train.steps));
            row.push(format::loss(r.best.map(|b| b.1)));
            row.push(bits_per_char(r).map_or("–".into(), |b| format!("{b:.3}")));
            row.push(r.tokens_per_second.map_or("–".into(), format::count));
            row.push(state(r));
            row
        })
        .collect();
    table::render(&columns, &cells)
}

/// Leaves that follow others by default would only repeat what the others say.
fn is_derived(path: &str) -> bool {
    matches!(path, "train.min_lr" | "train.decay_steps" | "train.warmup_steps" | "model.kv_heads" | "model.d_ff")
}

/// The best validation loss in bits per character.
fn bits_per_char(r: &RunRow) -> Option<f64> {
    let ready = r.ready.as_ref()?;
    Some(r.best?.1 / std::f64::consts::LN_2 / ready.chars_per_token)
}

/// The state with its reason, on one line.
fn state(r: &RunRow) -> String {
    match r.state.why() {
        Some(why) => format!("{}: {}", r.state.word(), why.lines().next().unwrap_or_default()),
        None => r.state.word().to_owned(),
    }
}
