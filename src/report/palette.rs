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

/// [`COLORS`] on a dark page: the same hues, lighter.
const DARK_COLORS: [RGBColor; MAX_LINES] = [
    RGBColor(0x4d, 0xab, 0xe6),
    RGBColor(0xf5, 0x83, 0x3c),
    RGBColor(0x2f, 0xc4, 0x98),
    RGBColor(0xe0, 0x9d, 0xc2),
    RGBColor(0xf0, 0xb4, 0x3c),
    RGBColor(0x93, 0xd2, 0xf5),
    RGBColor(0xd4, 0x76, 0xa6),
    RGBColor(0xd0, 0xd0, 0xd0),
];

/// The paper of a dark page.
pub const DARK_PAPER: RGBColor = RGBColor(0x15, 0x18, 0x1c);

/// Each colour on white with what stands for it on a dark page.
pub fn dark() -> Vec<(RGBColor, RGBColor)> {
    let grey = |level: u8| RGBColor(level, level, level);
    let mix = |RGBColor(r, g, b): RGBColor| {
        let of = |c: u8, paper: u8| ((u16::from(c) * 2 + u16::from(paper) * 3) / 5) as u8;
        RGBColor(of(r, DARK_PAPER.0), of(g, DARK_PAPER.1), of(b, DARK_PAPER.2))
    };
    let inks = (0..MAX_LINES).flat_map(|i| {
        let light = Ink::Color(i);
        [(color(light), DARK_COLORS[i]), (faint(light), mix(DARK_COLORS[i]))]
    });
    let rest = [
        (TEXT, grey(0xe4)),
        (SOFT, grey(0xb0)),
        (faint(Ink::Neutral), mix(grey(0xb0))),
        (AXIS, grey(0x80)),
        (GRID, RGBColor(0x2c, 0x30, 0x36)),
        (PAPER, DARK_PAPER),
    ];
    inks.chain(rest).collect()
}

/// Words on dark cells and on light ones, which stay as they are where a page is dark.
pub const ON_DARK: RGBColor = RGBColor(0xfe, 0xfe, 0xfe);
/// As [`ON_DARK`].
pub const ON_LIGHT: RGBColor = RGBColor(0x1c, 0x1c, 0x1c);

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

/// A colour for a share from 0 to 1: from nearly white over green and blue to a dark violet. Lightness falls evenly and
/// neighbours are about equally far apart in OKLab (Ottosson, 2020), so that equal differences look equal, to every kind of
/// colour vision and in grey. What is no number is grey.
pub fn sequential(share: f64) -> RGBColor {
    if share.is_nan() {
        return RGBColor(0xb0, 0xb0, 0xb0);
    }
    let t = share.clamp(0.0, 1.0);
    let chroma = 0.022 + 0.05 * (t * std::f64::consts::PI).sin() + 0.05 * t;
    let hue = (110.0 + 180.0 * t).to_radians();
    oklab(0.97 - 0.69 * t, chroma * hue.cos(), chroma * hue.sin())
}

/// A colour of OKLab in sRGB.
fn oklab(lightness: f64, a: f64, b: f64) -> RGBColor {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    let encode = |x: f64| {
        let x = if x <= 0.003_130_8 { 12.92 * x } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 };
        (x.clamp(0.0, 1.0) * 255.0).round() as u8
    };
    RGBColor(
        encode(4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s),
        encode(-1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s),
        encode(-0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s),
    )
}

/// The corners of the marker of an ink around `at`.
pub fn marker(ink: Ink, at: (f64, f64), radius: f64) -> Vec<(f64, f64)> {
    let shape = match ink {
        Ink::Color(i) => SHAPES[i % SHAPES.len()],
        Ink::Neutral => SHAPES[0],
    };
    shape.iter().map(|(x, y)| (at.0 + radius * x, at.1 + radius * y)).collect()
}
