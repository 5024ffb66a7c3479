//! `exp plan SPEC`: what `exp run` would do, and what it costs. Starts nothing; brings only caches and the index up to date.

use super::{
    current_store, json,
    run::{SpecArgs, notes},
};
use crate::{
    base::{Exit, Result, folders::Root},
    sched::{self, Plan, Reason},
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    spec: SpecArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let sweep = args.spec.load()?;
    let plan = args.spec.plan(&sweep, root, current_store(root)?.as_ref())?;
    if args.json {
        ui::print_json(&json::plan(&plan));
    } else {
        ui::print(&table(&plan));
        ui::print(&totals(&plan));
        notes(&plan);
    }
    Ok(Exit::Done)
}

fn table(plan: &Plan) -> String {
    let costs = ["params", "tokens", "FLOPs", "memory"];
    let mut columns = vec![words("run")];
    columns.extend(format::headings(&plan.axes, &costs).into_iter().map(numbers));
    columns.extend(costs.map(numbers));
    columns.push(words("reason"));
    let rows: Vec<Vec<String>> = plan
        .runs
        .iter()
        .map(|r| {
            let leaves = r.frozen.config.leaves();
            let mut row = vec![r.frozen.id.short()];
            row.extend(plan.axes.iter().map(|a| leaves.get(a).map_or(String::new(), format::value)));
            row.push(format::count(r.cost.params as f64));
            row.push(format::count(r.cost.tokens as f64));
            row.push(format::count(r.cost.flops));
            row.push(format::bytes(r.cost.bytes));
            row.push(json::reason(&r.reason));
            row
        })
        .collect();
    table::render(&columns, &rows)
}

fn totals(plan: &Plan) -> String {
    let todo = || plan.runs.iter().filter(|r| !matches!(r.reason, Reason::Done | Reason::Skipped { .. }));
    let sum = |f: fn(&sched::PlannedRun) -> f64| todo().map(f).fold(0.0, |sum, x| sum + x);
    let mut text = format!(
        "\n{}: {} of {} runs to do, {} tokens, {} FLOPs",
        plan.experiment,
        todo().count(),
        plan.runs.len(),
        format::count(sum(|r| r.cost.tokens as f64)),
        format::count(sum(|r| r.cost.flops)),
    );
    let others = [(plan.duplicates, "duplicate"), (plan.excluded, "excluded"), (plan.left_out(), "left out by --only")];
    for (n, what) in others {
        if n > 0 {
            text += &format!(", {n} {what}");
        }
    }
    text + "\n"
}
