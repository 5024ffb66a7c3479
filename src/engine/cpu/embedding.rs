//! Embeddings of tokens, and what a model makes of their positions.

use std::ops::Range;

use rayon::prelude::*;

use super::{Cx, step::Micro, workspace::Passing};
use crate::{
    engine::{
        Site,
        position::{rope_angle, sinusoid},
    },
    kernels::{Buffer, pointwise},
    model::{Layout, Param},
    spec::config::{ModelConfig, Position},
};

/// What positions do, with the tables for that.
pub enum Positions {
    /// Their embeddings (T, D), which lie there among the weights, are added to those of the tokens.
    Learned(Range<usize>),
    /// A fixed table (T, D) is added to √D times the embeddings of the tokens.
    Sinusoidal(Buffer),
    /// They rotate queries and keys, by the angles of these cosines and sines: (T, W/2) each.
    Rope { cos: Buffer, sin: Buffer },
    /// Nothing.
    None,
}

impl Positions {
    /// Those of a model whose parameters lie as in `layout`.
    pub fn of(m: &ModelConfig, layout: &Layout) -> Self {
        let table = |width: usize, value: &dyn Fn(usize, usize) -> f32| {
            let mut table = Buffer::zeros(m.context * width);
            table.iter_mut().enumerate().for_each(|(i, v)| *v = value(i / width, i % width));
            table
        };
        let (d, width) = (m.d_model, m.d_model / m.heads);
        match m.position {
            Position::Learned => Self::Learned(layout.get("transformer.wpe.weight").map_or(0..0, Param::range)),
            Position::Sinusoidal => Self::Sinusoidal(table(d, &|p, j| sinusoid(p, j, d))),
            Position::Rope => Self::Rope {
                cos: table(width / 2, &|p, j| rope_angle(p, j, width, m.rope_theta).cos() as f32),
                sin: table(width / 2, &|p, j| rope_angle(p, j, width, m.rope_theta).sin() as f32),
            },
            Position::None => Self::None,
        }
    }

    /// What embeddings of `width` numbers are multiplied with, and the rows that are then added, if any.
    fn added<'a>(&'a self, params: &'a [f32], width: usize) -> (f32, Option<&'a [f32]>) {
        match self {
            Self::Learned(range) => (1.0, Some(&params[range.clone()])),
            Self::Sinusoidal(table) => ((width as f32).sqrt(), Some(table)),
            Self::Rope { .. } | Self::None => (1.0, None),
        }
    }
}

/// x = dropout(scale · tokens + positions)
pub fn forward(cx: &Cx, at: &Micro, p: &mut Passing) {
    let (rows, ld, width) = (at.rows(), p.x.ld, p.x.width);
    let tokens = &cx.params[cx.weights.tokens.clone()];
    let (scale, added) = cx.positions.added(cx.params, width);
    let (height, mask) = (cx.block(rows), at.mask(cx, Site::Embedding, 0));
    cx.each(p.x.rows_mut(rows).par_chunks_mut(height * ld).enumerate()).for_each(|(i, block)| {
        for (r, x) in block.chunks_mut(ld).enumerate() {
            let (row, x) = (i * height + r, &mut x[..width]);
            let token = &tokens[at.tokens[row] as usize * width..][..width];
            match added {
                None => x.copy_from_slice(token),
                Some(added) => {
                    let position = &added[row % at.context * width..][..width];
                    x.iter_mut().zip(token).zip(position).for_each(|((x, t), p)| *x = scale * t + p);
                }
            }
            if let Some(mask) = mask {
                pointwise::drop_in_place(cx.level, mask, at.index(row, width), x);
            }
        }
    });
}

/// Adds the gradient in `dx` to those of the embeddings, row by row.
pub fn backward(cx: &Cx, at: &Micro, p: &mut Passing, grads: &mut [f32]) {
    let (width, ld) = (p.dx.width, p.dx.ld);
    let (scale, _) = cx.positions.added(cx.params, width);
    let mask = at.mask(cx, Site::Embedding, 0);
    for (row, dx) in p.dx.rows_mut(at.rows()).chunks_mut(ld).enumerate() {
        let dx = &mut dx[..width];
        if let Some(mask) = mask {
            pointwise::drop_in_place(cx.level, mask, at.index(row, width), dx);
        }
        if let Positions::Learned(range) = cx.positions {
            let position = range.start + row % at.context * width;
            pointwise::add(cx.level, dx, &mut grads[position..position + width]);
        }
        if scale != 1.0 {
            dx.iter_mut().for_each(|dx| *dx *= scale);
        }
        let token = cx.weights.tokens.start + at.tokens[row] as usize * width;
        pointwise::add(cx.level, dx, &mut grads[token..token + width]);
    }
}
