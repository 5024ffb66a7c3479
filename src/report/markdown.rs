//! Text inside of Markdown.

/// Text that Markdown takes for text, in one line.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match letter {
            '|' | '*' | '`' | '[' | ']' | '\\' => out.extend(['\\', letter]),
            '<' => out += "&lt;",
            '>' => out += "&gt;",
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
        assert_eq!(escaped("a|b\n*c* <d_e>"), "a\\|b \\*c\\* &lt;d_e&gt;");
    }
}
