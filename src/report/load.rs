//! Fills a frame from a store: the one place where reports meet the index. Of the curves it reads those that a plot
//! needs and no others.

use super::frame::{Frame, Run};
use crate::{base::Result, store::Store};

/// The rows of an experiment.
///
/// # Errors
/// As [`Store::experiment`] for an unknown one; where the index cannot be read.
pub fn frame(store: &Store, experiment: &str) -> Result<Frame> {
    let known = store.experiment(experiment)?;
    let rows = store.runs(Some(experiment))?;
    let digits = store.shortest(&rows.iter().map(|r| r.id).collect::<Vec<_>>())?;
    let load = |row: crate::store::RunRow| -> Result<Run> {
        let id = row.id;
        let name = id.to_string()[..digits].to_owned();
        Ok(Run {
            attempts: store.attempts(&id)?,
            val: store.curve(&id, "val/loss")?,
            train: store.curve(&id, "train/loss")?,
            step_ms: store.curve(&id, "step_ms")?,
            samples: store.samples(&id)?,
            ..Run::new(row, name)
        })
    };
    let runs = rows.into_iter().map(load).collect::<Result<_>>()?;
    Ok(Frame::new(experiment, &known.axes, runs))
}
