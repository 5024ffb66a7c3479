//! The font of all pictures, and how wide a text is in it. The font comes from a crate's bytes, so that a picture needs
//! no system fonts and looks the same everywhere.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, PxScale, PxScaleFont, ScaleFont};

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

static REGULAR: LazyLock<FontRef<'static>> = LazyLock::new(|| parse(dejavu::sans::regular()));
static BOLD: LazyLock<FontRef<'static>> = LazyLock::new(|| parse(dejavu::sans::bold()));

fn parse(bytes: &'static [u8]) -> FontRef<'static> {
    match FontRef::try_from_slice(bytes) {
        Ok(font) => font,
        Err(e) => unreachable!("the font that the crate ships is no font: {e}"),
    }
}

/// The font at `size` pixels per em.
fn font(size: f64, weight: Weight) -> PxScaleFont<&'static FontRef<'static>> {
    let font: &FontRef = if weight == Weight::Bold { &BOLD } else { &REGULAR };
    let line_in_em = font.height_unscaled() / font.units_per_em().unwrap_or(2048.0);
    font.as_scaled(PxScale::from(size as f32 * line_in_em))
}

/// Whether the font has a letter to be seen for a character.
pub fn has_glyph(c: char) -> bool {
    let glyph = REGULAR.glyph_id(c);
    glyph.0 != 0 && REGULAR.outline(glyph).is_some()
}

/// The width of `text` in pixels.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let mut end = 0.0;
    walk(text, size, weight, |_, x, advance| end = x + advance);
    end
}

/// Calls `ink` with every pixel that `text` covers and how much of it: x from the start of the text, y from its
/// baseline, downwards. plotters could draw text too, but leaves out the room that each letter has at its left.
pub fn rasterize(text: &str, size: f64, weight: Weight, mut ink: impl FnMut(i32, i32, f64)) {
    let font = font(size, weight);
    walk(text, size, weight, |letter, x, _| {
        let glyph = font.glyph_id(letter).with_scale_and_position(font.scale(), ab_glyph::point(x as f32, 0.0));
        if let Some(outline) = font.outline_glyph(glyph) {
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, c| ink(corner.x as i32 + x as i32, corner.y as i32 + y as i32, f64::from(c.min(1.0))));
        }
    });
}

/// Calls `each` with every letter, where it starts, and its advance.
fn walk(text: &str, size: f64, weight: Weight, mut each: impl FnMut(char, f64, f64)) {
    let font = font(size, weight);
    let (mut x, mut before) = (0.0f32, None);
    for letter in text.chars() {
        let glyph = font.glyph_id(letter);
        x += before.map_or(0.0, |b| font.kern(b, glyph));
        let advance = font.h_advance(glyph);
        each(letter, f64::from(x), f64::from(advance));
        x += advance;
        before = Some(glyph);
    }
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
    let fits = |s: &String| width(s, size, Weight::Regular) <= room;
    (1..letters.len()).rev().map(shortened).find(fits).unwrap_or_else(|| "…".to_owned())
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
