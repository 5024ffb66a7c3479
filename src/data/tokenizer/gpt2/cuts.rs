//! Where a text may be cut so that the tokens of the parts are those of the whole, and what to do where it may not.

use super::{
    CHUNK, Gpt2, WINDOW,
    words::{self, Words},
};

/// How many tokens are given back at most where two windows do not fit together.
const RETRIES: usize = 64;

/// How far from its end, in bytes, a part of a text no longer tells that it is one, by the tokens that it has there.
const MARGIN: usize = 1 << 12;

impl Gpt2 {
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
    pub(super) fn place(&self, text: &str, at: usize) -> Option<usize> {
        let at = text.ceil_char_boundary(at);
        let mut before = text[..at].chars().next_back();
        let mut chars = text[at..].char_indices().peekable();
        while let Some((offset, c)) = chars.next() {
            let place = at + offset;
            let is_spaced = c.is_whitespace() && chars.peek().is_some_and(|(_, next)| !next.is_whitespace());
            let is_amid = before.is_some_and(|before| !before.is_whitespace()) && c != '\'';
            if is_spaced || is_amid && !self.vocabulary.has_pair(text.as_bytes()[place - 1], text.as_bytes()[place]) {
                return Some(place);
            }
            before = Some(c);
        }
        None
    }

    /// The first [`place`](Self::place), where there is one within the next `reach` bytes or the text ends there. Else one
    /// that is found by the tokens: where a word of GPT-2's pattern ends, or where two tokens of a long word meet.
    ///
    /// It follows from the text before `at + reach` alone, so whoever has seen so much of a text cuts it alike.
    pub(super) fn cut_within(&self, text: &str, at: usize, reach: usize) -> usize {
        let to = text.ceil_char_boundary(at + reach);
        let place = self.place(&text[..to], at);
        place.unwrap_or_else(|| if text.len() < at + reach { to } else { self.cut_long(&text[..to], at) })
    }

    /// A cut between `at` and the end of a text that goes on, and has no place between them.
    ///
    /// What follows has its influence on tokens only through those beside it, each merged later than the one behind it; so
    /// it ends within a [`MARGIN`], and the tokens before that are those of the whole. (A text made for it could reach
    /// further: then two tokens at the cut are others than they would be in the whole.)
    fn cut_long(&self, text: &str, at: usize) -> usize {
        let last = self.chunks(text, CHUNK).pop().unwrap_or_default();
        let from = text.len() - last.len();
        let inner = at + 1..text.len().saturating_sub(MARGIN).max(at + 1);

        // A word that ends with white space would take more of it where the text ends.
        let (mut end, mut found) = (from, None);
        for word in Words::of(last) {
            end += word.len();
            let is_spaced = word.ends_with(char::is_whitespace);
            found = Some(end).filter(|end| !is_spaced && inner.contains(end)).or(found);
        }
        let mut place = text.len();
        let meets = || {
            let tokens = self.encode_part(last);
            tokens.into_iter().rev().find_map(|token| {
                place -= self.vocabulary.tokens[token as usize].len();
                (inner.contains(&place) && is_amid(text, place)).then_some(place)
            })
        };
        found.or_else(meets).unwrap_or(text.len())
    }

    /// The tokens of a part of a text, in this thread.
    pub(super) fn encode_part(&self, part: &str) -> Vec<u32> {
        if part.len() <= WINDOW { self.encode_chunk(part) } else { self.encode_by_windows(part, WINDOW) }
    }

    /// A text in parts of at least `size` bytes whose tokens are those of the whole.
    pub(super) fn chunks<'a>(&self, text: &'a str, size: usize) -> Vec<&'a str> {
        let (mut chunks, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.place(rest, size).unwrap_or(rest.len()));
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
    pub(super) fn encode_by_windows(&self, text: &str, size: usize) -> Vec<u32> {
        let (mut tokens, mut from, mut retries) = (Vec::new(), 0, 0);
        let mut to = seam(text, size);
        loop {
            let next = self.encode_chunk(&text[from..to]);
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
            from -= tokens.pop().map_or(0, |token| self.vocabulary.tokens[token as usize].len());
            if retries > RETRIES || !text.is_char_boundary(from) {
                return self.encode_chunk(text);
            }
        }
    }

    /// Whether the text of two tokens becomes these two.
    fn stand_together(&self, a: u32, b: u32) -> bool {
        let both = [&self.vocabulary.tokens[a as usize][..], &self.vocabulary.tokens[b as usize]].concat();
        String::from_utf8(both).is_ok_and(|text| self.encode_chunk(&text) == [a, b])
    }
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

/// Whether GPT-2's pattern goes on at a place as it would anew, being amid characters of one kind there: as for a [`seam`].
fn is_amid(text: &str, place: usize) -> bool {
    let Some((before, after)) = text.split_at_checked(place) else { return false };
    let kind = after.chars().next().map(words::kind);
    let mut around = before.chars().rev().take(3).chain(after.chars().take(2)).map(words::kind).map(Some);
    !after.starts_with('\'') && before.chars().nth_back(2).is_some() && around.all(|other| other == kind)
}
