//! `step_time`: the time of a step over layers and over batch, with the straight line that fits best and what one more
//! costs. The lines are those of [`super::throughput`], for the same reasons.

use super::{
    super::{
        figure::{Axis, Figure, Line, Panel, Scale, Series},
        fit::{Fit, fit},
        frame::{Frame, Run},
        numbers, pace,
    },
    Plot, notes,
    over::{Over, title},
    throughput::{Drawn, drawn},
};

/// The time of a step.
pub struct StepTime;

impl Plot for StepTime {
    fn name(&self) -> &str {
        "step_time"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        if frame.base.is_some() {
            return None; // the ablation has it in a column
        }
        let y = Axis::new("step time (ms)", Scale::Linear);
        let mut rows: Vec<Vec<Panel>> = Vec::new();
        let (mut n, mut left_out, mut worst) = (String::new(), 0, 1.0f64);
        let Drawn { over, idle } = drawn(frame);
        for x in over.into_iter().filter(|&x| frame.axes[x].numbers().is_some()) {
            let others = (0..frame.axes.len()).filter(|&a| a != x && !frame.is_tied(a, x) && !idle.contains(&a));
            let value = |run: &Run| run.step_time;
            let over =
                Over { frame, x, others: others.collect(), value: &value, center: numbers::median, mark_any: false };
            let mut chart = over.chart(&y);
            if chart.places < 2 {
                continue;
            }
            for panel in &mut chart.panels {
                for fit in fitted(panel, unit(&frame.axes[x].path, title(&frame.axes[x]).0)) {
                    worst = worst.min(fit.r2);
                }
            }
            (n, left_out) = (chart.n, left_out.max(chart.left_out));
            rows.extend(super::arrange(chart.panels));
        }
        if rows.len() > 1 && rows.iter().all(|row| row.len() == 1) {
            rows = vec![rows.concat()];
        }
        let top = rows
            .iter()
            .flatten()
            .flat_map(|p| p.ys().collect::<Vec<_>>())
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max);
        if rows.is_empty() || top <= 0.0 {
            return None;
        }
        rows.iter_mut().flatten().for_each(|panel| panel.y.range = Some((0.0, top * 1.06)));
        let names: Vec<&str> = idle.iter().map(|&a| frame.axes[a].name.as_str()).collect();
        let has_fit = rows.iter().flatten().any(|p| p.series.iter().any(|s| s.line == Line::Faint));
        let notes = [
            format!(
                "{} Point: median over runs ({n}) of the median step; whisker or band: fastest to slowest run.",
                notes::experiment(frame)
            ),
            match has_fit {
                true => format!(
                    "Faint: the straight line of least squares through the points, its slope beside the name (R² at least {worst:.3})."
                ),
                false => "A line is fitted from three values on.".to_owned(),
            },
            format!(
                "Steps on {}; of each attempt the first tenth (20 steps at most) is left out as warm-up.",
                pace::words(&frame.slots)
            ),
            if names.is_empty() {
                String::new()
            } else {
                format!("Pooled, since it makes no difference to speed beyond noise: {}.", names.join(", "))
            },
            notes::no_room(left_out).replace("higher losses", "longer steps"),
        ];
        Some(Figure {
            title: "Time of a step, and what one more costs".into(),
            rows,
            forest: None,
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}

/// What there is one more of.
pub fn unit<'a>(path: &str, name: &'a str) -> &'a str {
    match path {
        "model.layers" => "layer",
        "train.batch" => "sequence",
        "model.context" => "token of context",
        "model.heads" => "head",
        _ => name,
    }
}

/// Adds to each line of a panel the straight line that fits it, and its slope to its name.
fn fitted(panel: &mut Panel, unit: &str) -> Vec<Fit> {
    // On a logarithmic scale a straight line is none.
    panel.x.scale = Scale::Linear;
    panel.x.label = panel.x.label.replace(", log scale", "").replace(" (log scale)", "");
    let mut fits = Vec::new();
    let mut lines = Vec::new();
    for series in &mut panel.series {
        let points: Vec<(f64, f64)> = series.points.iter().copied().filter(|p| p.1.is_finite()).collect();
        let Some(found) = fit(&points) else { continue };
        let slope = format!("{} ms per {unit}", numbers::rounded(found.slope));
        let (first, last) = (points[0].0, points[points.len() - 1].0);
        let mut line = Series::new("", series.ink, Line::Faint, false);
        line.name = [series.label.as_str(), "straight line"]
            .iter()
            .filter(|s| !s.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        line.points = [first, last].map(|x| (x, found.at(x))).to_vec();
        lines.push(line);
        series.line = Line::None;
        series.name = series.label.clone();
        series.label = if series.label.is_empty() { slope } else { format!("{}: {slope}", series.label) };
        fits.push(found);
    }
    if panel.series.len() == 1 && !lines.is_empty() {
        // A legend of one entry is none: the slope stands above the panel.
        panel.title = panel.series[0].label.clone();
    }
    panel.series.extend(lines);
    fits
}
