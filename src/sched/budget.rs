//! What the checkpoints of an experiment may take of the disk (`checkpoint.max_bytes`), shared out among its runs.
//!
//! Each run gets a part of it after the size of its checkpoints, so that all keep equally many, and its worker keeps to
//! that alone. So runs need not know of each other while they train, and what one keeps does not depend on which of them
//! came first.

use super::{PlannedRun, Reason};
use crate::{
    base::{Error, Exit, Result, checkpoints, clock, folders::Root},
    event::Note,
    spec::{Sweep, identity::FrozenRun},
    store::{RunRow, Store, remove::alone},
    train::checkpoint::{self, Keep},
};

/// Bytes of a checkpoint of a run.
fn size(frozen: &FrozenRun) -> u64 {
    checkpoint::most_bytes(&frozen.config, frozen.vocab_size)
}

/// Gives each run of a plan its part; `members` counts those of the experiment as well that are not planned now, each of
/// which is taken to be as large as the largest.
///
/// # Errors
/// [`Exit::Spec`], at the leaf, where not every run could keep its newest checkpoint and its best.
pub fn share_out(sweep: &Sweep, runs: &mut [PlannedRun], members: usize) -> Result<()> {
    const LEAF: &str = "checkpoint.max_bytes";
    if runs.iter().all(|run| run.frozen.config.checkpoint.max_bytes.is_none()) {
        return Ok(());
    }
    let sizes: Vec<u64> = runs.iter().map(|run| size(&run.frozen)).collect();
    let others = members.saturating_sub(runs.len()) as u64;
    let all = sizes.iter().sum::<u64>() + others * sizes.iter().max().copied().unwrap_or(0);
    for (run, size) in runs.iter_mut().zip(sizes) {
        let keep = &run.frozen.config.checkpoint;
        let Some(most) = keep.max_bytes else { continue };
        let least = all * Keep::least(keep);
        if least > most {
            let what = if keep.keep_best > 0 { "the newest checkpoint and the best" } else { "the newest checkpoint" };
            let why = format!("to keep {what} of each of its {members} runs takes up to {least} bytes");
            return Err(sweep.error_at(
                0,
                LEAF,
                why,
                Some(&format!("allow {}, or leave `max_bytes` out", enough(least))),
            ));
        }
        run.checkpoint_bytes = Some(part(most, size, all));
    }
    Ok(())
}

/// The part of a stored run, among the runs of the experiment that it belongs to.
///
/// # Errors
/// [`Exit::Store`] where the index or a run's config cannot be read.
pub fn part_of(root: &Root, store: &Store, row: &RunRow, frozen: &FrozenRun) -> Result<Option<u64>> {
    let (Some(most), Some(experiment)) = (frozen.config.checkpoint.max_bytes, row.experiments.first()) else {
        return Ok(None);
    };
    let mut all = 0;
    for other in store.runs(Some(experiment))? {
        all += size(&FrozenRun::read(&root.run(&other.id).config())?);
    }
    Ok(Some(part(most, size(frozen), all)))
}

/// A round number that is enough, though a checkpoint holds the limit as well and grows with its digits.
fn enough(least: u64) -> u64 {
    let unit = 10u64.saturating_pow(least.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (least + least / 100).div_ceil(unit).saturating_mul(unit)
}

fn part(most: u64, own: u64, all: u64) -> u64 {
    (u128::from(most) * u128::from(own) / u128::from(all.max(own))) as u64
}

/// Removes what runs keep beyond their part that nobody trains now: of a spec that allowed more, or of another experiment.
/// Returns how many checkpoints that were.
///
/// # Errors
/// Where a run's folder cannot be read or written.
pub fn trim(root: &Root, store: &mut Store, runs: &[PlannedRun]) -> Result<usize> {
    let mut count = 0;
    for run in runs.iter().filter(|run| run.checkpoint_bytes.is_some() && run.reason != Reason::Elsewhere) {
        let folder = root.run(&run.frozen.id);
        let keep = Keep::of(&run.frozen.config.checkpoint, run.checkpoint_bytes);
        // Who has taken it meanwhile keeps to its own part, and so does a worker of another machine.
        let Some(lock) = alone(&folder)? else { continue };
        let surplus = checkpoint::surplus(&folder, keep)?;
        if surplus.is_empty() {
            continue;
        }
        let may_write = || match lock.stands() {
            Ok(true) => Ok(()),
            _ => Err(Error::new(
                Exit::LeaseLost,
                format!("trimming the run {}", run.frozen.id.short()),
                "it was taken over",
            )),
        };
        let said: Vec<String> = surplus.iter().map(checkpoints::Saved::relative).collect();
        may_write()?;
        store.note(&run.frozen.id, &Note::Removed { at: clock::now(), checkpoints: said.clone() })?;
        checkpoint::point(&folder, &surplus)?;
        checkpoint::remove_said(&folder, &said, keep, &may_write)?;
        count += said.len();
    }
    Ok(count)
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
