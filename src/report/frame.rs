//! The rows that a report is made of, and what follows from them for every plot and table alike: which settings vary,
//! which runs count, what unit losses have. Plain data: [`super::load`] fills it from a store, tests by hand.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    pace::{self, Slot},
    star,
};
use crate::{
    event::RunState,
    spec::config::TokenizerKind,
    store::{AttemptRow, Point, RunRow},
};

/// The axis that is averaged over and never drawn.
const SEED: &str = "train.seed";

/// The path of the axis between experiments that are compared.
pub const EXPERIMENT: &str = "experiment";

/// A name for other leaves: no axis unless the spec makes it one, since a run has the name that it was begun under.
pub const PRESET: &str = "model.preset";

/// An experiment with the rows of its runs.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its name; those of all where several are compared.
    pub experiment: String,
    /// The settings that vary between its runs, seeds apart: as the spec orders them, then those that only some points
    /// set.
    pub axes: Vec<Axis>,
    /// Its runs in the order of the grid.
    pub runs: Vec<Run>,
    /// Points of the spec that nobody has asked for yet, and which are no runs.
    pub absent: usize,
    /// The unit in which the runs' losses compare.
    pub unit: Unit,
    /// The slots that [`Run::step_time`] is taken from.
    pub slots: Vec<Slot>,
    /// The setting that the others lie around, where there is one: for each axis the index of the value.
    pub base: Option<Vec<usize>>,
}

/// A setting that varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The dotted path of the leaf.
    pub path: String,
    /// Its last word; the whole path where two axes share the last word.
    pub name: String,
    /// Its distinct values: numbers ascending, words as the grid orders them.
    pub values: Vec<Value>,
}

/// One run with the curves that plots read. The steps of each curve ascend.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the index knows of it.
    pub row: RunRow,
    /// The shortest prefix of its id that is unique.
    pub name: String,
    /// Every try at it.
    pub attempts: Vec<AttemptRow>,
    /// Validation loss in nats per token.
    pub val: Vec<Point>,
    /// Training loss of each step's own batch in nats per token.
    pub train: Vec<Point>,
    /// Wall time of each step in ms; of every n-th, where there are very many.
    pub step_ms: Vec<Point>,
    /// Seconds of training after each step that is read, where not all are.
    pub seconds: Vec<Point>,
    /// Training loss on windows that stay the same, as `val` has them, in nats per token.
    pub eval_train: Vec<Point>,
    /// The norm of all gradients of each step, before clipping.
    pub grad_norm: Vec<Point>,
    /// The texts that its model wrote, by step.
    pub samples: Vec<(u64, String)>,
    /// The experiment that it is compared for, where several are.
    pub experiment: Option<String>,
    /// Every leaf of its config by path. Filled by [`Frame::new`].
    pub leaves: Map<String, Value>,
    /// For each axis the index of the run's value. Filled by [`Frame::new`].
    pub at: Vec<usize>,
    /// The median time of a step in ms on one of the frame's slots, where it had one. Filled by [`Frame::new`].
    pub step_time: Option<f64>,
}

/// Runs that differ in their seed alone.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// For each axis the index of the value.
    pub at: Vec<usize>,
    /// Its runs, one a seed.
    pub runs: Vec<&'a Run>,
}

/// Why a run has no value in a plot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It gave up.
    Failed(String),
    /// It is done, but its last validation loss is no finite number.
    NotFinite,
    /// It is queued, running or interrupted.
    Unfinished,
    /// It fell behind the others of its sweep, and pauses.
    Paused,
    /// It was never meant to run.
    Skipped(String),
}

/// What losses are measured in. Stored losses are nats per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Every tokenizer splits into characters.
    NatsPerChar,
    /// All runs have the same tokens.
    NatsPerToken,
    /// Tokens differ between runs, so that losses per token do not compare.
    BitsPerChar,
}

impl Frame {
    /// `swept`: the paths of the spec's axes; of them and of the leaves that else vary, those stay that take two values
    /// or more and do not follow from the ones before.
    pub fn new(experiment: &str, swept: &[String], mut runs: Vec<Run>) -> Self {
        for run in &mut runs {
            run.leaves = run.row.config.leaves();
            run.leaves.extend(run.experiment.clone().map(|name| (EXPERIMENT.to_owned(), name.into())));
        }
        let mut axes: Vec<Axis> = swept.iter().filter_map(|path| Axis::of(path, &runs)).collect();
        mark(&mut runs, &axes);
        let paths: Vec<String> = runs.first().map(|r| r.leaves.keys().cloned().collect()).unwrap_or_default();
        for path in paths.iter().filter(|p| !swept.contains(p) && *p != PRESET) {
            if let Some(axis) = Axis::of(path, &runs)
                && !follows(&axis, &runs)
            {
                axes.push(axis);
                mark(&mut runs, &axes);
            }
        }
        let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
        let shared = |name: &str| axes.iter().filter(|a| last(&a.path) == name).count() > 1;
        let names: Vec<String> =
            axes.iter().map(|a| Some(last(&a.path)).filter(|n| !shared(n)).unwrap_or_else(|| a.path.clone())).collect();
        axes.iter_mut().zip(names).for_each(|(axis, name)| axis.name = name);
        let slots = pace::common(&runs, axes.iter().any(|a| a.path == "run.device"));
        for run in &mut runs {
            run.step_time = pace::step_time(run, &slots);
        }
        let unit = unit(&runs);
        let mut frame = Self { experiment: experiment.to_owned(), axes, runs, absent: 0, unit, slots, base: None };
        // Between experiments that are compared there is no middle.
        frame.base = if frame.axis(EXPERIMENT).is_some() { None } else { star::base(&frame) };
        frame
    }

    /// The index of the axis of this leaf, where it varies.
    pub fn axis(&self, path: &str) -> Option<usize> {
        self.axes.iter().position(|a| a.path == path)
    }

    /// The runs, one entry for each setting of all axes, in the axes' order; around a base it comes first, the others as
    /// the spec has them.
    pub fn settings(&self) -> Vec<Setting<'_>> {
        let all: Vec<usize> = (0..self.axes.len()).collect();
        let mut settings: Vec<_> = self.group(&all).into_iter().map(|(at, runs)| Setting { at, runs }).collect();
        if let Some(base) = &self.base {
            settings.sort_by_key(|s| (s.at != *base, self.runs.iter().position(|r| r.at == s.at)));
        }
        settings
    }

    /// Whether each value of axis `x` has but one value of axis `other`, as with axes that are walked together.
    pub fn is_tied(&self, other: usize, x: usize) -> bool {
        self.group(&[x]).values().all(|runs| runs.iter().all(|r| r.at[other] == runs[0].at[other]))
    }

    /// The runs by their values of some axes, in those axes' order.
    pub fn group(&self, axes: &[usize]) -> BTreeMap<Vec<usize>, Vec<&Run>> {
        let mut groups: BTreeMap<_, Vec<&Run>> = BTreeMap::new();
        for run in &self.runs {
            groups.entry(axes.iter().map(|&a| run.at[a]).collect()).or_default().push(run);
        }
        groups
    }

    /// The most seeds that a setting has.
    pub fn seeds(&self) -> usize {
        self.settings().iter().map(|s| s.runs.len()).max().unwrap_or(0)
    }

    /// A stored loss of `run` in the frame's unit.
    pub fn loss(&self, run: &Run, nats_per_token: f64) -> f64 {
        match self.unit {
            Unit::BitsPerChar => run.bits_per_char(nats_per_token).unwrap_or(f64::NAN),
            _ => nats_per_token,
        }
    }

    /// What the corpus costs under its own grammar, in the frame's unit: the level that models approach. `None` where
    /// it is not known, or not the same for all runs.
    pub fn own_cost(&self) -> Option<f64> {
        let ready = self.runs.iter().filter_map(|r| r.row.ready.as_ref());
        agreed(ready.map(|r| {
            let bits = r.corpus_bits_per_char.unwrap_or(f64::NAN);
            if self.unit == Unit::BitsPerChar { bits } else { bits * std::f64::consts::LN_2 * r.chars_per_token }
        }))
    }

    /// The lowest validation loss of a run that is done, in the frame's unit.
    pub fn result(&self, run: &Run) -> Result<f64, LeftOut> {
        run.left_out().map_or(Ok(()), Err)?;
        run.row.best.map(|(_, nats)| self.loss(run, nats)).filter(|l| l.is_finite()).ok_or(LeftOut::NotFinite)
    }
}

impl Axis {
    /// The axis of a leaf, where it takes two values or more.
    fn of(path: &str, runs: &[Run]) -> Option<Self> {
        let mut values: Vec<Value> = Vec::new();
        for value in runs.iter().filter_map(|r| r.leaves.get(path)) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if path == SEED || values.len() < 2 {
            return None;
        }
        if values.iter().all(Value::is_number) {
            values.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        Some(Self { path: path.to_owned(), name: path.to_owned(), values })
    }

    /// The values where all are numbers.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        self.values.iter().map(Value::as_f64).collect()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn unit(runs: &[Run]) -> Unit {
    if runs.iter().all(|r| r.row.config.data.tokenizer == TokenizerKind::Char) {
        return Unit::NatsPerChar;
    }
    let mut ready = runs.iter().filter_map(|r| r.row.ready.as_ref()).peekable();
    if ready.peek().is_none() || agreed(ready.map(|r| r.chars_per_token)).is_some() {
        Unit::NatsPerToken
    } else {
        Unit::BitsPerChar
    }
}

/// Fills in where each run stands on the axes.
fn mark(runs: &mut [Run], axes: &[Axis]) {
    for run in runs {
        let index = |axis: &Axis| axis.values.iter().position(|v| Some(v) == run.leaves.get(&axis.path)).unwrap_or(0);
        run.at = axes.iter().map(index).collect();
    }
}

/// Whether runs that agree on all axes so far, seeds apart, agree on this leaf too, as a default that is worked out from
/// another setting does.
fn follows(axis: &Axis, runs: &[Run]) -> bool {
    let mut seen: BTreeMap<&[usize], Option<&Value>> = BTreeMap::new();
    runs.iter().all(|run| {
        let value = run.leaves.get(&axis.path);
        *seen.entry(&run.at).or_insert(value) == value
    })
}

/// The one value of all, where they agree and are finite.
fn agreed(mut values: impl Iterator<Item = f64>) -> Option<f64> {
    let first = values.next().filter(|v| v.is_finite())?;
    values.all(|v| (v - first).abs() <= 1e-9 * first.abs()).then_some(first)
}

impl Run {
    /// A run without curves yet.
    pub fn new(row: RunRow, name: String) -> Self {
        Self {
            row,
            name,
            attempts: Vec::new(),
            val: Vec::new(),
            train: Vec::new(),
            eval_train: Vec::new(),
            grad_norm: Vec::new(),
            step_ms: Vec::new(),
            seconds: Vec::new(),
            samples: Vec::new(),
            experiment: None,
            leaves: Map::new(),
            at: Vec::new(),
            step_time: None,
        }
    }

    /// Why the run's loss does not count, where it does not.
    pub fn left_out(&self) -> Option<LeftOut> {
        match &self.row.state {
            RunState::Done if self.row.last_val_loss.is_some_and(f64::is_finite) => None,
            RunState::Done => Some(LeftOut::NotFinite),
            RunState::Failed { why } => Some(LeftOut::Failed(why.clone())),
            RunState::Paused { .. } => Some(LeftOut::Paused),
            RunState::Skipped { why } => Some(LeftOut::Skipped(why.clone())),
            RunState::Queued | RunState::Running { .. } | RunState::Interrupted { .. } => Some(LeftOut::Unfinished),
        }
    }

    /// A loss of this run in bits per character, once its tokenizer's characters per token are known.
    pub fn bits_per_char(&self, nats_per_token: f64) -> Option<f64> {
        let chars = self.row.ready.as_ref()?.chars_per_token;
        Some(nats_per_token / std::f64::consts::LN_2 / chars)
    }

    /// The FLOPs of the updates up to `step`, forward and backward, evaluations left out, where they are known.
    pub fn flops(&self, step: u64) -> Option<f64> {
        let a_token = self.row.ready.as_ref().map(|ready| ready.flops_per_token).filter(|flops| *flops > 0.0)?;
        Some(a_token * (self.row.config.tokens_per_step() * step) as f64)
    }

    /// Trained tokens a second at [`Run::step_time`].
    pub fn tokens_per_second(&self) -> Option<f64> {
        Some(self.row.config.tokens_per_step() as f64 / self.step_time? * 1000.0)
    }

    /// The seconds that it has trained for after each step, evaluations and pauses left out.
    pub fn seconds(&self) -> Vec<Point> {
        if self.seconds.is_empty() { pace::seconds(&self.step_ms) } else { self.seconds.clone() }
    }

    /// Whether it has logged anything.
    pub fn has_data(&self) -> bool {
        !self.val.is_empty() || !self.train.is_empty()
    }
}

impl Unit {
    /// In a sentence or an axis label.
    pub fn words(self) -> &'static str {
        match self {
            Self::NatsPerChar => "nats per character",
            Self::NatsPerToken => "nats per token",
            Self::BitsPerChar => "bits per character",
        }
    }
}
