//! GPT-2's byte-level BPE: tiktoken's `r50k_base`, without special tokens in texts.

use rayon::prelude::*;
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

use super::Tokenizer;
use crate::base::Result;

/// 256 bytes, 50,000 merges, and `<|endoftext|>`, which no text becomes.
const VOCAB: u32 = 50_257;

/// How much text a thread takes at a time, in bytes.
const CHUNK: usize = 1 << 16;

/// How much text a thread encodes at once where there is no place to cut it, in bytes: one long word takes some fifty
/// times its size of memory.
const WINDOW: usize = 1 << 20;

/// How many tokens are given back at most where two windows do not fit together.
const RETRIES: usize = 64;

/// Encodes like `tiktoken.get_encoding("gpt2").encode_ordinary`, in parallel.
pub struct Gpt2 {
    bpe: &'static CoreBPE,
    /// The bytes of each token.
    tokens: Vec<Vec<u8>>,
    /// Whether two bytes, the first times 256 plus the second, follow each other in some token.
    pairs: Vec<bool>,
}

impl Gpt2 {
    /// The tokenizer. Its vocabulary is unpacked once per process.
    pub fn new() -> Self {
        let bpe = r50k_base_singleton();
        // The ids have no gap; a test goes through them.
        let tokens: Vec<Vec<u8>> = (0..VOCAB).map(|id| bpe.decode_bytes(&[id]).unwrap_or_default()).collect();
        let mut pairs = vec![false; 1 << 16];
        for pair in tokens.iter().flat_map(|bytes| bytes.windows(2)) {
            pairs[pair_of(pair[0], pair[1])] = true;
        }
        Self { bpe, tokens, pairs }
    }

    /// The first place at `at` or after it that is
    ///
    /// - before a white space with none behind it. GPT-2's pattern never matches across it: a word takes at most the one
    ///   space before it, and of longer white space the last character is left for what follows. The part before it ends
    ///   with what the whole has there, since a pattern that looks ahead (`\s+(?!\S)`) finds the end of the text as good
    ///   as another white space;
    /// - or amid other text between two bytes that no token has side by side, as most Chinese and Korean characters have
    ///   them at their borders. Tokens never grow across it, and the second part is matched as in the whole: anew where a
    ///   match of the whole ends, and as the rest of one where that is of many characters of one kind. An apostrophe may be
    ///   the last of such, and would begin a `'s` anew.
    ///
    /// So the tokens of the parts are those of the whole.
    fn cut(&self, text: &str, at: usize) -> usize {
        let at = text.ceil_char_boundary(at);
        let mut before = text[..at].chars().next_back();
        let mut chars = text[at..].char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            let place = at + offset;
            let is_spaced = c.is_whitespace() && chars.peek().is_some_and(|(_, next)| !next.is_whitespace());
            let is_amid = before.is_some_and(|before| !before.is_whitespace()) && c != '\'';
            if is_spaced || is_amid && !self.pairs[pair_of(text.as_bytes()[place - 1], text.as_bytes()[place])] {
                return place;
            }
            before = Some(c);
        }
        text.len()
    }

    /// A text in parts of at least `size` bytes whose tokens are those of the whole.
    fn chunks<'a>(&self, text: &'a str, size: usize) -> Vec<&'a str> {
        let (mut chunks, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.cut(rest, size));
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }

    /// The tokens of a text that may be one long word, by windows of `size` bytes.
    ///
    /// A sequence of tokens is what a word becomes if and only if each two that follow each other are what their own text
    /// becomes (van Antwerpen and Neubeck, "So many tokens, so little time", 2024). So the windows need to agree only on
    /// the two tokens where they meet. The last token of a window did not see what follows, and is left to the next.
    fn encode_by_windows(&self, text: &str, size: usize) -> Vec<u32> {
        let (mut tokens, mut from, mut retries) = (Vec::new(), 0, 0);
        let mut to = seam(text, size);
        loop {
            let next = self.bpe.encode_ordinary(&text[from..to]);
            let meet = tokens.last().copied().zip(next.first().copied());
            if meet.is_none_or(|(a, b)| self.stand_together(a, b)) {
                tokens.extend(next);
                if to == text.len() {
                    return tokens;
                }
                (from, to) = (to, seam(text, to + size));
            } else {
                retries += 1;
            }
            from -= tokens.pop().map_or(0, |token| self.tokens[token as usize].len());
            if retries > RETRIES || !text.is_char_boundary(from) {
                return self.bpe.encode_ordinary(text);
            }
        }
    }

    /// Whether the text of two tokens becomes these two.
    fn stand_together(&self, a: u32, b: u32) -> bool {
        let both = [&self.tokens[a as usize][..], &self.tokens[b as usize]].concat();
        String::from_utf8(both).is_ok_and(|text| self.bpe.encode_ordinary(&text) == [a, b])
    }
}

fn pair_of(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// The first place at `at` or after it amid characters of one kind, where GPT-2's pattern goes on as it would anew; the end
/// where there is none. Three stand before it, since two may belong to a `'ll`, and two after it, since of white space the
/// pattern leaves the last one for what follows.
fn seam(text: &str, at: usize) -> usize {
    let kind = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' => Some(0),
        b'0'..=b'9' => Some(1),
        b' ' | b'\t'..=b'\r' => Some(2),
        b'\'' | 0x80.. => None, // which begins `'s`; other characters
        _ => Some(3),
    };
    let mut places = at.max(3)..text.len().saturating_sub(1);
    let is_one_kind = |part: &[u8]| kind(&part[0]).is_some() && part.iter().all(|byte| kind(byte) == kind(&part[0]));
    places.find(|&place| is_one_kind(&text.as_bytes()[place - 3..place + 2])).unwrap_or(text.len())
}

impl Tokenizer for Gpt2 {
    fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encode = |chunk: &str| match chunk.len() {
            0..=WINDOW => self.bpe.encode_ordinary(chunk),
            _ => self.encode_by_windows(chunk, WINDOW),
        };
        let tokens: Vec<Vec<u32>> = self.chunks(text, CHUNK).into_par_iter().map(encode).collect();
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
        self.cut(text, at)
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn tokenizer() -> &'static Gpt2 {
        static GPT2: LazyLock<Gpt2> = LazyLock::new(Gpt2::new);
        &GPT2
    }

    #[test]
    fn the_vocabulary_is_whole() {
        let gpt2 = tokenizer();
        assert!(gpt2.tokens.iter().all(|bytes| !bytes.is_empty()));
        assert_eq!(gpt2.tokens[50_256], b"<|endoftext|>");
        assert!(gpt2.bpe.decode_bytes(&[VOCAB]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn parts_have_the_tokens_of_the_whole(text in "([ \t\r\n\u{a0}\u{3000}']{0,3}(ll|[sxqaé1,春眠不覺曉ぎカ한글🎭-]|\u{1}|\u{200b}|\\PC)){0,20}[ \n]{0,3}", size in 1usize..9) {
            let gpt2 = tokenizer();
            let parts = gpt2.chunks(&text, size);
            prop_assert_eq!(parts.concat(), text.clone());
            let tokens: Vec<u32> = parts.into_iter().flat_map(|part| gpt2.bpe.encode_ordinary(part)).collect();
            prop_assert_eq!(tokens, gpt2.bpe.encode_ordinary(&text));
        }

        #[test]
        fn windows_have_the_tokens_of_the_whole(
            text in "[ab]{0,99}|[aeinrst]{0,99}|(a{0,9}h?){0,9}|[ \n]{0,30}x?|([-=.0]{0,9}|1{0,9}|'[slr]|'?[elv]{1,5}| {0,5}|é|\0|春){0,20}",
            size in 1usize..20,
        ) {
            let gpt2 = tokenizer();
            prop_assert_eq!(gpt2.encode_by_windows(&text, size), gpt2.bpe.encode_ordinary(&text));
        }
    }

    #[test]
    fn no_run_of_one_kind_is_too_long() {
        let gpt2 = tokenizer();
        for unit in [" ", "\n", "a", "0", "\0", "春"] {
            // More than a window. tiktoken itself gives up on a million spaces that something follows.
            let text = format!("x{}y", unit.repeat(1_100_000));
            let tokens = gpt2.encode(&text).unwrap();
            assert!(gpt2.decode(&tokens) == text, "{unit:?}");
            let alone = &text[1..text.len() - 1];
            assert!(gpt2.encode_by_windows(alone, 1 << 16) == gpt2.bpe.encode_ordinary(alone), "{unit:?}");
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
