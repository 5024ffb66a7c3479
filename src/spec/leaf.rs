//! The one table of everything that a spec can set. Typing, ranges, defaults, resolution, the schema, `--set`, nearest
//! names and the identity of a run go by it; adding a leaf means a field of [`RunConfig`] and a line here.
//!
//! `model.preset` fills other leaves: with one, the defaults of `model` are that model's ([`Leaf::left_out`]). A run's
//! identity knows nothing of it ([`Leaf::default_in`]): the same leaves are the same run, however they came about.

use std::{
    ops::Bound::{Excluded, Included, Unbounded},
    sync::LazyLock,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    RunConfig,
    config::{CorpusKind, Dtype, EngineKind, Mlp, Norm, OnNan, Optimizer, Position, Preset, Schedule, TokenizerKind},
    kind::{EXACT, Kind},
};

/// The groups of leaves, in the order of [`RunConfig`].
pub const GROUPS: [&str; 7] = ["model", "data", "train", "eval", "checkpoint", "sample", "run"];

/// The groups that say what is trained. In them a last word is unique, and names that leaf wherever it stands alone:
/// `batch` is `train.batch`, not `eval.batch`.
pub const FIRST_GROUPS: [&str; 3] = ["model", "data", "train"];

/// One thing that a spec can set.
#[derive(Debug)]
pub struct Leaf {
    /// `train.lr`.
    pub path: &'static str,
    /// Its type and range.
    pub kind: Kind,
    /// Its default in words: `4`, `lr / 10`, `none`.
    pub default: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Whether it counts for a run's id.
    pub counts: bool,
    /// What others call it (nanoGPT, Hugging Face, papers): for hints alone.
    pub aka: &'static [&'static str],
    /// The leaves that its default follows from, none of which is derived itself.
    follows: &'static [&'static str],
    /// That default.
    derive: Option<fn(&RunConfig) -> Value>,
    /// Whether it has no part in what a run computes.
    idle: fn(&RunConfig) -> bool,
    get: fn(&RunConfig) -> Value,
    set: fn(&mut RunConfig, &Value) -> serde_json::Result<()>,
    is_equal: fn(&RunConfig, &RunConfig) -> bool,
}

impl Leaf {
    /// `train` of `train.lr`.
    pub fn group(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(group, _)| group)
    }

    /// `lr` of `train.lr`.
    pub fn word(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, word)| word)
    }

    /// Its value in a config; `null` where an optional leaf is unset.
    pub fn get(&self, config: &RunConfig) -> Value {
        (self.get)(config)
    }

    /// Whether its default follows from other leaves.
    pub fn is_derived(&self) -> bool {
        self.derive.is_some()
    }

    /// Whether a sweep over it makes different runs.
    pub fn can_be_axis(&self) -> bool {
        self.counts || self.path == PRESET
    }

    /// The default that it has beside a config's other leaves, whatever their preset. `fixed` is `RunConfig::default()`.
    pub fn default_in(&self, config: &RunConfig, fixed: &RunConfig) -> Value {
        match self.derive {
            Some(derive) => derive(config),
            None => self.get(fixed),
        }
    }

    /// Its value in a config, where that is not its default there.
    pub(super) fn unusual(&self, config: &RunConfig) -> Option<Value> {
        if self.derive.is_none() && (self.is_equal)(config, &FIXED) {
            return None; // of most leaves, and without a value being made
        }
        Some(self.get(config)).filter(|value| *value != self.default_in(config, &FIXED))
    }

    /// What a spec that leaves it out gets beside a config's other leaves: what their preset has, or else the default. A
    /// leaf that follows from others is the preset's where these are the preset's too.
    pub fn left_out(&self, config: &RunConfig) -> Value {
        let preset = config.model.preset.filter(|_| self.group() == "model" && self.path != PRESET);
        let preset = preset.map(|preset| RunConfig { model: preset.model(), ..FIXED.clone() });
        let is_whole = |preset: &RunConfig| {
            let mut others = self.follows.iter().filter_map(|path| find(path));
            others.all(|other| other.get(config) == other.get(preset))
        };
        match preset.filter(is_whole) {
            Some(preset) => self.get(&preset),
            None => self.default_in(config, &FIXED),
        }
    }

    /// Puts a value of its kind into a config.
    pub(super) fn set(&self, config: &mut RunConfig, value: &Value) {
        let fits = (self.set)(config, value).is_ok();
        assert!(fits, "{} takes what its kind reads", self.path); // by the table; a test goes through it
    }

    const fn aka(mut self, names: &'static [&'static str]) -> Self {
        self.aka = names;
        self
    }

    const fn derived(mut self, follows: &'static [&'static str], derive: fn(&RunConfig) -> Value) -> Self {
        self.follows = follows;
        self.derive = Some(derive);
        self
    }

    /// It has a part only where this is not so; elsewhere it counts as left out, or runs that compute the same would be two.
    const fn idle(mut self, idle: fn(&RunConfig) -> bool) -> Self {
        self.idle = idle;
        self
    }

    /// The leaves that its default follows from.
    pub(super) fn follows(&self) -> &'static [&'static str] {
        self.follows
    }

    /// It does not change what a run computes.
    const fn aside(mut self) -> Self {
        self.counts = false;
        self
    }
}

/// All leaves, in the order of [`RunConfig`].
pub fn all() -> &'static [Leaf] {
    LEAVES
}

/// The leaves by path: the order in which they are shown and kept.
pub fn sorted() -> &'static [&'static Leaf] {
    static SORTED: LazyLock<Vec<&Leaf>> = LazyLock::new(|| {
        let mut leaves: Vec<&Leaf> = LEAVES.iter().collect();
        leaves.sort_by_key(|leaf| leaf.path);
        leaves
    });
    &SORTED
}

/// The leaf of a full path, or of a last word by the rule of [`FIRST_GROUPS`].
pub fn find(name: &str) -> Option<&'static Leaf> {
    lookup(name).ok().and_then(|index| LEAVES.get(index))
}

/// How many indices [`at`] has: of the leaves, and of [`BUDGETS`] behind them.
pub(super) const COUNT: usize = LEAVES.len() + BUDGETS.len();

/// What has an index: a leaf, or a budget.
pub(super) fn at(index: usize) -> &'static Leaf {
    LEAVES.get(index).unwrap_or_else(|| &BUDGETS[index - LEAVES.len()])
}

/// The index of [`find`]'s leaf in the table, or of a budget. Errors with the candidates: none, or those that share the
/// word.
pub(super) fn lookup(name: &str) -> Result<usize, Vec<&'static Leaf>> {
    if let Some(index) = (0..COUNT).find(|&index| at(index).path == name) {
        return Ok(index);
    }
    let named = |index: &usize| at(*index).word() == name;
    let (first, rest): (Vec<usize>, Vec<usize>) =
        (0..COUNT).filter(named).partition(|&index| FIRST_GROUPS.contains(&at(index).group()));
    match (first.as_slice(), rest.as_slice()) {
        ([one], _) | ([], [one]) => Ok(*one),
        _ => Err(rest.into_iter().map(at).collect()),
    }
}

/// What one would write to get a config again: `path=value` of each leaf that decides its result and has not its default.
pub fn settings(config: &RunConfig) -> Vec<String> {
    let fixed = RunConfig::default();
    let counting = LEAVES.iter().filter(|leaf| leaf.counts);
    let written = counting.map(|leaf| (leaf, leaf.get(config))).filter(|(_, value)| !value.is_null());
    let unusual = written.filter(|(leaf, value)| *value != leaf.default_in(config, &fixed));
    unusual.map(|(leaf, value)| format!("{}={value}", leaf.path)).collect()
}

/// A config from what is set, in any order; every other leaf has what its preset has, or its default.
pub(super) fn resolve<'a>(settings: impl Iterator<Item = (usize, &'a Value)>) -> RunConfig {
    let mut config = FIXED.clone();
    let mut is_set = [false; LEAVES.len()];
    for (index, value) in settings.filter(|(index, value)| *index < LEAVES.len() && !value.is_null()) {
        LEAVES[index].set(&mut config, value);
        is_set[index] = true;
    }
    let has_preset = config.model.preset.is_some();
    let mut fill = |is_due: &dyn Fn(&Leaf) -> bool| {
        for (leaf, _) in LEAVES.iter().zip(is_set).filter(|(leaf, is_set)| !is_set && is_due(leaf)) {
            let value = leaf.left_out(&config);
            leaf.set(&mut config, &value);
        }
    };
    fill(&|leaf| has_preset && !leaf.is_derived() && leaf.group() == "model");
    fill(&Leaf::is_derived); // now that what they follow from is there
    for leaf in LEAVES.iter().filter(|leaf| (leaf.idle)(&config)).collect::<Vec<_>>() {
        leaf.set(&mut config, &leaf.get(&FIXED));
    }
    config
}

/// `RunConfig::default()`, made once: a sweep asks for it at every point.
static FIXED: LazyLock<RunConfig> = LazyLock::new(RunConfig::default);

fn json(x: &impl Serialize) -> Value {
    serde_json::to_value(x).unwrap_or_default() // numbers, words and options of them always have a JSON form
}

fn assign<'a, T: Deserialize<'a>>(slot: &mut T, value: &'a Value) -> serde_json::Result<()> {
    *slot = T::deserialize(value)?;
    Ok(())
}

/// Three matrices of SwiGLU then have about as many numbers as two of the others.
fn d_ff(c: &RunConfig) -> usize {
    match c.model.mlp {
        Mlp::SwiGlu => (8 * c.model.d_model).div_ceil(3).next_multiple_of(8),
        Mlp::Gelu | Mlp::GeluTanh | Mlp::Relu2 => 4 * c.model.d_model,
    }
}

/// A tenth, in decimal: 3e-4 gives 3e-5, where the division gives 2.9999999999999997e-5, which nobody would write.
fn tenth(x: f64) -> f64 {
    let text = format!("{x:e}");
    let shifted = text.split_once('e').and_then(|(digits, exponent)| {
        let exponent: i32 = exponent.parse().ok()?;
        format!("{digits}e{}", exponent - 1).parse().ok()
    });
    shifted.unwrap_or(x / 10.0)
}

macro_rules! leaf {
    ($group:ident . $word:ident, $kind:expr, $default:literal, $doc:literal) => {
        Leaf {
            path: concat!(stringify!($group), ".", stringify!($word)),
            kind: $kind,
            default: $default,
            doc: $doc,
            counts: true,
            aka: &[],
            follows: &[],
            derive: None,
            idle: |_| false,
            get: |config| json(&config.$group.$word),
            set: |config, value| assign(&mut config.$group.$word, value),
            is_equal: |a, b| a.$group.$word == b.$group.$word,
        }
    };
}

/// A size of which nobody needs a million.
const SIZE: Kind = Kind::Integer { min: 1, max: 1_000_000 };
const AT_LEAST_0: Kind = Kind::Integer { min: 0, max: EXACT };
const AT_LEAST_1: Kind = Kind::Integer { min: 1, max: EXACT };
const ABOVE_0: Kind = Kind::Number(Excluded(0.0), Unbounded);
const NOT_NEGATIVE: Kind = Kind::Number(Included(0.0), Unbounded);
const FRACTION: Kind = Kind::Number(Included(0.0), Excluded(1.0));

/// What may be set in the place of `train.steps`, which follows from it for each point. No leaves: a config has but the
/// steps, so that a run is the same whichever it was asked for by.
pub(super) static BUDGETS: [Leaf; 2] = [
    budget(
        "train.tokens",
        AT_LEAST_1,
        "Tokens to train on, for `steps`: tokens / (batch * grad_accum * context), rounded up.",
    )
    .aka(&["max_tokens", "token_budget", "train_tokens"]),
    budget(
        "train.flops",
        ABOVE_0,
        "Floating-point operations to spend, for `steps`: as many as reach them, forward and backward.",
    )
    .aka(&["compute", "compute_budget", "max_flops"]),
];

const fn budget(path: &'static str, kind: Kind, doc: &'static str) -> Leaf {
    Leaf {
        path,
        kind,
        default: "none",
        doc,
        counts: true,
        aka: &[],
        follows: &[],
        derive: None,
        idle: |_| false,
        get: |_| Value::Null,
        set: |_, _| Ok(()),
        is_equal: |_, _| true,
    }
}

/// The leaf that fills others.
pub const PRESET: &str = "model.preset";

#[rustfmt::skip]
static LEAVES: &[Leaf] = &[
    leaf!(model.preset, Kind::Words(Preset::WORDS), "none", "A known model, whose settings stand for those of `model` that are left out.").aside()
        .aka(&["model_type", "model_name", "architecture", "arch"]),
    leaf!(model.layers, SIZE, "4", "Transformer blocks.")
        .aka(&["n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth"]),
    leaf!(model.heads, SIZE, "4", "Attention heads of a block; divides `d_model`.")
        .aka(&["n_head", "n_heads", "num_heads", "num_attention_heads"]),
    leaf!(model.kv_heads, SIZE, "heads", "Heads of keys and values, shared by groups of heads; divides `heads`.")
        .derived(&["model.heads"], |c| c.model.heads.into())
        .aka(&["n_kv_head", "n_kv_heads", "num_kv_heads", "num_key_value_heads"]),
    leaf!(model.d_model, SIZE, "128", "Width of the residual stream.")
        .aka(&["n_embd", "hidden_size", "hidden_dim", "embed_dim", "dim", "width"]),
    leaf!(model.context, SIZE, "64", "Tokens that the model sees at once.")
        .aka(&["block_size", "context_length", "seq_len", "seq_length", "sequence_length", "max_seq_len", "n_ctx", "n_positions"]),
    leaf!(model.d_ff, SIZE, "4 * d_model", "Width of the feed-forward sublayer; with `mlp: swiglu` 8/3 * `d_model` by default, up to a multiple of 8.")
        .derived(&["model.d_model", "model.mlp"], |c| d_ff(c).into())
        .aka(&["n_inner", "intermediate_size", "ffn_dim", "mlp_dim"]),
    leaf!(model.norm, Kind::Words(Norm::WORDS), "layernorm", "How the residual stream is normalised before each sublayer.")
        .aka(&["norm_type", "normalization"]),
    leaf!(model.norm_eps, ABOVE_0, "0.00001", "What norms add to the variance or the mean square, so that they never divide by 0.")
        .aka(&["layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps", "ln_eps"]),
    leaf!(model.position, Kind::Words(Position::WORDS), "learned", "How positions enter.")
        .aka(&["positions", "pos_emb", "position_embedding", "positional_encoding"]),
    leaf!(model.rope_theta, ABOVE_0, "10000.0", "The base of RoPE's wavelengths, for `position: rope`.")
        .aka(&["rope_base", "rotary_base", "rope_freq_base"]),
    leaf!(model.qk_norm, Kind::Bool, "false", "Whether each head's queries and keys pass an RMSNorm before they meet.")
        .aka(&["qk_layernorm", "use_qk_norm", "qk_rmsnorm"]),
    leaf!(model.mlp, Kind::Words(Mlp::WORDS), "gelu", "The feed-forward sublayer.")
        .aka(&["activation", "activation_function", "act"]),
    leaf!(model.bias, Kind::Bool, "true", "Whether linear layers and norms have biases.")
        .aka(&["use_bias"]),
    leaf!(model.tie_embeddings, Kind::Bool, "true", "Whether the head shares the token embedding's weights.")
        .aka(&["tie_weights", "tie_word_embeddings", "tied"]),
    leaf!(model.dropout, FRACTION, "0.0", "Probability to drop an activation while training.")
        .aka(&["dropout_rate", "p_drop", "resid_pdrop"]),

    leaf!(data.corpus, Kind::Words(CorpusKind::WORDS), "playbook", "The text: generated, Tiny Shakespeare, a file of yours, or tokens that were prepared.")
        .aka(&["dataset", "text"]),
    leaf!(data.path, Kind::Path, "none", "The file or folder of the text, or the folder of the tokens, from the folder of the file that names it.")
        .aka(&["file", "data_dir", "data_path", "corpus_path"]),
    leaf!(data.tokenizer, Kind::Words(TokenizerKind::WORDS), "char", "What a token is: a character, a byte, GPT-2's BPE, what a file says, or a number.")
        .aka(&["encoding", "tokeniser"]),
    leaf!(data.tokenizer_file, Kind::Path, "none", "The `tokenizer.json` of `tokenizer: file`, from the folder of the file that names it.")
        .aka(&["tokenizer_path", "vocab_file"]),
    leaf!(data.val_fraction, Kind::Number(Excluded(0.0), Included(0.5)), "0.1", "The share of the text, at its end, that validates.")
        .idle(|c| c.data.corpus == CorpusKind::Tokens)
        .aka(&["val_split", "validation_split", "val_ratio"]),
    leaf!(data.corpus_seed, AT_LEAST_0, "1", "The seed of a generated text; never follows `train.seed`."),
    leaf!(data.corpus_chars, Kind::Integer { min: 1, max: 1_000_000_000 }, "1200000", "How many characters of text are generated, at least."),

    leaf!(train.steps, Kind::Integer { min: 0, max: 1_000_000_000_000 }, "500", "Optimizer updates; 0 evaluates only.")
        .aka(&["max_iters", "max_steps", "num_steps", "train_steps", "iterations", "iters"]),
    leaf!(train.batch, SIZE, "12", "Windows of one micro-batch.")
        .aka(&["batch_size", "micro_batch", "micro_batch_size"]),
    leaf!(train.grad_accum, SIZE, "1", "Micro-batches of one update.")
        .aka(&["gradient_accumulation_steps", "grad_accum_steps", "accumulation", "accumulate"]),
    leaf!(train.lr, ABOVE_0, "0.001", "The highest learning rate, reached after the warm-up.")
        .aka(&["learning_rate", "max_lr"]),
    leaf!(train.min_lr, NOT_NEGATIVE, "lr / 10", "The learning rate that the schedule falls to.")
        .derived(&["train.lr"], |c| tenth(c.train.lr).into())
        .aka(&["lr_min", "final_lr", "end_lr"]),
    leaf!(train.schedule, Kind::Words(Schedule::WORDS), "cosine", "How the learning rate falls after the warm-up.")
        .aka(&["lr_schedule", "scheduler", "lr_scheduler"]),
    leaf!(train.warmup_steps, AT_LEAST_0, "min(100, steps / 10)", "Updates over which the learning rate rises.")
        .derived(&["train.steps"], |c| (c.train.steps / 10).min(100).into())
        .aka(&["warmup", "warmup_iters", "warm_up"]),
    leaf!(train.decay_steps, AT_LEAST_1, "steps", "The update at which the learning rate has fallen to `min_lr`.")
        .derived(&["train.steps"], |c| c.train.steps.max(1).into())
        .aka(&["lr_decay_iters", "lr_decay_steps", "decay_iters"]),
    leaf!(train.optimizer, Kind::Words(Optimizer::WORDS), "adamw", "What turns gradients into updates; `muon` those of the matrices in blocks, and AdamW the rest.")
        .aka(&["optim"]),
    leaf!(train.momentum, FRACTION, "0.95", "Muon's decay of the momentum.")
        .idle(|c| c.train.optimizer != Optimizer::Muon)
        .aka(&["mu", "muon_momentum"]),
    leaf!(train.beta1, FRACTION, "0.9", "Adam's decay of the first moment.")
        .aka(&["adam_beta1"]),
    leaf!(train.beta2, FRACTION, "0.99", "Adam's decay of the second moment.")
        .aka(&["adam_beta2"]),
    leaf!(train.eps, ABOVE_0, "1e-8", "Adam's epsilon.")
        .aka(&["epsilon", "adam_eps", "adam_epsilon"]),
    leaf!(train.weight_decay, NOT_NEGATIVE, "0.1", "Decoupled weight decay of tensors with two and more dimensions.")
        .aka(&["wd"]),
    leaf!(train.grad_clip, NOT_NEGATIVE, "1.0", "The global norm that gradients are clipped to; 0 clips nothing.")
        .aka(&["clip", "clip_grad", "max_grad_norm", "gradient_clip"]),
    leaf!(train.seed, AT_LEAST_0, "1", "The seed of weights, batches and dropout.")
        .aka(&["random_seed", "rng_seed"]),
    leaf!(train.dtype, Kind::Words(Dtype::WORDS), "f32", "What activations are computed in.")
        .aka(&["precision", "amp"]),
    leaf!(train.on_nan, Kind::Words(OnNan::WORDS), "stop", "What a loss that is not finite does."),

    leaf!(eval.every, AT_LEAST_1, "100", "Updates between evaluations.")
        .aka(&["eval_interval", "eval_every", "eval_steps"]),
    leaf!(eval.batches, SIZE, "20", "Batches of an evaluation, for each split.")
        .aka(&["eval_iters", "eval_batches"]),
    leaf!(eval.batch, SIZE, "12", "Windows of one evaluation batch, whatever `train.batch` is.")
        .aka(&["eval_batch", "eval_batch_size"]),

    leaf!(checkpoint.every, AT_LEAST_1, "eval.every", "Updates between checkpoints.").aside()
        .derived(&["eval.every"], |c| c.eval.every.into())
        .aka(&["save_every", "save_interval", "save_steps", "checkpoint_every"]),
    leaf!(checkpoint.keep_last, SIZE, "2", "How many of the latest checkpoints are kept.").aside()
        .aka(&["save_total_limit"]),
    leaf!(checkpoint.keep_best, Kind::Integer { min: 0, max: 1_000_000 }, "1", "How many of the checkpoints with the lowest validation loss are kept.").aside(),
    leaf!(checkpoint.max_bytes, AT_LEAST_1, "none", "Bytes that the checkpoints of all runs of the experiment may take together; each run has a part of it.").aside()
        .aka(&["max_checkpoint_bytes"]),

    leaf!(sample.every, AT_LEAST_1, "none", "Updates between texts that the model writes; the last update is followed by one too.").aside()
        .aka(&["sample_every", "sample_interval", "generate_every"]),
    leaf!(sample.prompt, Kind::Text, "none", "What these texts go on from; a line's end where nothing is said.").aside(),
    leaf!(sample.tokens, Kind::Integer { min: 1, max: 100_000 }, "200", "Tokens of such a text.").aside()
        .aka(&["max_new_tokens", "sample_tokens"]),
    leaf!(sample.temperature, NOT_NEGATIVE, "1.0", "What logits are divided by; 0 takes the likeliest token.").aside(),

    leaf!(run.device, Kind::Device, "auto", "Where it is computed; `auto` is a GPU where there is one.")
        .aka(&["accelerator"]),
    leaf!(run.engine, Kind::Words(EngineKind::WORDS), "auto", "What computes a step; `auto` is the fastest that knows the settings.").aside()
        .aka(&["backend"]),
    leaf!(run.retries, Kind::Integer { min: 0, max: 1000 }, "1", "How often a run whose worker died is started again.").aside(),
    leaf!(run.timeout, Kind::Number(Excluded(0.0), Included(1e9)), "none", "Seconds after which an attempt is stopped.").aside()
        .aka(&["time_limit", "max_seconds"]),
    leaf!(run.init_from, Kind::RunId, "none", "The run whose best weights it begins with.")
        .aka(&["resume_from", "checkpoint_path"]),
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    #[test]
    fn the_table_names_the_leaves_of_a_config() {
        let config = RunConfig::default();
        let table: BTreeSet<String> = LEAVES.iter().map(|leaf| leaf.path.to_owned()).collect();
        let written = serde_json::to_value(&config).unwrap();
        let leaves = |(group, leaves): (&String, &Value)| -> Vec<String> {
            leaves.as_object().unwrap().keys().map(|word| format!("{group}.{word}")).collect()
        };
        assert_eq!(table, written.as_object().unwrap().iter().flat_map(leaves).collect());
        assert_eq!(table.len(), LEAVES.len(), "no path stands in the table twice");
        assert!(LEAVES.iter().all(|leaf| GROUPS.contains(&leaf.group())));
        assert!(LEAVES.windows(2).all(|two| position(two[0].group()) <= position(two[1].group())));
        for leaf in LEAVES {
            assert_eq!(leaf.get(&config), written[leaf.group()][leaf.word()], "{}", leaf.path);
        }
    }

    fn position(group: &str) -> Option<usize> {
        GROUPS.iter().position(|g| *g == group)
    }

    #[test]
    fn defaults_in_words_are_the_defaults() {
        let config = RunConfig::default();
        assert_eq!(resolve(std::iter::empty()), config, "an empty spec is the default config");
        for leaf in LEAVES.iter().filter(|leaf| !leaf.is_derived()) {
            let words = match leaf.get(&config) {
                Value::Null => "none".into(),
                Value::String(word) => word,
                other => other.to_string(),
            };
            assert_eq!(words, leaf.default, "{}", leaf.path);
        }
    }

    #[test]
    fn every_kind_reads_what_its_leaf_takes() {
        let sample = |kind: &Kind| match kind {
            Kind::Integer { max, .. } => vec![max.to_string()],
            Kind::Number(..) => vec!["0.25".into()],
            Kind::Bool => vec!["false".into()],
            Kind::Words(words) => words.iter().map(|word| (*word).into()).collect(),
            Kind::Text | Kind::Path => vec!["a.txt".into()],
            Kind::Device => vec!["cuda:3".into()],
            Kind::RunId => vec!["00ff".into()],
        };
        for leaf in LEAVES {
            for text in sample(&leaf.kind) {
                let value = leaf.kind.read(&text, true).unwrap();
                let mut config = RunConfig::default();
                leaf.set(&mut config, &value);
                assert_eq!(leaf.get(&config), value, "{} reads {text}", leaf.path);
            }
        }
    }

    #[test]
    fn derived_defaults_follow_their_leaves() {
        let resolved = |settings: &[(&str, Value)]| {
            let indexed: Vec<_> = settings.iter().map(|(name, value)| (lookup(name).unwrap(), value)).collect();
            resolve(indexed.into_iter())
        };
        let c = resolved(&[("lr", 0.01.into()), ("steps", 20_000.into()), ("d_model", 64.into()), ("heads", 2.into())]);
        assert_eq!((c.train.min_lr, c.train.warmup_steps, c.train.decay_steps), (0.001, 100, 20_000));
        assert_eq!((c.model.d_ff, c.model.kv_heads), (256, 2));
        let swiglu = |width: i64| resolved(&[("mlp", "swiglu".into()), ("d_model", width.into())]).model.d_ff;
        assert_eq!([3, 128, 4096].map(swiglu), [8, 344, 10_928]);
        assert_eq!(resolved(&[("lr", 3e-4.into())]).train.min_lr, 3e-5, "as one would write it");
        let c = resolved(&[("steps", 0.into()), ("eval.every", 7.into()), ("min_lr", 0.5.into()), ("d_ff", 9.into())]);
        assert_eq!((c.train.warmup_steps, c.train.decay_steps, c.checkpoint.every), (0, 1, 7));
        assert_eq!((c.train.min_lr, c.model.d_ff), (0.5, 9));
        assert_eq!(resolved(&[("lr", Value::Null)]), RunConfig::default(), "null is the default");
    }

    #[test]
    fn a_last_word_names_the_leaf_of_the_first_groups() {
        let path = |name| find(name).map(|leaf| leaf.path);
        assert_eq!(path("lr"), Some("train.lr"));
        assert_eq!(path("batch"), Some("train.batch"));
        assert_eq!(path("eval.batch"), Some("eval.batch"));
        assert_eq!(path("keep_last"), Some("checkpoint.keep_last"));
        assert_eq!((path("every"), path("train"), path("nothing")), (None, None, None));
        let candidates: Vec<_> = lookup("every").unwrap_err().iter().map(|leaf| leaf.path).collect();
        assert_eq!(candidates, ["eval.every", "checkpoint.every", "sample.every"]);
        let first: Vec<_> = LEAVES.iter().filter(|leaf| FIRST_GROUPS.contains(&leaf.group())).collect();
        assert_eq!(first.iter().map(|leaf| leaf.word()).collect::<HashSet<_>>().len(), first.len());
    }
}
