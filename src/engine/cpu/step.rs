//! One micro-batch: through the embeddings, the blocks and the head, and back.

use rayon::prelude::*;

use super::{
    Cx, embedding,
    layers::{block_backward, block_forward, norm_backward, norm_forward},
    linear::{self, Rows, RowsMut},
    workspace::{Acts, NormActs, Passing},
};
use crate::{
    base::rng::DropoutMask,
    engine::{Place, Site},
    kernels::loss,
};

/// Some sequences of a batch.
#[derive(Clone, Copy)]
pub struct Micro<'a> {
    /// Their tokens, (sequences, T).
    pub tokens: &'a [u32],
    /// What follows each, (sequences, T); empty where only logits are wanted.
    pub targets: &'a [u32],
    /// T.
    pub context: usize,
    /// The index in the batch of the first of them: dropout masks go by it.
    pub first: usize,
    /// Where in the run the batch stands; `None` drops nothing.
    pub place: Option<Place>,
}

impl Micro<'_> {
    /// R: positions of all sequences.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// The mask of a site, if anything is dropped.
    pub fn mask(&self, cx: &Cx, site: Site, layer: usize) -> Option<DropoutMask> {
        self.place.filter(|_| cx.model.dropout > 0.0).map(|place| site.mask(cx.config, layer, place))
    }

    /// The index in a mask over (B, T, width) of a row's first element.
    pub fn index(&self, row: usize, width: usize) -> u32 {
        ((self.first * self.context + row) as u32).wrapping_mul(width as u32)
    }
}

/// Adds the gradient of `scale` · Σ losses to `grads`, which are overwritten where `fresh`, and returns Σ losses.
pub fn train(cx: &Cx, at: &Micro, acts: &mut Acts, grads: &mut [f32], fresh: bool, scale: f32) -> f64 {
    let Acts { blocks, norm, passing: p } = acts;
    if fresh {
        cx.weights.rest.iter().for_each(|range| grads[range.clone()].fill(0.0));
    }
    embedding::forward(cx, at, p);
    for (layer, (w, acts)) in cx.weights.blocks.iter().zip(&mut *blocks).enumerate() {
        block_forward(cx, at, layer, w, acts, p, true);
    }
    let total = head(cx, at, norm, p, Some(Gradient { grads, fresh, scale }));
    for (layer, (w, acts)) in cx.weights.blocks.iter().zip(blocks).enumerate().rev() {
        block_backward(cx, at, layer, w, acts, p, grads, fresh);
    }
    embedding::backward(cx, at, p, grads);
    total
}

/// Σ losses, without gradient.
pub fn losses(cx: &Cx, at: &Micro, acts: &mut Acts) -> f64 {
    forward(cx, at, acts);
    head(cx, at, &mut acts.norm, &mut acts.passing, None)
}

/// The logits of every position, (R, V).
pub fn logits(cx: &Cx, at: &Micro, acts: &mut Acts, out: &mut [f32]) {
    forward(cx, at, acts);
    let (p, vocab) = (&mut acts.passing, cx.weights.head.outputs);
    norm_forward(cx, at.rows(), &cx.weights.norm, &p.x, &mut acts.norm, &mut p.normed);
    let normed = Rows { data: p.normed.rows(at.rows()), ld: p.normed.ld };
    linear::forward(cx, &cx.weights.head, at.rows(), normed, RowsMut { data: out, ld: vocab }, &p.packs);
}

/// All blocks, one after the other over the first one's buffers: nothing is kept.
fn forward(cx: &Cx, at: &Micro, acts: &mut Acts) {
    embedding::forward(cx, at, &mut acts.passing);
    for (layer, w) in cx.weights.blocks.iter().enumerate() {
        block_forward(cx, at, layer, w, &mut acts.blocks[0], &mut acts.passing, false);
    }
}

/// Where the head's gradient goes.
struct Gradient<'a> {
    grads: &'a mut [f32],
    fresh: bool,
    scale: f32,
}

/// Final norm, logits and cross-entropy, some rows at a time; returns Σ losses. With a gradient, also back to `dx`.
fn head(cx: &Cx, at: &Micro, acts: &mut NormActs, p: &mut Passing, mut gradient: Option<Gradient>) -> f64 {
    let (rows, w) = (at.rows(), &cx.weights.head);
    norm_forward(cx, rows, &cx.weights.norm, &p.x, acts, &mut p.normed);
    let (ld, ld_logits) = (p.normed.ld, p.logits.ld);
    let at_once = p.logits.data.len() / ld_logits;
    for first in (0..rows).step_by(at_once) {
        let n = at_once.min(rows - first);
        let normed = Rows { data: &p.normed.data[first * ld..(first + n) * ld], ld };
        let logits = &mut p.logits.data[..n * ld_logits];
        linear::forward(cx, w, n, normed, RowsMut { data: logits, ld: ld_logits }, &p.packs);
        let height = cx.block(n);
        let blocks = (
            logits.par_chunks_mut(height * ld_logits),
            at.targets[first..first + n].par_chunks(height),
            p.losses[first..first + n].par_chunks_mut(height),
        );
        let blocks = cx.each(blocks.into_par_iter());
        let (level, vocab) = (cx.level, w.outputs);
        let Some(Gradient { grads, fresh, scale }) = &mut gradient else {
            blocks.for_each(|(logits, y, losses)| loss::cross_entropy(level, vocab, ld_logits, logits, y, losses));
            continue;
        };
        blocks.for_each(|(logits, y, losses)| {
            loss::cross_entropy_with_gradient(level, vocab, ld_logits, logits, y, *scale, losses);
        });
        let dlogits = Rows { data: logits, ld: ld_logits };
        linear::backward_weight(cx, w, n, dlogits, normed, grads, *fresh && first == 0);
        let dnormed = RowsMut { data: &mut p.mixed.data[first * ld..(first + n) * ld], ld };
        linear::backward_input(cx, w, n, dlogits, dnormed, &p.packs);
    }
    if let Some(Gradient { grads, .. }) = gradient {
        p.dx.rows_mut(rows).fill(0.0);
        norm_backward(cx, rows, &cx.weights.norm, acts, p, grads);
    }
    p.losses[..rows].iter().map(|&l| f64::from(l)).sum()
}
