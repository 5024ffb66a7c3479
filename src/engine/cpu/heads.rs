//! What queries and keys go through before they meet, where the model does that: a norm of each head, then the rotation by
//! their positions. Both in place, row by row, so that attention knows neither.

use rayon::prelude::*;

use super::{
    Cx,
    embedding::Positions,
    step::Micro,
    weights::Block,
    workspace::{BlockActs, Matrix},
};
use crate::kernels::heads::{self, Way};

/// Norms and rotates the queries and keys in `qkv`.
pub fn forward(cx: &Cx, at: &Micro, w: &Block, acts: &mut BlockActs) {
    if let Some(norms) = &w.head_norms {
        let (rows, counts, eps) = (at.rows(), counts(cx), cx.model.norm_eps as f32);
        let (height, weights) = (cx.block(rows), norms.weights(cx.params));
        let BlockActs { qkv, head_norms: kept, .. } = acts;
        let (ld, ld_normal, all) = (qkv.ld, kept.normal.ld, counts[0] + counts[1]);
        let blocks = (
            qkv.rows_mut(rows).par_chunks_mut(height * ld),
            kept.normal.rows_mut(rows).par_chunks_mut(height * ld_normal),
            kept.inverse[..rows * all].par_chunks_mut(height * all),
        );
        cx.each(blocks.into_par_iter()).for_each(|(x, normal, inverse)| {
            heads::norm_heads(cx.level, counts, weights, eps, ld, x, ld_normal, normal, inverse);
        });
    }
    rotate(cx, at, &mut acts.qkv, Way::On);
}

/// Takes the gradient of the queries and keys that met, in `dqkv`, to that of what they were, and adds those of the norms'
/// weights to `grads`.
pub fn backward(cx: &Cx, at: &Micro, w: &Block, acts: &BlockActs, dqkv: &mut Matrix, grads: &mut [f32]) {
    rotate(cx, at, dqkv, Way::Back);
    let Some(norms) = &w.head_norms else { return };
    let (rows, counts, kept, ld) = (at.rows(), counts(cx), &acts.head_norms, dqkv.ld);
    let (height, weights) = (cx.block(rows), norms.weights(cx.params));
    let (ld_normal, all) = (kept.normal.ld, counts[0] + counts[1]);
    let (d, normal) = (dqkv.rows(rows), kept.normal.rows(rows));
    heads::norm_heads_weights_backward(cx.level, counts, ld, d, ld_normal, normal, norms.grads(grads));
    let blocks = (
        dqkv.rows_mut(rows).par_chunks_mut(height * ld),
        normal.par_chunks(height * ld_normal),
        kept.inverse[..rows * all].par_chunks(height * all),
    );
    cx.each(blocks.into_par_iter()).for_each(|(d, normal, inverse)| {
        heads::norm_heads_backward(cx.level, counts, weights, ld, d, ld_normal, normal, inverse);
    });
}

/// Heads of queries and of keys in a row.
fn counts(cx: &Cx) -> [usize; 2] {
    [cx.model.heads, cx.model.kv_heads]
}

/// Rotates the heads of queries and keys by their positions, where the model does that.
fn rotate(cx: &Cx, at: &Micro, m: &mut Matrix, way: Way) {
    let Positions::Rope { cos, sin } = cx.positions else { return };
    let (rows, ld, width, count) = (at.rows(), m.ld, cx.model.d_model / cx.model.heads, counts(cx).into_iter().sum());
    let height = cx.block(rows);
    cx.each(m.rows_mut(rows).par_chunks_mut(height * ld).enumerate()).for_each(|(i, x)| {
        heads::rotate(cx.level, [cos, sin], width, i * height, at.context, count, ld, x, way);
    });
}
