//! How other libraries name and store the parameters of a [`Layout`]: which of their tensors hold which rows of ours, and
//! which way round. The same table serves to read their checkpoints and to write them.

use std::ops::Range;

use super::{Layout, Param};

/// One tensor of another library, and the rows of one of our parameters that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name there.
    pub tensor: String,
    /// Its shape there.
    pub shape: Vec<usize>,
    /// Whether it is stored as (in, out), where ours is (out, in).
    pub transposed: bool,
    /// The name of our parameter.
    pub param: String,
    /// Where its numbers stand within our parameter; where it has more, the last are left out.
    pub range: Range<usize>,
}

/// What the names of a model's body begin with in HF's GPT-2 with a language head; those of the bare model lack it.
pub const GPT2_PREFIX: &str = "transformer.";
/// The same for HF's Llama.
pub const LLAMA_PREFIX: &str = "model.";

impl Piece {
    /// All of a parameter, called `tensor` there.
    fn whole(param: &Param, tensor: String) -> Self {
        let (shape, range) = (param.shape.clone(), 0..param.len());
        Self { tensor, shape, transposed: false, param: param.name.clone(), range }
    }
}

/// nanoGPT's: our names and shapes are its own.
pub fn nanogpt(layout: &Layout) -> Vec<Piece> {
    layout.params().iter().map(|param| Piece::whole(param, param.name.clone())).collect()
}

/// HF GPT-2's: the same names, but its `Conv1D` keeps the weights of linear layers as (in, out).
pub fn gpt2(layout: &Layout) -> Vec<Piece> {
    const CONV1D: [&str; 3] = [".c_attn.weight", ".c_proj.weight", ".c_fc.weight"];
    let mut pieces = nanogpt(layout);
    for piece in &mut pieces {
        if CONV1D.iter().any(|end| piece.tensor.ends_with(end)) {
            piece.transposed = true;
            piece.shape.reverse();
        }
    }
    pieces
}

/// HF Llama's: queries, keys and values are matrices of their own there. For layouts of its block alone: RMSNorm, SwiGLU,
/// no biases.
pub fn llama(layout: &Layout) -> Vec<Piece> {
    layout.params().iter().flat_map(llama_pieces).collect()
}

fn llama_pieces(param: &Param) -> Vec<Piece> {
    let whole = |name: String| vec![Piece::whole(param, name)];
    let name = param.name.strip_prefix(GPT2_PREFIX).unwrap_or(&param.name);
    match name {
        "wte.weight" => return whole("model.embed_tokens.weight".into()),
        "ln_f.weight" => return whole("model.norm.weight".into()),
        _ => {}
    }
    let Some((layer, inner)) = name.strip_prefix("h.").and_then(|rest| rest.split_once('.')) else {
        return whole(name.to_owned()); // lm_head.weight
    };
    let called = |name: &str| format!("model.layers.{layer}.{name}.weight");
    let inner = inner.strip_suffix(".weight").unwrap_or(inner);
    match inner {
        "ln_1" => whole(called("input_layernorm")),
        "ln_2" => whole(called("post_attention_layernorm")),
        "attn.c_proj" => whole(called("self_attn.o_proj")),
        "mlp.c_fc" => whole(called("mlp.up_proj")),
        "mlp.c_gate" => whole(called("mlp.gate_proj")),
        "mlp.c_proj" => whole(called("mlp.down_proj")),
        "attn.c_attn" => {
            let (rows, d) = (param.shape[0], param.shape[1]);
            let kv = (rows - d) / 2;
            let parts = [("q_proj", 0, d), ("k_proj", d, kv), ("v_proj", d + kv, kv)];
            let piece = |(name, from, rows): (&str, usize, usize)| Piece {
                tensor: called(&format!("self_attn.{name}")),
                shape: vec![rows, d],
                transposed: false,
                param: param.name.clone(),
                range: from * d..(from + rows) * d,
            };
            parts.map(piece).to_vec()
        }
        _ => whole(param.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::config::{Mlp, ModelConfig, Norm, Position};

    fn covered(layout: &Layout, pieces: &[Piece]) {
        for param in layout.params() {
            let mut ranges: Vec<_> = pieces.iter().filter(|p| p.param == param.name).map(|p| p.range.clone()).collect();
            ranges.sort_by_key(|range| range.start);
            let end = ranges.iter().fold(0, |at, range| if range.start == at { range.end } else { usize::MAX });
            assert_eq!(end, param.len(), "{}: {ranges:?}", param.name);
        }
        for piece in pieces {
            assert_eq!(piece.shape.iter().product::<usize>(), piece.range.len(), "{piece:?}");
        }
    }

    #[test]
    fn every_number_of_a_parameter_stands_in_one_tensor() {
        let gpt2_model =
            ModelConfig { layers: 2, d_model: 8, heads: 2, kv_heads: 2, d_ff: 24, ..ModelConfig::default() };
        let layout = Layout::of(&gpt2_model, 11);
        covered(&layout, &gpt2(&layout));
        covered(&layout, &nanogpt(&layout));
        let fc = gpt2(&layout).into_iter().find(|piece| piece.tensor == "transformer.h.1.mlp.c_fc.weight").unwrap();
        assert_eq!((fc.shape, fc.transposed), (vec![8, 24], true));

        let llama_model = ModelConfig {
            norm: Norm::RmsNorm,
            mlp: Mlp::SwiGlu,
            position: Position::Rope,
            bias: false,
            tie_embeddings: false,
            kv_heads: 1,
            ..gpt2_model
        };
        let layout = Layout::of(&llama_model, 11);
        covered(&layout, &llama(&layout));
        let names: Vec<String> = llama(&layout).into_iter().map(|piece| piece.tensor).collect();
        assert!(names.iter().all(|name| name.starts_with("model.") || name == "lm_head.weight"), "{names:?}");
        let k =
            llama(&layout).into_iter().find(|piece| piece.tensor == "model.layers.1.self_attn.k_proj.weight").unwrap();
        assert_eq!((k.shape, k.range), (vec![4, 8], 64..96));
    }
}
