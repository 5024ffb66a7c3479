//! What commands say of a sweep that stops what loses: which rule, before it runs; what that saved, after it ran.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::{
    base::RunId,
    event::RunState,
    sched::Plan,
    spec::search::{Prune, Search, part},
    store::RunRow,
    ui::format,
};

/// The rule in a sentence; nothing where there is none.
pub fn told(plan: &Plan) -> String {
    let Some(search) = &plan.search else { return String::new() };
    let Search { metric, min_steps, reduction, .. } = search;
    let rule = match search.prune {
        Prune::Asha => {
            let rungs: Vec<String> = rungs(plan, search).iter().map(u64::to_string).collect();
            let at = if rungs.len() == 1 { "step" } else { "steps" };
            let (rungs, part, share) = (rungs.join(", "), part(*reduction), 100.0 * share(plan, search));
            format!(
                "search: asha by {metric}: at {at} {rungs} the best {part} of the runs that get there goes on; begun \
                 anew that is about {share:.0} % of the full grid's FLOPs\n"
            )
        }
        Prune::Median => {
            let what = "what is worse than the others' median pauses";
            format!("search: median by {metric}: from step {min_steps} on, {what}\n")
        }
    };
    let first = plan.runs.iter().filter_map(|run| search.first_judged(&run.frozen.config)).min();
    match first.filter(|first| first > min_steps) {
        Some(first) => format!("{rule}by `eval.every`, runs are judged at step {first} at the earliest\n"),
        None => rule,
    }
}

/// `search` of `exp plan --json`.
pub fn json(plan: &Plan) -> Value {
    let Some(search) = &plan.search else { return Value::Null };
    let has_rungs = search.prune == Prune::Asha;
    json!({
        "prune": search.prune.word(),
        "metric": search.metric,
        "min_steps": search.min_steps,
        "reduction": has_rungs.then_some(search.reduction),
        "rungs": has_rungs.then(|| rungs(plan, search)),
        "share": has_rungs.then(|| share(plan, search)),
    })
}

/// The rungs of the longest run.
fn rungs(plan: &Plan, search: &Search) -> Vec<u64> {
    search.rungs(plan.runs.iter().map(|run| run.frozen.config.train.steps).max().unwrap_or(0))
}

/// The share of the full grid's FLOPs that asha trains, where at each rung as many go on as are to, and none in vain.
fn share(plan: &Plan, search: &Search) -> f64 {
    let of = |steps: u64| {
        let (mut left, mut from, mut trained) = (plan.runs.len() as u64, 0, 0.0);
        for to in search.rungs(steps).into_iter().chain([steps]) {
            trained += left as f64 * (to - from) as f64;
            (left, from) = ((left / search.reduction).max(1), to);
        }
        trained / (plan.runs.len() as f64 * steps.max(1) as f64)
    };
    let sum = |part: &dyn Fn(u64) -> f64| -> f64 {
        plan.runs.iter().map(|run| run.cost.flops * part(run.frozen.config.train.steps)).sum()
    };
    sum(&of) / sum(&|_| 1.0)
}

/// How many runs pause, and what of the full grid that spares: the updates that they have left.
pub fn saved(plan: &Plan, rows: &[RunRow]) -> String {
    let full: f64 = plan.runs.iter().map(|run| run.cost.flops).sum();
    let by_id: HashMap<RunId, &RunRow> = rows.iter().map(|row| (row.id, row)).collect();
    let paused = plan.runs.iter().filter_map(|run| {
        let row = by_id.get(&run.frozen.id)?;
        let RunState::Paused { step, .. } = row.state else { return None };
        Some(run.cost.flops * (1.0 - step as f64 / row.config.train.steps.max(1) as f64))
    });
    let (count, left) = paused.fold((0, 0.0), |(count, left), flops| (count + 1, left + flops));
    format!(
        "{count} of {} paused: {} of the {} FLOPs of the full grid saved, {:.0} %; `exp resume RUN` goes on with one",
        format::plural(plan.runs.len(), "run"),
        format::count(left),
        format::count(full),
        100.0 * left / full,
    )
}
