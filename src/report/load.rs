//! Fills a frame from a store: the one place where reports meet the index. Of the curves it reads those that a plot
//! needs and no others, and of very long ones no more than is seen.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    frame::{EXPERIMENT, Frame, Run},
    thin::{self, Steps},
};
use crate::{
    base::{Result, RunId},
    store::{Point, RunRow, Store},
};

/// The curves whose every spike is to be seen: of losses, and of the norm of gradients.
const CURVES: [&str; 4] = ["val/loss", "train/loss", "eval/train_loss", "grad_norm"];

fn curves(run: &mut Run) -> [&mut Vec<Point>; 4] {
    [&mut run.val, &mut run.train, &mut run.eval_train, &mut run.grad_norm]
}

/// The rows of an experiment, or of several, between which the experiment is an axis. A run of several is there for each.
///
/// # Errors
/// As [`Store::experiment`] for an unknown one; where the index cannot be read.
pub fn frame(store: &Store, experiments: &[&str]) -> Result<Frame> {
    let mut axes: Vec<String> = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut absent = 0;
    let is_comparison = experiments.len() > 1;
    let rows = experiments.iter().map(|name| store.runs(Some(name))).collect::<Result<Vec<_>>>()?;
    let digits = store.shortest(&rows.iter().flatten().map(|r| r.id).collect::<Vec<_>>())?;
    for (name, rows) in experiments.iter().zip(rows) {
        let experiment = store.experiment(name)?;
        absent += store.members(&experiment.name)?.len().saturating_sub(rows.len());
        axes.extend(experiment.axes.into_iter().filter(|path| !axes.contains(path)).collect::<Vec<_>>());
        let thinned = thinned(store, &rows)?;
        for run in store.each(&rows, |store, row| load(store, row.clone(), digits, &thinned))? {
            runs.push(Run { experiment: is_comparison.then(|| (*name).to_owned()), ..run });
        }
    }
    axes.extend(is_comparison.then(|| EXPERIMENT.to_owned()));
    Ok(Frame { absent, ..Frame::new(&experiments.join(" and "), &axes, runs) })
}

/// A run with its curves.
fn load(store: &Store, row: RunRow, digits: usize, thinned: &Thinned) -> Result<Run> {
    let id = row.id;
    let name = id.to_string()[..digits].to_owned();
    let mut run = Run { attempts: store.attempts(&id)?, samples: store.samples(&id)?, ..Run::new(row, name) };
    match thinned.get(&id) {
        Some(steps) => load_some(store, steps, &mut run)?,
        None => {
            for (name, curve) in CURVES.into_iter().zip(curves(&mut run)) {
                *curve = store.curve(&id, name)?;
            }
            run.step_ms = store.curve(&id, "step_ms")?;
        }
    }
    Ok(run)
}

/// The steps that are read of runs of which not all are.
type Thinned = BTreeMap<RunId, Arc<Vec<u64>>>;

/// The steps that are read of long runs. Those that differ in their seed alone are averaged, and share them.
fn thinned(store: &Store, rows: &[RunRow]) -> Result<Thinned> {
    let mut settings: BTreeMap<String, Vec<&RunRow>> = BTreeMap::new();
    for row in rows {
        let mut config = row.config.clone();
        config.train.seed = 0;
        settings.entry(format!("{config:?}")).or_default().push(row);
    }
    let mut thinned = BTreeMap::new();
    for runs in settings.into_values() {
        let last = runs.iter().map(|row| row.step).max().unwrap_or(0);
        if last <= thin::MOST {
            continue;
        }
        let mut steps = Steps::of(last);
        for (row, name) in runs.iter().flat_map(|row| CURVES.map(|name| (row, name))) {
            store.each_point(&row.id, name, &mut |point| steps.see(point))?;
        }
        let kept = Arc::new(steps.kept().into_iter().collect::<Vec<u64>>());
        thinned.extend(runs.iter().map(|row| (row.id, kept.clone())));
    }
    Ok(thinned)
}

/// Reads the curves of a run at some steps, and every n-th step time.
fn load_some(store: &Store, steps: &[u64], run: &mut Run) -> Result<()> {
    let id = run.row.id;
    let is_kept = |point: &Point| steps.binary_search(&point.step).is_ok();
    for (name, curve) in CURVES.into_iter().zip(curves(run)) {
        store.each_point(&id, name, &mut |point| curve.extend(Some(point).filter(is_kept)))?;
    }
    let stride = thin::stride(run.row.step);
    let (mut seconds, mut attempt, mut nth) = (0.0, 0, 0);
    run.seconds.push(Point { step: 0, value: 0.0, attempt: 0 });
    store.each_point(&id, "step_ms", &mut |point| {
        seconds += point.value / 1e3;
        if is_kept(&point) {
            run.seconds.push(Point { value: seconds, ..point });
        }
        if point.attempt != attempt {
            (attempt, nth) = (point.attempt, 0); // of each, so that none is without
        }
        if u64::is_multiple_of(nth, stride) {
            run.step_ms.push(point);
        }
        nth += 1;
    })
}
