//! How much of an experiment is done, and how long the rest takes: by how fast its runs go now.

use std::collections::HashMap;

use crate::{
    base::{RunId, clock::Millis},
    cost::Cost,
    event::{Ready, RunState},
    store::RunRow,
};

/// Tokens of a vocabulary that nobody has told yet: for weighing runs of one experiment against each other.
const VOCABULARY: usize = 65;

/// How long an attempt must have trained, in ms, for its pace to tell how long the rest takes.
const SETTLED: Millis = 5_000;

/// How far an experiment is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outlook {
    /// How much of the work is done, from 0 to 1.
    pub share: f64,
    /// Seconds until all is done that somebody is about to do; `None` where nobody is, or it cannot be told.
    pub left: Option<f64>,
}

impl Outlook {
    /// Of an experiment whose spec was run `at` that time, and whose runs ended at those; `is_at_work` where an `exp run` of
    /// it is.
    pub fn of(rows: &[RunRow], at: Millis, ends: &HashMap<RunId, Millis>, is_at_work: bool, now: Millis) -> Self {
        let vocabulary = rows.iter().find_map(|row| row.ready.as_ref()).map_or(VOCABULARY, |ready| ready.vocab_size);
        let works: Vec<f64> = rows.iter().map(|row| work_of_a_step(row, vocabulary)).collect();
        let pairs = || rows.iter().zip(&works);
        let (mut done, mut all) = (0.0, 0.0);
        for (row, work) in pairs() {
            let steps = match row.state {
                // What it has left is no work any more, or none as long as it pauses.
                RunState::Failed { .. } | RunState::Skipped { .. } | RunState::Paused { .. } => row.step,
                _ => row.config.train.steps,
            };
            done += work * row.step.min(steps) as f64;
            all += work * steps as f64;
        }
        let share = if all > 0.0 { done / all } else { 1.0 };

        let running: Vec<f64> = rows.iter().filter_map(|row| left(row, now)).collect();
        let is_next = |row: &RunRow| match row.state {
            RunState::Queued => true,
            RunState::Running { .. } | RunState::Done | RunState::Failed { .. } | RunState::Skipped { .. } => false,
            RunState::Paused { .. } => false, // unless others lift it, of which nobody knows
            // It had stopped before the spec was run again, which goes on with it.
            _ => ends.get(&row.id).is_some_and(|end| *end < at),
        };
        let left_of = |row: &RunRow| row.config.train.steps.saturating_sub(row.step) as f64;
        let queued: f64 = match is_at_work {
            true => pairs().filter(|(row, _)| is_next(row)).map(|(row, work)| work * left_of(row)).sum(),
            false => 0.0,
        };
        let is_running = rows.iter().any(|row| matches!(row.state, RunState::Running { .. }));
        let left = if !is_running && queued == 0.0 {
            None
        } else if queued == 0.0 {
            running.iter().copied().reduce(f64::max)
        } else if let Some(rate) = rate(rows, &works, at, ends, now) {
            let begun = pairs().filter(|(row, _)| matches!(row.state, RunState::Running { .. }));
            let all = queued + begun.map(|(row, work)| work * left_of(row)).sum::<f64>();
            Some(running.iter().copied().fold(all / rate, f64::max))
        } else {
            pace(rows, &works, ends, now).map(|pace| {
                let together = (queued * pace + running.iter().sum::<f64>()) / running.len().max(1) as f64;
                running.iter().copied().fold(together, f64::max)
            })
        };
        Self { share, left }
    }
}

/// Seconds until a run that is being trained is done.
pub fn left(row: &RunRow, now: Millis) -> Option<f64> {
    let RunState::Running { since, .. } = row.state else { return None };
    let steps = row.config.train.steps.saturating_sub(row.step) as f64;
    let by_speed = || Some(row.config.tokens_per_step() as f64 / row.tokens_per_second.filter(|speed| *speed > 0.0)?);
    // Of an attempt that has just begun, only the speed of its steps tells anything.
    let is_settled = |ready: &&Ready| ready.at >= since && now - ready.at >= SETTLED;
    let measured = row.ready.as_ref().filter(is_settled).and_then(|_| seconds_per_step(row, now));
    measured.or_else(by_speed).map(|seconds| steps * seconds)
}

/// What a step of a run's latest attempt took up to a time, evaluations and checkpoints included.
fn seconds_per_step(row: &RunRow, until: Millis) -> Option<f64> {
    let ready = row.ready.as_ref()?;
    let steps = row.step.checked_sub(ready.from_step).filter(|steps| *steps > 0)?;
    Some((until - ready.at).max(1) as f64 / 1000.0 / steps as f64)
}

/// Floating-point operations of a step: what runs of different sizes are weighed by.
fn work_of_a_step(row: &RunRow, vocabulary: usize) -> f64 {
    let per_token = match &row.ready {
        Some(ready) if ready.flops_per_token > 0.0 => ready.flops_per_token,
        _ => Cost::of(&row.config, vocabulary).flops_per_token,
    };
    per_token * row.config.tokens_per_step() as f64
}

/// Operations a second of all runs together since the spec was run, with all that lies between runs; `None` where none of
/// them has been trained to its end since.
fn rate(rows: &[RunRow], works: &[f64], at: Millis, ends: &HashMap<RunId, Millis>, now: Millis) -> Option<f64> {
    let has_ended = |row: &RunRow| ends.get(&row.id).is_some_and(|end| *end >= at);
    let is_since = |row: &RunRow| match row.state {
        RunState::Running { since, .. } => since >= at,
        _ => has_ended(row),
    };
    let steps = |row: &RunRow| row.step.saturating_sub(row.ready.as_ref().map_or(0, |ready| ready.from_step)) as f64;
    let done: f64 = rows.iter().zip(works).filter(|(row, _)| is_since(row)).map(|(row, work)| work * steps(row)).sum();
    let is_known = rows.iter().any(|row| row.state == RunState::Done && has_ended(row));
    let rate = done / ((now - at).max(1) as f64 / 1000.0);
    (is_known && rate > 0.0).then_some(rate)
}

/// Seconds for an operation: the median over the runs that are being trained or are done.
fn pace(rows: &[RunRow], works: &[f64], ends: &HashMap<RunId, Millis>, now: Millis) -> Option<f64> {
    let of = |(row, work): (&RunRow, &f64)| {
        let seconds = match row.state {
            RunState::Running { .. } => left(row, now)? / row.config.train.steps.checked_sub(row.step)?.max(1) as f64,
            RunState::Done => seconds_per_step(row, *ends.get(&row.id)?)?,
            _ => return None,
        };
        Some(seconds / work).filter(|pace| pace.is_finite() && *pace > 0.0)
    };
    let mut paces: Vec<f64> = rows.iter().zip(works).filter_map(of).collect();
    paces.sort_by(f64::total_cmp);
    paces.get(paces.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RunConfig;

    /// A run of 100 steps, of which it has made so many since time 0.
    fn row(n: u8, state: RunState, step: u64) -> RunRow {
        let mut config = RunConfig::default();
        config.train.steps = 100;
        let ready = Ready { at: 0, flops_per_token: 10.0, vocab_size: 65, ..Ready::default() };
        RunRow {
            id: RunId([n; 32]),
            experiments: Vec::new(),
            config,
            state,
            step,
            best: None,
            last_val_loss: None,
            tokens_per_second: None,
            attempts: 1,
            ready: Some(ready),
            tags: Vec::new(),
            created: 0,
        }
    }

    fn running(n: u8, step: u64) -> RunRow {
        row(n, RunState::Running { slot: "cpu".into(), since: 0 }, step)
    }

    fn at_50_seconds(rows: &[RunRow], ends: &HashMap<RunId, Millis>, is_at_work: bool) -> Outlook {
        Outlook::of(rows, 0, ends, is_at_work, 50_000)
    }

    #[test]
    fn what_is_queued_takes_as_long_as_what_runs_and_is_shared_out() {
        let none = HashMap::new();
        let left = |rows: &[RunRow], is_at_work| at_50_seconds(rows, &none, is_at_work).left;
        let (one, queued) = (running(1, 50), row(2, RunState::Queued, 0));
        assert_eq!(left(std::slice::from_ref(&one), true), Some(50.0));
        let together = [one.clone(), queued.clone()];
        assert_eq!((left(&together, true), left(&together, false)), (Some(150.0), Some(50.0)));
        assert_eq!(left(&[one, running(3, 50), queued.clone()], true), Some(100.0));
        assert_eq!(left(std::slice::from_ref(&queued), true), None, "nobody knows how fast it will be");
        let (mut done, ends) = (row(4, RunState::Done, 100), HashMap::from([(RunId([4; 32]), -1_000)]));
        done.ready.as_mut().unwrap().at = -201_000;
        let both = [done.clone(), queued];
        assert_eq!(at_50_seconds(&both, &ends, true).left, Some(200.0), "as fast as one that was done before");
        assert_eq!(at_50_seconds(&[done], &ends, true).left, None);
    }

    #[test]
    fn once_a_run_is_done_all_that_was_done_tells_how_long_the_rest_takes() {
        // A run begins in the middle of the time, so that one step takes a third of a second, whatever each takes by itself.
        let rows =
            [row(1, RunState::Done, 100), running(2, 50), row(3, RunState::Queued, 0), row(4, RunState::Queued, 0)];
        let ends = HashMap::from([(rows[0].id, 25_000)]);
        let left = at_50_seconds(&rows, &ends, true).left.unwrap();
        assert!((left - 250.0 / 3.0).abs() < 1e-6, "{left}");
    }

    #[test]
    fn a_run_of_which_no_step_is_known_yet_is_not_guessed_by_another_attempt() {
        let mut resumed = running(1, 50);
        resumed.state = RunState::Running { slot: "cpu".into(), since: 10 };
        assert_eq!(left(&resumed, 50_000), None, "it was ready before this attempt began");
        resumed.ready.as_mut().unwrap().at = 40_000;
        resumed.ready.as_mut().unwrap().from_step = 40;
        assert_eq!(left(&resumed, 50_000), Some(50.0), "ten steps in ten seconds");
        assert_eq!(left(&resumed, 41_000), None, "too early to tell");
        resumed.tokens_per_second = Some(resumed.config.tokens_per_step() as f64 / 3.0);
        assert_eq!(left(&resumed, 41_000), Some(150.0), "by the speed of its steps");
    }

    #[test]
    fn what_stopped_before_the_spec_was_run_is_gone_on_with() {
        let rows = [running(1, 50), row(2, RunState::Interrupted { step: 50 }, 50)];
        let ended = |at: Millis| at_50_seconds(&rows, &HashMap::from([(rows[1].id, at)]), true).left;
        assert_eq!((ended(-1), ended(7)), (Some(100.0), Some(50.0)), "one that was cancelled since is not");
    }

    #[test]
    fn what_pauses_is_no_work_as_long_as_it_does() {
        let paused = row(2, RunState::Paused { step: 20, why: "3rd of 3".into() }, 20);
        let done = at_50_seconds(&[row(1, RunState::Done, 100), paused.clone()], &HashMap::new(), false);
        assert_eq!((done.share, done.left), (1.0, None));
        let before = HashMap::from([(paused.id, -1)]);
        assert_eq!(at_50_seconds(&[running(1, 50), paused], &before, true).left, Some(50.0));
    }

    #[test]
    fn what_failed_is_no_work_any_more() {
        let rows = [row(1, RunState::Done, 100), row(2, RunState::Failed { why: "nan".into() }, 20)];
        assert_eq!(at_50_seconds(&rows, &HashMap::new(), false).share, 1.0);
        assert_eq!(at_50_seconds(&[rows[0].clone(), row(3, RunState::Queued, 0)], &HashMap::new(), false).share, 0.5);
    }
}
