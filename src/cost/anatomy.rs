//! The arithmetic of one model that `exp inspect` shows: parameters by part, bytes by kind, positions to forward. Nothing of
//! that size is allocated to know it.

use super::{tape_bytes, workspace_bytes};
use crate::spec::{
    RunConfig,
    config::{Dtype, EngineKind, Mlp, ModelConfig, Norm, Position},
};

/// Trained numbers of a model by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The token embedding.
    pub tokens: u64,
    /// The position table; 0 where positions are not learned.
    pub positions: u64,
    /// One layer.
    pub layer: Layer,
    /// How many layers.
    pub layers: u64,
    /// The norm after the last layer.
    pub final_norm: u64,
    /// The head; 0 where it shares the token embedding.
    pub head: u64,
}

/// Trained numbers of one layer by part, biases included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The map to queries.
    pub query: u64,
    /// The map to keys.
    pub key: u64,
    /// The map to values.
    pub value: u64,
    /// The map from what the heads gathered back to the residual stream.
    pub output: u64,
    /// The two or three matrices of the feed-forward sublayer.
    pub feed_forward: u64,
    /// Both norms, and those of queries and keys where there are any.
    pub norms: u64,
}

impl Layer {
    /// The four maps of attention.
    pub fn attention(&self) -> u64 {
        self.query + self.key + self.value + self.output
    }

    /// All of a layer: of GPT-2's 12·D² and some more.
    pub fn total(&self) -> u64 {
        self.attention() + self.feed_forward + self.norms
    }
}

impl Parts {
    /// Of a model over `vocab` tokens.
    pub fn of(m: &ModelConfig, vocab: usize) -> Self {
        let width = m.d_model / m.heads;
        let [d, f, kv, vocab] = [m.d_model, m.d_ff, width * m.kv_heads, vocab].map(|n| n as u64);
        let linear = |inputs: u64, outputs: u64| inputs * outputs + if m.bias { outputs } else { 0 };
        let norm = if m.bias && m.norm == Norm::LayerNorm { 2 * d } else { d };
        let qk_norm = if m.qk_norm { 2 * width as u64 } else { 0 };
        let into_ff = if m.mlp == Mlp::SwiGlu { 2 * linear(d, f) } else { linear(d, f) };
        Self {
            tokens: vocab * d,
            positions: if m.position == Position::Learned { m.context as u64 * d } else { 0 },
            layer: Layer {
                query: linear(d, d),
                key: linear(d, kv),
                value: linear(d, kv),
                output: linear(d, d),
                feed_forward: into_ff + linear(f, d),
                norms: 2 * norm + qk_norm,
            },
            layers: m.layers as u64,
            final_norm: norm,
            head: if m.tie_embeddings { 0 } else { vocab * d },
        }
    }

    /// Token embedding and position table.
    pub fn embedding(&self) -> u64 {
        self.tokens + self.positions
    }

    /// All layers.
    pub fn in_layers(&self) -> u64 {
        self.layers * self.layer.total()
    }

    /// All of the model; a tied head counts once.
    pub fn total(&self) -> u64 {
        self.embedding() + self.in_layers() + self.final_norm + self.head
    }
}

/// Bytes of a model with `train.batch` sequences of `model.context` tokens in `train.dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// The weights as they are trained and stored: f32 whatever the dtype.
    pub weights: u64,
    /// The weights in the dtype, as they could be served.
    pub weights_in_dtype: u64,
    /// One gradient of all weights, in f32.
    pub gradients: u64,
    /// Two moments of all weights, in f32.
    pub optimizer: u64,
    /// The logits of the batch in the dtype: B·T·V.
    pub logits: u64,
    /// Keys and values of one token in all layers, in the dtype.
    pub cache_per_token: u64,
    /// Those of a whole context.
    pub cache_per_sequence: u64,
    /// Those of a batch of whole contexts.
    pub cache: u64,
    /// What the engine holds while training that the config comes to.
    pub engine: Training,
    /// What the tape would hold, where that is another one.
    pub tape: Option<Training>,
}

/// Bytes that an engine holds while it trains, beside the weights, one gradient of them and two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// Which engine.
    pub engine: EngineKind,
    /// Of the tape: the sum of a step's gradients, before and after one was added, in f32. The CPU engine's other gradients
    /// are part of its workspace.
    pub gradient_sums: u64,
    /// Of the tape: about what it keeps of one micro-batch for its backward pass, copies of the logits included, or what
    /// Muon computes, whichever is more. Of the CPU engine: the rest of what it allocates with one thread.
    pub activations: u64,
    /// All of it, with weights, gradient and moments.
    pub total: u64,
}

impl Training {
    fn of(config: &RunConfig, vocab: usize, params: u64) -> Self {
        match workspace_bytes(config, vocab, 1) {
            Some(total) => Self { engine: EngineKind::Cpu, gradient_sums: 0, activations: total - 16 * params, total },
            None => {
                let total = tape_bytes(config, vocab, params);
                let gradient_sums = 8 * params;
                let activations = total - 16 * params - gradient_sums;
                Self { engine: EngineKind::Tape, gradient_sums, activations, total }
            }
        }
    }
}

impl Bytes {
    /// Of a config whose tokenizer has `vocab` distinct tokens.
    pub fn of(config: &RunConfig, vocab: usize) -> Self {
        let m = &config.model;
        let params = Parts::of(m, vocab).total();
        let [batch, context] = [config.train.batch, m.context].map(|n| n as u64);
        let number = match config.train.dtype {
            Dtype::F32 => 4,
            Dtype::Bf16 | Dtype::F16 => 2,
        };
        let cache_per_token = number * 2 * (m.layers * m.kv_heads * (m.d_model / m.heads)) as u64;
        let mut trained = config.clone();
        trained.eval.batch = 1; // what a training step holds is asked, not what an evaluation does
        let engine = Training::of(&trained, vocab, params);
        trained.run.engine = EngineKind::Tape;
        Self {
            weights: 4 * params,
            weights_in_dtype: number * params,
            gradients: 4 * params,
            optimizer: 8 * params,
            logits: number * batch * context * vocab as u64,
            cache_per_token,
            cache_per_sequence: cache_per_token * context,
            cache: cache_per_token * context * batch,
            engine,
            tape: (engine.engine != EngineKind::Tape).then(|| Training::of(&trained, vocab, params)),
        }
    }
}

/// Positions to forward to generate some tokens after a prompt.
///
/// Counted as every new token is read by the model too, the last one included. With a cache each position is forwarded
/// once. Without, each new token means a pass over all up to it: P + 1, P + 2, … P + M positions, M·P + M·(M + 1)/2
/// together. So 500 tokens after 500 take 1,000 positions with a cache and 375,250 without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// P + M.
    pub with_cache: u64,
    /// M·P + M·(M + 1)/2.
    pub without_cache: u64,
}

impl Passes {
    /// For `new` tokens after a prompt of `prompt`.
    pub fn of(prompt: u64, new: u64) -> Self {
        let without = u128::from(new) * u128::from(prompt) + u128::from(new) * (u128::from(new) + 1) / 2;
        Self { with_cache: prompt + new, without_cache: u64::try_from(without).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cost::Cost, spec::config::Preset};

    fn config(preset: Preset) -> RunConfig {
        RunConfig { model: preset.model(), ..RunConfig::default() }
    }

    #[test]
    fn gpt2_small_has_its_known_parts() {
        let parts = Parts::of(&Preset::Gpt2.model(), Preset::Gpt2.vocab());
        assert_eq!((parts.total(), parts.layer.total(), parts.layers), (124_439_808, 7_087_872, 12));
        let share = |part: u64, of: u64| (1000.0 * part as f64 / of as f64).round() / 10.0;
        assert_eq!(share(parts.layer.feed_forward, parts.layer.total()), 66.6);
        assert_eq!(share(parts.layer.attention(), parts.layer.total()), 33.3);
        assert_eq!(share(parts.embedding(), parts.total()), 31.6);
        assert_eq!((parts.tokens, parts.positions, parts.final_norm, parts.head), (38_597_376, 786_432, 1536, 0));
    }

    /// As HF counts them.
    #[test]
    fn presets_have_their_known_sizes() {
        let sizes = [
            (Preset::Gpt2, 124_439_808),
            (Preset::Gpt2Medium, 354_823_168),
            (Preset::Gpt2Large, 774_030_080),
            (Preset::Gpt2Xl, 1_557_611_200),
            (Preset::Llama, 8_030_261_248),
        ];
        for (preset, params) in sizes {
            assert_eq!(Cost::of(&config(preset), preset.vocab()).params, params, "{}", preset.word());
        }
    }

    #[test]
    fn logits_and_cache_of_llama_are_the_known_bytes() {
        let mut c = config(Preset::Llama);
        (c.train.batch, c.model.context, c.train.dtype) = (4, 2048, Dtype::Bf16);
        let bytes = Bytes::of(&c, 128_256);
        assert_eq!((bytes.logits, bytes.cache_per_token), (2_101_346_304, 131_072));
        assert_eq!((bytes.cache_per_sequence, bytes.cache), (131_072 * 2048, 131_072 * 2048 * 4));
        assert_eq!((bytes.weights, bytes.weights_in_dtype), (4 * 8_030_261_248, 2 * 8_030_261_248));
        assert_eq!((bytes.engine.engine, bytes.tape), (EngineKind::Tape, None), "the CPU engine knows f32 alone");
        c.train.dtype = Dtype::F32;
        assert_eq!(Bytes::of(&c, 128_256).cache_per_token, 2 * 131_072);
    }

    #[test]
    fn what_an_engine_holds_is_the_sum_of_its_parts() {
        let mut c = config(Preset::Gpt2);
        c.run.device = "cpu".into();
        let bytes = Bytes::of(&c, 50_257);
        let tape = bytes.tape.unwrap();
        for part in [bytes.engine, tape] {
            let sum = bytes.weights + bytes.gradients + bytes.optimizer + part.gradient_sums + part.activations;
            assert_eq!(sum, part.total, "{part:?}");
        }
        assert_eq!((bytes.engine.engine, tape.engine), (EngineKind::Cpu, EngineKind::Tape));
        assert_eq!(bytes.engine.total, Cost::of(&c, 50_257).bytes);
        assert!(tape.activations > 10 * bytes.engine.activations, "{bytes:?}");
        c.run.engine = EngineKind::Tape;
        assert_eq!((Bytes::of(&c, 50_257).engine, Bytes::of(&c, 50_257).tape), (tape, None));
    }

    #[test]
    fn positions_are_counted_as_the_sum_of_the_passes() {
        assert_eq!(Passes::of(500, 500), Passes { with_cache: 1000, without_cache: 375_250 });
        let by_hand = (1..=7u64).map(|k| 3 + k).sum();
        assert_eq!(Passes::of(3, 7), Passes { with_cache: 10, without_cache: by_hand });
        assert_eq!(Passes::of(3, 0), Passes { with_cache: 3, without_cache: 0 });
    }
}
