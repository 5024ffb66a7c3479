//! Where everything of a picture of attention stands, in pixels of the finished picture.

use super::{
    super::{
        palette,
        pen::{Align, Label, Spot},
        text::{CAPITALS, Weight, fit, width, wrap},
    },
    figure::{HeatFigure, HeatMap, widest},
};

const MARGIN: f64 = 36.0;
/// Between two maps.
const GAP: f64 = 22.0;
const TITLE: f64 = 30.0;
const HEAD: f64 = 20.0;
const AXIS: f64 = 22.0;
const NOTE: f64 = 19.0;
/// From one baseline to the next, in em.
const LEADING: f64 = 1.4;

/// A title needs so much.
const LEAST_WIDTH: f64 = 1060.0;
/// What the maps of a picture fill together, each way, where nothing asks for more.
const USUAL: f64 = 1440.0;
/// What they fill at most, so that tokens can be read.
const MOST: f64 = 3000.0;
/// A token whose row is less high than this is not written down.
const LEAST_CELL: f64 = 11.5;
/// The widest cell.
const MOST_CELL: f64 = 72.0;
/// A map has at least so much.
const LEAST_SIDE: f64 = 96.0;
/// A cell of a small map has so much, where there is room.
const SMALL_CELL: f64 = 3.0;
/// The longest token.
const TOKEN_ROOM: f64 = 170.0;
/// Weights are written into cells that are wider than this.
const WRITTEN_CELL: f64 = 46.0;

/// The levels that the bar of colours names.
pub const LEVELS: [(f64, &str); 6] =
    [(0.0, "0"), (0.01, "0.01"), (0.1, "0.1"), (0.25, "0.25"), (0.5, "0.5"), (1.0, "1")];

/// How far along the colours a weight is: as its square root, so that weights which are shared out over many keys are
/// seen too.
pub fn share(weight: f64) -> f64 {
    weight.sqrt()
}

/// A picture with a place for everything.
pub struct Plan<'a> {
    /// Width and height.
    pub size: (f64, f64),
    /// Every text.
    pub labels: Vec<Label>,
    /// Each map and its left upper corner.
    pub maps: Vec<(&'a HeatMap<'a>, Spot)>,
    /// The width of a map.
    pub side: f64,
    /// Tokens.
    pub tokens: usize,
    /// How much larger than usual titles, notes and names of axes are: large pictures are seen from further away.
    zoom: f64,
    /// Left, top, right and bottom of the bar of colours.
    pub bar: (f64, f64, f64, f64),
    /// Where its levels stand.
    pub levels: Vec<f64>,
    /// Short strokes between axes and what is written there, from end to end.
    pub ticks: Vec<(Spot, Spot)>,
    /// Whether weights stand in their cells.
    pub is_written: bool,
}

/// How large maps are, and what stands beside them.
struct Sizes {
    side: f64,
    /// A token's row.
    cell: f64,
    /// Of tokens; `None` where only positions are marked.
    font: Option<f64>,
}

impl Sizes {
    fn of(tokens: usize, columns: usize, rows: usize) -> Self {
        let n = tokens as f64;
        let of = |room: f64, count: usize| (room - GAP * (count - 1) as f64) / count as f64;
        let usual = of(USUAL, columns).min(if rows > 1 { f64::INFINITY } else { 1000.0 });
        let readable = n * LEAST_CELL;
        let has_room = readable <= of(MOST, columns.max(rows)).max(usual);
        let small = (n * SMALL_CELL).min(of(MOST, columns.max(rows))).max(LEAST_SIDE);
        let side = usual.max(if has_room { readable } else { small }).min(n * MOST_CELL);
        let cell = side / n;
        Self { side, cell, font: has_room.then(|| (cell * 0.62).clamp(11.0, 22.0)) }
    }
}

/// Finds a place for everything.
pub fn layout<'a>(figure: &'a HeatFigure<'a>) -> Plan<'a> {
    let n = figure.tokens.len();
    let columns = figure.columns.min(figure.maps.len()).max(1);
    let rows = figure.maps.len().div_ceil(columns);
    let sizes = Sizes::of(n, columns, rows);
    let marks = Marks::of(&figure.tokens, &sizes);
    let has_heads = figure.maps.iter().any(|map| !map.title[0].is_empty());
    let grid = columns as f64 * (sizes.side + GAP) - GAP;
    let zoom = (grid / 1500.0).clamp(1.0, 1.8);
    let axis = AXIS * zoom;
    let head = if has_heads { LEADING * HEAD * zoom } else { 0.0 };
    let left = MARGIN + axis * 1.3 + marks.room + 20.0;
    let wide = (left + grid + MARGIN).max(LEAST_WIDTH);
    let mut plan = Plan {
        size: (wide.ceil(), 0.0),
        labels: Vec::new(),
        maps: Vec::new(),
        side: sizes.side,
        tokens: n,
        zoom,
        bar: (0.0, 0.0, 0.0, 0.0),
        levels: Vec::new(),
        ticks: Vec::new(),
        is_written: figure.maps.len() == 1 && sizes.cell >= WRITTEN_CELL,
    };
    let mut top = plan.paragraph(&figure.title, MARGIN, TITLE * zoom, Weight::Bold) + 12.0 * zoom;
    top = plan.colours(top) + 26.0 * zoom;
    let first = top;
    for (row, maps) in figure.maps.chunks(columns).enumerate() {
        top += head;
        for (column, map) in maps.iter().enumerate() {
            let x = left + column as f64 * (sizes.side + GAP);
            plan.head(map, (x, top), sizes.side);
            if column == 0 {
                plan.queries(&marks, (x, top), &sizes);
            }
            if row * columns + column + columns >= figure.maps.len() {
                plan.keys(&marks, (x, top + sizes.side), &sizes);
            }
            plan.maps.push((map, (x, top)));
        }
        top += sizes.side + GAP;
    }
    top -= GAP;
    let middle = (first + head + top) / 2.0;
    plan.label("query", (MARGIN + axis, middle), Align::Middle, axis).upward = true;
    top += marks.depth + 8.0;
    plan.label("key", (left + grid / 2.0, top + axis), Align::Middle, axis);
    top += LEADING * axis + 12.0;
    for note in figure.notes.iter().chain(&marks.note) {
        top = plan.paragraph(note, top, NOTE * zoom, Weight::Regular);
    }
    plan.size.1 = (top + MARGIN * 0.6).ceil();
    plan
}

/// What stands along the axes.
struct Marks {
    /// Position and text.
    marks: Vec<(usize, String)>,
    size: f64,
    /// Whether those of keys read upwards.
    upright: bool,
    /// What they take left of a map, and below it.
    room: f64,
    depth: f64,
    /// Which tokens there are, where the axes do not say it.
    note: Option<String>,
}

impl Marks {
    fn of(tokens: &[String], sizes: &Sizes) -> Self {
        const POSITION: f64 = 16.0;
        let (marks, size): (Vec<_>, f64) = match sizes.font {
            Some(size) => (tokens.iter().map(|t| fit(t, size, TOKEN_ROOM)).enumerate().collect(), size),
            None => {
                let step = step(tokens.len(), sizes.side / 44.0);
                ((0..tokens.len()).step_by(step).map(|i| (i, i.to_string())).collect(), POSITION)
            }
        };
        let texts: Vec<String> = marks.iter().map(|m| m.1.clone()).collect();
        let room = widest(&texts, size);
        let upright = sizes.font.is_some() && room > sizes.cell;
        let note = sizes.font.is_none().then(|| {
            format!(
                "Axes count the tokens from 0: {}",
                tokens.join(if tokens.iter().any(|t| t.chars().count() > 1) { " | " } else { "" })
            )
        });
        Self { marks, size, upright, room, depth: if upright { room } else { size } + 12.0, note }
    }
}

/// A round step for about `count` marks.
fn step(tokens: usize, count: f64) -> usize {
    let rough = tokens as f64 / count.max(1.0);
    [1, 2, 5, 10, 20, 50, 100, 200, 500].into_iter().find(|&s| s as f64 >= rough).unwrap_or(1000)
}

impl Plan<'_> {
    fn label(&mut self, text: &str, spot: Spot, align: Align, size: f64) -> &mut Label {
        let (weight, color) = (Weight::Regular, palette::TEXT);
        self.labels.push(Label { text: text.to_owned(), spot, align, size, weight, upward: false, color });
        let last = self.labels.len() - 1;
        &mut self.labels[last]
    }

    /// Lines of text over the whole width; answers where the next may begin.
    fn paragraph(&mut self, text: &str, top: f64, size: f64, weight: Weight) -> f64 {
        const MOST_LINES: usize = 12;
        let mut lines = wrap(text, size, weight, self.size.0 - 2.0 * MARGIN);
        if lines.len() > MOST_LINES {
            lines.truncate(MOST_LINES);
            lines.push("…".into());
        }
        for (i, line) in lines.iter().enumerate() {
            let spot = (MARGIN, top + size + LEADING * size * i as f64);
            let label = self.label(line, spot, Align::Start, size);
            label.weight = weight;
            if weight == Weight::Regular {
                label.color = palette::SOFT;
            }
        }
        top + LEADING * size * lines.len() as f64
    }

    /// The bar of colours with its levels; answers where it ends.
    fn colours(&mut self, top: f64) -> f64 {
        const WORD: &str = "attention weight";
        let size = NOTE * self.zoom;
        let left = MARGIN + width(WORD, size, Weight::Regular) + 16.0 * self.zoom;
        let (right, bottom) = (left + 420.0 * self.zoom, top + size);
        self.label(WORD, (MARGIN, (top + bottom + size * CAPITALS) / 2.0), Align::Start, size);
        self.bar = (left, top, right, bottom);
        for (weight, text) in LEVELS {
            let x = left + share(weight) * (right - left);
            self.levels.push(x);
            self.label(text, (x, bottom + 7.0 + size), Align::Middle, size);
        }
        bottom + 7.0 + size * 1.2
    }

    /// The title over a map, as much of it as there is room for.
    fn head(&mut self, map: &HeatMap, (left, top): Spot, side: f64) {
        let usual = HEAD * self.zoom;
        let wide = |text: &str| width(text, usual, Weight::Regular);
        let [long, short] = &map.title;
        let text = if wide(long) <= side { long } else { short };
        if !text.is_empty() {
            let size = usual.min(usual * side / wide(text));
            self.label(text, (left, top - 0.4 * usual), Align::Start, size);
        }
    }

    /// What stands left of a map.
    fn queries(&mut self, marks: &Marks, (left, top): Spot, sizes: &Sizes) {
        for (i, text) in &marks.marks {
            let y = top + (*i as f64 + 0.5) * sizes.cell;
            self.label(text, (left - 9.0, y + marks.size * CAPITALS / 2.0), Align::End, marks.size);
            self.ticks.push(((left - 5.0, y), (left, y)));
        }
    }

    /// What stands below a map.
    fn keys(&mut self, marks: &Marks, (left, bottom): Spot, sizes: &Sizes) {
        for (i, text) in &marks.marks {
            let x = left + (*i as f64 + 0.5) * sizes.cell;
            self.ticks.push(((x, bottom), (x, bottom + 5.0)));
            if marks.upright {
                let spot = (x + marks.size * CAPITALS / 2.0, bottom + 9.0);
                self.label(text, spot, Align::End, marks.size).upward = true;
            } else {
                self.label(text, (x, bottom + 9.0 + marks.size * 0.8), Align::Middle, marks.size);
            }
        }
    }
}
