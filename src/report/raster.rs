//! From a figure to the bytes of a PNG: drawn by plotters' raster primitives at a multiple of the size, since plotters
//! rounds every corner to whole pixels, reduced by averaging, encoded.

use std::{cell::RefCell, fmt::Display};

use plotters::{
    coord::Shift,
    prelude::{BitMapBackend, DrawingArea, DrawingAreaErrorKind, DrawingBackend, IntoDrawingArea, Polygon, Rectangle},
    style::{Color, RGBAColor, RGBColor},
};

use super::{
    draw,
    figure::Figure,
    layout::layout,
    pen::{Align, DASHES, Drawn, Label, Pen, Spot},
    text::rasterize,
};
use crate::base::{Context, Exit, Result};

/// Pixels drawn for each pixel of the picture, each way, since plotters' strokes are rough at the picture's own size;
/// fewer where a picture is so high that this would take hundreds of megabytes.
fn finer(height: usize) -> usize {
    if height <= 2400 { 3 } else { 2 }
}

/// What pictures of pixels are drawn on.
type Canvas<'a, 'b> = Raster<'a, BitMapBackend<'b>>;

/// Why they could not be drawn on.
type Failure = DrawingAreaErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>;

/// The picture of `figure` as a PNG.
pub fn png(figure: &Figure) -> Result<Vec<u8>> {
    let plan = layout(figure);
    picture(plan.size, &figure.title, |pen| draw::paint(pen, &plan))
}

/// A PNG of that width and height, with what `paint` draws. `title` names it where that fails.
pub(super) fn picture(
    (width, height): (f64, f64),
    title: &str,
    paint: impl FnOnce(&Canvas) -> std::result::Result<(), Failure>,
) -> Result<Vec<u8>> {
    thread_local! {
        /// What this thread draws on. Pages of memory that were in use before need not be asked for again.
        static CANVAS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let (width, height) = (width as usize, height as usize);
    let finer = finer(height);
    let fine = (width * finer, height * finer);
    let mut canvas = CANVAS.take();
    canvas.clear();
    canvas.resize(3 * fine.0 * fine.1, 0xff);
    {
        let area = BitMapBackend::with_buffer(&mut canvas, (fine.0 as u32, fine.1 as u32)).into_drawing_area();
        failing(paint(&Raster::new(&area, finer as f64)), title)?;
        failing(area.present(), title)?;
    }
    let pixels = match finer {
        3 => reduce::<3>(&canvas, fine.0),
        _ => reduce::<2>(&canvas, fine.0),
    };
    CANVAS.set(canvas);
    failing(encode(&pixels, width as u32, height as u32), title)
}

fn failing<T, E: Display + 'static>(result: std::result::Result<T, E>, title: &str) -> Result<T> {
    result.doing(Exit::Unexpected, || format!("drawing the picture \"{title}\""))
}

/// Averages squares of `FINER` × `FINER` pixels. `width`: of a row of `canvas`, in pixels.
fn reduce<const FINER: usize>(canvas: &[u8], width: usize) -> Vec<u8> {
    let area = (FINER * FINER) as u16; // nine bytes fit into 16 bits, of which a processor adds many at once
    let row = 3 * width;
    let mut out = vec![0u8; row / FINER * (canvas.len() / (FINER * row))];
    let mut sums = vec![0u16; row];
    for (block, reduced) in canvas.chunks_exact(FINER * row).zip(out.chunks_exact_mut(row / FINER)) {
        sums.fill(0);
        for line in block.chunks_exact(row) {
            sums.iter_mut().zip(line).for_each(|(sum, &value)| *sum += u16::from(value));
        }
        for (pixels, reduced) in sums.chunks_exact(3 * FINER).zip(reduced.as_chunks_mut::<3>().0) {
            for (color, reduced) in reduced.iter_mut().enumerate() {
                let sum: u16 = (0..FINER).map(|i| pixels[3 * i + color]).sum();
                *reduced = ((sum + area / 2) / area) as u8;
            }
        }
    }
    out
}

fn encode(rgb: &[u8], width: u32, height: u32) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_filter(png::Filter::NoFilter); // drawings come out smaller without, and sooner
    let mut writer = encoder.write_header()?;
    writer.write_image_data(rgb)?;
    writer.finish()?;
    Ok(bytes)
}

/// Draws on one area at one scale.
pub struct Raster<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    scale: f64,
}

impl<'a, DB: DrawingBackend> Raster<'a, DB> {
    /// `scale`: pixels of the area to a pixel of the finished picture.
    pub fn new(area: &'a DrawingArea<DB, Shift>, scale: f64) -> Self {
        Self { area, scale }
    }

    fn fine(&self, (x, y): Spot) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }
}

impl<DB: DrawingBackend> Pen for Raster<'_, DB> {
    type Error = DrawingAreaErrorKind<DB::ErrorType>;

    fn rect(&self, a: Spot, b: Spot, color: RGBAColor) -> Drawn<Self> {
        self.area.draw(&Rectangle::new([self.fine(a), self.fine(b)], color.filled()))
    }

    fn polygon(&self, corners: &[Spot], color: RGBAColor) -> Drawn<Self> {
        let corners: Vec<_> = corners.iter().map(|&c| self.fine(c)).collect();
        self.area.draw(&Polygon::new(corners, color))
    }

    fn disc(&self, (x, y): Spot, radius: f64, color: RGBAColor) -> Drawn<Self> {
        let angle = |i: u32| f64::from(i) * std::f64::consts::TAU / 24.0;
        let corners: Vec<Spot> = (0..24).map(|i| (x + radius * angle(i).cos(), y + radius * angle(i).sin())).collect();
        self.polygon(&corners, color)
    }

    fn stroke(&self, a: Spot, b: Spot, width: f64, color: RGBColor) -> Drawn<Self> {
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

    fn line(&self, spots: &[Spot], width: f64, color: RGBColor) -> Drawn<Self> {
        for pair in spots.windows(2) {
            self.stroke(pair[0], pair[1], width, color)?;
        }
        if width >= 2.0 {
            spots.iter().try_for_each(|&s| self.disc(s, width / 2.0, color.into()))?;
        }
        Ok(())
    }

    fn dashes(&self, (left, y): Spot, right: f64, width: f64, color: RGBColor) -> Drawn<Self> {
        let (dash, period) = DASHES;
        let starts = (0..).map(|i| left + f64::from(i) * period).take_while(|&x| x < right);
        starts.into_iter().try_for_each(|x| self.stroke((x, y), ((x + dash).min(right), y), width, color))
    }

    fn label(&self, label: &Label) -> Drawn<Self> {
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
