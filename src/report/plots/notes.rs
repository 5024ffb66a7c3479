//! Sentences below pictures that several plots have: whose runs, what was left out and why, the corpus's own cost.

use std::collections::BTreeMap;

use super::super::{
    figure::{Panel, Reference},
    frame::{Frame, LeftOut},
    numbers::{self, several},
};

/// Failures that a note tells apart.
const MAX_REASONS: usize = 2;
/// Letters of a reason that a note has room for.
const MAX_LETTERS: usize = 90;

/// `Experiment depth_sweep, 9 runs.`
pub fn experiment(frame: &Frame) -> String {
    format!("Experiment {}, {}.", frame.experiment, several(frame.runs.len(), "run"))
}

/// `14 of 27 runs are left out and marked ×: 9 failed (the loss is nan at step 171), 5 not finished yet.` Empty where
/// all have a result.
pub fn left_out(frame: &Frame) -> String {
    match no_result(frame) {
        (0, _) => String::new(),
        (1, why) => format!("1 of {} is left out and marked ×: {why}.", several(frame.runs.len(), "run")),
        (n, why) => format!("{n} of {} are left out and marked ×: {why}.", several(frame.runs.len(), "run")),
    }
}

/// How many runs have no result, and why.
pub fn no_result(frame: &Frame) -> (usize, String) {
    let mut counts: BTreeMap<LeftOut, usize> = BTreeMap::new();
    for reason in frame.runs.iter().filter_map(|r| frame.result(r).err()) {
        *counts.entry(reason).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    let mut parts = Vec::new();
    let mut more = 0;
    for (reason, n) in &counts {
        match reason {
            LeftOut::Failed(why) if parts.len() < MAX_REASONS => parts.push(format!("{n} failed ({})", shortened(why))),
            LeftOut::Failed(_) => more += n,
            LeftOut::Skipped(why) => parts.push(format!("{n} skipped ({})", shortened(why))),
            LeftOut::NotFinite => parts.push(format!("{n} ended with a loss that is no finite number")),
            LeftOut::Paused => parts.push(format!("{n} paused by the search")),
            LeftOut::Unfinished => parts.push(format!("{n} not finished yet")),
        }
    }
    if more > 0 {
        parts.push(format!("{more} failed for other reasons"));
    }
    (total, parts.join(", "))
}

/// The first clause of a reason, without a full stop, in bounds.
fn shortened(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default().split("; ").next().unwrap_or_default();
    let line = line.trim().trim_end_matches('.');
    if line.chars().count() <= MAX_LETTERS {
        line.to_owned()
    } else {
        line.chars().take(MAX_LETTERS).chain(['…']).collect()
    }
}

/// Draws the corpus's own cost into the panels; see [`level`].
pub fn own_cost(frame: &Frame, panels: &mut [Panel]) -> String {
    let Some(y) = frame.own_cost() else { return String::new() };
    let ys: Vec<f64> = panels.iter().flat_map(|p| p.ys().collect::<Vec<_>>()).filter(|v| v.is_finite()).collect();
    level(frame, y, numbers::extent(&ys), panels.iter_mut())
}

/// Draws the corpus's own cost into panels whose data lies between `lo` and `hi`, where that leaves the data at least
/// two fifths of the height; else answers a note that says where it lies.
pub fn level<'a>(
    frame: &Frame,
    y: f64,
    (lo, hi): (f64, f64),
    panels: impl IntoIterator<Item = &'a mut Panel>,
) -> String {
    if (hi - lo) < 0.4 * (hi.max(y) - lo.min(y)) {
        let side = if y < lo { "below" } else { "above" };
        return format!("The corpus's own cost, {y:.3} {}, lies {side} the picture.", frame.unit.words());
    }
    for panel in panels {
        panel.references.push(Reference { label: format!("corpus's own cost ({y:.3})"), y });
    }
    String::new()
}

/// What was left out because a picture has no room for it; empty where nothing was.
pub fn no_room(lines: usize) -> String {
    match lines {
        0 => String::new(),
        n => format!("{} with higher losses found no room here; see summary.csv.", several(n, "setting")),
    }
}
