//! The numbers of a figure as they are drawn: of long curves no more than a picture shows, spikes included. For tables and
//! for pages that name a value under the pointer; what a run logged in full is `exp export`'s.

use std::fmt::{self, Write as _};

use super::{
    decimate,
    figure::{Figure, Forest, Scale, Series},
    layout::{Placed, layout},
    numbers,
};
use crate::base::{
    csv::{line, quoted},
    num,
};

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
    let x = |x: f64| Cell::at(&panel.x.scale, x);
    let head = |series: &str, kind: &str| {
        let mut head =
            line([&panel.title, &panel.x.label, &panel.y.label, series, kind].map(str::to_owned).into_iter());
        head.truncate(head.trim_end_matches('\n').len()); // the line goes on
        head
    };
    let mut put = |head: &str, [x, y, low, high]: [Cell; 4]| {
        let _ = writeln!(out, "{head},{x},{y},{low},{high}"); // a string takes everything
    };
    for series in &panel.series {
        let mut bands = series.band.iter().peekable();
        let (point, value) = (head(series.full_name(), "point"), head(series.full_name(), "value"));
        for (px, py) in told(placed, series, 1.0).into_iter().map(|i| series.points[i]) {
            while bands.next_if(|b| b.0 < px).is_some() {}
            let band = bands.next_if(|b| b.0 == px);
            let [low, high] = band.map_or([Cell::Empty, Cell::Empty], |b| [b.1, b.2].map(Cell::Number));
            put(&point, [x(px), Cell::Number(py), low, high]);
        }
        for &(px, py) in &series.dots {
            put(&value, [x(px), Cell::Number(py), Cell::Empty, Cell::Empty]);
        }
    }
    for reference in &panel.references {
        let level = head(&reference.label, "level");
        put(&level, [Cell::Empty, Cell::Number(reference.y), Cell::Empty, Cell::Empty]);
    }
    for gap in &panel.gaps {
        let name = panel.series.iter().find(|s| s.ink == gap.ink).map_or("", Series::full_name);
        let y = gap.y.map_or(Cell::Empty, Cell::Number);
        put(&head(name, "missing"), [x(gap.x), y, Cell::Empty, Cell::Empty]);
    }
    for cell in &panel.cells {
        let words = cell.value.map_or_else(|| cell.lines.join("; "), number);
        let y = Cell::at(&panel.y.scale, cell.y as f64);
        put(&head(&words, "cell"), [x(cell.x as f64), y, Cell::Empty, Cell::Empty]);
    }
}

/// What stands in a column of numbers.
enum Cell<'a> {
    Empty,
    Number(f64),
    Word(&'a str),
}

impl<'a> Cell<'a> {
    /// A place on an axis.
    fn at(scale: &'a Scale, x: f64) -> Self {
        match scale.words() {
            Some(words) => words.get(x.round() as usize).map_or(Self::Empty, |word| Self::Word(word)),
            None => Self::Number(x),
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Number(x) => match num::word(*x) {
                Some(word) => f.write_str(word),
                None => write!(f, "{x}"),
            },
            Self::Word(word) => f.write_str(&quoted(word)),
        }
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

/// All digits; words for what is not finite.
fn number(x: f64) -> String {
    Cell::Number(x).to_string()
}

/// As people read it where a page names it.
pub fn spoken(scale: &Scale, x: f64) -> String {
    match scale.words() {
        Some(words) => words.get(x.round() as usize).cloned().unwrap_or_default(),
        None => numbers::number(x),
    }
}
