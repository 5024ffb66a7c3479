//! A figure within the page: its picture, what has to be known to read it, and its numbers for whoever points at it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::{
    data,
    figure::{Axis, Cell, Figure, Scale, Series},
    forest::PlacedForest,
    layout::{Layout, Placed, layout},
    markup::escaped,
    numbers, palette,
    scale::Ruler,
    svg::{element, hex},
};

/// Of long curves, as many columns of pixels as the page needs to name a value.
const PIXELS: f64 = 2.0;

/// A link to a figure.
pub fn link(name: &str, figure: &Figure) -> String {
    format!("<a href=\"#{}\">{}</a>", escaped(name), escaped(&figure.title))
}

/// A figure under its title.
pub fn section(name: &str, figure: &Figure) -> String {
    // Its title and notes are the page's words, so that they wrap as those do.
    let bare = Figure { title: String::new(), notes: Vec::new(), ..figure.clone() };
    let plan = layout(&bare);
    let picture = element(figure, &plan, false);
    let title = escaped(&figure.title);
    let id = escaped(name);
    let mut out =
        format!("<section class=\"figure\" id=\"{id}\">\n<h2>{title}</h2>\n<div class=\"plot\">\n{picture}</div>\n");
    for note in &figure.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
    }
    let data = numbers_of(&plan).to_string().replace('<', "\\u003c"); // no text of it ends the element
    let _ = writeln!(out, "<script type=\"application/json\">{data}</script>\n</section>");
    out
}

/// What can be pointed at: for each panel where its field is, how places become values, and the values.
fn numbers_of(plan: &Layout) -> Value {
    let panels: Vec<Value> = plan.panels.iter().map(panel).chain(plan.forest.iter().map(rows)).collect();
    Value::Array(panels)
}

fn panel(placed: &Placed) -> Value {
    let panel = placed.panel;
    let told: Vec<&Series> = panel.series.iter().filter(|s| !s.points.is_empty()).collect();
    let series: Vec<Value> = told.iter().map(|s| line(placed, s)).collect();
    let spots: Vec<Value> = panel.cells.iter().map(|cell| spot(placed, cell)).collect();
    json!({
        "field": field(placed.field),
        "x": axis(&panel.x, &placed.x),
        "y": axis(&panel.y, &placed.y),
        "series": series,
        "spots": spots,
    })
}

fn field((left, top, right, bottom): (f64, f64, f64, f64)) -> Value {
    json!([left, top, right, bottom].map(|x: f64| x.round()))
}

fn axis(axis: &Axis, ruler: &Ruler) -> Value {
    let ((lo, hi), log) = ruler.range();
    json!({ "label": axis.label, "log": log, "range": [lo, hi], "words": axis.scale.words() })
}

/// The points of a series as x, y and, where there is a band, its lowest and highest.
fn line(placed: &Placed, series: &Series) -> Value {
    let mut bands = series.band.iter().peekable();
    let mut points = Vec::new();
    for (x, y) in data::told(placed, series, PIXELS).into_iter().map(|i| series.points[i]) {
        while bands.next_if(|b| b.0 < x).is_some() {}
        if !y.is_finite() {
            continue;
        }
        let band = bands.next_if(|b| b.0 == x).filter(|b| b.1 < b.2);
        points.push(Value::Array(
            [Some(x), Some(y), band.map(|b| b.1), band.map(|b| b.2)].iter().flatten().map(|&v| short(v)).collect(),
        ));
    }
    json!({ "name": series.full_name(), "color": hex(palette::color(series.ink)), "points": points })
}

fn spot(placed: &Placed, cell: &Cell) -> Value {
    let panel = placed.panel;
    let at = |scale: &Scale, i: usize| data::spoken(scale, i as f64);
    let head =
        format!("{}: {}, {}: {}", panel.x.label, at(&panel.x.scale, cell.x), panel.y.label, at(&panel.y.scale, cell.y));
    let (x, y) = (placed.x.at(cell.x as f64).round(), placed.y.at(cell.y as f64).round());
    json!([x, y, head, cell.lines.join(", ")])
}

/// The rows of a forest.
fn rows(placed: &PlacedForest) -> Value {
    let spots: Vec<Value> = placed
        .spots()
        .map(|(x, y, row)| {
            let range = row
                .bar
                .map_or_else(String::new, |(lo, hi)| format!(" ({} to {})", numbers::number(lo), numbers::number(hi)));
            json!([x.round(), y.round(), row.label, format!("{}{range}", numbers::number(row.center))])
        })
        .collect();
    json!({ "field": field(placed.field), "series": [], "spots": spots })
}

/// Six digits, which is more than a picture tells.
fn short(x: f64) -> Value {
    let x = match 5.0 - x.abs().log10().floor() {
        // Powers of ten up to this one are exact, and so the quotient is the number that the digits stand for.
        digits @ 0.0..=22.0 => {
            let power = 10f64.powi(digits as i32);
            (x * power).round() / power
        }
        _ => format!("{x:.5e}").parse().unwrap_or(x),
    };
    if x.fract() == 0.0 && x.abs() < 1e15 { json!(x as i64) } else { json!(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_stand_for_a_number() {
        let cases = [
            (0.0, "0"),
            (3.0, "3"),
            (0.1 + 0.2, "0.3"),
            (1.234567891, "1.23457"),
            (-2.345678901, "-2.34568"),
            (6.25e-5 / 3.0, "0.0000208333"),
            (1.5e-30, "1.5e-30"),
            (123456789.0, "123457000"),
            (999999.6, "1000000"),
        ];
        for (x, text) in cases {
            let shown = short(x);
            assert_eq!(shown.as_f64(), text.parse().ok(), "{x}: {shown}");
        }
    }
}
