//! Where each weight lies in the flat vectors, and the packed copies of matrices.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    kernels::{Buffer, Level, pack},
    model::Layout,
    spec::config::ModelConfig,
};

/// A matrix (outputs, inputs) with its bias.
#[derive(Clone)]
pub struct Linear {
    pub weight: Range<usize>,
    pub bias: Option<Range<usize>>,
    pub outputs: usize,
    pub inputs: usize,
    /// Its place among the packed weights.
    packed: Range<usize>,
}

/// The scale of a norm with its bias.
#[derive(Clone)]
pub struct Norm {
    pub weight: Range<usize>,
    pub bias: Option<Range<usize>>,
}

/// The weights of one block.
pub struct Block {
    pub norm1: Norm,
    pub qkv: Linear,
    pub out: Linear,
    pub norm2: Norm,
    pub up: Linear,
    pub down: Linear,
}

/// All weights of a model.
pub struct Weights {
    /// Token embeddings (V, D).
    pub tokens: Range<usize>,
    /// Position embeddings (T, D).
    pub positions: Range<usize>,
    pub blocks: Vec<Block>,
    pub norm: Norm,
    /// The matrix of logits: the token embeddings where they are tied.
    pub head: Linear,
    /// Everything that is no matrix of a [`Linear`].
    pub rest: Vec<Range<usize>>,
    /// Length of all packed weights.
    packed: usize,
}

impl Weights {
    /// The weights of a model whose parameters lie as in `layout`, packed in panels of `panel`.
    pub fn of(layout: &Layout, m: &ModelConfig, panel: usize) -> Self {
        let range = |name: &str| layout.get(name).map(|p| p.range());
        let named = |name: &str| range(name).unwrap_or(0..0);
        let norm = |name: &str| Norm { weight: named(&format!("{name}.weight")), bias: range(&format!("{name}.bias")) };
        let mut packed = 0;
        let mut linear = |name: &str, inputs: usize| {
            let weight = named(&format!("{name}.weight"));
            let outputs = weight.len() / inputs;
            let first = packed;
            packed += pack::packed_len(inputs, outputs, panel);
            Linear { bias: range(&format!("{name}.bias")), weight, outputs, inputs, packed: first..packed }
        };
        let blocks = (0..m.layers)
            .map(|layer| {
                let h = format!("transformer.h.{layer}");
                Block {
                    norm1: norm(&format!("{h}.ln_1")),
                    qkv: linear(&format!("{h}.attn.c_attn"), m.d_model),
                    out: linear(&format!("{h}.attn.c_proj"), m.d_model),
                    norm2: norm(&format!("{h}.ln_2")),
                    up: linear(&format!("{h}.mlp.c_fc"), m.d_model),
                    down: linear(&format!("{h}.mlp.c_proj"), m.d_ff),
                }
            })
            .collect();
        let head = linear(if m.tie_embeddings { "transformer.wte" } else { "lm_head" }, m.d_model);
        let mut weights = Self {
            tokens: named("transformer.wte.weight"),
            positions: named("transformer.wpe.weight"),
            blocks,
            norm: norm("transformer.ln_f"),
            head,
            rest: Vec::new(),
            packed,
        };
        let matrices: Vec<usize> = weights.linears().map(|l| l.weight.start).collect();
        weights.rest = layout.params().iter().map(|p| p.range()).filter(|r| !matrices.contains(&r.start)).collect();
        weights
    }

    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.blocks.iter().flat_map(|b| [&b.qkv, &b.out, &b.up, &b.down]).chain([&self.head])
    }

    /// Packs all matrices for products with their transposes, each by one thread.
    pub fn pack(&self, level: Level, params: &[f32], packed: &mut Buffer) {
        let mut rest = &mut packed[..self.packed];
        let mut tasks = Vec::with_capacity(4 * self.blocks.len() + 1);
        for linear in self.linears() {
            let (part, after) = rest.split_at_mut(linear.packed.len());
            tasks.push((linear, part));
            rest = after;
        }
        tasks.into_par_iter().for_each(|(linear, part)| {
            let shape = [linear.inputs, linear.outputs];
            pack::pack_transposed(level, &params[linear.weight.clone()], linear.inputs, shape, part, 0);
        });
    }
}

impl Linear {
    /// Its part of all packed weights.
    pub fn packed<'a>(&self, packed: &'a [f32]) -> &'a [f32] {
        &packed[self.packed.clone()]
    }

    /// Its part of a flat gradient: that of the weight and that of the bias, which comes right before it.
    pub fn grads<'a>(&self, grads: &'a mut [f32]) -> (&'a mut [f32], Option<&'a mut [f32]>) {
        pair(&self.weight, self.bias.as_ref(), grads)
    }
}

impl Norm {
    /// Its part of a flat gradient: that of the weight and that of the bias.
    pub fn grads<'a>(&self, grads: &'a mut [f32]) -> (&'a mut [f32], Option<&'a mut [f32]>) {
        pair(&self.weight, self.bias.as_ref(), grads)
    }
}

/// The names `….bias` and `….weight` follow each other in the layout, which is sorted.
fn pair<'a>(
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    grads: &'a mut [f32],
) -> (&'a mut [f32], Option<&'a mut [f32]>) {
    match bias {
        None => (&mut grads[weight.clone()], None),
        Some(bias) => {
            let (before, after) = grads.split_at_mut(weight.start);
            (&mut after[..weight.len()], Some(&mut before[bias.clone()]))
        }
    }
}
