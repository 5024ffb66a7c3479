//! `failures`: where on the grid runs gave up, ran out of memory, left the finite numbers, fell behind and pause, or were
//! never meant to run.

use super::{
    super::{
        figure::{Axis, Cell, Figure, Fill, Ink, Mark, Panel, Scale},
        frame::{Frame, LeftOut, Run},
        names, numbers,
        star::untied,
    },
    Plot,
    loss_map::map_axis,
    notes,
};

/// Values of an axis that can be read.
const MAX_VALUES: usize = 20;

/// How a run ended, from what asks for most attention to what asks for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Its loss is no finite number.
    NotFinite,
    /// There was not enough memory.
    OutOfMemory,
    /// It failed otherwise.
    Failed,
    /// It was not run.
    Skipped,
    /// It pauses since others did better.
    Paused,
    /// It is not finished.
    Unfinished,
    /// It is done.
    Done,
}

impl End {
    const ALL: [Self; 7] =
        [Self::NotFinite, Self::OutOfMemory, Self::Failed, Self::Skipped, Self::Paused, Self::Unfinished, Self::Done];

    /// How a run ended, by its state and the words of its failure.
    pub fn of(frame: &Frame, run: &Run) -> Self {
        match frame.result(run) {
            Ok(_) => Self::Done,
            Err(LeftOut::NotFinite) => Self::NotFinite,
            Err(LeftOut::Unfinished) => Self::Unfinished,
            Err(LeftOut::Paused) => Self::Paused,
            Err(LeftOut::Skipped(_)) => Self::Skipped,
            Err(LeftOut::Failed(why)) => {
                let why = why.to_lowercase();
                let says = |words: &[&str]| words.iter().any(|w| why.contains(w));
                match () {
                    () if says(&["memory", "oom", "allocat"]) => Self::OutOfMemory,
                    () if says(&[" is nan", " is inf", " is -inf", "not finite", "no finite"]) => Self::NotFinite,
                    () => Self::Failed,
                }
            }
        }
    }

    /// In a legend.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotFinite => "loss no finite number",
            Self::OutOfMemory => "out of memory",
            Self::Failed => "failed otherwise",
            Self::Skipped => "skipped",
            Self::Paused => "paused by the search",
            Self::Unfinished => "not finished",
            Self::Done => "done",
        }
    }

    /// In a cell.
    fn short(self) -> &'static str {
        match self {
            Self::NotFinite => "NaN",
            Self::OutOfMemory => "OOM",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Paused => "paused",
            Self::Unfinished => "open",
            Self::Done => "done",
        }
    }

    fn ink(self) -> Ink {
        match self {
            Self::NotFinite => Ink::Color(1),
            Self::OutOfMemory => Ink::Color(3),
            Self::Failed => Ink::Color(4),
            Self::Skipped => Ink::Color(6),
            Self::Paused => Ink::Neutral,
            Self::Unfinished => Ink::Color(5),
            Self::Done => Ink::Color(2),
        }
    }
}

/// The map of failures.
pub struct Failures;

impl Plot for Failures {
    fn name(&self) -> &str {
        "failures"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let is_lost = |run: &Run| !matches!(End::of(frame, run), End::Done | End::Unfinished);
        let (x, y) = axes(frame)?;
        if !frame.runs.iter().any(is_lost) {
            return None;
        }
        let (mut panel, groups) = match y {
            Some(y) => {
                let panel = Panel::new(map_axis(&frame.axes[x]), map_axis(&frame.axes[y]));
                (panel, frame.group(&[x, y]))
            }
            None => {
                let seeds = Axis::new("", Scale::Words(vec![String::new()]));
                let group = |(at, runs): (Vec<usize>, _)| (vec![at[0], 0], runs);
                (Panel::new(map_axis(&frame.axes[x]), seeds), frame.group(&[x]).into_iter().map(group).collect())
            }
        };
        let ends: Vec<End> = frame.runs.iter().map(|run| End::of(frame, run)).collect();
        panel.cells = groups.iter().map(|(at, runs)| cell(frame, at, runs)).collect();
        let used = End::ALL.into_iter().filter(|end| ends.contains(end));
        panel.swatches = used.map(|end| Mark { ink: end.ink(), label: end.words().to_owned() }).collect();
        let pooled: Vec<&str> = untied(frame)
            .into_iter()
            .filter(|&a| a != x && Some(a) != y && !frame.is_tied(a, x) && y.is_none_or(|y| !frame.is_tied(a, y)))
            .map(|a| frame.axes[a].name.as_str())
            .chain((frame.seeds() > 1).then_some("seed"))
            .collect();
        let pooled =
            if pooled.is_empty() { String::new() } else { format!(" A cell has all runs over {}.", pooled.join(", ")) };
        let (n, why) = notes::no_result(frame);
        let notes = vec![
            format!(
                "{} Colour: how most of those runs ended that are not done; the paler, the fewer of the cell's runs. \
                 Written: how many ended how.{pooled}",
                notes::experiment(frame)
            ),
            format!("{n} without a result: {why}."),
            names::legend(frame),
        ];
        Some(Figure {
            title: "Where runs did not come to an end".into(),
            rows: vec![vec![panel]],
            forest: None,
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}

/// The two axes that tell most about where runs are lost: whose values differ most in their share of lost runs.
fn axes(frame: &Frame) -> Option<(usize, Option<usize>)> {
    let share = |runs: &[&Run]| {
        let lost = runs.iter().filter(|run| frame.result(run).is_err()).count();
        lost as f64 / runs.len().max(1) as f64
    };
    let mut all: Vec<(f64, usize)> = untied(frame)
        .into_iter()
        .filter(|&a| frame.axes[a].values.len() <= MAX_VALUES)
        .map(|a| {
            let shares: Vec<f64> = frame.group(&[a]).values().map(|runs| share(runs)).collect();
            let (lo, hi) = numbers::extent(&shares);
            (lo - hi, a)
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut two: Vec<usize> = all.iter().take(2).map(|found| found.1).collect();
    two.sort_unstable();
    Some((*two.first()?, two.get(1).copied()))
}

fn cell(frame: &Frame, at: &[usize], runs: &[&Run]) -> Cell {
    let count = |end: End| runs.iter().filter(|run| End::of(frame, run) == end).count();
    let found: Vec<(End, usize)> = End::ALL.into_iter().map(|end| (end, count(end))).filter(|f| f.1 > 0).collect();
    let worst = found.iter().filter(|(end, _)| *end != End::Done).max_by_key(|(end, n)| (*n, std::cmp::Reverse(*end)));
    let fill = match worst {
        // What pauses is where it should be, and asks for no attention.
        Some((End::Paused, n)) => Fill::Ink(End::Paused.ink(), 0.1 + 0.2 * *n as f64 / runs.len() as f64),
        Some((end, n)) => Fill::Ink(end.ink(), 0.2 + 0.55 * *n as f64 / runs.len() as f64),
        None => Fill::Ink(End::Done.ink(), 0.18),
    };
    let words = |(end, n): &(End, usize)| format!("{n} {}", end.short());
    let lines: Vec<String> = found.iter().map(words).collect();
    Cell { x: at[0], y: at[1], fill, lines, value: None }
}
