//! Slots: permission to run on a device. They are lock files of the root, `<device>.<place>.lock`: a CPU has a place for
//! each core, a GPU as many as runs fit into its memory. So all `exp` processes of one root together never put more
//! threads on a CPU than it has cores, nor more runs on a device than its memory holds. The kernel frees a lock when its
//! holders are gone: the scheduler that took it and the worker that it started there, which goes on for a while after a
//! scheduler that was killed. Who is gone reserves nothing any more, whatever its file still says; nor does a worker that no
//! longer stirs, once its run is taken over.
//!
//! Each held file says which run it is held for, how many bytes are reserved for that, and how many other programs held
//! when it was taken. A run is let onto a device beside others while what is reserved, what other programs hold and what
//! it needs fit into the memory less a margin. What others hold is all that was in use when none of our runs was there,
//! and at least what is in use beyond what is reserved; so runs that have not allocated yet what is reserved for them
//! do not hide it.
//!
//! A GPU where no run is takes one that fits beside other programs; where it does not, another GPU may do, or the others
//! are waited for. One that needs more than the device ever has is started there all the same: the estimate may be wrong,
//! and a run that is too large fails by itself rather than wait for ever. A CPU where no run is takes any, since the
//! memory of other programs can be reclaimed or swapped.
//!
//! Whoever takes a slot writes its need into the file that it holds, *then* sums up what all held files say, and lets go
//! again where that is too much. Of two who do so at once, the one that sums up later sees what both wrote: both may let
//! go and come again, but never do both stay. A held file that says nothing yet counts as all of the device.
//!
//! So that nobody waits for ever, whoever takes slots of a device holds the device's turn while doing so; whoever found
//! none keeps the turn until it gets some. Two sweeps on one machine alternate, and a run that needs much is let in when
//! enough has ended. Nor is one waited for that was stopped while it had the turn: a turn that is not asked for again
//! within five seconds counts as passed. Turns are for fairness alone; where two of them overlap, the sum decides.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::device::{DeviceInfo, cpus, kind};
use crate::base::{
    Context, Exit, Result, RunId,
    clock::{self, Millis},
    files::Lock,
    folders::Root,
    machine,
};

/// Runs that may be on one GPU at once, however little they need.
pub const PLACES: usize = 64;

/// How long a turn is waited for whose holder does not ask for its slots.
const PATIENCE: Duration = Duration::from_secs(5);

/// Permission to run on one device, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    /// `cpu`, `cuda:N`, `metal`: what this process calls the device.
    pub device: String,
    /// What all processes of the machine call it.
    pub id: String,
    /// CPU threads that may compute.
    pub threads: usize,
    /// Whether runs, of whichever sweep, were on the device when it was taken.
    pub company: bool,
    locks: Vec<Lock>,
}

impl Slot {
    /// A slot that no lock stands behind: for executors and tests that share out devices by other means.
    pub fn unlocked(device: &str, threads: usize) -> Self {
        Self { device: device.into(), id: device.into(), threads, company: false, locks: Vec::new() }
    }

    /// Whether programs that are started now hold the slot as well, until they end.
    pub(super) fn inherit(&self, inherit: bool) -> io::Result<()> {
        self.locks.iter().try_for_each(|lock| lock.inherit(inherit))
    }
}

/// What a run asks of a device.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Who asks.
    pub run: RunId,
    /// Cores of a CPU, at most.
    pub threads: usize,
    /// Bytes of the device's memory; [`u64::MAX`] where it is to be alone there.
    pub bytes: u64,
    /// Whether the run is taken over from a worker that no longer stirs: the places that this one has are then free.
    pub takes_over: bool,
}

/// The bytes of a device that runs may take: all but a twentieth, which is left to what nobody reckons with. `None` where
/// its memory is not known: then a GPU is for one run at a time, and memory is no limit on a CPU.
pub fn usable_memory(device: &DeviceInfo) -> Option<u64> {
    device.memory_total.map(|total| total - margin(device))
}

/// Bytes of a device that are left to what nobody reckons with, such as its driver.
fn margin(device: &DeviceInfo) -> u64 {
    device.memory_total.unwrap_or(0) / 20
}

/// Why nothing was to be had of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it lacks.
    pub lack: Lack,
    /// The runs that are there, of all sweeps.
    pub runs: Vec<RunId>,
    /// Bytes that another run could have there; `None` where memory is no limit, or not known.
    pub free: Option<u64>,
    /// Bytes that programs other than runs hold, as far as can be told.
    pub others: u64,
}

/// What may be missing on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A core of a CPU, or a place on a GPU.
    Place,
    /// Memory.
    Memory,
    /// Nothing may be, but it is the turn of another sweep.
    Turn,
}

/// What stands in a held file.
#[derive(Debug, Serialize, Deserialize)]
struct Reservation {
    run: RunId,
    /// Of a run with several cores these stand in one file, and 0 in the others.
    bytes: u64,
    /// Bytes that other programs held when it was taken.
    #[serde(default)]
    others: u64,
}

/// The slots of one root.
#[derive(Debug)]
pub struct Slots {
    folder: PathBuf,
    turns: BTreeMap<String, Lock>,
    /// The turns of others: when each was last asked for, and since when we have seen no later time than that.
    waits: BTreeMap<String, (Millis, Instant)>,
}

impl Slots {
    /// The slots of `root` on this machine; nothing is taken.
    pub fn new(root: &Root) -> Self {
        Self { folder: folder(root), turns: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// Takes a slot on `device`, whose free memory should be as of now: on a CPU as many cores as are free, at most those
    /// asked for. Who is refused keeps the device's turn, if it has it, until it [`pass`](Self::pass)es.
    ///
    /// # Errors
    ///
    /// Where the lock files cannot be read or written.
    pub fn take(&mut self, device: &DeviceInfo, need: Need) -> Result<Result<Slot, Refusal>> {
        let path = self.folder.join(format!("{}.turn", file_stem(&device.id)));
        let turn = match self.turns.remove(&device.id) {
            Some(turn) => Some(turn),
            None => Lock::try_take(&path)?,
        };
        match &turn {
            // Shows those who wait behind us that we are still waiting. Where it cannot be shown, they come first.
            Some(turn) => drop(turn.touch()),
            None if !self.is_passed(&device.id, &path) => {
                return Ok(Err(self.reserved(device, &[])?.refusal(device, Lack::Turn)));
            }
            None => {}
        }
        if need.takes_over {
            self.clear(device, need.run)?;
        }
        let taken = self.reserve(device, need)?;
        if taken.is_err() {
            self.turns.extend(turn.map(|turn| (device.id.clone(), turn)));
        }
        Ok(taken)
    }

    /// Lets others take their turn on all devices but those with the ids that are `kept`, where a run still waits.
    pub fn pass(&mut self, kept: &[&str]) {
        self.turns.retain(|id, _| kept.contains(&id.as_str()));
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

    /// Takes the places away that are held for a run: other files stand there then, which nobody holds. Should its worker
    /// stir again, it finds that it lost the run, and leaves.
    fn clear(&self, device: &DeviceInfo, run: RunId) -> Result<()> {
        let is_for_it = |said: &Reservation| said.run == run;
        let held = held(&self.folder, |id| id == device.id)?.into_iter();
        for HeldFile { path, .. } in held.filter(|file| file.reservation.as_ref().is_some_and(is_for_it)) {
            // It may have been given to another run meanwhile.
            let still = || Ok(serde_json::from_slice(&fs::read(&path)?).is_ok_and(|said| is_for_it(&said)));
            drop(Lock::seize(&path, "", still)?);
        }
        Ok(())
    }

    /// Places on a device with the need written into them.
    fn reserve(&self, device: &DeviceInfo, need: Need) -> Result<Result<Slot, Refusal>> {
        // Who does not fit is not to stand there for an instant each time that it asks.
        let before = self.reserved(device, &[])?;
        if !before.leaves_room(device, need.bytes) {
            return Ok(Err(before.refusal(device, Lack::Memory)));
        }
        let locks = self.free_places(device, need.threads)?;
        if locks.is_empty() {
            return Ok(Err(before.refusal(device, Lack::Place)));
        }
        let (mut bytes, others) = (need.bytes, before.others(device));
        for lock in &locks {
            let reservation = Reservation { run: need.run, bytes: std::mem::take(&mut bytes), others };
            let text = serde_json::to_string(&reservation).doing(Exit::Unexpected, || "reserving memory".into())?;
            // Where the disk is full, the file is left empty: others then come when we have gone.
            let _ = lock.note(&text);
        }
        let beside = self.reserved(device, &locks)?;
        if !beside.leaves_room(device, need.bytes) {
            return Ok(Err(beside.refusal(device, Lack::Memory)));
        }
        let threads = if is_cpu(device) { locks.len() } else { need.threads };
        let (company, id) = (beside.places > 0, device.id.clone());
        Ok(Ok(Slot { device: device.name.clone(), id, threads, company, locks }))
    }

    /// What is reserved on a device by others than `ours`.
    fn reserved(&self, device: &DeviceInfo, ours: &[Lock]) -> Result<Reserved> {
        let mut reserved = Reserved { places: 0, bytes: Some(0), others: 0, runs: Vec::new() };
        for held in held(&self.folder, |id| id == device.id)? {
            if ours.iter().any(|lock| lock.path() == held.path) {
                continue;
            }
            reserved.places += 1;
            let Some(said) = held.reservation else {
                reserved.bytes = None;
                continue;
            };
            reserved.bytes = reserved.bytes.map(|sum| sum.saturating_add(said.bytes));
            reserved.others = reserved.others.max(said.others);
            if !reserved.runs.contains(&said.run) {
                reserved.runs.push(said.run);
            }
        }
        Ok(reserved)
    }

    fn free_places(&self, device: &DeviceInfo, threads: usize) -> Result<Vec<Lock>> {
        let (places, most): (Vec<usize>, _) = match device.cores {
            Some(cores) if is_cpu(device) => {
                let known = cpus();
                let beyond = known.last().map_or(0, |last| last + 1)..;
                (known.into_iter().chain(beyond).take(cores).collect(), threads)
            }
            _ => ((0..PLACES).collect(), 1),
        };
        let mut locks = Vec::new();
        for place in places {
            if locks.len() == most {
                break;
            }
            let path = self.folder.join(format!("{}.{place}.lock", file_stem(&device.id)));
            locks.extend(Lock::try_take(&path)?);
        }
        Ok(locks)
    }
}

/// What other runs have reserved on a device.
struct Reserved {
    /// Files that are held.
    places: usize,
    /// What they say together; `None` where one says nothing.
    bytes: Option<u64>,
    /// The most that other programs held when one was taken.
    others: u64,
    /// For whom they are held.
    runs: Vec<RunId>,
}

impl Reserved {
    /// Whether a run that needs `bytes` may come beside them.
    fn leaves_room(&self, device: &DeviceInfo, bytes: u64) -> bool {
        let is_alone = self.places == 0;
        let Some(usable) = usable_memory(device) else {
            let is_said = self.bytes.is_some_and(|reserved| reserved.saturating_add(bytes) < u64::MAX);
            return is_alone || is_cpu(device) && is_said;
        };
        if is_alone {
            let is_oversize = bytes > usable;
            return is_cpu(device) || is_oversize || self.others(device) <= margin(device) || self.fits(device, bytes);
        }
        self.fits(device, bytes)
    }

    fn fits(&self, device: &DeviceInfo, bytes: u64) -> bool {
        self.free(device).is_some_and(|free| bytes <= free)
    }

    /// What is left of the memory that runs may take; `None` where that is not known.
    fn free(&self, device: &DeviceInfo) -> Option<u64> {
        let taken = self.bytes?.saturating_add(self.others(device));
        usable_memory(device).map(|usable| usable.saturating_sub(taken))
    }

    /// What programs other than runs hold now. Of what they once held it is no more than what is in use at all.
    fn others(&self, device: &DeviceInfo) -> u64 {
        let in_use = device.memory_total.zip(device.memory_free).map_or(0, |(total, free)| total.saturating_sub(free));
        in_use.saturating_sub(self.bytes.unwrap_or(0)).max(self.others.min(in_use))
    }

    fn refusal(self, device: &DeviceInfo, lack: Lack) -> Refusal {
        Refusal { lack, free: self.free(device), others: self.others(device), runs: self.runs }
    }
}

/// Which runs are on which device of this machine now, by the devices' [ids](DeviceInfo::id): of all processes that use
/// `root`, none of which is disturbed by that.
pub fn occupants(root: &Root) -> Result<BTreeMap<String, Vec<RunId>>> {
    let mut runs: BTreeMap<String, Vec<RunId>> = BTreeMap::new();
    for held in held(&folder(root), |_| true)? {
        let there = runs.entry(held.device).or_default();
        there.extend(held.reservation.map(|reservation| reservation.run).filter(|run| !there.contains(run)));
    }
    runs.retain(|_, runs| !runs.is_empty());
    Ok(runs)
}

/// A file that is held now.
struct HeldFile {
    device: String,
    path: PathBuf,
    /// `None` where it does not say.
    reservation: Option<Reservation>,
}

/// The files that are held now of the devices that `is_asked_for`, in the order of their names. Others that lie there,
/// such as those of earlier versions, count for nothing.
fn held(folder: &Path, is_asked_for: impl Fn(&str) -> bool) -> Result<Vec<HeldFile>> {
    let doing = || format!("looking who is on which device in {}", folder.display());
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.doing(Exit::Store, doing)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.doing(Exit::Store, doing)?;
        let Some(device) = entry.file_name().to_str().and_then(device_of) else { continue };
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue; // to open what is none may take for ever
        }
        let path = entry.path();
        if is_asked_for(&device) && Lock::is_held(&path)? {
            let said = fs::read(&path).doing(Exit::Store, doing)?;
            files.push(HeldFile { device, path, reservation: serde_json::from_slice(&said).ok() });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn folder(root: &Root) -> PathBuf {
    root.slots(&machine::host())
}

fn is_cpu(device: &DeviceInfo) -> bool {
    kind(&device.name) == "cpu"
}

/// A device's id as the beginning of a file's name: what is no letter, digit, `-` or `_` as `%` and two hex digits.
fn file_stem(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    id.bytes().map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The id of the device that a file named `<device>.<place>.lock` belongs to.
fn device_of(name: &str) -> Option<String> {
    let (stem, place) = name.strip_suffix(".lock")?.rsplit_once('.')?;
    place.parse::<usize>().ok()?;
    let (mut id, mut rest) = (Vec::new(), stem.as_bytes());
    while let [first, after @ ..] = rest {
        rest = match first {
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                id.push(u8::from_str_radix(digits, 16).ok()?);
                &after[2..]
            }
            _ => {
                id.push(*first);
                after
            }
        };
    }
    String::from_utf8(id).ok().filter(|id| file_stem(id) == stem)
}

#[cfg(test)]
mod tests;
