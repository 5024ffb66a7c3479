//! Runs each job as a process of its own: a panic, a CUDA fault or an out-of-memory kill ends one run and gives its
//! memory back.
//!
//! A worker stands in a process group of its own, so that the terminal's Ctrl-C reaches it only through its standard
//! input: the line `stop`, or the end of file when the scheduler is gone. Its standard output carries events for the
//! screen through a pipe that never makes it wait; once it holds the run, its standard error is the attempt's log.

use std::{
    fmt,
    io::{BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, mpsc::Sender},
    thread,
    time::Duration,
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use signal_hook::consts::{SIGABRT, SIGKILL};

use super::{
    Ended, Executor, Failure, Handle, Job, Message, Slot, device, ended,
    events::{last_line, last_line_that},
    worker,
};
use crate::{
    base::{Context, Exit, Result, RunId, cgroup, provenance::Provenance},
    event::{Event, Outcome},
};

/// Runs each job as a process of its own.
#[derive(Debug)]
pub struct Process {
    exe: PathBuf,
    kills: Arc<OomKills>,
}

impl Process {
    /// Workers are this very program, even where its file has been replaced since it started.
    pub fn new() -> Result<Self> {
        let running = PathBuf::from("/proc/self/exe");
        let exe = match running.exists() {
            true => running,
            false => std::env::current_exe().doing(Exit::Unexpected, || "looking for the program of exp".into())?,
        };
        Ok(Self { exe, kills: Arc::new(OomKills::new(cgroup::oom_kills)) })
    }
}

impl Executor for Process {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        let doing = || format!("starting a worker for the run {}", job.run.short());
        let (output, input) = pipe().doing(Exit::Unexpected, doing)?;
        let args = worker::Args::new(job, slot);
        let mut command = Command::new(&self.exe);
        command.arg0("exp").args(args.command_line()).process_group(0).stdin(Stdio::piped());
        command.stdout(input.try_clone().doing(Exit::Unexpected, doing)?);
        // candle sizes its thread pools by this when it is first used.
        command.env("RAYON_NUM_THREADS", args.threads.to_string());
        command.envs(device::environment(&args.device, &args.id));
        command.envs([Provenance::handed_down()]);
        if Arc::strong_count(&self.kills) == 1 {
            self.kills.forget(); // no worker of ours lives: whatever was killed until now was somebody else's
        }
        let mut child = spawn_on(slot, &mut command).doing(Exit::Unexpected, doing)?;
        drop(command); // and with it our end of the pipe that the worker writes to
        let stdin = child.stdin.take();
        let group = Group::of(&child);
        let watch =
            Watch { job: job.clone(), group: group.clone(), kills: Arc::clone(&self.kills), sender: sender.clone() };
        thread::spawn(move || watch.until_it_is_gone(child, output, input));
        Ok(Box::new(Worker { group, stdin }))
    }
}

/// Starts a program that holds the slot until it ends, whatever becomes of this process before: one that goes on alone
/// still computes there. Nothing else may be started meanwhile, which the one thread of the dispatcher sees to.
fn spawn_on(slot: &Slot, command: &mut Command) -> std::io::Result<Child> {
    slot.inherit(true)?;
    let child = command.spawn();
    slot.inherit(false)?;
    child
}

/// A pipe whose writer loses what the reader is too slow or too stopped to take.
fn pipe() -> std::io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    fcntl_setfl(&writer, fcntl_getfl(&writer)? | OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

/// The line that ends what is read of a worker. We write it ourselves once the worker is gone: the end of the file would
/// wait for whoever else holds the pipe, such as a child of the worker that has left its process group.
const OVER: &str = "\u{4}";

/// What watches over one worker.
struct Watch {
    job: Job,
    group: Group,
    kills: Arc<OomKills>,
    sender: Sender<Message>,
}

impl Watch {
    /// Passes on what the worker says until it is gone, sees to it that all of its process group goes with it, then tells
    /// how it ended.
    fn until_it_is_gone(self, mut child: Child, output: PipeReader, mut input: PipeWriter) {
        let run = self.job.run;
        let (status, failure) = thread::scope(|scope| {
            let reader = scope.spawn(|| pass_on(run, output, &self.sender));
            let status = self.group.outlast(&mut child);
            while matches!(writeln!(input, "\n{OVER}"), Err(e) if e.kind() == ErrorKind::WouldBlock) {
                thread::sleep(Duration::from_millis(1)); // the pipe is full; its reader is at it
            }
            (status, reader.join().unwrap_or_default())
        });
        let ended = match status {
            Ok(status) if status.code() == Some(Exit::LeaseLost as i32) => Ended::Elsewhere,
            status => ended(&self.job.folder(), self.job.attempt, || match (failure, status) {
                // A failure that it could not write down (on a full disk) is the cause of what follows from that.
                (Some(failure), _) => failure,
                (None, Ok(status)) => self.death(status),
                (None, Err(error)) => Failure::death(format!("lost sight of its worker: {error}")),
            }),
        };
        let Self { sender, kills, .. } = self;
        drop(kills); // before anybody acts on the end, and starts the next
        drop(sender.send(Message::Ended { run, ended }));
    }

    /// `killed by SIGKILL`, or `exited with 101: ` and the last line of its log. Where memory did not suffice, the kernel
    /// kills with a signal that others send as well, and Rust aborts after a word in the log.
    fn death(&self, status: ExitStatus) -> Failure {
        let how = match status.signal().map(|signal| (signal, signal_hook::low_level::signal_name(signal))) {
            Some((_, Some(name))) => format!("killed by {name}"),
            Some((signal, None)) => format!("killed by signal {signal}"),
            None => format!("exited with {}", status.code().unwrap_or(-1)),
        };
        let log = self.job.folder().log(self.job.attempt);
        // A backtrace may follow that line.
        let refused = |line: &str| status.signal() == Some(SIGABRT) && line.starts_with("memory allocation of");
        if let Some(line) = last_line_that(&log, refused) {
            return Failure::out_of_memory(line);
        }
        if status.signal() == Some(SIGKILL) && !self.group.was_killed() && self.kills.take_one() {
            return Failure::out_of_memory(how);
        }
        Failure::death(match last_line(&log) {
            Some(line) => format!("{how}: {line}"),
            None => how,
        })
    }
}

/// The kills for want of memory in our control group that no worker's death has been put down to.
struct OomKills {
    count: fn() -> Option<u64>,
    seen: Mutex<Option<u64>>,
}

impl OomKills {
    /// From now on.
    fn new(count: fn() -> Option<u64>) -> Self {
        Self { count, seen: Mutex::new(count()) }
    }

    /// Leaves those that were counted so far to others.
    fn forget(&self) {
        *self.seen.lock().unwrap_or_else(|e| e.into_inner()) = (self.count)();
    }

    /// Puts one death down to them, where there is one that no other death explains.
    fn take_one(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        let rose = seen.zip((self.count)()).is_some_and(|(seen, now)| now > seen);
        if rose {
            *seen = seen.map(|seen| seen + 1);
        }
        rose
    }
}

impl fmt::Debug for OomKills {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("OomKills").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Passes on the events among a worker's lines; returns the failure that it told of.
fn pass_on(run: RunId, output: PipeReader, sender: &Sender<Message>) -> Option<Failure> {
    let mut failure = None;
    for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
        if line == OVER.as_bytes() {
            break;
        }
        let Ok(event) = serde_json::from_slice::<Event>(&line) else { continue };
        if let Event::Finished { outcome: Outcome::Failed { why, retry }, .. } = &event {
            failure = Some(Failure { why: why.clone(), retry: *retry });
        }
        drop(sender.send(Message::Event { run, event }));
    }
    failure
}

/// The process group that a worker leads: itself, and all that it started and that did not leave it.
#[derive(Clone)]
struct Group {
    id: Option<Pid>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Once its leader has been waited for, the group's id may become another's.
    is_gone: bool,
    /// It was we who killed it.
    was_killed: bool,
}

impl Group {
    fn of(leader: &Child) -> Self {
        Self { id: i32::try_from(leader.id()).ok().and_then(Pid::from_raw), state: Arc::default() }
    }

    /// Ends all of it at once, stopped processes as well.
    fn kill(&self) {
        let mut state = self.state();
        if !state.is_gone {
            state.was_killed = true;
            self.signal();
        }
    }

    /// Waits until the leader has ended, then ends what it left behind: as long as nobody has waited for the leader in
    /// earnest, the group's id is its own.
    fn outlast(&self, leader: &mut Child) -> std::io::Result<ExitStatus> {
        let left = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while self.id.is_some_and(|id| matches!(waitid(WaitId::Pid(id), left), Err(Errno::INTR))) {}
        let mut state = self.state();
        self.signal();
        let status = leader.wait();
        state.is_gone = true;
        status
    }

    fn signal(&self) {
        // It may be gone by itself.
        let _ = self.id.map(|id| kill_process_group(id, Signal::KILL));
    }

    fn was_killed(&self) -> bool {
        self.state().was_killed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

struct Worker {
    group: Group,
    stdin: Option<ChildStdin>,
}

impl Handle for Worker {
    fn stop(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // One that has gone already needs no asking.
            let _ = stdin.write_all(b"stop\n");
        }
    }

    fn kill(&mut self) {
        self.group.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, channel},
    };

    use super::*;
    use crate::base::folders::Root;

    /// A worker played by a script; the attempt says which part it plays.
    struct Play {
        handle: Option<Box<dyn Handle>>,
        messages: Receiver<Message>,
        _root: tempfile::TempDir,
    }

    impl Play {
        fn part(attempt: u32) -> Self {
            Self::with(attempt, || None)
        }

        /// In a control group that counts its kills like this.
        fn with(attempt: u32, kills: fn() -> Option<u64>) -> Self {
            let root = tempfile::tempdir().unwrap();
            let job =
                Job { run: RunId([7; 32]), root: Root::new(root.path()), attempt, checkpoint_bytes: None, seize: None };
            std::fs::create_dir_all(job.folder().path()).unwrap();
            let exe = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/actor.sh").into();
            let process = Process { exe, kills: Arc::new(OomKills::new(kills)) };
            let (sender, messages) = channel();
            let handle = process.start(&job, &Slot::unlocked("cuda:77", 3), &sender).unwrap();
            Self { handle: Some(handle), messages, _root: root }
        }

        fn says(&self) -> (i64, String) {
            match self.messages.recv().unwrap() {
                Message::Event { event: Event::Warning { at, message }, .. } => (at, message),
                other => panic!("{other:?}"),
            }
        }

        fn ends(&self) -> Ended {
            match self.messages.iter().last().unwrap() {
                Message::Ended { ended, .. } => ended,
                other => panic!("{other:?}"),
            }
        }
    }

    fn died(why: &str) -> Ended {
        Ended::Died { why: why.into(), step: 0, retry: true }
    }

    #[test]
    fn what_a_worker_says_is_passed_on_and_a_run_held_elsewhere_is_told_apart() {
        let play = Play::part(1);
        assert_eq!(play.says(), (1, "hello".into()));
        assert_eq!(play.ends(), Ended::Elsewhere);
    }

    #[test]
    fn a_death_is_told_in_words() {
        assert_eq!(Play::part(2).ends(), died("exited with 101: panicked at engine.rs:7: no"));
        assert_eq!(Play::part(3).ends(), died("killed by SIGKILL"));
        let full = Ended::Died { why: "no space left".into(), step: 0, retry: false };
        assert_eq!(Play::part(7).ends(), full, "what it could say but not write down");
    }

    #[test]
    fn a_worker_is_asked_to_stop_on_its_standard_input() {
        let mut play = Play::part(4);
        play.handle.as_mut().unwrap().stop();
        assert_eq!(play.ends(), Ended::Finished(Outcome::Interrupted { step: "stop".len() as u64 }));
    }

    #[test]
    fn a_worker_sees_when_its_scheduler_is_gone() {
        let mut play = Play::part(5);
        play.handle = None;
        assert_eq!(play.ends(), died("exited with 1"));
    }

    /// Whether something of a process group lives; zombies wait for whoever is to take note of them.
    fn lives(group: i64) -> bool {
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.any(|stat| {
            let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            !matches!(words[0], "Z" | "X") && words[2] == group.to_string()
        })
    }

    /// Whether it is gone, at the latest a moment after it was killed.
    fn is_gone(group: i64) -> bool {
        let killed = std::time::Instant::now();
        while lives(group) && killed.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(5));
        }
        !lives(group)
    }

    #[test]
    fn a_kill_ends_all_that_the_worker_started() {
        let mut play = Play::part(6);
        let group = play.says().0;
        assert!(lives(group));
        play.handle.as_mut().unwrap().kill();
        assert_eq!(play.ends(), died("killed by SIGKILL"));
        assert!(is_gone(group));
        play.handle.as_mut().unwrap().kill();
    }

    #[test]
    fn a_worker_that_is_stopped_is_killed_like_any_other() {
        let mut play = Play::part(6);
        let group = play.says().0;
        kill_process_group(Pid::from_raw(group as i32).unwrap(), Signal::STOP).unwrap();
        play.handle.as_mut().unwrap().kill();
        assert_eq!(play.ends(), died("killed by SIGKILL"));
        assert!(is_gone(group));
    }

    #[test]
    fn what_a_worker_leaves_in_its_group_goes_with_it() {
        let play = Play::part(9);
        let group = play.says().0;
        assert_eq!(play.ends(), died("exited with 1"));
        assert!(is_gone(group), "its child would sleep on");
    }

    #[test]
    fn a_child_that_left_the_group_and_keeps_the_pipe_keeps_nobody_waiting() {
        let play = Play::part(10);
        let child = play.says().0;
        assert_eq!(play.ends(), died("exited with 1"));
        let child = Pid::from_raw(child as i32).unwrap();
        kill_process_group(child, Signal::KILL).expect("it has a group of its own, which is not ours to end");
    }

    #[test]
    fn a_death_for_want_of_memory_is_told_from_others_and_not_tried_again() {
        let out_of_memory = |how: &str| Ended::Died { why: format!("out of memory: {how}"), step: 0, retry: false };
        assert_eq!(Play::part(11).ends(), out_of_memory("memory allocation of 4096 bytes failed"));
        assert_eq!(Play::part(12).ends(), died("killed by SIGABRT: free(): invalid pointer"));

        static KILLS: AtomicU64 = AtomicU64::new(7);
        let rising = || Some(KILLS.fetch_add(1, Ordering::SeqCst));
        assert_eq!(Play::with(3, rising).ends(), out_of_memory("killed by SIGKILL"));
        assert_eq!(Play::with(3, || Some(7)).ends(), died("killed by SIGKILL"), "somebody else's doing");
        let mut play = Play::with(6, rising);
        play.says();
        play.handle.as_mut().unwrap().kill();
        assert_eq!(play.ends(), died("killed by SIGKILL"), "our own doing");
        assert_eq!(Play::with(2, rising).ends(), died("exited with 101: panicked at engine.rs:7: no"));
    }

    #[test]
    fn each_kill_explains_one_death() {
        static KILLS: AtomicU64 = AtomicU64::new(7);
        let kills = OomKills::new(|| Some(KILLS.load(Ordering::SeqCst)));
        assert!(!kills.take_one());
        KILLS.store(9, Ordering::SeqCst);
        assert_eq!([(); 4].map(|()| kills.take_one()), [true, true, false, false]);
        assert!(!OomKills::new(|| None).take_one(), "nobody counts");
    }

    #[test]
    fn kills_from_before_a_worker_was_started_are_not_put_down_to_it() {
        static KILLS: AtomicU64 = AtomicU64::new(7);
        let root = tempfile::tempdir().unwrap();
        let exe = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/actor.sh").into();
        let process = Process { exe, kills: Arc::new(OomKills::new(|| Some(KILLS.load(Ordering::SeqCst)))) };
        let end_of = |attempt| {
            let (sender, messages) = channel();
            let job =
                Job { run: RunId([7; 32]), root: Root::new(root.path()), attempt, checkpoint_bytes: None, seize: None };
            std::fs::create_dir_all(job.folder().path()).unwrap();
            let handle = process.start(&job, &Slot::unlocked("cpu", 1), &sender).unwrap();
            drop(sender);
            let last = messages.iter().last();
            drop(handle);
            last
        };
        for _ in 0..2 {
            assert!(matches!(end_of(1), Some(Message::Ended { ended: Ended::Elsewhere, .. })));
            KILLS.fetch_add(1, Ordering::SeqCst);
            let Some(Message::Ended { ended, .. }) = end_of(3) else { panic!("it says how it ended") };
            assert_eq!(ended, died("killed by SIGKILL"));
        }
    }

    #[test]
    fn a_worker_is_told_its_slot() {
        // No machine calls a GPU by that id, so the worker would see none rather than another.
        assert_eq!(Play::part(8).says(), (3, "cuda:77, sees cuda:77 in PCI_BUS_ID".into()));
    }
}
