//! What is wrong with a text that is no YAML, in the words of somebody who writes specs. The parser's own words tell
//! where its grammar got stuck, which for the usual slips is not where they are.

use super::source::{Fault, Place};

const COLUMNS: &str = "keys of one map begin in the same column";
const NO_COLON: &str = "not YAML: a key needs a colon and a space after it";
const COLON: &str = "`layers: 4`";

/// The fault behind a parser's complaint (`info`) at a place. `open` is the innermost list or map that has not ended.
pub(super) fn fault(place: Place, info: &str, open: Option<&Place>) -> Box<Fault> {
    let place = last_content(place);
    if info.contains("unknown anchor") {
        return Fault::at(&place, "this alias has no anchor before it")
            .hint("`&name` makes an anchor, `*name` uses it");
    }
    if let Some(open) = open.filter(|open| is_bracket(open)) {
        let why = format!("not YAML: {}", plainly(info));
        return Fault::at(&place, why).also(open, "opened here").hint("a closing bracket is missing, or a comma");
    }
    if info.contains("mapping values are not allowed") {
        return misplaced_colon(&place);
    }
    let not_yaml = |why: &str, hint: &str| Fault::at(&place, format!("not YAML: {why}")).hint(hint);
    if info.contains("simple key expect") {
        Fault::at(&content(&place), NO_COLON).hint(COLON)
    } else if info.contains("did not find expected key") {
        not_yaml("no key can begin in this column", COLUMNS)
    } else if info.contains("expected '-'") {
        not_yaml("a list stands here, and this is none of its items", "each item begins with `- ` in the same column")
    } else if info.contains("end of stream") {
        not_yaml("this quote is never closed", "a quote ends as it begins")
    } else if info.contains("quoted scalar") {
        not_yaml(&plainly(info), "the closing quote is missing, or stands too early")
    } else if let Some(character) = info.strip_prefix("unexpected character: `").and_then(|rest| rest.chars().next()) {
        not_yaml(&format!("a value cannot begin with `{character}`"), "put it in quotes")
    } else {
        not_yaml(&plainly(info), "a spec is lines of `key: value`, indented with spaces")
    }
}

/// A colon where the parser is within a value: the value goes on, or began, where it was not meant to.
fn misplaced_colon(colon: &Place) -> Box<Fault> {
    let line: String = colon.source.line(colon.line).chars().take(colon.column as usize).collect();
    if line.contains(": ") {
        return Fault::at(colon, "not YAML: a second colon on the line")
            .hint("a map on one line needs braces, `model: {layers: 4}`, and text with a colon in it quotes");
    }
    let is_content = |number: &u32| {
        let text = colon.source.line(*number).trim_start();
        !text.is_empty() && !text.starts_with('#')
    };
    let here = content(colon);
    let Some(before) = (1..colon.line).rev().find(is_content).map(|line| content(&Place { line, ..colon.clone() }))
    else {
        return Fault::at(colon, "not YAML: a colon where none can be").hint(COLON);
    };
    let text = before.source.line(before.line);
    if text.contains(": ") || text.trim_end().ends_with(':') {
        return Fault::at(&here, "not YAML: the value of the line before goes on here")
            .also(&before, "begins here")
            .hint(COLUMNS);
    }
    Fault::at(&before, NO_COLON).hint(COLON)
}

/// The parser's words without their grammar: `expected , or ]`.
fn plainly(info: &str) -> String {
    let info = match info.split_once(", ") {
        Some((context, info)) if context.starts_with("while ") => info,
        _ => info,
    };
    info.replace("did not find expected", "expected").replace('\'', "`")
}

/// The end of the last line that has something in it, for what the parser misses at the end of the text.
fn last_content(place: Place) -> Place {
    let lines = place.source.text().trim_end().lines().count().max(1) as u32;
    if place.line <= lines {
        return place;
    }
    let column = place.source.line(lines).trim_end().chars().count() as u32;
    Place { line: lines, column, ..place }
}

/// All that stands on a place's line.
fn content(place: &Place) -> Place {
    let line = place.source.line(place.line);
    let text = line.trim();
    let column = line.chars().take_while(|c| c.is_whitespace()).count() as u32;
    Place { column, width: text.chars().count() as u32, ..place.clone() }
}

/// Whether a list or map in brackets begins at a place.
fn is_bracket(open: &Place) -> bool {
    matches!(open.source.line(open.line).chars().nth(open.column as usize), Some('[' | '{'))
}
