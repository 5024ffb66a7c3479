//! From the points of a sweep to trained runs: what is to be done and why ([`plan`]), in which order and what then
//! (`queue`, pure), and the one loop that does it ([`dispatch`]).

mod dispatch;
mod plan;
mod queue;
mod signals;

pub use dispatch::{Options, dispatch, dispatch_on};
pub use plan::{Plan, PlannedRun, Reason, plan, planned};

use crate::base::{Exit, RunId};

/// What became of the runs of a sweep, each list in the order of the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Done, now or before.
    pub done: Vec<RunId>,
    /// Failed; the others went on.
    pub failed: Vec<RunId>,
    /// Begun and stopped: they continue from their last checkpoint.
    pub interrupted: Vec<RunId>,
    /// Not begun.
    pub queued: Vec<RunId>,
    /// Still trained by another process when a signal ended our waiting for it.
    pub elsewhere: Vec<RunId>,
}

impl Summary {
    /// The exit code: 130 where something is left to do, else 4 where something failed, else 0.
    pub fn exit(&self) -> Exit {
        let left = [&self.interrupted, &self.queued, &self.elsewhere];
        match left.iter().all(|runs| runs.is_empty()) {
            false => Exit::Interrupted,
            true if self.failed.is_empty() => Exit::Done,
            true => Exit::RunFailed,
        }
    }
}
