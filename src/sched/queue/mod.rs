//! Decides which run is started, stopped or given up, and when. A pure state machine: what happened comes in, with the
//! time at which it did, and what to do about it comes out. It knows no clock, file, process or signal, so that every
//! rule can be tested by telling it a story.
//!
//! ```text
//!   Waiting ──Start──► Starting ──Granted──► Running ──Ended──► Ended: done, failed, interrupted
//!     ▲ ▲ ▲               │  │                  │
//!     │ │ └─────Busy──────┘  └──Elsewhere──┐    │
//!     │ └──────Ended: died, tries are left─┼────┘
//!     └──Settled: unfinished── Elsewhere ◄─┘ ──Settled: done, failed──► Ended
//! ```
//!
//! In a sweep that stops what loses, a run also comes from Waiting and Running to Paused, and from there back to Waiting.
//!
//! Here is what is started; [`ends`] has how it comes to an end, [`pauses`] what pauses and goes on, [`place`] the devices,
//! [`memory`] what runs need of theirs, [`waits`] how those are waited for that others hold.
//!
//! A run that comes next and lacks nothing but memory holds the device back: nothing after it is started there until it
//! fits, or is alone. Otherwise small runs would keep a large one waiting to the end of the sweep, where it would be left
//! to run alone, and the longest are to start first. Other devices go on meanwhile, and so does this one once it is started.

mod ends;
mod memory;
mod pauses;
mod place;
mod waits;

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    time::Duration,
};

use self::{
    memory::Correction,
    place::{Load, Place, Share},
};
use super::{Summary, needs::Needs, prune::Pruner};
use crate::{
    base::RunId,
    event::{CANCELLED, RunState},
    exec::{Ended, device::DeviceInfo, slots::Refusal},
};

/// A run to be seen to.
#[derive(Clone, Debug)]
pub struct Task {
    /// Which.
    pub run: RunId,
    /// A device (`cpu`, `cuda:1`), or any of a kind (`cuda`).
    pub device: String,
    /// What is left to compute, in floating-point operations: longer runs are started earlier.
    pub flops: f64,
    /// Bytes of its device's memory that it needs by its config with one thread, with two, and so on; with more threads
    /// than are listed as many as with the last.
    pub bytes: Vec<u64>,
    /// How often it is started again when its worker died.
    pub retries: u32,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// The step of its last checkpoint, where it was begun before.
    pub from: Option<u64>,
    /// Why it failed before, where it did.
    pub failed: Option<String>,
    /// What it needs of memory: where less did not suffice, it is skipped. `None` where it is tried in any case.
    pub needs: Option<Needs>,
}

impl Task {
    /// Bytes that it needs by its config with so many threads.
    fn bytes(&self, threads: usize) -> u64 {
        self.bytes.get(threads.saturating_sub(1)).or(self.bytes.last()).copied().unwrap_or(0)
    }
}

/// Where a run stands in the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It can be started from that time on.
    Waiting(Duration),
    /// [`Action::Start`] was given and has not been answered.
    Starting(Share),
    /// A worker of ours trains it.
    Running {
        /// What it runs on.
        share: Share,
        /// When it was started.
        since: Duration,
        /// Whether it used up its time.
        overdue: Stopping,
    },
    /// Another process trains it.
    Elsewhere,
    /// It fell behind, and waits to be lifted.
    Paused {
        /// How it stood.
        why: String,
    },
    /// It needs nothing any more.
    Ended(RunState),
}

/// How far matters have got with a run that is not to go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stopping {
    /// It may go on.
    No,
    /// It was asked to stop then.
    Asked(Duration),
    /// It did not, and was killed.
    Killed,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time passed; slots that were busy may be free.
    Tick,
    /// A person, or the system, asks us to stop.
    Signal,
    /// So many bytes of each device are free now, where known; the devices in their order.
    Free(Vec<Option<u64>>),
    /// A start was carried out, with that many threads, in `company` of other runs on the device.
    Granted { run: RunId, threads: usize, company: bool },
    /// It was not: others hold too much of the device.
    Busy { run: RunId, refusal: Refusal },
    /// It was not, or the run paused: another process trains it.
    Elsewhere { run: RunId },
    /// The run's worker is gone, or could not be started.
    Ended { run: RunId, ended: Ended },
    /// A run that is done needed so many bytes of its device's memory.
    Measured { run: RunId, bytes: u64 },
    /// All that is known by now of the metric that decides which runs go on: values by step, in ascending steps.
    Learned { run: RunId, values: Vec<(u64, f64)> },
    /// A person asks for that run to stop, wherever it is trained.
    Cancelled { run: RunId },
    /// No other process trains the run any more, and this is how it was left.
    Settled { run: RunId, state: RunState },
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start a worker on that device, with that many threads at most and that much memory, all of it where that is
    /// [`u64::MAX`]. To be answered by [`Input::Granted`], `Busy`, `Elsewhere`, `Settled` or `Ended`.
    Start { run: RunId, device: String, threads: usize, bytes: u64 },
    /// Ask its worker to stop.
    Stop { run: RunId },
    /// End its worker at once.
    Kill { run: RunId },
    /// Put on record why no attempt follows its last one.
    GiveUp { run: RunId, why: String },
    /// Put on record why it is not to be started.
    Skip { run: RunId, why: String },
    /// Put on record that it pauses, and how it stood.
    Pause { run: RunId, why: String },
    /// Tell that another process trains it.
    Await { run: RunId },
    /// Tell how it ended.
    Report { run: RunId, state: RunState },
    /// Tell the person something.
    Say(String),
}

/// How far a stop request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Halt {
    No,
    Gently,
    AtOnce,
}

#[derive(Debug)]
struct Entry {
    task: Task,
    standing: Standing,
    deaths: u32,
    /// Whether a person cancelled it.
    cancelled: Stopping,
    /// How it stood when its worker was asked to stop since it fell behind.
    pausing: Option<String>,
    /// How far it had come when it was last let go on.
    passed: Option<u64>,
    /// Whether it waited when it was last looked at: what comes to wait is judged.
    was_waiting: bool,
    /// Whether another run was on its device with it: one of ours, or of another sweep that came before it.
    had_company: bool,
    /// Whether it is to have its device for itself.
    alone: bool,
}

impl Entry {
    fn new(task: Task, standing: Standing) -> Self {
        Self {
            task,
            standing,
            deaths: 0,
            cancelled: Stopping::No,
            pausing: None,
            passed: None,
            was_waiting: false,
            had_company: false,
            alone: false,
        }
    }

    fn share(&self) -> Option<Share> {
        match self.standing {
            Standing::Starting(share) | Standing::Running { share, .. } => Some(share),
            _ => None,
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.standing, Standing::Waiting(_))
    }

    fn is_running(&self) -> bool {
        matches!(self.standing, Standing::Running { .. })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled != Stopping::No
    }

    /// Whether its worker was asked to leave already.
    fn is_stopping(&self) -> bool {
        self.is_cancelled() || self.pausing.is_some() || self.is_overdue()
    }

    fn is_overdue(&self) -> bool {
        matches!(self.standing, Standing::Running { overdue: Stopping::Asked(_) | Stopping::Killed, .. })
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Queue {
    entries: Vec<Entry>,
    index: BTreeMap<RunId, usize>,
    /// In which order runs are started.
    order: Vec<usize>,
    places: Vec<Place>,
    correction: Correction,
    halt: Halt,
    /// Whether a signal asked us to stop.
    asked: bool,
    /// Whether the first run that fails stops the others.
    fail_fast: bool,
    /// What stops runs that fall behind, where the sweep asks for that.
    pruner: Option<Pruner>,
    /// Whether the pruner was told something new since it was last asked.
    is_news: bool,
}

impl Queue {
    /// A queue of distinct runs, each where it stands at first, for a machine with those devices, the CPU first. `jobs`
    /// runs at a time are on the CPU: by default one per core, since runs side by side finish a sweep sooner than one after
    /// the other on all cores; and never more than there are runs or cores. On a GPU there are as many as it holds.
    pub fn new(tasks: Vec<(Task, Standing)>, devices: &[DeviceInfo], jobs: Option<usize>) -> Self {
        let entries: Vec<Entry> = tasks.into_iter().map(|(task, standing)| Entry::new(task, standing)).collect();
        let mut places: Vec<Place> = devices.iter().map(Place::new).collect();
        if let Some(cpu) = places.first_mut() {
            let ended = |entry: &&Entry| matches!(entry.standing, Standing::Ended(_));
            let runs = entries.iter().filter(|entry| cpu.fits(&entry.task) && !ended(entry)).count();
            let cores = cpu.jobs;
            cpu.jobs = jobs.unwrap_or(cores).min(runs).clamp(1, cores);
        }
        let side_by_side = places.len() > 1 || places.iter().any(|place| place.jobs > 1);
        let mut order: Vec<usize> = (0..entries.len()).collect();
        if side_by_side {
            // The longest first, so that none is left running alone at the end; equals in the order of the spec.
            let flops = |at: usize| entries[at].task.flops;
            order.sort_by(|&a, &b| flops(b).partial_cmp(&flops(a)).unwrap_or(Ordering::Equal));
        }
        let index = entries.iter().enumerate().map(|(at, entry)| (entry.task.run, at)).collect();
        let correction = Correction::default();
        let (halt, pruner, is_news) = (Halt::No, None, true);
        Self { entries, index, order, places, correction, halt, asked: false, fail_fast: false, pruner, is_news }
    }

    /// Whether the first run that fails for good stops the others.
    pub fn fail_fast(mut self, is_so: bool) -> Self {
        self.fail_fast = is_so;
        self
    }

    /// Stops runs that fall behind. The pruner knows the runs in the order in which the queue was given them.
    pub fn pruner(mut self, pruner: Option<Pruner>) -> Self {
        self.pruner = pruner;
        self
    }

    /// Why fewer runs go at once on the CPU than were asked for, where that is so.
    pub fn curbed(&self, asked: Option<usize>) -> Option<String> {
        let cpu = self.places.first()?;
        let asked = asked.filter(|&asked| asked > cpu.jobs && self.waiting_for(cpu) > 0)?;
        let bound = if Some(cpu.jobs) == cpu.cores { "cores" } else { "runs to train on the CPU" };
        Some(format!("{asked} jobs are more than there are {bound}: {} at a time", cpu.jobs))
    }

    /// Takes in what happened at `now`, counted since the sweep began, and says what to do. Inputs about runs that they
    /// do not fit are ignored.
    pub fn step(&mut self, now: Duration, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Tick => {
                self.places.iter_mut().for_each(|place| place.wait.tick(now));
                self.check_times(now, &mut actions);
            }
            Input::Signal => self.signal(&mut actions),
            Input::Free(free) => {
                self.places.iter_mut().zip(free).for_each(|(place, free)| place.free = free);
            }
            Input::Granted { run, threads, company } => self.granted(now, run, threads, company, &mut actions),
            Input::Busy { run, refusal } => self.busy(now, run, refusal, &mut actions),
            Input::Elsewhere { run } => self.elsewhere(run, &mut actions),
            Input::Ended { run, ended } => self.ended(now, run, ended, &mut actions),
            Input::Measured { run, bytes } => self.measured(run, bytes, &mut actions),
            Input::Learned { run, values } => self.learned(run, &values),
            Input::Cancelled { run } => self.cancel(now, run, &mut actions),
            Input::Settled { run, state } => self.settled(now, run, state, &mut actions),
        }
        if self.halt == Halt::No {
            self.judge(now, &mut actions);
            self.fill(now, &mut actions);
        }
        actions
    }

    /// Whether nothing is left to do, or, after a stop request, to wait for.
    pub fn is_over(&self) -> bool {
        let idle = |entry: &Entry| match entry.standing {
            Standing::Ended(_) | Standing::Paused { .. } => true,
            Standing::Waiting(_) => self.halt != Halt::No || self.is_stranded(&entry.task),
            Standing::Elsewhere => self.halt != Halt::No,
            Standing::Starting(_) | Standing::Running { .. } => false,
        };
        self.entries.iter().all(idle)
    }

    /// Every run and where it stands, in the order of the spec.
    pub fn standings(&self) -> impl Iterator<Item = (RunId, &Standing)> {
        self.entries.iter().map(|entry| (entry.task.run, &entry.standing))
    }

    /// What became of every run.
    pub fn summary(&self) -> Summary {
        let stranded = self.entries.iter().any(|entry| entry.is_waiting() && self.is_stranded(&entry.task));
        let failed_fast = self.fail_fast && self.halt != Halt::No;
        let mut summary = Summary { by_failure: !self.asked && (stranded || failed_fast), ..Summary::default() };
        for Entry { task, standing, .. } in &self.entries {
            let list = match standing {
                Standing::Ended(RunState::Done) => &mut summary.done,
                Standing::Ended(RunState::Interrupted { .. }) => &mut summary.interrupted,
                Standing::Ended(RunState::Skipped { why }) if why == CANCELLED => &mut summary.queued,
                Standing::Ended(RunState::Skipped { .. }) => &mut summary.skipped,
                Standing::Ended(_) => &mut summary.failed,
                Standing::Elsewhere => &mut summary.elsewhere,
                Standing::Paused { .. } => &mut summary.paused,
                _ if task.from.is_some() => &mut summary.interrupted,
                _ => &mut summary.queued,
            };
            list.push(task.run);
        }
        summary
    }

    /// The devices that others hold and that a run waits for all the same.
    pub fn awaited(&self, now: Duration) -> impl Iterator<Item = &str> {
        let could = move |entry: &&Entry| matches!(entry.standing, Standing::Waiting(from) if from <= now);
        let waits = move |place: &&Place| self.entries.iter().filter(could).any(|entry| place.fits(&entry.task));
        let places = self.places.iter().filter(|place| self.halt == Halt::No && place.wait.is_on() && !place.aside);
        places.filter(waits).map(|place| place.device.as_str())
    }

    /// Starts what there is room for, on the device with the fewest runs; of equals, on that with the most free memory.
    fn fill(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let mut loads = self.loads();
        let mut waiting: Vec<usize> = self.places.iter().map(|place| self.waiting_for(place)).collect();
        let mut held_back = vec![false; self.places.len()];
        for &at in &self.order {
            let entry = &mut self.entries[at];
            if !matches!(entry.standing, Standing::Waiting(from) if from <= now) {
                continue;
            }
            let need = |threads| self.correction.need(&entry.task, threads);
            let bytes = if entry.alone { u64::MAX } else { need(1) };
            let might = |at: &usize| self.places[*at].fits(&entry.task) && !held_back[*at];
            let all = 0..self.places.len();
            let has_room = all.clone().filter(might).filter(|&at| self.places[at].has_room(&loads[at], bytes));
            let Some(at) = has_room.min_by_key(|&at| (loads[at].jobs, Reverse(self.places[at].free))) else {
                let lacks_memory = all.filter(might).filter(|&at| self.places[at].lacks_memory(&loads[at], bytes));
                if let Some(at) = lacks_memory.min_by_key(|&at| loads[at].bytes) {
                    held_back[at] = true;
                }
                continue;
            };
            let place = &self.places[at];
            let threads = place.portion(&loads[at], if entry.alone { 1 } else { waiting[at] }, need);
            let share = Share { place: at, threads, bytes: if entry.alone { u64::MAX } else { need(threads) } };
            let (run, device) = (entry.task.run, place.device.clone());
            actions.push(Action::Start { run, device, threads, bytes: share.bytes });
            entry.standing = Standing::Starting(share);
            waiting[at] -= 1;
            loads[at].add(share);
        }
    }

    fn loads(&self) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.places.len()];
        self.entries.iter().filter_map(Entry::share).for_each(|share| loads[share.place].add(share));
        loads
    }

    /// Whether every device that a run could be on is set aside.
    fn is_stranded(&self, task: &Task) -> bool {
        place::all_are_aside(&self.places, task)
    }

    fn waiting_for(&self, place: &Place) -> usize {
        self.entries.iter().filter(|entry| entry.is_waiting() && place.fits(&entry.task)).count()
    }

    fn signal(&mut self, actions: &mut Vec<Action>) {
        // One that comes while a failed run already stops the others is the first that a person sends.
        self.halt = if self.asked { Halt::AtOnce } else { Halt::Gently };
        self.asked = true;
        actions.extend(self.halt_all());
        if self.halt == Halt::Gently && !actions.is_empty() {
            actions
                .push(Action::Say("stopping: running runs write a checkpoint; ask again to end them at once".into()));
        }
    }

    /// What a stop request means for all running runs.
    fn halt_all(&self) -> impl Iterator<Item = Action> {
        let running = self.entries.iter().filter(|entry| entry.is_running());
        running.filter_map(|entry| self.halting(entry.task.run))
    }

    /// What a stop request means for a running run.
    fn halting(&self, run: RunId) -> Option<Action> {
        match self.halt {
            Halt::No => None,
            Halt::Gently => Some(Action::Stop { run }),
            Halt::AtOnce => Some(Action::Kill { run }),
        }
    }

    fn granted(&mut self, now: Duration, run: RunId, threads: usize, company: bool, actions: &mut Vec<Action>) {
        actions.extend(self.halting(run));
        let Some(entry) = self.entry(run) else { return };
        if let Standing::Starting(share) = entry.standing {
            let share = Share { threads, ..share };
            entry.standing = Standing::Running { share, since: now, overdue: Stopping::No };
            entry.had_company = company;
            (entry.pausing, entry.task.failed) = (None, None);
            if entry.is_cancelled() {
                entry.cancelled = Stopping::Asked(now);
                actions.push(Action::Stop { run });
            }
            self.places[share.place].wait.end();
            self.note_company(share.place);
        }
    }

    fn busy(&mut self, now: Duration, run: RunId, mut refusal: Refusal, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        let Standing::Starting(share) = entry.standing else { return };
        entry.standing = Standing::Waiting(now);
        if entry.is_cancelled() {
            self.leave(run, actions);
        }
        refusal.runs.retain(|run| !self.index.contains_key(run));
        let place = &mut self.places[share.place];
        place.wait.refuse(now);
        actions.extend(place.wait.word(now, run, share.bytes, &place.device, refusal).map(Action::Say));
    }

    fn elsewhere(&mut self, run: RunId, actions: &mut Vec<Action>) {
        let Some(entry) = self.entry(run) else { return };
        // One that pauses may be gone on with by somebody who asked for it by name.
        if entry.share().is_some() || matches!(entry.standing, Standing::Paused { .. }) {
            entry.standing = Standing::Elsewhere;
            actions.push(Action::Await { run });
        }
    }

    fn entry(&mut self, run: RunId) -> Option<&mut Entry> {
        self.index.get(&run).map(|&at| &mut self.entries[at])
    }
}

#[cfg(test)]
mod tests;
