//! What a run costs, from its config alone: parameters, floating-point operations, bytes.

mod workspace;

pub use workspace::{Workspace, qkv_width, stride};

use crate::spec::{
    RunConfig,
    config::{Dtype, EngineKind, ModelConfig},
};

/// What a worker holds beside its engine's memory, in bytes.
const CPU_PROCESS: u64 = 1 << 26;
const GPU_PROCESS: u64 = 1 << 29;

/// The cost of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Trained numbers; a tied head counts once.
    pub params: u64,
    /// Without the position table, as nanoGPT counts.
    pub params_without_positions: u64,
    /// Tokens trained on over the whole run.
    pub tokens: u64,
    /// Floating-point operations per trained token, forward and backward.
    pub flops_per_token: f64,
    /// `flops_per_token · tokens`.
    pub flops: f64,
    /// Bytes of weights, gradients, optimizer moments and activations while training. Those of the CPU engine are what it
    /// allocates for one thread; see [`Workspace`].
    pub bytes: u64,
}

impl Cost {
    /// The cost of a run whose tokenizer has `vocab` distinct tokens.
    pub fn of(config: &RunConfig, vocab: usize) -> Self {
        let m = &config.model;
        let params = params(m, vocab);
        let params_without_positions = params - (m.context * m.d_model) as u64;
        let tokens = config.tokens_per_step() * config.train.steps;
        let flops_per_token = flops_per_token(m, params_without_positions);
        let bytes = if config.run.device == "cpu" && config.run.engine != EngineKind::Tape {
            Workspace::of(config, vocab, 1).bytes
        } else {
            // Weights, gradients and two moments, in f32; activations of one micro-batch in the training dtype.
            16 * params + activation_bytes(config, vocab)
        };
        Self {
            params,
            params_without_positions,
            tokens,
            flops_per_token,
            flops: flops_per_token * tokens as f64,
            bytes,
        }
    }
}

impl Cost {
    /// The bytes of a device's memory that the run's worker needs.
    pub fn process_bytes(&self, device: &str) -> u64 {
        self.bytes + if device == "cpu" { CPU_PROCESS } else { GPU_PROCESS }
    }
}

/// Trained numbers of a GPT-2 block stack: 12·D² and some per layer where `d_ff` is 4·D and all heads have keys.
fn params(m: &ModelConfig, vocab: usize) -> u64 {
    let (d, f, kv) = (m.d_model, m.d_ff, m.d_model / m.heads * m.kv_heads);
    let linear = |inputs: usize, outputs: usize| inputs * outputs + if m.bias { outputs } else { 0 };
    let norm = if m.bias { 2 * d } else { d };
    let layer = linear(d, d + 2 * kv) + linear(d, d) + linear(d, f) + linear(f, d) + 2 * norm;
    let head = if m.tie_embeddings { 0 } else { vocab * d };
    (vocab * d + m.context * d + m.layers * layer + norm + head) as u64
}

/// 6N + 12·L·H·Q·T (PaLM, Chowdhery et al. 2022, appendix B, as nanoGPT's `estimate_mfu` uses it): six operations per
/// weight without positions, and the two attention products over the whole context, forward and backward.
fn flops_per_token(m: &ModelConfig, params_without_positions: u64) -> f64 {
    6.0 * params_without_positions as f64 + 12.0 * (m.layers * m.d_model * m.context) as f64
}

/// What the forward pass of one micro-batch leaves for the backward pass: per token and layer the inputs of the two
/// norms and four products, qkv, the MLP's inner activations twice, the attention weights of all heads; and the logits.
fn activation_bytes(config: &RunConfig, vocab: usize) -> u64 {
    let m = &config.model;
    let kv = m.d_model / m.heads * m.kv_heads;
    let per_layer = 6 * m.d_model + 2 * kv + 2 * m.d_ff + 2 * m.heads * m.context;
    let per_token = m.layers * per_layer + 3 * m.d_model + 2 * vocab;
    let width = if config.train.dtype == Dtype::F32 { 4 } else { 2 };
    (config.train.batch * m.context * per_token * width) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(layers: usize, heads: usize, d_model: usize, context: usize) -> RunConfig {
        let mut c = RunConfig::default();
        c.model = ModelConfig { layers, heads, kv_heads: heads, d_model, context, d_ff: 4 * d_model, ..c.model };
        c
    }

    #[test]
    fn known_models_have_their_known_sizes() {
        let small = Cost::of(&config(12, 12, 768, 1024), 50257);
        assert_eq!((small.params, small.params_without_positions), (124_439_808, 123_653_376));
        let six = Cost::of(&config(8, 4, 256, 512), 1000);
        assert!((six.params as f64 / 1e6 - 6.71).abs() < 0.005, "{}", six.params);
    }

    #[test]
    fn the_depths_of_the_course_have_their_known_sizes() {
        for (layers, millions) in [(2, 0.40), (4, 0.80), (8, 1.58)] {
            let mut c = config(layers, 4, 128, 64);
            c.model.bias = false;
            let got = Cost::of(&c, 65).params_without_positions as f64 / 1e6;
            assert!((got - millions).abs() < 0.006, "{layers} layers: {got} M");
        }
    }
}
