//! What a config's leaves must be to one another. What the machine or the corpus has to say is not known here: the
//! planner asks them, and reports by [`super::Sweep::error_at`].

use super::{
    RunConfig,
    config::{CorpusKind, Dtype, EngineKind, Position, Schedule, TokenizerKind},
    leaf,
};

/// Leaves that do not go together.
#[derive(Debug)]
pub(super) struct Conflict {
    /// Those that could be changed, the likeliest first.
    pub leaves: &'static [&'static str],
    pub why: String,
    pub hint: Option<String>,
}

/// The first conflict of a config, if it has one.
pub(super) fn conflict(config: &RunConfig) -> Option<Conflict> {
    [heads, kv_heads, rotation, learning_rate, corpus, tokenizer, dtype, engine, size]
        .iter()
        .find_map(|rule| rule(config))
}

fn heads(c: &RunConfig) -> Option<Conflict> {
    let (heads, width) = (c.model.heads, c.model.d_model);
    (!width.is_multiple_of(heads)).then(|| Conflict {
        leaves: &["model.heads", "model.d_model"],
        why: format!("`model.heads` must divide `model.d_model`, and {heads} does not divide {width}"),
        hint: Some(divisors("`heads`", heads, width)),
    })
}

fn kv_heads(c: &RunConfig) -> Option<Conflict> {
    let (kv, heads) = (c.model.kv_heads, c.model.heads);
    (!heads.is_multiple_of(kv)).then(|| Conflict {
        leaves: &["model.kv_heads", "model.heads"],
        why: format!("`model.kv_heads` must divide `model.heads`, and {kv} does not divide {heads}"),
        hint: Some(divisors("`kv_heads`", kv, heads)),
    })
}

fn rotation(c: &RunConfig) -> Option<Conflict> {
    let width = c.model.d_model / c.model.heads;
    (c.model.position == Position::Rope && !width.is_multiple_of(2)).then(|| Conflict {
        leaves: &["model.position", "model.heads", "model.d_model"],
        why: format!("RoPE rotates pairs of a head's numbers, and `d_model` / `heads` is {width}"),
        hint: Some("choose `d_model` and `heads` so that a head's width is even".into()),
    })
}

/// The divisors of a number that are next to one that is none.
fn divisors(name: &str, wanted: usize, of: usize) -> String {
    let below = (1..=wanted.min(of)).rev().find(|n| of.is_multiple_of(*n)).unwrap_or(1);
    match (wanted..=of).find(|n| of.is_multiple_of(*n)) {
        Some(above) => format!("{name} could be {below} or {above}"),
        None => format!("{name} could be {below}"),
    }
}

/// A rate that rises where its schedule says that it falls is a slip, and a sweep over `lr` makes it easily.
fn learning_rate(c: &RunConfig) -> Option<Conflict> {
    let t = &c.train;
    (t.min_lr > t.lr && t.schedule != Schedule::Constant).then(|| Conflict {
        leaves: &["train.lr", "train.min_lr"],
        why: format!(
            "`train.min_lr` {:?} is above `train.lr` {:?}, so that the learning rate would rise",
            t.min_lr, t.lr
        ),
        hint: Some("without `min_lr` it is a tenth of `lr`; `schedule: constant` has no use for it".into()),
    })
}

fn corpus(c: &RunConfig) -> Option<Conflict> {
    match (c.data.corpus, &c.data.path) {
        (CorpusKind::Text, None) => Some(Conflict {
            leaves: &["data.corpus", "data.path"],
            why: "the corpus `text` is read from a file or folder, and `data.path` does not say which".into(),
            hint: Some(
                "name it in the spec, `data: {corpus: text, path: FILE}`, or with `--set data.path=FILE`".into(),
            ),
        }),
        (CorpusKind::Tokens, None) => Some(Conflict {
            leaves: &["data.corpus", "data.path"],
            why: "the corpus `tokens` is read from a folder, and `data.path` does not say which".into(),
            hint: Some(
                "name the folder of train.bin and val.bin in the spec, `data: {corpus: tokens, path: DIR}`, or with `--set \
                 data.path=DIR`; `exp data prepare` makes one from texts"
                    .into(),
            ),
        }),
        (CorpusKind::Playbook, Some(_)) => Some(Conflict {
            leaves: &["data.path", "data.corpus"],
            why: "the corpus `playbook` is generated and reads no file, and `data.path` names one".into(),
            hint: Some("`corpus: text` reads the file; `path: null` takes the name back".into()),
        }),
        _ => None,
    }
}

fn tokenizer(c: &RunConfig) -> Option<Conflict> {
    let (kind, file) = (c.data.tokenizer, &c.data.tokenizer_file);
    match (kind, file) {
        (TokenizerKind::File, None) => Some(Conflict {
            leaves: &["data.tokenizer", "data.tokenizer_file"],
            why: "the tokenizer `file` is read from a file, and `data.tokenizer_file` does not say which".into(),
            hint: Some(
                "name a `tokenizer.json` of Hugging Face's tokenizers in the spec, or with `--set \
                 data.tokenizer_file=FILE`"
                    .into(),
            ),
        }),
        (TokenizerKind::Char | TokenizerKind::Byte | TokenizerKind::Gpt2 | TokenizerKind::Ids, Some(_)) => {
            Some(Conflict {
                leaves: &["data.tokenizer_file", "data.tokenizer"],
                why: format!("the tokenizer `{}` reads no file, and `data.tokenizer_file` names one", kind.word()),
                hint: Some("`tokenizer: file` reads it; `tokenizer_file: null` takes the name back".into()),
            })
        }
        _ => None,
    }
}

fn dtype(c: &RunConfig) -> Option<Conflict> {
    let word = c.train.dtype.word();
    (c.train.dtype != Dtype::F32 && c.run.device == "cpu").then(|| Conflict {
        leaves: &["train.dtype", "run.device"],
        why: format!("`train.dtype` {word} needs a GPU, and the device is `cpu`"),
        hint: Some("`dtype: f32` on a CPU, or `device: cuda`".into()),
    })
}

fn engine(c: &RunConfig) -> Option<Conflict> {
    let elsewhere = !matches!(c.run.device.as_str(), "auto" | "cpu");
    if c.run.engine == EngineKind::Cpu && elsewhere {
        return Some(Conflict {
            leaves: &["run.engine", "run.device"],
            why: format!("the engine `cpu` does not compute on `{}`", c.run.device),
            hint: Some("`engine: tape` computes on any device, `auto` takes the fastest".into()),
        });
    }
    let leaf = c.beyond_cpu_engine().filter(|_| c.run.engine == EngineKind::Cpu).and_then(leaf::find)?;
    Some(Conflict {
        leaves: &["run.engine"],
        why: format!("the engine `cpu` has no layers for `{}` {}", leaf.path, bare(&leaf.get(c))),
        hint: Some("`engine: tape` knows every setting, `auto` takes the fastest that does".into()),
    })
}

/// A word without its quotes.
fn bare(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sizes that no machine has, which would overflow what is computed from them.
fn size(c: &RunConfig) -> Option<Conflict> {
    let [layers, heads, d_model, d_ff, context] =
        [c.model.layers, c.model.heads, c.model.d_model, c.model.d_ff, c.model.context].map(|n| n as f64);
    let weights = layers * d_model * (4.0 * d_model + 2.0 * d_ff);
    let batch = c.train.batch.max(c.eval.batch) as f64;
    let activations = batch * context * layers * (6.0 * d_model + 2.0 * d_ff + 2.0 * heads * context);
    let bytes = 16.0 * weights + 4.0 * activations;
    if bytes > PETABYTE {
        return Some(Conflict {
            leaves: &[
                "model.d_model",
                "model.layers",
                "model.d_ff",
                "model.context",
                "train.batch",
                "eval.batch",
                "model.heads",
            ],
            why: format!("a model of this size needs about {bytes:.0e} bytes of memory"),
            hint: None,
        });
    }
    let tokens = c.train.steps as f64 * c.train.batch as f64 * c.train.grad_accum as f64 * context;
    (tokens > QUINTILLION).then(|| Conflict {
        leaves: &["train.steps", "train.grad_accum", "train.batch", "model.context"],
        why: format!("the run trains on {tokens:.0e} tokens, which no machine lives to see"),
        hint: None,
    })
}

const PETABYTE: f64 = 1e15;
const QUINTILLION: f64 = 1e18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_divisors_are_named() {
        assert_eq!(divisors("`heads`", 3, 128), "`heads` could be 2 or 4");
        assert_eq!(divisors("`heads`", 200, 128), "`heads` could be 128");
    }

    #[test]
    fn known_models_are_of_a_size() {
        let mut c = RunConfig::default();
        assert!(conflict(&c).is_none());
        (c.model.layers, c.model.heads, c.model.kv_heads) = (96, 96, 96);
        (c.model.d_model, c.model.d_ff, c.model.context) = (12288, 49152, 2048); // GPT-3
        assert!(conflict(&c).is_none());
        (c.model.layers, c.model.d_ff) = (1_000_000, 1_000_000);
        assert_eq!(conflict(&c).unwrap().leaves[0], "model.d_model");
    }

    #[test]
    fn a_rate_may_rise_where_no_schedule_lets_it_fall() {
        let mut c = RunConfig::default();
        c.train.min_lr = 0.1;
        assert!(conflict(&c).is_some());
        c.train.schedule = Schedule::Constant;
        assert!(conflict(&c).is_none());
    }
}
