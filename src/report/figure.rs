//! A chart as data: what it shows, in which words, with which scales. Plots make figures and know nothing of pixels;
//! [`super::layout`] and [`super::draw`] turn them into pictures and know nothing of runs.

/// Lines that one panel can hold and still be read; the palette has as many colours and shapes.
pub const MAX_LINES: usize = 8;

/// Rows that a forest can hold and still be read.
pub const MAX_ROWS: usize = 20;

/// A picture: rows of panels, or a forest in their place, with a title above and notes below.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What is shown.
    pub title: String,
    /// Panels, row by row.
    pub rows: Vec<Vec<Panel>>,
    /// Categories one below the other.
    pub forest: Option<Forest>,
    /// What has to be known to read it: the experiment, the number of seeds, what a band is, what was left out.
    pub notes: Vec<String>,
}

/// One pair of axes and what is drawn between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What tells it from the other panels; empty for a panel alone.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Lines, in the order of the legend.
    pub series: Vec<Series>,
    /// Horizontal lines at known levels.
    pub references: Vec<Reference>,
    /// Places where a value is missing.
    pub gaps: Vec<Gap>,
    /// The cells of a map, whose axes are ordinal.
    pub cells: Vec<Cell>,
    /// What the inks of its cells mean.
    pub swatches: Vec<Mark>,
    /// What the shares of its cells mean: what is light and what is dark.
    pub ramp: Option<String>,
}

/// A cell of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its place to the right, counted from 0.
    pub x: usize,
    /// Its place upwards, counted from 0.
    pub y: usize,
    /// What it is filled with.
    pub fill: Fill,
    /// What is written in it, the first line the most important.
    pub lines: Vec<String>,
    /// Its value, where it stands for one.
    pub value: Option<f64>,
}

/// What a cell is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// A colour between light, 0, and dark, 1.
    Share(f64),
    /// An ink, of this strength between 0 and 1.
    Ink(Ink, f64),
}

/// One axis of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// The values to mark; empty for round ones.
    pub ticks: Vec<f64>,
    /// From where to where; all that is drawn, and some room, where nothing is said.
    pub range: Option<(f64, f64)>,
}

/// How values become places.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long.
    Log,
    /// Value `i` is the `i`-th of these ordered labels, evenly spaced.
    Ordinal(Vec<String>),
    /// Value `i` is the `i`-th of these words, between which there is nothing.
    Words(Vec<String>),
}

/// One line with what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend; a series without one is explained by another's.
    pub label: String,
    /// Among the data, where the legend's words do not tell it from the others.
    pub name: String,
    /// Its colour and the shape of its markers.
    pub ink: Ink,
    /// How its points are joined.
    pub line: Line,
    /// Whether its points have markers.
    pub markers: bool,
    /// (x, y), x ascending. A y that is no finite number interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// (x, lowest, highest): an area along a line, whiskers where there is none.
    pub band: Vec<(f64, f64, f64)>,
    /// Single values behind the points, drawn faintly.
    pub dots: Vec<(f64, f64)>,
}

/// What a series is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// The n-th colour and shape of the palette, counted from 0 and around.
    Color(usize),
    /// Grey: what stands for all series in the legend.
    Neutral,
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// What the picture is about.
    Strong,
    /// As that, but so many that thick ones would hide each other.
    Thin,
    /// What stands behind it.
    Faint,
    /// Not at all.
    None,
}

/// A known level.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// In the legend.
    pub label: String,
    /// Where.
    pub y: f64,
}

/// A value that is missing, marked with a cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Where it would stand.
    pub x: f64,
    /// Where the line broke off; at the foot of the panel where there was none.
    pub y: Option<f64>,
    /// Whose it is.
    pub ink: Ink,
}

/// A forest plot: a row for each category, with its values on one scale and words in columns beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    /// Of the values, to the right.
    pub x: Axis,
    /// A vertical line to compare with, and the area around it.
    pub level: Option<(f64, (f64, f64))>,
    /// The heads of the columns to the right of the values.
    pub columns: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<Category>,
    /// What inks mean.
    pub legend: Vec<Mark>,
}

/// A row of a forest.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// Its name, to the left.
    pub label: String,
    /// Its colour and the shape of its marker.
    pub ink: Ink,
    /// Where its marker stands.
    pub center: f64,
    /// From where to where its bar goes.
    pub bar: Option<(f64, f64)>,
    /// Single values behind the marker.
    pub dots: Vec<f64>,
    /// What stands in the columns.
    pub cells: Vec<String>,
    /// Whether a line parts it from the rows below.
    pub is_head: bool,
}

/// What an ink means.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its colour and shape.
    pub ink: Ink,
    /// In the legend.
    pub label: String,
}

impl Axis {
    /// An axis with round ticks over whatever is drawn.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, ticks: Vec::new(), range: None }
    }
}

impl Series {
    /// A series without points yet.
    pub fn new(label: impl Into<String>, ink: Ink, line: Line, markers: bool) -> Self {
        let (points, band, dots) = (Vec::new(), Vec::new(), Vec::new());
        Self { label: label.into(), name: String::new(), ink, line, markers, points, band, dots }
    }

    /// What it is called among the data.
    pub fn full_name(&self) -> &str {
        if self.name.is_empty() { &self.label } else { &self.name }
    }
}

impl Scale {
    /// The words of a scale whose values are places among them.
    pub fn words(&self) -> Option<&[String]> {
        match self {
            Self::Ordinal(words) | Self::Words(words) => Some(words),
            Self::Linear | Self::Log => None,
        }
    }
}

impl Forest {
    /// Every value that something is drawn at.
    pub fn xs(&self) -> impl Iterator<Item = f64> {
        let of = |row: &Category| -> Vec<f64> {
            row.dots
                .iter()
                .copied()
                .chain(row.bar.into_iter().flat_map(|(lo, hi)| [lo, hi]))
                .chain([row.center])
                .collect()
        };
        let level = self.level.into_iter().flat_map(|(x, (lo, hi))| [x, lo, hi]);
        self.rows.iter().flat_map(of).chain(level)
    }
}

impl Panel {
    /// An empty panel.
    pub fn new(x: Axis, y: Axis) -> Self {
        let (title, series, references, gaps) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        Self { title, x, y, series, references, gaps, cells: Vec::new(), swatches: Vec::new(), ramp: None }
    }

    /// Every x that something is drawn at.
    pub fn xs(&self) -> impl Iterator<Item = f64> {
        let of = |s: &Series| -> Vec<f64> { s.points.iter().chain(&s.dots).map(|p| p.0).collect() };
        self.series.iter().flat_map(of).chain(self.gaps.iter().map(|g| g.x))
    }

    /// Every y that something is drawn at, levels apart; may not be finite.
    pub fn ys(&self) -> impl Iterator<Item = f64> {
        let bounds = |s: &Series| -> Vec<f64> { s.band.iter().flat_map(|b| [b.1, b.2]).collect() };
        let of = |s: &Series| -> Vec<f64> { s.points.iter().chain(&s.dots).map(|p| p.1).collect() };
        self.series.iter().flat_map(move |s| of(s).into_iter().chain(bounds(s)))
    }
}
