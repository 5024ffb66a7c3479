//! Text inside of Markdown.

/// Text that Markdown takes for text, in one line.
pub fn escaped(text: &str) -> String {
    let line: Vec<char> = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let is_within_a_word = |at: usize| {
        let is_letter = |at: Option<usize>| at.and_then(|at| line.get(at)).is_some_and(|c| c.is_alphanumeric());
        is_letter(at.checked_sub(1)) && is_letter(Some(at + 1))
    };
    let mut out = String::new();
    for (at, &letter) in line.iter().enumerate() {
        match letter {
            '|' | '*' | '`' | '[' | ']' | '\\' | '~' | '$' => out.extend(['\\', letter]),
            '_' if !is_within_a_word(at) => out.extend(['\\', letter]),
            '&' => out += "&amp;",
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
        assert_eq!(escaped("_a_ ~b~ $c$ &lt; d_"), "\\_a\\_ \\~b\\~ \\$c\\$ &amp;lt; d\\_");
    }
}
