//! The layers of GPT-2, forward and backward, over the buffers of one worker.
//!
//! R rows are the positions of a micro-batch, sequence after sequence; D is the model's width, H its heads of width W,
//! K of them with keys and values of their own, F the MLP's width.

use rayon::prelude::*;

use super::{
    Cx, Micro, attention,
    linear::{self, Rows, RowsMut},
    weights::{Block, Linear, Norm},
    workspace::{BlockActs, Matrix, NormActs, Passing},
};
use crate::{
    engine::Site,
    kernels::{norm, pointwise},
    spec::config::Norm as Kind,
};

impl Matrix {
    fn read(&self, rows: usize) -> Rows<'_> {
        Rows { data: self.rows(rows), ld: self.ld }
    }

    fn write(&mut self, rows: usize) -> RowsMut<'_> {
        let ld = self.ld;
        RowsMut { data: self.rows_mut(rows), ld }
    }
}

/// x += attention(norm(x)), then x += mlp(norm(x)). Without `keep` nothing is left for a backward pass.
pub fn block_forward(cx: &Cx, at: &Micro, layer: usize, w: &Block, acts: &mut BlockActs, p: &mut Passing, keep: bool) {
    let rows = at.rows();
    norm_forward(cx, rows, &w.norm1, &p.x, &mut acts.norm1, &mut p.normed);
    linear::forward(cx, &w.qkv, rows, p.normed.read(rows), acts.qkv.write(rows), &p.packs);
    attention::forward(cx, at, layer, acts, p);
    into_residual(cx, at, layer, Site::AttentionOut, &w.out, &acts.gathered, p);

    norm_forward(cx, rows, &w.norm2, &p.x, &mut acts.norm2, &mut p.normed);
    linear::forward(cx, &w.up, rows, p.normed.read(rows), acts.inner.write(rows), &p.packs);
    gelu(cx, rows, &mut acts.inner, &mut acts.slope, keep);
    into_residual(cx, at, layer, Site::MlpOut, &w.down, &acts.inner, p);
}

/// Takes the gradient of the block's output in `dx` to that of its input, and adds the weights' gradients to `grads`
/// (overwrites them where `fresh`).
#[allow(clippy::too_many_arguments)]
pub fn block_backward(
    cx: &Cx,
    at: &Micro,
    layer: usize,
    w: &Block,
    acts: &BlockActs,
    p: &mut Passing,
    grads: &mut [f32],
    fresh: bool,
) {
    let rows = at.rows();
    let dy = out_of_residual(cx, at, layer, Site::MlpOut, &p.dx, &mut p.mixed);
    linear::backward_weight(cx, &w.down, rows, dy, acts.inner.read(rows), grads, fresh);
    linear::backward_input(cx, &w.down, rows, dy, p.dinner.write(rows), &p.packs);
    multiply(cx, rows, &acts.slope, &mut p.dinner);
    norm_again(cx, rows, &w.norm2, &acts.norm2, &mut p.normed);
    linear::backward_weight(cx, &w.up, rows, p.dinner.read(rows), p.normed.read(rows), grads, fresh);
    linear::backward_input(cx, &w.up, rows, p.dinner.read(rows), p.mixed.write(rows), &p.packs);
    norm_backward(cx, rows, &w.norm2, &acts.norm2, p, grads);

    let dy = out_of_residual(cx, at, layer, Site::AttentionOut, &p.dx, &mut p.mixed);
    linear::backward_weight(cx, &w.out, rows, dy, acts.gathered.read(rows), grads, fresh);
    linear::backward_input(cx, &w.out, rows, dy, p.normed.write(rows), &p.packs);
    attention::backward(cx, at, layer, acts, p);
    norm_again(cx, rows, &w.norm1, &acts.norm1, &mut p.normed);
    linear::backward_weight(cx, &w.qkv, rows, p.dqkv.read(rows), p.normed.read(rows), grads, fresh);
    linear::backward_input(cx, &w.qkv, rows, p.dqkv.read(rows), p.mixed.write(rows), &p.packs);
    norm_backward(cx, rows, &w.norm1, &acts.norm1, p, grads);
}

/// y = norm(x)
pub fn norm_forward(cx: &Cx, rows: usize, w: &Norm, x: &Matrix, acts: &mut NormActs, y: &mut Matrix) {
    let (width, ld, height) = (x.width, x.ld, cx.block(rows));
    let ((weight, bias), eps) = (cx.norm(w), cx.model.norm_eps as f32);
    let blocks = (
        x.rows(rows).par_chunks(height * ld),
        acts.normal.rows_mut(rows).par_chunks_mut(height * ld),
        acts.inverse[..rows].par_chunks_mut(height),
        y.rows_mut(rows).par_chunks_mut(height * ld),
    );
    cx.each(blocks.into_par_iter()).for_each(|(x, normal, inverse, y)| match cx.model.norm {
        Kind::LayerNorm => norm::layer_norm(cx.level, width, ld, x, weight, bias, eps, normal, inverse, y),
        Kind::RmsNorm => norm::rms_norm(cx.level, width, ld, x, weight, eps, normal, inverse, y),
    });
}

/// The output of a norm once more.
pub fn norm_again(cx: &Cx, rows: usize, w: &Norm, acts: &NormActs, y: &mut Matrix) {
    let (width, ld, height) = (y.width, y.ld, cx.block(rows));
    let (weight, bias) = cx.norm(w);
    let blocks = (acts.normal.rows(rows).par_chunks(height * ld), y.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter())
        .for_each(|(normal, y)| norm::norm_again(cx.level, width, ld, normal, weight, bias, y));
}

/// Takes the gradient of a norm's output in `mixed`, adds that of its input to `dx` and those of its weights to `grads`.
pub fn norm_backward(cx: &Cx, rows: usize, w: &Norm, acts: &NormActs, p: &mut Passing, grads: &mut [f32]) {
    let (width, ld, height) = (p.dx.width, p.dx.ld, cx.block(rows));
    let blocks = (
        p.mixed.rows(rows).par_chunks(height * ld),
        acts.normal.rows(rows).par_chunks(height * ld),
        acts.inverse[..rows].par_chunks(height),
        p.dx.rows_mut(rows).par_chunks_mut(height * ld),
    );
    let (weight, _) = cx.norm(w);
    cx.each(blocks.into_par_iter()).for_each(|(dy, normal, inverse, dx)| match cx.model.norm {
        Kind::LayerNorm => norm::layer_norm_backward(cx.level, width, ld, dy, normal, inverse, weight, dx),
        Kind::RmsNorm => norm::rms_norm_backward(cx.level, width, ld, dy, normal, inverse, weight, dx),
    });
    let (dweight, dbias) = w.grads(grads);
    norm::weights_backward(cx.level, ld, p.mixed.rows(rows), acts.normal.rows(rows), dweight, dbias);
}

fn gelu(cx: &Cx, rows: usize, inner: &mut Matrix, slope: &mut Matrix, keep: bool) {
    let chunk = cx.block(rows) * inner.ld;
    let blocks = (inner.rows_mut(rows).par_chunks_mut(chunk), slope.rows_mut(rows).par_chunks_mut(chunk));
    cx.each(blocks.into_par_iter()).for_each(|(inner, slope)| {
        if keep {
            pointwise::gelu_with_slope(cx.level, inner, slope);
        } else {
            pointwise::gelu(cx.level, inner);
        }
    });
}

/// y *= x
fn multiply(cx: &Cx, rows: usize, x: &Matrix, y: &mut Matrix) {
    let chunk = cx.block(rows) * y.ld;
    let blocks = (x.rows(rows).par_chunks(chunk), y.rows_mut(rows).par_chunks_mut(chunk));
    cx.each(blocks.into_par_iter()).for_each(|(x, y)| pointwise::multiply(cx.level, x, y));
}

/// x += dropout(y·Wᵀ + b)
fn into_residual(cx: &Cx, at: &Micro, layer: usize, site: Site, w: &Linear, y: &Matrix, p: &mut Passing) {
    let (rows, ld, width) = (at.rows(), p.x.ld, p.x.width);
    let Some(mask) = at.mask(cx, site, layer) else {
        return linear::forward_onto(cx, w, rows, y.read(rows), p.x.write(rows), &p.packs);
    };
    linear::forward(cx, w, rows, y.read(rows), p.mixed.write(rows), &p.packs);
    let height = cx.block(rows);
    let blocks = (p.mixed.rows(rows).par_chunks(height * ld), p.x.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter().enumerate()).for_each(|(i, (mixed, x))| {
        for (row, (mixed, x)) in mixed.chunks(ld).zip(x.chunks_mut(ld)).enumerate() {
            let index = at.index(i * height + row, width);
            pointwise::add_dropped(cx.level, mask, index, &mixed[..width], &mut x[..width]);
        }
    });
}

/// The gradient of what was added to the residual stream: dropout(dx) in `mixed`, or `dx` itself where nothing is dropped.
fn out_of_residual<'a>(
    cx: &Cx,
    at: &Micro,
    layer: usize,
    site: Site,
    dx: &'a Matrix,
    mixed: &'a mut Matrix,
) -> Rows<'a> {
    let (rows, ld, width) = (at.rows(), dx.ld, dx.width);
    let Some(mask) = at.mask(cx, site, layer) else { return dx.read(rows) };
    let height = cx.block(rows);
    let blocks = (dx.rows(rows).par_chunks(height * ld), mixed.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter().enumerate()).for_each(|(i, (dx, mixed))| {
        for (row, (dx, mixed)) in dx.chunks(ld).zip(mixed.chunks_mut(ld)).enumerate() {
            pointwise::drop(cx.level, mask, at.index(i * height + row, width), &dx[..width], &mut mixed[..width]);
        }
    });
    mixed.read(rows)
}
