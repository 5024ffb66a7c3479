//! What names a run, and what of it is frozen when it is first registered.
//!
//! An id is the hash of the leaves that decide a run's result and differ from the defaults that they have beside the
//! others, so that it survives a new leaf with a default, and so that `min_lr: 1e-4` beside `lr: 1e-3` is the same run
//! with and without being written. The text and a tokenizer's file count by their content, wherever they lie.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RunConfig, leaf};
use crate::base::{Context, Error, Exit, Result, RunId, files};

/// The version of the rule by which ids follow from configs. Ids change with it alone.
pub const FORMAT: u32 = 1;

/// `runs/<id16>/config.json`: what a run started with, whatever happens to the spec afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrozenRun {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// The whole id.
    pub id: RunId,
    /// blake3 of the corpus's text, in hex; of the text and the tokenizer where that is a file.
    pub corpus_hash: String,
    /// Distinct tokens of the tokenizer on that corpus.
    pub vocab_size: usize,
    /// The resolved config.
    pub config: RunConfig,
    /// Where the weights come from that nobody trained here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

/// Where imported weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// `hf-gpt2`, `hf-llama`, `nanogpt`.
    pub format: String,
    /// The folder or file, as it was named.
    pub source: String,
    /// blake3 of the weights as one flat vector of f32, little-endian, in the layout's order, in hex; of the optimizer's
    /// moments behind them, where they came along.
    pub blake3: String,
}

impl FrozenRun {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be read, or is of a newer format: what this version does not know of it may decide
    /// what the run computes.
    pub fn read(path: &Path) -> Result<Self> {
        let doing = || format!("reading {}", path.display());
        let text: serde_json::Value = files::read_json(path)?;
        if let Some(format) = text["format"].as_u64().filter(|format| *format > FORMAT.into()) {
            let why = format!("its format is {format}, and this version of exp knows formats up to {FORMAT}");
            return Err(
                Error::new(Exit::Store, doing(), why).hint("use the version of exp that wrote it, or a newer one")
            );
        }
        serde_json::from_value(text).doing(Exit::Store, doing)
    }
}

/// The id of a run. `text_hash` is the hash of its corpus's text, and of its tokenizer's file where it has one; it counts in
/// the place of `data.path` and `data.tokenizer_file`. Where it is not known the paths themselves count. A
/// generated text counts too: another grammar is another run. `run.device` counts as it stands, so a config should hold
/// the kind that `auto` stands for (`cpu`, `cuda`, `metal`), and an index only where the spec names one.
pub fn run_id(config: &RunConfig, text_hash: Option<&str>) -> RunId {
    RunId(*blake3::hash(canonical(config, text_hash).as_bytes()).as_bytes())
}

/// The id of an import: the hash of what of its model decides what the weights mean, of the weights, and of what its tokens
/// mean (`tokens`, in whatever words). The same weights are the same run, wherever they lie.
pub fn import_id(config: &RunConfig, vocab_size: usize, weights: &str, tokens: &str) -> RunId {
    let fixed = RunConfig::default();
    let decides = |leaf: &&leaf::Leaf| leaf.path.starts_with("model.") && leaf.path != "model.dropout";
    let differing = leaf::all().iter().filter(decides).map(|leaf| (leaf, leaf.get(config)));
    let differing = differing.filter(|(leaf, value)| *value != leaf.default_in(config, &fixed));
    let mut lines: Vec<String> = differing.map(|(leaf, value)| format!("{}={value}\n", leaf.path)).collect();
    lines.extend([
        format!("vocab_size={vocab_size}\n"),
        format!("weights=blake3:{weights}\n"),
        format!("tokenizer={tokens:?}\n"),
    ]);
    lines.sort();
    let text = format!("exp import, format {FORMAT}\n{}", lines.concat());
    RunId(*blake3::hash(text.as_bytes()).as_bytes())
}

/// What stands for the text, where its content makes ids differ.
pub const TEXT: &str = "data.text";

/// Something that makes the ids of two runs differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The path of a leaf, or [`TEXT`].
    pub leaf: String,
    /// What the one has.
    pub here: Value,
    /// What the other has.
    pub there: Value,
}

/// What makes the ids of two runs differ, each given by its config and the hash of its text. Leaves that have their defaults
/// in both do not, though these follow from others.
pub fn differences(here: (&RunConfig, &str), there: (&RunConfig, &str)) -> Vec<Difference> {
    let text = (here.1 != there.1).then(|| (TEXT.to_owned(), here.1.into(), there.1.into()));
    let counting = leaf::all().iter().filter(|leaf| leaf.counts && !BY_TEXT.contains(&leaf.path));
    let differing = counting.filter(|leaf| leaf.unusual(here.0) != leaf.unusual(there.0));
    let leaves = differing.map(|leaf| (leaf.path.to_owned(), leaf.get(here.0), leaf.get(there.0)));
    text.into_iter().chain(leaves).map(|(leaf, here, there)| Difference { leaf, here, there }).collect()
}

/// The leaves that a text's hash stands for.
const BY_TEXT: [&str; 2] = ["data.path", "data.tokenizer_file"];

/// What is hashed: the format, then `path=value` in the order of the paths, values as JSON (floats in the shortest form
/// that reads back as the same number).
fn canonical(config: &RunConfig, text_hash: Option<&str>) -> String {
    let mut lines = Vec::new();
    lines.extend(text_hash.map(|hash| format!("{TEXT}=blake3:{hash}\n")));
    for leaf in leaf::all().iter().filter(|leaf| leaf.counts) {
        let is_known_by_text = text_hash.is_some() && BY_TEXT.contains(&leaf.path);
        let unusual = leaf.unusual(config).filter(|_| !is_known_by_text);
        lines.extend(unusual.map(|value| format!("{}={value}\n", leaf.path)));
    }
    lines.sort();
    format!("exp run, format {FORMAT}\n{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_and_decides_is_hashed() {
        let mut c = RunConfig::default();
        assert_eq!(canonical(&c, None), "exp run, format 1\n");
        c.train.lr = 3e-4;
        c.model.layers = 2;
        c.run.device = "cpu".into();
        assert_eq!(
            canonical(&c, None),
            "exp run, format 1\nmodel.layers=2\nrun.device=\"cpu\"\ntrain.lr=0.0003\ntrain.min_lr=0.0001\n"
        );
        c.train.min_lr = 3e-5;
        (c.checkpoint.every, c.checkpoint.keep_last, c.run.retries, c.run.timeout) = (7, 9, 3, Some(60.0));
        let lines = "model.layers=2\nrun.device=\"cpu\"\ntrain.lr=0.0003\n";
        assert_eq!(canonical(&c, None), format!("exp run, format 1\n{lines}"));
    }

    #[test]
    fn a_config_of_a_newer_format_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let config = RunConfig::default();
        let run = FrozenRun {
            format: FORMAT,
            id: run_id(&config, None),
            corpus_hash: "0".into(),
            vocab_size: 7,
            config,
            imported: None,
        };
        files::write_json(&path, &run).unwrap();
        assert_eq!(FrozenRun::read(&path).unwrap(), run);
        files::write_json(&path, &serde_json::json!({"format": 7, "what": "nobody knows yet"})).unwrap();
        let error = FrozenRun::read(&path).unwrap_err();
        assert!(error.doing.ends_with("config.json") && error.hint.is_some(), "{error}");
        assert!(error.why.contains("its format is 7") && error.why.contains("up to 1"), "{error}");
    }

    #[test]
    fn a_text_counts_by_its_content() {
        let mut c = RunConfig::default();
        assert_ne!(run_id(&c, Some("00ff")), run_id(&c, Some("00fe")), "generated by another grammar");
        c.data.path = Some("/a/b.txt".into());
        let (here, unknown) = (run_id(&c, Some("00ff")), run_id(&c, None));
        c.data.path = Some("/c.txt".into());
        assert_eq!(run_id(&c, Some("00ff")), here);
        assert_ne!(run_id(&c, Some("00fe")), here);
        assert_ne!(run_id(&c, None), unknown);
    }
}
