//! YAML with positions: what serde_yaml loses, and what it lets through (a key twice, a second document, tags).
//!
//! A tree of scalars, lists and maps, each with its place. What a scalar means is not decided here but by the kind of
//! the leaf that it is given for ([`super::kind`]).

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::{
    source::{Fault, Place, Result, Source},
    syntax,
};

/// Deeper than this nobody nests; a spec needs five levels.
const MAX_DEPTH: usize = 24;

/// More than this no spec of a permitted size needs, once its aliases are written out.
const MAX_NODES: usize = 250_000;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub place: Place,
    pub content: Content,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Any scalar, still untyped. `plain` where it stands without quotes.
    Scalar { text: String, plain: bool },
    /// `[a, b]`, or lines that begin with `- `.
    List(Vec<Node>),
    /// `{a: 1}`, or lines of `key: value`; in the order of the text.
    Map(Vec<(Key, Node)>),
}

/// A key of a map and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub text: String,
    pub place: Place,
}

impl Node {
    /// Whether it says that there is no value: `null`, `~`, or nothing at all.
    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Whether there is nothing after the colon.
    pub fn is_empty(&self) -> bool {
        matches!(&self.content, Content::Scalar { text, plain: true } if text.is_empty())
    }

    /// What it is, for messages: `a list`, `a map`, or the scalar itself in backticks.
    pub fn describe(&self) -> String {
        match &self.content {
            Content::Scalar { .. } if self.is_empty() => "nothing".into(),
            Content::Scalar { text, plain: true } => format!("`{}`", shorten(text)),
            Content::Scalar { text, plain: false } => format!("`\"{}\"`", shorten(text)),
            Content::List(_) => "a list".into(),
            Content::Map(_) => "a map".into(),
        }
    }
}

/// A scalar as it can stand in a sentence.
fn shorten(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '�' } else { c };
    match text.char_indices().nth(60) {
        Some((end, _)) => text[..end].chars().map(clean).chain(['…']).collect(),
        None => text.chars().map(clean).collect(),
    }
}

/// The tree of a whole spec.
pub(super) fn parse(source: &Arc<Source>) -> Result<Node> {
    refuse_tabs(source)?;
    parse_from(source, 0)
}

/// The tree of what follows the first `skip` bytes of a text, all of which stand on its first line.
pub(super) fn parse_from(source: &Arc<Source>, skip: usize) -> Result<Node> {
    let (skipped, text) = source.text().split_at(skip);
    let offset = skipped.chars().count() as u32;
    Builder { parser: Parser::new_from_str(text), source, offset, anchors: HashMap::new(), nodes: 0, open: Vec::new() }
        .document()
}

/// YAML forbids tabs as indentation, and every parser words that differently and elsewhere.
fn refuse_tabs(source: &Arc<Source>) -> Result<()> {
    for (number, line) in source.text().lines().enumerate() {
        let content = line.trim_start();
        let indent = &line[..line.len() - content.len()];
        if let Some(column) = indent.chars().position(|c| c == '\t')
            && !content.is_empty()
            && !content.starts_with('#')
        {
            let place = Place { source: source.clone(), line: number as u32 + 1, column: column as u32, width: 1 };
            return Err(Fault::at(&place, "a tab as indentation, which YAML forbids").hint("indent with spaces"));
        }
    }
    Ok(())
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    source: &'a Arc<Source>,
    /// What is added to the columns of the first line.
    offset: u32,
    /// The nodes that carry an anchor, by its number, and how many nodes each holds.
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    /// Where the lists and maps begin that have not ended yet.
    open: Vec<Place>,
}

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Node> {
        let root = loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Err(self.nothing()),
                Event::StreamStart | Event::DocumentStart(_) => {}
                event => break self.node(event, span, 0)?,
            }
        };
        if root.is_empty() {
            return Err(self.nothing());
        }
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::DocumentStart(_), span) => {
                    let why = "a second document begins here, and a spec is one document";
                    return Err(Fault::at(&self.place(span), why).hint("write a file for each"));
                }
                _ => {}
            }
        }
    }

    fn nothing(&self) -> Box<Fault> {
        Fault::new(None, "there is nothing in it")
            .hint("a spec needs at least one line, such as `experiment: NAME`; everything else has a default")
    }

    fn next(&mut self) -> Result<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Err(Fault::new(None, "not YAML: it ends too early")),
        }
    }

    /// The node that begins with an event already taken.
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node> {
        let mut place = self.place(span);
        if depth > MAX_DEPTH {
            return Err(too_deep(&place));
        }
        self.count(1, &place)?;
        let before = self.nodes;
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                (Content::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                (self.list(depth, &mut place)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.is_some(), &place)?;
                (self.map(depth, &mut place)?, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, place),
            _ => return Err(Fault::at(&place, "not YAML: a value is missing here")),
        };
        let node = Node { place, content };
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize, place: &mut Place) -> Result<Content> {
        let mut items = Vec::new();
        self.open.push(place.clone());
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => {
                    self.open.pop();
                    self.extend(place, span);
                    return Ok(Content::List(items));
                }
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize, place: &mut Place) -> Result<Content> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen = HashMap::new();
        self.open.push(place.clone());
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, span) => {
                    self.open.pop();
                    self.extend(place, span);
                    return Ok(Content::Map(entries));
                }
                (event, span) => self.key(event, span, depth)?,
            };
            match seen.entry(key.text.clone()) {
                Entry::Occupied(first) => {
                    let first: &usize = first.get();
                    let why = format!("the key `{}` is given twice", shorten(&key.text));
                    return Err(Fault::at(&key.place, why).also(&entries[*first].0.place, "first given here"));
                }
                Entry::Vacant(slot) => slot.insert(entries.len()),
            };
            let (event, span) = self.next()?;
            let mut value = self.node(event, span, depth + 1)?;
            if value.is_empty() {
                value.place = key.place.clone(); // there is nothing to point at but the key
            }
            entries.push((key, value));
        }
    }

    fn key(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Key> {
        let node = self.node(event, span, depth + 1)?;
        match node.content {
            Content::Scalar { text, .. } => Ok(Key { text, place: node.place }),
            _ => Err(Fault::at(&node.place, "a key is a word, not a list or a map")),
        }
    }

    /// What an alias stands for, placed where the alias stands.
    fn alias(&mut self, anchor: usize, place: Place) -> Result<Node> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            return Err(Fault::at(&place, "this alias stands for something that contains it"));
        };
        let (content, size) = (node.content.clone(), *size);
        self.count(size, &place)?;
        Ok(Node { place, content })
    }

    /// Bounds the work and the memory that a text can ask for.
    fn count(&mut self, nodes: usize, place: &Place) -> Result<()> {
        self.nodes += nodes;
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        let why = format!("more than {MAX_NODES} values, aliases written out");
        Err(Fault::at(place, why).hint("an alias repeats all that its anchor holds"))
    }

    fn refuse_tag(&self, tagged: bool, place: &Place) -> Result<()> {
        if !tagged {
            return Ok(());
        }
        Err(Fault::at(place, "a spec has no tags (`!…`)").hint("write the value alone: its leaf says what it is"))
    }

    fn place(&self, span: Span) -> Place {
        let (line, column) = self.position(span.start);
        let (last, end) = self.position(span.end);
        let width = if last == line { end.saturating_sub(column) } else { 1 };
        Place { source: self.source.clone(), line, column, width }
    }

    /// Takes in the closing bracket of a list or map, where that stands on the same line.
    fn extend(&self, place: &mut Place, end: Span) {
        let (line, column) = self.position(end.end);
        if line == place.line {
            place.width = column.saturating_sub(place.column);
        }
    }

    fn position(&self, mark: Marker) -> (u32, u32) {
        let (line, column) = (mark.line() as u32, mark.col() as u32);
        (line, if line == 1 { column + self.offset } else { column })
    }

    fn syntax(&self, error: &ScanError) -> Box<Fault> {
        let place = self.place(Span::empty(*error.marker()));
        if error.info().contains("recursion limit") {
            return too_deep(&place);
        }
        syntax::fault(place, error.info(), self.open.last())
    }
}

fn too_deep(place: &Place) -> Box<Fault> {
    Fault::at(place, format!("nested deeper than {MAX_DEPTH} levels"))
}
