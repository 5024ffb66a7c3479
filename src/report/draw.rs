//! From a figure to the bytes of a PNG: drawn by plotters at a multiple of the size, reduced by averaging, encoded. The
//! same figure gives the same bytes.

use std::fmt::Display;

use plotters::{
    prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea},
    style::{Color, RGBColor},
};

use super::{
    decimate,
    figure::{Figure, Gap, Ink, Line, Mark, Scale, Series},
    forest,
    layout::{Entry, Layout, Placed, SAMPLE, TICK_LENGTH, has_whiskers, layout},
    palette,
    pen::{Drawn, Pen, Spot},
};
use crate::base::{Context, Exit, Result};

/// Pixels drawn for each pixel of the picture, each way, since plotters' strokes are rough at the picture's own size;
/// fewer where a picture is so high that this would take hundreds of megabytes.
fn finer(height: usize) -> usize {
    if height <= 2400 { 3 } else { 2 }
}

const STRONG: f64 = 3.0;
const FAINT: f64 = 1.2;
const MARKER: f64 = 7.5;
/// The radius of a single value.
pub const DOT: f64 = 4.5;
/// Markers of one line stand at least this far apart.
const MARKER_SPACING: f64 = 26.0;

/// The picture of `figure` as a PNG.
pub fn png(figure: &Figure) -> Result<Vec<u8>> {
    let plan = layout(figure);
    picture(plan.size, &figure.title, |pen| paint(pen, &plan))
}

/// A PNG of that width and height, with what `paint` draws. `title` names it where that fails.
pub(super) fn picture(
    (width, height): (f64, f64),
    title: &str,
    paint: impl for<'a> FnOnce(&Pen<BitMapBackend<'a>>) -> Drawn<BitMapBackend<'a>>,
) -> Result<Vec<u8>> {
    let (width, height) = (width as usize, height as usize);
    let finer = finer(height);
    let fine = (width * finer, height * finer);
    let mut canvas = vec![0xffu8; 3 * fine.0 * fine.1];
    {
        let area = BitMapBackend::with_buffer(&mut canvas, (fine.0 as u32, fine.1 as u32)).into_drawing_area();
        failing(paint(&Pen::new(&area, finer as f64)), title)?;
        failing(area.present(), title)?;
    }
    failing(encode(&reduce(&canvas, fine.0, finer), width as u32, height as u32), title)
}

fn failing<T, E: Display + 'static>(result: std::result::Result<T, E>, title: &str) -> Result<T> {
    result.doing(Exit::Unexpected, || format!("drawing the picture \"{title}\""))
}

/// Averages squares of `finer` × `finer` pixels. `width`: of a row of `canvas`, in pixels.
fn reduce(canvas: &[u8], width: usize, finer: usize) -> Vec<u8> {
    let area = (finer * finer) as u32;
    let row = 3 * width;
    let mut out = Vec::with_capacity(canvas.len() / (finer * finer));
    let mut sums = vec![0u32; row / finer];
    for block in canvas.chunks_exact(finer * row) {
        sums.fill(0);
        for line in block.chunks_exact(row) {
            for (pixel, sum) in line.chunks_exact(3 * finer).zip(sums.chunks_exact_mut(3)) {
                for rgb in pixel.chunks_exact(3) {
                    sum.iter_mut().zip(rgb).for_each(|(s, &c)| *s += u32::from(c));
                }
            }
        }
        out.extend(sums.iter().map(|s| ((s + area / 2) / area) as u8));
    }
    out
}

fn encode(rgb: &[u8], width: u32, height: u32) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(bytes)
}

fn paint<DB: DrawingBackend>(pen: &Pen<DB>, plan: &Layout) -> Drawn<DB> {
    plan.panels.iter().try_for_each(|placed| panel(pen, placed))?;
    plan.forest.iter().try_for_each(|placed| forest::paint(pen, placed))?;
    plan.samples.iter().try_for_each(|(entry, at)| sample(pen, entry, *at))?;
    plan.labels.iter().try_for_each(|label| pen.label(label))
}

fn panel<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed) -> Drawn<DB> {
    let (left, top, right, bottom) = placed.field;
    for &x in &placed.x_ticks {
        if !matches!(placed.panel.x.scale, Scale::Words(_)) {
            pen.stroke((x, top), (x, bottom), 1.0, palette::GRID)?;
        }
        pen.stroke((x, bottom), (x, bottom + TICK_LENGTH), 1.4, palette::AXIS)?;
    }
    for &y in &placed.y_ticks {
        pen.stroke((left, y), (right, y), 1.0, palette::GRID)?;
        pen.stroke((left - TICK_LENGTH, y), (left, y), 1.4, palette::AXIS)?;
    }
    let series = || placed.panel.series.iter();
    series().try_for_each(|s| if has_whiskers(s) { Ok(()) } else { band(pen, placed, s) })?;
    for reference in &placed.panel.references {
        pen.dashes((left, placed.y.at(reference.y)), right, 2.0, palette::SOFT)?;
    }
    series().filter(|s| s.line == Line::Faint).try_for_each(|s| line(pen, placed, s))?;
    series().try_for_each(|s| dots(pen, placed, s))?;
    series().filter(|s| has_whiskers(s)).try_for_each(|s| whiskers(pen, placed, s))?;
    pen.stroke((left, top), (left, bottom), 1.4, palette::AXIS)?;
    pen.stroke((left, bottom), (right, bottom), 1.4, palette::AXIS)?;
    series().filter(|s| s.line == Line::Strong).try_for_each(|s| line(pen, placed, s))?;
    series().filter(|s| s.markers).try_for_each(|s| markers(pen, placed, s))?;
    gaps(pen, placed)
}

/// Where a value stands in the picture.
fn spot(placed: &Placed, (x, y): (f64, f64)) -> Spot {
    (placed.x.at(x), placed.y.at(y))
}

/// Whether a spot lies in the field, its edges included.
fn inside(placed: &Placed, (x, y): Spot) -> bool {
    let (left, top, right, bottom) = placed.field;
    (left - 0.5..=right + 0.5).contains(&x) && (top - 0.5..=bottom + 0.5).contains(&y)
}

fn band<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed, series: &Series) -> Drawn<DB> {
    let finite = |b: &(f64, f64, f64)| b.1.is_finite() && b.2.is_finite();
    for part in series.band.chunk_by(|a, b| finite(a) && finite(b)).filter(|part| part.len() > 1) {
        let upper = part.iter().map(|b| spot(placed, (b.0, b.2)));
        let lower = part.iter().rev().map(|b| spot(placed, (b.0, b.1)));
        let area = clip_area(&upper.chain(lower).collect::<Vec<_>>(), placed.field);
        if !area.is_empty() {
            pen.polygon(&area, palette::color(series.ink).mix(0.16))?;
        }
    }
    Ok(())
}

/// The part of an area that lies between the top and the bottom of the field (Sutherland and Hodgman, 1974).
fn clip_area(corners: &[Spot], (_, top, _, bottom): (f64, f64, f64, f64)) -> Vec<Spot> {
    let mut area = corners.to_vec();
    for (edge, sign) in [(top, 1.0), (bottom, -1.0)] {
        let depth = |s: Spot| (s.1 - edge) * sign; // positive inside
        let mut kept = Vec::with_capacity(area.len() + 2);
        for (i, &b) in area.iter().enumerate() {
            let a = area[(i + area.len() - 1) % area.len()];
            if (depth(a) > 0.0) != (depth(b) > 0.0) {
                kept.push((a.0 + (b.0 - a.0) * depth(a) / (depth(a) - depth(b)), edge));
            }
            if depth(b) > 0.0 {
                kept.push(b);
            }
        }
        area = kept;
    }
    area
}

fn whiskers<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed, series: &Series) -> Drawn<DB> {
    let strokes = series.band.iter().map(|&(x, lo, hi)| (spot(placed, (x, lo)), spot(placed, (x, hi))));
    strokes.filter(|(lo, hi)| hi.1 < lo.1).try_for_each(|(lo, hi)| pen.stroke(lo, hi, 2.4, palette::color(series.ink)))
}

fn dots<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed, series: &Series) -> Drawn<DB> {
    let spots = series.dots.iter().map(|&p| spot(placed, p)).filter(|&s| inside(placed, s));
    spots.into_iter().try_for_each(|s| pen.disc(s, DOT, palette::color(series.ink).mix(0.45)))
}

fn line<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed, series: &Series) -> Drawn<DB> {
    let (width, color) = match series.line {
        Line::Strong => (STRONG, palette::color(series.ink)),
        _ => (FAINT, palette::faint(series.ink)),
    };
    let spots: Vec<Spot> = series.points.iter().map(|&p| spot(placed, p)).collect();
    let finite = |s: &Spot| s.1.is_finite();
    for part in spots.chunk_by(|a, b| finite(a) && finite(b)).filter(|part| finite(&part[0])) {
        for piece in clip(&decimate::columns(part, 1.0), placed.field) {
            pen.line(&piece, width, color)?;
        }
    }
    Ok(())
}

/// The pieces of a line that lie between the top and the bottom of the field.
fn clip(line: &[Spot], (_, top, _, bottom): (f64, f64, f64, f64)) -> Vec<Vec<Spot>> {
    let mut pieces: Vec<Vec<Spot>> = vec![Vec::new()];
    for pair in line.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let across = |y: f64| (y - a.1) / (b.1 - a.1);
        let (mut from, mut to) = (0.0f64, 1.0f64);
        if a.1 != b.1 {
            let (enter, leave) = if b.1 > a.1 { (across(top), across(bottom)) } else { (across(bottom), across(top)) };
            (from, to) = (from.max(enter), to.min(leave));
        } else if a.1 < top || a.1 > bottom {
            to = -1.0;
        }
        let at = |t: f64| (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
        let Some(piece) = pieces.last_mut() else { continue };
        if from > to {
            continue;
        }
        if piece.last() == Some(&at(from)) {
            piece.push(at(to));
        } else {
            pieces.push(vec![at(from), at(to)]);
        }
    }
    pieces.retain(|p| p.len() > 1);
    pieces
}

fn markers<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed, series: &Series) -> Drawn<DB> {
    let spots: Vec<Spot> = series.points.iter().map(|&p| spot(placed, p)).filter(|&s| inside(placed, s)).collect();
    let (Some(first), Some(last)) = (spots.first(), spots.last()) else { return Ok(()) };
    let spacing = (last.0 - first.0) / (spots.len() - 1).max(1) as f64;
    let every =
        if series.line == Line::None || spacing <= 0.0 { 1 } else { (MARKER_SPACING / spacing).ceil() as usize };
    spots.iter().rev().step_by(every.max(1)).try_for_each(|&s| marker(pen, series.ink, s))
}

/// A marker with a white edge, which keeps it apart from lines and other markers.
pub fn marker<DB: DrawingBackend>(pen: &Pen<DB>, ink: Ink, at: Spot) -> Drawn<DB> {
    pen.polygon(&palette::marker(ink, at, MARKER + 2.0), palette::PAPER.to_rgba())?;
    pen.polygon(&palette::marker(ink, at, MARKER), palette::color(ink).to_rgba())
}

/// Crosses for what is missing; those of one place stand side by side.
fn gaps<DB: DrawingBackend>(pen: &Pen<DB>, placed: &Placed) -> Drawn<DB> {
    const APART: f64 = 20.0;
    let foot = placed.field.3;
    let mut at_foot: Vec<&Gap> = Vec::new();
    for gap in &placed.panel.gaps {
        let x = placed.x.at(gap.x);
        match gap.y.map(|y| placed.y.at(y)).filter(|&y| inside(placed, (x, y))) {
            Some(y) => cross(pen, (x, y), palette::color(gap.ink))?,
            None => {
                let before = at_foot.iter().filter(|g| g.x == gap.x).count();
                let here = placed.panel.gaps.iter().filter(|g| g.x == gap.x && g.y == gap.y).count();
                let shift = (before as f64 - (here.max(1) - 1) as f64 / 2.0) * APART;
                cross(pen, (x + shift, foot - 14.0), palette::color(gap.ink))?;
                at_foot.push(gap);
            }
        }
    }
    Ok(())
}

fn cross<DB: DrawingBackend>(pen: &Pen<DB>, (x, y): Spot, color: RGBColor) -> Drawn<DB> {
    const ARM: f64 = 8.0;
    for (width, color) in [(7.0, palette::PAPER), (3.2, color)] {
        pen.stroke((x - ARM, y - ARM), (x + ARM, y + ARM), width, color)?;
        pen.stroke((x - ARM, y + ARM), (x + ARM, y - ARM), width, color)?;
    }
    Ok(())
}

/// The sample of a legend's entry.
fn sample<DB: DrawingBackend>(pen: &Pen<DB>, entry: &Entry, (left, y): Spot) -> Drawn<DB> {
    let right = left + SAMPLE;
    match entry {
        Entry::Reference(_) => pen.dashes((left, y), right, 2.0, palette::SOFT),
        Entry::Mark(Mark { ink, .. }) => marker(pen, *ink, ((left + right) / 2.0, y)),
        Entry::Series(series) => {
            match series.line {
                Line::Strong => pen.stroke((left, y), (right, y), STRONG, palette::color(series.ink))?,
                Line::Faint => pen.stroke((left, y), (right, y), FAINT * 1.5, palette::faint(series.ink))?,
                Line::None => {}
            }
            if series.markers { marker(pen, series.ink, ((left + right) / 2.0, y)) } else { Ok(()) }
        }
    }
}
