//! One point of a sweep, fully resolved: no default left open, every leaf a scalar. Ranges, defaults and docs of the
//! leaves stand in the leaf table ([`super::leaf`]), which is what the spec, the schema and `--set` go by.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::leaf;

/// Everything that decides what one run does. A leaf that a stored config lacks, since it is older than the leaf, has
/// its default: what the run did without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// The network.
    pub model: ModelConfig,
    /// What it is trained on.
    pub data: DataConfig,
    /// How it is trained.
    pub train: TrainConfig,
    /// How it is evaluated.
    pub eval: EvalConfig,
    /// What is kept of it.
    pub checkpoint: CheckpointConfig,
    /// What it writes while it is trained.
    pub sample: SampleConfig,
    /// Where and with what it is computed.
    pub run: RunSettings,
}

/// The network's shape and switches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ModelConfig {
    /// Whose settings filled those that the spec leaves out. The others say what the model is; this is but a name.
    pub preset: Option<Preset>,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub d_model: usize,
    pub context: usize,
    pub d_ff: usize,
    pub norm: Norm,
    pub norm_eps: f64,
    pub position: Position,
    pub rope_theta: f64,
    pub qk_norm: bool,
    pub mlp: Mlp,
    pub bias: bool,
    pub tie_embeddings: bool,
    pub dropout: f64,
}

/// What the network is trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct DataConfig {
    pub corpus: CorpusKind,
    pub path: Option<String>,
    pub tokenizer: TokenizerKind,
    pub tokenizer_file: Option<String>,
    pub val_fraction: f64,
    pub corpus_seed: u64,
    pub corpus_chars: u64,
}

/// How the network is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct TrainConfig {
    pub steps: u64,
    pub batch: usize,
    pub grad_accum: usize,
    pub lr: f64,
    pub min_lr: f64,
    pub schedule: Schedule,
    pub warmup_steps: u64,
    pub decay_steps: u64,
    pub optimizer: Optimizer,
    pub momentum: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub grad_clip: f64,
    pub seed: u64,
    pub dtype: Dtype,
    pub on_nan: OnNan,
}

/// How the network is evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct EvalConfig {
    pub every: u64,
    pub batches: usize,
    pub batch: usize,
}

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct CheckpointConfig {
    pub every: u64,
    pub keep_last: usize,
    pub keep_best: usize,
    /// Bytes that the checkpoints of all runs of the experiment may take.
    #[serde(default)]
    pub max_bytes: Option<u64>,
}

/// What a run's model writes while it is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SampleConfig {
    pub every: Option<u64>,
    pub prompt: Option<String>,
    pub tokens: usize,
    pub temperature: f64,
}

/// Where and with what a run is computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct RunSettings {
    pub device: String,
    pub engine: EngineKind,
    pub retries: u32,
    pub timeout: Option<f64>,
    pub init_from: Option<String>,
}

/// Declares a unit enum with its words in YAML and JSON.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word that a spec may write here.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word that a spec writes.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

words!(/** A known model, whose settings stand in `spec/preset.rs`. */ Preset {
    /** GPT-2 of 124 million parameters (Radford et al., 2019). */ Gpt2 = "gpt2",
    /** GPT-2 of 355 million. */ Gpt2Medium = "gpt2-medium",
    /** GPT-2 of 774 million. */ Gpt2Large = "gpt2-large",
    /** GPT-2 of 1.6 billion. */ Gpt2Xl = "gpt2-xl",
    /** Llama 3 8B (Grattafiori et al., 2024). */ Llama = "llama",
});
words!(/** How the residual stream is normalised before each sublayer. */ Norm {
    /** Mean and variance, learned scale, bias where `model.bias` (Ba et al., 2016). */ LayerNorm = "layernorm",
    /** The root of the mean square, learned scale, never a bias (Zhang and Sennrich, 2019). */ RmsNorm = "rmsnorm",
});
words!(/** How positions enter. */ Position {
    /** A trained table that is added to the token embedding. */ Learned = "learned",
    /** Queries and keys are rotated, halves of a head as pairs, as HF's Llama does (Su et al., 2021). */ Rope = "rope",
    /** Fixed sines and cosines, added to √`d_model` times the token embedding (Vaswani et al., 2017). */
    Sinusoidal = "sinusoidal",
    /** Not at all: only the causal mask tells positions apart. */ None = "none",
});
words!(/** The feed-forward sublayer. */ Mlp {
    /** Two matrices around the exact GELU, x·Φ(x). */ Gelu = "gelu",
    /** Two matrices around GELU by tanh, x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), as in the first GPT-2. */
    GeluTanh = "gelu_tanh",
    /** Two matrices around max(x, 0)² (So et al., 2021). */ Relu2 = "relu2",
    /** Three matrices: silu(gate)·up between them, where silu(x) = x·σ(x) (Shazeer, 2020). */ SwiGlu = "swiglu",
});
words!(/** Where the text comes from. */ CorpusKind {
    /** Generated play-like text with a known entropy; needs no file. */ Playbook = "playbook",
    /** Tiny Shakespeare. */ Shakespeare = "shakespeare",
    /** A UTF-8 file, or a folder of them. */ Text = "text",
    /** Token ids that somebody has prepared: nanoGPT's `train.bin` and `val.bin`. */ Tokens = "tokens",
});
words!(/** What a token is. */ TokenizerKind {
    /** Each distinct character of the corpus, in code-point order. */ Char = "char",
    /** Each byte of the UTF-8 text; the vocabulary has 256. */ Byte = "byte",
    /** GPT-2's byte-level BPE; the vocabulary has 50,257. */ Gpt2 = "gpt2",
    /** What a `tokenizer.json` of Hugging Face's tokenizers says. */ File = "file",
    /** The number that stands there, for what is no language; between numbers is white space. */ Ids = "ids",
});
words!(/** How the learning rate falls after the warm-up. */ Schedule {
    /** Half a cosine from `lr` to `min_lr`. */ Cosine = "cosine",
    /** A straight line from `lr` to `min_lr`. */ Linear = "linear",
    /** It does not fall. */ Constant = "constant",
});
words!(/** What turns gradients into updates. */ Optimizer {
    /** Adam with decoupled weight decay (Loshchilov and Hutter, 2019). */ AdamW = "adamw",
    /** Orthogonalised momentum for the matrices of blocks (Jordan et al., 2024), AdamW for the rest. */ Muon = "muon",
});
words!(/** What activations are computed in; weights and moments stay f32. */ Dtype {
    /** 32-bit floats. */ F32 = "f32",
    /** bfloat16, on GPUs. */ Bf16 = "bf16",
    /** IEEE half floats, on GPUs. */ F16 = "f16",
});
words!(/** What a loss that is not finite does. */ OnNan {
    /** The run fails and says at which step. */ Stop = "stop",
    /** Training goes on. */ Continue = "continue",
});
words!(/** What computes a step. */ EngineKind {
    /** The fastest engine that knows the settings and the device. */ Auto = "auto",
    /** Explicit layers over a preallocated workspace; CPU only. */ Cpu = "cpu",
    /** candle's autograd; any device. */ Tape = "tape",
});

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            preset: None,
            layers: 4,
            heads: 4,
            kv_heads: 4,
            d_model: 128,
            context: 64,
            d_ff: 512,
            norm: Norm::LayerNorm,
            norm_eps: 1e-5,
            position: Position::Learned,
            rope_theta: 10_000.0,
            qk_norm: false,
            mlp: Mlp::Gelu,
            bias: true,
            tie_embeddings: true,
            dropout: 0.0,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            corpus: CorpusKind::Playbook,
            path: None,
            tokenizer: TokenizerKind::Char,
            tokenizer_file: None,
            val_fraction: 0.1,
            corpus_seed: 1,
            corpus_chars: 1_200_000,
        }
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 500,
            batch: 12,
            grad_accum: 1,
            lr: 1e-3,
            min_lr: 1e-4,
            schedule: Schedule::Cosine,
            warmup_steps: 50,
            decay_steps: 500,
            optimizer: Optimizer::AdamW,
            momentum: 0.95,
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
            weight_decay: 0.1,
            grad_clip: 1.0,
            seed: 1,
            dtype: Dtype::F32,
            on_nan: OnNan::Stop,
        }
    }
}

impl Default for EvalConfig {
    fn default() -> Self {
        Self { every: 100, batches: 20, batch: 12 }
    }
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: 100, keep_last: 2, keep_best: 1, max_bytes: None }
    }
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self { every: None, prompt: None, tokens: 200, temperature: 1.0 }
    }
}

impl Default for RunSettings {
    fn default() -> Self {
        Self { device: "auto".into(), engine: EngineKind::Auto, retries: 1, timeout: None, init_from: None }
    }
}

impl SampleConfig {
    /// Whether the model is to write after `step` of `steps` updates: after multiples of `every` and after the last; after
    /// the last alone where there is a prompt and no `every`.
    pub fn is_due(&self, step: u64, steps: u64) -> bool {
        let is_last = step == steps && (self.every.is_some() || self.prompt.is_some());
        step > 0 && (is_last || self.every.is_some_and(|every| step.is_multiple_of(every)))
    }
}

impl RunConfig {
    /// Every leaf by its dotted path, sorted by path; an unset optional leaf is `null`.
    pub fn leaves(&self) -> serde_json::Map<String, Value> {
        leaf::sorted().iter().map(|leaf| (leaf.path.to_owned(), leaf.get(self))).collect()
    }

    /// What `run.engine` comes to on the config's device: `auto` is the CPU engine where that has layers for everything.
    pub fn engine(&self) -> EngineKind {
        match self.run.engine {
            EngineKind::Auto if self.run.device == "cpu" && self.beyond_cpu_engine().is_none() => EngineKind::Cpu,
            EngineKind::Auto => EngineKind::Tape,
            named => named,
        }
    }

    /// The first leaf whose value the CPU engine has no layers for.
    pub fn beyond_cpu_engine(&self) -> Option<&'static str> {
        (self.train.dtype != Dtype::F32).then_some("train.dtype")
    }

    /// Tokens per optimizer update.
    pub fn tokens_per_step(&self) -> u64 {
        (self.train.batch * self.train.grad_accum * self.model.context) as u64
    }
}
