//! Text in, token windows out: corpora, tokenizers, the token cache and the loader.

/// What is known of a tokenized corpus. Plain data: it is kept beside the cached tokens as JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CorpusInfo {
    /// `playbook`, `shakespeare`, or the path of the text.
    pub name: String,
    /// blake3 of the text, in hex: what a run id and the evaluation windows go by.
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

/// Which part of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The beginning.
    Train,
    /// The end, `data.val_fraction` of the tokens.
    Val,
}
