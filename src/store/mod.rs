//! The SQLite index over the folders of runs. The folder is the truth, the database can be made again from it.

pub mod rows;

pub use rows::{Artifact, AttemptRow, ExperimentRow, RunRow};
