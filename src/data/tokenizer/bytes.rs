//! A token is a byte.

use super::Tokenizer;
use crate::base::Result;

/// Each byte of the UTF-8 text.
pub struct Bytes;

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

    fn prefix_len(&self, _text: &str, count: usize) -> Result<usize> {
        Ok(count)
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        text.ceil_char_boundary(at)
    }

    fn chars_of(&self, token: u32) -> u64 {
        u64::from(!(0x80..0xc0).contains(&token)) // a byte that goes on with a character is none of its own
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}
