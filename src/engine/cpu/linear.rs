//! Products with a matrix of weights: forward, and backward to the input and to the weights. Helpers take some columns of
//! the result each.
//!
//! With packed weights (small and medium models) that is all. Without, tasks pack the part of the matrix that their
//! columns need into memory of their own, and use it for all rows. So a large model needs no second copy of its weights,
//! and what a thread packs stays in its own cache: a step of 6 layers of width 384 on two threads took 860 ms so, and 1000
//! with a part of the matrix packed by all threads and rows shared among them.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::{Cx, weights::Linear};
use crate::kernels::{
    Buffer, Columns,
    gemm::{DEPTH, Lhs, Rhs, Start, gemm, gemm_columns},
    pack::{pack_rows, pack_transposed, packed_len},
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

/// Tasks of a product for each helper: one that is slowed down leaves more of them to the others (with 2 instead of 8 a
/// quarter of the steps took over 997 instead of 948 ms on a machine whose cores have other users).
const TASKS: usize = 8;

/// y = x·Wᵀ + b
pub fn forward(cx: &Cx, l: &Linear, rows: usize, x: Rows, y: RowsMut, packs: &[Mutex<Buffer>]) {
    forward_from(cx, l, rows, x, y, packs, |bias| bias.map_or(Start::Zero, Start::Bias));
}

/// y += x·Wᵀ + b
pub fn forward_onto(cx: &Cx, l: &Linear, rows: usize, x: Rows, y: RowsMut, packs: &[Mutex<Buffer>]) {
    forward_from(cx, l, rows, x, y, packs, |bias| bias.map_or(Start::C, Start::CAndBias));
}

fn forward_from<'a>(
    cx: &Cx<'a>,
    l: &Linear,
    rows: usize,
    x: Rows,
    y: RowsMut,
    packs: &[Mutex<Buffer>],
    start: impl Fn(Option<&'a [f32]>) -> Start<'a> + Sync,
) {
    let (k, panel) = (l.inputs, cx.level.panel());
    let bias = l.bias.as_ref().map(|b| &cx.params[b.clone()]);
    let (x, y) = (Lhs::rows(x.data, x.ld), Columns::new(y.data, [rows, l.outputs], y.ld));
    if !cx.packed.is_empty() {
        let packed = l.packed(cx.packed);
        return split(y, 0, width(cx, l.outputs), &|first, y| {
            let n = y.shape()[1];
            let part = Rhs::Panels(&packed[packed_len(k, first, panel)..][..packed_len(k, n, panel)]);
            gemm_columns(cx.level, k, x, part, start(bias.map(|b| &b[first..first + n])), y);
        });
    }
    let w = &cx.params[l.weight.clone()];
    by_columns(cx, y, k, packs, &|first, y, pack| {
        let n = y.shape()[1];
        let part = &mut pack[..packed_len(k, n, panel)];
        pack_transposed(cx.level, w, k, [k, l.outputs], part, first / panel);
        gemm_columns(cx.level, k, x, Rhs::Panels(part), start(bias.map(|b| &b[first..first + n])), y);
    });
}

/// dx = dy·W
pub fn backward_input(cx: &Cx, l: &Linear, rows: usize, dy: Rows, dx: RowsMut, packs: &[Mutex<Buffer>]) {
    backward_input_from(cx, l, rows, dy, dx, packs, Start::Zero);
}

/// dx += dy·W
pub fn backward_input_onto(cx: &Cx, l: &Linear, rows: usize, dy: Rows, dx: RowsMut, packs: &[Mutex<Buffer>]) {
    backward_input_from(cx, l, rows, dy, dx, packs, Start::C);
}

fn backward_input_from(
    cx: &Cx,
    l: &Linear,
    rows: usize,
    dy: Rows,
    dx: RowsMut,
    packs: &[Mutex<Buffer>],
    start: Start<'static>,
) {
    let (n, panel) = (l.inputs, cx.level.panel());
    let (w, dx) = (&cx.params[l.weight.clone()], Columns::new(dx.data, [rows, n], dx.ld));
    if !cx.packed.is_empty() {
        return split(dx, 0, width(cx, n), &|first, dx| {
            gemm_columns(cx.level, l.outputs, Lhs::rows(dy.data, dy.ld), Rhs::Rows(&w[first..], n), start, dx);
        });
    }
    by_columns(cx, dx, DEPTH, packs, &|left, mut dx, pack| {
        let columns = dx.shape()[1];
        // As deep as fits: in parts of DEPTH, or the bits would follow from the number of tasks.
        let at_once = pack.len() / packed_len(DEPTH, columns, panel) * DEPTH;
        for first in (0..l.outputs).step_by(at_once) {
            let k = at_once.min(l.outputs - first);
            let part = &mut pack[..packed_len(k, columns, panel)];
            pack_rows(&w[first * n..], n, [k, n], panel, part, left / panel);
            let start = if first == 0 { start } else { Start::C };
            gemm_columns(cx.level, k, Lhs::rows(&dy.data[first..], dy.ld), Rhs::Panels(part), start, dx.reborrow());
        }
    });
}

/// Lets the helpers work on columns of `c`, each with room for their weights of `k` rows. The work is called with the
/// first column, the columns and the room.
fn by_columns<F>(cx: &Cx, c: Columns, k: usize, packs: &[Mutex<Buffer>], work: &F)
where
    F: Fn(usize, Columns, &mut Buffer) + Sync,
{
    let panel = cx.level.panel();
    let room = packs.iter().map(|p| p.lock().unwrap_or_else(PoisonError::into_inner).len()).min().unwrap_or(0);
    let width = width(cx, c.shape()[1]).min(room / packed_len(k, panel, panel) * panel);
    split(c, 0, width, &|first, c| {
        work(first, c, &mut packs[cx.helper()].lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// Columns of a task: whole panels, or all where nobody helps.
fn width(cx: &Cx, columns: usize) -> usize {
    let (panel, tasks) = (cx.level.panel(), if cx.helpers == 1 { 1 } else { TASKS * cx.helpers });
    columns.div_ceil(panel).div_ceil(tasks) * panel
}

/// Calls `work` with each `width` of columns, in parallel.
fn split(c: Columns, first: usize, width: usize, work: &(impl Fn(usize, Columns) + Sync)) {
    let parts = c.shape()[1].div_ceil(width);
    if parts <= 1 {
        return work(first, c);
    }
    let at = parts / 2 * width;
    let (left, right) = c.split_at(at);
    rayon::join(|| split(left, first, width, work), || split(right, first + at, width, work));
}

/// dW = dyᵀ·x where `fresh`, else it is added; db += the sum of dy's rows.
pub fn backward_weight(cx: &Cx, l: &Linear, rows: usize, dy: Rows, x: Rows, grads: &mut [f32], fresh: bool) {
    let k = l.inputs;
    let (dw, db) = l.grads(grads);
    let start = if fresh { Start::Zero } else { Start::C };
    let height = cx.block(l.outputs);
    cx.each(dw.par_chunks_mut(height * k).enumerate()).for_each(|(i, dw)| {
        let dy = Lhs::transposed(&dy.data[i * height..], dy.ld);
        gemm(cx.level, [dw.len() / k, k, rows], dy, Rhs::Rows(x.data, x.ld), start, dw, k);
    });
    if let Some(db) = db {
        cx.each(db.par_chunks_mut(height).enumerate()).for_each(|(i, db)| {
            pointwise::add_rows(cx.level, &dy.data[i * height..], dy.ld, db);
        });
    }
}
