//! Slots: permission to run on a device. They are lock files of the root, one per CPU core and one per GPU, so that all
//! `exp` processes of one root together never put more threads on the CPU than it has cores, nor two runs on one GPU.
//! The kernel frees a lock when its holder dies.
//!
//! Whoever takes slots of a kind holds the kind's turn while doing so; whoever found none keeps the turn until it gets
//! some. So two sweeps on one machine alternate, and nobody waits for ever.

use std::{collections::BTreeMap, path::PathBuf};

use super::device::{cpus, kind};
use crate::base::{Result, files::Lock, folders::Root};

/// Permission to run on one device, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    /// `cpu`, `cuda:N`, `metal`.
    pub device: String,
    /// CPU threads that may compute.
    pub threads: usize,
    _locks: Vec<Lock>,
}

impl Slot {
    /// A slot that no lock stands behind: for executors and tests that share out devices by other means.
    pub fn unlocked(device: &str, threads: usize) -> Self {
        Self { device: device.into(), threads, _locks: Vec::new() }
    }
}

/// The slots of one root.
#[derive(Debug)]
pub struct Slots {
    folder: PathBuf,
    cpus: Vec<usize>,
    turns: BTreeMap<String, Lock>,
}

impl Slots {
    /// The slots of `root` on this machine; nothing is taken.
    pub fn new(root: &Root) -> Self {
        Self { folder: root.slots(), cpus: cpus(), turns: BTreeMap::new() }
    }

    /// Takes a slot: on a CPU as many cores as are free, at most `threads`; on another device the whole of it. `None`
    /// where all is taken or it is another process's turn; then ask again soon, or [`pass`](Self::pass).
    pub fn take(&mut self, device: &str, threads: usize) -> Result<Option<Slot>> {
        let turn = match self.turns.remove(device) {
            Some(turn) => turn,
            None => match Lock::try_take(&self.lock(device, "turn"))? {
                Some(turn) => turn,
                None => return Ok(None),
            },
        };
        let locks = match kind(device) {
            "cpu" => self.free_cores(threads)?,
            _ => Lock::try_take(&self.lock(device, "lock"))?.into_iter().collect(),
        };
        if locks.is_empty() {
            self.turns.insert(device.into(), turn);
            return Ok(None);
        }
        let threads = if kind(device) == "cpu" { locks.len() } else { threads };
        Ok(Some(Slot { device: device.into(), threads, _locks: locks }))
    }

    /// Lets others take their turn: call it when no run waits for a slot any more.
    pub fn pass(&mut self) {
        self.turns.clear();
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
