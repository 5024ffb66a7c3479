//! What the store answers with: plain data, the same for tables, JSON and reports.

use crate::{
    base::{RunId, clock::Millis},
    event::{Ready, RunState, Started},
    spec::RunConfig,
};

/// One run as the index knows it.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// Its identity.
    pub id: RunId,
    /// The experiments it belongs to, the one asked for (or the latest) first.
    pub experiments: Vec<String>,
    /// The frozen config.
    pub config: RunConfig,
    /// Where it stands. `Running` only where a worker holds the run's lock now.
    pub state: RunState,
    /// Updates done and logged; of an interrupted run, those that it goes on from.
    pub step: u64,
    /// The lowest finite validation loss, and its step.
    pub best: Option<(u64, f64)>,
    /// The validation loss of the last evaluation; may not be finite.
    pub last_val_loss: Option<f64>,
    /// Median over the logged steps of the latest attempt, the first tenth left out.
    pub tokens_per_second: Option<f64>,
    /// Attempts so far.
    pub attempts: u32,
    /// Of the latest attempt that got that far.
    pub ready: Option<Ready>,
    /// What people call it, in alphabetical order.
    pub tags: Vec<String>,
    /// When it became known, in ms since the Unix epoch.
    pub created: Millis,
}

impl RunRow {
    /// The best validation loss in bits per character.
    pub fn bits_per_char(&self) -> Option<f64> {
        Some(self.best?.1 / std::f64::consts::LN_2 / self.ready.as_ref()?.chars_per_token)
    }
}

/// One try at a run.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// Who and where.
    pub started: Started,
    /// What it found, once data and engine were ready.
    pub ready: Option<Ready>,
    /// When it ended, where it said so.
    pub ended: Option<Millis>,
    /// `done`, `failed: why`, `interrupted at step n`, `killed`, `running`.
    pub outcome: String,
    /// What it warned of.
    pub warnings: Vec<String>,
}

/// A file that a run or a report made, or that a run uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// `config`, `events`, `log`, `checkpoint`, `import`, `sample`; `corpus`, `tokenizer`, `weights`, which others may use as
    /// well; `report`.
    pub kind: String,
    /// The step it holds, where it has one.
    pub step: Option<u64>,
    /// Relative to the root; whole where it lies elsewhere.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// blake3 of its content, in hex; `None` for events and logs, which may grow as long as a worker lives.
    pub blake3: Option<String>,
}

/// An experiment: a name and the points of the last spec run under it.
#[derive(Clone, Debug)]
pub struct ExperimentRow {
    /// Its name.
    pub name: String,
    /// When its spec was last run, in ms since the Unix epoch.
    pub at: Millis,
    /// The paths of the leaves that the spec sweeps, in its order (`model.layers`, `train.lr`).
    pub axes: Vec<String>,
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Updates done.
    pub step: u64,
    /// May not be finite.
    pub value: f64,
    /// The attempt that it comes from.
    pub attempt: u32,
}

/// A metric of a run in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Values.
    pub count: u64,
    /// The last step that has one.
    pub step: u64,
    /// The value there; may not be finite.
    pub last: f64,
    /// The lowest and the highest finite one.
    pub range: Option<(f64, f64)>,
}

/// Something in the folders that the index could not take in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the root.
    pub file: String,
    /// Where the line starts that could not be read, in bytes; 0 where it is the whole file.
    pub offset: u64,
    /// Why not.
    pub why: String,
}
