//! A few strokes over plotters' raster primitives. Coordinates are pixels of the finished picture; the canvas under the
//! pen is finer by [`Pen`]'s scale, since plotters rounds every corner to whole pixels.

use plotters::{
    coord::Shift,
    prelude::{DrawingArea, DrawingAreaErrorKind, DrawingBackend, Polygon, Rectangle},
    style::{Color, RGBAColor, RGBColor},
};

use super::text::{Weight, rasterize, width};

/// What a stroke ends with.
pub type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

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

/// Draws on one area at one scale.
pub struct Pen<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    scale: f64,
}

impl<'a, DB: DrawingBackend> Pen<'a, DB> {
    /// `scale`: pixels of the area to a pixel of the finished picture.
    pub fn new(area: &'a DrawingArea<DB, Shift>, scale: f64) -> Self {
        Self { area, scale }
    }

    fn fine(&self, (x, y): Spot) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    /// A filled rectangle between two opposite corners.
    pub fn rect(&self, a: Spot, b: Spot, color: RGBAColor) -> Drawn<DB> {
        self.area.draw(&Rectangle::new([self.fine(a), self.fine(b)], color.filled()))
    }

    /// A filled polygon.
    pub fn polygon(&self, corners: &[Spot], color: RGBAColor) -> Drawn<DB> {
        let corners: Vec<_> = corners.iter().map(|&c| self.fine(c)).collect();
        self.area.draw(&Polygon::new(corners, color))
    }

    /// A filled disc.
    pub fn disc(&self, (x, y): Spot, radius: f64, color: RGBAColor) -> Drawn<DB> {
        let angle = |i: u32| f64::from(i) * std::f64::consts::TAU / 24.0;
        let corners: Vec<Spot> = (0..24).map(|i| (x + radius * angle(i).cos(), y + radius * angle(i).sin())).collect();
        self.polygon(&corners, color)
    }

    /// A straight stroke with flat ends.
    pub fn stroke(&self, a: Spot, b: Spot, width: f64, color: RGBColor) -> Drawn<DB> {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy);
        if length == 0.0 {
            return Ok(());
        }
        let (nx, ny) = (-dy / length * width / 2.0, dx / length * width / 2.0);
        if dx == 0.0 || dy == 0.0 {
            return self.rect(
                (a.0 - nx.abs(), a.1.min(b.1) - ny.abs()),
                (b.0 + nx.abs(), a.1.max(b.1) + ny.abs()),
                color.into(),
            );
        }
        let corners = [(a.0 + nx, a.1 + ny), (b.0 + nx, b.1 + ny), (b.0 - nx, b.1 - ny), (a.0 - nx, a.1 - ny)];
        self.polygon(&corners, color.into())
    }

    /// Strokes through all spots, with round joints where they are thick enough to show.
    pub fn line(&self, spots: &[Spot], width: f64, color: RGBColor) -> Drawn<DB> {
        for pair in spots.windows(2) {
            self.stroke(pair[0], pair[1], width, color)?;
        }
        if width >= 2.0 {
            spots.iter().try_for_each(|&s| self.disc(s, width / 2.0, color.into()))?;
        }
        Ok(())
    }

    /// A horizontal dashed stroke.
    pub fn dashes(&self, (left, y): Spot, right: f64, width: f64, color: RGBColor) -> Drawn<DB> {
        const DASH: f64 = 12.0;
        const PERIOD: f64 = 20.0;
        let starts = (0..).map(|i| left + f64::from(i) * PERIOD).take_while(|&x| x < right);
        starts.into_iter().try_for_each(|x| self.stroke((x, y), ((x + DASH).min(right), y), width, color))
    }

    /// A text.
    pub fn label(&self, label: &Label) -> Drawn<DB> {
        let start = match label.align {
            Align::Start => 0.0,
            Align::Middle => label.width() / 2.0,
            Align::End => label.width(),
        };
        let (x, y) = label.spot;
        let (x, y) = self.fine(if label.upward { (x, y + start) } else { (x - start, y) });
        let mut drawn = Ok(());
        rasterize(&label.text, label.size * self.scale, label.weight, |right, down, share| {
            let spot = if label.upward { (x + down, y - right) } else { (x + right, y + down) };
            if share > 0.0 && drawn.is_ok() {
                drawn = self.area.draw_pixel(spot, &label.color.mix(share));
            }
        });
        drawn
    }
}
