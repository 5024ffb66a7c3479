//! What a token is. Ids count from 0.
//!
//! Text is plain text to every tokenizer: `<|endoftext|>` in a corpus is thirteen characters and not GPT-2's token 50256,
//! as nanoGPT's preparation of data has it, so that a text cannot say what only the trainer may say.

mod bytes;
mod chars;
mod file;
mod gpt2;
mod hf;
mod ids;
mod kept;
mod stream;

use self::{bytes::Bytes, chars::Chars, gpt2::Gpt2, ids::Ids};
pub use self::{
    file::TokenizerFile,
    gpt2::GPT2_EOT,
    kept::{alone, differ, keep, kept, kept_file, kept_source, unused},
    stream::TextStream,
};
use crate::{
    base::{Error, Exit, Result},
    spec::config::{DataConfig, TokenizerKind},
};

/// Turns text into tokens and back.
pub trait Tokenizer: Send + Sync {
    /// Distinct tokens: one more than the highest id.
    fn vocab_size(&self) -> usize;

    /// The tokens of a text. An error where it has what the tokenizer has no token for.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// The text of tokens. What is no valid text, ids beyond the vocabulary included, becomes U+FFFD.
    fn decode(&self, tokens: &[u32]) -> String;

    /// How many bytes of a text its first `count` tokens stand for. Errors as [`encode`](Self::encode).
    fn prefix_len(&self, text: &str, count: usize) -> Result<usize>;

    /// The first byte at `at` or after it where a text may be cut: the tokens of the two parts are those of the whole. It
    /// follows from the text up to there, and the little after it that was looked at.
    fn cut(&self, text: &str, at: usize) -> usize;

    /// How many characters of text a token stands for; of a character that several tokens make up, the first has it. A
    /// token that stands for no text counts as one.
    fn chars_of(&self, token: u32) -> u64 {
        self.decode(&[token]).chars().count() as u64
    }

    /// What [`Source::restore`] needs beside the source.
    fn alphabet(&self) -> Option<String>;
}

/// What a config's tokenizer is made from, its corpus aside.
pub enum Source {
    /// The characters of the corpus.
    Char,
    /// Those characters, numbered as they stand there, whatever the corpus has.
    Alphabet(String),
    /// Nothing.
    Byte,
    /// GPT-2's vocabulary, which is part of the program.
    Gpt2,
    /// A file, as it was when it was read.
    File(TokenizerFile),
    /// The numbers of the corpus.
    Ids,
    /// So many numbers, whatever the corpus has.
    Numbers(usize),
}

impl Source {
    /// What a config names. A file is read, and only understood by [`build`](Self::build).
    ///
    /// # Errors
    /// [`Exit::Spec`] where the file cannot be read.
    pub fn of(config: &DataConfig) -> Result<Self> {
        Ok(match config.tokenizer {
            TokenizerKind::Char => Self::Char,
            TokenizerKind::Byte => Self::Byte,
            TokenizerKind::Gpt2 => Self::Gpt2,
            TokenizerKind::File => {
                let path = config.tokenizer_file.as_deref().ok_or_else(|| {
                    Error::new(Exit::Spec, "opening the tokenizer", "data.tokenizer_file is not set").hint(file::HINT)
                })?;
                Self::File(TokenizerFile::read(path.as_ref())?)
            }
            TokenizerKind::Ids => Self::Ids,
        })
    }

    /// The word for it in a spec.
    pub fn kind(&self) -> TokenizerKind {
        match self {
            Self::Char | Self::Alphabet(_) => TokenizerKind::Char,
            Self::Byte => TokenizerKind::Byte,
            Self::Gpt2 => TokenizerKind::Gpt2,
            Self::File(_) => TokenizerKind::File,
            Self::Ids | Self::Numbers(_) => TokenizerKind::Ids,
        }
    }

    /// What tokens follow from beside the text: the kind, and the hash of the characters or the file.
    pub fn key(&self) -> String {
        let kind = self.kind().word();
        match self {
            Self::File(file) => format!("{kind} {}", file.hash()),
            Self::Alphabet(chars) => format!("{kind} {}", blake3::hash(chars.as_bytes())),
            Self::Numbers(below) => format!("{kind} {below}"),
            _ => kind.into(),
        }
    }

    /// What stands for a text of that hash and this tokenizer in a run's id: the text's hash, and one over both where the
    /// tokenizer is a file, whose content no setting tells.
    pub fn identify(&self, text_hash: String) -> String {
        match self {
            Self::File(file) => {
                let both = format!("text {text_hash}\ntokenizer {}", file.hash());
                blake3::hash(both.as_bytes()).to_hex().to_string()
            }
            _ => text_hash,
        }
    }

    /// The tokenizer for a text.
    ///
    /// # Errors
    /// [`Exit::Spec`] where the file is no tokenizer, a character of an alphabet stands twice, or a text is to be read as
    /// numbers and is none.
    pub fn build(&self, text: &str) -> Result<Box<dyn Tokenizer>> {
        Ok(match self {
            Self::Char => Box::new(Chars::of(text)),
            Self::Alphabet(chars) => Box::new(Chars::in_order(chars).map_err(|twice| {
                Error::new(Exit::Spec, "numbering characters", format!("{twice:?} stands there twice"))
            })?),
            Self::Byte => Box::new(Bytes),
            Self::Gpt2 => Box::new(Gpt2::new()),
            Self::File(file) => Box::new(file.parse()?),
            Self::Ids => Box::new(Ids::of(text)?),
            Self::Numbers(below) => Box::new(Ids::below(*below)),
        })
    }

    /// The tokenizer again, from its own [`Tokenizer::alphabet`]. Errors as [`build`](Self::build).
    pub fn restore(&self, alphabet: Option<&str>) -> Result<Box<dyn Tokenizer>> {
        self.build(alphabet.unwrap_or_default())
    }
}
