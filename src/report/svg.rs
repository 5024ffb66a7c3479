//! From a figure to the text of an SVG, for pages and for print: the same strokes as a PNG has. Words have the width that
//! was measured, whatever font shows them. What belongs together is grouped, so that a page can move it.

use std::{
    cell::RefCell,
    convert::Infallible,
    fmt::{self, Write as _},
};

use plotters::style::{Color, RGBAColor, RGBColor};

use super::{
    draw,
    figure::Figure,
    layout::{Layout, layout},
    markup::escaped,
    pen::{Align, DASHES, Drawn, Label, Part, Pen, Spot},
    text::Weight,
};

/// The fonts of words: the one that was measured, else one as wide.
const FONTS: &str = "DejaVu Sans, Verdana, sans-serif";

/// The picture of `figure` as a file of its own.
pub fn svg(figure: &Figure) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", element(figure, &layout(figure), true))
}

/// The picture as an element; `on_paper`: on white rather than on what is behind it.
pub fn element(figure: &Figure, plan: &Layout, on_paper: bool) -> String {
    let (width, height) = plan.size;
    let pen = Svg { out: RefCell::new(String::new()) };
    pen.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"{FONTS}\" role=\"img\">\n<title>{}</title>\n",
        escaped(&figure.title)
    ));
    if on_paper {
        pen.put(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"));
    }
    let Ok(()) = draw::paint(&pen, plan);
    pen.put(format_args!("</svg>\n"));
    pen.out.into_inner()
}

/// Writes elements.
struct Svg {
    out: RefCell<String>,
}

impl Svg {
    fn put(&self, text: std::fmt::Arguments) {
        let _ = self.out.borrow_mut().write_fmt(text); // a string takes everything
    }

    /// A path through some spots. `paint`: its attributes; `end`: what closes it.
    fn path(&self, spots: &[Spot], end: &str, paint: std::fmt::Arguments) {
        let mut d = String::new();
        for (i, &(x, y)) in spots.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { "L" }, short(x), short(y));
        }
        self.put(format_args!("<path d=\"{d}{end}\" {paint}/>\n"));
    }
}

impl Pen for Svg {
    type Error = Infallible;

    fn rect(&self, a: Spot, b: Spot, color: RGBAColor) -> Drawn<Self> {
        let (x, y) = (a.0.min(b.0), a.1.min(b.1));
        let (w, h) = ((a.0 - b.0).abs(), (a.1 - b.1).abs());
        let [x, y, w, h] = [x, y, w, h].map(short);
        self.put(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" {}/>\n", fill(color)));
        Ok(())
    }

    fn polygon(&self, corners: &[Spot], color: RGBAColor) -> Drawn<Self> {
        self.path(corners, "Z", format_args!("{}", fill(color)));
        Ok(())
    }

    fn disc(&self, (x, y): Spot, radius: f64, color: RGBAColor) -> Drawn<Self> {
        let [x, y, r] = [x, y, radius].map(short);
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {}/>\n", fill(color)));
        Ok(())
    }

    fn stroke(&self, a: Spot, b: Spot, width: f64, color: RGBColor) -> Drawn<Self> {
        self.path(&[a, b], "", format_args!("stroke=\"{}\" stroke-width=\"{width}\"", hex(color)));
        Ok(())
    }

    fn line(&self, spots: &[Spot], width: f64, color: RGBColor) -> Drawn<Self> {
        let stroke = format_args!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"", hex(color)).to_string();
        self.path(spots, "", format_args!("{stroke} stroke-linejoin=\"round\""));
        Ok(())
    }

    fn dashes(&self, (left, y): Spot, right: f64, width: f64, color: RGBColor) -> Drawn<Self> {
        let (dash, period) = DASHES;
        let dashes = format!("stroke-dasharray=\"{dash} {}\"", period - dash);
        self.path(
            &[(left, y), (right, y)],
            "",
            format_args!("stroke=\"{}\" stroke-width=\"{width}\" {dashes}", hex(color)),
        );
        Ok(())
    }

    fn label(&self, label: &Label) -> Drawn<Self> {
        let [x, y, size, long] = [label.spot.0, label.spot.1, label.size, label.width()].map(short);
        let anchor = match label.align {
            Align::Start => "",
            Align::Middle => " text-anchor=\"middle\"",
            Align::End => " text-anchor=\"end\"",
        };
        let bold = if label.weight == Weight::Bold { " font-weight=\"bold\"" } else { "" };
        let turn = if label.upward { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{bold} textLength=\"{long}\" \
             lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{turn}>{}</text>\n",
            hex(label.color),
            escaped(&label.text)
        ));
        Ok(())
    }

    fn part(&self, part: Part, draw: impl FnOnce() -> Drawn<Self>) -> Drawn<Self> {
        match part {
            Part::Panel(number) => self.put(format_args!("<g class=\"panel\" data-number=\"{number}\">\n")),
            Part::Grid => self.put(format_args!("<g class=\"grid\">\n")),
            Part::Field(_) => self.put(format_args!("<g><g class=\"field\">\n")),
            Part::Ticks => self.put(format_args!("<g class=\"ticks\">\n")),
            Part::Mark((x, y)) => self.put(format_args!("<g class=\"mark\" data-at=\"{} {}\">", short(x), short(y))),
        }
        draw()?;
        self.put(format_args!("{}\n", if matches!(part, Part::Field(_)) { "</g></g>" } else { "</g>" }));
        Ok(())
    }
}

/// A coordinate to hundredths of a pixel.
fn short(x: f64) -> Hundredths {
    Hundredths((x * 100.0).round() as i64)
}

/// A number as short as it can be written. Pages have some hundred thousand of them.
struct Hundredths(i64);

impl fmt::Display for Hundredths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        f.write_str(if self.0 < 0 { "-" } else { "" })?;
        match (part / 10, part % 10) {
            (0, 0) => write!(f, "{whole}"),
            (tenths, 0) => write!(f, "{whole}.{tenths}"),
            (tenths, hundredths) => write!(f, "{whole}.{tenths}{hundredths}"),
        }
    }
}

/// `#0072b2`.
pub fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn fill(color: RGBAColor) -> String {
    let (r, g, b) = color.rgb();
    let opacity = if color.alpha() < 1.0 { format!(" fill-opacity=\"{}\"", color.alpha()) } else { String::new() };
    format!("fill=\"{}\"{opacity}", hex(RGBColor(r, g, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        let cases =
            [(0.0, "0"), (-0.001, "0"), (12.0, "12"), (-3.5, "-3.5"), (0.07, "0.07"), (-0.049, "-0.05"), (9.999, "10")];
        for (x, text) in cases {
            assert_eq!(short(x).to_string(), text);
        }
    }
}
