//! What a text has that its owner may not know of, in words. All of it is kept and trained on as it is.

/// Remarks on a text: line ends of other systems, and characters that seldom are meant.
pub fn of(text: &str) -> Vec<String> {
    let crlf = text.matches("\r\n").count();
    let lines = text.matches('\n').count();
    let nuls = text.bytes().filter(|&byte| byte == 0).count();
    let returns = (crlf > 0).then(|| {
        let which = if crlf == lines { "its lines end".into() } else { format!("{crlf} of {lines} lines end") };
        format!("{which} with CR LF, which is kept: the CR is a character of its own")
    });
    let nuls = (nuls > 0).then(|| {
        let which = if nuls == 1 { "1 character is NUL".into() } else { format!("{nuls} characters are NUL") };
        format!("{which}, as in UTF-16 that is read as UTF-8, or in a file that is no text")
    });
    returns.into_iter().chain(nuls).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_needs_no_remark() {
        assert!(of("to be,\nor not\rto be 春 🎭\n").is_empty());
        assert_eq!(of("a\r\nb\r\n"), ["its lines end with CR LF, which is kept: the CR is a character of its own"]);
        assert!(of("a\r\nb\nc\n")[0].starts_with("1 of 3 lines end with CR LF"));
        assert!(of("\0")[0].starts_with("1 character is NUL") && of("a\0\0")[0].starts_with("2 characters are NUL"));
    }
}
