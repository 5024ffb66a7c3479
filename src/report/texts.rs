//! The section of the page with what the models wrote.

use std::fmt::Write as _;

use super::{
    frame::{Frame, Run, Setting},
    markdown::escaped,
    names,
};

/// Characters of a text that are shown; its file has all.
const LENGTH: usize = 2000;

/// Settings whose last text is shown.
const SETTINGS: usize = 8;

/// Earlier texts of the best run that are shown, to see how it learnt to write.
const EARLIER: usize = 4;

/// The section; empty where nothing was written.
pub fn section(frame: &Frame) -> String {
    let settings = frame.settings();
    let writers: Vec<&Run> = settings.iter().filter_map(|setting| writer(frame, setting)).collect();
    let Some(best) = lowest(frame, &writers) else { return String::new() };
    let mut out = "\n## What the models wrote\n\n".to_owned();
    if frame.seeds() > 1 {
        out += "Of the seeds of a setting, the one with the lowest validation loss is shown.\n\n";
    }
    for run in writers.iter().take(SETTINGS) {
        show(&mut out, frame, run, run.samples.last());
    }
    if writers.len() > SETTINGS {
        let _ = writeln!(
            out,
            "The texts of {} more settings lie in the folders of their runs.\n",
            writers.len() - SETTINGS
        );
    }
    let earlier = &best.samples[..best.samples.len() - 1];
    if !earlier.is_empty() {
        let _ = writeln!(out, "### How run `{}` came to write\n", best.name);
        // The first and the last of them, and some between.
        let count = earlier.len().min(EARLIER);
        for i in 0..count {
            show(&mut out, frame, best, earlier.get(i * (earlier.len() - 1) / (count - 1).max(1)));
        }
    }
    out
}

/// Of a setting's runs that wrote, the best.
fn writer<'a>(frame: &Frame, setting: &Setting<'a>) -> Option<&'a Run> {
    let wrote: Vec<&Run> = setting.runs.iter().copied().filter(|run| !run.samples.is_empty()).collect();
    lowest(frame, &wrote)
}

/// The run with the lowest loss; those without a result come last.
fn lowest<'a>(frame: &Frame, runs: &[&'a Run]) -> Option<&'a Run> {
    let loss = |run: &Run| frame.result(run).unwrap_or(f64::INFINITY);
    runs.iter().copied().min_by(|a, b| loss(a).total_cmp(&loss(b)))
}

/// A text with its run and step above it.
fn show(out: &mut String, frame: &Frame, run: &Run, sample: Option<&(u64, String)>) {
    let Some((step, text)) = sample else { return };
    let place = names::place(frame, run);
    let place = if place.is_empty() { String::new() } else { format!("{}, ", escaped(&place)) };
    let shown = text.char_indices().nth(LENGTH).map_or(text.as_str(), |(end, _)| &text[..end]);
    let more = if shown.len() < text.len() { " …" } else { "" };
    // A fence that the text does not have.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let _ = writeln!(
        out,
        "{place}run `{}`, step {step}:\n\n{fence}text\n{}\n{fence}\n",
        run.name,
        format_args!("{}{more}", shown.trim_end_matches('\n'))
    );
}
