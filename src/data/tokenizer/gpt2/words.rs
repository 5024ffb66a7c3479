//! GPT-2's pattern, which splits a text into the words that byte pairs are merged within:
//!
//! ```text
//! 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//! ```
//!
//! By hand, since a general engine for a pattern that looks ahead takes most of the time that tokenizing takes. What a
//! letter, a number and a space is are the tables of that engine's own crate.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// What a character is to the pattern.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Letter,
    Number,
    Space,
    Other,
}

/// The kind of each code point.
static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = vec![Kind::Other; char::MAX as usize + 1];
    for (pattern, kind) in [(r"\p{L}", Kind::Letter), (r"\p{N}", Kind::Number), (r"\s", Kind::Space)] {
        let class = regex_syntax::parse(pattern).map(|class| class.into_kind());
        let Ok(HirKind::Class(Class::Unicode(class))) = class else { unreachable!("{pattern} is a class") };
        for range in class.ranges() {
            kinds[range.start() as usize..=range.end() as usize].fill(kind);
        }
    }
    kinds
});

/// The kind of a character.
pub fn kind(c: char) -> Kind {
    KINDS[c as usize]
}

/// The words of a text, in order; put together they are the text.
pub struct Words<'a> {
    rest: &'a str,
    kinds: &'static [Kind],
}

impl<'a> Words<'a> {
    pub fn of(text: &'a str) -> Self {
        Self { rest: text, kinds: &KINDS }
    }

    /// The kind of the character that begins at byte `at`, and where the next one begins.
    fn kind(&self, at: usize) -> Option<(Kind, usize)> {
        let first = *self.rest.as_bytes().get(at)?;
        if first.is_ascii() {
            return Some((self.kinds[first as usize], at + 1));
        }
        let c = self.rest[at..].chars().next()?;
        Some((self.kinds[c as usize], at + c.len_utf8()))
    }

    /// Where the run of one kind ends that is going on at byte `at`, and where its last character from there on begins.
    fn run(&self, kind: Kind, mut at: usize) -> (usize, usize) {
        let mut last = at;
        while let Some((next, after)) = self.kind(at) {
            if next != kind {
                break;
            }
            (last, at) = (at, after);
        }
        (at, last)
    }

    /// Where the first word ends.
    fn end(&self) -> Option<usize> {
        let (kind, after) = self.kind(0)?;
        let bytes = self.rest.as_bytes();
        match bytes {
            [b'\'', b's' | b't' | b'm' | b'd', ..] => return Some(2),
            [b'\'', b'r' | b'v', b'e', ..] | [b'\'', b'l', b'l', ..] => return Some(3),
            _ if kind != Kind::Space => return Some(self.run(kind, after).0),
            _ => {}
        }
        if bytes[0] == b' '
            && let Some((kind, after)) = self.kind(1)
            && kind != Kind::Space
        {
            return Some(self.run(kind, after).0);
        }
        let (end, last) = self.run(Kind::Space, 0);
        // Of spaces before a word the last is left: it may belong to the word.
        Some(if end == bytes.len() || last == 0 { end } else { last })
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (word, rest) = self.rest.split_at(self.end()?);
        self.rest = rest;
        Some(word)
    }
}
