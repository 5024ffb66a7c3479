//! Some positions through the network, each attending to all before it.
//!
//! R rows are positions that follow each other; D is the model's width, H its heads of width W, K of them with keys and
//! values of their own, F the MLP's width.

use rayon::prelude::*;

use super::{
    CHUNK, Net,
    cache::Cache,
    weights::{Block, Linear, Norm},
};
use crate::{
    engine::position::{rope_angle, sinusoid},
    kernels::{
        Buffer, decode,
        gemm::{Lhs, Rhs, Start, gemm},
        heads::{self, Way},
        pointwise,
    },
    spec::config::{self, Mlp, ModelConfig, Position},
};

/// Tasks of a product with one row for each thread.
const TASKS: usize = 4;

/// Work of attention, in numbers of keys, from which threads share it.
const SHARED_KEYS: usize = 1 << 16;

/// What passes from one operation to the next, for [`CHUNK`] rows.
pub struct Acts {
    /// The residual stream, (R, D)
    x: Buffer,
    /// What a norm feeds to a product, (R, D)
    normed: Buffer,
    /// Queries, keys and values, (R, D + 2·K·W)
    qkv: Buffer,
    /// What the heads gathered, (R, D)
    gathered: Buffer,
    /// (R, F)
    inner: Buffer,
    /// SwiGLU's gate, (R, F)
    gate: Buffer,
    /// Attention weights: a row of the cache's length for each head of one position, or for each of R positions.
    scores: Buffer,
    /// (V)
    logits: Buffer,
    /// The cosines and the sines by which RoPE rotates each row, (R, W)
    rope: Buffer,
    /// A head, (W)
    head: Buffer,
}

impl Acts {
    pub fn new(m: &ModelConfig, vocab: usize, capacity: usize) -> Self {
        let (d, width) = (m.d_model, m.d_model / m.heads);
        let rows = |width: usize| Buffer::zeros(CHUNK.min(capacity) * width);
        Self {
            x: rows(d),
            normed: rows(d),
            qkv: rows(d + 2 * m.kv_heads * width),
            gathered: rows(d),
            inner: rows(m.d_ff),
            gate: rows(if m.mlp == Mlp::SwiGlu { m.d_ff } else { 0 }),
            scores: Buffer::zeros(m.heads.max(CHUNK) * capacity),
            logits: Buffer::zeros(vocab),
            rope: rows(if m.position == Position::Rope { width } else { 0 }),
            head: Buffer::zeros(width),
        }
    }

    /// The logits that the last pass left.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }
}

impl Net {
    /// Runs tokens, the first of which stands at `position`, and remembers their keys and values. Leaves the logits of
    /// what follows the last one where these are `wanted`.
    pub fn forward(&self, tokens: &[u32], position: usize, wanted: bool, cache: &mut Cache, acts: &mut Acts) {
        let (rows, d, w) = (tokens.len(), self.model.d_model, &self.weights);
        for (row, (token, x)) in tokens.iter().zip(acts.x.chunks_mut(d)).enumerate() {
            self.embed(*token, position + row, x);
        }
        if self.model.position == Position::Rope {
            self.set_rope(position, rows, &mut acts.rope);
        }
        for (layer, block) in w.blocks.iter().enumerate() {
            self.normalise(&block.norm1, rows, &acts.x, &mut acts.normed);
            self.product(&block.qkv, rows, &acts.normed, &mut acts.qkv, false);
            self.remember(layer, block, rows, position, cache, acts);
            self.attend(layer, rows, position, cache, acts);
            self.product(&block.out, rows, &acts.gathered, &mut acts.x, true);

            self.normalise(&block.norm2, rows, &acts.x, &mut acts.normed);
            self.product(&block.up, rows, &acts.normed, &mut acts.inner, false);
            if let Some(gate) = &block.gate {
                self.product(gate, rows, &acts.normed, &mut acts.gate, false);
            }
            self.activate(rows, acts);
            self.product(&block.down, rows, &acts.inner, &mut acts.x, true);
        }
        if wanted {
            let last = (rows - 1) * d..rows * d;
            self.normalise(&w.norm, 1, &acts.x[last], &mut acts.normed);
            self.product(&w.head, 1, &acts.normed, &mut acts.logits, false);
        }
    }

    /// The embedding of a token at a position, (D).
    fn embed(&self, token: u32, position: usize, x: &mut [f32]) {
        self.weights.embedding(token, x);
        match (self.model.position, &self.weights.positions) {
            (Position::Learned, Some(table)) => pointwise::add(self.level, &table[position * x.len()..][..x.len()], x),
            (Position::Sinusoidal, _) => {
                let root = (x.len() as f64).sqrt() as f32;
                let d = x.len();
                x.iter_mut().enumerate().for_each(|(j, x)| *x = *x * root + sinusoid(position, j, d));
            }
            _ => {}
        }
    }

    /// The cosines and then the sines of rows from `position` on: the same in all layers.
    fn set_rope(&self, position: usize, rows: usize, rope: &mut [f32]) {
        let (w, theta) = (self.model.d_model / self.model.heads, self.model.rope_theta);
        let (cos, sin) = rope[..rows * w].split_at_mut(rows * w / 2);
        for (i, (cos, sin)) in cos.iter_mut().zip(sin).enumerate() {
            let angle = rope_angle(position + i / (w / 2), i % (w / 2), w, theta);
            (*cos, *sin) = (angle.cos() as f32, angle.sin() as f32);
        }
    }

    fn normalise(&self, w: &Norm, rows: usize, x: &[f32], y: &mut [f32]) {
        let width = w.weight.len();
        for (x, y) in x.chunks(width).zip(y.chunks_mut(width)).take(rows) {
            self.norm(w, self.model.norm == config::Norm::LayerNorm, x, y);
        }
    }

    fn norm(&self, w: &Norm, centred: bool, x: &[f32], y: &mut [f32]) {
        decode::normalise(self.level, self.model.norm_eps as f32, centred, x, &w.weight, w.bias.as_deref(), y);
    }

    /// y = x·Wᵀ + b, or y += that, for rows of x and y as wide as the matrix is.
    fn product(&self, w: &Linear, rows: usize, x: &[f32], y: &mut [f32], onto: bool) {
        let (k, n) = (w.inputs, w.outputs);
        let (x, y) = (&x[..rows * k], &mut y[..rows * n]);
        let threads = if w.panels.len() * rows >= super::SHARED { self.threads } else { 1 };
        if rows > 1 {
            let start = match (&w.bias, onto) {
                (None, false) => Start::Zero,
                (Some(bias), false) => Start::Bias(bias),
                (None, true) => Start::C,
                (Some(bias), true) => Start::CAndBias(bias),
            };
            let height = rows.div_ceil(threads).next_multiple_of(12);
            let multiply = |x: &[f32], y: &mut [f32]| {
                gemm(self.level, [y.len() / n, n, k], Lhs::rows(x, k), Rhs::Panels(&w.panels), start, y, n);
            };
            let blocks = y.par_chunks_mut(height * n).zip(x.par_chunks(height * k));
            return if threads == 1 { multiply(x, y) } else { blocks.for_each(|(y, x)| multiply(x, y)) };
        }
        match (&w.bias, onto) {
            (None, false) => y.fill(0.0),
            (Some(bias), false) => y.copy_from_slice(bias),
            (None, true) => {}
            (Some(bias), true) => pointwise::add(self.level, bias, y),
        }
        if threads == 1 {
            return decode::add_product(self.level, x, &w.panels, y);
        }
        let panel = self.level.panel();
        let width = n.div_ceil(panel).div_ceil(TASKS * threads) * panel;
        let parts = y.par_chunks_mut(width).zip(w.panels.par_chunks(width * k));
        parts.for_each(|(y, panels)| decode::add_product(self.level, x, panels, y));
    }

    /// Puts queries and keys into the form in which they meet, and the keys and values into the cache.
    fn remember(&self, layer: usize, block: &Block, rows: usize, position: usize, cache: &mut Cache, acts: &mut Acts) {
        let m = &self.model;
        let (d, w) = (m.d_model, m.d_model / m.heads);
        let (keys, width) = (d..d + m.kv_heads * w, d + 2 * m.kv_heads * w);
        if let Some([q_norm, k_norm]) = &block.qk_norm {
            for qkv in acts.qkv.chunks_mut(width).take(rows) {
                for (i, head) in qkv[..keys.end].chunks_mut(w).enumerate() {
                    self.norm(if i < m.heads { q_norm } else { k_norm }, false, head, &mut acts.head);
                    head.copy_from_slice(&acts.head);
                }
            }
        }
        if m.position == Position::Rope {
            let (cos, sin) = acts.rope[..rows * w].split_at(rows * w / 2);
            let qkv = &mut acts.qkv[..rows * width];
            heads::rotate(self.level, [cos, sin], w, 0, rows, m.heads + m.kv_heads, width, qkv, Way::On);
        }
        for (row, qkv) in acts.qkv.chunks(width).take(rows).enumerate() {
            cache.put(layer, position + row, &qkv[keys.clone()], &qkv[keys.end..]);
        }
    }

    /// softmax(q·Kᵀ / √W)·V over the cache for each head of each row.
    fn attend(&self, layer: usize, rows: usize, position: usize, cache: &Cache, acts: &mut Acts) {
        let m = &self.model;
        let (d, w) = (m.d_model, m.d_model / m.heads);
        let (capacity, width) = (cache.capacity(), d + 2 * m.kv_heads * w);
        let Acts { qkv, gathered, scores, .. } = acts;
        let scale = 1.0 / (w as f32).sqrt();
        let attend = |row: usize, head: usize, scores: &mut [f32], out: &mut [f32]| {
            let (keys, values) = cache.head(layer, head * m.kv_heads / m.heads);
            let scores = &mut scores[..cache.filled(position + row)];
            decode::scores(self.level, scale, &qkv[row * width + head * w..][..w], keys, cache.stride(), scores);
            let inverse = decode::exponentials(self.level, scores);
            decode::gather(self.level, inverse, scores, values, out);
        };
        let of_row = |row: usize, scores: &mut [f32], gathered: &mut [f32]| {
            gathered.chunks_mut(w).enumerate().for_each(|(head, out)| attend(row, head, scores, out));
        };
        let is_shared = self.threads > 1 && rows * cache.filled(position) * d >= SHARED_KEYS;
        match (is_shared, rows) {
            (false, _) => gathered.chunks_mut(d).take(rows).enumerate().for_each(|(row, out)| of_row(row, scores, out)),
            (true, 1) => {
                let heads = gathered[..d].par_chunks_mut(w).zip(scores.par_chunks_mut(capacity));
                heads.enumerate().for_each(|(head, (out, scores))| attend(0, head, scores, out));
            }
            (true, _) => {
                let rows = gathered[..rows * d].par_chunks_mut(d).zip(scores.par_chunks_mut(capacity));
                rows.enumerate().for_each(|(row, (out, scores))| of_row(row, scores, out));
            }
        }
    }

    /// The MLP between its matrices, in `inner`.
    fn activate(&self, rows: usize, acts: &mut Acts) {
        let len = rows * self.model.d_ff;
        let inner = &mut acts.inner[..len];
        match self.model.mlp {
            Mlp::Gelu => pointwise::gelu(self.level, inner),
            Mlp::GeluTanh => pointwise::gelu_tanh(self.level, inner),
            Mlp::Relu2 => pointwise::relu2(self.level, inner),
            Mlp::SwiGlu => pointwise::swiglu(self.level, inner, &acts.gate[..len]),
        }
    }
}
