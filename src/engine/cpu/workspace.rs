//! The buffers of one worker: what the forward pass leaves for the backward pass, and what passes between layers.

use std::sync::Mutex;

use crate::{
    cost::{Workspace, qkv_width, stride},
    kernels::{Buffer, attention::Scratch},
    spec::config::ModelConfig,
};

/// Rows of `width` numbers, each beginning at a cache line.
pub struct Matrix {
    pub data: Buffer,
    pub width: usize,
    pub ld: usize,
}

impl Matrix {
    fn zeros(rows: usize, width: usize) -> Self {
        let ld = stride(width);
        Self { data: Buffer::zeros(rows * ld), width, ld }
    }

    /// The first rows.
    pub fn rows(&self, rows: usize) -> &[f32] {
        &self.data[..rows * self.ld]
    }

    /// The first rows.
    pub fn rows_mut(&mut self, rows: usize) -> &mut [f32] {
        &mut self.data[..rows * self.ld]
    }
}

/// What a norm leaves for its backward pass.
pub struct NormActs {
    /// The normalised rows, (R, D)
    pub normal: Matrix,
    /// By what each was multiplied, (R)
    pub inverse: Buffer,
}

/// What one block leaves for its backward pass.
pub struct BlockActs {
    pub norm1: NormActs,
    /// Queries, keys and values, (R, D + 2·K·W)
    pub qkv: Matrix,
    /// What the heads gathered, (R, D)
    pub gathered: Matrix,
    /// log₂ Σ exp of each row of scores, (sequences, H, T)
    pub logsum: Buffer,
    pub norm2: NormActs,
    /// GELU's output, (R, F)
    pub inner: Matrix,
    /// GELU's slope, (R, F)
    pub slope: Matrix,
}

/// All buffers of one worker, for micro-batches of up to R rows.
pub struct Acts {
    pub blocks: Vec<BlockActs>,
    pub norm: NormActs,
    pub passing: Passing,
}

/// What passes from one operation to the next.
pub struct Passing {
    /// The residual stream, (R, D)
    pub x: Matrix,
    /// Its gradient, (R, D)
    pub dx: Matrix,
    /// What a norm feeds to a product, (R, D)
    pub normed: Matrix,
    /// What a product adds to the residual stream, or a gradient of that size, (R, D)
    pub mixed: Matrix,
    /// The gradient of `qkv`, (R, D + 2·K·W)
    pub dqkv: Matrix,
    /// The gradient before GELU, (R, F)
    pub dinner: Matrix,
    /// What attention computes head by head, (sequences, K, T, group + 2, W)
    pub by_head: Buffer,
    /// Logits or their gradient, (some rows, V)
    pub logits: Matrix,
    /// The loss of each row, (R)
    pub losses: Buffer,
    /// Room for the attention of one head, for each thread.
    pub rooms: Vec<Mutex<Scratch>>,
    /// Room for a part of a packed weight, for each thread.
    pub packs: Vec<Mutex<Buffer>>,
}

impl Acts {
    /// The buffers that `space` describes.
    pub fn new(m: &ModelConfig, vocab: usize, space: &Workspace) -> Self {
        let (rows, d) = (space.rows, m.d_model);
        let matrix = |width| Matrix::zeros(rows, width);
        let norm = || NormActs { normal: matrix(d), inverse: Buffer::zeros(rows) };
        let block = |_| BlockActs {
            norm1: norm(),
            qkv: matrix(qkv_width(m)),
            gathered: matrix(d),
            logsum: Buffer::zeros(rows * m.heads),
            norm2: norm(),
            inner: matrix(m.d_ff),
            slope: matrix(m.d_ff),
        };
        let passing = Passing {
            x: matrix(d),
            dx: matrix(d),
            normed: matrix(d),
            mixed: matrix(d),
            dqkv: matrix(qkv_width(m)),
            dinner: matrix(m.d_ff),
            by_head: Buffer::zeros(space.by_head),
            logits: Matrix::zeros(space.head_rows, vocab),
            losses: Buffer::zeros(rows),
            rooms: (0..space.helpers).map(|_| Mutex::new(Scratch::new(d / m.heads, m.context))).collect(),
            packs: (0..space.helpers).map(|_| Mutex::new(Buffer::zeros(space.pack))).collect(),
        };
        Self { blocks: (0..m.layers).map(block).collect(), norm: norm(), passing }
    }
}
