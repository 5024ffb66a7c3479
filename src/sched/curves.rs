//! What the store knows of the metric by which the runs of a sweep are compared, and what follows from it before anything is
//! started.

use std::collections::BTreeMap;

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
fn values(store: &Store, run: &RunId, metric: &str) -> Result<Vec<(u64, f64)>> {
    let mut values = Vec::new();
    store.each_point(run, metric, &mut |point| values.push((point.step, point.value)))?;
    Ok(values)
}

/// A metric of the runs that are being trained, each read on from where it was left: what is logged at every step is long.
pub struct Followed {
    metric: &'static str,
    known: BTreeMap<RunId, Vec<(u64, f64)>>,
}

impl Followed {
    /// That metric, of which nothing was read yet.
    pub fn new(metric: &'static str) -> Self {
        Self { metric, known: BTreeMap::new() }
    }

    /// What the store has of it by step for a run.
    pub fn read(&mut self, store: &Store, run: &RunId) -> Result<Vec<(u64, f64)>> {
        let known = self.known.entry(*run).or_default();
        let Some(&(step, value)) = known.last().filter(|(step, _)| *step > 0) else {
            *known = values(store, run, self.metric)?;
            return Ok(known.clone());
        };
        let mut further = Vec::new();
        store.each_point_after(run, self.metric, step - 1, &mut |point| further.push((point.step, point.value)))?;
        // An attempt that goes on from an earlier step does those after it again.
        match further.split_first() {
            Some((first, new)) if first.0 == step && first.1.to_bits() == value.to_bits() => known.extend(new),
            _ => *known = values(store, run, self.metric)?,
        }
        Ok(known.clone())
    }

    /// Forgets what was read of a run.
    pub fn leave(&mut self, run: &RunId) {
        self.known.remove(run);
    }
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
        pruner.set_fate(at, fate);
    }
    // Who is lifted is one more for others to wait for, who has failed for good one less.
    loop {
        let mut is_news = false;
        for (at, verdict) in pruner.verdicts().into_iter().enumerate() {
            match (&mut runs[at].reason, verdict) {
                (Reason::Paused { goes_on, .. }, Verdict::GoesOn) => {
                    *goes_on = true;
                    is_news |= pruner.set_fate(at, Fate::Moving);
                }
                (Reason::FailedBefore { .. }, Verdict::Pauses(_)) => is_news |= pruner.set_fate(at, Fate::Out),
                _ => {}
            }
        }
        if !is_news {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{folders::Root, lease::Fence},
        event::{Event, Expansion, Ready, Sink, Started, Step},
        exec::events::EventLog,
        spec::{
            config::RunConfig,
            identity::{FORMAT, FrozenRun},
        },
    };

    #[test]
    fn a_metric_is_read_on_and_anew_where_steps_are_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let frozen = FrozenRun {
            format: FORMAT,
            id: RunId([7; 32]),
            corpus_hash: String::new(),
            vocab_size: 65,
            config: RunConfig::default(),
            imported: None,
        };
        let mut store = Store::open(&root).unwrap();
        let expansion = Expansion { at: 1, axes: vec![], members: vec![frozen.id], spec: String::new() };
        store.register("tiny", &expansion, std::slice::from_ref(&frozen)).unwrap();
        let folder = root.run(&frozen.id);
        let write = |attempt: u32, from_step: u64, steps: std::ops::RangeInclusive<u64>, loss: f64| {
            std::fs::create_dir_all(folder.attempt(attempt)).unwrap();
            let nobody = &mut |_: &Event| ();
            let mut events = EventLog::create(folder.events(attempt), Fence::default(), nobody).unwrap();
            events.emit(&Event::Started(Started { attempt, ..Started::default() }), false).unwrap();
            events.emit(&Event::Ready(Ready { from_step, ..Ready::default() }), false).unwrap();
            for step in steps {
                events.emit(&Event::Step(Step { step, loss, ..Step::default() }), true).unwrap();
            }
        };
        let mut followed = Followed::new("train/loss");
        let mut read = |store: &mut Store| {
            store.ingest(&frozen.id).unwrap();
            followed.read(store, &frozen.id).unwrap()
        };
        assert_eq!(read(&mut store), []);
        write(1, 0, 1..=3, 4.0);
        assert_eq!(read(&mut store), [(1, 4.0), (2, 4.0), (3, 4.0)]);
        write(2, 1, 2..=2, 3.0);
        assert_eq!(read(&mut store), [(1, 4.0), (2, 3.0)]);
        write(3, 2, 3..=5, 2.0);
        assert_eq!(read(&mut store), [(1, 4.0), (2, 3.0), (3, 2.0), (4, 2.0), (5, 2.0)]);
        assert_eq!(read(&mut store).len(), 5);
    }
}
