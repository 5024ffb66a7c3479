//! Executors: they start one try at a run on a slot, pass on what its worker says, and stop it. What is started when is
//! the business of `sched`.
//!
//! The run's folder is the contract between scheduler and worker. A worker takes the run's lock, makes the attempt's
//! folder, and appends its events there; what it sends while it runs serves the screen alone. So an executor can be a
//! thread ([`Inline`]), a process ([`Process`]), or a batch system on other machines.

pub mod device;
mod events;
mod inline;
mod process;
pub mod slots;
pub mod worker;

use std::sync::mpsc::Sender;

pub use inline::Inline;
pub use process::Process;
pub use slots::{Slot, Slots};

use crate::{
    base::{
        Result, RunId,
        folders::{Root, RunFolder},
    },
    event::{Event, Outcome},
    train::checkpoint,
};

/// One try at a run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which run.
    pub run: RunId,
    /// The root that it lies under.
    pub root: Root,
    /// The number of this try, above that of every earlier one.
    pub attempt: u32,
}

impl Job {
    /// The run's folder.
    pub fn folder(&self) -> RunFolder {
        self.root.run(&self.run)
    }
}

/// What comes of a job: any number of events, then its end.
#[derive(Clone, Debug)]
pub enum Message {
    /// Its worker said something. Steps are thinned out to what a screen can show; the file has them all.
    Event {
        /// Which run.
        run: RunId,
        /// What.
        event: Event,
    },
    /// Its worker is gone.
    Ended {
        /// Which run.
        run: RunId,
        /// How.
        ended: Ended,
    },
}

/// How a worker ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It said how, and that stands in the attempt's events.
    Finished(Outcome),
    /// It died without a word: it crashed, was killed, or could not write any more.
    Died {
        /// How, in words: `killed by SIGKILL`.
        why: String,
        /// The step of the last whole checkpoint; 0 where there is none.
        step: u64,
    },
    /// Another worker holds the run, or held it in the meantime; nothing was done.
    Elsewhere,
}

/// Starts jobs.
pub trait Executor {
    /// Starts `job` on `slot`. Everything that comes of it goes to `sender`, [`Message::Ended`] last and once.
    ///
    /// # Errors
    ///
    /// Where nothing was started; then nothing is sent.
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>>;
}

/// A job that was started. Dropping it asks the job to stop.
pub trait Handle {
    /// Asks the worker to write a checkpoint and leave.
    fn stop(&mut self);

    /// Ends the worker, and all that it started, at once.
    fn kill(&mut self);
}

/// How an attempt ended whose worker is gone: what its events say, or else that it died, and how.
pub fn ended(folder: &RunFolder, attempt: u32, why: impl FnOnce() -> String) -> Ended {
    match events::outcome(&folder.events(attempt)) {
        Some(outcome) => Ended::Finished(outcome),
        None => Ended::Died { why: why(), step: checkpoint::latest_step(folder).unwrap_or(0) },
    }
}

/// The name of this machine.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
