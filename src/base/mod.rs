//! What every layer may use: errors and exit codes, atomic files, locks and leases and waiting for them, what others append
//! to files, random streams, the clock, progress and provenance, the machine and the control group on it, run ids, numbers
//! that survive JSON, lines of CSV, work that threads share. Nothing here knows what an experiment is.

pub mod aside;
pub mod cgroup;
pub mod checkpoints;
pub mod clock;
pub mod csv;
pub mod error;
pub mod files;
pub mod folders;
pub mod ids;
pub mod lease;
pub mod lock;
pub mod machine;
pub mod manifest;
pub mod num;
pub mod parallel;
pub mod pickle;
pub mod progress;
pub mod provenance;
pub mod rng;
pub mod tail;
pub mod visible;
pub mod wait;

pub use error::{Context, Error, Exit, Result};
pub use ids::RunId;
