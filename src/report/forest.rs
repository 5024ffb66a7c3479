//! Forests: where their names, values and columns stand, and how their rows are drawn.

use plotters::style::Color;

use super::{
    draw,
    figure::{Category, Forest},
    layout::{Entry, LEADING, Layout, MARGIN, TICK, TICK_LENGTH, WIDTH, x_range},
    palette,
    pen::{Align, Drawn, Pen},
    scale::Ruler,
    text::{CAPITALS, Weight, fit, width, wrap},
};

/// The most room that names take.
const NAMES: f64 = 300.0;
/// Between names, values and columns.
const GAP: f64 = 34.0;
/// About how wide a column's head may be; wider where its cells are.
const HEAD: f64 = 118.0;
/// The least height of a row for each line of its name, and what is added.
const LINE: f64 = LEADING * TICK;
const AROUND: f64 = 20.0;
/// The height that few rows fill all the same.
const FILLED: f64 = 420.0;
/// What rows at most gain by that.
const HIGHER: f64 = 40.0;

/// A forest in its place.
pub struct PlacedForest<'a> {
    /// What is drawn.
    pub forest: &'a Forest,
    /// The left, top, right and bottom of the field of values.
    pub field: (f64, f64, f64, f64),
    x: Ruler,
    ticks: Vec<f64>,
    /// The middle of each row.
    middles: Vec<f64>,
    height: f64,
}

impl PlacedForest<'_> {
    /// Each row with the place of its marker.
    pub fn spots(&self) -> impl Iterator<Item = (f64, f64, &Category)> {
        self.forest.rows.iter().zip(&self.middles).map(|(row, &y)| (self.x.at(row.center), y, row))
    }
}

/// Finds a place for everything of a forest; answers where it ends.
pub fn place<'a>(out: &mut Layout<'a>, forest: &'a Forest, mut top: f64) -> f64 {
    let legend: Vec<Entry> = forest.legend.iter().map(Entry::Mark).collect();
    top += out.legend(&legend, (MARGIN, top), WIDTH - 2.0 * MARGIN);
    let wide = |text: &str| width(text, TICK, Weight::Regular);
    let names: Vec<Vec<String>> = forest.rows.iter().map(name).collect();
    let names_room = names.iter().flatten().map(|line| wide(line)).fold(0.0, f64::max);
    let columns: Vec<(Vec<String>, f64)> = (0..forest.columns.len())
        .map(|i| {
            let cells = forest.rows.iter().filter_map(|row| row.cells.get(i)).map(|c| wide(c)).fold(0.0, f64::max);
            let word = forest.columns[i].split_whitespace().map(wide).fold(HEAD, f64::max);
            let head = wrap(&forest.columns[i], TICK, Weight::Regular, cells.max(word));
            let room = head.iter().map(|line| wide(line)).fold(cells, f64::max);
            (head, room)
        })
        .collect();

    let heads = columns.iter().map(|c| c.0.len()).max().unwrap_or(0) as f64;
    let head_height = LINE * heads + if heads > 0.0 { 14.0 } else { 0.0 };
    let beside: f64 = columns.iter().map(|c| c.1 + GAP).sum();
    let lines = names.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let height =
        (FILLED / forest.rows.len().max(1) as f64).clamp(lines * LINE + AROUND, lines * LINE + AROUND + HIGHER);
    let field_top = top + head_height;
    let bottom = field_top + height * forest.rows.len() as f64;
    let field = (MARGIN + names_room + GAP, field_top, WIDTH - MARGIN - beside, bottom);
    let middles: Vec<f64> = (0..forest.rows.len()).map(|i| field_top + height * (i as f64 + 0.5)).collect();

    let mut right = field.2;
    for (i, (head, room)) in columns.iter().enumerate() {
        right += GAP + room;
        for (j, line) in head.iter().rev().enumerate() {
            let spot = (right, field_top - 14.0 - LINE * j as f64);
            out.label(line, spot, Align::End, TICK, palette::SOFT);
        }
        for (row, middle) in forest.rows.iter().zip(&middles) {
            let Some(cell) = row.cells.get(i) else { continue };
            out.label(cell, (right, middle + TICK * CAPITALS / 2.0), Align::End, TICK, palette::TEXT);
        }
    }
    for (lines, middle) in names.iter().zip(&middles) {
        let first = middle + TICK * CAPITALS / 2.0 - LINE * (lines.len() - 1) as f64 / 2.0;
        for (i, line) in lines.iter().enumerate() {
            out.label(line, (MARGIN, first + LINE * i as f64), Align::Start, TICK, palette::TEXT);
        }
    }
    let range = x_range(&forest.x, forest.xs());
    let x = Ruler::new(&forest.x.scale, range, (field.0, field.2));
    let (ticks, used) = out.x_axis(&forest.x, range, &x, field);
    out.forest = Some(PlacedForest { forest, field, x, ticks, middles, height });
    bottom + used
}

/// A name in one line or two.
fn name(row: &Category) -> Vec<String> {
    wrap(&fit(&row.label, TICK, 1.8 * NAMES), TICK, Weight::Regular, NAMES)
}

/// Draws the field and the lines between rows; words are the layout's.
pub fn paint<P: Pen>(pen: &P, placed: &PlacedForest) -> Drawn<P> {
    let (left, top, right, bottom) = placed.field;
    if let Some((_, (lo, hi))) = placed.forest.level {
        let color = palette::SOFT.mix(0.13);
        pen.rect((placed.x.at(lo), top), (placed.x.at(hi), bottom), color)?;
    }
    for &x in &placed.ticks {
        pen.stroke((x, top), (x, bottom), 1.0, palette::GRID)?;
        pen.stroke((x, bottom), (x, bottom + TICK_LENGTH), 1.4, palette::AXIS)?;
    }
    for (row, middle) in placed.forest.rows.iter().zip(&placed.middles) {
        let (y, color) = (middle + placed.height / 2.0, if row.is_head { palette::AXIS } else { palette::GRID });
        pen.stroke((MARGIN, y), (WIDTH - MARGIN, y), 1.0, color)?;
    }
    pen.stroke((MARGIN, top), (WIDTH - MARGIN, top), 1.4, palette::AXIS)?;
    pen.stroke((left, bottom), (right, bottom), 1.4, palette::AXIS)?;
    if let Some((x, _)) = placed.forest.level {
        pen.stroke((placed.x.at(x), top), (placed.x.at(x), bottom), 1.6, palette::SOFT)?;
    }
    placed.forest.rows.iter().zip(&placed.middles).try_for_each(|(row, &y)| category(pen, placed, row, y))
}

fn category<P: Pen>(pen: &P, placed: &PlacedForest, row: &Category, y: f64) -> Drawn<P> {
    let color = palette::color(row.ink);
    if let Some((lo, hi)) = row.bar {
        pen.stroke((placed.x.at(lo), y), (placed.x.at(hi), y), 3.0, color)?;
    }
    row.dots.iter().try_for_each(|&v| pen.disc((placed.x.at(v), y), draw::DOT, color.mix(0.45)))?;
    draw::marker(pen, row.ink, (placed.x.at(row.center), y))
}
