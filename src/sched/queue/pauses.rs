//! Which runs pause since they fell behind, and which go on again: asks the [`Pruner`] whenever something has changed.
//!
//! A run that is trained is judged once for each rung or evaluation that it reaches, and goes on undisturbed in between,
//! whatever others do meanwhile. One that is not trained is judged whenever anything changes.

use std::{cmp::Reverse, time::Duration};

use super::{
    Action, Entry, Queue, Standing,
    place::{Place, all_are_aside},
};
use crate::{
    base::RunId,
    event::RunState,
    sched::prune::{Fate, Verdict},
};

impl Queue {
    /// Takes in what is known of a run's metric.
    pub(super) fn learned(&mut self, run: RunId, values: &[(u64, f64)]) {
        if let (Some(pruner), Some(&at)) = (&mut self.pruner, self.index.get(&run)) {
            self.is_news |= pruner.learn(at, values);
        }
    }

    /// Pauses what has fallen behind, and lifts what has not any more.
    pub(super) fn judge(&mut self, now: Duration, actions: &mut Vec<Action>) {
        // Who pauses may be the last that others waited for, and who is lifted is one more to wait for.
        while self.has_news() {
            let Some(pruner) = &self.pruner else { return };
            let verdicts = pruner.verdicts().into_iter().enumerate();
            let judged: Vec<(usize, Verdict, Option<u64>)> = verdicts.map(|(at, v)| (at, v, pruner.mark(at))).collect();
            for (at, verdict, mark) in judged {
                let entry = &mut self.entries[at];
                let run = entry.task.run;
                if fate(entry, &self.places) == Fate::Out {
                    continue;
                }
                match (&entry.standing, verdict) {
                    (Standing::Waiting(_), Verdict::Pauses(why)) => match entry.task.failed.clone() {
                        // It would be tried again, and is not. That it failed says more of it than how it stands.
                        Some(why) => {
                            entry.standing = Standing::Ended(RunState::Failed { why: why.clone() });
                            actions.push(Action::Report { run, state: RunState::Failed { why } });
                        }
                        None => self.pause(run, why.to_string(), actions),
                    },
                    (Standing::Paused { .. }, Verdict::GoesOn) => {
                        entry.standing = Standing::Waiting(now);
                        actions.push(Action::Say(format!("{} goes on: it is among the best by now", run.short())));
                    }
                    (Standing::Waiting(_) | Standing::Starting(_), Verdict::GoesOn) => entry.passed = mark,
                    (Standing::Running { .. }, verdict) if mark > entry.passed && !entry.is_stopping() => match verdict
                    {
                        Verdict::GoesOn => entry.passed = mark,
                        Verdict::Pauses(why) => {
                            entry.pausing = Some(why.to_string());
                            actions.push(Action::Stop { run });
                        }
                    },
                    _ => {}
                }
            }
            // Those that have come furthest are started first: what goes on goes before what is new.
            if let Some(pruner) = &self.pruner {
                self.order.sort_by_key(|&at| Reverse((pruner.mark(at), self.entries[at].task.from)));
            }
        }
    }

    /// The runs that pause and stand among the others otherwise than was put on record when they were stopped. One that is
    /// out, since somebody cancelled it or no device is left for it, stands no more among them.
    pub fn standing_otherwise(&self) -> Vec<(RunId, String)> {
        let verdicts = self.pruner.iter().flat_map(|pruner| pruner.verdicts());
        let otherwise = |(entry, verdict): (&Entry, Verdict)| match (&entry.standing, verdict) {
            _ if fate(entry, &self.places) == Fate::Out => None,
            (Standing::Paused { why }, Verdict::Pauses(reason)) if *why != reason.to_string() => {
                Some((entry.task.run, reason.to_string()))
            }
            _ => None,
        };
        self.entries.iter().zip(verdicts).filter_map(otherwise).collect()
    }

    /// A run that no worker trains pauses.
    pub(super) fn pause(&mut self, run: RunId, why: String, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        entry.standing = Standing::Paused { why: why.clone() };
        let step = entry.task.from.unwrap_or(0);
        actions.push(Action::Pause { run, why: why.clone() });
        actions.push(Action::Report { run, state: RunState::Paused { step, why } });
    }

    /// Whether anything has changed since it was last asked, in what the verdicts follow from.
    fn has_news(&mut self) -> bool {
        let Some(pruner) = &mut self.pruner else { return false };
        let mut is_news = std::mem::take(&mut self.is_news);
        for (at, entry) in self.entries.iter_mut().enumerate() {
            is_news |= pruner.set_fate(at, fate(entry, &self.places));
            let is_waiting = entry.is_waiting();
            is_news |= !std::mem::replace(&mut entry.was_waiting, is_waiting) && is_waiting;
        }
        is_news
    }
}

fn fate(entry: &Entry, places: &[Place]) -> Fate {
    match &entry.standing {
        Standing::Ended(RunState::Done) => Fate::Done,
        Standing::Ended(_) => Fate::Out,
        // Whatever the others do, no device is left for it.
        Standing::Waiting(_) | Standing::Paused { .. } if all_are_aside(places, &entry.task) => Fate::Out,
        Standing::Paused { .. } if entry.is_cancelled() => Fate::Out,
        Standing::Paused { .. } => Fate::Paused,
        _ => Fate::Moving,
    }
}
