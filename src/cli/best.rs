//! `exp best EXPERIMENT`: the ids of the runs that did best, for people and for scripts.

use super::{
    columns::Columns,
    json,
    ls::{direction, order},
    needed_store,
};
use crate::{
    base::{Error, Exit, Result, folders::Root},
    event::RunState,
    spec::expr::{Expr, Kind, Value},
    ui::{self, format},
};

/// Arguments of `exp best`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment
    experiment: String,

    /// What has to be lowest; -NAME for highest: -tokens_per_second
    #[arg(long, value_name = "NAME", default_value = "best_val_loss", allow_hyphen_values = true)]
    by: String,

    /// Only among runs of which this holds: 'layers <= 4 and params < 1e6'
    #[arg(long = "where", value_name = "CONDITION", allow_hyphen_values = true)]
    condition: Option<String>,

    /// How many
    #[arg(short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,

    /// Print JSON, in the shape of `exp ls`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let condition = args.condition.as_ref().map(|text| Expr::condition(text, &Columns)).transpose()?;
    let (by, is_highest) = direction("--by", &args.by)?;
    if by.kind() != Kind::Number {
        return Err(Error::new(Exit::Usage, "reading --by", format!("`{}` is no number", args.by)));
    }
    let store = needed_store(root)?;
    let mut rows = store.runs(Some(&args.experiment))?;
    rows.retain(|row| condition.as_ref().is_none_or(|c| c.holds(&|index| Columns::value(index, row))));
    rows.retain(|row| matches!(by.value(row), Value::Number(x) if x.is_finite()));
    rows.sort_by(|a, b| order(&by, is_highest, a, b).then_with(|| a.id.cmp(&b.id)));
    rows.truncate(args.n as usize);
    if rows.is_empty() {
        let why = format!(
            "no run of it has a finite `{}`{}",
            args.by,
            if condition.is_some() { " under that condition" } else { "" }
        );
        return Err(Error::new(Exit::Usage, format!("looking for the best run of {}", args.experiment), why)
            .hint(format!("`exp ls {}` shows where they stand", args.experiment)));
    }
    if args.json {
        ui::print_json(&json::runs(&rows));
        return Ok(Exit::Done);
    }
    let axes = store.experiment(&args.experiment)?.axes;
    for row in &rows {
        ui::print(&format!("{}\n", row.id));
        let (leaves, names) = (row.config.leaves(), format::headings(&axes, &[]));
        let settings = axes.iter().zip(names).filter_map(|(path, name)| Some((name, leaves.get(path)?)));
        let settings: Vec<String> = settings.map(|(name, value)| format!("{name} {}", format::value(value))).collect();
        let reached = format!("{} {}", args.by.trim_start_matches('-'), by.show(row));
        let unfinished = match &row.state {
            RunState::Done => None,
            state => Some(format!("{} at step {} of {}", state.word(), row.step, row.config.train.steps)),
        };
        let all: Vec<String> = [reached].into_iter().chain(settings).chain(unfinished).collect();
        ui::note(&format!("{}: {}", row.id.short(), all.join(", ")));
    }
    Ok(Exit::Done)
}
