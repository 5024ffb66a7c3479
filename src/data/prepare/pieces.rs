//! Documents cut into pieces that can be tokenized each for itself, in order. Where a piece ends follows from the texts
//! alone, never from how they were read or where the reading was begun again.

use std::mem;

use serde::{Deserialize, Serialize};

use super::documents::{Documents, Next, Place};
use crate::{
    base::Result,
    data::tokenizer::{Source, Tokenizer},
};

/// What stands between two documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Separator {
    /// A line's end, where the document before does not end with one.
    Newline,
    /// A token that no text becomes.
    Eot,
    /// Nothing.
    None,
}

/// Where texts are cut.
pub struct Cuts<'a> {
    /// How long a piece is at least, in bytes.
    least: usize,
    /// How long a piece gets without a tokenizer, within a document that has no line's end.
    most: usize,
    /// Knows where tokens do not change; without one, texts are cut after a line's end.
    tokenizer: Option<&'a dyn Tokenizer>,
}

impl<'a> Cuts<'a> {
    /// The cuts for a tokenizer of that source. Those of files do not say where a text may be cut, and take some two
    /// hundred bytes of memory for one of text: so the tokens of a longer document may be others at a cut than they would be
    /// without it.
    pub fn of(source: &Source, tokenizer: &'a dyn Tokenizer) -> Self {
        match source {
            Source::File(_) => Self { least: 1 << 18, most: 1 << 20, tokenizer: None },
            _ => Self { least: 1 << 20, most: usize::MAX, tokenizer: Some(tokenizer) },
        }
    }

    /// Where to cut a text: `start` is where its last document begins that does so before a cut is due, and `end` where
    /// that ends or, unless it `is_whole`, is to be read on. `None` where more of it has to be seen.
    fn find(&self, text: &str, start: usize, end: usize, is_whole: bool) -> Option<usize> {
        let most = start.saturating_add(self.most);
        let at = match self.tokenizer {
            Some(tokenizer) => start + tokenizer.cut(&text[start..end], self.least - start),
            // Not within a document that is short, where the piece is long because of those before it.
            None => line_end(&text[..end], start + self.least),
        };
        if at <= most && (at < end || is_whole) {
            return Some(at);
        }
        (end > most).then(|| text.ceil_char_boundary(most))
    }
}

/// The first place at `at` or after it where a line has ended, or the text has.
fn line_end(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at - 1..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(text.len(), |found| at + found)
}

/// Some text that is tokenized for itself.
pub struct Piece {
    /// The text.
    pub text: String,
    /// Where in it a document begins before which [`Separator::Eot`] stands.
    pub breaks: Vec<usize>,
    /// How many documents begin in it.
    pub documents: u64,
    /// Bytes of files read so far.
    pub read: u64,
    /// Where the next piece begins.
    pub next: Cursor,
}

impl Piece {
    /// Its documents, as far as they are in the piece; before each but the first a token stands.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.breaks.iter().copied());
        let ends = self.breaks.iter().copied().chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| &self.text[start..end])
    }
}

/// Where a piece begins, with what has to be known of the text before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cursor {
    /// The place.
    pub place: Place,
    /// Whether there is text before it.
    pub begun: bool,
    /// Whether that ends with a line's end.
    pub ended: bool,
}

/// The pieces of documents.
pub struct Pieces<'a> {
    documents: Documents<'a>,
    separator: Separator,
    cuts: Cuts<'a>,
    /// What was read and is in no piece yet.
    text: String,
    breaks: Vec<usize>,
    /// Where in it documents begin or go on.
    starts: Vec<(usize, Place)>,
    /// A document without text so far.
    empty: Option<Place>,
    cursor: Cursor,
    is_over: bool,
    /// Up to where no cut was found: before there is half as much again, none is looked for anew, since that would be done
    /// from the beginning.
    seen: usize,
}

impl<'a> Pieces<'a> {
    /// The pieces of documents, which begin at the place of `cursor`.
    pub fn new(documents: Documents<'a>, separator: Separator, cuts: Cuts<'a>, cursor: Cursor) -> Self {
        let (text, breaks, starts) = Default::default();
        Self { documents, separator, cuts, text, breaks, starts, empty: None, cursor, is_over: false, seen: 0 }
    }

    /// The next piece; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if self.is_over || self.text.len() >= self.seen + self.seen / 2 {
                if let Some(at) = self.cut() {
                    return Ok(Some(self.take(at)));
                }
                self.seen = if self.text.len() < self.cuts.least { 0 } else { self.text.len() };
            }
            if self.is_over {
                return Ok((!self.text.is_empty()).then(|| self.take(self.text.len())));
            }
            match self.documents.next()? {
                None => self.is_over = true,
                Some(Next::Document(place)) => self.empty = Some(place),
                Some(Next::Text(more)) => {
                    if let Some(place) = self.empty.take() {
                        if place.within == 0 && self.cursor.begun {
                            match self.separator {
                                Separator::Newline if !self.cursor.ended => self.text.push('\n'),
                                Separator::Eot => self.breaks.push(self.text.len()),
                                Separator::Newline | Separator::None => {}
                            }
                        }
                        self.starts.push((self.text.len(), place));
                    }
                    self.text.push_str(more);
                    (self.cursor.begun, self.cursor.ended) = (true, more.ends_with('\n'));
                }
            }
        }
    }

    /// Where the text that was read may be cut, and is long enough to be.
    fn cut(&self) -> Option<usize> {
        if self.text.len() < self.cuts.least {
            return None;
        }
        let after = self.breaks.partition_point(|&at| at <= self.cuts.least);
        let start = after.checked_sub(1).map_or(0, |last| self.breaks[last]);
        let end = self.breaks.get(after).copied();
        self.cuts.find(&self.text, start, end.unwrap_or(self.text.len()), end.is_some() || self.is_over)
    }

    fn take(&mut self, at: usize) -> Piece {
        self.seen = 0;
        let rest = self.text.split_off(at);
        let text = mem::replace(&mut self.text, rest);

        let later = self.breaks.split_off(self.breaks.partition_point(|&start| start < at));
        let breaks = mem::replace(&mut self.breaks, later.into_iter().map(|start| start - at).collect());

        let documents = self.starts.iter().filter(|(start, place)| *start < at && place.within == 0).count() as u64;
        let mut later = self.starts.split_off(self.starts.partition_point(|(start, _)| *start <= at));
        later.iter_mut().for_each(|(start, _)| *start -= at);
        if let Some(&(start, place)) = self.starts.last() {
            let within = place.within + (at - start) as u64;
            later.insert(0, (0, Place { within, ..place }));
        }
        self.starts = later;

        let place = self.starts.first().map_or(self.cursor.place, |(_, place)| *place);
        let next = Cursor { place, begun: true, ended: text.ends_with('\n') };
        Piece { text, breaks, documents, read: self.documents.read(), next }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use proptest::prelude::*;

    use super::*;
    use crate::data::prepare::input::Counter;

    /// All pieces of files, with small cuts; begun anew after each piece where `anew`.
    fn pieces(files: &[PathBuf], separator: Separator, source: &Source, anew: bool) -> Vec<(String, Vec<usize>, u64)> {
        let tokenizer = source.build("").unwrap();
        let (counter, mut cursor) = (Counter::default(), Cursor::default());
        let begin = |cursor: Cursor| {
            let tokenizer = Some(&*tokenizer).filter(|_| source.kind().word() != "byte");
            let cuts = Cuts { least: 20, most: 50, tokenizer };
            Pieces::new(Documents::at(files, cursor.place, Some("t"), &counter), separator, cuts, cursor)
        };
        let (mut found, mut left) = (Vec::new(), begin(cursor));
        while let Some(piece) = left.next().unwrap() {
            cursor = piece.next;
            found.push((piece.text, piece.breaks, piece.documents));
            if anew {
                left = begin(cursor);
            }
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn pieces_are_the_same_wherever_one_begins(
            texts in prop::collection::vec("(\u{feff})?([a-z]{0,9}[ \n春é]){0,12}", 1..6),
            lines in prop::collection::vec("([a-z\n]{0,9}[ \n春]){0,9}", 0..6),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut files = Vec::new();
            for (i, text) in texts.iter().enumerate() {
                files.push(dir.path().join(format!("{i}.txt")));
                fs::write(&files[i], text).unwrap();
            }
            let json = dir.path().join("lines.jsonl");
            let line = |text: &String| format!("{}\n", serde_json::json!({"t": text}));
            fs::write(&json, lines.iter().map(line).collect::<String>()).unwrap();
            files.insert(texts.len() / 2, json);

            let mut documents: Vec<&str> = texts.iter().map(|text| text.trim_start_matches('\u{feff}')).collect();
            let _ = documents.splice(texts.len() / 2..texts.len() / 2, lines.iter().map(String::as_str));
            documents.retain(|text| !text.is_empty());
            for separator in [Separator::Newline, Separator::Eot, Separator::None] {
                for source in [Source::Gpt2, Source::Byte] {
                    let straight = pieces(&files, separator, &source, false);
                    prop_assert_eq!(&straight, &pieces(&files, separator, &source, true));
                    prop_assert_eq!(straight.iter().map(|(_, _, n)| *n).sum::<u64>(), documents.len() as u64);
                    let all: String = straight.iter().map(|(text, ..)| text.as_str()).collect();
                    let breaks: usize = straight.iter().map(|(_, breaks, _)| breaks.len()).sum();
                    match separator {
                        Separator::Newline => {
                            let mut joined = String::new();
                            for text in &documents {
                                if !joined.is_empty() && !joined.ends_with('\n') {
                                    joined.push('\n');
                                }
                                joined.push_str(text);
                            }
                            prop_assert_eq!(all, joined);
                        }
                        _ => prop_assert_eq!(all, documents.concat()),
                    }
                    let wanted = if separator == Separator::Eot { documents.len().saturating_sub(1) } else { 0 };
                    prop_assert_eq!(breaks, wanted);
                    prop_assert!(straight.iter().all(|(text, ..)| text.len() <= 20 + 50 + 4), "{:?}", straight);
                }
            }
        }
    }
}
