//! `summary.md`: what was found, the pictures, a table.

use std::fmt::Write as _;

use super::{
    figure::Figure,
    findings,
    frame::{Frame, LeftOut, Run, Setting, Unit},
    markdown::escaped,
    names,
    numbers::{self, extent, mean, median, number, several},
    pace, texts,
};
use crate::event::RunState;

/// Runs without a result that are told one by one.
const MAX_TOLD: usize = 30;

/// The page. `figures`: their names and what they show, in order; `ending`: that of their files.
pub fn page(frame: &Frame, figures: &[(String, Figure)], ending: &str) -> String {
    let mut out = format!("# {}\n\n{}\n", escaped(&frame.experiment), findings::text(frame));
    for (name, figure) in figures {
        let _ = writeln!(out, "![{}]({name}.{ending})\n", escaped(&figure.title));
    }
    out += "## Results\n\n";
    out += &table(frame);
    out += &without_result(frame);
    out += &texts::section(frame);
    out
}

/// One row for each setting, with means over seeds; without seeds that is one row for each run.
pub fn table(frame: &Frame) -> String {
    let rows: Vec<Vec<(String, String)>> = frame.settings().iter().map(|s| row(frame, s)).collect();
    let Some(first) = rows.first() else { return String::new() };
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(first.iter().map(|(head, _)| head.as_str()).collect());
    out += &line(vec!["---"; first.len()]);
    out.extend(rows.iter().map(|row| line(row.iter().map(|(_, cell)| cell.as_str()).collect())));
    let mut notes = Vec::new();
    if frame.seeds() > 1 {
        notes.push("Losses: mean ± standard deviation over the seeds that are done.".to_owned());
    }
    if !frame.slots.is_empty() {
        notes.push(format!("Speed: the median step on {}.", pace::words(&frame.slots)));
    }
    let notes = notes.join(" ");
    if notes.is_empty() { out } else { format!("{out}\n{}\n", escaped(&notes)) }
}

/// The cells of a setting, each with the head of its column.
fn row(frame: &Frame, setting: &Setting) -> Vec<(String, String)> {
    let runs = &setting.runs;
    let done: Vec<(f64, &Run)> = runs.iter().filter_map(|r| Some((frame.result(r).ok()?, *r))).collect();
    let of_done = |value: fn(f64, &Run) -> Option<f64>| done.iter().filter_map(|(l, r)| value(*l, r)).collect();
    let of_all = |value: fn(&Run) -> Option<f64>| runs.iter().filter_map(|r| value(r)).collect::<Vec<f64>>();
    let best_steps: Vec<f64> = of_done(|_, r| Some(r.row.best?.0 as f64));
    let bits: Vec<f64> = of_done(|_, r| r.bits_per_char(r.row.best?.1));
    let flops = runs.iter().find_map(|r| r.row.ready.as_ref()).map(|r| r.flops_per_token);
    let params = runs.iter().find_map(|r| r.row.ready.as_ref()).map(|r| r.params);

    let mut row: Vec<(String, String)> = Vec::new();
    let mut put = |head: &str, cell: String| row.push((head.to_owned(), cell));
    if frame.base.is_some() {
        put("setting", escaped(&names::name(frame, &setting.at)));
    }
    if frame.seeds() == 1 {
        put("run", format!("`{}`", runs[0].name));
    }
    for (axis, &value) in frame.axes.iter().zip(&setting.at) {
        put(&axis.name, escaped(&numbers::value(&axis.values[value])));
    }
    if frame.seeds() > 1 {
        put("seeds", runs.len().to_string());
    }
    put("parameters", params.map_or_else(|| "–".to_owned(), numbers::count));
    put("FLOPs/token", flops.map_or_else(|| "–".to_owned(), |flops| numbers::count(flops as u64)));
    put(&format!("best val loss ({})", frame.unit.words()), some(&of_done(|l, _| Some(l)), numbers::with_spread));
    put("at step", some(&best_steps, span));
    if frame.unit != Unit::BitsPerChar {
        put("bits per char", some(&bits, |bits| format!("{:.3}", mean(bits))));
    }
    put("tokens/s", some(&of_all(Run::tokens_per_second), |v| numbers::rounded(median(v))));
    put("ms/step", some(&of_all(|r| r.step_time), |v| numbers::rounded(median(v))));
    put("state", states(runs));
    row
}

/// What `say` makes of the values; a dash where there are none.
fn some(values: &[f64], say: impl Fn(&[f64]) -> String) -> String {
    if values.is_empty() { "–".to_owned() } else { say(values) }
}

/// `500`; `400 to 500`.
fn span(values: &[f64]) -> String {
    let (lo, hi) = extent(values);
    if lo == hi { number(lo) } else { format!("{} to {}", number(lo), number(hi)) }
}

/// `done`; `2 done, 1 failed`; `interrupted at step 120 of 500`.
fn states(runs: &[&Run]) -> String {
    let word = |run: &Run| if run.left_out() == Some(LeftOut::NotFinite) { "diverged" } else { run.row.state.word() };
    if let [run] = runs {
        let (step, steps) = (run.row.step, run.row.config.train.steps);
        let is_amid =
            matches!(run.row.state, RunState::Running { .. } | RunState::Interrupted { .. } | RunState::Paused { .. });
        return if is_amid { format!("{} at step {step} of {steps}", word(run)) } else { word(run).to_owned() };
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for word in runs.iter().map(|r| word(r)) {
        match counts.iter_mut().find(|c| c.0 == word) {
            Some(found) => found.1 += 1,
            None => counts.push((word, 1)),
        }
    }
    match counts.as_slice() {
        [(word, _)] => (*word).to_owned(),
        counts => counts.iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", "),
    }
}

/// The runs that ended without a result, with why; nothing where there are none.
pub fn without_result(frame: &Frame) -> String {
    let why = |run: &Run| match run.left_out()? {
        LeftOut::Failed(why) => Some(format!("failed: {why}")),
        LeftOut::Skipped(why) => Some(format!("skipped: {why}")),
        LeftOut::NotFinite => Some(format!("diverged: its last validation loss is {}", number(run.row.last_val_loss?))),
        LeftOut::Paused | LeftOut::Unfinished => None,
    };
    let ended: Vec<(&Run, String)> = frame.runs.iter().filter_map(|r| Some((r, why(r)?))).collect();
    if ended.is_empty() {
        return String::new();
    }
    let mut out = format!("\n## Without a result: {}\n\n", several(ended.len(), "run"));
    for (run, why) in ended.iter().take(MAX_TOLD) {
        let place = names::place(frame, run);
        let place = if place.is_empty() { String::new() } else { format!(" ({})", escaped(&place)) };
        let _ = writeln!(out, "- `{}`{place} {}", run.name, escaped(why));
    }
    if ended.len() > MAX_TOLD {
        let _ = writeln!(out, "- and {} more: see summary.csv", ended.len() - MAX_TOLD);
    }
    out
}
