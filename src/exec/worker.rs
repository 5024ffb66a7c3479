//! The worker: the process that trains one attempt at a run, started as the hidden command `exp worker`.
//!
//! It holds the run's lock while it lives, is the only one that writes into the attempt's folder, and leaves when it is
//! asked to: by SIGTERM or SIGINT, by the line `stop` on its standard input, by a cancel request in the run's journal, or
//! by the end of its input, which means that the scheduler is gone. Asked by a second signal it leaves at once.

use std::{
    any::Any,
    fs::{self, File},
    io::{BufRead, Write},
    path::PathBuf,
    process,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{
    Failure, Job, Slot, device,
    events::{self, EventLog},
    host,
};
use crate::{
    base::{
        Context, Error, Exit, Result, clock,
        files::{self, Lock},
        folders::{Root, RunFolder},
        tail::Tail,
    },
    event::{Event, Note, Outcome, Sink, Started},
    spec::identity::FrozenRun,
    train::{self, Stop},
};

/// How often a worker looks into the journal of its run.
const LOOK: Duration = Duration::from_millis(500);

/// What `exp worker` is told.
#[derive(Clone, Debug)]
pub struct Args {
    /// The root.
    pub root: PathBuf,
    /// The run's folder.
    pub run: PathBuf,
    /// The number of this attempt.
    pub attempt: u32,
    /// `cpu`, `cuda:N`, `metal`.
    pub device: String,
    /// CPU threads to compute with.
    pub threads: usize,
}

impl Args {
    /// What the worker of `job` on `slot` is told.
    pub fn new(job: &Job, slot: &Slot) -> Self {
        Self {
            root: job.root.path().into(),
            run: job.folder().path().into(),
            attempt: job.attempt,
            device: slot.device.clone(),
            threads: slot.threads,
        }
    }

    /// The command line, without the program.
    pub fn command_line(&self) -> Vec<std::ffi::OsString> {
        let (attempt, threads) = (self.attempt.to_string(), self.threads.to_string());
        [
            "worker".as_ref(),
            "--root".as_ref(),
            self.root.as_os_str(),
            "--run".as_ref(),
            self.run.as_os_str(),
            "--attempt".as_ref(),
            attempt.as_ref(),
            "--device".as_ref(),
            self.device.as_ref(),
            "--threads".as_ref(),
            threads.as_ref(),
        ]
        .into_iter()
        .map(|word: &std::ffi::OsStr| word.to_owned())
        .collect()
    }
}

/// Trains one attempt as all that this process does. The exit code is 0 when the run is done, 4 when it failed, 130 when
/// it was interrupted, 75 when another worker holds or held the run, and 101 after a panic.
pub fn main(args: &Args) -> Exit {
    end_at_a_panic();
    let mut screen = Screen::default();
    alone(args, &mut screen).unwrap_or_else(|error| {
        // There may be no log yet, or no room for the last event: the scheduler hears of it all the same.
        say(&error.to_string());
        screen.show(&Event::Finished { at: clock::now(), outcome: failed(&error) });
        error.exit
    })
}

fn alone(args: &Args, screen: &mut Screen) -> Result<Exit> {
    let stop = Stop::default();
    listen(&stop)?;
    limit_threads(args.threads)?;
    let Some(claim) = Claim::take(args)? else { return Ok(Exit::LeaseLost) };
    let _ = EVENTS.set(claim.folder.events(args.attempt));
    let log = File::options().create(true).append(true).open(claim.folder.log(args.attempt));
    let turned = log.and_then(|log| Ok(rustix::stdio::dup2_stderr(log)?));
    turned.doing(Exit::Store, || claim.doing("opening the log of"))?;
    heed_cancels(&claim.folder, &stop)?;
    claim.train(args, &stop, &mut |event| screen.show(event))
}

/// The same within a process that does more: takes the run and trains it.
pub(super) fn work(args: &Args, stop: &Stop, mirror: &mut dyn FnMut(&Event)) -> Result<Exit> {
    match Claim::take(args)? {
        Some(claim) => claim.train(args, stop, mirror),
        None => Ok(Exit::LeaseLost),
    }
}

/// A run that is this worker's own: its lock, and the folder of a new attempt.
struct Claim {
    folder: RunFolder,
    frozen: FrozenRun,
    _lock: Lock,
}

impl Claim {
    /// `None` where another worker holds the run, had it since the attempt was numbered, or has done it.
    fn take(args: &Args) -> Result<Option<Self>> {
        let folder = RunFolder::new(&args.run);
        let Some(lock) = Lock::try_take(&folder.lock())? else { return Ok(None) };
        if let Some(&last) = folder.attempts()?.last()
            && (last >= args.attempt || events::outcome(&folder.events(last)) == Some(Outcome::Done))
        {
            return Ok(None);
        }
        // For people who ask since when, and by whom; nothing depends on it.
        let _ = lock.note(&format!("process {} on {}\n", process::id(), host()));
        let frozen = FrozenRun::read(&folder.config())?;
        let claim = Self { folder, frozen, _lock: lock };
        let make = || {
            fs::create_dir(claim.folder.attempt(args.attempt))?;
            files::sync_folder(claim.folder.path())
        };
        make().doing(Exit::Store, || claim.doing(&format!("making the folder of attempt {} at", args.attempt)))?;
        Ok(Some(claim))
    }

    fn train(&self, args: &Args, stop: &Stop, mirror: &mut dyn FnMut(&Event)) -> Result<Exit> {
        let mut events = EventLog::create(self.folder.events(args.attempt), mirror)?;
        let outcome = self.attempt(args, stop, &mut events).unwrap_or_else(|error| {
            say(&error.to_string());
            failed(&error)
        });
        let exit = match outcome {
            Outcome::Done => Exit::Done,
            Outcome::Failed { .. } => Exit::RunFailed,
            Outcome::Interrupted { .. } => Exit::Interrupted,
        };
        events.emit(&Event::Finished { at: clock::now(), outcome }, true)?;
        Ok(exit)
    }

    fn attempt(&self, args: &Args, stop: &Stop, events: &mut EventLog) -> Result<Outcome> {
        let root = Root::new(&args.root);
        let started = Started {
            at: clock::now(),
            attempt: args.attempt,
            pid: process::id(),
            host: host(),
            device: args.device.clone(),
            threads: args.threads,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        events.emit(&Event::Started(started), true)?;
        let peak = device::peak_flops(&root.cache(), &args.device, args.threads, stop);
        if let Err(error) = &peak {
            let message = format!("no MFU: {error}");
            events.emit(&Event::Warning { at: clock::now(), message }, false)?;
        }
        let job = train::Job {
            root: &root,
            folder: &self.folder,
            frozen: &self.frozen,
            attempt: args.attempt,
            device: &args.device,
            threads: args.threads,
            peak_flops: peak.ok(),
            stop,
        };
        train::run(&job, events)
    }

    fn doing(&self, what: &str) -> String {
        format!("{what} the run {}", self.frozen.id.short())
    }
}

fn failed(error: &Error) -> Outcome {
    let Failure { why, retry } = error.into();
    Outcome::Failed { why, retry }
}

/// Events on standard output, for the scheduler's screen. Nothing depends on them: what cannot be written is lost.
#[derive(Default)]
struct Screen {
    last_step: Option<Instant>,
}

impl Screen {
    /// Steps at most twenty times a second, so that small models do not train slower for being watched.
    fn show(&mut self, event: &Event) {
        if matches!(event, Event::Step(_)) {
            if self.last_step.is_some_and(|at| at.elapsed() < Duration::from_millis(50)) {
                return;
            }
            self.last_step = Some(Instant::now());
        }
        if let Ok(mut line) = serde_json::to_vec(event) {
            line.push(b'\n');
            let _ = std::io::stdout().write_all(&line);
        }
    }
}

/// The events of the attempt that this process trains, once it has begun.
static EVENTS: OnceLock<PathBuf> = OnceLock::new();

/// A panic in any thread is one line in the log, the last of the attempt's events, and the end of the process.
fn end_at_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        let why = format!("panicked{place}: {}", message(panic.payload()));
        say(&why);
        if let Some(events) = EVENTS.get() {
            let _ = events::last_words(events, Outcome::Failed { why, retry: true }); // the exit code tells as well
        }
        process::exit(101);
    }));
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("for no stated reason")
}

/// Turns signals and standard input into stop requests.
fn listen(stop: &Stop) -> Result<()> {
    let doing = || "listening to signals".into();
    let mut signals = Signals::new([SIGINT, SIGTERM]).doing(Exit::Unexpected, doing)?;
    let asked = stop.clone();
    thread::spawn(move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            asked.request();
        }
        if arrived.next().is_some() {
            process::exit(Exit::Interrupted as i32);
        }
    });
    let asked = stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().lock().lines().find(|line| line.as_ref().map_or(true, |word| word == "stop"));
        asked.request();
    });
    Ok(())
}

/// Turns a cancel request in the run's journal, made from now on, into a stop request. The scheduler asks as well; but a
/// worker may outlive it, or have none.
fn heed_cancels(folder: &RunFolder, stop: &Stop) -> Result<()> {
    let mut journal = Tail::from_end(folder.journal());
    let asked = stop.clone();
    let look = move || {
        let is_cancel = |line: &String| matches!(serde_json::from_str(line), Ok(Note::Cancelled { .. }));
        while !journal.lines().iter().any(is_cancel) {
            thread::sleep(LOOK);
        }
        asked.request();
    };
    let begun = thread::Builder::new().name("journal".into()).spawn(look);
    begun.map(drop).doing(Exit::Unexpected, || format!("watching {}", folder.journal().display()))
}

/// rayon's own pool, and with it every parallel loop of this process.
fn limit_threads(threads: usize) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().doing(Exit::Unexpected, || format!("starting {threads} threads"))
}

/// One line on standard error, which is the attempt's log and no screen: so `ui` has no part in it. A log that cannot be written is no reason to end.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
