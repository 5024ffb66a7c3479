//! The layers of a block, GPT-2's and with switches Llama's and others', forward and backward, over the buffers of one
//! worker. What a switch changes is looked up once a layer, never within its rows.
//!
//! R rows are the positions of a micro-batch, sequence after sequence; D is the model's width, H its heads of width W,
//! K of them with keys and values of their own, F the MLP's width.

use rayon::prelude::*;

use super::{
    Cx, Micro, attention, heads,
    linear::{self, Rows, RowsMut},
    weights::{Activation, Block, Linear, Norm},
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
    heads::forward(cx, at, w, acts);
    attention::forward(cx, at, layer, acts, p);
    into_residual(cx, at, layer, Site::AttentionOut, &w.out, &acts.gathered, p);

    norm_forward(cx, rows, &w.norm2, &p.x, &mut acts.norm2, &mut p.normed);
    mlp_forward(cx, rows, w, acts, p, keep);
    into_residual(cx, at, layer, Site::MlpOut, &w.down, &acts.inner, p);
}

/// Takes the gradient of the block's output in `dx` to that of its input, and adds the weights' gradients to `grads`
/// (overwrites them where `fresh`). What the forward pass left may be overwritten.
#[allow(clippy::too_many_arguments)]
pub fn block_backward(
    cx: &Cx,
    at: &Micro,
    layer: usize,
    w: &Block,
    acts: &mut BlockActs,
    p: &mut Passing,
    grads: &mut [f32],
    fresh: bool,
) {
    let rows = at.rows();
    let dy = out_of_residual(cx, at, layer, Site::MlpOut, &p.dx, &mut p.mixed);
    linear::backward_weight(cx, &w.down, rows, dy, acts.inner.read(rows), grads, fresh);
    linear::backward_input(cx, &w.down, rows, dy, p.dinner.write(rows), &p.packs);
    norm_again(cx, rows, &w.norm2, &acts.norm2, &mut p.normed);
    mlp_backward(cx, rows, w, acts, p, grads, fresh);
    norm_backward(cx, rows, &w.norm2, &acts.norm2, p, grads);

    let dy = out_of_residual(cx, at, layer, Site::AttentionOut, &p.dx, &mut p.mixed);
    linear::backward_weight(cx, &w.out, rows, dy, acts.gathered.read(rows), grads, fresh);
    linear::backward_input(cx, &w.out, rows, dy, p.normed.write(rows), &p.packs);
    attention::backward(cx, at, layer, acts, p);
    heads::backward(cx, at, w, acts, &mut p.dqkv, grads);
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

/// From `normed` through the first matrix, or two, to `inner`.
fn mlp_forward(cx: &Cx, rows: usize, w: &Block, acts: &mut BlockActs, p: &Passing, keep: bool) {
    let (level, BlockActs { inner, slope, gate_slope, .. }) = (cx.level, acts);
    linear::forward(cx, &w.up, rows, p.normed.read(rows), inner.write(rows), &p.packs);
    match (&w.activation, keep) {
        (Activation::Gelu, false) => each(cx, rows, inner, |x| pointwise::gelu(level, x)),
        (Activation::Gelu, true) => {
            each_of_two(cx, rows, slope, inner, |slope, x| pointwise::gelu_with_slope(level, x, slope));
        }
        (Activation::GeluTanh, false) => each(cx, rows, inner, |x| pointwise::gelu_tanh(level, x)),
        (Activation::GeluTanh, true) => {
            each_of_two(cx, rows, slope, inner, |slope, x| pointwise::gelu_tanh_with_slope(level, x, slope));
        }
        (Activation::Relu2, _) => each(cx, rows, inner, |x| pointwise::relu2(level, x)),
        (Activation::SwiGlu(w_gate), _) => {
            let gate = slope; // that of the output towards `up` will replace it
            linear::forward(cx, w_gate, rows, p.normed.read(rows), gate.write(rows), &p.packs);
            if keep {
                each_of_three(cx, rows, inner, gate, gate_slope, |x, gate, slope| {
                    pointwise::swiglu_with_slopes(level, x, gate, slope);
                });
            } else {
                each_of_two(cx, rows, gate, inner, |gate, x| pointwise::swiglu(level, x, gate));
            }
        }
    }
}

/// From the gradient of `inner`, in `dinner`, to that of `normed`, in `mixed`, and those of the first matrix, or two.
fn mlp_backward(
    cx: &Cx,
    rows: usize,
    w: &Block,
    acts: &mut BlockActs,
    p: &mut Passing,
    grads: &mut [f32],
    fresh: bool,
) {
    let (level, BlockActs { inner, slope, gate_slope, .. }, dinner) = (cx.level, acts, &mut p.dinner);
    match &w.activation {
        Activation::Gelu | Activation::GeluTanh => {
            each_of_two(cx, rows, slope, dinner, |slope, d| pointwise::multiply(level, slope, d));
        }
        Activation::Relu2 => each_of_two(cx, rows, inner, dinner, |y, d| pointwise::relu2_backward(level, y, d)),
        Activation::SwiGlu(_) => each_of_three(cx, rows, dinner, slope, gate_slope, |d, towards_up, towards_gate| {
            pointwise::swiglu_backward(level, d, towards_up, towards_gate);
        }),
    }
    let normed = p.normed.read(rows);
    linear::backward_weight(cx, &w.up, rows, p.dinner.read(rows), normed, grads, fresh);
    linear::backward_input(cx, &w.up, rows, p.dinner.read(rows), p.mixed.write(rows), &p.packs);
    if let Activation::SwiGlu(w_gate) = &w.activation {
        let dgate = gate_slope.read(rows); // it has been replaced
        linear::backward_weight(cx, w_gate, rows, dgate, normed, grads, fresh);
        linear::backward_input_onto(cx, w_gate, rows, dgate, p.mixed.write(rows), &p.packs);
    }
}

/// Calls `f` with blocks of rows.
fn each(cx: &Cx, rows: usize, x: &mut Matrix, f: impl Fn(&mut [f32]) + Sync + Send) {
    let chunk = cx.block(rows) * x.ld;
    cx.each(x.rows_mut(rows).par_chunks_mut(chunk)).for_each(f);
}

/// Calls `f` with blocks of rows of two matrices of one shape.
fn each_of_two(cx: &Cx, rows: usize, x: &mut Matrix, y: &mut Matrix, f: impl Fn(&mut [f32], &mut [f32]) + Sync + Send) {
    let chunk = cx.block(rows) * y.ld;
    let blocks = (x.rows_mut(rows).par_chunks_mut(chunk), y.rows_mut(rows).par_chunks_mut(chunk));
    cx.each(blocks.into_par_iter()).for_each(|(x, y)| f(x, y));
}

/// Calls `f` with blocks of rows of three matrices of one shape.
fn each_of_three(
    cx: &Cx,
    rows: usize,
    x: &mut Matrix,
    y: &mut Matrix,
    z: &mut Matrix,
    f: impl Fn(&mut [f32], &mut [f32], &mut [f32]) + Sync + Send,
) {
    let chunk = cx.block(rows) * x.ld;
    let blocks = (
        x.rows_mut(rows).par_chunks_mut(chunk),
        y.rows_mut(rows).par_chunks_mut(chunk),
        z.rows_mut(rows).par_chunks_mut(chunk),
    );
    cx.each(blocks.into_par_iter()).for_each(|(x, y, z)| f(x, y, z));
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
