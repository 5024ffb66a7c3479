//! From a text to its words.

use super::Wrong;

/// A word of an expression, from one byte offset to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub what: Word,
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    Number(f64),
    Text(String),
    /// A name or a word of the language.
    Name(String),
    /// `+`, `<=`, `(` and their like.
    Sign(&'static str),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 18] =
    ["**", "==", "!=", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", "[", "]", ","];

/// What other languages write, and what is written here.
const FOREIGN: [(&str, &str); 4] = [("&&", "and"), ("||", "or"), ("!", "not"), ("^", "**")];

/// The words of a text, of which the last is [`Word::End`].
pub fn words(text: &str) -> Result<Vec<Token>, Wrong> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let wrong = |to: usize, why: String| Wrong { from: at, to, why, hint: None };
        let (what, length) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) {
            let length = number(rest);
            let written = &rest[..length];
            let digits = written.replace('_', "");
            let number = digits.parse().map_err(|_| wrong(at + length, format!("{written} is no number")))?;
            (Word::Number(number), length)
        } else if c == '"' || c == '\'' {
            let end = rest[1..].find(c).ok_or_else(|| wrong(text.len(), format!("the text after {c} does not end")))?;
            (Word::Text(rest[1..=end].to_owned()), end + 2)
        } else if c.is_alphabetic() || c == '_' {
            let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
            (Word::Name(rest[..length].to_owned()), length)
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            (Word::Sign(sign), sign.len())
        } else if let Some((sign, here)) = FOREIGN.into_iter().find(|(sign, _)| rest.starts_with(sign)) {
            return Err(wrong(at + sign.len(), format!("`{sign}` is written `{here}` here")));
        } else {
            return Err(wrong(at + c.len_utf8(), format!("{c:?} has no meaning here")));
        };
        tokens.push(Token { what, from: at, to: at + length });
        at += length;
    }
    tokens.push(Token { what: Word::End, from: text.len(), to: text.len() });
    Ok(tokens)
}

/// How many bytes a number takes that begins a text, what is stuck to it included: `1e-3`, `3rd`.
fn number(text: &str) -> usize {
    let mut before = ' ';
    let belongs = |c: char| {
        let is_exponents = (c == '+' || c == '-') && (before == 'e' || before == 'E');
        before = c;
        c.is_alphanumeric() || c == '.' || c == '_' || is_exponents
    };
    text.find({
        let mut belongs = belongs;
        move |c: char| !belongs(c)
    })
    .unwrap_or(text.len())
}
