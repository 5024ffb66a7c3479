//! `throughput`: trained tokens per second over layers and over batch; over other settings that speed depends on where
//! neither varies.

use super::{
    super::{
        figure::{Axis, Figure, Panel, Scale},
        frame::{Frame, Run},
        numbers, pace,
    },
    Plot, notes,
    over::{Over, share_range},
};

/// Settings that a step's time may depend on.
const MATTERS: [&str; 8] = [
    "model.",
    "run.device",
    "run.engine",
    "train.batch",
    "train.grad_accum",
    "train.dtype",
    "data.tokenizer",
    "data.corpus",
];

/// Training throughput.
pub struct Throughput;

impl Plot for Throughput {
    fn name(&self) -> &str {
        "throughput"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let value = |run: &Run| run.tokens_per_second();
        let matters: Vec<usize> =
            (0..frame.axes.len()).filter(|&a| MATTERS.iter().any(|m| frame.axes[a].path.starts_with(m))).collect();
        let mut charts = Vec::new();
        for x in over(frame, &matters) {
            let others = matters.iter().copied().filter(|&a| a != x && !super::is_tied(frame, a, x)).collect();
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
        let point = if pooled {
            format!(
                "Point: median over runs ({n}) of the median step; band: slowest to fastest run; dots: single runs."
            )
        } else {
            "Point: the median step of one run.".to_owned()
        };
        let missing = frame.runs.iter().filter(|r| value(r).is_none()).count();
        let notes = vec![
            format!("{} {point}", notes::experiment(frame)),
            format!(
                "Steps on {}; of each attempt the first tenth (20 steps at most) is left out as warm-up.",
                pace::words(&frame.slots)
            ),
            match missing {
                0 => String::new(),
                n => format!(
                    "{} no step on this slot.",
                    if n == 1 { "1 run has".into() } else { format!("{n} runs have") }
                ),
            },
            notes::no_room(left_out),
        ];
        let on: Vec<String> = frame.slots.iter().map(ToString::to_string).collect();
        let notes = notes.into_iter().filter(|n| !n.is_empty()).collect();
        Some(Figure { title: format!("Training throughput on {}", on.join(" and on ")), rows, notes })
    }
}

/// The axes to draw over: layers and batch, else the first two that matter.
fn over(frame: &Frame, matters: &[usize]) -> Vec<usize> {
    let main: Vec<usize> = ["model.layers", "train.batch"].iter().filter_map(|p| frame.axis(p)).collect();
    if main.is_empty() { matters.iter().copied().take(2).collect() } else { main }
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
