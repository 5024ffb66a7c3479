//! A token is a number, and its text is that number: for tokens that stand for no language.

use super::Tokenizer;
use crate::base::{Error, Exit, Result};

/// Numbers below a highest one, with white space between them.
pub struct Ids {
    below: u32,
}

impl Ids {
    /// All up to the highest that a text has.
    ///
    /// # Errors
    /// [`Exit::Spec`] where the text has what is no number below 2³².
    pub fn of(text: &str) -> Result<Self> {
        let mut below = 0;
        for word in text.split_whitespace() {
            below = below.max(number(word, u32::MAX)? + 1);
        }
        Ok(Self { below })
    }

    /// So many.
    pub fn below(below: usize) -> Self {
        Self { below: u32::try_from(below).unwrap_or(u32::MAX) }
    }
}

fn number(word: &str, below: u32) -> Result<u32> {
    word.parse().ok().filter(|id| *id < below).ok_or_else(|| {
        let why = format!("{word:?} is no number below {below}");
        Error::new(Exit::Spec, "reading tokens as numbers", why)
            .hint("to the tokenizer `ids` a text is numbers with white space between them: 17 4 256")
    })
}

impl Tokenizer for Ids {
    fn vocab_size(&self) -> usize {
        self.below as usize
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        text.split_whitespace().map(|word| number(word, self.below)).collect()
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|id| format!("{id} ")).collect()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        let mut starts = text
            .char_indices()
            .scan(true, |after_space, (at, c)| {
                let starts = *after_space && !c.is_whitespace();
                *after_space = c.is_whitespace();
                Some(starts.then_some(at))
            })
            .flatten();
        Ok(if count == 0 { 0 } else { starts.nth(count).unwrap_or(text.len()) })
    }

    fn cut(&self, text: &str, at: usize) -> usize {
        let at = text.ceil_char_boundary(at);
        text[at..].find(char::is_whitespace).map_or(text.len(), |space| at + space)
    }

    fn chars_of(&self, _token: u32) -> u64 {
        1
    }

    fn alphabet(&self) -> Option<String> {
        Some(self.below.saturating_sub(1).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_tokens() {
        let ids = Ids::of(" 3 1\n4\t15 ").unwrap();
        assert_eq!(ids.vocab_size(), 16);
        assert_eq!(ids.encode(" 3 1\n4\t15 ").unwrap(), [3, 1, 4, 15]);
        assert_eq!(ids.decode(&[3, 1, 4]), "3 1 4 ");
        assert_eq!((0..5).map(|n| ids.prefix_len("3 1\n4  15 ", n).unwrap()).collect::<Vec<_>>(), [0, 2, 4, 7, 10]);
        assert_eq!(ids.cut("17 4 256", 1), 2, "never within a number");
        assert_eq!(Ids::of(&ids.alphabet().unwrap()).unwrap().vocab_size(), 16);
        for (text, below) in [("3 x", 16), ("16", 16), ("-1", 16), ("4294967296", u32::MAX as usize)] {
            let error = Ids::below(below).encode(text).unwrap_err().to_string();
            assert!(error.contains("is no number below"), "{error}");
        }
    }
}
