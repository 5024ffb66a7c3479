//! Devices as the queue sees them: how they are shared out among runs, and when one is trusted no more.

use std::time::Duration;

use super::{Task, waits::Wait};
use crate::{
    base::RunId,
    exec::{
        device::{DeviceInfo, kind},
        slots::{PLACES, usable_memory},
    },
};

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
    /// Bytes of its memory that are set aside.
    pub bytes: u64,
}

/// A device, and how it is cut up.
#[derive(Debug)]
pub struct Place {
    /// `cpu`, `cuda:1`.
    pub device: String,
    /// Cores of a CPU; a GPU has none to share out.
    pub cores: Option<usize>,
    /// Runs that may be on it at once.
    pub jobs: usize,
    /// Bytes that runs side by side may take together, where that is a limit. A run alone may try with more.
    memory: Option<u64>,
    /// Bytes that were free when that was last looked at, where known. Only a hint: the slots know.
    pub free: Option<u64>,
    /// Others hold too much of it, as far as we know.
    pub wait: Wait,
    /// Nothing is started on it any more.
    pub aside: bool,
    /// The runs that failed on it at once, since one did well.
    failed: Vec<RunId>,
}

impl Place {
    /// A device. A CPU computes with all its cores, a run on a GPU with one thread beside it; a GPU is for one run at a time
    /// where its memory is not known.
    pub fn new(info: &DeviceInfo) -> Self {
        let (memory, cores) = (usable_memory(info), info.cores.map(|cores| cores.max(1)));
        let jobs = match (cores, memory) {
            (Some(cores), _) => cores,
            (None, Some(_)) => PLACES,
            (None, None) => 1,
        };
        let (device, free, wait) = (info.name.clone(), info.memory_free, Wait::default());
        Self { device, cores, jobs, memory, free, wait, aside: false, failed: Vec::new() }
    }

    /// Whether it is what a run asks for.
    pub fn fits(&self, task: &Task) -> bool {
        task.device == self.device || task.device == kind(&self.device)
    }

    /// Threads for the next of `waiting` runs, which needs so many bytes with each number of them: an equal part of the
    /// device; for the last runs, or for those that its memory still holds where these are fewer, an equal part of what is
    /// idle, the earlier and longer ones first where it does not come out even. Fewer where otherwise those runs would not
    /// fit beside each other, or one alone not at all.
    pub fn portion(&self, load: &Load, waiting: usize, need: impl Fn(usize) -> u64) -> usize {
        let Some(cores) = self.cores else { return 1 };
        let (free, open) = (cores - load.threads, self.jobs - load.jobs);
        let left = self.memory.map_or(u64::MAX, |memory| memory.saturating_sub(load.bytes));
        let fit = usize::try_from(left / need(1).max(1)).unwrap_or(usize::MAX).max(1);
        let next = waiting.min(fit).min(open);
        let idle = if waiting <= open || fit < open { free.div_ceil(next) } else { 0 };
        let most = idle.max(cores / self.jobs).min(free);
        let all_fit = |threads: &usize| need(*threads).saturating_mul(next as u64) <= left;
        (2..=most).rev().find(all_fit).unwrap_or(1)
    }

    /// Whether a run of that need can be started on it, with that load.
    pub fn has_room(&self, load: &Load, bytes: u64) -> bool {
        self.is_open(load) && self.has_memory(load, bytes)
    }

    /// Whether it lacks nothing but memory for a run of that need.
    pub fn lacks_memory(&self, load: &Load, bytes: u64) -> bool {
        self.is_open(load) && !self.has_memory(load, bytes)
    }

    fn is_open(&self, load: &Load) -> bool {
        let has_core = self.cores.is_none_or(|cores| load.threads < cores);
        has_core && load.jobs < self.jobs && !self.aside && !self.wait.is_paused()
    }

    fn has_memory(&self, load: &Load, bytes: u64) -> bool {
        // Who needs all that a number can say is to be alone.
        let sum = load.bytes.checked_add(bytes).filter(|&sum| sum < u64::MAX);
        load.jobs == 0 || sum.is_some_and(|sum| self.memory.is_none_or(|memory| sum <= memory))
    }

    /// How many runs of that need it takes at once.
    pub fn fit(&self, bytes: u64) -> usize {
        let by_memory = self.memory.map_or(u64::MAX, |memory| memory / bytes.max(1));
        usize::try_from(by_memory).unwrap_or(usize::MAX).clamp(1, self.jobs)
    }

    fn is_cpu(&self) -> bool {
        kind(&self.device) == "cpu"
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
        let condemned = !self.aside && self.failed.len() >= IN_A_ROW && several && !self.is_cpu();
        self.aside |= condemned;
        condemned
    }
}

/// Whether every device that a run could be on is set aside.
pub fn all_are_aside(places: &[Place], task: &Task) -> bool {
    !places.iter().any(|place| place.fits(task) && !place.aside)
}

/// What of a place is in use.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Threads.
    pub threads: usize,
    /// Runs.
    pub jobs: usize,
    /// Bytes of memory.
    pub bytes: u64,
}

impl Load {
    /// Adds what a run has.
    pub fn add(&mut self, share: Share) {
        self.threads += share.threads;
        self.jobs += 1;
        self.bytes = self.bytes.saturating_add(share.bytes);
    }
}
