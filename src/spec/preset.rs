//! The models that `model.preset` names: what their settings are.

use super::config::{Mlp, ModelConfig, Norm, Position, Preset};

impl Preset {
    /// All settings of the model.
    pub fn model(self) -> ModelConfig {
        match self {
            Self::Gpt2 => self.gpt2(12, 12, 768),
            Self::Gpt2Medium => self.gpt2(24, 16, 1024),
            Self::Gpt2Large => self.gpt2(36, 20, 1280),
            Self::Gpt2Xl => self.gpt2(48, 25, 1600),
            Self::Llama => ModelConfig {
                preset: Some(self),
                layers: 32,
                heads: 32,
                kv_heads: 8,
                d_model: 4096,
                context: 8192,
                d_ff: 14_336,
                norm: Norm::RmsNorm,
                norm_eps: 1e-5,
                position: Position::Rope,
                rope_theta: 500_000.0,
                qk_norm: false,
                mlp: Mlp::SwiGlu,
                bias: false,
                tie_embeddings: false,
                dropout: 0.0,
            },
        }
    }

    /// One of GPT-2's sizes. It was trained with a dropout of 0.1, which is left to whoever trains.
    fn gpt2(self, layers: usize, heads: usize, d_model: usize) -> ModelConfig {
        ModelConfig {
            preset: Some(self),
            layers,
            heads,
            kv_heads: heads,
            d_model,
            context: 1024,
            d_ff: 4 * d_model,
            norm: Norm::LayerNorm,
            norm_eps: 1e-5,
            position: Position::Learned,
            rope_theta: 10_000.0,
            qk_norm: false,
            mlp: Mlp::GeluTanh,
            bias: true,
            tie_embeddings: true,
            dropout: 0.0,
        }
    }

    /// Distinct tokens of the model's own tokenizer. A run has those of its corpus's instead.
    pub fn vocab(self) -> usize {
        match self {
            Self::Gpt2 | Self::Gpt2Medium | Self::Gpt2Large | Self::Gpt2Xl => 50_257,
            Self::Llama => 128_256,
        }
    }
}
