//! `ablation`: settings that lie around a base, one row each: what they do to the loss, and what they cost.

use super::{
    super::{
        figure::{Axis, Category, Figure, Forest, Ink, MAX_ROWS, Mark, Scale},
        frame::{Frame, Run, Setting},
        names, numbers, pace,
        star::{self, Change},
        welch::Difference,
    },
    Plot, notes,
};

/// How far apart, as a ratio, the step times of one setting may be without a word.
const UNSTEADY: f64 = 1.15;

/// Colours by what a change does to the loss.
const LOWER: Ink = Ink::Color(0);
const HIGHER: Ink = Ink::Color(1);
const OPEN: Ink = Ink::Neutral;

/// What each change from the base does.
pub struct Ablation;

impl Plot for Ablation {
    fn name(&self) -> &str {
        "ablation"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let all = star::changes(frame)?;
        let (found, lost): (Vec<&Change>, Vec<&Change>) = all.iter().partition(|c| !c.losses.is_empty());
        if found.len() < 2 {
            return None;
        }
        let shown = &found[..found.len().min(MAX_ROWS)];
        let digits = star::digits(&all);
        let base = found.first().filter(|c| c.axes == 0).map(|c| c.losses.as_slice());
        let columns = [
            format!("loss ({})", if frame.seeds() > 1 { "mean" } else { "best" }),
            "difference to base".to_owned(),
            "parameters".to_owned(),
            "FLOPs per token".to_owned(),
            "ms per step".to_owned(),
        ];
        let forest = Forest {
            x: Axis::new(format!("best validation loss ({})", frame.unit.words()), Scale::Linear),
            level: base.map(|losses| (numbers::mean(losses), numbers::extent(losses))),
            columns: columns.to_vec(),
            rows: shown.iter().map(|c| row(frame, c, digits)).collect(),
            legend: legend(shown),
        };
        let notes = vec![
            format!("{} {}", notes::experiment(frame), names::legend(frame)),
            reading(shown, base.is_some()),
            cost(frame, shown),
            without(frame, &lost),
            notes::no_room(found.len() - shown.len()),
        ];
        let equal = frame.axis("train.steps").is_none() && frame.runs.len() > 1;
        let steps = frame.runs.first().map(|r| numbers::number(r.row.config.train.steps as f64)).unwrap_or_default();
        let title = match equal {
            true => format!("What each change does to the loss after {steps} steps"),
            false => "What each change does to the loss".to_owned(),
        };
        let notes = notes.into_iter().filter(|n| !n.is_empty()).collect();
        Some(Figure { title, rows: Vec::new(), forest: Some(forest), notes })
    }
}

fn row(frame: &Frame, change: &Change, digits: usize) -> Category {
    let Change { setting, losses, from_base, .. } = change;
    let ready = setting.runs.iter().find_map(|r| r.row.ready.as_ref());
    let dash = || "–".to_owned();
    let times = step_times(setting);
    let is_base = change.axes == 0;
    Category {
        label: names::name(frame, &setting.at),
        ink: ink(*from_base),
        center: numbers::mean(losses),
        bar: (losses.len() > 1).then(|| numbers::extent(losses)),
        dots: if losses.len() > 1 { losses.clone() } else { Vec::new() },
        cells: vec![
            numbers::loss(numbers::mean(losses)),
            from_base.map_or_else(|| if is_base { String::new() } else { dash() }, |d| star::signed(d, digits)),
            ready.map_or_else(dash, |r| numbers::count(r.params)),
            ready.map_or_else(dash, |r| numbers::count(r.flops_per_token as u64)),
            if times.is_empty() { dash() } else { numbers::rounded(numbers::median(&times)) },
        ],
        is_head: is_base,
    }
}

fn ink(from_base: Option<Difference>) -> Ink {
    match from_base.and_then(|d| Some((d.mean < 0.0, d.is_beyond_chance()?))) {
        Some((true, true)) => LOWER,
        Some((false, true)) => HIGHER,
        _ => OPEN,
    }
}

fn step_times(setting: &Setting) -> Vec<f64> {
    setting.runs.iter().filter_map(|r: &&Run| r.step_time).collect()
}

/// What the colours mean; nothing where there is but one.
fn legend(shown: &[&Change]) -> Vec<Mark> {
    let judged = || shown.iter().filter(|c| c.from_base.is_some_and(|d| d.half.is_some()));
    let has = |wanted: Ink| judged().any(|c| ink(c.from_base) == wanted);
    let all = [
        (LOWER, "lower than the base"),
        (HIGHER, "higher than the base"),
        (OPEN, "no difference that seeds would not make"),
    ];
    let used = all.into_iter().filter(|(ink, _)| has(*ink));
    used.map(|(ink, label)| Mark { ink, label: label.to_owned() }).collect()
}

/// How the picture is to be read.
fn reading(shown: &[&Change], has_level: bool) -> String {
    let counts: Vec<f64> = shown.iter().map(|c| c.losses.len() as f64).collect();
    let (lo, hi) = numbers::extent(&counts);
    if hi < 2.0 {
        let line = if has_level { "; line: the base" } else { "" };
        return format!("One seed: each point is one run{line}. How far losses scatter by chance is not known.");
    }
    let n = if lo == hi { format!("n = {lo}") } else { format!("n = {lo} to {hi}") };
    let line = if has_level { "; line and area: the base's" } else { "" };
    let judged = shown.iter().any(|c| c.from_base.is_some_and(|d| d.half.is_some()));
    let half = if judged { " ±: the 95 % confidence interval of the difference (Welch's t)." } else { "" };
    format!("Point: mean over seeds ({n}); bar: lowest to highest seed; dots: single runs{line}.{half}")
}

/// On what steps were timed, and whether that was steady.
fn cost(frame: &Frame, shown: &[&Change]) -> String {
    let spread = |c: &&Change| {
        let (lo, hi) = numbers::extent(&step_times(&c.setting));
        hi / lo
    };
    let most = shown.iter().map(spread).filter(|r| r.is_finite()).fold(1.0, f64::max);
    if frame.slots.is_empty() {
        return String::new();
    }
    let runs = if frame.seeds() > 1 { "the median over runs of " } else { "" };
    let unsteady = match most {
        ..=UNSTEADY => String::new(),
        _ => format!(
            "; runs of one setting differ by up to {:.0} %, so that smaller differences mean nothing",
            (most - 1.0) * 100.0
        ),
    };
    format!("ms per step: {runs}the median step on {}{unsteady}.", pace::words(&frame.slots))
}

/// Which runs have no result, why, and which settings are not in the picture for that.
fn without(frame: &Frame, lost: &[&Change]) -> String {
    let (n, why) = notes::no_result(frame);
    if n == 0 {
        return String::new();
    }
    let names: Vec<String> = lost.iter().map(|c| names::name(frame, &c.setting.at)).collect();
    let rows = if names.is_empty() { String::new() } else { format!(" Without any result: {}.", names.join("; ")) };
    format!("{n} of {} left out: {why}.{rows}", numbers::several(frame.runs.len(), "run"))
}
