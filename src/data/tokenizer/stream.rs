//! Text as its tokens come.

use super::Tokenizer;

/// Tokens of which the text may still change with the next one: after so many it is given out as it is.
const PATIENCE: usize = 8;

/// Turns tokens into text one by one. A token may be a part of a character, and what one stands for may depend on the one
/// before it; so a piece of text is given out when the tokens after it no longer change it.
pub struct TextStream<'a> {
    tokenizer: &'a dyn Tokenizer,
    tokens: Vec<u32>,
    /// Where the tokens begin whose text is looked at.
    from: usize,
    /// Up to where their text was given out.
    given: usize,
}

impl<'a> TextStream<'a> {
    /// A stream that goes on after `before`, whose text is known.
    pub fn after(tokenizer: &'a dyn Tokenizer, before: &[u32]) -> Self {
        let tokens = before[before.len().saturating_sub(PATIENCE)..].to_vec();
        Self { tokenizer, from: 0, given: tokens.len(), tokens }
    }

    /// Takes a token and gives the text that is now certain, if any.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        let is_late = self.tokens.len() - self.given >= PATIENCE;
        self.text(is_late)
    }

    /// The rest.
    pub fn end(mut self) -> String {
        self.text(true)
    }

    fn text(&mut self, at_any_rate: bool) -> String {
        let before = self.tokenizer.decode(&self.tokens[self.from..self.given]);
        let text = self.tokenizer.decode(&self.tokens[self.from..]);
        if text.ends_with(char::REPLACEMENT_CHARACTER) && !at_any_rate {
            return String::new();
        }
        // What was given out stays, even where the tokens after it would have changed it.
        let new = text.strip_prefix(&before).or_else(|| text.get(before.len()..)).unwrap_or_default().to_owned();
        (self.from, self.given) = (self.given, self.tokens.len());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tokenizer::Source;

    #[test]
    fn pieces_put_together_are_the_text() {
        let text = "Hello, wörld! 日本語 👩‍👩‍👧 \u{1f600}\n  done";
        for source in [Source::Char, Source::Byte, Source::Gpt2] {
            let tokenizer = source.build(text).unwrap();
            let tokens = tokenizer.encode(text).unwrap();
            for known in [0, 1, tokens.len() / 2] {
                // Cut where the text can be cut.
                let head = tokenizer.decode(&tokens[..known]);
                if head.contains(char::REPLACEMENT_CHARACTER) {
                    continue;
                }
                let mut stream = TextStream::after(&*tokenizer, &tokens[..known]);
                let pieces: Vec<String> = tokens[known..].iter().map(|&token| stream.push(token)).collect();
                assert!(pieces.iter().all(|piece| !piece.contains(char::REPLACEMENT_CHARACTER)), "{pieces:?}");
                assert_eq!(head + &pieces.concat() + &stream.end(), text);
            }
        }
    }

    #[test]
    fn what_is_no_text_is_given_out_in_the_end() {
        let tokenizer = Source::Byte.build("").unwrap();
        let mut stream = TextStream::after(&*tokenizer, &[]);
        assert_eq!(stream.push(0xe6), "", "it may become a character");
        assert_eq!(stream.end(), "\u{fffd}");
        let mut stream = TextStream::after(&*tokenizer, &[]);
        let given: String = (0..PATIENCE).map(|_| stream.push(0x80)).collect();
        assert!(!given.is_empty(), "and is not waited for for ever");
    }
}
