//! `summary.md`, for people: what was found, the pictures, a table. `summary.csv`, for programs: a row for each run.

use std::fmt::Write as _;

use super::{
    figure::Figure,
    findings,
    frame::{Frame, Run, Setting, Unit},
    numbers::{self, mean, median, several},
    pace::{self, Slot},
    plots,
};
use crate::{base::num, event::RunState};

/// Failures that are told one by one.
const MAX_FAILURES: usize = 30;

/// The page. `figures`: file names and what they show, in order.
pub fn markdown(frame: &Frame, figures: &[(String, Figure)]) -> String {
    let mut out = format!("# {}\n\n{}\n\n", escaped(&frame.experiment), findings::paragraph(frame));
    for (file, figure) in figures {
        let _ = writeln!(out, "![{}]({file})\n", figure.title);
    }
    out += "## Results\n\n";
    out += &table(frame);
    out += &failures(frame);
    out
}

/// A column of the table: its head, and what stands in it for a setting.
struct Column<'a> {
    head: String,
    cell: Box<dyn Fn(&Setting) -> String + 'a>,
}

/// One row for each setting, with means over seeds; without seeds that is one row for each run.
fn table(frame: &Frame) -> String {
    let slots = pace::common(frame);
    let columns = columns(frame, &slots);
    let mut out = String::new();
    let mut row = |cells: Vec<String>| {
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    row(columns.iter().map(|c| c.head.clone()).collect());
    row(columns.iter().map(|_| "---".to_owned()).collect());
    for setting in frame.settings() {
        row(columns.iter().map(|c| (c.cell)(&setting)).collect());
    }
    let mut notes = Vec::new();
    if frame.seeds() > 1 {
        notes.push("Losses: mean ± standard deviation over the seeds that are done.".to_owned());
    }
    if !slots.is_empty() {
        notes.push(format!("Speed: the median step on {}.", pace::words(&slots)));
    }
    let notes = notes.join(" ");
    if notes.is_empty() { out } else { format!("{out}\n{}\n", escaped(&notes)) }
}

fn columns<'a>(frame: &'a Frame, slots: &'a [Slot]) -> Vec<Column<'a>> {
    let column = |head: &str, cell: Box<dyn Fn(&Setting) -> String + 'a>| Column { head: head.to_owned(), cell };
    let losses = |s: &Setting| -> Vec<f64> { s.runs.iter().filter_map(|r| frame.result(r).ok()).collect() };
    let steps = |s: &Setting| -> Vec<f64> { s.runs.iter().filter_map(|r| pace::step_ms(r, slots)).collect() };
    let one_or_more = |values: Vec<f64>, say: &dyn Fn(&[f64]) -> String| match values.as_slice() {
        [] => "–".to_owned(),
        values => say(values),
    };
    let mut all = Vec::new();
    if frame.seeds() == 1 {
        all.push(column("run", Box::new(|s| format!("`{}`", s.runs[0].name))));
    }
    for (i, axis) in frame.axes.iter().enumerate() {
        all.push(column(&axis.name, Box::new(move |s| escaped(&numbers::value(&axis.values[s.at[i]])))));
    }
    if frame.seeds() > 1 {
        all.push(column("seeds", Box::new(move |s| format!("{}", s.runs.len()))));
    }
    all.push(column(
        "parameters",
        Box::new(|s| {
            let params = s.runs.iter().find_map(|r| r.row.ready.as_ref()).map(|r| r.params);
            params.map_or("–".to_owned(), numbers::count)
        }),
    ));
    let head = format!("best val loss ({})", frame.unit.words());
    all.push(column(&head, Box::new(move |s| one_or_more(losses(s), &numbers::with_spread))));
    all.push(column(
        "at step",
        Box::new(move |s| {
            let best = s.runs.iter().filter(|r| frame.result(r).is_ok()).filter_map(|r| r.row.best);
            one_or_more(best.map(|(step, _)| step as f64).collect(), &|steps| {
                let (lo, hi) = numbers::extent(steps);
                if lo == hi {
                    numbers::number(lo)
                } else {
                    format!("{} to {}", numbers::number(lo), numbers::number(hi))
                }
            })
        }),
    ));
    if frame.unit != Unit::BitsPerChar {
        all.push(column(
            "bits per char",
            Box::new(move |s| {
                let runs = s.runs.iter().filter(|r| frame.result(r).is_ok());
                let bits = runs.filter_map(|r| r.bits_per_char(r.row.best?.1)).collect();
                one_or_more(bits, &|bits| format!("{:.3}", mean(bits)))
            }),
        ));
    }
    all.push(column(
        "tokens/s",
        Box::new(move |s| {
            one_or_more(steps(s), &|ms| numbers::rounded(pace::tokens_per_second(s.runs[0], median(ms))))
        }),
    ));
    all.push(column("ms/step", Box::new(move |s| one_or_more(steps(s), &|ms| numbers::rounded(median(ms))))));
    all.push(column("state", Box::new(|s| states(&s.runs))));
    all
}

/// `done`; `2 done, 1 failed`; `interrupted at step 120 of 500`.
fn states(runs: &[&Run]) -> String {
    if let [run] = runs {
        let steps = run.row.config.train.steps;
        return match &run.row.state {
            state @ (RunState::Running { .. } | RunState::Interrupted { .. }) => {
                format!("{} at step {} of {steps}", state.word(), run.row.step)
            }
            state => state.word().to_owned(),
        };
    }
    let mut words: Vec<(&str, usize)> = Vec::new();
    for word in runs.iter().map(|r| r.row.state.word()) {
        match words.iter_mut().find(|w| w.0 == word) {
            Some(found) => found.1 += 1,
            None => words.push((word, 1)),
        }
    }
    match words.as_slice() {
        [(word, _)] => (*word).to_owned(),
        words => words.iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", "),
    }
}

/// The runs that failed, with why; nothing where none has.
fn failures(frame: &Frame) -> String {
    let failed: Vec<&Run> = frame.runs.iter().filter(|r| r.row.state.why().is_some()).collect();
    if failed.is_empty() {
        return String::new();
    }
    let mut out = format!("\n## {}\n\n", several(failed.len(), "run without a result").replace("resultss", "results"));
    for run in failed.iter().take(MAX_FAILURES) {
        let mut place: Vec<String> = frame.axes.iter().zip(&run.at).map(|(axis, &v)| plots::setting(axis, v)).collect();
        if frame.seeds() > 1 {
            place.push(format!("seed {}", run.row.config.train.seed));
        }
        let place = if place.is_empty() { String::new() } else { format!(" ({})", escaped(&place.join(", "))) };
        let why = run.row.state.why().unwrap_or_default();
        let _ = writeln!(out, "- `{}`{place} {}: {}", run.name, run.row.state.word(), escaped(why));
    }
    if failed.len() > MAX_FAILURES {
        let _ = writeln!(out, "- and {} more: see summary.csv", failed.len() - MAX_FAILURES);
    }
    out
}

/// Text that Markdown takes for text, in one line.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match letter {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', letter]),
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            _ => out.push(letter),
        }
    }
    out
}

/// One row for each run, in the order of the grid. Losses are as stored, in nats per token.
pub fn csv(frame: &Frame) -> String {
    let seeds = frame.seeds() > 1;
    let swept: Vec<&str> = frame.axes.iter().map(|a| a.path.as_str()).chain(seeds.then_some("train.seed")).collect();
    let tail = "params,steps,best_val_loss,best_step,last_val_loss,bits_per_char,tokens_per_second,step_ms,attempts";
    let mut out = String::new();
    let mut row = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|c| quoted(c)).collect();
        let _ = writeln!(out, "{}", cells.join(","));
    };
    row(["id", "state"].into_iter().chain(swept.iter().copied()).chain(tail.split(',')).map(str::to_owned).collect());
    for run in &frame.runs {
        let r = &run.row;
        let mut cells = vec![r.id.to_string(), r.state.word().to_owned()];
        cells.extend(swept.iter().map(|path| run.leaves.get(*path).map_or(String::new(), raw)));
        cells.push(r.ready.as_ref().map_or(String::new(), |ready| ready.params.to_string()));
        cells.push(r.step.to_string());
        cells.push(float(r.best.map(|b| b.1)));
        cells.push(r.best.map_or(String::new(), |b| b.0.to_string()));
        cells.push(float(r.last_val_loss));
        cells.push(float(r.best.and_then(|b| run.bits_per_char(b.1))));
        cells.push(float(r.tokens_per_second));
        cells.push(float(r.tokens_per_second.map(|t| r.config.tokens_per_step() as f64 / t * 1000.0)));
        cells.push(r.attempts.to_string());
        row(cells);
    }
    out
}

/// A leaf as it is, without quotes.
fn raw(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// All digits of a number, the word for what is not finite, nothing for nothing.
fn float(x: Option<f64>) -> String {
    x.map_or(String::new(), |x| num::word(x).map_or_else(|| x.to_string(), str::to_owned))
}

/// A cell of a CSV file (RFC 4180).
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
