//! Text of others on a terminal: what would steer it is shown and not obeyed.

use std::borrow::Cow;

/// A text with control characters, and those that turn a line's direction or cannot be seen, as escapes. Line ends and tabs
/// stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if steers(c) { c.escape_unicode().to_string() } else { c.into() };
    Cow::Owned(text.chars().map(shown).collect())
}

fn steers(c: char) -> bool {
    let is_hidden = matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    is_hidden || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        assert!(matches!(visible("naïve 春 👩‍🔧\n\tx"), Cow::Borrowed(_)));
        assert_eq!(visible("\u{1b}[31mred\r\u{202e}"), r"\u{1b}[31mred\u{d}\u{202e}");
    }
}
