//! A token is a character of the corpus.

use super::Tokenizer;
use crate::base::{Error, Exit, Result};

/// Each distinct character of a text, in code-point order, as nanoGPT's character-level data has it.
pub struct Chars {
    chars: Vec<char>,
    /// The id of each code point up to the highest one that occurs.
    ids: Vec<u32>,
}

/// In [`Chars::ids`]: a character that the text does not have.
const ABSENT: u32 = u32::MAX;

impl Chars {
    /// The tokenizer of a text.
    pub fn of(text: &str) -> Self {
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

    /// The tokenizer that numbers these characters as they stand; one that stands twice is the error.
    pub fn in_order(alphabet: &str) -> std::result::Result<Self, char> {
        let chars: Vec<char> = alphabet.chars().collect();
        let mut ids = vec![ABSENT; chars.iter().max().map_or(0, |c| *c as usize + 1)];
        for (id, c) in chars.iter().enumerate() {
            if std::mem::replace(&mut ids[*c as usize], id as u32) != ABSENT {
                return Err(*c);
            }
        }
        Ok(Self { chars, ids })
    }
}

impl Tokenizer for Chars {
    fn vocab_size(&self) -> usize {
        self.chars.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let id = |c: char| match self.ids.get(c as usize) {
            Some(&id) if id != ABSENT => Ok(id),
            _ => Err(Error::new(Exit::Spec, "encoding text", format!("the tokenizer has no character {c:?}"))
                .hint("the tokenizer `char` knows the characters of its corpus alone; `byte` and `gpt2` know all")),
        };
        text.chars().map(id).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|&t| self.chars.get(t as usize).copied().unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        Ok(text.char_indices().nth(count).map_or(text.len(), |(at, _)| at))
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        text.ceil_char_boundary(at)
    }

    fn chars_of(&self, _token: u32) -> u64 {
        1
    }

    fn alphabet(&self) -> Option<String> {
        Some(self.chars.iter().collect())
    }
}
