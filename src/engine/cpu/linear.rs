//! Products with a matrix of weights: forward, and backward to the input and to the weights.
//!
//! With packed weights (small models) each call is one matrix product. Without, a part of the matrix at a time is packed
//! into a small buffer by all threads and used for all rows; so a large model needs no second copy of its weights.

use rayon::prelude::*;

use super::{Cx, weights::Linear};
use crate::kernels::{
    gemm::{Lhs, Rhs, Start, gemm, pack_rows, pack_transposed, packed_len},
    pointwise,
};

/// Rows of activations with a leading dimension.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub data: &'a [f32],
    pub ld: usize,
}

/// Rows of activations that are written.
pub struct RowsMut<'a> {
    pub data: &'a mut [f32],
    pub ld: usize,
}

/// Panels of a packed weight that are one task.
const PANELS: usize = 4;
/// Weight rows whose gradient is one task.
const OUTPUTS: usize = 64;

/// y = x·Wᵀ + b
pub fn forward(cx: &Cx, l: &Linear, rows: usize, x: Rows, y: RowsMut, pack: &mut [f32]) {
    forward_from(cx, l, rows, x, y, pack, |bias| bias.map_or(Start::Zero, Start::Bias));
}

/// y += x·Wᵀ + b
pub fn forward_onto(cx: &Cx, l: &Linear, rows: usize, x: Rows, y: RowsMut, pack: &mut [f32]) {
    forward_from(cx, l, rows, x, y, pack, |bias| bias.map_or(Start::C, Start::CAndBias));
}

fn forward_from<'a>(
    cx: &Cx<'a>,
    l: &Linear,
    rows: usize,
    x: Rows,
    y: RowsMut,
    pack: &mut [f32],
    start: impl Fn(Option<&'a [f32]>) -> Start<'a>,
) {
    let (k, panel) = (l.inputs, cx.level.panel());
    let bias = l.bias.as_ref().map(|b| &cx.params[b.clone()]);
    if !cx.packed.is_empty() {
        return product(cx, [rows, l.outputs, k], x, Rhs::Panels(l.packed(cx.packed)), start(bias), y);
    }
    let w = &cx.params[l.weight.clone()];
    let at_once = (pack.len() / packed_len(k, panel, panel)).max(1) * panel;
    for first in (0..l.outputs).step_by(at_once) {
        let n = at_once.min(l.outputs - first);
        let part = &mut pack[..packed_len(k, n, panel)];
        cx.each(part.par_chunks_mut(k * panel).enumerate())
            .for_each(|(p, out)| pack_transposed(cx.level, w, k, [k, l.outputs], out, first / panel + p));
        let start = start(bias.map(|b| &b[first..first + n]));
        let y = RowsMut { data: &mut y.data[first..], ld: y.ld };
        product(cx, [rows, n, k], x, Rhs::Panels(part), start, y);
    }
}

/// dx = dy·W
pub fn backward_input(cx: &Cx, l: &Linear, rows: usize, dy: Rows, dx: RowsMut, pack: &mut [f32]) {
    let (n, panel) = (l.inputs, cx.level.panel());
    let w = &cx.params[l.weight.clone()];
    if !cx.packed.is_empty() {
        return product(cx, [rows, n, l.outputs], dy, Rhs::Rows(w, n), Start::Zero, dx);
    }
    let at_once = pack.len() / packed_len(1, n, panel);
    for first in (0..l.outputs).step_by(at_once) {
        let k = at_once.min(l.outputs - first);
        let part = &mut pack[..packed_len(k, n, panel)];
        cx.each(part.par_chunks_mut(PANELS * k * panel).enumerate())
            .for_each(|(i, out)| pack_rows(&w[first * n..], n, [k, n], panel, out, PANELS * i));
        let start = if first == 0 { Start::Zero } else { Start::C };
        let dy = Rows { data: &dy.data[first..], ld: dy.ld };
        let dx = RowsMut { data: dx.data, ld: dx.ld };
        product(cx, [rows, n, k], dy, Rhs::Panels(part), start, dx);
    }
}

/// dW = dyᵀ·x where `fresh`, else it is added; db += the sum of dy's rows.
pub fn backward_weight(cx: &Cx, l: &Linear, rows: usize, dy: Rows, x: Rows, grads: &mut [f32], fresh: bool) {
    let k = l.inputs;
    let (dw, db) = l.grads(grads);
    let start = if fresh { Start::Zero } else { Start::C };
    cx.each(dw.par_chunks_mut(OUTPUTS * k).enumerate()).for_each(|(i, dw)| {
        let dy = Lhs::transposed(&dy.data[i * OUTPUTS..], dy.ld);
        gemm(cx.level, [dw.len() / k, k, rows], dy, Rhs::Rows(x.data, x.ld), start, dw, k);
    });
    if let Some(db) = db {
        cx.each(db.par_chunks_mut(OUTPUTS).enumerate()).for_each(|(i, db)| {
            pointwise::add_rows(cx.level, &dy.data[i * OUTPUTS..], dy.ld, db);
        });
    }
}

/// C = start + A·B, by blocks of rows.
fn product(cx: &Cx, [rows, n, k]: [usize; 3], a: Rows, b: Rhs, start: Start, c: RowsMut) {
    let height = cx.block(rows);
    let blocks = c.data.par_chunks_mut(height * c.ld).zip(a.data.par_chunks(height * a.ld));
    cx.each(blocks.enumerate()).for_each(|(i, (block, rows_of_a))| {
        let rows = height.min(rows.saturating_sub(i * height));
        gemm(cx.level, [rows, n, k], Lhs::rows(rows_of_a, a.ld), b, start, block, c.ld);
    });
}
