//! Where everything of a figure stands, in pixels of the finished picture: measured before anything is drawn, so that
//! no label is cut off and no legend covers data.

use std::ops::Range;

use plotters::style::RGBColor;

use super::{
    figure::{Axis, Figure, Line, Mark, Panel, Reference, Scale, Series},
    forest::{self, PlacedForest},
    numbers, palette,
    pen::{Align, Label},
    scale::{self, Ruler},
    text::{CAPITALS, Weight, fit, width, wrap},
};

/// The width of every picture.
pub const WIDTH: f64 = 1600.0;
/// Around everything.
pub const MARGIN: f64 = 36.0;
/// Between two columns of panels.
const GUTTER: f64 = 48.0;
/// Between two rows of panels.
const ROW_GAP: f64 = 26.0;

const TITLE: f64 = 34.0;
const HEAD: f64 = 27.0;
/// The size of labels.
pub const LABEL: f64 = 26.0;
/// The size of ticks' words.
pub const TICK: f64 = 24.0;
const LEGEND: f64 = 25.0;
const NOTE: f64 = 21.0;
/// From one baseline to the next, in em.
pub const LEADING: f64 = 1.4;

/// The length of a line's sample in a legend.
pub const SAMPLE: f64 = 48.0;
/// The length of a tick.
pub const TICK_LENGTH: f64 = 7.0;

/// A figure with a place for everything.
pub struct Layout<'a> {
    /// Width and height.
    pub size: (f64, f64),
    /// Every text.
    pub labels: Vec<Label>,
    /// The samples of the legends: what each is of, and the left end of its middle.
    pub samples: Vec<(Entry<'a>, (f64, f64))>,
    /// The panels.
    pub panels: Vec<Placed<'a>>,
    /// The forest in their place.
    pub forest: Option<PlacedForest<'a>>,
}

/// A panel in its place.
pub struct Placed<'a> {
    /// What is drawn in it.
    pub panel: &'a Panel,
    /// The left, top, right and bottom of the field between the axes.
    pub field: (f64, f64, f64, f64),
    /// To the right.
    pub x: Ruler,
    /// Upwards.
    pub y: Ruler,
    /// Where the grid stands.
    pub x_ticks: Vec<f64>,
    /// Where the grid stands.
    pub y_ticks: Vec<f64>,
    /// Which of the layout's labels are the words of its ticks: upwards, and to the right.
    pub ticks: [Range<usize>; 2],
}

/// What a line of a legend explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry<'a> {
    /// A series.
    Series(&'a Series),
    /// A level.
    Reference(&'a Reference),
    /// A marker.
    Mark(&'a Mark),
    /// The colour of cells.
    Swatch(&'a Mark),
    /// The colours of cells from light to dark.
    Ramp(&'a str),
}

/// Finds a place for everything of `figure`.
pub fn layout(figure: &Figure) -> Layout<'_> {
    let mut out =
        Layout { size: (WIDTH, 0.0), labels: Vec::new(), samples: Vec::new(), panels: Vec::new(), forest: None };
    let mut top = MARGIN;
    if !figure.title.is_empty() {
        top = out.paragraph(&figure.title, MARGIN, TITLE, Weight::Bold, palette::TEXT) + 10.0;
    }
    let panels: Vec<&Panel> = figure.rows.iter().flatten().collect();
    let one_legend = alike(&panels);
    if one_legend && let Some(panel) = panels.first() {
        top += out.legend(&entries(panel), (MARGIN, top), WIDTH - 2.0 * MARGIN);
    }
    let grid = Grid::new(figure, &panels, top);
    for row in &figure.rows {
        top = out.row(row, &grid, top, one_legend) + ROW_GAP;
    }
    if let Some(forest) = &figure.forest {
        top = forest::place(&mut out, forest, top) + ROW_GAP;
    }
    for note in &figure.notes {
        top = out.paragraph(note, top, NOTE, Weight::Regular, palette::SOFT);
    }
    out.size.1 = (top + MARGIN * 0.6).ceil();
    out
}

/// What all rows of a figure have in common.
struct Grid {
    columns: usize,
    /// Of the field between the axes of every panel.
    width: f64,
    height: f64,
    /// About how many ticks a vertical axis has.
    steps: usize,
    /// The room that ticks and label of a vertical axis take.
    ticks_room: f64,
    label_room: f64,
    /// Whether all panels have one vertical axis: then its label stands at the left alone.
    one_axis: bool,
}

impl Grid {
    /// `top`: where the first row begins.
    fn new(figure: &Figure, panels: &[&Panel], top: f64) -> Self {
        let columns = figure.rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let steps = if figure.rows.len() > 1 { 5 } else { 7 };
        let notes = LEADING * NOTE * figure.notes.len() as f64;
        let height = field_height(figure.rows.len(), columns, top + notes + 2.0 * MARGIN);
        let mut grid = Self {
            columns,
            width: 0.0,
            height,
            steps,
            ticks_room: panels.iter().map(|p| y_ticks_room(p, steps)).fold(0.0, f64::max),
            label_room: panels.iter().map(|p| y_label_room(p, height)).fold(0.0, f64::max),
            one_axis: panels.windows(2).all(|pair| pair[0].y == pair[1].y),
        };
        let beside: f64 = (0..columns).map(|c| grid.room(c)).sum();
        grid.width = (WIDTH - 2.0 * MARGIN - GUTTER * (columns - 1) as f64 - beside) / columns as f64;
        grid
    }

    /// Whether a column's vertical axes have their label.
    fn is_labelled(&self, column: usize) -> bool {
        column == 0 || !self.one_axis
    }

    /// The room left of the fields of a column.
    fn room(&self, column: usize) -> f64 {
        self.ticks_room + if self.is_labelled(column) { self.label_room } else { 0.0 }
    }

    /// The left end of a column.
    fn edge(&self, column: usize) -> f64 {
        MARGIN + (0..column).map(|c| self.room(c) + self.width + GUTTER).sum::<f64>()
    }
}

/// The height of the field between the axes: what makes a picture about 1000 pixels high, or enough to be read.
fn field_height(rows: usize, columns: usize, used: f64) -> f64 {
    let (whole, least) = match (rows, columns) {
        (1, 1) => (1000.0, 560.0),
        (1, _) => (900.0, 480.0),
        (..=4, _) => (1000.0, 360.0),
        (_, _) => (1000.0, 310.0),
    };
    let feet = 1.3 * LABEL + LEADING * TICK + ROW_GAP + 20.0;
    ((whole - used) / rows as f64 - feet).max(least)
}

/// What the legend of a panel explains; nothing where there is but one thing, unless that is a level, which nothing else
/// names.
fn entries(panel: &Panel) -> Vec<Entry<'_>> {
    let series = panel.series.iter().filter(|s| !s.label.is_empty()).map(Entry::Series);
    let maps = panel.swatches.iter().map(Entry::Swatch).chain(panel.ramp.as_deref().map(Entry::Ramp));
    let all: Vec<_> = series.chain(panel.references.iter().map(Entry::Reference)).chain(maps).collect();
    if all.len() > 1 || panel.ramp.is_some() || !panel.references.is_empty() { all } else { Vec::new() }
}

/// Whether one legend serves all panels.
fn alike(panels: &[&Panel]) -> bool {
    let key = |p: &Panel| -> Vec<_> {
        entries(p)
            .iter()
            .map(|e| match e {
                Entry::Series(s) => (s.label.clone(), Some((s.ink, s.line, s.markers))),
                Entry::Ramp(label) => ((*label).to_owned(), None),
                Entry::Reference(Reference { label, .. })
                | Entry::Mark(Mark { label, .. })
                | Entry::Swatch(Mark { label, .. }) => (label.clone(), None),
            })
            .collect()
    };
    panels.windows(2).all(|pair| key(pair[0]) == key(pair[1]))
}

/// The range of a panel's vertical axis.
fn y_range(panel: &Panel) -> (f64, f64) {
    if let Some(words) = panel.y.scale.words() {
        return (-0.5, words.len() as f64 - 0.5);
    }
    let all = panel.ys().chain(panel.references.iter().map(|r| r.y));
    let found = || scale::range(all, panel.y.scale == Scale::Log, 0.06);
    panel.y.range.or_else(found).unwrap_or((0.0, 1.0))
}

/// The range of a horizontal axis with something drawn at `xs`.
pub fn x_range(axis: &Axis, xs: impl Iterator<Item = f64>) -> (f64, f64) {
    match &axis.scale {
        Scale::Ordinal(words) | Scale::Words(words) => (-0.5, words.len() as f64 - 0.5),
        scale => {
            let found = || scale::range(xs, *scale == Scale::Log, 0.05);
            axis.range.or_else(found).unwrap_or((0.0, 1.0))
        }
    }
}

/// The ticks of an axis over its range: those that it asks for, else round ones.
fn ticks(axis: &Axis, range: (f64, f64), count: usize) -> Vec<(f64, String)> {
    if axis.ticks.is_empty() {
        return scale::ticks(&axis.scale, range, count);
    }
    axis.ticks.iter().map(|&v| (v, numbers::number(v))).collect()
}

/// The lines of a vertical axis's label along a field of this height: its unit rather stays in one piece.
fn y_label(panel: &Panel, height: f64) -> Vec<String> {
    let label = &panel.y.label;
    match label.split_once(" (") {
        Some((name, unit)) if width(label, LABEL, Weight::Regular) > height => {
            vec![name.to_owned(), format!("({unit}")]
        }
        _ => wrap(label, LABEL, Weight::Regular, height),
    }
}

/// The room that the vertical axis's label takes.
fn y_label_room(panel: &Panel, height: f64) -> f64 {
    LABEL * (0.2 + 1.3 * y_label(panel, height).len() as f64)
}

/// The room that the vertical axis's ticks and their labels take.
fn y_ticks_room(panel: &Panel, steps: usize) -> f64 {
    let labels = ticks(&panel.y, y_range(panel), steps);
    labels.iter().map(|t| width(&t.1, TICK, Weight::Regular)).fold(0.0, f64::max) + TICK_LENGTH + 8.0
}

impl<'a> Layout<'a> {
    /// A row of panels; answers where it ends.
    fn row(&mut self, row: &'a [Panel], grid: &Grid, mut top: f64, one_legend: bool) -> f64 {
        let row_legend = !one_legend && row.len() == grid.columns && alike(&row.iter().collect::<Vec<_>>());
        if row_legend && let Some(panel) = row.first() {
            top += self.legend(&entries(panel), (MARGIN, top), WIDTH - 2.0 * MARGIN);
        }
        let mut heads = 0.0f64;
        for (i, panel) in row.iter().enumerate() {
            let (edge, room) = (grid.edge(i), grid.room(i));
            let mut used = self.head(panel, (edge + room, top), grid.width);
            if !one_legend && !row_legend {
                used += self.legend(&entries(panel), (edge, top + used), room + grid.width);
            }
            heads = heads.max(used);
        }
        top += heads + 8.0;
        let bottom = top + grid.height;
        let mut feet = 0.0f64;
        for (i, panel) in row.iter().enumerate() {
            let (edge, left) = (grid.edge(i), grid.edge(i) + grid.room(i));
            if grid.is_labelled(i) {
                self.y_label(panel, edge, (top, bottom));
            }
            feet = feet.max(self.panel(panel, (left, top, left + grid.width, bottom), grid.steps));
        }
        bottom + feet
    }

    /// Lines of text over the whole width; answers where the next may begin.
    fn paragraph(&mut self, text: &str, top: f64, size: f64, weight: Weight, color: RGBColor) -> f64 {
        let lines = wrap(text, size, weight, WIDTH - 2.0 * MARGIN);
        for (i, line) in lines.iter().enumerate() {
            let spot = (MARGIN, top + size + LEADING * size * i as f64);
            self.label(line, spot, Align::Start, size, color).weight = weight;
        }
        top + LEADING * size * lines.len() as f64
    }

    /// A line of text.
    pub fn label(&mut self, text: &str, spot: (f64, f64), align: Align, size: f64, color: RGBColor) -> &mut Label {
        let weight = Weight::Regular;
        self.labels.push(Label { text: text.to_owned(), spot, align, size, weight, upward: false, color });
        let last = self.labels.len() - 1;
        &mut self.labels[last]
    }

    /// The title of a panel; answers the height that it takes.
    fn head(&mut self, panel: &Panel, (left, top): (f64, f64), room: f64) -> f64 {
        if panel.title.is_empty() {
            return 0.0;
        }
        let text = fit(&panel.title, HEAD, room / 1.1); // bold is wider
        self.label(&text, (left, top + HEAD), Align::Start, HEAD, palette::TEXT).weight = Weight::Bold;
        LEADING * HEAD
    }

    /// Samples and words side by side, in as many lines as they need; answers the height.
    pub fn legend(&mut self, entries: &[Entry<'a>], (left, top): (f64, f64), room: f64) -> f64 {
        const GAP: f64 = 34.0;
        const LINE: f64 = LEGEND * 1.5;
        let (mut x, mut y) = (left, top);
        for entry in entries {
            let text = match entry {
                Entry::Series(s) => s.label.as_str(),
                Entry::Reference(r) => r.label.as_str(),
                Entry::Mark(m) | Entry::Swatch(m) => m.label.as_str(),
                Entry::Ramp(words) => *words,
            };
            let text = fit(text, LEGEND, room - SAMPLE - 12.0);
            let wide = SAMPLE + 12.0 + width(&text, LEGEND, Weight::Regular);
            if x > left && x + wide > left + room {
                (x, y) = (left, y + LINE);
            }
            let middle = y + LINE / 2.0;
            self.samples.push((*entry, (x, middle)));
            let spot = (x + SAMPLE + 12.0, middle + LEGEND * CAPITALS / 2.0);
            self.label(&text, spot, Align::Start, LEGEND, palette::TEXT);
            x += wide + GAP;
        }
        if entries.is_empty() { 0.0 } else { y + LINE - top + 10.0 }
    }

    /// The label of a vertical axis, `edge` being the left end of its room.
    fn y_label(&mut self, panel: &Panel, edge: f64, (top, bottom): (f64, f64)) {
        for (i, line) in y_label(panel, bottom - top).iter().enumerate() {
            let spot = (edge + LABEL * (1.0 + 1.3 * i as f64), (top + bottom) / 2.0);
            self.label(line, spot, Align::Middle, LABEL, palette::TEXT).upward = true;
        }
    }

    /// A panel with its ticks; answers the height that is taken below the field.
    fn panel(&mut self, panel: &'a Panel, field: (f64, f64, f64, f64), steps: usize) -> f64 {
        let (left, top, right, bottom) = field;
        let (x_range, y_range) = (x_range(&panel.x, panel.xs()), y_range(panel));
        let x = Ruler::new(&panel.x.scale, x_range, (left, right));
        let y = Ruler::new(&panel.y.scale, y_range, (bottom, top));

        let inside = |range: (f64, f64)| move |t: &(f64, String)| t.0 >= range.0 && t.0 <= range.1;
        let y_marks: Vec<_> = ticks(&panel.y, y_range, steps).into_iter().filter(inside(y_range)).collect();
        let first = self.labels.len();
        for (value, text) in &y_marks {
            let spot = (left - TICK_LENGTH - 6.0, y.at(*value) + TICK * CAPITALS / 2.0);
            self.label(text, spot, Align::End, TICK, palette::TEXT);
        }
        let middle = self.labels.len();
        let (x_ticks, used) = self.x_axis(&panel.x, x_range, &x, field);
        let end = self.labels.len() - 1; // the last is the axis's own
        let y_ticks = y_marks.iter().map(|t| y.at(t.0)).collect();
        self.panels.push(Placed { panel, field, x, y, x_ticks, y_ticks, ticks: [first..middle, middle..end] });
        used
    }

    /// Ticks and label of a horizontal axis; answers where the ticks stand and the height that is taken below the field.
    pub fn x_axis(
        &mut self,
        axis: &Axis,
        range: (f64, f64),
        x: &Ruler,
        field: (f64, f64, f64, f64),
    ) -> (Vec<f64>, f64) {
        let (left, _, right, bottom) = field;
        let (marks, used) = self.x_ticks(axis, range, x, field);
        let words = fit(&axis.label, LABEL, right - left);
        let spot = ((left + right) / 2.0, bottom + used + LABEL);
        self.label(&words, spot, Align::Middle, LABEL, palette::TEXT);
        (marks, used + LABEL * 1.3)
    }

    /// The ticks of the horizontal axis; answers where they stand and the height that their labels take.
    fn x_ticks(&mut self, axis: &Axis, range: (f64, f64), x: &Ruler, field: (f64, f64, f64, f64)) -> (Vec<f64>, f64) {
        let (left, _, right, bottom) = field;
        let top = bottom + TICK_LENGTH + 4.0;
        if let Scale::Words(_) | Scale::Ordinal(_) = axis.scale {
            let marks = ticks(axis, range, 0);
            let slot = (right - left) / marks.len() as f64 - 14.0;
            let used = self.words(&marks, x, top, slot);
            return (marks.iter().map(|m| x.at(m.0)).collect(), used + top - bottom);
        }
        let mut marks = Vec::new();
        for count in (2..=((right - left) / 90.0) as usize).rev() {
            marks = ticks(axis, range, count);
            marks.retain(|m| m.0 >= range.0 && m.0 <= range.1);
            let apart = |pair: &[(f64, String)]| {
                let half = |m: &(f64, String)| width(&m.1, TICK, Weight::Regular) / 2.0;
                x.at(pair[1].0) - x.at(pair[0].0) >= half(&pair[0]) + half(&pair[1]) + 16.0
            };
            if marks.windows(2).all(apart) {
                break;
            }
        }
        let mut free = f64::NEG_INFINITY;
        for (value, text) in &marks {
            let half = width(text, TICK, Weight::Regular) / 2.0;
            let at = x.at(*value).clamp(half, WIDTH - MARGIN * 0.3 - half);
            if at - half >= free {
                self.label(text, (at, top + TICK), Align::Middle, TICK, palette::TEXT);
                free = at + half + 16.0;
            }
        }
        (marks.iter().map(|m| x.at(m.0)).collect(), top - bottom + TICK * LEADING)
    }

    /// Words under their slots: in up to three lines, or upright where slots are too narrow for that; answers the
    /// height.
    fn words(&mut self, marks: &[(f64, String)], x: &Ruler, top: f64, slot: f64) -> f64 {
        const UPRIGHT: f64 = 220.0;
        let wide = |text: &str| width(text, TICK, Weight::Regular);
        let longest = marks.iter().map(|m| wide(&m.1)).fold(0.0, f64::max);
        if longest > slot && slot < 110.0 {
            for (value, text) in marks {
                let text = fit(text, TICK, UPRIGHT);
                let spot = (x.at(*value) + TICK * CAPITALS / 2.0, top);
                self.label(&text, spot, Align::End, TICK, palette::TEXT).upward = true;
            }
            return longest.min(UPRIGHT) + 8.0;
        }
        let mut most = 1;
        for (value, text) in marks {
            let lines = wrap(&fit(text, TICK, 2.6 * slot), TICK, Weight::Regular, slot);
            most = most.max(lines.len());
            for (i, line) in lines.iter().enumerate() {
                let spot = (x.at(*value), top + TICK + LEADING * TICK * i as f64);
                self.label(line, spot, Align::Middle, TICK, palette::TEXT);
            }
        }
        LEADING * TICK * most as f64
    }
}

/// Whether a series is drawn as whiskers rather than an area.
pub fn has_whiskers(series: &Series) -> bool {
    series.line == Line::None
}
