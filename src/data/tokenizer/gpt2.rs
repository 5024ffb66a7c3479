//! GPT-2's byte-level BPE: tiktoken's `r50k_base`, without special tokens in texts. The vocabulary is that of tiktoken-rs;
//! splitting into words and merging is done here, many times as fast, and tested equal to theirs.

mod vocabulary;
mod words;

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use self::{
    vocabulary::{Cache, VOCABULARY, Vocabulary},
    words::Words,
};
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
    vocabulary: &'static Vocabulary,
    /// One for each thread that has encoded something.
    caches: Mutex<Vec<Cache>>,
}

impl Gpt2 {
    /// The tokenizer. Its vocabulary is unpacked once per process.
    pub fn new() -> Self {
        Self { vocabulary: &VOCABULARY, caches: Mutex::default() }
    }

    fn bytes(&self, token: u32) -> Option<&'static [u8]> {
        self.vocabulary.tokens.get(token as usize).map(Vec::as_slice)
    }

    /// The tokens of a text, in this thread.
    fn encode_chunk(&self, text: &str) -> Vec<u32> {
        let caches = || self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = caches().pop().unwrap_or_default();
        let mut tokens = Vec::with_capacity(text.len() / 3);
        Words::of(text).for_each(|word| self.vocabulary.encode(word, &mut cache, &mut tokens));
        caches().push(cache);
        tokens
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
        self.vocabulary.tokens.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if text.len() <= CHUNK {
            return Ok(self.encode_chunk(text));
        }
        let chunks = chunks(text, CHUNK).into_par_iter();
        Ok(chunks.map(|chunk| self.encode_chunk(chunk)).collect::<Vec<_>>().concat())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes = |&token: &u32| self.bytes(token).unwrap_or(b"\xff"); // never UTF-8
        String::from_utf8_lossy(&tokens.iter().flat_map(bytes).copied().collect::<Vec<u8>>()).into_owned()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        Ok(self.encode(text)?.iter().take(count).filter_map(|&token| self.bytes(token)).map(<[u8]>::len).sum())
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
    use tiktoken_rs::r50k_base_singleton;

    use super::*;

    #[test]
    fn the_vocabulary_is_whole() {
        let tokens = &VOCABULARY.tokens;
        assert!(tokens.iter().all(|bytes| !bytes.is_empty()));
        assert_eq!(tokens[GPT2_EOT as usize], b"<|endoftext|>");
        assert!(r50k_base_singleton().decode_bytes(&[VOCAB]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn parts_have_the_tokens_of_the_whole(text in "([ \t\r\n\u{a0}\u{3000}']{0,3}(ll|s|a|é|春|1|-|\u{1}|\u{200b}|\\PC)){0,20}[ \n]{0,3}", size in 1usize..9) {
            let bpe = r50k_base_singleton();
            let parts = chunks(&text, size);
            prop_assert_eq!(parts.concat(), text.clone());
            let tokens: Vec<u32> = parts.into_iter().flat_map(|part| bpe.encode_ordinary(part)).collect();
            prop_assert_eq!(&tokens, &bpe.encode_ordinary(&text));
            prop_assert_eq!(tokens, Gpt2::new().encode(&text).unwrap());
        }

        #[test]
        fn odd_text_has_the_tokens_of_tiktoken(
            chars in prop::collection::vec(prop_oneof![any::<char>(), "['a-zA-Z0-9 \\s]".prop_map(|s| s.chars().next().unwrap())], 0..60),
            words in "( ?('(s|t|re|ve|m|ll|d|x|l|r)|[a-z]{1,12}|[0-9]{1,4}|[!-/]{1,5}|春+|[а-я]{1,20}|ǅ|Ⅷ|½|٣|\\s|🙂\u{200d})){0,30}",
        ) {
            let (bpe, gpt2) = (r50k_base_singleton(), Gpt2::new());
            for text in [chars.iter().collect(), words.clone(), words.repeat(9)] as [String; 3] {
                let tokens = bpe.encode_ordinary(&text);
                prop_assert_eq!(&gpt2.encode(&text).unwrap(), &tokens);
                prop_assert_eq!(&gpt2.encode(&text).unwrap(), &tokens, "from the cache");
            }
        }
    }

    #[test]
    fn every_character_between_two_others_has_the_tokens_of_tiktoken() {
        let (bpe, gpt2) = (r50k_base_singleton(), Gpt2::new());
        let all: Vec<char> = ('\0'..=char::MAX).collect();
        for some in all.chunks(1000) {
            let text: String = some.iter().flat_map(|&c| ['a', c, ' ', c, '1', c, c, '\'', c]).collect();
            assert_eq!(gpt2.encode(&text).unwrap(), bpe.encode_ordinary(&text), "from {:?} on", some[0]);
        }
    }

    #[test]
    fn long_words_have_the_tokens_of_tiktoken() {
        let (bpe, gpt2) = (r50k_base_singleton(), Gpt2::new());
        for unit in ["ab", "春", "-=", "a1", "\u{301}"] {
            for count in [1, 7, 8, 15, 16, 49, 50, 99, 100, 101, 500] {
                let text = unit.repeat(count);
                assert_eq!(gpt2.encode(&text).unwrap(), bpe.encode_ordinary(&text), "{count} of {unit:?}");
            }
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
