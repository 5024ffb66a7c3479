//! Where a run stands. Not a column: it follows from how its latest attempt ended, from whether a worker holds the run's
//! lock or, on another machine, a lease on it now, from the checkpoints in its folder, and from what was said of it since.

use rusqlite::Row;

use super::columns::{from_json_option, unsigned_option};
use crate::{
    base::{Result, checkpoints, clock, folders::RunFolder, lease},
    event::{Outcome, RunState, Started},
    spec::RunConfig,
};

/// What the index knows of the latest attempt at a run.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    /// Who runs it, where it said so; of one that ended, nobody asks.
    pub started: Option<Started>,
    /// How it ended, where it said so.
    pub outcome: Option<Outcome>,
    /// Why nobody tried again after it died without a word.
    pub gave_up: Option<String>,
}

impl Latest {
    /// From three columns of `attempts`, of which the first is the `at`-th: `outcome`, `gave_up`, `started`.
    pub fn from_row(row: &Row, at: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            outcome: from_json_option(row, at)?,
            gave_up: row.get(at + 1)?,
            started: from_json_option(row, at + 2)?,
        })
    }
}

/// What of the index decides where a run stands.
#[derive(Debug, Default)]
pub struct Known {
    /// Its latest attempt, where there is one.
    pub latest: Option<Latest>,
    /// Why nobody shall start it, where somebody said so after that attempt.
    pub skipped: Option<String>,
    /// The step at which it pauses and why, where that was said after that attempt.
    pub paused: Option<(u64, String)>,
}

impl Known {
    /// From nine columns, of which the first is the `at`-th: `last_attempt`, `skipped_attempt` and `skipped` of `runs`,
    /// those of its latest attempt, then `paused_attempt`, `paused_step` and `paused` of `runs`.
    pub fn from_row(row: &Row, at: usize) -> rusqlite::Result<Self> {
        let last: Option<u32> = row.get(at)?;
        let latest = last.map(|_| Latest::from_row(row, at + 3)).transpose()?;
        // What was said after the latest attempt, whose number then stands in the column.
        let holds = |at| -> rusqlite::Result<bool> {
            Ok(row.get::<_, Option<u32>>(at)?.is_some_and(|after| last.unwrap_or(0) <= after))
        };
        let skipped = if holds(at + 1)? { row.get(at + 2)? } else { None };
        let paused = match holds(at + 6)? {
            true => unsigned_option(row, at + 7)?.zip(row.get(at + 8)?),
            false => None,
        };
        Ok(Self { latest, skipped, paused })
    }
}

/// Where a run stands.
pub fn state(folder: &RunFolder, config: &RunConfig, known: &Known) -> Result<RunState> {
    let latest = known.latest.as_ref();
    if latest.is_some_and(|l| l.outcome == Some(Outcome::Done)) {
        return Ok(RunState::Done);
    }
    if lease::is_held(&folder.lock())? {
        return Ok(running(folder, config, latest));
    }
    if let Some(why) = &known.skipped {
        return Ok(RunState::Skipped { why: why.clone() });
    }
    // That a run pauses is said of one that was stopped: what has failed has failed, whatever was said of it since.
    if let Some(Latest { gave_up: Some(why), .. } | Latest { outcome: Some(Outcome::Failed { why, .. }), .. }) = latest
    {
        return Ok(RunState::Failed { why: why.clone() });
    }
    if let Some((step, why)) = &known.paused {
        return Ok(RunState::Paused { step: *step, why: why.clone() });
    }
    Ok(match latest {
        None => RunState::Queued,
        Some(Latest { outcome: Some(Outcome::Interrupted { step }), .. }) => RunState::Interrupted { step: *step },
        Some(_) => RunState::Interrupted { step: checkpoints::latest_step(folder).ok().flatten().unwrap_or(0) },
    })
}

/// A worker takes the lock before it says that it started: until then, the config tells where and the lock since when.
fn running(folder: &RunFolder, config: &RunConfig, latest: Option<&Latest>) -> RunState {
    match latest {
        Some(Latest { started: Some(started), outcome: None, gave_up: None }) => {
            RunState::Running { slot: started.device.clone(), since: started.at }
        }
        _ => RunState::Running { slot: config.run.device.clone(), since: clock::modified(&folder.lock()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::files::Lock;

    #[test]
    fn a_state_follows_from_the_latest_attempt_and_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        let mut config = RunConfig::default();
        config.run.device = "cpu".into();
        let known = |latest: Option<&Latest>| Known { latest: latest.cloned(), ..Known::default() };
        let of = |latest: &Latest| state(&folder, &config, &known(Some(latest))).unwrap();

        let started = Started { device: "cuda:1".into(), at: 7, ..Started::default() };
        let silent = Latest { started: Some(started), ..Latest::default() };
        let gave_up = Latest { gave_up: Some("killed".into()), ..Latest::default() };
        let failed = Latest { outcome: Some(Outcome::Failed { why: "nan".into(), retry: false }), ..Latest::default() };
        let stopped = Latest { outcome: Some(Outcome::Interrupted { step: 9 }), ..Latest::default() };
        let done = Latest { outcome: Some(Outcome::Done), ..Latest::default() };

        assert_eq!(state(&folder, &config, &known(None)).unwrap(), RunState::Queued);
        assert_eq!(of(&silent), RunState::Interrupted { step: 0 });
        assert_eq!(of(&gave_up), RunState::Failed { why: "killed".into() });
        assert_eq!(of(&failed), RunState::Failed { why: "nan".into() });
        assert_eq!(of(&stopped), RunState::Interrupted { step: 9 });
        assert_eq!(of(&done), RunState::Done);
        let paused = |latest: &Latest| Known { paused: Some((9, "last".into())), ..known(Some(latest)) };
        let of_paused = |latest: &Latest| state(&folder, &config, &paused(latest)).unwrap();
        for latest in [&silent, &stopped] {
            assert_eq!(of_paused(latest), RunState::Paused { step: 9, why: "last".into() });
        }
        for (latest, state) in [(&done, RunState::Done), (&failed, of(&failed)), (&gave_up, of(&gave_up))] {
            assert_eq!(of_paused(latest), state, "what is done or has failed does not pause");
        }

        let held = Lock::try_take(&folder.lock()).unwrap().unwrap();
        assert_eq!(of(&silent), RunState::Running { slot: "cuda:1".into(), since: 7 });
        for latest in [None, Some(&failed), Some(&stopped), Some(&gave_up)] {
            let state = state(&folder, &config, &known(latest)).unwrap();
            assert!(matches!(state, RunState::Running { slot, since } if slot == "cpu" && since > 7), "a new attempt");
        }
        assert_eq!(of(&done), RunState::Done, "its worker is about to leave");
        drop(held);
        assert_eq!(of(&silent), RunState::Interrupted { step: 0 });
    }
}
