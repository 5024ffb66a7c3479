//! What `loss_vs_*` and `throughput` share: values of runs over one axis, a line for each setting of others, with the
//! mean or median and the extent over the runs of a point.

use super::super::{
    figure::{Axis, Gap, Ink, Line, Panel, Scale, Series},
    frame::{self, Frame, Run},
    numbers, scale,
};
use super::facets::{FacetLine, facets};

/// Values over one axis.
pub struct Over<'a> {
    /// Whose runs.
    pub frame: &'a Frame,
    /// The axis to the right.
    pub x: usize,
    /// The axes that lines differ in.
    pub others: Vec<usize>,
    /// The value of a run; `None` where it has none, which is marked.
    pub value: &'a dyn Fn(&Run) -> Option<f64>,
    /// What stands for the values of one point.
    pub center: fn(&[f64]) -> f64,
    /// Whether a point is marked where any of its runs has no value, or only where all have none.
    pub mark_any: bool,
}

/// What came of it.
pub struct Chart {
    /// Panels; what they range over is left to the plot.
    pub panels: Vec<Panel>,
    /// Lines that found no place.
    pub left_out: usize,
    /// How many runs stand behind a point: `n = 3`, `n = 1 to 3`.
    pub n: String,
    /// Whether some point stands for several runs.
    pub pooled: bool,
    /// Places on the axis that have a value.
    pub places: usize,
}

/// The runs of one setting of the other axes.
struct Values {
    key: Vec<usize>,
    points: Vec<Cell>,
}

/// The runs of one point.
struct Cell {
    x: usize,
    found: Vec<f64>,
    missing: bool,
}

impl Over<'_> {
    /// Draws them against `y`.
    pub fn chart(&self, y: &Axis) -> Chart {
        let lines: Vec<Values> =
            self.frame.group(&self.others).into_iter().map(|(k, runs)| self.line(k, &runs)).collect();
        let keys: Vec<_> = lines.iter().map(|l| l.key.clone()).collect();
        let worth: Vec<f64> = lines.iter().map(|l| self.lowest(l)).collect();
        let (facets, left_out) = facets(self.frame, &self.others, &keys, &worth);
        let mut panels = Vec::new();
        for facet in &facets {
            let mut panel = Panel::new(axis(&self.frame.axes[self.x]), y.clone());
            panel.title = facet.title.clone();
            for (place, line) in facet.lines.iter().enumerate() {
                self.add(&mut panel, line, &lines[line.line], (place, facet.lines.len()));
            }
            panels.push(panel);
        }
        let points = || lines.iter().flat_map(|l| &l.points).filter(|p| !p.found.is_empty());
        let counts: Vec<usize> = points().map(|p| p.found.len()).collect();
        let (lo, hi) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
        let n = if lo == hi { format!("n = {lo}") } else { format!("n = {lo} to {hi}") };
        let mut places: Vec<usize> = points().map(|p| p.x).collect();
        places.sort_unstable();
        places.dedup();
        Chart { panels, left_out, n, pooled: hi > 1, places: places.len() }
    }

    fn line(&self, key: Vec<usize>, runs: &[&Run]) -> Values {
        let mut xs: Vec<usize> = runs.iter().map(|r| r.at[self.x]).collect();
        xs.sort_unstable();
        xs.dedup();
        let point = |x: usize| {
            let here: Vec<_> = runs.iter().filter(|r| r.at[self.x] == x).map(|r| (self.value)(r)).collect();
            Cell { x, found: here.iter().flatten().copied().collect(), missing: here.contains(&None) }
        };
        Values { key, points: xs.into_iter().map(point).collect() }
    }

    fn lowest(&self, line: &Values) -> f64 {
        let centers = line.points.iter().filter(|p| !p.found.is_empty()).map(|p| (self.center)(&p.found));
        centers.fold(f64::INFINITY, f64::min)
    }

    /// Adds a line to its panel. `place`: which of how many lines of the panel it is; among words, lines stand side by
    /// side.
    fn add(&self, panel: &mut Panel, line: &FacetLine, values: &Values, place: (usize, usize)) {
        let ink = Ink::Color(line.color);
        let words = matches!(panel.x.scale, Scale::Words(_));
        let shift = if words { (place.0 as f64 - (place.1 - 1) as f64 / 2.0) * 0.6 / place.1 as f64 } else { 0.0 };
        let mut series = Series::new(&line.label, ink, if words { Line::None } else { Line::Strong }, true);
        for point in &values.points {
            let x = place_of(&self.frame.axes[self.x], &panel.x.scale, point.x) + shift;
            if point.missing && (self.mark_any || point.found.is_empty()) {
                panel.gaps.push(Gap { x, y: None, ink });
            }
            let center = if point.found.is_empty() { f64::NAN } else { (self.center)(&point.found) };
            let (lo, hi) = if center.is_nan() { (center, center) } else { numbers::extent(&point.found) };
            series.points.push((x, center));
            series.band.push((x, lo, hi));
            if point.found.len() > 1 {
                series.dots.extend(point.found.iter().map(|&v| (x, v)));
            }
        }
        if series.dots.is_empty() {
            series.band.clear();
        }
        panel.series.push(series);
    }
}

/// Gives all panels one range upwards, so that they compare.
pub fn share_range(panels: &mut [Panel]) {
    let log = panels.first().is_some_and(|p| p.y.scale == Scale::Log);
    let room = if panels.iter().any(|p| !p.gaps.is_empty()) { 0.1 } else { 0.06 };
    let all = panels.iter().flat_map(|p| p.ys().chain(p.references.iter().map(|r| r.y)).collect::<Vec<_>>());
    let range = scale::range(all, log, room);
    panels.iter_mut().for_each(|p| p.y.range = range);
}

/// The horizontal axis for a swept setting.
fn axis(swept: &frame::Axis) -> Axis {
    let numbers = swept.numbers();
    let scale = match &numbers {
        Some(values) => scale::for_values(values),
        None => Scale::Words(swept.values.iter().map(numbers::value).collect()),
    };
    let (name, unit) = title(swept);
    let log = (scale == Scale::Log).then_some("log scale");
    let details: Vec<&str> = unit.into_iter().chain(log).collect();
    let label = if details.is_empty() { name.to_owned() } else { format!("{name} ({})", details.join(", ")) };
    let mut axis = Axis::new(label, scale);
    if matches!(axis.scale, Scale::Linear | Scale::Log) {
        axis.ticks = numbers.filter(|v| v.len() <= 10).unwrap_or_default();
    }
    axis
}

/// Where the `index`-th value of a swept setting stands.
fn place_of(swept: &frame::Axis, scale: &Scale, index: usize) -> f64 {
    match (scale, swept.values[index].as_f64()) {
        (Scale::Linear | Scale::Log, Some(value)) => value,
        _ => index as f64,
    }
}

/// What a swept setting is called, and its unit where it has one.
pub fn title(axis: &frame::Axis) -> (&str, Option<&str>) {
    match axis.path.as_str() {
        "train.lr" => ("learning rate", None),
        "train.batch" => ("batch", Some("sequences")),
        "model.context" => ("context", Some("tokens")),
        _ => (&axis.name, None),
    }
}
