//! The one error type, and the exit code that each kind of error ends the process with.
//!
//! An [`Error`] says what was being done to which file or run, why it failed, and, where there is something to do about
//! it, a hint. It is made where the failure is understood, not where it is printed.

use std::fmt::Display;

/// How the process ends. The numbers are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything that was asked for is done.
    Done = 0,
    /// Something that should not happen.
    Unexpected = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// The spec, or the data it names, is invalid; nothing was started.
    Spec = 3,
    /// At least one run failed or was left out; the others went on, or stopped because of it.
    RunFailed = 4,
    /// The index or the folders of runs cannot be read or written.
    Store = 5,
    /// A worker found that its run now belongs to another worker.
    LeaseLost = 75,
    /// Stopped by a signal or a cancel; what was running is checkpointed.
    Interrupted = 130,
}

/// What was being done, why it failed, what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing}: {why}")]
pub struct Error {
    /// The exit code of a process that ends with this error.
    pub exit: Exit,
    /// What was being done, to which file or run: "reading runs/exp.db".
    pub doing: String,
    /// Why that failed. May span lines (a spec's caret).
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the given kind: what was being done, and why it failed.
    pub fn new(exit: Exit, doing: impl Into<String>, why: impl Display) -> Self {
        Self { exit, doing: doing.into(), why: why.to_string(), hint: None }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Turns any displayable error into an [`Error`] by saying what was being done.
pub trait Context<T> {
    /// `doing` is only built when there is an error.
    fn doing(self, exit: Exit, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn doing(self, exit: Exit, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::new(exit, doing(), e))
    }
}
