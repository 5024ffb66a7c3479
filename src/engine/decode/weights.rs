//! The weights as one position at a time reads them: every matrix in panels, and no second copy of any.

use crate::{
    kernels::{Buffer, Level, pack},
    model::Layout,
    spec::config::{Mlp, ModelConfig},
};

/// A matrix (outputs, inputs), packed for products with its transpose, and its bias.
pub struct Linear {
    pub panels: Buffer,
    pub bias: Option<Buffer>,
    pub inputs: usize,
    pub outputs: usize,
}

/// The scale of a norm, and its bias.
pub struct Norm {
    pub weight: Buffer,
    pub bias: Option<Buffer>,
}

/// One block.
pub struct Block {
    pub norm1: Norm,
    pub qkv: Linear,
    /// The scales of queries and keys, where they are normalised.
    pub qk_norm: Option<[Norm; 2]>,
    pub out: Linear,
    pub norm2: Norm,
    pub up: Linear,
    /// SwiGLU's.
    pub gate: Option<Linear>,
    pub down: Linear,
}

/// All weights.
pub struct Weights {
    /// Token embeddings (V, D), where the head has weights of its own.
    tokens: Option<Buffer>,
    /// Position embeddings (T, D), where they are learned.
    pub positions: Option<Buffer>,
    pub blocks: Vec<Block>,
    pub norm: Norm,
    pub head: Linear,
    panel: usize,
}

/// A flat vector of weights, by the names of its parameters.
struct Named<'a> {
    layout: &'a Layout,
    flat: &'a [f32],
    level: Level,
}

impl Named<'_> {
    fn find(&self, name: &str) -> Option<&[f32]> {
        self.layout.get(name).map(|p| &self.flat[p.range()])
    }

    fn copy(&self, name: &str) -> Option<Buffer> {
        self.find(name).map(|values| {
            let mut copy = Buffer::zeros(values.len());
            copy.copy_from_slice(values);
            copy
        })
    }

    /// A parameter that every such model has.
    fn get(&self, name: &str) -> Buffer {
        self.copy(name).unwrap_or_else(|| unreachable!("the layout has {name}"))
    }

    fn norm(&self, name: &str) -> Norm {
        Norm { weight: self.get(&format!("{name}.weight")), bias: self.copy(&format!("{name}.bias")) }
    }

    fn linear(&self, name: &str, inputs: usize) -> Linear {
        let weight = self.find(&format!("{name}.weight")).unwrap_or_default();
        let outputs = weight.len() / inputs;
        let mut panels = Buffer::zeros(pack::packed_len(inputs, outputs, self.level.panel()));
        pack::pack_transposed(self.level, weight, inputs, [inputs, outputs], &mut panels, 0);
        Linear { panels, bias: self.copy(&format!("{name}.bias")), inputs, outputs }
    }
}

impl Weights {
    pub fn of(layout: &Layout, m: &ModelConfig, flat: &[f32], level: Level) -> Self {
        let named = Named { layout, flat, level };
        let blocks = (0..m.layers).map(|layer| {
            let h = format!("transformer.h.{layer}");
            Block {
                norm1: named.norm(&format!("{h}.ln_1")),
                qkv: named.linear(&format!("{h}.attn.c_attn"), m.d_model),
                qk_norm: m.qk_norm.then(|| ["q_norm", "k_norm"].map(|name| named.norm(&format!("{h}.attn.{name}")))),
                out: named.linear(&format!("{h}.attn.c_proj"), m.d_model),
                norm2: named.norm(&format!("{h}.ln_2")),
                up: named.linear(&format!("{h}.mlp.c_fc"), m.d_model),
                gate: (m.mlp == Mlp::SwiGlu).then(|| named.linear(&format!("{h}.mlp.c_gate"), m.d_model)),
                down: named.linear(&format!("{h}.mlp.c_proj"), m.d_ff),
            }
        });
        Self {
            blocks: blocks.collect(),
            tokens: (!m.tie_embeddings).then(|| named.get("transformer.wte.weight")),
            positions: named.copy("transformer.wpe.weight"),
            norm: named.norm("transformer.ln_f"),
            head: named.linear(if m.tie_embeddings { "transformer.wte" } else { "lm_head" }, m.d_model),
            panel: level.panel(),
        }
    }

    /// The embedding of a token, (D). A tied one is a column of the head's panels.
    pub fn embedding(&self, token: u32, out: &mut [f32]) {
        let (token, d) = (token as usize, out.len());
        match &self.tokens {
            Some(tokens) => out.copy_from_slice(&tokens[token * d..][..d]),
            None => {
                let column = &self.head.panels[token / self.panel * self.panel * d + token % self.panel..];
                out.iter_mut().zip(column.iter().step_by(self.panel)).for_each(|(x, w)| *x = *w);
            }
        }
    }

    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let of_blocks = self.blocks.iter().flat_map(|b| [&b.qkv, &b.out, &b.up, &b.down].into_iter().chain(&b.gate));
        of_blocks.chain([&self.head])
    }

    /// Numbers of the largest matrix.
    pub fn largest(&self) -> usize {
        self.linears().map(|linear| linear.panels.len()).max().unwrap_or(0)
    }

    /// Bytes of all that is read for a token: the matrices.
    pub fn bytes_per_token(&self) -> usize {
        self.linears().map(|linear| size_of::<f32>() * linear.inputs * linear.outputs).sum()
    }
}
