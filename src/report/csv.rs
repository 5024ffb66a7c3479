//! `summary.csv`: a row for each run, for programs. Numbers with all their digits, words for what is not finite, nothing
//! for what is not known. Losses are as stored, in nats per token.

use super::frame::Frame;
use crate::base::{csv::line, num};

/// The columns after id, state and swept leaves.
const COLUMNS: [&str; 9] = [
    "params",
    "steps",
    "best_val_loss",
    "best_step",
    "last_val_loss",
    "bits_per_char",
    "tokens_per_second",
    "step_ms",
    "attempts",
];

/// The table, in the order of the grid.
pub fn csv(frame: &Frame) -> String {
    let seed = (frame.seeds() > 1).then_some("train.seed");
    let swept: Vec<&str> = frame.axes.iter().map(|a| a.path.as_str()).chain(seed).collect();
    let mut out = line(["id", "state"].into_iter().chain(swept.iter().copied()).chain(COLUMNS).map(str::to_owned));
    for run in &frame.runs {
        let r = &run.row;
        let cells = [
            r.ready.as_ref().map_or(String::new(), |ready| ready.params.to_string()),
            r.step.to_string(),
            float(r.best.map(|b| b.1)),
            r.best.map_or(String::new(), |b| b.0.to_string()),
            float(r.last_val_loss),
            float(r.best.and_then(|b| run.bits_per_char(b.1))),
            float(r.tokens_per_second),
            float(r.tokens_per_second.map(|t| r.config.tokens_per_step() as f64 / t * 1000.0)),
            r.attempts.to_string(),
        ];
        let leaves = swept.iter().map(|path| run.leaves.get(*path).map_or(String::new(), leaf));
        out += &line([r.id.to_string(), r.state.word().to_owned()].into_iter().chain(leaves).chain(cells));
    }
    out
}

/// A leaf without quotes.
fn leaf(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn float(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| num::word(x).map_or_else(|| x.to_string(), str::to_owned))
}
