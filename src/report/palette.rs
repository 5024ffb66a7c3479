//! Colours and shapes that stay apart for every kind of colour vision, in colour and in grey, on white.

use plotters::style::RGBColor;

use super::figure::{Ink, MAX_LINES};

/// Okabe and Ito's palette (2008) with its yellow, which is lost on white, replaced by a wine red and black last.
const COLORS: [RGBColor; MAX_LINES] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x33, 0x33, 0x33),
];

/// Titles, tick labels, legends.
pub const TEXT: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Notes.
pub const SOFT: RGBColor = RGBColor(0x55, 0x55, 0x55);
/// The two axes.
pub const AXIS: RGBColor = RGBColor(0x80, 0x80, 0x80);
/// The grid.
pub const GRID: RGBColor = RGBColor(0xe8, 0xe8, 0xe8);
/// The paper.
pub const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// The corners of each marker around the origin, about a unit in radius; of equal weight to the eye, in the order of
/// [`COLORS`]. The first, a circle, is approximated.
const SHAPES: [&[(f64, f64)]; MAX_LINES] = [
    &CIRCLE,
    &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
    &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
    &[(0.0, -1.15), (1.09, -0.36), (0.68, 0.93), (-0.68, 0.93), (-1.09, -0.36)],
    &[(-1.2, 0.0), (0.8, -1.1), (0.8, 1.1)],
    &[(1.2, 0.0), (-0.8, -1.1), (-0.8, 1.1)],
];

const CIRCLE: [(f64, f64); 16] = [
    (1.0, 0.0),
    (0.924, 0.383),
    (0.707, 0.707),
    (0.383, 0.924),
    (0.0, 1.0),
    (-0.383, 0.924),
    (-0.707, 0.707),
    (-0.924, 0.383),
    (-1.0, 0.0),
    (-0.924, -0.383),
    (-0.707, -0.707),
    (-0.383, -0.924),
    (0.0, -1.0),
    (0.383, -0.924),
    (0.707, -0.707),
    (0.924, -0.383),
];

/// The colour of an ink.
pub fn color(ink: Ink) -> RGBColor {
    match ink {
        Ink::Color(i) => COLORS[i % COLORS.len()],
        Ink::Neutral => SOFT,
    }
}

/// The same colour towards white: what stands behind. Opaque, so that strokes that cross themselves stay even.
pub fn faint(ink: Ink) -> RGBColor {
    let RGBColor(r, g, b) = color(ink);
    let mix = |c: u8| 255 - (255 - c) / 5 * 2;
    RGBColor(mix(r), mix(g), mix(b))
}

/// The corners of the marker of an ink around `at`.
pub fn marker(ink: Ink, at: (f64, f64), radius: f64) -> Vec<(f64, f64)> {
    let shape = match ink {
        Ink::Color(i) => SHAPES[i % SHAPES.len()],
        Ink::Neutral => SHAPES[0],
    };
    shape.iter().map(|(x, y)| (at.0 + radius * x, at.1 + radius * y)).collect()
}
