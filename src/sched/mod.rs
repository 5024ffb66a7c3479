//! From the points of a sweep to trained runs: what is to be done and why ([`plan`]), in which order and what then
//! (`queue`, pure), which runs pause since they fall behind (`prune`, pure), and the one loop that does it ([`dispatch`]).

mod attempts;
pub mod budget;
mod cancels;
mod curves;
mod dispatch;
mod every;
mod here;
mod misfit;
mod needs;
mod outlook;
mod plan;
mod planner;
mod prune;
mod queue;
pub mod signals;
mod task;

pub use dispatch::{Options, Outside, dispatch, dispatch_on};
pub use outlook::{Estimate, Outlook, Takes, is_to_do};
pub use plan::{Plan, PlannedRun, Reason, plan, plan_only, planned};

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
    /// Fallen behind the others, as the sweep's rule has it.
    pub paused: Vec<RunId>,
    /// Left out on purpose.
    pub skipped: Vec<RunId>,
    /// Whether what is left to do is left because of a failure, of a run or of a device, and not because somebody asked.
    pub by_failure: bool,
}

impl Summary {
    /// The exit code: 130 where something was left to do because somebody asked for that, else 4 where something failed
    /// or was left out, else 0. That runs pause which the sweep's own rule stopped is no failure.
    pub fn exit(&self) -> Exit {
        let has_any = |lists: &[&Vec<RunId>]| lists.iter().any(|runs| !runs.is_empty());
        match has_any(&[&self.interrupted, &self.queued, &self.elsewhere]) {
            true if self.by_failure => Exit::RunFailed,
            true => Exit::Interrupted,
            false if has_any(&[&self.failed, &self.skipped]) => Exit::RunFailed,
            false => Exit::Done,
        }
    }
}
