//! Text into cells. All text of the live view passes here: what would steer a terminal is shown and not obeyed, what is too
//! long is cut with an ellipsis, and where no colour is wanted there is none.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Span,
};

use crate::base::visible::visible;

/// How a state looks, and how far up its runs stand.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// One cell.
    pub glyph: &'static str,
    /// Its colour.
    pub colour: Color,
    /// The lowest comes first.
    pub rank: usize,
}

/// How each state looks, in the order in which they stand. One that is not named here stands last, and looks plain.
const STATES: &[(&str, &str, Color)] = &[
    ("running", "▶", Color::Green),
    ("queued", "·", Color::Cyan),
    ("paused", "‖", Color::Yellow),
    ("failed", "✗", Color::Red),
    ("interrupted", "◦", Color::Yellow),
    ("done", "✓", Color::Blue),
    ("skipped", "-", Color::DarkGray),
];

/// How a state looks, by its word.
pub fn look(word: &str) -> Look {
    match STATES.iter().enumerate().find(|(_, (name, ..))| *name == word) {
        Some((rank, &(_, glyph, colour))) => Look { glyph, colour, rank },
        None => Look { glyph: "•", colour: Color::Reset, rank: STATES.len() },
    }
}

/// Cells to write into.
pub struct Cells<'a> {
    buffer: &'a mut Buffer,
    has_colour: bool,
}

impl<'a> Cells<'a> {
    /// Writes into a buffer.
    pub fn new(buffer: &'a mut Buffer, has_colour: bool) -> Self {
        Self { buffer, has_colour }
    }

    /// The cells that there are.
    pub fn area(&self) -> Rect {
        self.buffer.area
    }

    /// Writes a text, cut to `width` cells. Returns how many it took.
    pub fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        let width = width.min(area.right().saturating_sub(x));
        if width == 0 || y >= area.bottom() {
            return 0;
        }
        let text = shown(text);
        let style = self.plain(style);
        let is_whole = cells(&text) <= usize::from(width);
        let room = if is_whole { width } else { width - 1 };
        let (mut end, _) = self.buffer.set_stringn(x, y, &text, room.into(), style);
        if !is_whole {
            (end, _) = self.buffer.set_stringn(end, y, "…", 1, style);
        }
        end - x
    }

    /// The same, ending at the right end of the `width` cells.
    pub fn right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let taken = cells(&shown(text)).min(usize::from(width)) as u16;
        self.text(x + width - taken, y, taken, text, style);
    }

    /// Writes texts one after the other. Returns how many cells they took.
    pub fn texts(&mut self, x: u16, y: u16, width: u16, texts: &[(String, Style)]) -> u16 {
        texts.iter().fold(0, |taken, (text, style)| taken + self.text(x + taken, y, width - taken, text, *style))
    }

    /// Gives cells a style, beside what they have.
    pub fn style(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area, self.plain(style));
    }

    /// A line across, with a title.
    pub fn rule(&mut self, area: Rect, title: &str) {
        self.text(area.x, area.y, area.width, &"─".repeat(area.width.into()), dim());
        let title: String = shown(title).chars().take(usize::from(area.width).saturating_sub(4)).collect();
        self.text(area.x + 2, area.y, area.width.saturating_sub(2), &format!(" {title} "), dim());
    }

    /// Empties cells.
    pub fn clear(&mut self, area: Rect) {
        for y in area.top()..area.bottom().min(self.buffer.area.bottom()) {
            self.text(area.x, y, area.width, &" ".repeat(area.width.into()), Style::reset());
        }
    }

    fn plain(&self, style: Style) -> Style {
        if self.has_colour { style } else { Style { fg: None, bg: None, ..style } }
    }
}

/// Of how many cells a text is.
pub fn cells(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text as it is written: on one line, nothing in it that steers.
pub fn shown(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// What is less important.
pub fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// What is more important.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A bar of so many cells, of which a share is full.
pub fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "▰".repeat(full) + &"▱".repeat(width - full)
}
