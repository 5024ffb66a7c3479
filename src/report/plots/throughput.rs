//! `throughput`: trained tokens per second over layers and over batch; over other settings that speed depends on where
//! neither varies. A line for each setting of all other axes, as pictures of losses have them: what is pooled unseen makes
//! a median between the clumps that nobody measured. Only where these are too many for a panel are axes pooled that make
//! no difference, and the note names them.

use super::{
    super::{
        figure::{Axis, Category, Figure, Forest, Ink, MAX_LINES, MAX_ROWS, Panel, Scale},
        frame::{Frame, Run, Setting},
        names,
        numbers::{self, several},
        pace,
    },
    Plot, notes,
    over::{Over, share_range},
};

/// Settings that a step's time may depend on.
const MATTERS: [&str; 9] = [
    "model.",
    "run.device",
    "run.engine",
    "train.batch",
    "train.grad_accum",
    "train.dtype",
    "data.tokenizer",
    "data.corpus",
    "train.optimizer",
];

/// A deviation of speed that counts as noise however little seeds scatter: from one run to the next a machine's pace
/// changes by as much.
const NOISE: f64 = 0.03;

/// Training throughput.
pub struct Throughput;

impl Plot for Throughput {
    fn name(&self) -> &str {
        "throughput"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let value = |run: &Run| run.tokens_per_second();
        if frame.base.is_some() {
            return around_base(frame, &matters(frame));
        }
        let Drawn { over, idle } = drawn(frame);
        let mut charts = Vec::new();
        for &x in &over {
            let others =
                (0..frame.axes.len()).filter(|&a| a != x && !frame.is_tied(a, x) && !idle.contains(&a)).collect();
            let chart =
                Over { frame, x, others, value: &value, center: numbers::median, mark_any: false }.chart(&y_axis());
            if chart.places > 1 {
                charts.push(chart);
            }
        }
        let (n, pooled) = charts.first().map(|c| (c.n.clone(), c.pooled))?;
        let left_out = charts.iter().map(|c| c.left_out).max().unwrap_or(0);
        let mut rows: Vec<Vec<Panel>> = match charts.iter().all(|c| c.panels.len() == 1) {
            true => vec![charts.into_iter().flat_map(|c| c.panels).collect()],
            false => charts.into_iter().flat_map(|c| super::arrange(c.panels)).collect(),
        };
        from_zero(&mut rows);
        let words = rows.iter().flatten().any(|p| matches!(p.x.scale, Scale::Words(_)));
        let band = if words { "bar" } else { "band" };
        let point = if pooled {
            let over = if idle.is_empty() { "seeds" } else { "runs" };
            format!(
                "Point: median over {over} ({n}) of the median step; {band}: slowest to fastest run; dots: single runs."
            )
        } else {
            "Point: the median step of one run.".to_owned()
        };
        let first = format!("{} {point}", notes::experiment(frame));
        let pooled = match idle.iter().map(|&a| frame.axes[a].name.as_str()).collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            [one] => format!("Pooled, since it makes no difference to speed beyond noise: {one}."),
            names => format!("Pooled, since they make no difference to speed beyond noise: {}.", names.join(", ")),
        };
        let no_room = match left_out {
            0 => String::new(),
            n => format!("{} with higher throughput found no room here; see summary.csv.", several(n, "setting")),
        };
        Some(Figure { title: headline(frame), rows, forest: None, notes: below(frame, first, [pooled, no_room]) })
    }
}

/// Over which axes speed is drawn, and which are pooled.
pub struct Drawn {
    /// To the right.
    pub over: Vec<usize>,
    /// Without a line for each of their values.
    pub idle: Vec<usize>,
}

/// What pictures of speed draw.
pub fn drawn(frame: &Frame) -> Drawn {
    let matters = matters(frame);
    let over = over(frame, &matters);
    let others =
        |x: usize| -> Vec<usize> { (0..frame.axes.len()).filter(|&a| a != x && !frame.is_tied(a, x)).collect() };
    let is_crowded = over.iter().any(|&x| frame.group(&others(x)).len() > MAX_LINES);
    let is_pooled = |a: &usize| is_crowded && !over.contains(a) && is_idle(frame, &matters, *a);
    let idle = (0..frame.axes.len()).filter(is_pooled).collect();
    Drawn { over, idle }
}

/// The axes that a step's time may depend on.
fn matters(frame: &Frame) -> Vec<usize> {
    (0..frame.axes.len()).filter(|&a| MATTERS.iter().any(|m| frame.axes[a].path.starts_with(m))).collect()
}

fn headline(frame: &Frame) -> String {
    let on: Vec<String> = frame.slots.iter().map(ToString::to_string).collect();
    format!("Training throughput on {}", on.join(" and on "))
}

/// The notes, after the first: on what steps were timed, and what is not shown.
fn below(frame: &Frame, first: String, [pooled, no_room]: [String; 2]) -> Vec<String> {
    let timed = format!(
        "Steps on {}; of each attempt the first tenth (20 steps at most) is left out as warm-up.",
        pace::words(&frame.slots)
    );
    let missing = match frame.runs.iter().filter(|r| r.tokens_per_second().is_none()).count() {
        0 => String::new(),
        1 => "1 run has no step on this slot.".to_owned(),
        n => format!("{n} runs have no step on this slot."),
    };
    let all = [first, timed, missing, pooled, no_room];
    all.into_iter().filter(|n| !n.is_empty()).collect()
}

/// A row for each setting, where they lie around a base.
fn around_base(frame: &Frame, matters: &[usize]) -> Option<Figure> {
    if matters.is_empty() {
        return None;
    }
    let timed = |s: &Setting| s.runs.iter().filter_map(|r| r.tokens_per_second()).collect::<Vec<f64>>();
    let all: Vec<(Setting, Vec<f64>)> = frame
        .settings()
        .into_iter()
        .map(|s| {
            let values = timed(&s);
            (s, values)
        })
        .collect();
    let found: Vec<_> = all.iter().filter(|(_, values)| !values.is_empty()).collect();
    if found.len() < 2 {
        return None;
    }
    let shown = &found[..found.len().min(MAX_ROWS)];
    let is_base = |s: &Setting| frame.base.as_ref() == Some(&s.at);
    let base = shown.iter().find(|(s, _)| is_base(s)).map(|(_, values)| values.as_slice());
    let row = |(setting, values): &&(Setting, Vec<f64>)| {
        let median = numbers::median(values);
        let times = match base {
            Some(base) if !is_base(setting) => format!("× {:.2}", median / numbers::median(base)),
            _ => String::new(),
        };
        Category {
            label: names::name(frame, &setting.at),
            ink: if is_base(setting) { Ink::Neutral } else { Ink::Color(0) },
            center: median,
            bar: (values.len() > 1).then(|| numbers::extent(values)),
            dots: if values.len() > 1 { values.clone() } else { Vec::new() },
            cells: vec![numbers::rounded(median), times],
            is_head: is_base(setting),
        }
    };
    let mut forest = Forest {
        x: Axis::new("tokens per second", Scale::Linear),
        level: base.map(|values| (numbers::median(values), numbers::extent(values))),
        columns: vec!["median".to_owned(), "against base".to_owned()],
        rows: shown.iter().map(row).collect(),
        legend: Vec::new(),
    };
    let most = forest.xs().fold(0.0, f64::max);
    forest.x.range = Some((0.0, most * 1.06));
    let reading = "Point: median over runs of the median step; bar: slowest to fastest run; line and area: the base's.";
    let first = format!("{} {} {reading}", notes::experiment(frame), names::legend(frame));
    let no_room = match found.len() - shown.len() {
        0 => String::new(),
        n => format!("{} found no room here; see summary.csv.", several(n, "setting")),
    };
    Some(Figure {
        title: headline(frame),
        rows: Vec::new(),
        forest: Some(forest),
        notes: below(frame, first, [String::new(), no_room]),
    })
}

/// The axes to draw over: layers and batch, else the first two that matter.
fn over(frame: &Frame, matters: &[usize]) -> Vec<usize> {
    let main: Vec<usize> = ["model.layers", "train.batch"].iter().filter_map(|p| frame.axis(p)).collect();
    if main.is_empty() { matters.iter().copied().take(2).collect() } else { main }
}

/// Whether speed depends on an axis no more than on chance: over its values, all else equal that may matter, the logarithm
/// of the speed typically deviates by no more than twice what it does over seeds.
fn is_idle(frame: &Frame, matters: &[usize], axis: usize) -> bool {
    let speed = |runs: &[&Run]| runs.iter().filter_map(|r| Some(r.tokens_per_second()?.ln())).collect::<Vec<f64>>();
    let all: Vec<usize> = (0..frame.axes.len()).collect();
    let over_seeds = typical(frame.group(&all).values().map(|runs| speed(runs)));
    let rest: Vec<usize> = matters.iter().copied().filter(|&a| a != axis).collect();
    let of_each_value = |runs: &Vec<&Run>| -> Vec<f64> {
        let at = |value| runs.iter().copied().filter(|r| r.at[axis] == value).collect::<Vec<&Run>>();
        let speeds = (0..frame.axes[axis].values.len()).map(|value| speed(&at(value)));
        speeds.filter(|s| !s.is_empty()).map(|s| numbers::median(&s)).collect()
    };
    let over_values = typical(frame.group(&rest).values().map(of_each_value));
    over_values.is_some_and(|deviation| deviation <= NOISE.max(2.0 * over_seeds.unwrap_or(0.0)))
}

/// The median of the standard deviations of groups, of those that have two values and more.
fn typical(groups: impl Iterator<Item = Vec<f64>>) -> Option<f64> {
    let deviations: Vec<f64> = groups.filter_map(|values| numbers::deviation(&values)).collect();
    (!deviations.is_empty()).then(|| numbers::median(&deviations))
}

fn y_axis() -> Axis {
    Axis::new("tokens per second", Scale::Linear)
}

/// One range for all panels: from zero, or logarithmic where values are too far apart for that.
fn from_zero(rows: &mut [Vec<Panel>]) {
    let ys: Vec<f64> =
        rows.iter().flatten().flat_map(|p| p.ys().collect::<Vec<_>>()).filter(|v| v.is_finite()).collect();
    let (lo, hi) = numbers::extent(&ys);
    let log = hi > lo * 30.0;
    let mut panels: Vec<Panel> = rows.iter().flatten().cloned().collect();
    if log {
        panels.iter_mut().for_each(|p| p.y = Axis::new("tokens per second (log scale)", Scale::Log));
        share_range(&mut panels);
    } else {
        panels.iter_mut().for_each(|p| p.y.range = Some((0.0, hi * 1.06)));
    }
    let mut panels = panels.into_iter();
    rows.iter_mut().flatten().zip(&mut panels).for_each(|(old, new)| *old = new);
}
