//! GPT-2's byte-level BPE: tiktoken's `r50k_base`, without special tokens in texts. The vocabulary is that of tiktoken-rs;
//! splitting into words and merging is done here, many times as fast, and tested equal to theirs.

mod cuts;
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

/// How much text a thread encodes at once where there is no place to cut it, in bytes: one long word takes some thirty
/// times its size of memory.
const WINDOW: usize = 1 << 20;

/// How far a place is looked for where a text may be cut, in bytes, before one is made.
const REACH: usize = 1 << 20;

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

impl Tokenizer for Gpt2 {
    fn vocab_size(&self) -> usize {
        self.vocabulary.tokens.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        if text.len() <= CHUNK {
            return Ok(self.encode_chunk(text));
        }
        let chunks = self.chunks(text, CHUNK).into_par_iter();
        Ok(chunks.map(|chunk| self.encode_part(chunk)).collect::<Vec<_>>().concat())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        let bytes = |&token: &u32| self.bytes(token).unwrap_or(b"\xff"); // never UTF-8
        String::from_utf8_lossy(&tokens.iter().flat_map(bytes).copied().collect::<Vec<u8>>()).into_owned()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        Ok(self.encode(text)?.iter().take(count).filter_map(|&token| self.bytes(token)).map(<[u8]>::len).sum())
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        self.cut_within(text, at, REACH)
    }

    fn chars_of(&self, token: u32) -> u64 {
        if token == GPT2_EOT {
            return 0; // it stands between texts
        }
        let bytes = self.bytes(token).unwrap_or_default();
        bytes.iter().filter(|byte| !(0x80..0xc0).contains(*byte)).count() as u64
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use tiktoken_rs::r50k_base_singleton;

    use super::*;

    fn tokenizer() -> &'static Gpt2 {
        static GPT2: LazyLock<Gpt2> = LazyLock::new(Gpt2::new);
        &GPT2
    }

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
        fn parts_have_the_tokens_of_the_whole(text in "([ \t\r\n\u{a0}\u{3000}']{0,3}(ll|[sxqaé1,春眠不覺曉ぎカ한글🎭-]|\u{1}|\u{200b}|\\PC)){0,20}[ \n]{0,3}", size in 1usize..9) {
            let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
            let parts = gpt2.chunks(&text, size);
            prop_assert_eq!(parts.concat(), text.clone());
            let tokens: Vec<u32> = parts.into_iter().flat_map(|part| bpe.encode_ordinary(part)).collect();
            prop_assert_eq!(&tokens, &bpe.encode_ordinary(&text));
            prop_assert_eq!(tokens, gpt2.encode(&text).unwrap());
        }

        #[test]
        fn windows_have_the_tokens_of_the_whole(
            text in "[ab]{0,99}|[aeinrst]{0,99}|(a{0,9}h?){0,9}|[ \n]{0,30}x?|([-=.0]{0,9}|1{0,9}|'[slr]|'?[elv]{1,5}| {0,5}|é|\0|春){0,20}",
            size in 1usize..20,
        ) {
            let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
            prop_assert_eq!(gpt2.encode_by_windows(&text, size), bpe.encode_ordinary(&text));
        }

        #[test]
        fn odd_text_has_the_tokens_of_tiktoken(
            chars in prop::collection::vec(prop_oneof![any::<char>(), "['a-zA-Z0-9 \\s]".prop_map(|s| s.chars().next().unwrap())], 0..60),
            words in "( ?('(s|t|re|ve|m|ll|d|x|l|r)|[a-z]{1,12}|[0-9]{1,4}|[!-/]{1,5}|春+|[а-я]{1,20}|ǅ|Ⅷ|½|٣|\\s|🙂\u{200d})){0,30}",
        ) {
            let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
            for text in [chars.iter().collect(), words.clone(), words.repeat(9)] as [String; 3] {
                let tokens = bpe.encode_ordinary(&text);
                prop_assert_eq!(&gpt2.encode(&text).unwrap(), &tokens);
                prop_assert_eq!(&gpt2.encode(&text).unwrap(), &tokens, "from the cache");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn a_cut_by_tokens_has_the_tokens_of_the_whole_and_is_the_same_for_all_who_see_it(
            unit in "[ab]{1,9}|[aeinrst]{1,9}|ing|a{1,9}h?|[ \n]{1,3}|[-=.0]{1,9}|1{1,9}|'s|'[slr]l?|[а-я]{1,9}|([-=.0]{0,9}|'[slr]|[elv]{1,5}|é|春){1,9}",
            end in "[a-z ]{0,3}",
            at in 1usize..40,
        ) {
            // Longer than what can be seen of it, and than the margin.
            let gpt2 = tokenizer();
            let text = unit.repeat(9000 / unit.len()) + &end;
            let cut = gpt2.cut_within(&text, at, 8000);
            prop_assert!(at <= cut && cut <= at + 8003, "{}", cut);
            let seen = text.ceil_char_boundary(at + 8000);
            prop_assert_eq!(gpt2.cut_within(&text[..seen], at, 8000), cut);
            let (before, after) = text.split_at(cut);
            let parts = [gpt2.encode(before).unwrap(), gpt2.encode(after).unwrap()].concat();
            prop_assert_eq!(parts, r50k_base_singleton().encode_ordinary(&text));
        }
    }

    #[test]
    fn every_character_between_two_others_has_the_tokens_of_tiktoken() {
        let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
        let all: Vec<char> = ('\0'..=char::MAX).collect();
        for some in all.chunks(1000) {
            let text: String = some.iter().flat_map(|&c| ['a', c, ' ', c, '1', c, c, '\'', c]).collect();
            assert_eq!(gpt2.encode(&text).unwrap(), bpe.encode_ordinary(&text), "from {:?} on", some[0]);
        }
    }

    #[test]
    fn long_words_have_the_tokens_of_tiktoken() {
        let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
        for unit in ["a", "ab", "春", "-=", "a1", "\u{301}", "thequickbrownfoxjumps", "antidisestablishmentarianism"] {
            for count in [1, 7, 8, 15, 16, 49, 50, 99, 100, 101, 500, 3000] {
                let text = unit.repeat(count);
                assert_eq!(gpt2.encode(&text).unwrap(), bpe.encode_ordinary(&text), "{count} of {unit:?}");
            }
        }
    }

    #[test]
    fn no_run_of_one_kind_is_too_long() {
        let (bpe, gpt2) = (r50k_base_singleton(), tokenizer());
        for unit in [" ", "\n", "a", "0", "\0", "春"] {
            // More than a window. tiktoken itself gives up on a million spaces that something follows.
            let text = format!("x{}y", unit.repeat(1_100_000));
            let tokens = gpt2.encode(&text).unwrap();
            assert!(gpt2.decode(&tokens) == text, "{unit:?}");
            let alone = &text[1..text.len() - 1];
            assert!(gpt2.encode_by_windows(alone, 1 << 16) == bpe.encode_ordinary(alone), "{unit:?}");
        }
    }

    #[test]
    fn a_text_without_spaces_is_cut_into_small_parts() {
        let gpt2 = tokenizer();
        for text in ["春眠不覺曉處處聞啼鳥夜來風雨聲花落知多少", "나보기가역겨워가실때에는말없이고이보내드리우리다"]
        {
            let text = text.repeat(2000);
            let longest = gpt2.chunks(&text, 100).iter().map(|part| part.len()).max();
            assert!(longest < Some(300), "{longest:?}: {}", &text[..30]);
        }
    }
}
