//! Devices as the queue sees them: how they are shared out among runs, and when one is trusted no more.

use std::time::Duration;

use super::Task;
use crate::{base::RunId, exec::device::kind};

/// A run that fails within this time of its start may have failed because of its device.
pub const AT_ONCE: Duration = Duration::from_secs(10);

/// So many failures in a row, each at once, make a device suspect.
const IN_A_ROW: usize = 3;

/// A part of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The number of the place.
    pub place: usize,
    /// Threads that compute there.
    pub threads: usize,
}

/// A device, and how it is cut up.
#[derive(Debug)]
pub struct Place {
    /// `cpu`, `cuda:1`.
    pub device: String,
    /// Threads that may compute on it at once.
    pub threads: usize,
    /// Runs that may be on it at once.
    pub jobs: usize,
    /// Other sweeps hold all of it, as far as we know; asked again at the next tick.
    pub busy: bool,
    /// Nothing is started on it any more.
    pub aside: bool,
    /// The runs that failed on it at once, since one did well.
    failed: Vec<RunId>,
}

impl Place {
    /// A device for one run at a time.
    pub fn new(device: &str, threads: usize) -> Self {
        Self { device: device.into(), threads, jobs: 1, busy: false, aside: false, failed: Vec::new() }
    }

    /// Whether it is what a run asks for.
    pub fn fits(&self, task: &Task) -> bool {
        task.device == self.device || task.device == kind(&self.device)
    }

    /// Threads for the next of `waiting` runs: an equal part of the device; for the last runs an equal part of what is
    /// idle, the earlier and longer ones first where it does not come out even.
    pub fn portion(&self, load: &Load, waiting: usize) -> usize {
        let (free, open) = (self.threads - load.threads, self.jobs - load.jobs);
        let idle = if waiting <= open { free.div_ceil(waiting) } else { 0 };
        idle.max(self.threads / self.jobs).min(free)
    }

    /// Whether a run can be started on it, with that load.
    pub fn has_room(&self, load: &Load) -> bool {
        !self.busy && !self.aside && load.jobs < self.jobs && load.threads < self.threads
    }

    /// A run did well on it, so that what failed before is no sign of a device that is broken.
    pub fn did_well(&mut self) {
        self.failed.clear();
    }

    /// A run failed on it at once. Sets it aside, and returns `true`, where that was one too many: several in a row, and
    /// of more than one run, since a single one may be broken itself. Never the CPU: we would not be here to tell if
    /// that were broken.
    pub fn failed_at_once(&mut self, run: RunId) -> bool {
        self.failed.push(run);
        let several = self.failed.iter().any(|other| *other != run);
        let condemned = !self.aside && self.failed.len() >= IN_A_ROW && several && self.device != "cpu";
        self.aside |= condemned;
        condemned
    }
}

/// What of a place is in use.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Threads.
    pub threads: usize,
    /// Runs.
    pub jobs: usize,
}
