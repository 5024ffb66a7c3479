//! What pictures are drawn with: a few strokes in pixels of the finished picture. [`super::raster`] makes pixels of them,
//! [`super::svg`] a text.

use plotters::style::{RGBAColor, RGBColor};

use super::text::{Weight, width};

/// What a stroke ends with.
pub type Drawn<P> = Result<(), <P as Pen>::Error>;

/// A place in the finished picture.
pub type Spot = (f64, f64);

/// Where a text stands relative to its spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// It starts there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A line of text in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// What it says.
    pub text: String,
    /// The baseline's start, middle or end.
    pub spot: Spot,
    /// Which of them.
    pub align: Align,
    /// Pixels per em.
    pub size: f64,
    /// Thickness of the strokes.
    pub weight: Weight,
    /// Whether it reads upwards.
    pub upward: bool,
    /// Its colour.
    pub color: RGBColor,
}

impl Label {
    /// How long it is, in its own direction.
    pub fn width(&self) -> f64 {
        width(&self.text, self.size, self.weight)
    }
}

/// What belongs together in a picture: nothing to pixels, but a text can say so, and a page then move it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// The panel of that number.
    Panel(usize),
    /// The lines that stand at ticks.
    Grid,
    /// What stands for data, between these left, top, right and bottom.
    Field((f64, f64, f64, f64)),
    /// The words of ticks, from left to right or from the bottom up.
    Ticks,
    /// A shape around a spot, whose size says nothing.
    Mark(Spot),
}

/// Draws, each stroke over those before.
pub trait Pen: Sized {
    /// What can fail.
    type Error;

    /// A filled rectangle between two opposite corners.
    fn rect(&self, a: Spot, b: Spot, color: RGBAColor) -> Drawn<Self>;

    /// A filled polygon.
    fn polygon(&self, corners: &[Spot], color: RGBAColor) -> Drawn<Self>;

    /// A filled disc.
    fn disc(&self, center: Spot, radius: f64, color: RGBAColor) -> Drawn<Self>;

    /// A straight stroke with flat ends.
    fn stroke(&self, a: Spot, b: Spot, width: f64, color: RGBColor) -> Drawn<Self>;

    /// Strokes through all spots, with round joints where they are thick enough to show.
    fn line(&self, spots: &[Spot], width: f64, color: RGBColor) -> Drawn<Self>;

    /// A horizontal dashed stroke.
    fn dashes(&self, from: Spot, right: f64, width: f64, color: RGBColor) -> Drawn<Self>;

    /// A text.
    fn label(&self, label: &Label) -> Drawn<Self>;

    /// Draws what belongs together.
    fn part(&self, _: Part, draw: impl FnOnce() -> Drawn<Self>) -> Drawn<Self> {
        draw()
    }
}

/// The length of a dash, and from the start of one to that of the next.
pub const DASHES: (f64, f64) = (12.0, 20.0);
