//! Slots: permission to run on a device. They are lock files of the root, one per CPU core and one per GPU of a machine,
//! so that all `exp` processes of one root together never put more threads on its CPU than it has cores, nor two runs on
//! one GPU. The kernel frees a lock when its holders are gone: the scheduler that took it and the worker that it started
//! there, which goes on for a while after a scheduler that was killed.
//!
//! Whoever takes slots of a kind holds the kind's turn while doing so; whoever found none keeps the turn until it gets
//! some. So two sweeps on one machine alternate, and nobody waits for ever: not for one that has been stopped while it
//! was waiting either, since a turn that is not asked for again within five seconds counts as passed.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::device::{cpus, kind};
use crate::base::{
    Result,
    clock::{self, Millis},
    files::Lock,
    folders::Root,
    machine,
};

/// How long a turn is waited for whose holder does not ask for its slots.
const PATIENCE: Duration = Duration::from_secs(5);

/// Permission to run on one device, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    /// `cpu`, `cuda:N`, `metal`.
    pub device: String,
    /// CPU threads that may compute.
    pub threads: usize,
    locks: Vec<Lock>,
}

impl Slot {
    /// A slot that no lock stands behind: for executors and tests that share out devices by other means.
    pub fn unlocked(device: &str, threads: usize) -> Self {
        Self { device: device.into(), threads, locks: Vec::new() }
    }

    /// Whether programs that are started now hold the slot as well, until they end.
    pub(super) fn inherit(&self, inherit: bool) -> io::Result<()> {
        self.locks.iter().try_for_each(|lock| lock.inherit(inherit))
    }
}

/// The slots of one root.
#[derive(Debug)]
pub struct Slots {
    folder: PathBuf,
    cpus: Vec<usize>,
    turns: BTreeMap<String, Lock>,
    /// The turns of others: when each was last asked for, and since when we have seen no later time than that.
    waits: BTreeMap<String, (Millis, Instant)>,
}

impl Slots {
    /// The slots of `root` on this machine; nothing is taken.
    pub fn new(root: &Root) -> Self {
        Self { folder: root.slots(&machine::host()), cpus: cpus(), turns: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// Takes a slot: on a CPU as many cores as are free, at most `threads`; on another device the whole of it. `None`
    /// where all is taken or it is another process's turn; then ask again soon, or [`pass`](Self::pass).
    pub fn take(&mut self, device: &str, threads: usize) -> Result<Option<Slot>> {
        let path = self.lock(device, "turn");
        let turn = match self.turns.remove(device) {
            Some(turn) => Some(turn),
            None => Lock::try_take(&path)?,
        };
        match &turn {
            // Shows those who wait behind us that we are still waiting. Where it cannot be shown, they come first.
            Some(turn) => drop(turn.touch()),
            None if !self.is_passed(device, &path) => return Ok(None),
            None => {}
        }
        let locks = match kind(device) {
            "cpu" => self.free_cores(threads)?,
            _ => Lock::try_take(&self.lock(device, "lock"))?.into_iter().collect(),
        };
        if locks.is_empty() {
            self.turns.extend(turn.map(|turn| (device.into(), turn)));
            return Ok(None);
        }
        let threads = if kind(device) == "cpu" { locks.len() } else { threads };
        Ok(Some(Slot { device: device.into(), threads, locks }))
    }

    /// Lets others take their turn: call it when no run waits for a slot any more.
    pub fn pass(&mut self) {
        self.turns.clear();
    }

    /// Whether the turn of another process has not been asked for since we first saw it so, long enough ago.
    fn is_passed(&mut self, device: &str, path: &Path) -> bool {
        let (asked, now) = (clock::modified(path), Instant::now());
        let (last, since) = self.waits.entry(device.into()).or_insert((asked, now));
        if *last != asked {
            (*last, *since) = (asked, now);
        }
        now - *since >= PATIENCE
    }

    fn free_cores(&self, most: usize) -> Result<Vec<Lock>> {
        let mut locks = Vec::new();
        for cpu in &self.cpus {
            if locks.len() == most {
                break;
            }
            locks.extend(Lock::try_take(&self.lock(&format!("cpu-{cpu}"), "lock"))?);
        }
        Ok(locks)
    }

    fn lock(&self, name: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", name.replace(':', "-")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locks exclude between open files, so two `Slots` in one process stand for two processes.
    fn two(root: &Root, cores: usize) -> (Slots, Slots) {
        let slots = || Slots { cpus: (0..cores).collect(), ..Slots::new(root) };
        (slots(), slots())
    }

    #[test]
    fn two_sweeps_share_the_cores_and_never_take_more() {
        let dir = tempfile::tempdir().unwrap();
        let (mut a, mut b) = two(&Root::new(dir.path()), 3);
        let first = a.take("cpu", 2).unwrap().unwrap();
        let second = b.take("cpu", 2).unwrap().unwrap();
        assert_eq!((first.threads, second.threads), (2, 1), "what is free, rather than nothing");
        assert!(a.take("cpu", 1).unwrap().is_none());
        drop(second);
        assert_eq!(a.take("cpu", 5).unwrap().unwrap().threads, 1);
    }

    #[test]
    fn who_waited_longer_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (mut a, mut b) = two(&Root::new(dir.path()), 1);
        let slot = a.take("cpu", 1).unwrap().unwrap();
        assert!(b.take("cpu", 1).unwrap().is_none());
        drop(slot);
        assert!(a.take("cpu", 1).unwrap().is_none(), "it is the other's turn");
        let slot = b.take("cpu", 1).unwrap().unwrap();
        assert!(a.take("cpu", 1).unwrap().is_none());
        a.pass();
        drop(slot);
        assert!(b.take("cpu", 1).unwrap().is_some(), "who passes does not stand in the way");
    }

    #[test]
    fn a_turn_whose_holder_does_not_ask_counts_as_passed() {
        let dir = tempfile::tempdir().unwrap();
        let (mut a, mut b) = two(&Root::new(dir.path()), 1);
        let slot = a.take("cpu", 1).unwrap().unwrap();
        assert!(b.take("cpu", 1).unwrap().is_none());
        drop(slot);
        let mut after = |seconds: u64| {
            for (_, since) in a.waits.values_mut() {
                *since -= Duration::from_secs(seconds);
            }
            a.take("cpu", 1).unwrap()
        };
        assert!(after(0).is_none() && after(4).is_none());
        std::thread::sleep(Duration::from_millis(5)); // the time of a file is told in ms here
        b.turns["cpu"].touch().unwrap();
        assert!(after(4).is_none(), "it asked again meanwhile");
        let slot = after(5).expect("it has been stopped");
        assert!(b.take("cpu", 1).unwrap().is_none());
        drop(slot);
        assert!(b.take("cpu", 1).unwrap().is_some(), "it still has its turn when it goes on");
    }

    #[test]
    fn machines_that_share_a_root_do_not_share_cores() {
        let root = Root::new("root");
        let names: Vec<PathBuf> = ["a", "b", "../c"].iter().map(|host| root.slots(host)).collect();
        assert_eq!(names, ["root/runs/slots/a", "root/runs/slots/b", "root/runs/slots/-c"].map(PathBuf::from));
    }

    #[test]
    fn a_gpu_has_one_slot_and_is_no_business_of_the_cpu() {
        let dir = tempfile::tempdir().unwrap();
        let (mut a, mut b) = two(&Root::new(dir.path()), 1);
        let held = a.take("cuda:0", 1).unwrap().unwrap();
        assert!(b.take("cuda:0", 1).unwrap().is_none());
        assert!(b.take("cuda:1", 1).unwrap().is_some());
        assert!(b.take("cpu", 1).unwrap().is_some());
        drop(held);
        assert!(b.take("cuda:0", 1).unwrap().is_some());
    }
}
