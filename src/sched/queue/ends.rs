//! How a run leaves the queue, or comes back into it: its worker ends, a person cancels it, its time is used up, another
//! process lets it go.

use std::time::Duration;

use super::{Action, Entry, Halt, Queue, Standing, Stopping, place::AT_ONCE};
use crate::{
    base::RunId,
    event::{CANCELLED, Outcome, RunState, is_out_of_memory},
    exec::Ended,
};

/// How long a run that died waits before it is started again; twice as long after each further death, up to a limit.
const RETRY_AFTER: Duration = Duration::from_millis(500);
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(60);

/// How long a run that used up its time may take to write a checkpoint.
const GRACE: Duration = Duration::from_secs(30);

/// How long a cancelled run may take to: somebody waits for it.
const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// How long we wait for another process to let go of a run that was cancelled.
const CANCEL_ELSEWHERE: Duration = Duration::from_secs(5);

impl Queue {
    /// Stops or kills what has no more time, and no longer waits for what was cancelled elsewhere.
    pub(super) fn check_times(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let mut left = Vec::new();
        for entry in &mut self.entries {
            let run = entry.task.run;
            match &mut entry.standing {
                Standing::Running { since, overdue, .. } => {
                    let timeout = entry.task.timeout;
                    if *overdue == Stopping::No && timeout.is_some_and(|timeout| now >= *since + timeout) {
                        *overdue = Stopping::Asked(now);
                        actions.push(Action::Stop { run });
                    }
                    // One that is to pause is not hurried: nobody waits for it, and to end it would lose what it has done
                    // since its last checkpoint, all of it where the first is still being written. One that hangs loses
                    // its lease.
                    for (stopping, grace) in [(overdue, GRACE), (&mut entry.cancelled, CANCEL_GRACE)] {
                        if matches!(*stopping, Stopping::Asked(at) if now >= at + grace) {
                            *stopping = Stopping::Killed;
                            actions.push(Action::Kill { run });
                        }
                    }
                }
                Standing::Elsewhere => {
                    let waited = |at| now >= at + CANCEL_ELSEWHERE;
                    left.extend(matches!(entry.cancelled, Stopping::Asked(at) if waited(at)).then_some(run));
                }
                Standing::Waiting(_) | Standing::Starting(_) | Standing::Paused { .. } | Standing::Ended(_) => {}
            }
        }
        left.into_iter().for_each(|run| self.leave(run, actions));
    }

    /// A person cancels a run: it is not begun any more, and stopped where it was.
    pub(super) fn cancel(&mut self, now: Duration, run: RunId, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run).filter(|entry| entry.cancelled == Stopping::No) else { return };
        entry.cancelled = Stopping::Asked(now);
        match entry.standing {
            Standing::Waiting(_) => self.leave(run, actions),
            Standing::Running { .. } => actions.push(Action::Stop { run }),
            Standing::Starting(_) | Standing::Elsewhere | Standing::Paused { .. } | Standing::Ended(_) => {}
        }
    }

    /// Ends a cancelled run that no worker trains.
    pub(super) fn leave(&mut self, run: RunId, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        let state = match entry.task.from {
            Some(step) => RunState::Interrupted { step },
            None => RunState::Skipped { why: CANCELLED.into() },
        };
        self.end(run, state, actions);
    }

    pub(super) fn settled(&mut self, now: Duration, run: RunId, state: RunState, actions: &mut Vec<Action>) {
        let has_pruner = self.pruner.is_some();
        let Some(entry) = self.entry(run) else { return };
        if !matches!(entry.standing, Standing::Starting(_) | Standing::Elsewhere) {
            return;
        }
        match state {
            // A cancel from before we were asked for the run.
            RunState::Skipped { why } if why == CANCELLED => {}
            RunState::Running { .. } => return self.elsewhere(run, actions),
            RunState::Done | RunState::Failed { .. } | RunState::Skipped { .. } => {
                return self.end(run, state, actions);
            }
            RunState::Interrupted { step } => entry.task.from = Some(step),
            RunState::Paused { step, why } => {
                entry.task.from = Some(step);
                if has_pruner {
                    entry.standing = Standing::Paused { why: why.clone() };
                    return actions.push(Action::Report { run, state: RunState::Paused { step, why } });
                }
            }
            RunState::Queued => {}
        }
        entry.standing = Standing::Waiting(now);
        if entry.is_cancelled() {
            self.leave(run, actions);
        }
    }

    pub(super) fn ended(&mut self, now: Duration, run: RunId, ended: Ended, actions: &mut Vec<Action>) {
        self.judge_device(now, run, &ended, actions);
        if let Some(share) = self.entry(run).and_then(|entry| entry.share()) {
            self.places[share.place].wait.end();
        }
        let halted = self.halt != Halt::No;
        let Some(entry) = self.entry(run).filter(|entry| entry.share().is_some()) else { return };
        // What was asked of this worker is nothing to the next.
        let pausing = entry.pausing.take();
        let asked = halted || entry.is_cancelled();
        let state = match ended {
            Ended::Elsewhere => return self.elsewhere(run, actions),
            Ended::Finished(Outcome::Done) => RunState::Done,
            Ended::Finished(Outcome::Failed { why, retry }) => {
                if !asked {
                    entry.task.failed = Some(why.clone());
                    entry.task.from.get_or_insert(0); // it has begun; the store knows how far it came
                    if self.again_alone(now, run, &why, actions) {
                        return;
                    }
                    if retry && self.again(now, run, &why, "from its last checkpoint", actions) {
                        return;
                    }
                }
                RunState::Failed { why }
            }
            Ended::Finished(Outcome::Interrupted { step }) if entry.is_cancelled() => RunState::Interrupted { step },
            Ended::Died { step, .. } if entry.is_cancelled() => RunState::Interrupted { step },
            Ended::Finished(Outcome::Interrupted { step }) | Ended::Died { step, .. } if pausing.is_some() => {
                entry.task.from = Some(step);
                return self.pause(run, pausing.unwrap_or_default(), actions);
            }
            Ended::Finished(Outcome::Interrupted { .. }) | Ended::Died { .. } if entry.is_overdue() => {
                let limit = entry.task.timeout.unwrap_or_default().as_secs_f64();
                return self.give_up(run, format!("timed out after {limit} s"), actions);
            }
            Ended::Finished(Outcome::Interrupted { step }) => RunState::Interrupted { step },
            Ended::Died { step, .. } if halted => RunState::Interrupted { step },
            Ended::Died { why, step, retry } => {
                entry.task.from = Some(step);
                let again = self.again_alone(now, run, &why, actions)
                    || retry && self.again(now, run, &why, &format!("from step {step}"), actions);
                if !again {
                    self.give_up(run, why, actions);
                }
                return;
            }
        };
        self.end(run, state, actions);
    }

    /// What the end of a run says of the device that it was on. One that was asked for says nothing, nor does one that
    /// would come again on any device.
    fn judge_device(&mut self, now: Duration, run: RunId, ended: &Ended, actions: &mut Vec<Action>) {
        let halted = self.halt != Halt::No;
        let Some(entry) = self.entry(run) else { return };
        let since = match entry.standing {
            Standing::Running { since, .. } => since,
            Standing::Starting(_) => now,
            _ => return,
        };
        let Some(at) = entry.share().map(|share| share.place) else { return };
        let was_asked = halted || entry.is_stopping();
        let place = &mut self.places[at];
        let why = match ended {
            Ended::Elsewhere => return,
            Ended::Finished(Outcome::Done) => return place.did_well(),
            _ if now > since + AT_ONCE => return place.did_well(),
            Ended::Died { why, retry: true, .. } | Ended::Finished(Outcome::Failed { why, retry: true })
                if !was_asked =>
            {
                why
            }
            Ended::Died { .. } | Ended::Finished(_) => return,
        };
        if !place.failed_at_once(run) {
            return;
        }
        let device = place.device.clone();
        actions.push(Action::Say(format!("{device} is set aside after three failures within seconds: {why}")));
        // The run that failed is about to wait again, or to be given up: it is spoken of then.
        let stranded = self.entries.iter().filter(|entry| entry.is_waiting() && self.is_stranded(&entry.task));
        match stranded.count() {
            0 => {}
            1 => actions.push(Action::Say("no device is left for one run: it is not started".into())),
            n => actions.push(Action::Say(format!("no device is left for {n} runs: they are not started"))),
        }
    }

    /// Lets a run wait for another try, later after each, unless it has had them all.
    fn again(&mut self, now: Duration, run: RunId, why: &str, from: &str, actions: &mut Vec<Action>) -> bool {
        let Some(entry) = self.entry(run).filter(|entry| entry.deaths < entry.task.retries) else { return false };
        let later = RETRY_AFTER.saturating_mul(2u32.saturating_pow(entry.deaths)).min(RETRY_AFTER_AT_MOST);
        entry.standing = Standing::Waiting(now + later);
        entry.deaths += 1;
        let (tried, of) = (entry.deaths, entry.task.retries);
        let task = entry.task.clone();
        let go_on = match self.is_stranded(&task) {
            true => "no device is left to start it again on".to_owned(),
            false => format!("starting it again {from} (try {tried} of {of})"),
        };
        actions.push(Action::Say(format!("{}: {why}; {go_on}", run.short())));
        true
    }

    fn give_up(&mut self, run: RunId, why: String, actions: &mut Vec<Action>) {
        actions.push(Action::GiveUp { run, why: why.clone() });
        self.end(run, RunState::Failed { why }, actions);
    }

    fn end(&mut self, run: RunId, state: RunState, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        entry.standing = Standing::Ended(state.clone());
        actions.push(Action::Report { run, state: state.clone() });
        let RunState::Failed { why } = state else { return };
        if is_out_of_memory(&why) {
            self.skip_larger(run, actions);
        }
        if self.fail_fast && self.halt == Halt::No {
            self.halt = Halt::Gently;
            let running: Vec<_> = self.halt_all().collect();
            let others =
                if running.is_empty() { "no other is started" } else { "the others write a checkpoint and stop" };
            actions.push(Action::Say(format!("{} failed: {others} (--fail-fast)", run.short())));
            actions.extend(running);
        }
    }

    /// Skips what needs more than a run that ran out of memory and has not shown yet that it fits.
    fn skip_larger(&mut self, failed: RunId, actions: &mut Vec<Action>) {
        let Some(least) = self.entry(failed).and_then(|entry| entry.task.needs.clone()) else { return };
        let why = format!("needs more than {} which ran out of memory", failed.short());
        let is_larger = |entry: &&Entry| {
            let exceeds = entry.task.needs.as_ref().is_some_and(|needs| needs.exceed(&least));
            entry.is_waiting() && entry.task.from.unwrap_or(0) == 0 && exceeds
        };
        let larger: Vec<RunId> = self.entries.iter().filter(is_larger).map(|entry| entry.task.run).collect();
        for run in larger {
            actions.push(Action::Skip { run, why: why.clone() });
            self.end(run, RunState::Skipped { why: why.clone() }, actions);
        }
    }
}
