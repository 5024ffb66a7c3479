//! What the store knows of the metric by which the runs of a sweep are compared, and what follows from it before anything is
//! started.

use super::{
    PlannedRun, Reason,
    prune::{Fate, Pruner, Verdict},
};
use crate::{
    base::{Result, RunId},
    spec::search::Search,
    store::Store,
};

/// What stops runs that fall behind, with what the store knows of them.
pub fn pruner(runs: &[PlannedRun], store: &Store, search: &Search) -> Result<Pruner> {
    let mut pruner = Pruner::new(search.clone(), runs.iter().map(|run| run.frozen.config.train.steps));
    for (at, run) in runs.iter().enumerate() {
        pruner.learn(at, &values(store, &run.frozen.id, search.metric)?);
    }
    Ok(pruner)
}

/// A metric of a run by step.
pub fn values(store: &Store, run: &RunId, metric: &str) -> Result<Vec<(u64, f64)>> {
    let mut values = Vec::new();
    store.each_point(run, metric, &mut |point| values.push((point.step, point.value)))?;
    Ok(values)
}

/// Marks the paused runs that stay so as things stand: whom nothing lifts before another run has come further.
pub fn keep_paused(runs: &mut [PlannedRun], store: &Store, search: &Search) -> Result<()> {
    if !runs.iter().any(|run| matches!(run.reason, Reason::Paused { .. })) {
        return Ok(());
    }
    let mut pruner = pruner(runs, store, search)?;
    for (at, run) in runs.iter_mut().enumerate() {
        let fate = match &mut run.reason {
            Reason::Done => Fate::Done,
            Reason::Skipped { .. } => Fate::Out,
            Reason::Paused { goes_on, .. } => {
                *goes_on = false;
                Fate::Paused
            }
            _ => Fate::Moving,
        };
        pruner.is(at, fate);
    }
    // Who is lifted is one more for others to wait for.
    loop {
        let mut is_news = false;
        for (at, verdict) in pruner.verdicts().into_iter().enumerate() {
            if let (Reason::Paused { goes_on, .. }, Verdict::GoesOn) = (&mut runs[at].reason, verdict) {
                *goes_on = true;
                is_news |= pruner.is(at, Fate::Moving);
            }
        }
        if !is_news {
            return Ok(());
        }
    }
}
