//! `learning_curves`: training and validation loss over steps and over training time; `learning_curves_compute`: over tokens
//! and over FLOPs. A line for each setting.

use super::{
    super::{
        curves::{Curves, Spread},
        figure::{Axis, Figure, Gap, Ink, Line, Panel, Scale, Series},
        frame::Frame,
        names, numbers, pace, scale,
    },
    Plot,
    facets::{Facet, FacetLine, facets},
    notes,
    reach::Reach,
};

/// The share of a curve at its beginning that may lie above the picture.
const START: f64 = 0.05;

/// Values this many times apart are drawn on a logarithmic scale.
const RATIO_FOR_LOG: f64 = 30.0;

/// Marks of values that are no finite number that a panel has room for.
const MAX_MARKS: usize = 50;

/// Loss over what was spent.
pub enum LearningCurves {
    /// Over steps and over training time.
    Time,
    /// Over tokens and over FLOPs.
    Compute,
}

impl Plot for LearningCurves {
    fn name(&self) -> &str {
        match self {
            Self::Time => "learning_curves",
            Self::Compute => "learning_curves_compute",
        }
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let curves: Vec<Curves> = frame.settings().iter().filter_map(|s| Curves::of(frame, s)).collect();
        let last_step = |c: &Curves| c.val().iter().chain(c.train()).map(|s| s.step).max();
        if curves.iter().filter_map(last_step).max()? == 0 {
            return None; // evaluated once, without a step
        }
        let keys: Vec<_> = curves.iter().map(|c| c.at.clone()).collect();
        let lowest = |c: &Curves| c.val().iter().map(|s| s.mean).fold(f64::INFINITY, f64::min);
        let worth: Vec<f64> = curves.iter().map(lowest).collect();
        let axes: Vec<usize> = (0..frame.axes.len()).collect();
        let (facets, no_room) = facets(frame, &axes, &keys, &worth);
        let reaches = match self {
            Self::Time => [Reach::steps(), Reach::time(&curves)],
            Self::Compute => [Reach::tokens(&curves), Reach::flops(&curves)?],
        };
        let (mut left, mut right): (Vec<_>, Vec<_>) =
            facets.iter().map(|f| panels(frame, f, &curves, &reaches)).unzip();
        let start = set_ranges(left.iter_mut().chain(&mut right).collect(), &curves, frame);
        align(&mut left);
        align(&mut right);
        let rows = match facets.len() {
            0..=4 => left.into_iter().zip(right).map(|(left, right)| vec![left, right]).collect(),
            _ => [super::arrange(left), super::arrange(right)].concat(),
        };
        let (title, spent) = match self {
            Self::Time => ("Loss over steps and over training time", timing(&curves)),
            Self::Compute => ("Loss over tokens and over compute", Reach::FLOPS.to_owned()),
        };
        let notes = vec![
            format!("{} {}", notes::experiment(frame), reading(&curves)),
            names::legend(frame),
            start,
            spent,
            not_done(&curves, frame),
            not_finite(&curves),
            notes::no_room(no_room),
        ];
        let notes = notes.into_iter().filter(|n| !n.is_empty()).collect();
        Some(Figure { title: title.into(), rows, forest: None, notes })
    }
}

/// The two panels of a facet.
fn panels(frame: &Frame, facet: &Facet, curves: &[Curves], reaches: &[Reach; 2]) -> (Panel, Panel) {
    let alone = facet.lines.len() == 1 && facet.lines[0].label.is_empty();
    let panel = |reach: &Reach| {
        let y = Axis::new(format!("loss ({})", frame.unit.words()), Scale::Linear);
        let mut panel = Panel::new(Axis::new(&reach.label, Scale::Linear), y);
        panel.title = facet.title.clone();
        for line in &facet.lines {
            let curves = &curves[line.line];
            add(&mut panel, line, curves, &|s| reach.at(curves, s.step));
        }
        if alone {
            name_alone(&mut panel);
        } else {
            panel.series.extend([key("validation", Line::Strong), key("training, each step", Line::Faint)]);
        }
        panel
    };
    (panel(&reaches[0]), panel(&reaches[1]))
}

/// Gives all panels one range to the right, from zero, so that they compare.
fn align(panels: &mut [Panel]) {
    let last = panels.iter().flat_map(|p| p.xs().collect::<Vec<_>>()).fold(0.0, f64::max);
    panels.iter_mut().for_each(|p| p.x.range = (last > 0.0).then_some((0.0, last * 1.015)));
}

/// Adds the two lines of a setting. `x`: where a step stands.
fn add(panel: &mut Panel, line: &FacetLine, curves: &Curves, x: &dyn Fn(&Spread) -> Option<f64>) {
    let ink = Ink::Color(line.color);
    let points = |c: &[Spread]| -> Vec<_> { c.iter().filter_map(|s| Some((x(s)?, s.mean))).collect() };
    let band = |c: &[Spread]| c.iter().filter_map(|s| Some((x(s)?, s.lo, s.hi))).collect();
    let (val, train) = (points(curves.val()), points(curves.train()));
    let marks = [&train, &val].into_iter().flat_map(|points| breaks(points));
    let room = MAX_MARKS.saturating_sub(panel.gaps.len());
    panel.gaps.extend(marks.take(room).map(|(x, y)| Gap { x, y, ink }));
    let ends_finite = |p: &[(f64, f64)]| p.last().is_none_or(|p| p.1.is_finite());
    if curves.failed && ends_finite(&train) && ends_finite(&val) {
        let last = |p: &[(f64, f64)]| p.last().copied();
        let ends = [last(&train), last(&val)].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0));
        panel.gaps.extend(ends.map(|(x, y)| Gap { x, y: Some(y), ink }));
    }
    let line_label = &line.label;
    let series = |label: &str, what: &str, line, points, band| {
        let name = if line_label.is_empty() { what.to_owned() } else { format!("{line_label}, {what}") };
        Series { name, points, band, ..Series::new(label, ink, line, line == Line::Strong) }
    };
    let spread = if curves.runs.len() > 1 { band(curves.val()) } else { Vec::new() };
    panel.series.push(series("", "training", Line::Faint, train, Vec::new()));
    panel.series.push(series(&line.label, "validation", Line::Strong, val, spread));
}

/// Where a line stops being a finite number, each time: the first x of which that holds, and the value before it.
fn breaks(points: &[(f64, f64)]) -> Vec<(f64, Option<f64>)> {
    let mut last = None;
    let mut broken = false;
    let mut found = Vec::new();
    for &(x, y) in points {
        match y.is_finite() {
            true => last = Some(y),
            false if !broken => found.push((x, last)),
            false => {}
        }
        broken = !y.is_finite();
    }
    found
}

/// What the marks of values that are no finite number mean; empty where there are none.
fn not_finite(curves: &[Curves]) -> String {
    let breaks = |c: &Curves| [c.train(), c.val()].iter().any(|curve| curve.iter().any(|s| !s.mean.is_finite()));
    match curves.iter().any(breaks) {
        true => format!(
            "× marks where a loss stops being a finite number, at the height of the last that was (at most {MAX_MARKS} \
             in a panel)."
        ),
        false => String::new(),
    }
}

/// Legend entries that explain both kinds of lines.
fn key(label: &str, line: Line) -> Series {
    Series::new(label, Ink::Neutral, line, line == Line::Strong)
}

/// With one setting alone its two lines explain themselves.
fn name_alone(panel: &mut Panel) {
    for series in &mut panel.series {
        let words = if series.line == Line::Strong { "validation" } else { "training, each step" };
        series.label = words.to_owned();
    }
    panel.series.reverse();
}

/// Gives all panels one range upwards: all that there is, but for a steep fall at the start, which would press the rest
/// together. Answers a note on what lies above the picture.
fn set_ranges(mut panels: Vec<&mut Panel>, curves: &[Curves], frame: &Frame) -> String {
    let ys = |keep: &dyn Fn(&Spread, u64) -> bool| -> Vec<f64> {
        let of = |c: &Curves| -> Vec<f64> {
            let last = c.train().last().or(c.val().last()).map_or(0, |s| s.step);
            let val = c.val().iter().filter(|s| keep(s, last)).flat_map(|s| [s.lo, s.hi, s.mean]);
            val.chain(c.train().iter().filter(|s| keep(s, last)).map(|s| s.mean)).filter(|v| v.is_finite()).collect()
        };
        curves.iter().flat_map(of).collect()
    };
    let all = ys(&|_, _| true);
    let later = ys(&|s, last| s.step as f64 > START * last as f64);
    if all.is_empty() || later.is_empty() {
        return String::new();
    }
    let (mut lo, hi) = numbers::extent(&all);
    let late_hi = numbers::extent(&later).1;
    let mut level = String::new();
    if let Some(y) = frame.own_cost() {
        level = notes::level(frame, y, (lo, late_hi), panels.iter_mut().map(|p| &mut **p));
        if level.is_empty() {
            lo = lo.min(y);
        }
    }
    if lo > 0.0 && late_hi > lo * RATIO_FOR_LOG {
        let range = scale::range([lo, hi].into_iter(), true, 0.04);
        for panel in panels {
            panel.y.scale = Scale::Log;
            panel.y.label = panel.y.label.replace(')', ", log scale)");
            panel.y.range = range;
        }
        return level;
    }
    let cut = hi - lo > 1.3 * (late_hi - lo);
    let top = if cut { late_hi } else { hi };
    let range = scale::range([lo, top].into_iter(), false, 0.05);
    panels.into_iter().for_each(|p| p.y.range = range);
    if !cut {
        return level;
    }
    let percent = START * 100.0;
    format!("The fall over the first {percent:.0} % of the steps, from {hi:.2}, begins above the picture. {level}")
}

/// What the lines are.
fn reading(curves: &[Curves]) -> String {
    let (least, most) = (curves.iter().map(|c| c.runs.len()).min(), curves.iter().map(|c| c.runs.len()).max());
    match (least, most) {
        (Some(1), Some(1)) | (None, _) | (_, None) => "Each line is one run.".to_owned(),
        (Some(a), Some(b)) => {
            let n = if a == b { format!("n = {a}") } else { format!("n = {a} to {b}") };
            format!("Lines: means over seeds ({n}); band: lowest to highest validation loss of a seed.")
        }
    }
}

/// What training time is, and on what it was spent.
fn timing(curves: &[Curves]) -> String {
    match pace::used(curves.iter().flat_map(|c| c.runs.iter().copied())).as_slice() {
        [] => String::new(),
        slots => {
            format!("Training time: the sum of the steps' times, evaluations left out, on {}.", pace::words(slots))
        }
    }
}

/// Which runs are not done, why, and how they are shown.
fn not_done(curves: &[Curves], frame: &Frame) -> String {
    let (n, why) = notes::no_result(frame);
    let failed = if curves.iter().any(|c| c.failed) { "; × marks where failed runs break off" } else { "" };
    let paused = if curves.iter().any(|c| c.paused) { ", to where they pause" } else { "" };
    match n {
        0 => String::new(),
        n => format!(
            "{n} of {} not done: {why}. Where no run of a setting is done, those that got furthest are \
             drawn{paused}{failed}.",
            numbers::several(frame.runs.len(), "run")
        ),
    }
}
