//! Text in, token windows out: corpora, tokenizers, the token cache and the loader.
//!
//! [`prepare()`] tokenizes what a [`DataConfig`] names into the cache, once however many processes ask; [`open`] maps that
//! into memory as a [`Dataset`], which fills batches. A corpus is one more implementation of [`corpus::Corpus`], a
//! tokenizer one more of [`tokenizer::Tokenizer`]. What is too large for that, the module [`mod@prepare`] makes into a folder of
//! tokens beforehand.

mod batch;
pub mod cache;
pub mod corpus;
mod dataset;
pub mod fetch;
mod oddities;
pub mod playbook;
pub mod prepare;
pub mod shakespeare;
pub mod shelf;
pub mod text;
pub mod tokenizer;
pub mod tokens;

use std::{collections::BTreeSet, path::Path};

pub use batch::Batch;
pub use dataset::Dataset;

use self::{dataset::Prepared, tokenizer::Source};
use crate::{
    base::Result,
    spec::config::{CorpusKind, DataConfig},
};

/// What is known of a tokenized corpus. Plain data: it is kept beside the cached tokens as JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CorpusInfo {
    /// `playbook`, `shakespeare`, or the path of the text.
    pub name: String,
    /// blake3 of the text, in hex; of the text and the tokenizer's content where that is a file. A run id and the evaluation
    /// windows go by it.
    pub hash: String,
    /// Characters (Unicode scalar values) of the text.
    pub chars: u64,
    /// Distinct tokens of the tokenizer.
    pub vocab_size: usize,
    /// Tokens of the training split.
    pub train_tokens: u64,
    /// Tokens of the validation split.
    pub val_tokens: u64,
    /// Characters per validation token.
    pub chars_per_token: f64,
    /// The corpus's cost under its own grammar in bits per character, over the validation split, where known.
    pub bits_per_char: Option<f64>,
    /// Things a person should know, such as characters that only the validation split has.
    pub notes: Vec<String>,
}

impl CorpusInfo {
    /// Tokens of a split.
    pub fn tokens(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.train_tokens,
            Split::Val => self.val_tokens,
            Split::Whole => self.train_tokens + self.val_tokens,
        }
    }

    /// Characters per token of a split: what turns a loss per token into one per character.
    pub fn chars_per_token_of(&self, split: Split) -> f64 {
        match split {
            Split::Val => self.chars_per_token,
            Split::Train => {
                let val_chars = (self.chars_per_token * self.val_tokens as f64).round();
                (self.chars as f64 - val_chars) / self.train_tokens.max(1) as f64
            }
            Split::Whole => self.chars as f64 / self.tokens(split).max(1) as f64,
        }
    }

    /// Whether both splits hold a window of `context` tokens and the token after it; if not, which one does not, and what
    /// it would need.
    pub fn check_context(&self, context: usize) -> Result<(), String> {
        let need = context as u64 + 1;
        for (split, tokens) in [("training", self.train_tokens), ("validation", self.val_tokens)] {
            if tokens < need {
                let name = &self.name;
                return Err(format!(
                    "the {split} split of {name} has {tokens} tokens; a context of {context} needs at least {need}"
                ));
            }
        }
        Ok(())
    }
}

/// Which part of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The beginning.
    Train,
    /// The end, `data.val_fraction` of the tokens.
    Val,
    /// Both, one after the other without a seam: the tokens of the text in its order.
    Whole,
}

impl Split {
    /// `train`, `val` or `whole`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Whole => "whole",
        }
    }
}

/// Tokenizes a corpus into the cache folder unless that is done, and says what is known of it. Safe when many processes
/// do it at once: one works, the others wait for it as long as it gets on. Errors are
/// [`Exit::Spec`](crate::base::Exit) where the text or the tokenizer's file is at fault,
/// [`Exit::Store`](crate::base::Exit) where the cache cannot be written.
pub fn prepare(config: &DataConfig, cache: &Path) -> Result<CorpusInfo> {
    Ok(prepared(config, None, cache, &|| false)?.info)
}

/// The config with what its corpus says of itself filled in: a folder of tokens names its tokenizer. It is what a run should
/// be known by. Errors as [`prepare()`].
pub fn resolved(config: &DataConfig) -> Result<DataConfig> {
    match config.corpus {
        CorpusKind::Tokens => tokens::resolved(config),
        _ => Ok(config.clone()),
    }
}

/// Maps a tokenized corpus into memory; [prepares](prepare()) it where that was not done. Errors as there, and
/// [`Exit::Interrupted`](crate::base::Exit) where `is_asked` says while another process is waited for that somebody asks
/// to stop.
pub fn open(config: &DataConfig, cache: &Path, is_asked: &dyn Fn() -> bool) -> Result<Dataset> {
    Dataset::open(prepared(config, None, cache, is_asked)?)
}

/// As [`open`], with a tokenizer that comes from elsewhere in the place of the config's: a model reads every text by the
/// tokens that it was trained on.
pub fn open_with(config: &DataConfig, source: Source, cache: &Path, is_asked: &dyn Fn() -> bool) -> Result<Dataset> {
    Dataset::open(prepared(config, Some(source), cache, is_asked)?)
}

fn prepared(
    config: &DataConfig,
    source: Option<Source>,
    cache: &Path,
    is_asked: &dyn Fn() -> bool,
) -> Result<Prepared> {
    match config.corpus {
        CorpusKind::Tokens => tokens::look_up(config, source, cache, is_asked),
        _ => cache::find_or_make(config, source, cache, is_asked),
    }
}

/// Names characters that occur in the validation split alone.
fn name_only_in_val(new: &BTreeSet<char>) -> Option<String> {
    let shown: Vec<String> = new.iter().take(10).map(|c| format!("{c:?}")).collect();
    let more = if new.len() > shown.len() { ", ..." } else { "" };
    match new.len() {
        0 => None,
        1 => Some(format!("1 character occurs only in the validation split: {}", shown[0])),
        n => Some(format!("{n} characters occur only in the validation split: {}{more}", shown.join(", "))),
    }
}
