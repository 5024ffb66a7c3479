//! The font of all pictures, and how wide a text is in it. The font comes from a crate's bytes, so that a picture needs
//! no system fonts and looks the same everywhere.

use std::sync::OnceLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

/// The name that the font is registered under.
const FAMILY: &str = "dejavu-sans";

/// Ascent and descent of the font together, in em: what the rasterizer means by a font's size.
const LINE: f64 = 1.164;

/// Where the rasterizer puts the baseline below the point that it is given, as a share of that size.
const BASELINE: f64 = 0.5;

/// The height of capitals, in em.
pub const CAPITALS: f64 = 0.73;

/// Thickness of the strokes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Of labels and notes.
    Regular,
    /// Of titles.
    Bold,
}

/// The font at `size` pixels per em, and how far below the given point its baseline falls.
pub fn font(size: f64, weight: Weight) -> (FontDesc<'static>, f64) {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // A font that cannot be read is found out, and said, by whoever draws with it.
        let _ = register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FAMILY, FontStyle::Bold, dejavu::sans::bold());
    });
    let style = if weight == Weight::Bold { FontStyle::Bold } else { FontStyle::Normal };
    let line = size * LINE;
    (FontDesc::new(FontFamily::Name(FAMILY), line, style), line * BASELINE)
}

/// The width of `text` in pixels.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    const FINE: f64 = 8.0; // the rasterizer rounds to whole pixels: measure large
    let measured = font(size * FINE, weight).0.layout_box(text);
    measured.map_or(0.0, |((left, _), (right, _))| f64::from(right - left) / FINE)
}

/// `text` in lines of at most `room` pixels, broken between words, and inside of words that are longer than that.
pub fn wrap(text: &str, size: f64, weight: Weight, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map(String::as_str).unwrap_or_default();
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width(&longer, size, weight) <= room {
            lines.pop();
            lines.push(longer);
            continue;
        }
        if line.is_empty() {
            lines.pop();
        }
        lines.push(String::new());
        for letter in word.chars() {
            let line = lines.last().map(String::as_str).unwrap_or_default();
            let longer = format!("{line}{letter}");
            if width(&longer, size, weight) <= room || line.is_empty() {
                lines.pop();
                lines.push(longer);
            } else {
                lines.push(letter.to_string());
            }
        }
    }
    lines
}

/// `text` in at most `room` pixels: its middle gives way to dots, since names often differ at their ends.
pub fn fit(text: &str, size: f64, room: f64) -> String {
    let letters: Vec<char> = text.chars().collect();
    let shortened = |keep: usize| -> String {
        let head = keep.div_ceil(2);
        let tail = letters.len() - (keep - head);
        letters[..head].iter().chain(&['…']).chain(&letters[tail..]).collect()
    };
    if width(text, size, Weight::Regular) <= room {
        return text.to_owned();
    }
    (1..letters.len()).rev().map(shortened).find(|s| width(s, size, Weight::Regular) <= room).unwrap_or("…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_come_from_the_font() {
        let w = |text| width(text, 20.0, Weight::Regular);
        assert!(w("iiii") < w("mmmm") && (w("mmmm") - 4.0 * w("m")).abs() < 0.5);
        assert!(width("mmmm", 20.0, Weight::Bold) > w("mmmm"));
    }

    #[test]
    fn long_text_is_wrapped_or_shortened_to_its_room() {
        let name = "a".repeat(100);
        let lines = wrap(&format!("the experiment {name} has three runs"), 20.0, Weight::Regular, 300.0);
        assert!(lines.len() > 4 && lines.iter().all(|l| !l.is_empty() && width(l, 20.0, Weight::Regular) <= 300.0));
        assert_eq!(lines.concat().replace(' ', ""), format!("theexperiment{name}hasthreeruns"));
        let short = fit("corpus-one.txt-and-much-more-of-it.b", 20.0, 150.0);
        assert!(short.starts_with("corpus") && short.ends_with(".b") && width(&short, 20.0, Weight::Regular) <= 150.0);
        assert_eq!(fit("short", 20.0, 150.0), "short");
    }
}
