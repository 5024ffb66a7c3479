//! GPT-2's byte-level BPE: tiktoken's `r50k_base`, without special tokens in texts.

use rayon::prelude::*;
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

use super::Tokenizer;
use crate::base::Result;

/// 256 bytes, 50,000 merges, and `<|endoftext|>`, which no text becomes.
const VOCAB: u32 = 50_257;

/// `<|endoftext|>`.
pub const GPT2_EOT: u32 = VOCAB - 1;

/// How much text a thread takes at a time, in bytes.
const CHUNK: usize = 1 << 16;

/// Encodes like `tiktoken.get_encoding("gpt2").encode_ordinary`, in parallel.
pub struct Gpt2 {
    bpe: &'static CoreBPE,
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
}

impl Gpt2 {
    /// The tokenizer. Its vocabulary is unpacked once per process.
    pub fn new() -> Self {
        let bpe = r50k_base_singleton();
        // The ids have no gap; a test goes through them.
        let tokens = (0..VOCAB).map(|id| bpe.decode_bytes(&[id]).unwrap_or_default()).collect();
        Self { bpe, tokens }
    }
}

/// The first place at `at` or after it that is before a white space with none behind it.
///
/// GPT-2's pattern never matches across it: a word takes at most the one space before it, and of longer white space the
/// last character is left for what follows. The part before it ends with what the whole has there, since a pattern that
/// looks ahead (`\s+(?!\S)`) finds the end of the text as good as another white space. So the tokens of the parts are
/// those of the whole.
fn cut(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let mut chars = text[at..].char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        if c.is_whitespace() && chars.peek().is_some_and(|(_, next)| !next.is_whitespace()) {
            return at + offset;
        }
    }
    text.len()
}

/// A text in parts of at least `size` bytes whose tokens are those of the whole.
fn chunks(text: &str, size: usize) -> Vec<&str> {
    let (mut chunks, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(cut(rest, size));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

impl Tokenizer for Gpt2 {
    fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let tokens: Vec<Vec<u32>> =
            chunks(text, CHUNK).into_par_iter().map(|chunk| self.bpe.encode_ordinary(chunk)).collect();
        Ok(tokens.concat())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes = |&token: &u32| self.tokens.get(token as usize).map_or(&b"\xff"[..], Vec::as_slice); // never UTF-8
        String::from_utf8_lossy(&tokens.iter().flat_map(bytes).copied().collect::<Vec<u8>>()).into_owned()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        Ok(self.encode(text)?.iter().take(count).map(|&token| self.tokens[token as usize].len()).sum())
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        cut(text, at)
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_vocabulary_is_whole() {
        let gpt2 = Gpt2::new();
        assert!(gpt2.tokens.iter().all(|bytes| !bytes.is_empty()));
        assert_eq!(gpt2.tokens[50_256], b"<|endoftext|>");
        assert!(gpt2.bpe.decode_bytes(&[VOCAB]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn parts_have_the_tokens_of_the_whole(text in "([ \t\r\n\u{a0}\u{3000}']{0,3}(ll|s|a|é|春|1|-|\u{1}|\u{200b}|\\PC)){0,20}[ \n]{0,3}", size in 1usize..9) {
            let bpe = r50k_base_singleton();
            let parts = chunks(&text, size);
            prop_assert_eq!(parts.concat(), text.clone());
            let tokens: Vec<u32> = parts.into_iter().flat_map(|part| bpe.encode_ordinary(part)).collect();
            prop_assert_eq!(tokens, bpe.encode_ordinary(&text));
        }
    }

    #[test]
    fn no_run_of_one_kind_is_too_long() {
        let gpt2 = Gpt2::new();
        for unit in [" ", "\n", "a", "春"] {
            let text = format!("x{}y", unit.repeat(1_100_000)); // tiktoken itself gives up on a million spaces
            let tokens = gpt2.encode(&text).unwrap();
            assert!(gpt2.decode(&tokens) == text, "{unit:?}");
        }
    }
}
