//! What the checkpoints of an experiment may take of the disk (`checkpoint.max_bytes`), shared out among its runs.
//!
//! Each run gets a part of it after the size of its checkpoints, so that all keep equally many, and its worker keeps to
//! that alone. So runs need not know of each other while they train, and what one keeps does not depend on which of them
//! came first.

use super::{PlannedRun, Reason};
use crate::{
    base::{Error, Result, checkpoints, clock, files::Lock, folders::Root, lease},
    event::{Checkpointed, Note},
    spec::{Sweep, identity::FrozenRun},
    store::{RunRow, Store},
    train::checkpoint::{self, Keep},
};

/// Bytes of a checkpoint of a run.
fn size(params: u64) -> u64 {
    checkpoint::bytes(params as usize, true)
}

/// Gives each run of a plan its part; `members` counts those of the experiment as well that are not planned now, each of
/// which is taken to be as large as the largest.
///
/// # Errors
/// [`Exit::Spec`](crate::base::Exit::Spec), at the leaf, where not every run could keep a checkpoint.
pub fn share_out(sweep: &Sweep, runs: &mut [PlannedRun], members: usize) -> Result<()> {
    const LEAF: &str = "checkpoint.max_bytes";
    let sizes = || runs.iter().map(|run| size(run.cost.params));
    let others = members.saturating_sub(runs.len()) as u64;
    let all = sizes().sum::<u64>() + others * sizes().max().unwrap_or(0);
    for run in runs.iter_mut() {
        let Some(most) = run.frozen.config.checkpoint.max_bytes else { continue };
        if all > most {
            let why = format!("its {members} runs need {all} bytes to keep one checkpoint each");
            let hint = format!("allow at least {all}, or leave `max_bytes` out");
            return Err(sweep.error_at(0, LEAF, why, Some(&hint)));
        }
        run.checkpoint_bytes = Some(part(most, size(run.cost.params), all));
    }
    Ok(())
}

/// The part of a stored run, among the runs of the experiment that it belongs to.
///
/// # Errors
/// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
pub fn part_of(store: &Store, row: &RunRow, frozen: &FrozenRun, params: u64) -> Result<Option<u64>> {
    let (Some(most), Some(experiment)) = (frozen.config.checkpoint.max_bytes, row.experiments.first()) else {
        return Ok(None);
    };
    let others = store.runs(Some(experiment))?;
    let params_of = |other: &RunRow| other.ready.as_ref().map_or(params, |ready| ready.params);
    let all = others.iter().map(|other| size(params_of(other))).sum::<u64>();
    Ok(Some(part(most, size(params), all)))
}

fn part(most: u64, own: u64, all: u64) -> u64 {
    (u128::from(most) * u128::from(own) / u128::from(all.max(own))) as u64
}

/// Removes what runs keep beyond their part that nobody trains now: of a spec that allowed more, or of another experiment.
///
/// # Errors
/// Where a run's folder cannot be read or written.
pub fn trim(root: &Root, store: &mut Store, runs: &[PlannedRun]) -> Result<()> {
    for run in runs.iter().filter(|run| run.checkpoint_bytes.is_some() && run.reason != Reason::Elsewhere) {
        let folder = root.run(&run.frozen.id);
        let keep = Keep::of(&run.frozen.config.checkpoint, run.checkpoint_bytes);
        let kept: u64 = checkpoints::list(&folder)?.iter().map(checkpoints::Saved::bytes).sum();
        if run.checkpoint_bytes.is_none_or(|most| kept <= most) || lease::is_held(&folder.lock())? {
            continue;
        }
        // Who has taken it meanwhile keeps to its own part.
        let Some(_lock) = Lock::try_take(&folder.lock())? else { continue };
        let surplus = checkpoint::surplus(&folder, keep)?;
        let removed: Vec<String> = surplus.iter().map(checkpoints::Saved::relative).collect();
        store.note(&run.frozen.id, &Note::Dropped { at: clock::now(), checkpoints: removed.clone() })?;
        checkpoint::remove_said(&folder, &Checkpointed { removed, ..Checkpointed::default() }, &|| Ok::<_, Error>(()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_go_by_size_and_never_exceed_the_whole() {
        assert_eq!(part(100, 10, 50), 20);
        let sizes = [7, 11, 13, 1];
        let all = sizes.iter().sum();
        for most in [32, 33, 1000, u64::MAX] {
            let parts: Vec<u64> = sizes.iter().map(|&own| part(most, own, all)).collect();
            assert!(parts.iter().map(|&part| u128::from(part)).sum::<u128>() <= u128::from(most), "{parts:?}");
            assert!(parts.iter().zip(sizes).all(|(&part, own)| part >= own), "{parts:?}");
        }
    }
}
