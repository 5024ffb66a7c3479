//! What other programs read of a store: its runs and their metrics as tables (CSV, JSON lines, Parquet), or as TensorBoard's
//! event files. Models for other programs are [`crate::model::export`].
//!
//! - `folder`: the folder that is written, whole or not at all, and what may be replaced
//! - `tables`: the two tables, whatever they are written as; `csv`, `jsonl`, `parquet`: how
//! - `tensorboard`: a folder of event files
//!
//! The bytes follow from the store and the choice of runs alone, never from the clock or the machine. Points go straight
//! from the index into the files: memory does not grow with how many there are.

mod csv;
mod folder;
mod jsonl;
mod parquet;
mod tables;
mod tensorboard;

use std::path::Path;

use self::folder::Folder;
use crate::{
    base::{Result, progress::Progress},
    store::{RunRow, Store},
};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Two tables as CSV.
    Csv,
    /// Two tables as JSON, a line for each row.
    Jsonl,
    /// Two tables as Parquet.
    Parquet,
    /// Event files for TensorBoard, a folder for each run.
    TensorBoard,
}

impl Format {
    /// What it is called, on the command line and in what is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::TensorBoard => "tensorboard",
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Runs.
    pub runs: usize,
    /// Values of metrics.
    pub points: u64,
}

/// Writes runs into a folder, which is there in full or not at all. With `force`, what an earlier export wrote there is
/// replaced.
///
/// # Errors
/// [`Exit::Usage`](crate::base::Exit::Usage) where the folder holds anything else, [`Exit::Store`](crate::base::Exit::Store)
/// where it cannot be written or the index not be read.
pub fn write(store: &Store, rows: &[RunRow], format: Format, to: &Path, force: bool) -> Result<Written> {
    let mut folder = Folder::begin(to, format, force)?;
    let meter = Meter::new(rows, &format!("exporting to {}", to.display()));
    let written = match format {
        Format::TensorBoard => tensorboard::write(store, rows, &mut folder, &meter)?,
        Format::Csv => tables::write::<csv::Csv>(store, rows, &mut folder, &meter)?,
        Format::Jsonl => tables::write::<jsonl::Jsonl>(store, rows, &mut folder, &meter)?,
        Format::Parquet => tables::write::<parquet::Parquet>(store, rows, &mut folder, &meter)?,
    };
    folder.finish()?;
    Ok(written)
}

/// How far an export is, by the steps of its runs.
struct Meter {
    progress: Progress,
    /// The steps of all runs before each, and of all.
    before: Vec<u64>,
}

impl Meter {
    fn new(rows: &[RunRow], what: &str) -> Self {
        let mut before = vec![0];
        for row in rows {
            before.push(before[before.len() - 1] + row.step + 1);
        }
        Self { progress: Progress::of(what), before }
    }

    /// So much of the `run`-th is done, of 1.
    fn at(&self, run: usize, share: f64) {
        let [from, to] = [self.before[run], self.before[run + 1]];
        let done = from + ((to - from) as f64 * share) as u64;
        self.progress.at(done, self.before[self.before.len() - 1]);
    }
}
