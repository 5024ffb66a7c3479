//! Sentences on what a sweep costs and where it breaks: compute, step time, what matters most, overfitting, lost runs. Each
//! is said only where the rows support it, and with the method where a number has several.

use serde_json::Value;

use super::{
    curves::{Curves, Spread},
    fit::fit,
    frame::{Frame, LeftOut, Run},
    front::{Bought, bought},
    importance::importance,
    markdown::escaped,
    names::{self, setting},
    numbers::{median, number, rounded, with_spread},
    plots::{End, generalisation, title, unit},
};

/// Fits worse than this are no straight line.
const STRAIGHT: f64 = 0.95;

/// Axes that a sentence on importance names.
const MAX_NAMED: usize = 4;

/// All that there is to say, around the best setting.
pub fn all(frame: &Frame, best: &[usize]) -> Vec<String> {
    let slopes = ["model.layers", "train.batch"].iter().filter_map(|path| slope(frame, path, best));
    let rest = [compute(frame), matters(frame), overfits(frame, best)];
    slopes.chain(rest.into_iter().flatten()).chain(lost(frame)).collect()
}

/// `A layer more takes 5.52 ms a step`: over one axis where all others stay at the best setting's values.
fn slope(frame: &Frame, path: &str, best: &[usize]) -> Option<String> {
    let axis = frame.axis(path).filter(|_| frame.base.is_none())?;
    let values = frame.axes[axis].numbers()?;
    let is_held = |a: usize| a != axis && !frame.is_tied(a, axis);
    let on_line = |run: &&Run| (0..frame.axes.len()).all(|a| !is_held(a) || run.at[a] == best[a]);
    let at = |value: usize| {
        let times: Vec<f64> =
            frame.runs.iter().filter(on_line).filter(|r| r.at[axis] == value).filter_map(|r| r.step_time).collect();
        (!times.is_empty()).then(|| (values[value], median(&times)))
    };
    let points: Vec<(f64, f64)> = (0..values.len()).filter_map(at).collect();
    let line = fit(&points).filter(|line| line.r2 >= STRAIGHT)?;
    let (first, last) = (points.first()?.0, points.last()?.0);
    Some(format!(
        "One {} more takes {} ms a step (straight line through the medians from {} to {}, R² {:.3}).",
        unit(path, title(&frame.axes[axis]).0),
        rounded(line.slope),
        number(first),
        number(last),
        line.r2
    ))
}

/// What the cheapest and the dearest setting of the Pareto front reach.
fn compute(frame: &Frame) -> Option<String> {
    let all = bought(frame);
    let front: Vec<&Bought> = all.iter().filter(|b| b.on_front).collect();
    let (first, last) = (front.first()?, front.last()?);
    let name = |b: &Bought| escaped(&names::name(frame, &b.setting.at));
    if front.len() < 2 {
        return Some(format!(
            "{} reaches the lowest loss at the least compute too: no setting that took more gained by it.",
            name(first)
        ));
    }
    Some(format!(
        "{} of {} settings are on the Pareto front of loss and training compute: from {} with {} at {} FLOPs to {} with \
         {} at {:.1} times that.",
        front.len(),
        all.len(),
        with_spread(&first.losses),
        name(first),
        number(format!("{:.2e}", first.flops).parse().unwrap_or(first.flops)),
        with_spread(&last.losses),
        name(last),
        last.flops / first.flops
    ))
}

/// What the loss depends on most.
fn matters(frame: &Frame) -> Option<String> {
    if frame.base.is_some() {
        return None;
    }
    let found = importance(frame)?;
    // Those that have a result were chosen by it, and what is left of the grid would be taken for the grid.
    if found.together.is_none() && frame.runs.iter().any(|run| run.left_out() == Some(LeftOut::Paused)) {
        return None;
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let parts: Vec<String> = found
        .effects
        .iter()
        .take(MAX_NAMED)
        .map(|e| format!("{} {}", escaped(title(&frame.axes[e.axis]).0), percent(e.share)))
        .collect();
    let method = match found.together {
        Some(share) => {
            format!("main effects of a full factorial, ANOVA; {} is left to what axes do together", percent(share))
        }
        None => {
            "main effects, one axis at a time; the settings with a result are no full grid, so shares need not add up"
                .to_owned()
        }
    };
    let seeds = match found.seeds {
        Some(share) => format!("; between runs, seeds make {}", percent(share)),
        None => String::new(),
    };
    Some(format!("Of the variance of the loss between settings: {} ({method}{seeds}).", parts.join(", ")))
}

/// Whether the best setting was better before its end, and how far apart its two losses were then.
fn overfits(frame: &Frame, best: &[usize]) -> Option<String> {
    let settings = frame.settings();
    let curves = Curves::of(frame, settings.iter().find(|s| s.at == best)?)?;
    let at = generalisation::at_best(&curves)?;
    let end = curves.val().last()?;
    let lowest = curves.val().iter().find(|s| s.step == at.step)?;
    let name = Some(names::name(frame, best)).filter(|n| !n.is_empty());
    let of = name.map_or_else(String::new, |name| format!(" of {}", escaped(&name)));
    let gap = format!("{:.3} {} the training loss", at.mean.abs(), if at.mean < 0.0 { "below" } else { "above" });
    let rise = end.mean - lowest.mean;
    if lowest.step == end.step || !end.mean.is_finite() || rise < 1e-3 {
        return Some(format!("The validation loss{of} is lowest at or near the end, {gap} there: no overfitting yet."));
    }
    let (step, last) = (number(at.step as f64), number(end.step as f64));
    let verdict = match rise > 2.0 * unrest(curves.val()) {
        true => "beyond that step it overfits",
        false => "no more than it goes up and down anyway, and no sign of overfitting",
    };
    Some(format!(
        "The validation loss{of} is lowest at step {step} of {last}, {gap}, and {rise:.3} higher in the end: {verdict}."
    ))
}

/// How far a curve goes up or down from one evaluation to the next, over its later half: the median.
fn unrest(curve: &[Spread]) -> f64 {
    let later = &curve[curve.len() / 2..];
    let jumps: Vec<f64> = later.windows(2).map(|pair| (pair[1].mean - pair[0].mean).abs()).collect();
    if jumps.is_empty() { 0.0 } else { median(&jumps) }
}

/// The values of which no run came to an end. Those that pause could, and are another story.
fn lost(frame: &Frame) -> Vec<String> {
    let is_lost = |run: &&Run| !matches!(End::of(frame, run), End::Done | End::Unfinished | End::Paused);
    let mut out = Vec::new();
    for (axis, swept) in frame.axes.iter().enumerate() {
        for (at, runs) in frame.group(&[axis]) {
            let gone: Vec<&Run> = runs.iter().copied().filter(is_lost).collect();
            if runs.len() > 1 && gone.len() == runs.len() && gone.len() < frame.runs.len() {
                let mut ends: Vec<&str> = gone.iter().map(|run| End::of(frame, run).words()).collect();
                ends.sort_unstable();
                ends.dedup();
                let with = escaped(&setting(swept, at[0]));
                out.push(format!(
                    "No run with {with} came to an end: all {} were lost ({}).",
                    gone.len(),
                    ends.join(", ")
                ));
            }
        }
    }
    out
}

/// Settings by which a step takes longer or not; those of the others that do so do it by chance.
fn decides_speed(path: &str) -> bool {
    const OF_TRAINING: [&str; 4] = ["train.batch", "train.grad_accum", "train.optimizer", "train.dtype"];
    ["model.", "data.", "run."].iter().any(|group| path.starts_with(group)) || OF_TRAINING.contains(&path)
}

/// ` A step takes 1.9 times as long as with 4 layers.`: of one setting against another of this name; empty where the two are
/// about the same, or differ in nothing that a step's time depends on.
pub fn pace(runs: &[&Run], (other, others): (&str, &[&Run])) -> String {
    let is_same = |(path, value): (&String, &Value), other: &Run| {
        !decides_speed(path) || other.leaves.get(path).is_none_or(|there| there == value)
    };
    if runs.iter().zip(others).all(|(run, other)| run.leaves.iter().all(|leaf| is_same(leaf, other))) {
        return String::new();
    }
    let time = |runs: &[&Run]| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.step_time).collect();
        (!all.is_empty()).then(|| median(&all))
    };
    match time(runs).zip(time(others)).map(|(a, b)| a / b) {
        Some(ratio) if !(0.95..1.05).contains(&ratio) => {
            format!(" A step takes {} times as long as with {other}.", rounded(ratio))
        }
        _ => String::new(),
    }
}
