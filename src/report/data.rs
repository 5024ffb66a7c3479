//! The numbers of a figure as they are drawn: of long curves no more than a picture shows, spikes included. For tables and
//! for pages that name a value under the pointer; what a run logged in full is `exp export`'s.

use super::{
    decimate,
    figure::{Figure, Forest, Scale, Series},
    layout::{Placed, layout},
    numbers,
};
use crate::base::{csv::line, num};

/// Curves of so many points are drawn, and told, whole.
const WHOLE: usize = 1500;

/// The head of a table of data.
const COLUMNS: [&str; 9] = ["panel", "x_axis", "y_axis", "series", "kind", "x", "y", "low", "high"];

/// Which points of a series are told: of many those that are seen in columns of `pixels`, and where a number is missing
/// the first of each stretch.
pub fn told(placed: &Placed, series: &Series, pixels: f64) -> Vec<usize> {
    if series.points.len() <= WHOLE {
        return (0..series.points.len()).collect();
    }
    let spots: Vec<(f64, f64)> = series.points.iter().map(|p| (placed.x.at(p.0), placed.y.at(p.1))).collect();
    let mut told = Vec::new();
    let mut start = 0;
    for part in spots.chunk_by(|a, b| a.1.is_finite() == b.1.is_finite()) {
        match part[0].1.is_finite() {
            true => told.extend(decimate::picked(part, pixels).into_iter().map(|i| start + i)),
            false => told.push(start),
        }
        start += part.len();
    }
    told
}

/// The data of a figure in long format: a line for each point with its band, single value, missing value, level, cell, or
/// row of a forest.
pub fn csv(figure: &Figure) -> String {
    let plan = layout(figure);
    let mut out = line(COLUMNS.map(str::to_owned).into_iter());
    for placed in &plan.panels {
        panel(&mut out, placed);
    }
    if let Some(forest) = &figure.forest {
        rows(&mut out, forest);
    }
    out
}

fn panel(out: &mut String, placed: &Placed) {
    let panel = placed.panel;
    let x = |x: f64| place(&panel.x.scale, x);
    let mut put = |series: &str, kind: &str, [x, y, low, high]: [String; 4]| {
        let [series, kind] = [series, kind].map(str::to_owned);
        let head = [panel.title.clone(), panel.x.label.clone(), panel.y.label.clone()];
        *out += &line(head.into_iter().chain([series, kind, x, y, low, high]));
    };
    let none = String::new;
    for series in &panel.series {
        let name = series.full_name();
        let mut bands = series.band.iter().peekable();
        for (px, py) in told(placed, series, 1.0).into_iter().map(|i| series.points[i]) {
            while bands.next_if(|b| b.0 < px).is_some() {}
            let [low, high] = bands.next_if(|b| b.0 == px).map_or([none(), none()], |b| [b.1, b.2].map(number));
            put(name, "point", [x(px), number(py), low, high]);
        }
        for &(px, py) in &series.dots {
            put(name, "value", [x(px), number(py), none(), none()]);
        }
    }
    for reference in &panel.references {
        put(&reference.label, "level", [none(), number(reference.y), none(), none()]);
    }
    for gap in &panel.gaps {
        let name = panel.series.iter().find(|s| s.ink == gap.ink).map_or("", Series::full_name);
        put(name, "missing", [x(gap.x), gap.y.map_or(none(), number), none(), none()]);
    }
    for cell in &panel.cells {
        let words = cell.value.map_or_else(|| cell.lines.join("; "), number);
        let y = place(&panel.y.scale, cell.y as f64);
        put(&words, "cell", [x(cell.x as f64), y, none(), none()]);
    }
}

fn rows(out: &mut String, forest: &Forest) {
    for row in &forest.rows {
        let mut put = |kind: &str, x: String, low: String, high: String| {
            let cells = ["", &forest.x.label, "", &row.label, kind, &x, "", &low, &high];
            *out += &line(cells.map(str::to_owned).into_iter());
        };
        let [low, high] = row.bar.map_or_else(Default::default, |(lo, hi)| [lo, hi].map(number));
        put("point", number(row.center), low, high);
        row.dots.iter().for_each(|&x| put("value", number(x), String::new(), String::new()));
        for (column, cell) in forest.columns.iter().zip(&row.cells).filter(|(_, cell)| !cell.is_empty()) {
            put(column, cell.clone(), String::new(), String::new());
        }
    }
}

/// A place on an axis: a number, or the word that stands there.
pub fn place(scale: &Scale, x: f64) -> String {
    match scale.words() {
        Some(words) => words.get(x.round() as usize).cloned().unwrap_or_default(),
        None => number(x),
    }
}

/// All digits; words for what is not finite.
fn number(x: f64) -> String {
    num::word(x).map_or_else(|| x.to_string(), str::to_owned)
}

/// As people read it where a page names it.
pub fn spoken(scale: &Scale, x: f64) -> String {
    if scale.words().is_some() { place(scale, x) } else { numbers::number(x) }
}
