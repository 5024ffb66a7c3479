//! What a token is. Ids count from 0.

use crate::{
    base::{Error, Exit, Result},
    spec::config::TokenizerKind,
};

/// Turns text into tokens and back.
pub trait Tokenizer: Send + Sync {
    /// Distinct tokens.
    fn vocab_size(&self) -> usize;

    /// The tokens of a text. An error where it has what the tokenizer has no token for.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// The text of tokens. What is no valid text, ids beyond the vocabulary included, becomes U+FFFD.
    fn decode(&self, tokens: &[u32]) -> String;

    /// How many bytes of UTF-8 a token of the vocabulary stands for.
    fn byte_len(&self, token: u32) -> usize;

    /// What [`restore`] needs beside the kind.
    fn alphabet(&self) -> Option<String>;
}

/// A tokenizer of a kind, made for a text.
pub fn build(kind: TokenizerKind, text: &str) -> Box<dyn Tokenizer> {
    match kind {
        TokenizerKind::Char => Box::new(Chars::of(text)),
        TokenizerKind::Byte => Box::new(Bytes),
    }
}

/// The tokenizer of a kind again, from its own [`Tokenizer::alphabet`].
pub fn restore(kind: TokenizerKind, alphabet: Option<&str>) -> Box<dyn Tokenizer> {
    build(kind, alphabet.unwrap_or_default())
}

/// Each distinct character of a text, in code-point order, as nanoGPT's character-level data has it.
struct Chars {
    chars: Vec<char>,
    /// The id of each code point up to the highest one that occurs.
    ids: Vec<u32>,
}

/// In [`Chars::ids`]: a character that the text does not have.
const ABSENT: u32 = u32::MAX;

impl Chars {
    fn of(text: &str) -> Self {
        let mut ids = Vec::new();
        for c in text.chars() {
            let at = c as usize;
            if at >= ids.len() {
                ids.resize(at + 1, ABSENT);
            }
            ids[at] = 0;
        }
        let mut chars = Vec::new();
        for (at, id) in ids.iter_mut().enumerate().filter(|(_, id)| **id != ABSENT) {
            *id = chars.len() as u32;
            chars.extend(char::from_u32(at as u32));
        }
        Self { chars, ids }
    }
}

impl Tokenizer for Chars {
    fn vocab_size(&self) -> usize {
        self.chars.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let id = |c: char| match self.ids.get(c as usize) {
            Some(&id) if id != ABSENT => Ok(id),
            _ => Err(Error::new(Exit::Spec, "encoding text", format!("the corpus has no character {c:?}"))
                .hint("the tokenizer `char` knows the characters of its corpus alone; `byte` knows all")),
        };
        text.chars().map(id).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|&t| self.chars.get(t as usize).copied().unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    fn byte_len(&self, token: u32) -> usize {
        self.chars[token as usize].len_utf8()
    }

    fn alphabet(&self) -> Option<String> {
        Some(self.chars.iter().collect())
    }
}

/// Each byte of the UTF-8 text.
struct Bytes;

impl Tokenizer for Bytes {
    fn vocab_size(&self) -> usize {
        256
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().map(|&t| u8::try_from(t).unwrap_or(0xff)).collect(); // 0xff: never UTF-8
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn byte_len(&self, _token: u32) -> usize {
        1
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}
