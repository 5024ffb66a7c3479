//! Where a run stands. Not a column: it follows from how its latest attempt ended, from whether a worker holds the run's
//! lock now, and from the checkpoints in its folder.

use rusqlite::Row;

use super::columns::from_json_option;
use crate::{
    base::{Result, clock, files::Lock, folders::RunFolder},
    event::{Outcome, RunState, Started},
    spec::RunConfig,
};

/// What the index knows of the latest attempt at a run.
#[derive(Debug, Default)]
pub struct Latest {
    /// Who runs it, where it said so.
    pub started: Option<Started>,
    /// How it ended, where it said so.
    pub outcome: Option<Outcome>,
    /// Why nobody tried again after it died without a word.
    pub gave_up: Option<String>,
}

impl Latest {
    /// From the columns of `attempts`.
    pub fn from_row(row: &Row) -> rusqlite::Result<Self> {
        Ok(Self {
            started: from_json_option(row, "started")?,
            outcome: from_json_option(row, "outcome")?,
            gave_up: row.get("gave_up")?,
        })
    }
}

/// Where a run stands.
pub fn state(folder: &RunFolder, config: &RunConfig, latest: Option<&Latest>) -> Result<RunState> {
    if latest.is_some_and(|l| l.outcome == Some(Outcome::Done)) {
        return Ok(RunState::Done);
    }
    if Lock::is_held(&folder.lock())? {
        return Ok(running(folder, config, latest));
    }
    Ok(match latest {
        None => RunState::Queued,
        Some(Latest { outcome: Some(Outcome::Done), .. }) => RunState::Done,
        Some(Latest { gave_up: Some(why), .. }) => RunState::Failed { why: why.clone() },
        Some(Latest { outcome: Some(Outcome::Failed { why, .. }), .. }) => RunState::Failed { why: why.clone() },
        Some(Latest { outcome: Some(Outcome::Interrupted { step }), .. }) => RunState::Interrupted { step: *step },
        Some(_) => RunState::Interrupted { step: last_checkpoint(folder).unwrap_or(0) },
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

/// The step of the newest whole checkpoint in a run's folder. The manifest is written last. A later attempt's checkpoint
/// is newer, even at an earlier step: that attempt could not use what lay beyond.
fn last_checkpoint(folder: &RunFolder) -> Option<u64> {
    let entries = std::fs::read_dir(folder.checkpoints()).ok()?.flatten();
    let whole = entries.filter(|entry| entry.path().join("manifest.json").exists());
    let newest = whole.filter_map(|entry| {
        let name = entry.file_name();
        let (step, attempt) = name.to_str()?.strip_prefix("step-")?.split_once(".attempt-")?;
        Some((attempt.parse::<u32>().ok()?, step.parse::<u64>().ok()?))
    });
    newest.max().map(|(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_checkpoint_is_the_newest_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        assert_eq!(last_checkpoint(&folder), None);
        for (name, whole) in [
            ("step-100.attempt-1", true),
            ("step-300.attempt-1", true),
            ("step-200.attempt-2", true),
            ("step-250.attempt-2", false),
            (".aside-step-260.attempt-2", true),
            ("step-x.attempt-9", true),
        ] {
            let path = folder.checkpoints().join(name);
            std::fs::create_dir_all(&path).unwrap();
            if whole {
                std::fs::write(path.join("manifest.json"), "{}").unwrap();
            }
        }
        assert_eq!(last_checkpoint(&folder), Some(200));
    }

    #[test]
    fn a_state_follows_from_the_latest_attempt_and_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        let mut config = RunConfig::default();
        config.run.device = "cpu".into();
        let of = |latest: &Latest| state(&folder, &config, Some(latest)).unwrap();

        let started = Started { device: "cuda:1".into(), at: 7, ..Started::default() };
        let silent = Latest { started: Some(started), ..Latest::default() };
        let gave_up = Latest { gave_up: Some("killed".into()), ..Latest::default() };
        let failed = Latest { outcome: Some(Outcome::Failed { why: "nan".into(), retry: false }), ..Latest::default() };
        let stopped = Latest { outcome: Some(Outcome::Interrupted { step: 9 }), ..Latest::default() };
        let done = Latest { outcome: Some(Outcome::Done), ..Latest::default() };

        assert_eq!(state(&folder, &config, None).unwrap(), RunState::Queued);
        assert_eq!(of(&silent), RunState::Interrupted { step: 0 });
        assert_eq!(of(&gave_up), RunState::Failed { why: "killed".into() });
        assert_eq!(of(&failed), RunState::Failed { why: "nan".into() });
        assert_eq!(of(&stopped), RunState::Interrupted { step: 9 });
        assert_eq!(of(&done), RunState::Done);

        let held = Lock::try_take(&folder.lock()).unwrap().unwrap();
        assert_eq!(of(&silent), RunState::Running { slot: "cuda:1".into(), since: 7 });
        for latest in [None, Some(&failed), Some(&stopped), Some(&gave_up)] {
            let state = state(&folder, &config, latest).unwrap();
            assert!(matches!(state, RunState::Running { slot, since } if slot == "cpu" && since > 7), "a new attempt");
        }
        assert_eq!(of(&done), RunState::Done, "its worker is about to leave");
        drop(held);
        assert_eq!(of(&silent), RunState::Interrupted { step: 0 });
    }
}
