//! What a run costs, from its config alone: parameters, floating-point operations, bytes.

mod anatomy;
mod workspace;

pub use anatomy::{Bytes, Layer, Parts, Passes, Training};
pub use workspace::{Workspace, qk_width, qkv_width, stride};

use crate::{
    kernels::muon,
    model::{self, Layout},
    spec::{
        RunConfig,
        config::{Dtype, EngineKind, Mlp, ModelConfig, Norm, Optimizer, Position},
    },
};

/// What a worker on a CPU holds beside all else, in bytes: the program, a small corpus, its threads. Measured: 25 MB.
const PROCESS: u64 = 25 << 20;

/// Bytes per parameter that writing a checkpoint takes for a moment: the moments copied, and their file. Measured with
/// models of 0.8 and 11 million parameters: 19 and 20.
const SAVING: u64 = 20;

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
        let parts = Parts::of(m, vocab);
        let params = parts.total();
        let params_without_positions = params - parts.positions;
        let tokens = config.tokens_per_step() * config.train.steps;
        let flops_per_token = flops_per_token(m, params_without_positions);
        let bytes = workspace_bytes(config, vocab, 1).unwrap_or_else(|| tape_bytes(config, vocab, params));
        Self {
            params,
            params_without_positions,
            tokens,
            flops_per_token,
            flops: flops_per_token * tokens as f64,
            bytes,
        }
    }

    /// Floating-point operations per token of a forward pass: a third of those of both passes.
    pub fn forward_flops_per_token(&self) -> f64 {
        self.flops_per_token / 3.0
    }

    /// Bytes that a worker on the CPU needs at most, with so many threads: its engine's, and what the process holds beside.
    /// Each thread of the CPU engine has activations of its own, or room to pack weights in.
    pub fn process_bytes(&self, config: &RunConfig, vocab: usize, threads: usize) -> u64 {
        let batch = (8 * config.train.batch * config.model.context) as u64; // tokens and targets
        workspace_bytes(config, vocab, threads).unwrap_or(self.bytes) + batch + SAVING * self.params + PROCESS
    }
}

/// What the CPU engine allocates, where that is the engine.
fn workspace_bytes(config: &RunConfig, vocab: usize, threads: usize) -> Option<u64> {
    (config.engine() == EngineKind::Cpu).then(|| Workspace::of(config, vocab, threads).bytes)
}

/// What the tape holds, about: weights, two moments, the gradient of a step, and the sum before and after it was added,
/// in f32; beside them activations, or what Muon computes for one parameter, whichever is more.
fn tape_bytes(config: &RunConfig, vocab: usize, params: u64) -> u64 {
    let [training, evaluating] = activation_bytes(config, vocab);
    24 * params + training.max(evaluating).max(muon_bytes(config, vocab))
}

/// 6N + 12·L·H·Q·T (PaLM, Chowdhery et al. 2022, appendix B, as nanoGPT's `estimate_mfu` uses it): six operations per
/// weight without positions, and the two attention products over the whole context, forward and backward.
fn flops_per_token(m: &ModelConfig, params_without_positions: u64) -> f64 {
    6.0 * params_without_positions as f64 + 12.0 * (m.layers * m.d_model * m.context) as f64
}

/// What [the tape](crate::engine::tape) holds when it turns from the forward pass of one micro-batch to the backward pass,
/// where every operation's output is kept; and while it evaluates. Counted from `engine/tape/gpt.rs`, in
/// numbers per token and layer: a LayerNorm keeps the centred, squared, scaled and weighted rows, and those with the bias,
/// an RMSNorm all but the centred ones; a product its rows, the bias's and their sum; attention the copies of queries, keys
/// and values, and six steps from scores to weights; the feed-forward sublayer one or two steps from the first product, or
/// products, to the last. Resident memory on a CPU was 1.0 to 1.3 times what follows from that, for models of 0.1 to 11
/// million parameters.
fn activation_bytes(config: &RunConfig, vocab: usize) -> [u64; 2] {
    let m = &config.model;
    let (d, f, scores) = (m.d_model, m.d_ff, m.heads * m.context);
    let kv = d / m.heads * m.kv_heads;
    let qkv = d + 2 * kv;
    let product = if m.bias { 3 } else { 1 };
    let norm = match m.norm {
        Norm::LayerNorm => 4 + usize::from(m.bias),
        Norm::RmsNorm => 3,
    };
    let embedded = match m.position {
        Position::Learned => 2,
        Position::Sinusoidal => 3,
        Position::Rope | Position::None => 1,
    };
    let (dropped, dropped_scores) = if m.dropout > 0.0 { (4, 2) } else { (0, 0) };
    let half = config.train.dtype != Dtype::F32;
    let (width, casts) = if half { (2, 1) } else { (4, 0) };
    // Of queries and keys: three numbers for each from an RMSNorm, and from a rotation six halves, what they are put
    // together to, and copies of that: eight, as resident memory has it.
    let meeting = match (m.qk_norm, m.position == Position::Rope) {
        (false, false) => 0,
        (normed, rotated) => 3 * usize::from(normed) + 8 * usize::from(rotated) + 2 * casts,
    };
    // In f32 whatever the dtype: norms, residual stream, softmax, and what is cast to it.
    let whole = (2 * norm + 2 + dropped + 2 * casts) * d + meeting * (d + kv) + (5 + dropped_scores + casts) * scores;
    let inner = match m.mlp {
        Mlp::Gelu | Mlp::GeluTanh => product + 1,
        Mlp::Relu2 => product + 2,
        Mlp::SwiGlu => 2 * product + 2,
    };
    let rest = (2 * product + 5 + 2 * casts) * d + (product + 1) * qkv + inner * f + scores;
    let per_layer = 4 * whole + width * rest;
    let ends = 4 * ((embedded + norm) * d + 4 * vocab);
    // What is computed now, and its gradient, beside what is kept.
    let now = 16 * scores.max(f).max(vocab);
    let training = config.train.batch * (m.layers * per_layer + ends + now);
    let evaluating = config.eval.batch * (ends + now);
    [training, evaluating].map(|numbers| (numbers * m.context) as u64)
}

/// What the tape computes to orthogonalise the largest hidden matrix, in twice the CPU engine's room: each step has a
/// result of its own.
fn muon_bytes(config: &RunConfig, vocab: usize) -> u64 {
    if config.train.optimizer != Optimizer::Muon {
        return 0;
    }
    let hidden = model::hidden_matrices(&Layout::of(&config.model, vocab), &config.model);
    2 * muon::Scratch::bytes(muon::Size::of(hidden.iter().map(|h| [h.rows, h.cols]))) as u64
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

    /// Resident memory of whole workers, which a count from the config comes near.
    #[test]
    fn the_memory_of_measured_runs_is_estimated_within_a_half() {
        let of = |(layers, heads, d_model, context): (usize, usize, usize, usize), batch, engine| {
            let mut c = config(layers, heads, d_model, context);
            (c.train.batch, c.run.device, c.run.engine) = (batch, "cpu".into(), engine);
            Cost::of(&c, 65).process_bytes(&c, 65, 1) as f64 / 1e6
        };
        use EngineKind::{Cpu, Tape};
        for (shape, batch, engine, megabytes) in [
            ((1, 2, 16, 16), 4, Cpu, 24.7),
            ((4, 4, 128, 64), 12, Cpu, 72.7),
            ((6, 6, 384, 256), 8, Cpu, 488.2),
            ((4, 4, 128, 64), 12, Tape, 188.1),
            ((4, 4, 128, 64), 48, Tape, 637.8),
            ((6, 6, 384, 256), 8, Tape, 2226.7),
            ((2, 8, 64, 512), 4, Tape, 769.9),
            ((2, 4, 768, 32), 2, Tape, 615.7),
        ] {
            let ratio = of(shape, batch, engine) / megabytes;
            assert!((2.0 / 3.0..1.5).contains(&ratio), "{shape:?}, batch {batch}: {ratio} times {megabytes} MB");
        }
    }

    /// Resident memory of workers whose tape trains 4 layers of width 128, context 64, at a batch of 48.
    #[test]
    fn the_memory_of_switches_is_estimated_within_a_third() {
        type Change = fn(&mut ModelConfig);
        let all: Change = |m| {
            (m.norm, m.position, m.mlp) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu);
            (m.d_ff, m.kv_heads, m.qk_norm, m.bias) = (344, 2, true, false);
        };
        let switches: [(Change, f64); 7] = [
            (|_| (), 637.9),
            (|m| m.norm = Norm::RmsNorm, 618.7),
            (|m| m.position = Position::Rope, 757.8),
            (|m| (m.mlp, m.d_ff) = (Mlp::SwiGlu, 344), 632.0),
            (|m| m.mlp = Mlp::Relu2, 606.8),
            (|m| m.qk_norm = true, 669.0),
            (all, 513.8),
        ];
        for (n, (change, megabytes)) in switches.into_iter().enumerate() {
            let mut c = config(4, 4, 128, 64);
            change(&mut c.model);
            (c.train.batch, c.run.device, c.run.engine) = (48, "cpu".into(), EngineKind::Tape);
            let ratio = Cost::of(&c, 65).process_bytes(&c, 65, 1) as f64 / 1e6 / megabytes;
            assert!((0.7..1.3).contains(&ratio), "switch {n}: {ratio} times {megabytes} MB");
        }
    }

    /// HF's counts of Llama 2 7B, TinyLlama 1.1B (4 heads of keys) and Qwen3 8B (normed queries and keys).
    #[test]
    fn known_models_with_other_switches_have_their_known_sizes() {
        let of = |(layers, heads, kv_heads): (usize, usize, usize), d_model, d_ff, qk_norm, vocab| {
            let mut c = config(layers, heads, d_model, 4096);
            let m = &mut c.model;
            (m.kv_heads, m.d_ff, m.qk_norm, m.bias, m.tie_embeddings) = (kv_heads, d_ff, qk_norm, false, false);
            (m.norm, m.position, m.mlp) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu);
            Cost::of(&c, vocab)
        };
        let llama = of((32, 32, 32), 4096, 11008, false, 32_000);
        assert_eq!((llama.params, llama.params_without_positions), (6_738_415_616, 6_738_415_616));
        assert_eq!(llama.flops_per_token, 46_872_944_640.0);
        assert_eq!(of((22, 32, 4), 2048, 5632, false, 32_000).params, 1_100_048_384);
        assert_eq!(of((36, 32, 8), 4096, 12288, true, 151_936).params, 8_190_735_360);
    }

    #[test]
    fn a_worker_with_more_threads_needs_what_the_engine_allocates_for_them() {
        for engine in [EngineKind::Cpu, EngineKind::Tape] {
            let mut c = config(4, 4, 128, 64);
            (c.train.batch, c.run.device, c.run.engine) = (12, "cpu".into(), engine);
            let [one, four] = [1, 4].map(|threads| Cost::of(&c, 65).process_bytes(&c, 65, threads));
            let [small, large] = [1, 4].map(|threads| Workspace::of(&c, 65, threads).bytes);
            assert!(large > small);
            assert_eq!(four - one, if engine == EngineKind::Tape { 0 } else { large - small });
        }
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
