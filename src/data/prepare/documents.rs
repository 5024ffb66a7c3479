//! The documents of files, one after another: a file of text is one, and of a file of JSON lines each line has one.
//!
//! A text comes in parts as it is read and is never held whole; a JSON line is.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    str,
    sync::atomic::Ordering,
};

use serde::{Deserialize, Serialize, de};

use super::input::{Counter, Stream, is_lines};
use crate::{
    base::{Error, Exit, Result},
    data::text::{not_utf8, reading},
};

/// How much text comes at a time, in bytes.
const PART: usize = 1 << 16;

/// The longest JSON line, in bytes: it has to fit into memory twice, as it is written and as what it means.
const LONGEST_LINE: u64 = 1 << 28;

const BOM: &[u8] = "\u{feff}".as_bytes();

/// A place in the texts of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Which file, from 0.
    pub file: usize,
    /// Where its document begins, in bytes of what the file holds when decompressed.
    pub offset: u64,
    /// Lines before that.
    pub line: u64,
    /// Bytes of the document's text before the place.
    pub within: u64,
}

/// What comes next.
pub enum Next<'a> {
    /// A document begins, or goes on where the place is within it.
    Document(Place),
    /// Some of its text.
    Text(&'a str),
}

/// The documents of files from a place on.
pub struct Documents<'a> {
    files: &'a [PathBuf],
    field: Option<&'a str>,
    counter: Counter,
    /// Where the document that is read, or the one to be read next, stands.
    place: Place,
    open: Option<Open>,
    /// What was given out last.
    text: String,
}

/// A file that is being read.
enum Open {
    Text(Text),
    Lines(Lines),
}

impl<'a> Documents<'a> {
    /// Those of `files` from `place` on; `field` is where the lines of JSON have their text.
    pub fn at(files: &'a [PathBuf], place: Place, field: Option<&'a str>, counter: &Counter) -> Self {
        Self { files, field, counter: counter.clone(), place, open: None, text: String::new() }
    }

    /// Bytes of files read so far.
    pub fn read(&self) -> u64 {
        self.counter.read.load(Ordering::Relaxed)
    }

    /// What comes next; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Next<'_>>> {
        self.text.clear();
        loop {
            let Some(path) = self.files.get(self.place.file) else { return Ok(None) };
            let found = match &mut self.open {
                None if is_lines(path) => {
                    let stream = Stream::open(path, self.place.offset, &self.counter)?;
                    let lines = BufReader::with_capacity(PART, stream);
                    self.open = Some(Open::Lines(Lines { lines, next: self.place, text: String::new(), given: 0 }));
                    continue;
                }
                None => {
                    self.open = Some(Open::Text(Text::open(path, self.place.within, &self.counter)?));
                    return Ok(Some(Next::Document(self.place)));
                }
                Some(Open::Text(text)) => text.read(&mut self.text)?,
                Some(Open::Lines(lines)) => match lines.read(&mut self.text) {
                    true => true,
                    false => match lines.advance(self.field.unwrap_or_default())? {
                        Some(place) => {
                            self.place = place;
                            return Ok(Some(Next::Document(place)));
                        }
                        None => false,
                    },
                },
            };
            if found {
                return Ok(Some(Next::Text(&self.text)));
            }
            self.open = None;
            self.place = Place { file: self.place.file + 1, ..Place::default() };
        }
    }
}

/// A file that is one document.
struct Text {
    stream: Stream,
    /// Bytes that were read and not given out yet: the beginning of a character.
    held: Vec<u8>,
    /// Where they stand in the file.
    at: u64,
}

impl Text {
    fn open(path: &Path, within: u64, counter: &Counter) -> Result<Self> {
        let mut head = Vec::new();
        let stream = Stream::open(path, 0, &Counter::default())?;
        let mut start = stream.take(BOM.len() as u64);
        let read = start.read_to_end(&mut head);
        read.map_err(|e| start.get_ref().fault(&e))?;
        let at = within + if head == BOM { BOM.len() as u64 } else { 0 };
        Ok(Self { stream: Stream::open(path, at, counter)?, held: Vec::new(), at })
    }

    /// Adds the next part; `false` at the end.
    fn read(&mut self, out: &mut String) -> Result<bool> {
        loop {
            let before = self.held.len();
            self.held.resize(PART, 0);
            let count = self.stream.read(&mut self.held[before..]).map_err(|e| self.stream.fault(&e))?;
            self.held.truncate(before + count);
            let whole = match str::from_utf8(&self.held) {
                Ok(text) => text,
                // A character whose end is still to be read.
                Err(e) if e.error_len().is_none() && count > 0 => {
                    str::from_utf8(&self.held[..e.valid_up_to()]).unwrap_or_default()
                }
                Err(e) => {
                    let at = e.valid_up_to();
                    return Err(not_utf8(self.stream.path(), self.at + at as u64, self.held[at]));
                }
            };
            if count == 0 {
                return Ok(false);
            }
            let length = whole.len();
            out.push_str(whole);
            self.held.drain(..length);
            self.at += length as u64;
            if length > 0 {
                return Ok(true);
            }
        }
    }
}

/// A file each of whose lines has a document.
struct Lines {
    lines: BufReader<Stream>,
    /// The line to be read next.
    next: Place,
    /// The document of the line before it, and how much of it was given out.
    text: String,
    given: usize,
}

impl Lines {
    /// Adds the next part of the document; `false` at its end.
    fn read(&mut self, out: &mut String) -> bool {
        let rest = &self.text[self.given..];
        let part = &rest[..rest.floor_char_boundary(PART)];
        out.push_str(part);
        self.given += part.len();
        !part.is_empty()
    }

    /// Goes on to the next line's document; `None` at the end.
    fn advance(&mut self, field: &str) -> Result<Option<Place>> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.lines).take(LONGEST_LINE).read_until(b'\n', &mut line);
            read.map_err(|e| self.lines.get_ref().fault(&e))?;
            if line.is_empty() {
                return Ok(None);
            }
            let place = self.next;
            self.next = Place { offset: place.offset + line.len() as u64, line: place.line + 1, within: 0, ..place };
            let bare = if place.offset == 0 { line.strip_prefix(BOM).unwrap_or(&line) } else { &line };
            if bare.trim_ascii().is_empty() {
                continue;
            }
            let fault = |why: String| {
                let path = self.lines.get_ref().path();
                Error::new(Exit::Spec, reading(path), format!("{}, line {}: {why}", path.display(), place.line + 1))
            };
            if line.len() as u64 == LONGEST_LINE {
                return Err(fault(format!("it is longer than {} MiB", LONGEST_LINE >> 20)));
            }
            self.text = text_of(bare, field).map_err(fault)?;
            self.given = usize::try_from(place.within).unwrap_or(usize::MAX);
            if !self.text.is_char_boundary(self.given) {
                return Err(fault("it is not what it was".into()));
            }
            return Ok(Some(place));
        }
    }
}

/// The text that a line of JSON has in a field, or why it has none.
fn text_of(line: &[u8], field: &str) -> Result<String, String> {
    let line = str::from_utf8(line).map_err(|e| format!("it is not UTF-8 from its byte {} on", e.valid_up_to()))?;
    let mut parser = serde_json::Deserializer::from_str(line);
    let text = de::DeserializeSeed::deserialize(Field(field), &mut parser).and_then(|text| parser.end().map(|()| text));
    match text {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(format!("it has no field `{field}`")),
        Err(e) if e.is_data() => Err(format!("no object whose field `{field}` is a string: {}", place_free(&e))),
        Err(e) => Err(format!("it is no JSON: {} (column {})", place_free(&e), e.column())),
    }
}

/// An error of the parser without its line, which is always the first.
fn place_free(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// Takes one field's string out of an object and reads past all others. Of several fields of the name the last counts, as
/// for most who read JSON.
struct Field<'a>(&'a str);

impl<'de> de::DeserializeSeed<'de> for Field<'_> {
    type Value = Option<String>;

    fn deserialize<D: de::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> de::Visitor<'de> for Field<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == self.0 {
                text = Some(map.next_value()?);
            } else {
                map.next_value::<de::IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_text_in_a_field() {
        let text = |line: &str| text_of(line.as_bytes(), "text");
        assert_eq!(text(r#"{"id": [1, {"text": "no"}], "text": "a\n\u00e9\ud83d\ude00"}"#).unwrap(), "a\né😀");
        assert_eq!(text(r#"{"text": "first", "text": "last"}"#).unwrap(), "last");
        for (line, wanted) in [
            (r#"{"id": 1}"#, "it has no field `text`"),
            (r#"{"text": 5}"#, "invalid type: integer `5`, expected a string"),
            (r#"{"text": null}"#, "expected a string"),
            (r#"["text"]"#, "expected an object"),
            (r#"{"text": "a"} {"#, "trailing characters"),
            (r#"{"text": "a"#, "it is no JSON: EOF"),
            ("text", "it is no JSON"),
        ] {
            let error = text(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
        assert!(text_of(b"{\"text\": \"\xff\"}", "text").unwrap_err().contains("byte 10"));
    }
}
