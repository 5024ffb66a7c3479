//! Weights for other programs: a folder that Hugging Face's `transformers` loads, as GPT-2 or as Llama, whichever the model
//! is. [`super::import`] reads it back.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, View};
use serde_json::{Value, json};

use super::{
    Layout,
    mapping::{self, Piece},
};
use crate::{
    base::{
        Error, Exit, Result,
        aside::{self, Aside},
        files,
    },
    spec::config::{Mlp, ModelConfig, Norm, Position},
};

/// A model and its weights.
pub struct Model<'a> {
    /// What it is.
    pub config: &'a ModelConfig,
    /// How many tokens it knows.
    pub vocab: usize,
    /// Its parameters.
    pub layout: &'a Layout,
    /// Their numbers, in the layout's order.
    pub weights: &'a [f32],
    /// The token that ends a text, where there is one.
    pub end_of_text: Option<u32>,
}

/// Models of `transformers` that ours can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// `GPT2LMHeadModel`.
    Gpt2,
    /// `LlamaForCausalLM`.
    Llama,
}

impl Architecture {
    /// Its class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "GPT2LMHeadModel",
            Self::Llama => "LlamaForCausalLM",
        }
    }

    /// The one that computes what a model computes.
    ///
    /// # Errors
    /// [`Exit::Usage`] where neither does, with the settings that each lacks.
    pub fn of(model: &ModelConfig) -> Result<Self> {
        let all = [Self::Gpt2, Self::Llama];
        if let Some(fitting) = all.into_iter().find(|architecture| architecture.lacks(model).is_empty()) {
            return Ok(fitting);
        }
        let sentences = all
            .map(|architecture| format!("{} has no {}", architecture.name(), architecture.lacks(model).join(", no ")));
        let why = format!("no model of transformers' computes what this one does: {}", sentences.join("; "));
        Err(Error::new(Exit::Usage, "exporting for Hugging Face's transformers", why)
            .hint("its checkpoints are safetensors too, under the names that the README tells"))
    }

    /// The settings of a model that it does not know.
    fn lacks(self, model: &ModelConfig) -> Vec<String> {
        let word = |leaf: &str, word: &str| format!("`{leaf}` {word}");
        let (norm, position) = (word("model.norm", model.norm.word()), word("model.position", model.position.word()));
        let mlp = word("model.mlp", model.mlp.word());
        let lacks = match self {
            Self::Gpt2 => [
                (model.norm != Norm::LayerNorm, norm),
                (model.position != Position::Learned, position),
                (activation(model.mlp).is_none(), mlp),
                (
                    model.kv_heads != model.heads,
                    format!("`model.kv_heads` other than `model.heads`, as {}", model.kv_heads),
                ),
                (model.qk_norm, "`model.qk_norm`".into()),
            ],
            Self::Llama => [
                (model.norm != Norm::RmsNorm, norm),
                (model.position != Position::Rope, position),
                (model.mlp != Mlp::SwiGlu, mlp),
                (model.bias, "`model.bias`".into()),
                (model.qk_norm, "`model.qk_norm`".into()),
            ],
        };
        lacks.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect()
    }

    fn config(self, model: &Model) -> Value {
        let (m, ends) = (model.config, model.end_of_text);
        match self {
            Self::Gpt2 => json!({
                "architectures": [self.name()],
                "model_type": "gpt2",
                "vocab_size": model.vocab,
                "n_positions": m.context,
                "n_embd": m.d_model,
                "n_layer": m.layers,
                "n_head": m.heads,
                "n_inner": m.d_ff,
                "activation_function": activation(m.mlp),
                "layer_norm_epsilon": m.norm_eps,
                "resid_pdrop": m.dropout,
                "embd_pdrop": m.dropout,
                "attn_pdrop": m.dropout,
                "tie_word_embeddings": m.tie_embeddings,
                "bos_token_id": ends,
                "eos_token_id": ends,
                "dtype": "float32",
            }),
            Self::Llama => json!({
                "architectures": [self.name()],
                "model_type": "llama",
                "vocab_size": model.vocab,
                "max_position_embeddings": m.context,
                "hidden_size": m.d_model,
                "intermediate_size": m.d_ff,
                "num_hidden_layers": m.layers,
                "num_attention_heads": m.heads,
                "num_key_value_heads": m.kv_heads,
                "head_dim": m.d_model / m.heads,
                "hidden_act": "silu",
                "rms_norm_eps": m.norm_eps,
                // Before transformers 5 it stood here, since then within `rope_parameters`.
                "rope_theta": m.rope_theta,
                "rope_parameters": {"rope_type": "default", "rope_theta": m.rope_theta},
                "attention_bias": false,
                "mlp_bias": false,
                "attention_dropout": m.dropout,
                "tie_word_embeddings": m.tie_embeddings,
                "bos_token_id": ends,
                "eos_token_id": ends,
                "dtype": "float32",
            }),
        }
    }

    /// Its tensors. GPT-2 has biases: those that our model lacks are zeros, which changes nothing.
    fn pieces(self, model: &Model) -> Vec<Piece> {
        let bias = self == Self::Gpt2;
        let full = Layout::of(&ModelConfig { bias, ..model.config.clone() }, model.vocab);
        match self {
            Self::Gpt2 => mapping::gpt2(&full),
            Self::Llama => mapping::llama(&full),
        }
    }
}

/// HF's name of an activation between two matrices.
fn activation(mlp: Mlp) -> Option<&'static str> {
    match mlp {
        Mlp::Gelu => Some("gelu"),
        Mlp::GeluTanh => Some("gelu_new"),
        Mlp::Relu2 => Some("relu2"),
        Mlp::SwiGlu => None,
    }
}

/// Writes `config.json`, `model.safetensors` and the `more` files into a new folder, which is there in full or not at all.
///
/// # Errors
/// [`Exit::Usage`] where the model is none of transformers', or where the folder is there and not empty; [`Exit::Store`]
/// where it cannot be written.
pub fn write(folder: &Path, model: &Model, more: &[(&str, &[u8])]) -> Result<Architecture> {
    let architecture = Architecture::of(model.config)?;
    let doing = || format!("writing {}", folder.display());
    let place = place(folder)?;
    let parent = files::folder_of(&place);
    let write = || -> Result<(), Box<dyn std::error::Error>> {
        let aside = Aside::new(parent)?;
        let put = |name: &str, bytes: &[u8]| fs::write(aside.path().join(name), bytes);
        put("config.json", format!("{:#}\n", architecture.config(model)).as_bytes())?;
        more.iter().try_for_each(|(name, bytes)| put(name, bytes))?;
        let tensors: Vec<_> = architecture
            .pieces(model)
            .into_iter()
            .map(|piece| (piece.tensor.clone(), Tensor { piece, model }))
            .collect();
        let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize_to_file(tensors, Some(metadata), &aside.path().join("model.safetensors"))?;
        for name in fs::read_dir(aside.path())? {
            let file = File::open(name?.path())?;
            file.set_permissions(Permissions::from_mode(0o644))?; // whatever the writer of tensors gave it
            file.sync_all()?;
        }
        Ok(aside.put_in_place(&place)?)
    };
    write().map_err(|e| Error::new(Exit::Store, doing(), e))?;
    Ok(architecture)
}

/// Where a folder can be put, which is new or takes the place of an empty one.
fn place(folder: &Path) -> Result<PathBuf> {
    let place = aside::destination(folder)?;
    let is_free = place.is_dir() && files::names(&place)?.is_empty();
    if fs::symlink_metadata(&place).is_ok() && !is_free {
        return Err(Error::new(Exit::Usage, format!("writing {}", folder.display()), "it is there already")
            .hint("name a folder that is new or empty"));
    }
    Ok(place)
}

/// One tensor as others store it; becomes bytes only when it is written.
struct Tensor<'a> {
    piece: Piece,
    model: &'a Model<'a>,
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.piece.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let Some(param) = self.model.layout.get(&self.piece.param) else { return vec![0; self.data_len()].into() };
        let values = &self.model.weights[param.range()][self.piece.range.clone()];
        match (self.piece.transposed, &self.piece.shape[..]) {
            (true, &[inputs, outputs]) => {
                let turned = (0..inputs).flat_map(|i| (0..outputs).map(move |o| values[o * inputs + i]));
                turned.flat_map(f32::to_le_bytes).collect()
            }
            _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        4 * self.piece.range.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_transformers_lacks_is_named_in_full() {
        let why = |change: fn(&mut ModelConfig)| {
            let mut model = ModelConfig::default();
            change(&mut model);
            Architecture::of(&model).map_err(|e| e.to_string())
        };
        assert_eq!(why(|_| ()).unwrap(), Architecture::Gpt2);
        assert_eq!(why(|m| m.bias = false).unwrap(), Architecture::Gpt2);
        let llama = |m: &mut ModelConfig| {
            (m.norm, m.position, m.mlp, m.bias) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu, false)
        };
        let mut model = ModelConfig::default();
        llama(&mut model);
        assert_eq!(Architecture::of(&model).unwrap(), Architecture::Llama);
        let error = why(|m| (m.norm, m.kv_heads, m.qk_norm) = (Norm::RmsNorm, 1, true)).unwrap_err();
        let gpt2 = "GPT2LMHeadModel has no `model.norm` rmsnorm, no `model.kv_heads` other than `model.heads`, as 1, no `model.qk_norm`";
        let llama = "LlamaForCausalLM has no `model.position` learned, no `model.mlp` gelu, no `model.bias`, no `model.qk_norm`";
        assert!(error.contains(gpt2) && error.contains(llama), "{error}");
    }
}
