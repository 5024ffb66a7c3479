//! Executors: they start one try at a run on a slot, pass on what its worker says, and stop it. What is started when is
//! the business of `sched`.
//!
//! The run's folder is the contract between scheduler and worker. A worker takes the run's lock, makes the attempt's
//! folder, and appends its events there; what it sends while it runs serves the screen alone. So an executor can be a
//! thread ([`Inline`]), a process ([`Process`]), or a batch system on other machines.

mod claim;
pub mod device;
pub mod events;
pub mod import;
mod inline;
mod process;
pub mod slots;
pub mod worker;

use std::{io::ErrorKind, sync::mpsc::Sender};

use rustix::io::Errno;

pub use inline::Inline;
pub use process::Process;
pub use slots::{Slot, Slots};

use crate::{
    base::{
        Error, Exit, Result, RunId,
        folders::{Root, RunFolder},
        lease::Sight,
    },
    event::{Event, OUT_OF_MEMORY, Outcome},
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
    /// Bytes that the run's checkpoints may take, where that is limited.
    pub checkpoint_bytes: Option<u64>,
    /// The lease to seize, where a worker that no longer stirs holds the run.
    pub seize: Option<Sight>,
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
        /// Whether another try might go better.
        retry: bool,
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

/// How an attempt ended whose worker is gone: what its events say, or else that it died.
pub fn ended(folder: &RunFolder, attempt: u32, death: impl FnOnce() -> Failure) -> Ended {
    if let Some(outcome) = events::outcome(&folder.events(attempt)) {
        return Ended::Finished(outcome);
    }
    let Failure { why, retry } = death();
    // Where the checkpoints cannot be listed, the next attempt will say so: it goes on from none that it cannot see.
    Ended::Died { why, step: checkpoint::latest_step(folder).ok().flatten().unwrap_or(0), retry }
}

/// The most bytes of its device's memory that an attempt had, where it is done and knew that.
pub fn peak_of_done(folder: &RunFolder, attempt: u32) -> Option<u64> {
    match events::end(&folder.events(attempt))? {
        (Outcome::Done, peak) => peak,
        _ => None,
    }
}

/// Why an attempt went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// In words: what a failed run is remembered by.
    pub why: String,
    /// Whether another try might go better.
    pub retry: bool,
}

impl Failure {
    /// Of a worker that vanished, which chance may have done.
    pub fn death(why: impl Into<String>) -> Self {
        Self { why: why.into(), retry: true }
    }

    /// Of one for which memory did not suffice, which it would not the next time either.
    pub fn out_of_memory(why: impl std::fmt::Display) -> Self {
        Self { why: format!("{OUT_OF_MEMORY}: {why}"), retry: false }
    }
}

impl From<&Error> for Failure {
    /// A file system that hiccups and a device that others crowd may do better the next time. The spec will not, and what
    /// the system refuses for good waits for a person. What needs more memory than there is needs it again.
    fn from(error: &Error) -> Self {
        let person = error.io.and_then(for_a_person);
        let hint = match (person, error.hint.as_deref()) {
            (Some(hint), _) => Some(format!("{hint}; `exp run` and `exp resume` go on from the last checkpoint")),
            (None, hint) => hint.map(str::to_owned),
        };
        let why = match hint {
            Some(hint) => format!("{error} ({hint})"),
            None => error.to_string(),
        };
        if memory_is_full(&error.why) {
            return Self::out_of_memory(why);
        }
        Self { why, retry: matches!(error.exit, Exit::Store | Exit::Unexpected) && person.is_none() }
    }
}

/// What a person has to do before another try makes sense, where the system's refusal is none that passes by itself.
fn for_a_person(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space",
        ErrorKind::PermissionDenied => "give this user the right to it",
        ErrorKind::ReadOnlyFilesystem => "make the file system writable",
        _ => return None,
    })
}

/// Whether the system's words, or a GPU driver's, for used-up memory stand in `why`.
fn memory_is_full(why: &str) -> bool {
    let system = std::io::Error::from(Errno::NOMEM).to_string();
    why.contains(&system) || why.contains("OUT_OF_MEMORY") || why.to_lowercase().contains(OUT_OF_MEMORY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Context;

    #[test]
    fn what_the_system_refuses_for_good_is_not_tried_again() {
        use rustix::io::Errno;
        for (errno, words, hint, retry) in [
            (Errno::NOSPC, "No space left", "(free some space; ", false),
            (Errno::DQUOT, "uota", "(free some space; ", false),
            (Errno::ACCESS, "ermission denied", "(give this user the right to it; ", false),
            (Errno::PERM, "not permitted", "(give this user the right to it; ", false),
            (Errno::ROFS, "Read-only file system", "(make the file system writable; ", false),
            (Errno::IO, "nput/output error", "", true),
            (Errno::LOOP, "symbolic links", "", true),
        ] {
            let refused = Err::<(), _>(std::io::Error::from(errno)).doing(Exit::Store, || "writing a".into());
            let refused = refused.doing(Exit::Store, || "saving".into()).unwrap_err();
            let failure = Failure::from(&refused);
            assert_eq!(failure.retry, retry, "{failure:?}");
            assert!(failure.why.contains(words) && failure.why.contains(hint), "{failure:?}");
        }
    }

    #[test]
    fn what_another_try_may_mend_is_told_from_what_it_will_not() {
        let failure = |exit, why: &str| Failure::from(&Error::new(exit, "writing events.jsonl", why));
        for (exit, retry) in [(Exit::Store, true), (Exit::Unexpected, true), (Exit::Spec, false)] {
            let why = "writing events.jsonl: no luck".to_owned();
            assert_eq!(failure(exit, "no luck"), Failure { why, retry });
        }
        let named = failure(Exit::Store, "opening /data/No space left on device.txt: no luck");
        assert!(named.retry, "words are no errors: {named:?}");
        let system = std::io::Error::from(Errno::NOMEM).to_string();
        for words in [system.as_str(), "CUDA_ERROR_OUT_OF_MEMORY", "DriverError: Out of memory"] {
            let why = format!("out of memory: writing events.jsonl: {words}");
            assert_eq!(failure(Exit::Unexpected, words), Failure { why, retry: false });
        }
    }
}
