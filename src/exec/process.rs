//! Runs each job as a process of its own: a panic, a CUDA fault or an out-of-memory kill ends one run and gives its
//! memory back.
//!
//! A worker stands in a process group of its own, so that the terminal's Ctrl-C reaches it only through its standard
//! input: the line `stop`, or the end of file when the scheduler is gone. Its standard output carries events for the
//! screen through a pipe that never makes it wait; once it holds the run, its standard error is the attempt's log.

use std::{
    io::{BufRead, BufReader, PipeReader, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::PathBuf,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc::Sender},
    thread,
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Pid, Signal, kill_process_group},
};

use super::{Ended, Executor, Failure, Handle, Job, Message, Slot, ended, events::last_line, worker};
use crate::{
    base::{Context, Exit, Result},
    event::{Event, Outcome},
};

/// Runs each job as a process of its own.
#[derive(Debug)]
pub struct Process {
    exe: PathBuf,
}

impl Process {
    /// Workers are this very program, even where its file has been replaced since it started.
    pub fn new() -> Result<Self> {
        let running = PathBuf::from("/proc/self/exe");
        let exe = match running.exists() {
            true => running,
            false => std::env::current_exe().doing(Exit::Unexpected, || "looking for the program of exp".into())?,
        };
        Ok(Self { exe })
    }
}

impl Executor for Process {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        let doing = || format!("starting a worker for the run {}", job.run.short());
        let (output, input) = pipe().doing(Exit::Unexpected, doing)?;
        let args = worker::Args::new(job, slot);
        let mut command = Command::new(&self.exe);
        command.arg0("exp").args(args.command_line()).process_group(0).stdin(Stdio::piped()).stdout(input);
        // candle sizes its thread pools by this when it is first used.
        command.env("RAYON_NUM_THREADS", args.threads.to_string());
        let mut child = spawn_on(slot, &mut command).doing(Exit::Unexpected, doing)?;
        drop(command); // and with it our end of the pipe that the worker writes to
        let stdin = child.stdin.take();
        let child = Arc::new(Mutex::new(child));
        let (job, sender, watched) = (job.clone(), sender.clone(), Arc::clone(&child));
        thread::spawn(move || watch(&job, output, &watched, &sender));
        Ok(Box::new(Worker { child, stdin }))
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
fn pipe() -> std::io::Result<(PipeReader, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe()?;
    fcntl_setfl(&writer, fcntl_getfl(&writer)? | OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

/// Passes on what a worker says until it is gone, then how it ended.
fn watch(job: &Job, output: PipeReader, child: &Mutex<Child>, sender: &Sender<Message>) {
    let run = job.run;
    let mut failure = None;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(event) = serde_json::from_str::<Event>(&line) else { continue };
        if let Event::Finished { outcome: Outcome::Failed { why, retry }, .. } = &event {
            failure = Some(Failure { why: why.clone(), retry: *retry });
        }
        drop(sender.send(Message::Event { run, event }));
    }
    let status = child.lock().unwrap_or_else(|e| e.into_inner()).wait();
    let ended = match status {
        Ok(status) if status.code() == Some(Exit::LeaseLost as i32) => Ended::Elsewhere,
        // A failure that it could not write down (on a full disk) is the cause of what follows from that.
        Ok(status) => {
            ended(&job.folder(), job.attempt, || failure.unwrap_or_else(|| Failure::death(cause(job, status))))
        }
        Err(error) => {
            ended(&job.folder(), job.attempt, || Failure::death(format!("lost sight of its worker: {error}")))
        }
    };
    drop(sender.send(Message::Ended { run, ended }));
}

/// `killed by SIGKILL`, or `exited with 101: ` and the last line of its log.
fn cause(job: &Job, status: ExitStatus) -> String {
    let how = match status.signal().map(|signal| (signal, signal_hook::low_level::signal_name(signal))) {
        Some((_, Some(name))) => format!("killed by {name}"),
        Some((signal, None)) => format!("killed by signal {signal}"),
        None => format!("exited with {}", status.code().unwrap_or(-1)),
    };
    match last_line(&job.folder().log(job.attempt)) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    }
}

struct Worker {
    child: Arc<Mutex<Child>>,
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
        // Where the lock is taken, its watcher is waiting for the last of it. Where it has been waited for, its process
        // id may be another's.
        let Ok(mut child) = self.child.try_lock() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::base::{RunId, folders::Root};

    /// A worker played by a script; the attempt says which part it plays.
    struct Play {
        handle: Option<Box<dyn Handle>>,
        messages: Receiver<Message>,
        _root: tempfile::TempDir,
    }

    impl Play {
        fn part(attempt: u32) -> Self {
            let root = tempfile::tempdir().unwrap();
            let job = Job { run: RunId([7; 32]), root: Root::new(root.path()), attempt, seize: None };
            std::fs::create_dir_all(job.folder().path()).unwrap();
            let process = Process { exe: concat!(env!("CARGO_MANIFEST_DIR"), "/tests/workers/actor.sh").into() };
            let (sender, messages) = channel();
            let handle = process.start(&job, &Slot::unlocked("cuda:1", 3), &sender).unwrap();
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

    #[test]
    fn a_kill_ends_all_that_the_worker_started() {
        let mut play = Play::part(6);
        play.says();
        play.handle.as_mut().unwrap().kill();
        // The script's own child holds the pipe: only its end brings this.
        assert_eq!(play.ends(), died("killed by SIGKILL"));
        play.handle.as_mut().unwrap().kill();
    }

    #[test]
    fn a_worker_is_told_its_slot() {
        assert_eq!(Play::part(8).says(), (3, "cuda:1".into()));
    }
}
