//! Text inside of HTML and SVG.

/// Text that a browser takes for text, within an element or a quoted attribute. What XML cannot hold is replaced.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(letter),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("<b a=\"1\" c='2'>&amp;\u{1b}"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;\u{fffd}");
    }
}
