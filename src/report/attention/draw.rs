//! From the picture of attention as data to the bytes of a PNG.

use super::{
    super::{
        palette,
        pen::{Align, Drawn, Label, Pen, Spot},
        raster::picture,
        text::{CAPITALS, Weight},
    },
    figure::{HeatFigure, HeatMap},
    layout::{Plan, layout, share},
};
use crate::base::Result;

/// Cells that are wider than this have a gap between them.
const PARTED: f64 = 16.0;

/// From this share on a cell is so dark that light letters are read better.
const DARK: f64 = 0.5;

/// The picture as a PNG.
pub fn png(figure: &HeatFigure) -> Result<Vec<u8>> {
    let plan = layout(figure);
    picture(plan.size, &figure.title, |pen| paint(pen, &plan))
}

fn paint<P: Pen>(pen: &P, plan: &Plan) -> Drawn<P> {
    bar(pen, plan)?;
    plan.maps.iter().try_for_each(|(map, at)| heat(pen, plan, map, *at))?;
    plan.ticks.iter().try_for_each(|&(a, b)| pen.stroke(a, b, 1.2, palette::AXIS))?;
    plan.labels.iter().try_for_each(|label| pen.label(label))
}

fn bar<P: Pen>(pen: &P, plan: &Plan) -> Drawn<P> {
    let (left, top, right, bottom) = plan.bar;
    let steps = (right - left) as usize;
    for i in 0..steps {
        let color = palette::sequential((i as f64 + 0.5) / steps as f64);
        pen.rect((left + i as f64, top), (left + i as f64 + 1.0, bottom), color.into())?;
    }
    plan.levels.iter().try_for_each(|&x| pen.stroke((x, bottom), (x, bottom + 5.0), 1.2, palette::AXIS))
}

/// One map: the cells up to the diagonal, and the axes.
fn heat<P: Pen>(pen: &P, plan: &Plan, map: &HeatMap, (left, top): Spot) -> Drawn<P> {
    let cells = plan.tokens.min(plan.side as usize);
    let cell = plan.side / cells as f64;
    let inset = if cell >= PARTED { 0.5 } else { 0.0 };
    for i in 0..cells {
        for j in 0..=i {
            let weight = pooled(map.weights, plan.tokens, cells, (i, j));
            let (x, y) = (left + j as f64 * cell, top + i as f64 * cell);
            let color = palette::sequential(share(weight));
            pen.rect((x + inset, y + inset), (x + cell - inset, y + cell - inset), color.into())?;
            if plan.is_written && weight >= 0.005 {
                written(pen, weight, (x + cell / 2.0, y + cell / 2.0))?;
            }
        }
    }
    let (right, bottom) = (left + plan.side, top + plan.side);
    pen.stroke((left, top), (left, bottom), 1.2, palette::AXIS)?;
    pen.stroke((left, bottom), (right, bottom), 1.2, palette::AXIS)
}

/// The greatest weight of those that share a cell of the picture, where a prompt has more tokens than a map has pixels: a
/// mean would wash out what stands in lines.
pub fn pooled(weights: &[f32], tokens: usize, cells: usize, (i, j): (usize, usize)) -> f64 {
    let of = |k: usize| k * tokens / cells..((k + 1) * tokens).div_ceil(cells);
    let all =
        of(i).flat_map(|query| of(j).filter(move |&key| key <= query).map(move |key| weights[query * tokens + key]));
    // What is no number is to be seen.
    all.fold(f64::NEG_INFINITY, |most, w| if w.is_nan() || most.is_nan() { f64::NAN } else { most.max(w.into()) })
}

/// A weight in its cell.
fn written<P: Pen>(pen: &P, weight: f64, (x, y): Spot) -> Drawn<P> {
    const SIZE: f64 = 16.0;
    pen.label(&Label {
        text: format!("{weight:.2}"),
        spot: (x, y + SIZE * CAPITALS / 2.0),
        align: Align::Middle,
        size: SIZE,
        weight: Weight::Regular,
        upward: false,
        color: if share(weight) > DARK { palette::PAPER } else { palette::TEXT },
    })
}
