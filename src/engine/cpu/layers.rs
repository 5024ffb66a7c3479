//! The layers of GPT-2, forward and backward, over the buffers of one worker.
//!
//! R rows are the positions of a micro-batch, sequence after sequence; D is the model's width, H its heads of width W,
//! K of them with keys and values of their own, F the MLP's width.

use std::sync::PoisonError;

use rayon::prelude::*;

use super::{
    Cx, Micro,
    linear::{self, Rows, RowsMut},
    weights::{Block, Norm},
    workspace::{BlockActs, Matrix, NormActs, Passing},
};
use crate::{
    engine::Site,
    kernels::{attention, norm, pointwise},
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
    linear::forward(cx, &w.qkv, rows, p.normed.read(rows), acts.qkv.write(rows), &mut p.pack);
    attention_forward(cx, at, layer, acts, p);
    linear::forward(cx, &w.out, rows, acts.gathered.read(rows), p.mixed.write(rows), &mut p.pack);
    add_residual(cx, at, layer, Site::AttentionOut, p);

    norm_forward(cx, rows, &w.norm2, &p.x, &mut acts.norm2, &mut p.normed);
    linear::forward(cx, &w.up, rows, p.normed.read(rows), acts.inner.write(rows), &mut p.pack);
    gelu(cx, rows, &mut acts.inner, &mut acts.slope, keep);
    linear::forward(cx, &w.down, rows, acts.inner.read(rows), p.mixed.write(rows), &mut p.pack);
    add_residual(cx, at, layer, Site::MlpOut, p);
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
    drop_residual(cx, at, layer, Site::MlpOut, p);
    linear::backward_weight(cx, &w.down, rows, p.mixed.read(rows), acts.inner.read(rows), grads, fresh);
    linear::backward_input(cx, &w.down, rows, p.mixed.read(rows), p.dinner.write(rows), &mut p.pack);
    multiply(cx, rows, &acts.slope, &mut p.dinner);
    norm_again(cx, rows, &w.norm2, &acts.norm2, &mut p.normed);
    linear::backward_weight(cx, &w.up, rows, p.dinner.read(rows), p.normed.read(rows), grads, fresh);
    linear::backward_input(cx, &w.up, rows, p.dinner.read(rows), p.mixed.write(rows), &mut p.pack);
    norm_backward(cx, rows, &w.norm2, &acts.norm2, p, grads);

    drop_residual(cx, at, layer, Site::AttentionOut, p);
    linear::backward_weight(cx, &w.out, rows, p.mixed.read(rows), acts.gathered.read(rows), grads, fresh);
    linear::backward_input(cx, &w.out, rows, p.mixed.read(rows), p.normed.write(rows), &mut p.pack);
    attention_backward(cx, at, layer, acts, p);
    norm_again(cx, rows, &w.norm1, &acts.norm1, &mut p.normed);
    linear::backward_weight(cx, &w.qkv, rows, p.dqkv.read(rows), p.normed.read(rows), grads, fresh);
    linear::backward_input(cx, &w.qkv, rows, p.dqkv.read(rows), p.mixed.write(rows), &mut p.pack);
    norm_backward(cx, rows, &w.norm1, &acts.norm1, p, grads);
}

/// y = norm(x)
pub fn norm_forward(cx: &Cx, rows: usize, w: &Norm, x: &Matrix, acts: &mut NormActs, y: &mut Matrix) {
    let (width, ld, height) = (x.width, x.ld, cx.block(rows));
    let (weight, bias) = cx.norm(w);
    let blocks = (
        x.rows(rows).par_chunks(height * ld),
        acts.normal.rows_mut(rows).par_chunks_mut(height * ld),
        acts.inverse[..rows].par_chunks_mut(height),
        y.rows_mut(rows).par_chunks_mut(height * ld),
    );
    cx.each(blocks.into_par_iter()).for_each(|(x, normal, inverse, y)| {
        norm::layer_norm(cx.level, width, ld, x, weight, bias, normal, inverse, y);
    });
}

/// The output of a norm once more.
pub fn norm_again(cx: &Cx, rows: usize, w: &Norm, acts: &NormActs, y: &mut Matrix) {
    let (width, ld, height) = (y.width, y.ld, cx.block(rows));
    let (weight, bias) = cx.norm(w);
    let blocks = (acts.normal.rows(rows).par_chunks(height * ld), y.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter())
        .for_each(|(normal, y)| norm::layer_norm_again(cx.level, width, ld, normal, weight, bias, y));
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
    cx.each(blocks.into_par_iter()).for_each(|(dy, normal, inverse, dx)| {
        norm::layer_norm_backward(cx.level, width, ld, dy, normal, inverse, weight, dx);
    });
    let (dweight, dbias) = w.grads(grads);
    norm::layer_norm_weights_backward(cx.level, ld, p.mixed.rows(rows), acts.normal.rows(rows), dweight, dbias);
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

/// x += dropout(mixed)
fn add_residual(cx: &Cx, at: &Micro, layer: usize, site: Site, p: &mut Passing) {
    let (rows, ld, width) = (at.rows(), p.x.ld, p.x.width);
    let height = cx.block(rows);
    let mask = at.mask(cx, site, layer);
    let blocks = (p.mixed.rows(rows).par_chunks(height * ld), p.x.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter().enumerate()).for_each(|(i, (mixed, x))| match mask {
        None => pointwise::add(cx.level, mixed, x),
        Some(mask) => {
            for (row, (mixed, x)) in mixed.chunks(ld).zip(x.chunks_mut(ld)).enumerate() {
                let index = at.index(i * height + row, width);
                pointwise::add_dropped(cx.level, mask, index, &mixed[..width], &mut x[..width]);
            }
        }
    });
}

/// mixed = dropout(dx)
fn drop_residual(cx: &Cx, at: &Micro, layer: usize, site: Site, p: &mut Passing) {
    let (rows, ld, width) = (at.rows(), p.dx.ld, p.dx.width);
    let height = cx.block(rows);
    let mask = at.mask(cx, site, layer);
    let blocks = (p.dx.rows(rows).par_chunks(height * ld), p.mixed.rows_mut(rows).par_chunks_mut(height * ld));
    cx.each(blocks.into_par_iter().enumerate()).for_each(|(i, (dx, mixed))| match mask {
        None => mixed.copy_from_slice(dx),
        Some(mask) => {
            for (row, (dx, mixed)) in dx.chunks(ld).zip(mixed.chunks_mut(ld)).enumerate() {
                pointwise::drop(cx.level, mask, at.index(i * height + row, width), &dx[..width], &mut mixed[..width]);
            }
        }
    });
}

/// What one head of keys and values works on in sequence `b` of the micro-batch.
fn heads(cx: &Cx, at: &Micro, layer: usize, ld: usize, b: usize, head: usize) -> attention::Heads {
    let m = cx.model;
    let group = m.heads / m.kv_heads;
    let dropout = at.mask(cx, Site::Attention, layer).map(|mask| {
        let first = ((at.first + b) * m.heads + head * group) as u32;
        (mask, first.wrapping_mul((at.context * at.context) as u32))
    });
    attention::Heads { context: at.context, width: m.d_model / m.heads, group, ld, dropout }
}

/// Queries of a group, keys and values from row 0 of sequence `b` on.
fn query_key_value<'a>(cx: &Cx, at: &Micro, qkv: &'a Matrix, b: usize, head: usize) -> [&'a [f32]; 3] {
    let m = cx.model;
    let width = m.d_model / m.heads;
    let first = b * at.context * qkv.ld;
    let sequence = &qkv.data[first..first + at.context * qkv.ld];
    let keys = m.d_model + head * width;
    [&sequence[head * (m.heads / m.kv_heads) * width..], &sequence[keys..], &sequence[keys + m.kv_heads * width..]]
}

fn attention_forward(cx: &Cx, at: &Micro, layer: usize, acts: &mut BlockActs, p: &mut Passing) {
    let (m, rows, t) = (cx.model, at.rows(), at.context);
    let (width, group) = (m.d_model / m.heads, m.heads / m.kv_heads);
    let qkv = &acts.qkv;
    let tasks = (
        p.by_head[..rows * m.d_model].par_chunks_mut(t * group * width),
        acts.logsum[..rows * m.heads].par_chunks_mut(group * t),
    );
    cx.each(tasks.into_par_iter().enumerate()).for_each(|(i, (out, logsum))| {
        let (b, head) = (i / m.kv_heads, i % m.kv_heads);
        let mut room = p.rooms[cx.helper()].lock().unwrap_or_else(PoisonError::into_inner);
        let heads = heads(cx, at, layer, qkv.ld, b, head);
        attention::forward(cx.level, heads, query_key_value(cx, at, qkv, b, head), out, logsum, &mut room);
    });
    let (ld, by_head, span) = (acts.gathered.ld, &p.by_head, group * width);
    cx.each(acts.gathered.rows_mut(rows).par_chunks_mut(cx.block(rows) * ld).enumerate()).for_each(|(i, block)| {
        for (r, row) in block.chunks_mut(ld).enumerate() {
            let r = i * cx.block(rows) + r;
            for (head, to) in row[..m.d_model].chunks_mut(span).enumerate() {
                to.copy_from_slice(&by_head[((r / t * m.kv_heads + head) * t + r % t) * span..][..span]);
            }
        }
    });
}

/// Takes the gradient of what the heads gathered in `normed` to `dqkv`.
fn attention_backward(cx: &Cx, at: &Micro, layer: usize, acts: &BlockActs, p: &mut Passing) {
    let (m, rows, t) = (cx.model, at.rows(), at.context);
    let (width, group) = (m.d_model / m.heads, m.heads / m.kv_heads);
    let span = (group + 2) * width;
    let (out, dout, ldo) = (&acts.gathered.data, &p.normed.data, acts.gathered.ld);
    cx.each(p.by_head[..rows * m.kv_heads * span].par_chunks_mut(t * span).enumerate()).for_each(|(i, d)| {
        let (b, head) = (i / m.kv_heads, i % m.kv_heads);
        let mut room = p.rooms[cx.helper()].lock().unwrap_or_else(PoisonError::into_inner);
        let heads = heads(cx, at, layer, acts.qkv.ld, b, head);
        let qkv = query_key_value(cx, at, &acts.qkv, b, head);
        let first = b * t * ldo + head * group * width;
        let logsum = &acts.logsum[i * group * t..][..group * t];
        attention::backward(cx.level, heads, qkv, [&out[first..], &dout[first..]], ldo, logsum, d, &mut room);
    });
    let (ld, by_head) = (p.dqkv.ld, &p.by_head);
    cx.each(p.dqkv.rows_mut(rows).par_chunks_mut(cx.block(rows) * ld).enumerate()).for_each(|(i, block)| {
        for (r, row) in block.chunks_mut(ld).enumerate() {
            let r = i * cx.block(rows) + r;
            let (q, kv) = row.split_at_mut(m.d_model);
            let (k, v) = kv.split_at_mut(m.kv_heads * width);
            for head in 0..m.kv_heads {
                let from = &by_head[((r / t * m.kv_heads + head) * t + r % t) * span..][..span];
                let (from_q, from_kv) = from.split_at(group * width);
                q[head * group * width..][..group * width].copy_from_slice(from_q);
                k[head * width..][..width].copy_from_slice(&from_kv[..width]);
                v[head * width..][..width].copy_from_slice(&from_kv[width..]);
            }
        }
    });
}
