//! Draws a figure whose places are known, with any pen. The same figure gives the same strokes.

use plotters::style::{Color, RGBColor};

use super::{
    decimate,
    figure::{Cell, Fill, Gap, Ink, Line, Mark, Scale, Series},
    forest,
    layout::{Entry, Layout, Placed, SAMPLE, TICK_LENGTH, has_whiskers},
    palette,
    pen::{Align, Drawn, Label, Part, Pen, Spot},
    text::{CAPITALS, Weight, width},
};

const STRONG: f64 = 3.0;
const THIN: f64 = 1.6;
const FAINT: f64 = 1.2;
const MARKER: f64 = 7.5;
/// The radius of a single value.
pub const DOT: f64 = 4.5;
/// Markers of one line stand at least this far apart.
const MARKER_SPACING: f64 = 26.0;
/// The sizes that words in cells may have, the best first, and from one line to the next, in em.
const CELL_SIZES: [f64; 6] = [25.0, 22.0, 20.0, 18.0, 16.0, 14.0];
const CELL_LEADING: f64 = 1.3;
/// How strong the colour of a cell is whose runs all ended alike.
pub const SWATCH: f64 = 0.75;
/// From this share on a cell is so dark that light letters are read better.
const DARK: f64 = 0.5;

/// Draws everything.
pub fn paint<P: Pen>(pen: &P, plan: &Layout) -> Drawn<P> {
    for (number, placed) in plan.panels.iter().enumerate() {
        let words = placed.ticks.iter().map(|range| &plan.labels[range.clone()]);
        let mut ticks = words.into_iter();
        pen.part(Part::Panel(number), || {
            panel(pen, placed)?;
            ticks.try_for_each(|words| pen.part(Part::Ticks, || words.iter().try_for_each(|label| pen.label(label))))
        })?;
    }
    plan.forest.iter().try_for_each(|placed| forest::paint(pen, placed))?;
    plan.samples.iter().try_for_each(|(entry, at)| sample(pen, entry, *at))?;
    let is_tick = |i: &usize| plan.panels.iter().flat_map(|p| &p.ticks).any(|range| range.contains(i));
    let others = plan.labels.iter().enumerate().filter(|(i, _)| !is_tick(i));
    others.into_iter().try_for_each(|(_, label)| pen.label(label))
}

fn panel<P: Pen>(pen: &P, placed: &Placed) -> Drawn<P> {
    let (left, top, right, bottom) = placed.field;
    let panel = placed.panel;
    pen.part(Part::Grid, || {
        for &x in &placed.x_ticks {
            if !matches!(panel.x.scale, Scale::Words(_)) {
                pen.stroke((x, top), (x, bottom), 1.0, palette::GRID)?;
            }
            pen.stroke((x, bottom), (x, bottom + TICK_LENGTH), 1.4, palette::AXIS)?;
        }
        placed.y_ticks.iter().try_for_each(|&y| {
            if panel.cells.is_empty() {
                pen.stroke((left, y), (right, y), 1.0, palette::GRID)?;
            }
            pen.stroke((left - TICK_LENGTH, y), (left, y), 1.4, palette::AXIS)
        })
    })?;
    let series = || panel.series.iter();
    let lines = |kind: Line| series().filter(move |s| s.line == kind).try_for_each(|s| line(pen, placed, s));
    pen.part(Part::Field(placed.field), || {
        cells(pen, placed)?;
        series().try_for_each(|s| if has_whiskers(s) { Ok(()) } else { band(pen, placed, s) })?;
        for reference in &panel.references {
            pen.dashes((left, placed.y.at(reference.y)), right, 2.0, palette::SOFT)?;
        }
        lines(Line::Faint)?;
        series().try_for_each(|s| dots(pen, placed, s))?;
        series().filter(|s| has_whiskers(s)).try_for_each(|s| whiskers(pen, placed, s))
    })?;
    pen.stroke((left, top), (left, bottom), 1.4, palette::AXIS)?;
    pen.stroke((left, bottom), (right, bottom), 1.4, palette::AXIS)?;
    pen.part(Part::Field(placed.field), || {
        lines(Line::Thin)?;
        lines(Line::Strong)?;
        series().filter(|s| s.markers).try_for_each(|s| markers(pen, placed, s))?;
        gaps(pen, placed)
    })
}

/// The cells of a map with what is written in them, as large as all of it fits.
fn cells<P: Pen>(pen: &P, placed: &Placed) -> Drawn<P> {
    const INSET: f64 = 1.5;
    let cells = &placed.panel.cells;
    let wide = (placed.x.at(1.0) - placed.x.at(0.0)).abs() - 2.0 * INSET;
    let high = (placed.y.at(1.0) - placed.y.at(0.0)).abs() - 2.0 * INSET;
    let fits = |size: f64, lines: usize| {
        let is_short = |text: &String| width(text, size, Weight::Regular) <= wide - 8.0;
        let is_low = |cell: &Cell| cell.lines.len().min(lines) as f64 * CELL_LEADING * size <= high - 4.0;
        cells.iter().all(|cell| is_low(cell) && cell.lines.iter().take(lines).all(is_short))
    };
    let most = cells.iter().map(|cell| cell.lines.len()).max().unwrap_or(0);
    let choices = (1..=most).rev().flat_map(|lines| CELL_SIZES.map(|size| (size, lines)));
    let chosen = choices.into_iter().find(|&(size, lines)| fits(size, lines));
    for cell in cells {
        let (x, y) = (placed.x.at(cell.x as f64), placed.y.at(cell.y as f64));
        let (color, share) = match cell.fill {
            Fill::Share(share) => (palette::sequential(share).to_rgba(), share),
            Fill::Ink(ink, strength) => (palette::color(ink).mix(strength), 0.0),
        };
        pen.rect((x - wide / 2.0, y - high / 2.0), (x + wide / 2.0, y + high / 2.0), color)?;
        let Some((size, lines)) = chosen else { continue };
        let lines: Vec<&String> = cell.lines.iter().take(lines).collect();
        let first = y + size * CAPITALS / 2.0 - CELL_LEADING * size * (lines.len() - 1) as f64 / 2.0;
        for (i, text) in lines.into_iter().enumerate() {
            pen.label(&Label {
                text: text.clone(),
                spot: (x, first + CELL_LEADING * size * i as f64),
                align: Align::Middle,
                size,
                weight: Weight::Regular,
                upward: false,
                color: match cell.fill {
                    Fill::Share(_) if share > DARK => palette::ON_DARK,
                    Fill::Share(_) => palette::ON_LIGHT,
                    Fill::Ink(..) => palette::TEXT,
                },
            })?;
        }
    }
    Ok(())
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

fn band<P: Pen>(pen: &P, placed: &Placed, series: &Series) -> Drawn<P> {
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

fn whiskers<P: Pen>(pen: &P, placed: &Placed, series: &Series) -> Drawn<P> {
    let strokes = series.band.iter().map(|&(x, lo, hi)| (spot(placed, (x, lo)), spot(placed, (x, hi))));
    strokes.filter(|(lo, hi)| hi.1 < lo.1).try_for_each(|(lo, hi)| pen.stroke(lo, hi, 2.4, palette::color(series.ink)))
}

fn dots<P: Pen>(pen: &P, placed: &Placed, series: &Series) -> Drawn<P> {
    let spots = series.dots.iter().map(|&p| spot(placed, p)).filter(|&s| inside(placed, s));
    let disc = |s: Spot| pen.disc(s, DOT, palette::color(series.ink).mix(0.45));
    spots.into_iter().try_for_each(|s| pen.part(Part::Mark(s), || disc(s)))
}

fn line<P: Pen>(pen: &P, placed: &Placed, series: &Series) -> Drawn<P> {
    let (width, color) = match series.line {
        Line::Strong => (STRONG, palette::color(series.ink)),
        Line::Thin => (THIN, palette::color(series.ink)),
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

fn markers<P: Pen>(pen: &P, placed: &Placed, series: &Series) -> Drawn<P> {
    let spots: Vec<Spot> = series.points.iter().map(|&p| spot(placed, p)).filter(|&s| inside(placed, s)).collect();
    let (Some(first), Some(last)) = (spots.first(), spots.last()) else { return Ok(()) };
    let spacing = (last.0 - first.0) / (spots.len() - 1).max(1) as f64;
    let every =
        if series.line == Line::None || spacing <= 0.0 { 1 } else { (MARKER_SPACING / spacing).ceil() as usize };
    spots.iter().rev().step_by(every.max(1)).try_for_each(|&s| marker(pen, series.ink, s))
}

/// A marker with a white edge, which keeps it apart from lines and other markers.
pub fn marker<P: Pen>(pen: &P, ink: Ink, at: Spot) -> Drawn<P> {
    pen.part(Part::Mark(at), || {
        pen.polygon(&palette::marker(ink, at, MARKER + 2.0), palette::PAPER.to_rgba())?;
        pen.polygon(&palette::marker(ink, at, MARKER), palette::color(ink).to_rgba())
    })
}

/// Crosses for what is missing; those of one place stand side by side.
fn gaps<P: Pen>(pen: &P, placed: &Placed) -> Drawn<P> {
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

fn cross<P: Pen>(pen: &P, (x, y): Spot, color: RGBColor) -> Drawn<P> {
    const ARM: f64 = 8.0;
    pen.part(Part::Mark((x, y)), || {
        [(7.0, palette::PAPER), (3.2, color)].into_iter().try_for_each(|(width, color)| {
            pen.stroke((x - ARM, y - ARM), (x + ARM, y + ARM), width, color)?;
            pen.stroke((x - ARM, y + ARM), (x + ARM, y - ARM), width, color)
        })
    })
}

/// The sample of a legend's entry.
fn sample<P: Pen>(pen: &P, entry: &Entry, (left, y): Spot) -> Drawn<P> {
    let right = left + SAMPLE;
    match entry {
        Entry::Reference(_) => pen.dashes((left, y), right, 2.0, palette::SOFT),
        Entry::Mark(Mark { ink, .. }) => marker(pen, *ink, ((left + right) / 2.0, y)),
        Entry::Swatch(Mark { ink, .. }) => {
            pen.rect((left + 12.0, y - 12.0), (right, y + 12.0), palette::color(*ink).mix(SWATCH))
        }
        Entry::Ramp(_) => {
            const STEPS: usize = 48;
            let at = |i: usize| left + SAMPLE * i as f64 / STEPS as f64;
            (0..STEPS).try_for_each(|i| {
                let color = palette::sequential((i as f64 + 0.5) / STEPS as f64);
                pen.rect((at(i), y - 11.0), (at(i + 1), y + 11.0), color.to_rgba())
            })
        }
        Entry::Series(series) => {
            match series.line {
                Line::Strong => pen.stroke((left, y), (right, y), STRONG, palette::color(series.ink))?,
                Line::Thin => pen.stroke((left, y), (right, y), THIN * 1.5, palette::color(series.ink))?,
                Line::Faint => pen.stroke((left, y), (right, y), FAINT * 1.5, palette::faint(series.ink))?,
                Line::None => {}
            }
            if series.markers { marker(pen, series.ink, ((left + right) / 2.0, y)) } else { Ok(()) }
        }
    }
}
