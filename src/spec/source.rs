//! The texts that a spec is made of, places in them, and faults drawn at a place as compilers draw theirs. Knows nothing
//! of YAML or of leaves.

use std::{
    fmt::{self, Write},
    ops::Range,
    path::Path,
    sync::Arc,
};

use crate::base::{Error, Exit};

/// A text that settings come from.
pub(super) struct Source {
    origin: Origin,
    text: String,
}

#[derive(Debug)]
enum Origin {
    /// A file, by the path that it was named by.
    File(String),
    /// An argument of the command line.
    Argument,
}

impl Source {
    /// A file's text.
    pub fn file(path: &Path, text: String) -> Arc<Self> {
        Arc::new(Self { origin: Origin::File(path.display().to_string()), text })
    }

    /// An argument as it stood on the command line.
    pub fn argument(text: String) -> Arc<Self> {
        Arc::new(Self { origin: Origin::Argument, text })
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text of a line, counted from 1. Lines end as in YAML: `\n`, `\r\n` or `\r`.
    pub fn line(&self, number: u32) -> &str {
        let ends = |c| c == '\n' || c == '\r';
        let mut rest = self.text.as_str();
        for _ in 1..number {
            let Some(end) = rest.find(ends) else { return "" };
            rest = rest[end..].strip_prefix("\r\n").unwrap_or(&rest[end + 1..]);
        }
        rest.split(ends).next().unwrap_or_default()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f) // not the text, which every place would repeat
    }
}

/// A stretch of one line of a text.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Whose text.
    pub source: Arc<Source>,
    /// From 1.
    pub line: u32,
    /// In characters, from 0.
    pub column: u32,
    /// In characters; a caret is drawn even where it is 0.
    pub width: u32,
}

impl Place {
    /// Where a part of a scalar stands: bytes of `text`, which is what the scalar is read as. All of it where it is not
    /// written so: over several lines, with escapes, by an alias.
    pub fn part(&self, text: &str, part: Range<usize>) -> Self {
        let is_written = |quote: &usize| {
            let written = self.source.line(self.line).chars().skip(self.column as usize + quote);
            written.take(text.chars().count()).eq(text.chars())
        };
        let Some(quote) = [0, 1].into_iter().find(is_written) else { return self.clone() };
        let chars = |bytes: Range<usize>| text.get(bytes).map_or(0, |text| text.chars().count()) as u32;
        Self { column: self.column + quote as u32 + chars(0..part.start), width: chars(part), ..self.clone() }
    }
}

/// What is wrong with a spec, and where. Becomes an [`Error`] once the spec's own name is known.
#[derive(Debug)]
pub(super) struct Fault {
    why: String,
    place: Option<Place>,
    other: Option<(Place, String)>,
    hint: Option<String>,
    exit: Exit,
}

/// A result whose error is a [`Fault`].
pub(super) type Result<T> = std::result::Result<T, Box<Fault>>;

impl Fault {
    /// A fault at a place.
    pub fn at(place: &Place, why: impl Into<String>) -> Box<Self> {
        Self::new(Some(place.clone()), why)
    }

    /// A fault at a place where there is one.
    pub fn new(place: Option<Place>, why: impl Into<String>) -> Box<Self> {
        Box::new(Self { why: why.into(), place, other: None, hint: None, exit: Exit::Spec })
    }

    /// The same with what to do about it.
    pub fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a hint where there is one.
    pub fn maybe_hint(mut self: Box<Self>, hint: Option<String>) -> Box<Self> {
        self.hint = hint;
        self
    }

    /// The same with a second place that has to do with it, and what that place is.
    pub fn also(mut self: Box<Self>, place: &Place, label: impl Into<String>) -> Box<Self> {
        self.other = Some((place.clone(), label.into()));
        self
    }

    /// The same at a place, with words before what is wrong.
    pub fn placed(mut self: Box<Self>, place: &Place, before: &str) -> Box<Self> {
        self.why.insert_str(0, before);
        self.place.get_or_insert_with(|| place.clone());
        self
    }

    /// The same as an error of the command line itself.
    pub fn usage(mut self: Box<Self>) -> Box<Self> {
        self.exit = Exit::Usage;
        self
    }

    /// The error that a caller of this module sees.
    pub fn into_error(self, doing: String) -> Error {
        let why = self.render();
        Error { exit: self.exit, doing, why, hint: self.hint, io: None }
    }

    /// What is wrong, then the lines with their carets.
    fn render(&self) -> String {
        let mut out = self.why.clone();
        let Some(place) = &self.place else { return out };
        let primary = Mark { place, symbol: '^', label: "" };
        let other = self.other.as_ref().map(|(place, label)| Mark { place, symbol: '-', label });
        let lines = [Some(place), other.as_ref().map(|m| m.place)];
        let gutter = lines.into_iter().flatten().map(|p| p.line.to_string().len()).max().unwrap_or(1);
        match other {
            Some(other) if Arc::ptr_eq(&other.place.source, &place.source) => {
                draw(&mut out, gutter, "-->", place, vec![primary, other]);
            }
            Some(other) => {
                draw(&mut out, gutter, "-->", place, vec![primary]);
                draw(&mut out, gutter, ":::", other.place, vec![other]);
            }
            None => draw(&mut out, gutter, "-->", place, vec![primary]),
        }
        out
    }
}

/// What is underlined.
struct Mark<'a> {
    place: &'a Place,
    symbol: char,
    label: &'a str,
}

/// Draws the lines of one source with the marks under them, headed by the position of `head`.
fn draw(out: &mut String, gutter: usize, arrow: &str, head: &Place, mut marks: Vec<Mark>) {
    let bar = format!("\n{:gutter$} |", "");
    match &head.source.origin {
        Origin::File(name) => {
            let _ = write!(out, "\n{:gutter$}{arrow} {name}:{}:{}{bar}", "", head.line, head.column + 1);
        }
        Origin::Argument => {
            let _ = write!(out, "\n{:gutter$}{arrow} command line{bar}", "");
        }
    }
    marks.sort_by_key(|m| (m.place.line, m.place.column));
    for on_line in marks.chunk_by(|a, b| a.place.line == b.place.line) {
        let line = on_line[0].place.line;
        let focus = on_line.iter().find(|m| m.symbol == '^').unwrap_or(&on_line[0]);
        let window = Window::new(head.source.line(line), focus.place.column as usize);
        let number = match head.source.origin {
            Origin::File(_) => line.to_string(),
            Origin::Argument => String::new(),
        };
        let _ = write!(out, "\n{}", format!("{number:>gutter$} | {}", window.text).trim_end());
        for row in rows(on_line, &window) {
            let _ = write!(out, "{bar} {}", row.trim_end());
        }
    }
}

/// The underlines of one line's marks, the last one's label beside it, and a row for each other label.
fn rows(marks: &[Mark], window: &Window) -> Vec<String> {
    let mut underline = String::new();
    let mut labels = Vec::new();
    for mark in marks {
        let column = window.column(mark.place.column as usize);
        let room = window.text.chars().count().saturating_sub(column);
        pad(&mut underline, column);
        underline.extend(std::iter::repeat_n(mark.symbol, (mark.place.width as usize).min(room).max(1)));
        if !mark.label.is_empty() {
            labels.push((column, mark.label));
        }
    }
    if let (Some(last), Some(&(column, label))) = (marks.last(), labels.last())
        && window.column(last.place.column as usize) == column
    {
        let _ = write!(underline, " {label}");
        labels.pop();
    }
    let below = labels.into_iter().map(|(column, label)| format!("{:column$}{label}", ""));
    std::iter::once(underline).chain(below).collect()
}

/// Fills up with spaces to a width in characters.
fn pad(text: &mut String, width: usize) {
    let missing = width.saturating_sub(text.chars().count());
    text.extend(std::iter::repeat_n(' ', missing));
}

/// The part of a line that is shown: all of it, or what surrounds the place where it is too long. One character stands
/// for one, so that carets fall where they belong.
struct Window {
    text: String,
    /// Characters of the line before the shown ones.
    skipped: usize,
    /// Characters that stand for the skipped ones.
    lead: usize,
}

impl Window {
    /// Characters of a line that are shown at most.
    const WIDTH: usize = 120;

    fn new(line: &str, focus: usize) -> Self {
        let shown = |c: char| match c {
            '\t' => '→',
            c if c.is_control() => '�',
            c => c,
        };
        let total = line.chars().count();
        if total <= Self::WIDTH {
            return Self { text: line.trim_end().chars().map(shown).collect(), skipped: 0, lead: 0 };
        }
        let skipped = focus.saturating_sub(Self::WIDTH / 2).min(total - Self::WIDTH);
        let part = line.chars().skip(skipped).take(Self::WIDTH).map(shown).collect::<String>();
        let (before, after) =
            (if skipped > 0 { "…" } else { "" }, if skipped + Self::WIDTH < total { "…" } else { "" });
        Self { text: format!("{before}{part}{after}"), skipped, lead: before.chars().count() }
    }

    /// Where a column of the line stands in the shown text.
    fn column(&self, column: usize) -> usize {
        (column.saturating_sub(self.skipped) + self.lead).min(Self::WIDTH + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: &Arc<Source>, line: u32, column: u32, width: u32) -> Place {
        Place { source: source.clone(), line, column, width }
    }

    #[test]
    fn lines_end_as_in_yaml() {
        let source = Source::file(Path::new("a"), "one\r\ntwo\rthree\nfour".into());
        assert_eq!([1, 2, 3, 4, 5].map(|n| source.line(n)), ["one", "two", "three", "four", ""]);
    }

    #[test]
    fn two_places_on_one_line_share_their_underlines() {
        let source = Source::file(Path::new("a.yaml"), "train: {lr: 1, lr: 2}".into());
        let fault = Fault::at(&place(&source, 1, 15, 2), "twice").also(&place(&source, 1, 8, 2), "first here");
        insta::assert_snapshot!(fault.render(), @"
        twice
         --> a.yaml:1:16
          |
        1 | train: {lr: 1, lr: 2}
          |         --     ^^
          |         first here
        ");
        let fault = Fault::at(&place(&source, 1, 8, 2), "twice").also(&place(&source, 1, 15, 2), "and here");
        assert!(fault.render().ends_with("|         ^^     -- and here"), "{}", fault.render());
    }

    #[test]
    fn two_files_are_drawn_one_below_the_other() {
        let (a, b) = (Source::file(Path::new("a"), "x".into()), Source::file(Path::new("b"), "\n".repeat(9) + "y"));
        let fault = Fault::at(&place(&a, 1, 0, 1), "why").also(&place(&b, 10, 0, 1), "see");
        insta::assert_snapshot!(fault.render(), @"
        why
          --> a:1:1
           |
         1 | x
           | ^
          ::: b:10:1
           |
        10 | y
           | - see
        ");
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let source = Source::file(Path::new("a"), "é".repeat(500) + "X" + &"\t".repeat(500));
        let text = Fault::at(&place(&source, 1, 500, 900), "why").render();
        let [line, carets] = [3, 4].map(|i| text.lines().nth(i).unwrap());
        assert!(line.contains("…é") && line.contains("→…") && line.chars().count() < 140, "{text}");
        let at = |s: &str, c| s.chars().position(|x| x == c).unwrap();
        assert_eq!(at(line, 'X'), at(carets, '^'), "{text}");
        assert!(carets.chars().count() <= line.chars().count(), "{text}");
    }
}
