//! What names a run, and what of it is frozen when it is first registered.

use serde::{Deserialize, Serialize};

use super::RunConfig;
use crate::base::RunId;

/// The version of the rule by which ids follow from configs. Ids change with it alone.
pub const FORMAT: u32 = 1;

/// `runs/<id16>/config.json`: what a run started with, whatever happens to the spec afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrozenRun {
    /// [`FORMAT`] when it was written.
    pub format: u32,
    /// The whole id.
    pub id: RunId,
    /// blake3 of the corpus's text, in hex.
    pub corpus_hash: String,
    /// Distinct tokens of the tokenizer on that corpus.
    pub vocab_size: usize,
    /// The resolved config.
    pub config: RunConfig,
}
