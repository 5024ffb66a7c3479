//! `exp ls [EXPERIMENT]`: runs and where they stand.

use std::cmp::Ordering;

use super::{
    columns::{Columns, Shown, is_imported},
    current_store, json, needed_store, no_runs_yet,
};
use crate::{
    base::{Error, Exit, Result, folders::Root, parallel::each_of_many},
    spec::{
        expr::{Expr, Kind, Value},
        leaf::{self, Leaf},
    },
    store::{ExperimentRow, RunRow, Store},
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

    /// Only runs of which this holds: 'layers >= 4 and best_val_loss < 1.7'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    filter: Option<String>,

    /// By what to order them, the most important first; -NAME for the greatest first: best_val_loss,-layers
    #[arg(long, value_name = "NAMES", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,

    /// What to show of them: id,layers,lr,best_val_loss,state
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "json")]
    columns: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let filter = args.filter.as_ref().map(|text| Expr::condition(text, &Columns)).transpose()?;
    let sort = args.sort.iter().map(|name| direction("--sort", name)).collect::<Result<Vec<_>>>()?;
    let shown_columns = args.columns.iter().map(|name| named("--columns", name)).collect::<Result<Vec<_>>>()?;
    // Nothing was ever run under this root: no runs for all, an error for one experiment.
    let store = if args.experiment.is_some() { Some(needed_store(root)?) } else { current_store(root)? };
    let all = store.as_ref().map_or(Ok(Vec::new()), |s| s.runs(args.experiment.as_deref()))?;
    let is_empty = all.is_empty();
    let mut rows = all;
    rows.retain(|row| filter.as_ref().is_none_or(|f| f.holds(&|index| Columns::value(index, row))));
    rows.sort_by(|a, b| {
        sort.iter().map(|(by, is_down)| order(by, *is_down, a, b)).fold(Ordering::Equal, Ordering::then)
    });
    match store {
        _ if args.json => ui::print_json(&json::runs(&rows)),
        Some(store) if !rows.is_empty() => {
            ui::print(&match shown_columns.is_empty() {
                true => table(&store, &rows)?,
                false => chosen(&args.columns, &shown_columns, &rows),
            });
        }
        Some(_) if !is_empty => ui::note("there is no such run"),
        _ => ui::note(&no_runs_yet(root)),
    }
    Ok(Exit::Done)
}

/// What a name of an option stands for.
fn named(option: &str, name: &str) -> Result<Shown> {
    Columns::look_up(name).map_err(|(why, hint)| {
        let error = Error::new(Exit::Usage, format!("reading {option}"), why);
        hint.map_or(error.clone(), |hint| error.hint(hint))
    })
}

/// By what to sort, and whether the greatest comes first.
pub fn direction(option: &str, name: &str) -> Result<(Shown, bool)> {
    match name.strip_prefix('-') {
        Some(name) => Ok((named(option, name)?, true)),
        None => Ok((named(option, name)?, false)),
    }
}

/// The order of two runs. What is not there, or is not a number, comes last either way.
pub fn order(by: &Shown, is_down: bool, a: &RunRow, b: &RunRow) -> Ordering {
    let (a, b) = (&by.value(a), &by.value(b));
    let is_there = |value: &Value| !matches!(value, Value::None) && !matches!(value, Value::Number(x) if x.is_nan());
    let order = match (a, b) {
        _ if !is_there(a) || !is_there(b) => return is_there(b).cmp(&is_there(a)),
        (Value::Number(a), Value::Number(b)) => a.total_cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => a.cmp(b),
        _ => Ordering::Equal,
    };
    if is_down { order.reverse() } else { order }
}

/// The columns that were asked for.
fn chosen(names: &[String], columns: &[Shown], rows: &[RunRow]) -> String {
    let heads: Vec<_> = names
        .iter()
        .zip(columns)
        .map(|(name, c)| if c.kind() == Kind::Number { numbers(name) } else { words(name) })
        .collect();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| columns.iter().map(|column| column.show(row)).collect()).collect();
    table::render(&heads, &cells)
}

/// The runs as a table: identity, the settings in which they differ, state, results.
pub fn table(store: &Store, rows: &[RunRow]) -> Result<String> {
    let digits = store.shortest(&rows.iter().map(|r| r.id).collect::<Vec<_>>())?;
    let known: Vec<_> =
        store.experiments()?.into_iter().filter(|e| rows.iter().any(|r| experiment(r) == e.name)).collect();
    let several = rows.iter().any(|r| experiment(r) != experiment(&rows[0]));
    let differing = differing(&known, rows);
    let names = format::headings(&differing, &[]);
    let mut columns = vec![words("run")];
    match several {
        // Each experiment varies something else: a column for all of it would be empty in most rows.
        true => columns.extend([words("experiment"), words("settings")]),
        false => columns.extend(names.iter().copied().map(numbers)),
    }
    columns.extend(["step", "best val loss", "bits/char", "tok/s"].map(numbers));
    columns.push(words("state"));
    let are_tagged = rows.iter().any(|r| !r.tags.is_empty());
    columns.extend(are_tagged.then(|| words("tags")));

    let cells = each_of_many(rows, |r| {
        let value = |path: &str| {
            let leaf = leaf::find(path);
            leaf.map_or(String::new(), |leaf| format::short(&format::value(&leaf.get(&r.config)), 24))
        };
        let mut row = vec![r.id.to_string()[..digits].to_owned()];
        if several {
            let axes = known.iter().find(|e| e.name == experiment(r)).map_or(&[][..], |e| &e.axes);
            let is_own = |path: &str| axes.iter().any(|axis| axis == path) || is_unusual(path, r);
            let mut own: Vec<_> = differing.iter().zip(&names).filter(|(path, _)| is_own(path)).collect();
            // What the experiment varies comes first, in its order.
            own.sort_by_key(|(path, _)| axes.iter().position(|axis| axis == *path).unwrap_or(axes.len()));
            let settings =
                own.into_iter().map(|(path, name)| format!("{name}={}", value(path))).collect::<Vec<_>>().join(" ");
            let settings = if is_imported(r) { imported(r) } else { settings };
            row.extend([experiment(r).to_owned(), format::short(&settings, 48)]);
        } else {
            row.extend(differing.iter().map(|path| value(path)));
        }
        row.push(format!("{}/{}", r.step, r.config.train.steps));
        row.push(format::loss(r.best.map(|b| b.1)));
        row.push(r.bits_per_char().map_or("–".into(), |b| format!("{b:.3}")));
        row.push(r.tokens_per_second.map_or("–".into(), format::count));
        row.push(state(r));
        row.extend(are_tagged.then(|| format::short(&r.tags.join(", "), 48)));
        row
    });
    Ok(table::render(&columns, &cells))
}

/// The experiment that a run is listed under; the empty text where it belongs to none.
fn experiment(r: &RunRow) -> &str {
    r.experiments.first().map_or("", String::as_str)
}

/// Whether a run has set a leaf to another value than it has by itself.
fn is_unusual(path: &str, r: &RunRow) -> bool {
    leaf::find(path).is_some_and(|leaf| leaf.get(&r.config) != leaf.left_out(&r.config))
}

/// The settings in which runs differ.
fn differing(experiments: &[ExperimentRow], rows: &[RunRow]) -> Vec<&'static str> {
    // What decides no result, such as which checkpoints are kept, is of interest only to a spec that varies it.
    let is_swept = |leaf: &Leaf| experiments.iter().flat_map(|e| &e.axes).any(|path| path == leaf.path);
    let matters = |leaf: &&Leaf| leaf.can_be_axis() || is_swept(leaf);
    leaf::all().iter().filter(matters).filter(|leaf| tells_apart(leaf, rows)).map(|leaf| leaf.path).collect()
}

/// What there is to say of weights that were not trained here.
fn imported(r: &RunRow) -> String {
    let params = r.ready.as_ref().map_or(0.0, |ready| ready.params as f64);
    format!("imported, {} layers, {} parameters", r.config.model.layers, format::count(params))
}

/// Whether the runs differ in a leaf, other than by following leaves, or a preset, that they differ in anyway.
fn tells_apart(leaf: &Leaf, rows: &[RunRow]) -> bool {
    let first = rows.first().map(|r| leaf.get(&r.config));
    let differs = rows.iter().any(|r| Some(leaf.get(&r.config)) != first);
    let follows = || rows.iter().all(|r| leaf.get(&r.config) == leaf.left_out(&r.config));
    differs && !follows()
}

/// The state with its reason, on one line.
fn state(r: &RunRow) -> String {
    match r.state.why() {
        // `exp show` has the whole reason.
        Some(why) => format!("{}: {}", r.state.word(), format::short(why, 60)),
        None => r.state.word().to_owned(),
    }
}
