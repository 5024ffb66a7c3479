//! The list of runs: which columns there is room for, and a line for each run that is on screen.

use ratatui::{
    layout::Rect,
    style::{Color, Style},
};

use super::{
    cells::{Cells, bar, bold, cells, dim, look, shown},
    curve::Mark,
    panels::{counts, times},
    scene::{Group, Run, Scene},
    view::{Line, View},
};
use crate::ui::format;

/// The mark of the selected run, and a blank.
const MARK: u16 = 2;
/// The bar of a run's progress, and a blank.
const BAR: u16 = 6;
/// The most cells of all of a run's settings.
const SETTINGS: u16 = 48;
const SPARK: u16 = 10;
const LONGEST_SPARK: u16 = 40;
const BLOCKS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// How wide the columns are; 0 for one that there is no room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// Between columns.
    gap: u16,
    id: u16,
    state: u16,
    has_words: bool,
    /// One for each setting of the one experiment; of several experiments, one for all of them.
    settings: Vec<u16>,
    progress: u16,
    has_bar: bool,
    is_percent: bool,
    train: u16,
    best: u16,
    speed: u16,
    left: u16,
    spark: u16,
}

impl Columns {
    /// What fits into so many cells. What matters least goes first.
    pub fn fit(scene: &Scene, width: u16) -> Self {
        let mut columns = Self::whole(scene);
        let give_up: [fn(&mut Self); 13] = [
            |c| c.speed = 0,
            |c| (c.has_bar, c.progress) = (false, c.progress.saturating_sub(BAR)),
            |c| c.spark = SPARK / 2,
            |c| c.gap = 1,
            |c| c.cut_settings(20),
            |c| c.train = 0,
            |c| (c.is_percent, c.progress) = (true, 5),
            |c| c.left = 0,
            |c| (c.has_words, c.state) = (false, 1),
            |c| c.cut_settings(8),
            |c| c.spark = 0,
            |c| c.settings.clear(),
            |c| c.best = 0,
        ];
        for give_up in give_up {
            if columns.total() <= width {
                break;
            }
            give_up(&mut columns);
        }
        if columns.spark > 0 {
            columns.spark = (columns.spark + width.saturating_sub(columns.total())).min(LONGEST_SPARK);
        }
        columns
    }

    /// All of them, as wide as what stands there.
    fn whole(scene: &Scene) -> Self {
        let runs = || scene.groups.iter().flat_map(|group| &group.runs);
        let widest = |least: usize, text: fn(&Run) -> usize| runs().map(text).fold(least, usize::max) as u16;
        Self {
            gap: 2,
            id: scene.digits.max(3) as u16,
            state: 2 + widest(5, |run| run.state.word().len()),
            has_words: true,
            settings: settings(scene),
            progress: BAR + widest(4, |run| steps(run).len()),
            has_bar: true,
            is_percent: false,
            train: 7,
            best: 8,
            speed: 7,
            left: if runs().any(|run| run.left.is_some()) { 9 } else { 0 },
            spark: SPARK,
        }
    }

    fn cut_settings(&mut self, most: u16) {
        let count = self.settings.len() as u16;
        let gaps = self.gap * count.saturating_sub(1);
        let taken = |settings: &[u16]| settings.iter().sum::<u16>() + gaps;
        while taken(&self.settings) > most
            && let Some(widest) = self.settings.iter_mut().max()
            && *widest > 2
        {
            *widest -= 1;
        }
    }

    fn total(&self) -> u16 {
        let others = [self.state, self.progress, self.best, self.train, self.speed, self.left, self.spark];
        let columns = others.iter().chain(&self.settings).filter(|width| **width > 0);
        MARK + self.id + columns.map(|width| self.gap + width).sum::<u16>()
    }
}

/// How wide the settings are.
fn settings(scene: &Scene) -> Vec<u16> {
    match &scene.groups[..] {
        [] => Vec::new(),
        [group] => {
            let widest = |at: usize, name: &String| {
                let values = group.runs.iter().filter_map(|run| run.settings.get(at));
                values.chain([name]).map(|text| cells(&shown(text))).max().unwrap_or(0).min(SETTINGS.into())
            };
            group.settings.iter().enumerate().map(|(at, name)| widest(at, name) as u16).collect()
        }
        several => {
            let all = several.iter().flat_map(|group| group.runs.iter().map(move |run| group.named(run)));
            let widest = all.map(|text| cells(&shown(&text))).max().unwrap_or(0);
            if widest == 0 { Vec::new() } else { vec![widest.clamp(8, SETTINGS.into()) as u16] }
        }
    }
}

fn steps(run: &Run) -> String {
    format!("{}/{}", run.step, run.steps)
}

/// The columns' names.
pub fn head(out: &mut Cells, area: Rect, scene: &Scene, columns: &Columns) {
    let mut at = Place { out, x: area.x + MARK, y: area.y, gap: columns.gap, is_first: true };
    let style = dim();
    at.words(columns.id, "run", style);
    at.words(columns.state, if columns.has_words { "state" } else { "" }, style);
    match &scene.groups[..] {
        [group] => {
            columns.settings.iter().zip(&group.settings).for_each(|(width, name)| at.numbers(*width, name, style));
        }
        _ => columns.settings.iter().for_each(|width| at.words(*width, "settings", style)),
    }
    at.numbers(columns.progress, if columns.is_percent { "done" } else { "step" }, style);
    at.numbers(columns.train, "train", style);
    at.numbers(columns.best, "best val", style);
    at.numbers(columns.speed, "tok/s", style);
    at.numbers(columns.left, "left", style);
    at.words(columns.spark, "loss", style);
}

/// The lines of the list that are on screen.
pub fn list(out: &mut Cells, area: Rect, lines: &[Line], view: &View, scene: &Scene, columns: &Columns) {
    let is_alone = scene.groups.len() == 1;
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        let row = Rect { y, height: 1, ..area };
        match line {
            Line::Title(group) => title(out, row, group),
            Line::Run(group, run) => {
                let is_selected = view.is_selected(line);
                one(out, row, (group, is_alone), run, scene.digits, columns, is_selected);
            }
        }
    }
}

/// An experiment among several.
fn title(out: &mut Cells, row: Rect, group: &Group) {
    let name = if group.name.is_empty() { "(no experiment)" } else { &group.name };
    let times = times(group);
    let room = row.width.saturating_sub(cells(&times) as u16 + 1);
    let mut x = out.text(row.x, row.y, room.min(row.width / 2), name, bold()) + 2;
    x += out.text(row.x + x, row.y, room.saturating_sub(x), &format!("{:3.0} %", group.share * 100.0), dim()) + 2;
    out.texts(row.x + x, row.y, room.saturating_sub(x), &counts(&[group]));
    out.right(row.x, row.y, row.width, &times, dim());
}

/// A run.
fn one(
    out: &mut Cells,
    row: Rect,
    (group, is_alone): (&Group, bool),
    run: &Run,
    digits: usize,
    columns: &Columns,
    is_selected: bool,
) {
    let word = run.state.word();
    let look = look(word);
    let colour = Style::new().fg(look.colour);
    let (plain, weak) = (Style::new(), dim());
    if is_selected {
        out.text(row.x, row.y, 1, "›", bold());
    }
    let mut at = Place { out, x: row.x + MARK, y: row.y, gap: columns.gap, is_first: true };
    at.words(columns.id, &run.id.to_string()[..digits.min(64)], if is_selected { bold() } else { plain });
    let state = if columns.has_words { format!("{} {word}", look.glyph) } else { look.glyph.to_owned() };
    at.words(columns.state, &state, colour);
    match is_alone {
        true => columns.settings.iter().zip(&run.settings).for_each(|(width, text)| at.numbers(*width, text, plain)),
        false => columns.settings.iter().for_each(|width| at.words(*width, &group.named(run), plain)),
    }
    let share = run.step as f64 / run.steps.max(1) as f64;
    let progress = if columns.is_percent { format!("{:.0} %", share * 100.0) } else { steps(run) };
    if columns.has_bar {
        at.words(BAR - 1, &bar(share, usize::from(BAR) - 1), colour);
        at.x = (at.x + 1).saturating_sub(columns.gap); // of the same column
        at.numbers(columns.progress - BAR, &progress, plain);
    } else {
        at.numbers(columns.progress, &progress, plain);
    }
    at.loss(columns.train, run.train_loss);
    at.loss(columns.best, run.best);
    at.numbers(columns.speed, &run.speed.map_or("–".into(), format::count), plain);
    at.numbers(columns.left, &run.left.map_or(String::new(), format::duration), plain);
    match &run.curve {
        Some(curve) => at.spark(columns.spark, &curve.marks(columns.spark.into())),
        None => at.words(columns.spark, "", weak),
    }
    if is_selected {
        out.style(row, bold());
    }
}

/// A loss in seven cells at most. Beyond a thousand, its size is what matters.
pub fn short_loss(value: f64) -> String {
    match value.abs() {
        size if value.is_finite() && size >= 1e4 => format!("{value:.1e}"),
        size if value.is_finite() && size >= 1e2 => format!("{value:.1}"),
        _ => format::loss(Some(value)),
    }
}

/// Where the next column begins.
struct Place<'a, 'b> {
    out: &'a mut Cells<'b>,
    x: u16,
    y: u16,
    gap: u16,
    is_first: bool,
}

impl Place<'_, '_> {
    /// Goes on by a column, where there is room for it. Returns where it begins.
    fn next(&mut self, width: u16) -> Option<u16> {
        if width == 0 {
            return None;
        }
        let x = self.x + if std::mem::take(&mut self.is_first) { 0 } else { self.gap };
        self.x = x + width;
        Some(x)
    }

    fn words(&mut self, width: u16, text: &str, style: Style) {
        if let Some(x) = self.next(width) {
            self.out.text(x, self.y, width, text, style);
        }
    }

    fn numbers(&mut self, width: u16, text: &str, style: Style) {
        if let Some(x) = self.next(width) {
            self.out.right(x, self.y, width, text, style);
        }
    }

    fn loss(&mut self, width: u16, value: Option<f64>) {
        let is_broken = value.is_some_and(|value| !value.is_finite());
        let style = if is_broken { Style::new().fg(Color::Red) } else { Style::new() };
        let text = match value {
            Some(value) => short_loss(value),
            None => format::loss(None),
        };
        self.numbers(width, &text, style);
    }

    fn spark(&mut self, width: u16, marks: &[Mark]) {
        let Some(x) = self.next(width) else { return };
        for (x, mark) in (x..x + width).zip(marks) {
            let (text, colour) = match mark {
                Mark::Nothing => (" ", Color::Reset),
                Mark::Level(level) => (BLOCKS[(*level).min(7)], Color::Cyan),
                Mark::Broken => ("×", Color::Red),
            };
            self.out.text(x, self.y, 1, text, Style::new().fg(colour));
        }
    }
}
