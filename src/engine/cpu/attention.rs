//! Attention over all sequences and heads of a micro-batch.
//!
//! One thread works through the heads in place. Helpers take a head of keys and values each, and since heads lie side by
//! side in the rows of a sequence, they compute into memory of their own, which is then copied to the rows.

use std::sync::PoisonError;

use rayon::prelude::*;

use super::{
    Cx, Micro,
    workspace::{BlockActs, Matrix, Passing},
};
use crate::{
    engine::Site,
    kernels::attention::{self, Gradient, Heads},
    spec::config::ModelConfig,
};

/// The shape of attention in one micro-batch.
#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    /// Query heads for each head of keys and values.
    group: usize,
    /// W
    width: usize,
    /// D
    d_model: usize,
    /// T
    context: usize,
}

impl Shape {
    fn of(m: &ModelConfig, context: usize) -> Self {
        let (group, width) = (m.heads / m.kv_heads, m.d_model / m.heads);
        Self { heads: m.heads, kv_heads: m.kv_heads, group, width, d_model: m.d_model, context }
    }

    /// Where the queries of a group, its keys and its values begin in a row.
    fn columns(self, head: usize) -> [usize; 3] {
        let keys = self.d_model + head * self.width;
        [head * self.group * self.width, keys, keys + self.kv_heads * self.width]
    }

    /// What the kernels need to know of one head of keys and values in sequence `b`.
    fn heads(self, cx: &Cx, at: &Micro, layer: usize, [b, head]: [usize; 2], ld: usize, ldo: usize) -> Heads {
        let Self { group, width, context, .. } = self;
        let dropout = at.mask(cx, Site::Attention, layer).map(|mask| {
            let first = ((at.first + b) * self.heads + head * group) as u32;
            (mask, first.wrapping_mul((context * context) as u32))
        });
        Heads { context, width, group, ld, ldo, dropout }
    }

    /// Sequence and head of each task.
    fn tasks(self, rows: usize) -> impl Iterator<Item = [usize; 2]> {
        (0..rows / self.context).flat_map(move |b| (0..self.kv_heads).map(move |head| [b, head]))
    }

    /// Queries, keys and values of one head from the first row of sequence `b` on.
    fn operands(self, qkv: &Matrix, [b, head]: [usize; 2]) -> [&[f32]; 3] {
        let sequence = &qkv.data[b * self.context * qkv.ld..(b + 1) * self.context * qkv.ld];
        self.columns(head).map(|column| &sequence[column..])
    }
}

/// Attends from `qkv` into `gathered`.
pub fn forward(cx: &Cx, at: &Micro, layer: usize, acts: &mut BlockActs, p: &mut Passing) {
    let (shape, rows) = (Shape::of(cx.model, at.context), at.rows());
    let Shape { group, width, context: t, .. } = shape;
    let BlockActs { qkv, gathered, logsum, .. } = acts;
    let room = || p.rooms[cx.helper()].lock().unwrap_or_else(PoisonError::into_inner);
    if cx.helpers == 1 {
        let logsums = logsum.chunks_mut(group * t);
        for (task, logsum) in shape.tasks(rows).zip(logsums) {
            let heads = shape.heads(cx, at, layer, task, qkv.ld, gathered.ld);
            let out = &mut gathered.data[task[0] * t * heads.ldo + shape.columns(task[1])[0]..];
            attention::forward(cx.level, heads, shape.operands(qkv, task), out, logsum, &mut room());
        }
        return;
    }
    let span = group * width;
    let tasks = (
        p.by_head[..rows * shape.d_model].par_chunks_mut(t * span),
        logsum[..rows * shape.heads].par_chunks_mut(group * t),
    );
    cx.each(tasks.into_par_iter().enumerate()).for_each(|(i, (out, logsum))| {
        let task = [i / shape.kv_heads, i % shape.kv_heads];
        let heads = shape.heads(cx, at, layer, task, qkv.ld, span);
        attention::forward(cx.level, heads, shape.operands(qkv, task), out, logsum, &mut room());
    });
    each_row(cx, rows, gathered, |row, to| {
        for (head, to) in to[..shape.d_model].chunks_mut(span).enumerate() {
            let from = ((row / t * shape.kv_heads + head) * t + row % t) * span;
            to.copy_from_slice(&p.by_head[from..from + span]);
        }
    });
}

/// Takes the gradient of `gathered`, in `normed`, to `dqkv`.
pub fn backward(cx: &Cx, at: &Micro, layer: usize, acts: &BlockActs, p: &mut Passing) {
    let (shape, rows) = (Shape::of(cx.model, at.context), at.rows());
    let Shape { group, width, context: t, .. } = shape;
    let (qkv, gathered, dgathered) = (&acts.qkv, &acts.gathered, &p.normed);
    let room = || p.rooms[cx.helper()].lock().unwrap_or_else(PoisonError::into_inner);
    let work = |i: usize, task: [usize; 2], into: Gradient| {
        let heads = shape.heads(cx, at, layer, task, qkv.ld, gathered.ld);
        let first = task[0] * t * heads.ldo + shape.columns(task[1])[0];
        let outs = [&gathered.data[first..], &dgathered.data[first..]];
        let logsum = &acts.logsum[i * group * t..(i + 1) * group * t];
        attention::backward(cx.level, heads, shape.operands(qkv, task), outs, logsum, into, &mut room());
    };
    if cx.helpers == 1 {
        let ld = p.dqkv.ld;
        for (i, task) in shape.tasks(rows).enumerate() {
            let data = &mut p.dqkv.data[task[0] * t * ld..(task[0] + 1) * t * ld];
            work(i, task, Gradient { data, ld, at: shape.columns(task[1]) });
        }
        return;
    }
    let span = (group + 2) * width;
    let columns = [0, group * width, (group + 1) * width];
    cx.each(p.by_head[..rows * shape.kv_heads * span].par_chunks_mut(t * span).enumerate()).for_each(|(i, data)| {
        work(i, [i / shape.kv_heads, i % shape.kv_heads], Gradient { data, ld: span, at: columns });
    });
    each_row(cx, rows, &mut p.dqkv, |row, to| {
        for head in 0..shape.kv_heads {
            let from = ((row / t * shape.kv_heads + head) * t + row % t) * span;
            for (column, (start, len)) in shape.columns(head).into_iter().zip([(0, group), (group, 1), (group + 1, 1)])
            {
                let (from, len) = (from + start * width, len * width);
                to[column..column + len].copy_from_slice(&p.by_head[from..from + len]);
            }
        }
    });
}

/// Calls `f` with the number and the numbers of each row.
fn each_row(cx: &Cx, rows: usize, m: &mut Matrix, f: impl Fn(usize, &mut [f32]) + Sync) {
    let (ld, height) = (m.ld, cx.block(rows));
    cx.each(m.rows_mut(rows).par_chunks_mut(height * ld).enumerate()).for_each(|(i, block)| {
        block.chunks_mut(ld).enumerate().for_each(|(r, row)| f(i * height + r, row));
    });
}
