//! What a person sees while a sweep runs: one overall bar and one per running run. Where standard error is no terminal,
//! a line for each run that ends, and nothing else.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{format, is_fancy, note};
use crate::{
    base::RunId,
    event::{Event, Observer, Progress, RunState, Step},
};

/// What the screen needs to know of a run beforehand.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Which run.
    pub id: RunId,
    /// `3f2a91 layers=8 seed=2`.
    pub label: String,
    /// Updates in all.
    pub steps: u64,
    /// Updates done in earlier attempts.
    pub done: u64,
    /// Whether it pauses at first.
    pub pauses: bool,
    /// What one update costs relative to others, such as its FLOPs: what the overall bar weighs runs by.
    pub weight: f64,
}

/// The bars of one sweep.
pub struct Screen {
    entries: HashMap<RunId, Entry>,
    bars: HashMap<RunId, ProgressBar>,
    all: MultiProgress,
    overall: ProgressBar,
    /// Runs that need nothing more, as things stand; of them, those that pause.
    ended: HashSet<RunId>,
    paused: HashSet<RunId>,
    begun: Instant,
    /// Work done before this process began: it must not count towards the rate.
    before: f64,
}

/// The overall bar's length: it moves by work, not by runs.
const PARTS: u64 = 10_000;

impl Screen {
    /// A screen for the runs of a sweep that are still to do.
    pub fn new(experiment: &str, runs: Vec<Entry>) -> Self {
        let target = if is_fancy() { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        let overall = all.add(ProgressBar::new(PARTS).with_style(style("{prefix:.bold} [{bar:30}] {wide_msg}")));
        overall.set_prefix(experiment.to_owned());
        let before = runs.iter().map(|r| r.done as f64 * r.weight).sum();
        let paused: HashSet<RunId> = runs.iter().filter(|r| r.pauses).map(|r| r.id).collect();
        let entries = runs.into_iter().map(|r| (r.id, r)).collect();
        let (bars, ended) = (HashMap::new(), paused.clone());
        let screen = Self { entries, bars, all, overall, ended, paused, begun: Instant::now(), before };
        screen.show_overall();
        screen
    }

    /// Removes the bars.
    pub fn close(&self) {
        self.overall.finish_and_clear();
        // A terminal that cannot be cleared keeps its bars.
        let _ = self.all.clear();
    }

    fn line(&self, text: &str) {
        if self.all.is_hidden() {
            note(text);
        } else {
            self.all.suspend(|| note(text));
        }
    }

    fn start(&mut self, id: RunId, threads: usize, slot: &str) {
        self.ended.remove(&id);
        self.paused.remove(&id);
        let Some(entry) = self.entries.get(&id) else { return };
        let bar = self.all.add(ProgressBar::new(entry.steps.max(1)));
        bar.set_style(style("  {prefix} [{bar:12.dim}] {pos}/{len} {wide_msg}"));
        bar.set_prefix(entry.label.clone());
        bar.set_position(entry.done);
        bar.set_message(format!("starting on {slot}, {}", format::plural(threads, "thread")));
        if let Some(old) = self.bars.insert(id, bar) {
            old.finish_and_clear();
        }
    }

    fn step(&mut self, id: RunId, step: &Step) {
        let (Some(entry), Some(bar)) = (self.entries.get_mut(&id), self.bars.get(&id)) else { return };
        entry.done = step.step;
        bar.set_position(step.step);
        let left = (entry.steps - step.step.min(entry.steps)) as f64 * step.step_ms / 1000.0;
        bar.set_message(format!(
            "loss {}  {} left  {} tok/s",
            format::loss(Some(step.loss)),
            format::duration(left),
            format::count(step.tokens_per_second)
        ));
    }

    fn leave(&mut self, id: RunId) {
        if let Some(bar) = self.bars.remove(&id) {
            bar.finish_and_clear();
        }
    }

    fn end(&mut self, id: RunId, state: &RunState) {
        self.leave(id);
        self.ended.insert(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        match state {
            RunState::Done => entry.done = entry.steps,
            RunState::Failed { .. } | RunState::Skipped { .. } => entry.steps = entry.done, // what it has left is no work any more
            RunState::Paused { step, .. } => {
                entry.done = *step;
                self.paused.insert(id);
            }
            _ => {}
        }
        let text = match state {
            RunState::Failed { why } => format!("failed       {}: {why}", entry.label),
            RunState::Interrupted { step } => format!("interrupted  {} after step {step}", entry.label),
            RunState::Paused { why, .. } => format!("paused       {}: {why}", entry.label),
            RunState::Skipped { why } => format!("skipped      {}: {why}", entry.label),
            other => format!("{:<12} {}", other.word(), entry.label),
        };
        self.line(&text);
    }

    fn show_overall(&self) {
        let work = |steps: fn(&Entry) -> u64| self.entries.values().map(|r| steps(r) as f64 * r.weight).sum::<f64>();
        // What paused runs have left is no work as long as they pause.
        let left = self.paused.iter().filter_map(|id| self.entries.get(id));
        let left: f64 = left.map(|r| (r.steps - r.done.min(r.steps)) as f64 * r.weight).sum();
        let (done, total) = (work(|r| r.done.min(r.steps)), work(|r| r.steps) - left);
        let share = if total > 0.0 { done / total } else { 1.0 };
        self.overall.set_position((share * PARTS as f64) as u64);
        let elapsed = self.begun.elapsed().as_secs_f64();
        let fresh = done - self.before;
        let left = (fresh > 0.0).then(|| format!("  {} left", format::duration(elapsed * (total - done) / fresh)));
        self.overall.set_message(format!(
            "{:3.0} %  {} of {} runs{}",
            share * 100.0,
            self.ended.len(),
            self.entries.len(),
            left.unwrap_or_default()
        ));
    }
}

impl Observer for Screen {
    fn see(&mut self, progress: &Progress) {
        match progress {
            Progress::Started { run, slot, threads, .. } => self.start(*run, *threads, slot),
            Progress::Event { run, event: Event::Step(step) } => return self.step(*run, step),
            Progress::Event { run, event: Event::Ready(ready) } => {
                if let Some(entry) = self.entries.get_mut(run) {
                    entry.done = ready.from_step;
                }
            }
            Progress::Event { run, event: Event::Warning { message, .. } } => {
                let label = self.entries.get(run).map_or(String::new(), |e| e.label.clone());
                self.line(&format!("warning      {label}: {message}"));
            }
            Progress::Event { .. } => return,
            Progress::Left { run } => self.leave(*run),
            Progress::Ended { run, state } => self.end(*run, state),
            Progress::Elsewhere { run } => {
                self.ended.remove(run);
                self.paused.remove(run);
                let label = self.entries.get(run).map_or(String::new(), |e| e.label.clone());
                self.line(&format!("elsewhere    {label}: another process trains it; waiting"));
            }
            Progress::Message(text) => self.line(text),
            Progress::Tick => {}
        }
        self.show_overall();
    }
}

pub(super) fn style(template: &str) -> ProgressStyle {
    // The templates are literals of this file: one that does not parse shows as the default bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pauses_from_the_start_is_no_work_until_it_is_lifted() {
        let run = |n: u8, pauses| Entry {
            id: RunId([n; 32]),
            label: String::new(),
            steps: 10,
            done: if pauses { 5 } else { 0 },
            pauses,
            weight: 1.0,
        };
        let mut screen = Screen::new("tiny", vec![run(0, true), run(1, false)]);
        assert_eq!((screen.ended.len(), screen.overall.position()), (1, PARTS / 3));
        screen.see(&Progress::Ended { run: RunId([1; 32]), state: RunState::Done });
        assert_eq!((screen.ended.len(), screen.overall.position()), (2, PARTS));
        screen.see(&Progress::Started { run: RunId([0; 32]), attempt: 2, slot: "cpu".into(), threads: 1 });
        assert_eq!((screen.ended.len(), screen.overall.position()), (1, PARTS * 3 / 4));
    }
}
