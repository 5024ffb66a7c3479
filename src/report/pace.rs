//! How fast runs were, and on what: step times compare only between attempts that had the same slot.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use super::{
    frame::Run,
    numbers::{median, several},
};
use crate::store::Point;

/// What an attempt computed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// `cpu`, `cuda`, `metal`.
    pub kind: String,
    /// CPU threads; 0 for GPUs, where they do not matter.
    pub threads: usize,
    /// The model name of the CPU or GPU, where known.
    pub processor: String,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.as_str() {
            "cpu" => f.write_str(&several(self.threads, "CPU thread")),
            "cuda" => f.write_str("one CUDA GPU"),
            "metal" => f.write_str("one Metal GPU"),
            other => f.write_str(other),
        }
    }
}

/// The slot of each attempt of a run.
fn slots(run: &Run) -> HashMap<u32, Slot> {
    let slot = |device: &str, threads: usize, processor: Option<&str>| {
        let kind = device.split(':').next().unwrap_or(device).to_owned();
        let threads = if kind == "cpu" { threads } else { 0 };
        Slot { kind, threads, processor: processor.unwrap_or_default().to_owned() }
    };
    run.attempts
        .iter()
        .map(|a| {
            let processor = a.ready.as_ref().map(|r| r.processor.as_str());
            (a.started.attempt, slot(&a.started.device, a.started.threads, processor))
        })
        .collect()
}

/// The slots that step times are taken from: the one that most attempts had, of each kind of device where devices are
/// compared. Of two that are equally common the smaller.
pub fn common(runs: &[Run], of_each_kind: bool) -> Vec<Slot> {
    let mut attempts: BTreeMap<Slot, usize> = BTreeMap::new();
    for run in runs {
        let slots = slots(run);
        for steps in run.step_ms.chunk_by(|a, b| a.attempt == b.attempt) {
            if let Some(slot) = slots.get(&steps[0].attempt) {
                *attempts.entry(slot.clone()).or_default() += 1;
            }
        }
    }
    let mut by_count: Vec<(Slot, usize)> = attempts.into_iter().collect();
    by_count.sort_by_key(|(_, n)| std::cmp::Reverse(*n)); // stable: the smaller slot stays first
    let mut chosen: Vec<Slot> = Vec::new();
    for (slot, _) in by_count {
        if chosen.is_empty() || of_each_kind && chosen.iter().all(|c| c.kind != slot.kind) {
            chosen.push(slot);
        }
    }
    chosen
}

/// The median time of a step of `run` in ms on one of `slots`, without the warm-up of each attempt. `None` where it
/// never had such a slot.
pub fn step_time(run: &Run, chosen: &[Slot]) -> Option<f64> {
    let slots = slots(run);
    let warm: Vec<f64> = run
        .step_ms
        .chunk_by(|a, b| a.attempt == b.attempt)
        .filter(|steps| slots.get(&steps[0].attempt).is_some_and(|s| chosen.contains(s)))
        .flat_map(|steps| &steps[warm_up(steps.len())..])
        .map(|p| p.value)
        .filter(|ms| ms.is_finite())
        .collect();
    (!warm.is_empty()).then(|| median(&warm))
}

/// The first tenth of an attempt's steps, 20 at most: caches fill, pages are touched for the first time.
fn warm_up(steps: usize) -> usize {
    steps.div_ceil(10).min(20).min(steps.saturating_sub(1))
}

/// The seconds that a run has trained for after each step: the sum of the times of the steps that count.
pub fn seconds(step_ms: &[Point]) -> Vec<Point> {
    let mut sum = 0.0;
    let spent = step_ms.iter().map(|p| {
        sum += p.value / 1000.0;
        Point { value: sum, ..*p }
    });
    std::iter::once(Point { step: 0, value: 0.0, attempt: 0 }).chain(spent).collect()
}

/// The slots that the surviving steps of these runs were computed on.
pub fn used<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Vec<Slot> {
    let mut all: Vec<Slot> = runs
        .into_iter()
        .flat_map(|run| {
            let slots = slots(run);
            run.step_ms
                .chunk_by(|a, b| a.attempt == b.attempt)
                .filter_map(move |s| slots.get(&s[0].attempt).cloned())
                .collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// `1 CPU thread (AMD EPYC 7B13)`, `1 CPU thread and on one CUDA GPU`.
pub fn words(slots: &[Slot]) -> String {
    let named: Vec<String> = slots
        .iter()
        .map(|s| if s.processor.is_empty() { s.to_string() } else { format!("{s} ({})", s.processor) })
        .collect();
    named.join(" and on ")
}
