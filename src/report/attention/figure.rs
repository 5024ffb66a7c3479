//! Attention weights as data of a picture: which heads, in which words.

use super::{
    super::text::{Weight, has_glyph, width},
    Choice, Maps, Token,
};

/// Maps of weights side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatFigure<'a> {
    /// What is shown.
    pub title: String,
    /// Maps in a row.
    pub columns: usize,
    /// Row by row; the last row may be shorter.
    pub maps: Vec<HeatMap<'a>>,
    /// What the rows and columns of every map stand for.
    pub tokens: Vec<String>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
}

/// The weights of one head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap<'a> {
    /// What tells it from the others, in full and in short; empty for one alone.
    pub title: [String; 2],
    /// (T, T), queries by keys; what lies above the diagonal is not shown.
    pub weights: &'a [f32],
}

/// The picture of the chosen heads: one alone, or all, a layer to a row; those of one layer or one number fill a square.
pub fn figure(maps: &Maps, choice: Choice) -> HeatFigure<'_> {
    let chosen = maps.chosen(choice);
    let what = match (&chosen[..], choice) {
        ([(layer, head)], _) => format!("layer {layer}, head {head}"),
        (_, Choice { layer: Some(layer), .. }) => format!("layer {layer}, {} heads", maps.heads),
        (_, Choice { head: Some(head), .. }) => format!("head {head} of {} layers", maps.layers),
        _ => format!("{} layers × {} heads", maps.layers, maps.heads),
    };
    let columns = if choice.is_narrow() { (chosen.len() as f64).sqrt().ceil() as usize } else { maps.heads };
    let is_alone = chosen.len() == 1;
    let map = |&(layer, head): &(usize, usize)| HeatMap {
        title: match is_alone {
            true => Default::default(),
            false => [format!("layer {layer}, head {head}"), format!("L{layer} H{head}")],
        },
        weights: maps.head(layer, head),
    };
    let tokens: Vec<String> = maps.tokens.iter().map(shown).collect();
    let mut notes = vec![
        "A row is a query: the colours show how its attention is shared out over the keys up to itself; they add up to 1."
            .to_owned(),
    ];
    notes.extend(legend(&maps.tokens));
    HeatFigure {
        title: format!("Attention of run {} after step {}: {what}", maps.run, maps.step),
        columns,
        maps: chosen.iter().map(map).collect(),
        tokens,
        notes,
    }
}

/// What stands for characters that cannot be seen.
const SIGNS: [(char, char, &str); 4] =
    [(' ', '␣', "a space"), ('\n', '↵', "a line end"), ('\t', '⇥', "a tab"), ('\r', '←', "a carriage return")];

/// A token in letters that the font has and that can be seen: what stands for a part of a character, or for what is not
/// known, goes by its number, and a character that the font lacks by its code point.
pub fn shown(token: &Token) -> String {
    if token.text.is_empty() || token.text.contains(char::REPLACEMENT_CHARACTER) {
        return format!("[{}]", token.id);
    }
    let sign = |c: char| SIGNS.iter().find(|sign| sign.0 == c).map(|sign| sign.1);
    let letter = |c: char| match sign(c) {
        Some(sign) => sign.to_string(),
        None if has_glyph(c) => c.to_string(),
        None => format!("U+{:04X}", c as u32),
    };
    token.text.chars().map(letter).collect()
}

/// Explains the signs that are there.
fn legend(tokens: &[Token]) -> Option<String> {
    let is_there = |c: char| tokens.iter().any(|token| token.text.contains(c));
    let mut parts: Vec<String> = Vec::new();
    parts.extend(SIGNS.iter().filter(|sign| is_there(sign.0)).map(|(_, sign, what)| format!("{sign} is {what}")));
    let by_number = |token: &Token| token.text.is_empty() || token.text.contains(char::REPLACEMENT_CHARACTER);
    if tokens.iter().any(by_number) {
        parts.push("a number in brackets is a token without letters of its own".into());
    }
    let mut sentence = parts.join(", ") + ".";
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase(); // a sign has no capital
    }
    (!parts.is_empty()).then_some(sentence)
}

/// The widest token in pixels.
pub fn widest(tokens: &[String], size: f64) -> f64 {
    tokens.iter().map(|token| width(token, size, Weight::Regular)).fold(0.0, f64::max)
}
