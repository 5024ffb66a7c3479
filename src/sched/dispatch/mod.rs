//! The one loop of a sweep. It alone touches the outside world: workers, devices, signals, the clock, slots, the store, the
//! screen. What to do it asks the [`Queue`].
//!
//! ```text
//! workers, signals, clock ──Input──► Queue ──Action──► executor, slots, store, observer
//! ```

mod records;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use super::{
    PlannedRun, Summary,
    attempts::{known_attempt, last_attempt},
    cancels::Cancels,
    curves::{self, Followed},
    every::Every,
    here::Here,
    queue::{Action, Input, Queue, Standing},
    signals::{self, Signals},
    task::{standing, task},
};
use crate::{
    base::{
        Error, Result, RunId, checkpoints, clock,
        folders::Root,
        lease::{Holder, Sight, Watch},
    },
    event::{Event, Note, Observer, Progress, RunState},
    exec::{
        self, Executor, Failure, Handle, Job, Message, Process, Slot, Slots,
        device::{Devices, ThisMachine},
        slots::Need,
    },
    spec::{identity::FrozenRun, search::Search},
    store::Store,
};

/// How often time passes for the queue and the screen, and signals are looked for.
const TICK: Duration = Duration::from_millis(100);

/// How often runs of other processes, and the journals of all runs, are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How long to wait for another process that writes the index, while there is a sweep to look after, and at its end.
const INDEX: Duration = Duration::from_millis(300);
const LAST: Duration = Duration::from_secs(60);

/// How often the index takes in what running runs wrote.
const INGEST: Duration = Duration::from_millis(500);

/// So many runs that were done before say what the others will need.
const TELL_ENOUGH: usize = 8;

/// What the person may decide about a sweep.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Runs at a time on the CPU; by default one per core.
    pub jobs: Option<usize>,
    /// The first run that fails for good stops the others: they write a checkpoint and leave.
    pub fail_fast: bool,
    /// Runs are tried that were skipped, and those that need more than one that ran out of memory.
    pub force: bool,
    /// How runs are stopped that fall behind the others; without it, those go on that were stopped so before.
    pub search: Option<Search>,
}

/// What a sweep is carried out with.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// Starts the workers.
    pub executor: &'a dyn Executor,
    /// Says what they can be started on.
    pub devices: &'a dyn Devices,
}

/// Sees to it that all `runs` are done, each in a process of its own. Runs that are done are left alone, without a word
/// to the observer; those that another process trains are waited for, and taken over where they are left unfinished.
/// The runs must be registered in `store`.
///
/// SIGINT, SIGTERM or SIGHUP stops the sweep: workers write a checkpoint and leave. A second one ends them at once, a
/// third leaves those that do not even end then to themselves. A request to cancel that is appended to a run's journal
/// meanwhile stops that run.
///
/// Whoever trains a run renews a [lease](crate::base::lease) on it. A run of another process whose lease is not renewed
/// is taken over; a worker of ours that does not renew its own is ended, and its run started again as after a crash.
///
/// # Errors
///
/// Where slots cannot be taken; workers then stop as if asked to. Where the index could not be written, and cannot at the
/// end either: all runs are seen to all the same, since their folders are the truth.
pub fn dispatch(
    runs: &[PlannedRun],
    root: &Root,
    store: &mut Store,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    dispatch_on(Outside { executor: &Process::new()?, devices: &ThisMachine }, runs, root, store, options, observer)
}

/// [`dispatch`] with another executor, or on other devices.
pub fn dispatch_on(
    Outside { executor, devices }: Outside,
    runs: &[PlannedRun],
    root: &Root,
    store: &mut Store,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Summary> {
    let here = Here::new(devices);
    let tasks = runs.iter().map(|run| (task(run, options), standing(run, options))).collect();
    let (sender, messages) = channel();
    let queue = Queue::new(tasks, here.devices(), options.jobs).fail_fast(options.fail_fast);
    let pruner = options.search.as_ref().map(|search| curves::pruner(runs, store, search)).transpose()?;
    let queue = queue.pruner(pruner);
    if let Some(curbed) = queue.curbed(options.jobs) {
        observer.see(&Progress::Message(curbed));
    }
    let dispatcher = Dispatcher {
        queue,
        slots: Slots::new(root),
        here,
        cancels: Cancels::watch(root, runs.iter().map(|run| run.frozen.id)),
        active: BTreeMap::new(),
        leases: Watch::default(),
        budgets: runs.iter().filter_map(|run| Some((run.frozen.id, run.checkpoint_bytes?))).collect(),
        planned: runs.iter().map(|run| (run.frozen.id, &run.frozen)).collect(),
        known: runs.iter().map(|run| Ok((run.frozen.id, known_attempt(run, root)?))).collect::<Result<_>>()?,
        followed: options.search.as_ref().map(|search| Followed::new(search.metric)),
        owed: BTreeSet::new(),
        index_error: None,
        begun: Instant::now(),
        executor,
        root,
        store,
        observer,
        sender,
        messages,
    };
    dispatcher.run()
}

/// A worker of ours.
struct Active {
    handle: Box<dyn Handle>,
    /// The lease of another that it seizes; one that stands still until it has.
    seizes: Option<Sight>,
    /// Whether it was ended since it did not renew its own.
    stale: bool,
    _slot: Slot,
}

struct Dispatcher<'a> {
    queue: Queue,
    slots: Slots,
    here: Here<'a>,
    cancels: Cancels,
    active: BTreeMap<RunId, Active>,
    leases: Watch,
    /// Bytes that the checkpoints of runs may take, where that is limited.
    budgets: BTreeMap<RunId, u64>,
    /// The planned config of each run that has not been compared with the one in its folder.
    planned: BTreeMap<RunId, &'a FrozenRun>,
    /// The last attempt at each run that we know of, ours included: a later one was made by another process. One of ours
    /// may have no folder, where its worker died before it made one.
    known: BTreeMap<RunId, u32>,
    /// The metric that decides which runs go on, where they are stopped that fall behind.
    followed: Option<Followed>,
    /// The runs of which the index lacks something by which others are judged.
    owed: BTreeSet<RunId>,
    index_error: Option<Error>,
    begun: Instant,
    executor: &'a dyn Executor,
    root: &'a Root,
    store: &'a mut Store,
    observer: &'a mut dyn Observer,
    sender: Sender<Message>,
    messages: Receiver<Message>,
}

impl Dispatcher<'_> {
    fn run(mut self) -> Result<Summary> {
        let mut signals = Signals::listen()?;
        self.store.set_patience(INDEX)?;
        self.learn_from_what_is_done()?;
        if self.followed.is_some() {
            self.feed(Input::Tick)?; // of runs that pause one may be lifted: then there is something to do
        }
        let (mut ticks, mut looks, mut ingests) = (Every::new(TICK), Every::new(LOOK), Every::new(INGEST));
        while !self.is_over()? {
            if ticks.is_due() {
                self.tick()?;
            }
            if looks.is_due() {
                self.look()?;
                self.look_after_ours()?;
            }
            if ingests.is_due() {
                self.take_in()?;
            }
            match self.messages.recv_timeout(ticks.left()) {
                Ok(message) => self.receive(message)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            for _ in 0..signals.arrived() {
                self.feed(Input::Signal)?;
            }
            if signals.total() >= signals::PATIENCE {
                break;
            }
        }
        self.store.set_patience(LAST)?;
        for (run, why) in self.queue.standing_otherwise() {
            let noted = self.pause(&run, why);
            self.index(noted);
        }
        // What the index missed stands in the folders: where it can take all in by now, nothing is lost.
        match self.index_error.take() {
            Some(error) if self.store.sync().is_err() => Err(error),
            _ => Ok(self.queue.summary()),
        }
    }

    fn tick(&mut self) -> Result<()> {
        self.feed(Input::Tick)?;
        self.here.pass(&mut self.slots, self.queue.awaited(self.begun.elapsed()));
        self.observer.see(&Progress::Tick);
        Ok(())
    }

    fn receive(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Event { run, event } => {
                let is_eval = matches!(event, Event::Eval(_));
                self.observer.see(&Progress::Event { run, event });
                if is_eval && self.followed.is_some() {
                    self.ingest(&run);
                    self.compare(&run)?;
                }
            }
            Message::Ended { run, ended } => {
                self.active.remove(&run);
                self.ingest(&run);
                // It may have ended of a request that we have not looked for yet.
                if self.cancels.arrived(&run) {
                    self.feed(Input::Cancelled { run })?;
                }
                self.learn_from(&run)?;
                self.compare(&run)?;
                self.followed.iter_mut().for_each(|followed| followed.leave(&run));
                // Whatever comes next: nobody trains it now.
                self.observer.see(&Progress::Left { run });
                self.feed(Input::Ended { run, ended })?;
            }
        }
        Ok(())
    }

    /// Looks whether runs of other processes have been let go or can be taken over, and whether somebody cancelled any.
    fn look(&mut self) -> Result<()> {
        let (mut open, mut free, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for (run, standing) in self.queue.standings().filter(|(_, s)| !matches!(s, Standing::Ended(_))) {
            open.push(run);
            if matches!(standing, Standing::Elsewhere | Standing::Paused { .. }) {
                let is_paused = *standing != Standing::Elsewhere;
                match self.leases.look(&self.root.run(&run).lock())? {
                    Holder::Somebody if is_paused => taken.push(run),
                    Holder::Somebody => {}
                    holder if !is_paused => free.push((run, holder)),
                    _ => {}
                }
            }
        }
        // After the locks: a run that was let go because of a request is not taken over in ignorance of it.
        open.retain(|run| self.cancels.arrived(run));
        for run in open {
            self.feed(Input::Cancelled { run })?;
        }
        // Somebody asked for them by name.
        for run in taken {
            self.feed(Input::Elsewhere { run })?;
        }
        for (run, holder) in free {
            let state = match holder {
                Holder::Stale(_) => {
                    let state = self.without_its_worker(&run)?;
                    if !matches!(state, RunState::Done | RunState::Failed { .. }) {
                        let message = format!("{}: its worker has not stirred for {}", run.short(), self.patience());
                        self.observer.see(&Progress::Message(format!("{message}; taking it over")));
                    }
                    state
                }
                _ => self.catch_up(&run)?,
            };
            self.compare(&run)?;
            self.feed(Input::Settled { run, state })?;
        }
        Ok(())
    }

    /// Ends workers of ours that do not renew their leases; they count as crashed.
    fn look_after_ours(&mut self) -> Result<()> {
        let patience = self.patience();
        for (run, active) in self.active.iter_mut().filter(|(_, active)| !active.stale) {
            let Holder::Stale(sight) = self.leases.look(&self.root.run(run).lock())? else { continue };
            if active.seizes.as_ref() == Some(&sight) {
                continue;
            }
            active.stale = true;
            let message = format!("{}: its worker has not stirred for {patience}; ending it", run.short());
            self.observer.see(&Progress::Message(message));
            active.handle.kill();
        }
        Ok(())
    }

    /// Where a run stands whose worker is not counted on any more, though it may hold the lock.
    fn without_its_worker(&mut self, run: &RunId) -> Result<RunState> {
        Ok(match self.catch_up(run)? {
            RunState::Running { .. } | RunState::Queued => {
                RunState::Interrupted { step: checkpoints::latest_step(&self.root.run(run))?.unwrap_or(0) }
            }
            state => state,
        })
    }

    fn patience(&self) -> String {
        format!("{} s", self.leases.period().as_secs_f64())
    }

    /// Tells the queue what happened, does what it says, tells it what came of that, and so on.
    fn feed(&mut self, input: Input) -> Result<()> {
        self.here.look_again();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for action in self.queue.step(self.begun.elapsed(), input) {
                inputs.extend(self.perform(action)?);
            }
            self.here.free().into_iter().for_each(|free| inputs.push_front(Input::Free(free)));
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Result<Vec<Input>> {
        match action {
            // Its place may have been made free by what the same request ended.
            Action::Start { run, .. } if self.cancels.arrived(&run) => {
                return Ok(vec![Input::Cancelled { run }, Input::Settled { run, state: self.catch_up(&run)? }]);
            }
            Action::Start { run, device, threads, bytes } => {
                return Ok(vec![self.start(&device, Need { run, threads, bytes, takes_over: false })?]);
            }
            Action::Stop { run } => self.active.get_mut(&run).into_iter().for_each(|active| active.handle.stop()),
            Action::Kill { run } => self.active.get_mut(&run).into_iter().for_each(|active| active.handle.kill()),
            Action::GiveUp { run, why } => self.give_up(&run, why),
            Action::Skip { run, why } => {
                let noted = last_attempt(&self.root.run(&run))
                    .and_then(|attempt| self.store.note(&run, &Note::Skipped { at: clock::now(), attempt, why }));
                self.index(noted);
            }
            Action::Pause { run, why } => {
                let noted = self.pause(&run, why);
                self.index(noted);
            }
            Action::Await { run } => self.observer.see(&Progress::Elsewhere { run }),
            Action::Report { run, state } => self.observer.see(&Progress::Ended { run, state }),
            Action::Say(message) => self.observer.see(&Progress::Message(message)),
        }
        Ok(Vec::new())
    }

    fn start(&mut self, device: &str, need: Need) -> Result<Input> {
        let run = need.run;
        let folder = self.root.run(&run);
        if !folder.config().try_exists().unwrap_or(true) {
            return Ok(Input::Settled { run, state: RunState::Skipped { why: "it was removed meanwhile".into() } });
        }
        let seize = match self.leases.look(&folder.lock())? {
            Holder::Somebody => return Ok(Input::Elsewhere { run }),
            Holder::Nobody => None,
            Holder::Stale(sight) => Some(sight),
        };
        let last = last_attempt(&folder)?;
        if last > self.known.get(&run).copied().unwrap_or(0) {
            let state = if seize.is_some() { self.without_its_worker(&run)? } else { self.catch_up(&run)? };
            return Ok(Input::Settled { run, state });
        }
        let slot = match self.here.take(&mut self.slots, device, Need { takes_over: seize.is_some(), ..need })? {
            Ok(slot) => slot,
            Err(refusal) => return Ok(Input::Busy { run, refusal }),
        };
        let job = Job {
            run,
            root: self.root.clone(),
            attempt: last + 1,
            checkpoint_bytes: self.budgets.get(&run).copied(),
            seize,
        };
        self.known.insert(run, job.attempt);
        let begun = self.freeze(&run).and_then(|()| self.executor.start(&job, &slot, &self.sender));
        let handle = match begun {
            Ok(handle) => handle,
            Err(error) => {
                return Ok(Input::Ended { run, ended: exec::ended(&folder, job.attempt, || Failure::from(&error)) });
            }
        };
        let (threads, company) = (slot.threads, slot.company);
        self.observer.see(&Progress::Started { run, attempt: job.attempt, slot: slot.device.clone(), threads });
        self.active.insert(run, Active { handle, seizes: job.seize, stale: false, _slot: slot });
        Ok(Input::Granted { run, threads, company })
    }
}
