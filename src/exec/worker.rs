//! The worker: the process that trains one attempt at a run, started as the hidden command `exp worker`.
//!
//! It holds the run's lock while it lives, is the only one that writes into the attempt's folder, and leaves when it is
//! asked to: by SIGTERM, SIGINT or SIGHUP, by the line `stop` on its standard input, by a cancel request in the run's
//! journal, or by the end of its input, which means that the scheduler is gone. Asked by a second signal it leaves at once,
//! and so it does where it was asked and then makes no progress: the run goes on from its last checkpoint.
//!
//! Where another worker has taken the run over, since this one did not stir for long, it writes nothing more and leaves.

use std::{
    fs::File,
    io::{BufRead, Write},
    os::fd::OwnedFd,
    path::PathBuf,
    process,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{
    Job, Slot,
    claim::{Claim, failed},
    device::memory::Peak,
    events,
};
use crate::{
    base::{
        Context, Error, Exit, Result, clock,
        folders::RunFolder,
        lease::{Fence, Sight},
        machine,
        tail::Tail,
        wait,
    },
    event::{Event, Note, Outcome},
    train::Stop,
};

/// How long a worker that was asked to stop may go without progress.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// `cpu`, `cuda:N`, `metal`: what the run says that it was trained on.
    pub device: String,
    /// What all processes of the machine call that device.
    pub id: String,
    /// CPU threads to compute with.
    pub threads: usize,
    /// Bytes that the run's checkpoints may take, where that is limited.
    pub checkpoint_bytes: Option<u64>,
    /// The lease to seize, of a worker that no longer stirs.
    pub seize: Option<Sight>,
}

impl Args {
    /// What the worker of `job` on `slot` is told.
    pub fn new(job: &Job, slot: &Slot) -> Self {
        Self {
            root: job.root.path().into(),
            run: job.folder().path().into(),
            attempt: job.attempt,
            device: slot.device.clone(),
            id: slot.id.clone(),
            threads: slot.threads,
            checkpoint_bytes: job.checkpoint_bytes,
            seize: job.seize.clone(),
        }
    }

    /// The command line, without the program.
    pub fn command_line(&self) -> Vec<std::ffi::OsString> {
        let (attempt, threads) = (self.attempt.to_string(), self.threads.to_string());
        let words = [
            "worker".as_ref(),
            "--root".as_ref(),
            self.root.as_os_str(),
            "--run".as_ref(),
            self.run.as_os_str(),
            "--attempt".as_ref(),
            attempt.as_ref(),
            "--device".as_ref(),
            self.device.as_ref(),
            "--device-id".as_ref(),
            self.id.as_ref(),
            "--threads".as_ref(),
            threads.as_ref(),
        ];
        let mut line: Vec<_> = words.into_iter().map(|word: &std::ffi::OsStr| word.to_owned()).collect();
        if let Some(bytes) = self.checkpoint_bytes {
            line.extend(["--checkpoint-bytes".into(), bytes.to_string().into()]);
        }
        if let Some(sight) = &self.seize {
            line.extend(["--seize".into(), sight.to_string().into()]);
        }
        line
    }
}

/// Trains one attempt as all that this process does. The exit code is 0 when the run is done, 4 when it failed, 130 when
/// it was interrupted, 75 when another worker holds or held the run, and 101 after a panic.
pub fn main(args: &Args) -> Exit {
    end_at_a_panic();
    wait::say_with(say_it_waits);
    let mut screen = Screen::default();
    alone(args, &mut screen).unwrap_or_else(|error| {
        if error.exit == Exit::LeaseLost {
            return end_without_a_run(&error);
        }
        // There may be no log yet, or no room for the last event: the scheduler hears of it all the same.
        say(&error.to_string());
        screen.show(&Event::Finished { at: clock::now(), outcome: failed(&error), peak_bytes: None });
        error.exit
    })
}

fn alone(args: &Args, screen: &mut Screen) -> Result<Exit> {
    let stop = Stop::default();
    listen(&stop)?;
    limit_threads(args.threads)?;
    let lost = |error| process::exit(end_without_a_run(&error) as i32);
    let Some(claim) = Claim::take(args, lost)? else { return Ok(Exit::LeaseLost) };
    let _ = EVENTS.set((claim.folder.events(args.attempt), claim.fence()));
    log_to(&claim, args).doing(Exit::Store, || claim.doing("opening the log of"))?;
    heed_cancels(&claim.folder, &stop)?;
    // Of this process, which does nothing else.
    let peak = Peak::of(&args.device, &args.id);
    claim.train(args, &stop, || peak.bytes(), &mut |event| {
        if matches!(event, Event::Eval(_)) {
            peak.look();
        }
        screen.show(event);
    })
}

/// The same within a process that does more: takes the run and trains it.
pub(super) fn work(args: &Args, stop: &Stop, mirror: &mut dyn FnMut(&Event)) -> Result<Exit> {
    let asked = stop.clone();
    match Claim::take(args, move |_| asked.request())? {
        Some(claim) => claim.train(args, stop, || None, mirror),
        None => Ok(Exit::LeaseLost),
    }
}

/// What was standard error before it became the attempt's log.
static BEFORE: OnceLock<OwnedFd> = OnceLock::new();

/// From now on standard error is the attempt's log.
fn log_to(claim: &Claim, args: &Args) -> std::io::Result<()> {
    let log = File::options().create(true).append(true).open(claim.folder.log(args.attempt))?;
    let _ = BEFORE.set(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    Ok(rustix::stdio::dup2_stderr(log)?)
}

/// Says that the run is another's now: to whoever started this worker, since the log is the run's.
fn end_without_a_run(error: &Error) -> Exit {
    let turned = BEFORE.get().map_or(Ok(()), rustix::stdio::dup2_stderr);
    if turned.is_ok() {
        say(&error.to_string());
    }
    Exit::LeaseLost
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

/// In the log, and on the scheduler's screen.
fn say_it_waits(line: &str) {
    say(line);
    Screen::default().show(&Event::Warning { at: clock::now(), message: line.into() });
}

/// The events of the attempt that this process trains, once it has begun, and what to ask before they are written.
static EVENTS: OnceLock<(PathBuf, Fence)> = OnceLock::new();

/// The most that is kept of a panic's message as the reason of a failure, in characters. The log has all of it.
const REASON: usize = 1000;

/// A panic in any thread is told in the log, is the last of the attempt's events, and the end of the process.
fn end_at_a_panic() {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    std::panic::set_hook(Box::new(|panic| {
        // What several threads stumble over at once is said once.
        while IS_ENDING.swap(true, Ordering::SeqCst) {
            thread::park();
        }
        let _silence = events::silence();
        let place = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        let message = panic.payload_as_str().unwrap_or("for no stated reason");
        say(&format!("panicked{place}: {message}"));
        let first: String = message.lines().next().unwrap_or_default().chars().take(REASON).collect();
        let outcome = Outcome::Failed { why: format!("panicked{place}: {first}"), retry: true };
        if let Some((path, fence)) = EVENTS.get()
            && fence.check().is_ok()
        {
            let _ = events::last_words(path, outcome.clone()); // the scheduler is told as well
        }
        Screen::default().show(&Event::Finished { at: clock::now(), outcome, peak_bytes: None });
        process::exit(101);
    }));
}

/// Turns signals and standard input into stop requests.
fn listen(stop: &Stop) -> Result<()> {
    let doing = || "listening to signals".into();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !machine::ignores(signal));
    let mut signals = Signals::new(heeded).doing(Exit::Unexpected, doing)?;
    let asked = stop.clone();
    beside("signals", move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            asked.request();
        }
        if arrived.next().is_some() {
            process::exit(Exit::Interrupted as i32);
        }
    })?;
    let asked = stop.clone();
    beside("stdin", move || {
        let _ = std::io::stdin().lock().lines().find(|line| line.as_ref().map_or(true, |word| word == "stop"));
        asked.request();
    })?;
    let asked = stop.clone();
    beside("patience", move || {
        wait_until_stuck(&asked, PATIENCE);
        say("asked to stop, and no progress since: leaving at once; the run goes on from its last checkpoint");
        process::exit(Exit::Interrupted as i32);
    })
}

/// Does something in a thread of its own, to the end of this process. A system that gives us no thread is no panic.
fn beside(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let begun = thread::Builder::new().name(name.into()).spawn(work);
    begun.map(drop).doing(Exit::Unexpected, || format!("starting a thread for {name}"))
}

/// Returns once a stop was asked for and the run has not got on for so long after that. Time in which this process was
/// itself stopped hardly counts.
fn wait_until_stuck(stop: &Stop, patience: Duration) {
    let look = patience / 50;
    let (mut progress, mut still) = (stop.progress(), Duration::ZERO);
    while still < patience {
        thread::sleep(look);
        let now = stop.progress();
        let idle = stop.is_asked() && now == progress;
        still = if idle { still + look } else { Duration::ZERO };
        progress = now;
    }
}

/// Turns a cancel request in the run's journal, made from now on, into a stop request. The scheduler asks as well; but a
/// worker may outlive it, or have none.
fn heed_cancels(folder: &RunFolder, stop: &Stop) -> Result<()> {
    let mut journal = Tail::from_end(folder.journal());
    let asked = stop.clone();
    beside("journal", move || {
        let is_cancel = |line: &String| matches!(serde_json::from_str(line), Ok(Note::Cancelled { .. }));
        while !journal.lines().iter().any(is_cancel) {
            thread::sleep(LOOK);
        }
        asked.request();
    })
}

/// Sets how many threads rayon's own pool has, and with it every parallel loop of this process; once, before the first.
pub fn limit_threads(threads: usize) -> Result<()> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().doing(Exit::Unexpected, || format!("starting {threads} threads"))
}

/// One line on standard error, which is the attempt's log and no screen: so `ui` has no part in it. A log that cannot be written is no reason to end.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_asked_to_stop_and_gets_on_is_not_stuck() {
        let (stop, patience) = (Stop::default(), Duration::from_millis(500));
        let began = Instant::now();
        let stuck = thread::spawn({
            let stop = stop.clone();
            move || wait_until_stuck(&stop, patience)
        });
        thread::sleep(patience * 2);
        assert!(!stuck.is_finished(), "nobody asked");
        stop.request();
        while began.elapsed() < patience * 5 {
            stop.stir();
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!stuck.is_finished(), "it got on");
        stuck.join().unwrap();
        assert!(began.elapsed() >= patience * 5 + patience / 2);
    }

    #[test]
    fn a_worker_is_told_which_lease_to_seize() {
        let sight: Sight = "0011@1700000000000000001".parse().unwrap();
        let args = Args {
            root: "r".into(),
            run: "r/runs/1".into(),
            attempt: 2,
            device: "cpu".into(),
            id: "cpu".into(),
            threads: 1,
            checkpoint_bytes: None,
            seize: Some(sight),
        };
        let line = args.command_line();
        assert_eq!(line[line.len() - 2..], ["--seize", "0011@1700000000000000001"]);
        assert_eq!(Args { seize: None, ..args }.command_line().len(), line.len() - 2);
    }
}
