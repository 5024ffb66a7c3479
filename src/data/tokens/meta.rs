//! What the numbers in a folder of tokens mean: `meta.json`.
//!
//! ```text
//! vocab_size       one more than the highest id that may occur; all that has to stand there
//! tokenizer        char, byte, gpt2 or file; where it lacks, tokens are numbers and nothing more
//! alphabet         of char: the characters, the first of which has id 0
//! tokenizer_file   of file: a tokenizer.json, from the folder
//! token_bytes      2 (what lacks says 2) or 4
//! train_chars      characters that the tokens of train.bin stand for
//! val_chars        the same of val.bin
//! source           what they were made of, for people
//! ```

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    base::{Result, files},
    spec::config::TokenizerKind,
};

/// The name of the file.
pub const META: &str = "meta.json";

/// `meta.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// One more than the highest id that may occur.
    pub vocab_size: usize,
    /// What a token is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerKind>,
    /// The characters of `char`, in the order of their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// The `tokenizer.json` of `file`, from the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_file: Option<String>,
    /// Bytes per token: 2 or 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_bytes: Option<u64>,
    /// Characters that the tokens of `train.bin` stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_chars: Option<u64>,
    /// The same of `val.bin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_chars: Option<u64>,
    /// What they were made of, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<String>,
}

impl Meta {
    /// Writes the file into a folder, atomically.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(META), self)
    }
}
