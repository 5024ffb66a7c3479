//! The stable JSON shapes of what commands print: additions only.

use serde_json::{Map, Value, json};

use super::search;
use crate::{
    base::{Result, num},
    sched::{Outlook, Plan, PlannedRun, Reason, Takes, is_to_do},
    spec::identity::Imported,
    store::{RunRow, Store},
};

/// `exp ls --json`: a list of runs.
pub fn runs(rows: &[RunRow]) -> Value {
    rows.iter().map(|r| Value::Object(run(r))).collect()
}

fn run(r: &RunRow) -> Map<String, Value> {
    let object = json!({
        "id": r.id,
        "experiment": r.experiments.first(),
        "state": r.state.word(),
        "why": r.state.why(),
        "step": r.step,
        "steps": r.config.train.steps,
        "best_val_loss": r.best.map(|(_, loss)| num::json(loss)),
        "best_step": r.best.map(|(step, _)| step),
        "last_val_loss": r.last_val_loss.map(num::json),
        "tokens_per_second": r.tokens_per_second.map(num::json),
        "params": r.ready.as_ref().map(|ready| ready.params),
        "attempts": r.attempts,
        "experiments": r.experiments,
        "tags": r.tags,
        "config": r.config.leaves(),
    });
    match object {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// `exp show RUN --json`: the run with its metrics, artifacts and attempts.
pub fn show(store: &Store, r: &RunRow, imported: Option<&Imported>) -> Result<Value> {
    let metrics: Map<String, Value> = store
        .metrics(&r.id)?
        .into_iter()
        .map(|(name, points)| (name, points.into_iter().map(|(step, value)| json!([step, num::json(value)])).collect()))
        .collect();
    let artifacts: Vec<Value> = store
        .artifacts(&r.id)?
        .into_iter()
        .map(|a| json!({"kind": a.kind, "step": a.step, "path": a.path, "bytes": a.bytes, "blake3": a.blake3}))
        .collect();
    let attempts: Vec<Value> = store
        .attempts(&r.id)?
        .into_iter()
        .map(|a| json!({"started": a.started, "ready": a.ready, "ended": a.ended, "outcome": a.outcome, "warnings": a.warnings}))
        .collect();
    let mut object = run(r);
    object.insert("imported".into(), json!(imported));
    object.insert("metrics".into(), metrics.into());
    object.insert("artifacts".into(), artifacts.into());
    object.insert("attempt_list".into(), attempts.into());
    Ok(object.into())
}

/// `exp plan SPEC --json`.
pub fn plan(plan: &Plan, outlook: &Outlook) -> Value {
    let values: Map<String, Value> =
        plan.axis_values().into_iter().map(|(axis, values)| (axis.to_owned(), values.into())).collect();
    let todo = || plan.runs.iter().filter(|run| is_to_do(run));
    json!({
        "experiment": plan.experiment,
        "axes": plan.axes,
        "axis_values": values,
        "runs": plan.runs.iter().zip(&outlook.runs).map(|(run, takes)| planned(run, takes)).collect::<Vec<_>>(),
        "totals": {
            "runs_to_do": todo().count(),
            "tokens": todo().map(|run| (run.left() * run.cost.tokens as f64).round() as u64).sum::<u64>(),
            "flops": todo().map(|run| run.left() * run.cost.flops).fold(0.0, |sum, x| sum + x),
            "bytes": outlook.memory,
            "disk_bytes": outlook.disk,
            "seconds": outlook.time.map(|time| time.seconds),
            "seconds_are_rough": outlook.time.map(|time| time.is_rough),
        },
        "duplicates": plan.duplicates,
        "excluded": plan.excluded,
        "left_out": plan.left_out(),
        "search": search::json(plan),
    })
}

fn planned(r: &PlannedRun, takes: &Takes) -> Value {
    json!({
        "id": r.frozen.id,
        "reason": reason(&r.reason),
        "config": r.frozen.config.leaves(),
        "engine": r.frozen.config.engine().word(),
        "params": r.cost.params,
        "params_without_positions": r.cost.params_without_positions,
        "tokens": r.cost.tokens,
        "flops": r.cost.flops,
        "bytes": r.cost.bytes,
        "disk_bytes": takes.disk,
        "seconds": takes.time.map(|time| time.seconds),
        "seconds_are_rough": takes.time.map(|time| time.is_rough),
    })
}

/// Why a run is in the plan, in words.
pub fn reason(r: &Reason) -> String {
    match r {
        Reason::New => "new".into(),
        Reason::FailedBefore { why } => format!("failed before: {why}"),
        Reason::Interrupted { step } => format!("interrupted at step {step}"),
        Reason::Paused { step, goes_on: true, .. } => format!("paused at step {step}, goes on"),
        Reason::Paused { step, why, .. } => format!("paused at step {step}: {why}"),
        Reason::Done => "done already".into(),
        Reason::Elsewhere => "running elsewhere".into(),
        Reason::Skipped { why } => format!("skipped: {why}"),
    }
}
