//! Hugging Face's GPT-2.

use std::path::Path;

use super::{Format, Import, Source, hf::Config, refused, tensors::Tensors};
use crate::{
    base::Result,
    model::mapping::{self, GPT2_PREFIX},
    spec::config::{Mlp, ModelConfig},
};

/// Activations by HF's names.
const ACTIVATIONS: [(&str, Mlp); 4] =
    [("gelu_new", Mlp::GeluTanh), ("gelu_pytorch_tanh", Mlp::GeluTanh), ("gelu", Mlp::Gelu), ("relu2", Mlp::Relu2)];

/// The model of a config and its tensors.
pub fn open(config: &Config, folder: &Path, tensors: Tensors) -> Result<Import> {
    let has_prefix = tensors.get("transformer.wte.weight").is_some();
    let model = model(config)?;
    let vocab = config.size("vocab_size")?;
    let body = if has_prefix { GPT2_PREFIX } else { "" };
    // Sizes that no tensor has are refused here, before anything is made of them.
    tensors.expect(&format!("{body}wte.weight"), &[vocab, model.d_model], folder)?;
    tensors.expect(&format!("{body}wpe.weight"), &[model.context, model.d_model], folder)?;
    tensors.expect(&format!("{body}h.0.mlp.c_fc.weight"), &[model.d_model, model.d_ff], folder)?;
    layers_are_there(&tensors, model.layers, folder, |layer| format!("{body}h.{layer}.ln_1.weight"))?;
    if model.tie_embeddings {
        head_is_tied(&tensors, &format!("{body}wte.weight"))?;
    }
    let tied = model.tie_embeddings;
    let ignored = |name: &str| {
        let name = name.strip_prefix(GPT2_PREFIX).unwrap_or(name);
        let is_mask =
            name.starts_with("h.") && [".attn.bias", ".attn.masked_bias"].iter().any(|end| name.ends_with(end));
        is_mask || (tied && name == HEAD)
    };
    let source = Source { format: Format::HfGpt2, path: folder.into(), model, vocab, has_moments: false };
    Import::new(source, tensors, mapping::gpt2, if has_prefix { "" } else { GPT2_PREFIX }, ignored)
}

fn model(config: &Config) -> Result<ModelConfig> {
    config.must_be("scale_attn_weights", true, true)?;
    config.must_be("scale_attn_by_inverse_layer_idx", false, false)?;
    config.must_be("add_cross_attention", false, false)?;
    let (d_model, heads) = (config.size("n_embd")?, config.size("n_head")?);
    if !d_model.is_multiple_of(heads) {
        return Err(config.refused(format!("its `n_head` {heads} does not divide its `n_embd` {d_model}")));
    }
    let activation = config.text("activation_function")?.unwrap_or("gelu_new");
    let known = ACTIVATIONS.iter().find(|(name, _)| *name == activation);
    let &(_, mlp) = known.ok_or_else(|| {
        let names: Vec<_> = ACTIVATIONS.iter().map(|(name, _)| *name).collect();
        config.refused(format!("its `activation_function` is {activation:?}; known here are {}", names.join(", ")))
    })?;
    Ok(ModelConfig {
        layers: config.size("n_layer")?,
        heads,
        kv_heads: heads,
        d_model,
        context: config.size("n_positions")?,
        d_ff: config.size_or("n_inner")?.unwrap_or(4 * d_model),
        norm_eps: config.positive("layer_norm_epsilon")?.unwrap_or(1e-5),
        mlp,
        tie_embeddings: config.switch("tie_word_embeddings", true)?,
        ..ModelConfig::default()
    })
}

/// The name of a head of its own.
pub const HEAD: &str = "lm_head.weight";

/// Refuses a head that is said to be the embedding and is not: which of them was meant cannot be told.
pub fn head_is_tied(tensors: &Tensors, embedding: &str) -> Result<()> {
    let (Some(head), Some(embedding)) = (tensors.get(HEAD), tensors.get(embedding)) else { return Ok(()) };
    if tensors.data(head) == tensors.data(embedding) {
        return Ok(());
    }
    let why = format!("tensor {HEAD} is not the token embedding, and config.json says that it is");
    Err(refused(tensors.path(head), why).hint("set `tie_word_embeddings` to false there to use the head as it is"))
}

/// Refuses a number of layers that the tensors do not have.
pub fn layers_are_there(tensors: &Tensors, layers: usize, folder: &Path, norm: impl Fn(usize) -> String) -> Result<()> {
    let first_missing = (0..layers.min(tensors.len() + 1)).map(norm).find(|name| tensors.get(name).is_none());
    match first_missing {
        Some(name) => Err(refused(folder, format!("tensor {name} is not in it, and config.json has {layers} layers"))),
        None => Ok(()),
    }
}
