//! The buffers of one worker: what the forward pass leaves for the backward pass, and what passes between layers.

use std::sync::Mutex;

use crate::{
    cost::{Workspace, qk_width, qkv_width, stride},
    kernels::{Buffer, attention::Scratch},
    spec::config::{Mlp, ModelConfig},
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

    /// Of what a model has no use for.
    fn none() -> Self {
        Self { data: Buffer::zeros(0), width: 0, ld: 0 }
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
    /// What norms of queries and keys leave: the normalised heads, (R, D + K·W), and by what each was multiplied, (R, H + K)
    pub head_norms: NormActs,
    /// What the heads gathered, (R, D)
    pub gathered: Matrix,
    /// log₂ Σ exp of each row of scores, (sequences, H, T)
    pub logsum: Buffer,
    pub norm2: NormActs,
    /// What the MLP's last matrix is given, (R, F)
    pub inner: Matrix,
    /// The slope of that towards what the first matrix gave, (R, F); none for relu², whose slope follows from `inner`
    pub slope: Matrix,
    /// SwiGLU's slope towards its gate, (R, F)
    pub gate_slope: Matrix,
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
    /// The gradient of what the MLP's first matrix gave, (R, F)
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
        let matrix_if = |is_used, width| if is_used { matrix(width) } else { Matrix::none() };
        let heads = if m.qk_norm { rows * (m.heads + m.kv_heads) } else { 0 };
        let norm = || NormActs { normal: matrix(d), inverse: Buffer::zeros(rows) };
        let block = |_| BlockActs {
            norm1: norm(),
            qkv: matrix(qkv_width(m)),
            head_norms: NormActs { normal: matrix_if(m.qk_norm, qk_width(m)), inverse: Buffer::zeros(heads) },
            gathered: matrix(d),
            logsum: Buffer::zeros(rows * m.heads),
            norm2: norm(),
            inner: matrix(m.d_ff),
            slope: matrix_if(m.mlp != Mlp::Relu2, m.d_ff),
            gate_slope: matrix_if(m.mlp == Mlp::SwiGlu, m.d_ff),
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
