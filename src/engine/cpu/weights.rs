//! Where each weight lies in the flat vectors, and the packed copies of matrices.

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    kernels::{Buffer, Level, pack},
    model::Layout,
    spec::config::{Mlp, ModelConfig},
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

/// The scales of the norms of queries and keys, one number each for those of a head.
pub struct HeadNorms {
    pub queries: Range<usize>,
    pub keys: Range<usize>,
}

/// What an MLP does between its matrices.
pub enum Activation {
    Gelu,
    GeluTanh,
    Relu2,
    /// The matrix of the gate, beside that of `up`.
    SwiGlu(Linear),
}

/// The weights of one block.
pub struct Block {
    pub norm1: Norm,
    pub qkv: Linear,
    pub head_norms: Option<HeadNorms>,
    pub out: Linear,
    pub norm2: Norm,
    pub up: Linear,
    pub activation: Activation,
    pub down: Linear,
}

/// All weights of a model.
pub struct Weights {
    /// Token embeddings (V, D).
    pub tokens: Range<usize>,
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
                    head_norms: m.qk_norm.then(|| HeadNorms {
                        queries: named(&format!("{h}.attn.q_norm.weight")),
                        keys: named(&format!("{h}.attn.k_norm.weight")),
                    }),
                    out: linear(&format!("{h}.attn.c_proj"), m.d_model),
                    norm2: norm(&format!("{h}.ln_2")),
                    up: linear(&format!("{h}.mlp.c_fc"), m.d_model),
                    activation: match m.mlp {
                        Mlp::Gelu => Activation::Gelu,
                        Mlp::GeluTanh => Activation::GeluTanh,
                        Mlp::Relu2 => Activation::Relu2,
                        Mlp::SwiGlu => Activation::SwiGlu(linear(&format!("{h}.mlp.c_gate"), m.d_model)),
                    },
                    down: linear(&format!("{h}.mlp.c_proj"), m.d_ff),
                }
            })
            .collect();
        let head = linear(if m.tie_embeddings { "transformer.wte" } else { "lm_head" }, m.d_model);
        let mut weights = Self {
            tokens: named("transformer.wte.weight"),
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

    /// All matrices, in the order of their packed copies.
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.blocks.iter().flat_map(Block::linears).chain([&self.head])
    }

    /// Packs all matrices for products with their transposes, each by one thread.
    pub fn pack(&self, level: Level, params: &[f32], packed: &mut Buffer) {
        let mut rest = &mut packed[..self.packed];
        let mut tasks = Vec::with_capacity(5 * self.blocks.len() + 1);
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

impl Block {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let gate = if let Activation::SwiGlu(gate) = &self.activation { Some(gate) } else { None };
        [&self.qkv, &self.out, &self.up].into_iter().chain(gate).chain([&self.down])
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

impl HeadNorms {
    /// The scales of queries and of keys.
    pub fn weights<'a>(&self, params: &'a [f32]) -> [&'a [f32]; 2] {
        [&params[self.queries.clone()], &params[self.keys.clone()]]
    }

    /// Their parts of a flat gradient.
    pub fn grads<'a>(&self, grads: &'a mut [f32]) -> [&'a mut [f32]; 2] {
        let (queries, keys) = apart(&self.queries, &self.keys, grads);
        [queries, keys]
    }
}

fn pair<'a>(
    weight: &Range<usize>,
    bias: Option<&Range<usize>>,
    grads: &'a mut [f32],
) -> (&'a mut [f32], Option<&'a mut [f32]>) {
    match bias {
        None => (&mut grads[weight.clone()], None),
        Some(bias) => {
            let (weight, bias) = apart(weight, bias, grads);
            (weight, Some(bias))
        }
    }
}

/// Two parts of the layout, which is sorted by name: `before` is a `….bias` and `of` its `….weight`, or they are those of
/// `k_norm` and `q_norm`.
fn apart<'a>(of: &Range<usize>, before: &Range<usize>, grads: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
    let (earlier, later) = grads.split_at_mut(of.start);
    (&mut later[..of.len()], &mut earlier[before.clone()])
}
