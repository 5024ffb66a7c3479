//! Hugging Face's Llama, as long as it is what Llama 1 and 2 are: RoPE at the positions as they are, no biases.

use std::path::Path;

use super::{
    Format, Import, Source,
    gpt2::{HEAD, head_is_tied, layers_are_there},
    hf::Config,
    tensors::Tensors,
};
use crate::{
    base::Result,
    model::mapping::{self, LLAMA_PREFIX},
    spec::config::{Mlp, ModelConfig, Norm, Position},
};

/// The model of a config and its tensors.
pub fn open(config: &Config, folder: &Path, tensors: Tensors) -> Result<Import> {
    let has_prefix = tensors.get("model.embed_tokens.weight").is_some();
    let model = model(config)?;
    let vocab = config.size("vocab_size")?;
    let body = if has_prefix { LLAMA_PREFIX } else { "" };
    // Sizes that no tensor has are refused here, before anything is made of them.
    tensors.expect(&format!("{body}embed_tokens.weight"), &[vocab, model.d_model], folder)?;
    tensors.expect(&format!("{body}layers.0.mlp.up_proj.weight"), &[model.d_ff, model.d_model], folder)?;
    layers_are_there(&tensors, model.layers, folder, |layer| format!("{body}layers.{layer}.input_layernorm.weight"))?;
    if model.tie_embeddings {
        head_is_tied(&tensors, &format!("{body}embed_tokens.weight"))?;
    }
    let tied = model.tie_embeddings;
    // Old versions wrote down the wavelengths, which follow from the config.
    let ignored = |name: &str| name.ends_with("rotary_emb.inv_freq") || (tied && name == HEAD);
    let source = Source { format: Format::HfLlama, path: folder.into(), model, vocab, has_moments: false };
    Import::new(source, tensors, mapping::llama, if has_prefix { "" } else { LLAMA_PREFIX }, ignored)
}

fn model(config: &Config) -> Result<ModelConfig> {
    config.must_be("attention_bias", false, false)?;
    config.must_be("mlp_bias", false, false)?;
    config.never("sliding_window", "models here attend to all that came before")?;
    let activation = config.text("hidden_act")?.unwrap_or("silu");
    if activation != "silu" {
        return Err(config.refused(format!("its `hidden_act` is {activation:?}, and SwiGLU here has \"silu\"")));
    }
    let (d_model, heads) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
    if !d_model.is_multiple_of(heads) || !(d_model / heads).is_multiple_of(2) {
        let why = format!("its `hidden_size` {d_model} does not make {heads} heads of an even width");
        return Err(config.refused(why));
    }
    let width = config.size_or("head_dim")?.unwrap_or(d_model / heads);
    if width != d_model / heads {
        let why = format!(
            "its `head_dim` is {width}, and heads here are `hidden_size` / `num_attention_heads`, {}, wide",
            d_model / heads
        );
        return Err(config.refused(why));
    }
    let kv_heads = config.size_or("num_key_value_heads")?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        let why = format!("its `num_key_value_heads` {kv_heads} does not divide its `num_attention_heads` {heads}");
        return Err(config.refused(why));
    }
    Ok(ModelConfig {
        layers: config.size("num_hidden_layers")?,
        heads,
        kv_heads,
        d_model,
        context: config.size("max_position_embeddings")?,
        d_ff: config.size("intermediate_size")?,
        norm: Norm::RmsNorm,
        norm_eps: config.positive("rms_norm_eps")?.unwrap_or(1e-6),
        position: Position::Rope,
        rope_theta: rope_theta(config)?,
        mlp: Mlp::SwiGlu,
        bias: false,
        tie_embeddings: config.switch("tie_word_embeddings", false)?,
        ..ModelConfig::default()
    })
}

/// RoPE's base: in transformers 5 within `rope_parameters`, before that beside `rope_scaling`. Whatever stretches or bends
/// positions is refused.
fn rope_theta(config: &Config) -> Result<f64> {
    let mut theta = config.positive("rope_theta")?;
    for name in ["rope_scaling", "rope_parameters"] {
        let Some(rope) = config.group(name)? else { continue };
        for key in ["rope_type", "type"] {
            if let Some(kind) = rope.text(key)?.filter(|kind| *kind != "default") {
                return Err(
                    config.refused(format!("its `{name}` has the `{key}` {kind:?}, and RoPE here is as it was first"))
                );
            }
        }
        whole_heads(&rope)?;
        theta = rope.positive("rope_theta")?.or(theta);
    }
    whole_heads(config)?;
    Ok(theta.unwrap_or(10_000.0))
}

fn whole_heads(config: &Config) -> Result<()> {
    match config.positive("partial_rotary_factor")?.unwrap_or(1.0) {
        1.0 => Ok(()),
        part => {
            Err(config.refused(format!("its `partial_rotary_factor` is {part}, and RoPE here rotates all of a head")))
        }
    }
}
