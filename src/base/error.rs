//! The one error type, and the exit code that each kind of error ends the process with.
//!
//! An [`Error`] says what was being done to which file or run, why it failed, and, where there is something to do about
//! it, a hint. It is made where the failure is understood, not where it is printed.

use std::{any::Any, fmt::Display, io};

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
    /// What the system answered, where it was the system that refused: words alone do not tell a full disk from one that
    /// hiccups.
    pub io: Option<io::ErrorKind>,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the given kind: what was being done, and why it failed.
    pub fn new(exit: Exit, doing: impl Into<String>, why: impl Display) -> Self {
        Self { exit, doing: doing.into(), why: why.to_string(), hint: None, io: None }
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with what the system answered.
    #[must_use]
    pub fn io(mut self, kind: impl Into<Option<io::ErrorKind>>) -> Self {
        self.io = kind.into();
        self
    }

    /// The same failure as part of something greater: what that was, with this error as its reason.
    #[must_use]
    pub fn within(self, doing: impl Into<String>) -> Self {
        let (exit, io, hint) = (self.exit, self.io, self.hint.clone());
        Self { exit, doing: doing.into(), why: self.to_string(), hint, io }
    }
}

/// Turns any displayable error into an [`Error`] by saying what was being done. What the system answered is kept.
pub trait Context<T> {
    /// `doing` is only built when there is an error.
    fn doing(self, exit: Exit, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display + 'static> Context<T> for Result<T, E> {
    fn doing(self, exit: Exit, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| {
            let io = io_kind(&e);
            Error::new(exit, doing(), e).io(io)
        })
    }
}

/// What the system answered, for the kinds of errors that tell.
fn io_kind(error: &dyn Any) -> Option<io::ErrorKind> {
    let system = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let json = || error.downcast_ref::<serde_json::Error>()?.io_error_kind();
    let own = || error.downcast_ref::<Error>()?.io;
    system.or_else(json).or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_answered_is_kept_however_often_an_error_is_wrapped() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let once = Err::<(), _>(full()).doing(Exit::Store, || "writing a".into()).unwrap_err();
        assert_eq!(once.io, Some(io::ErrorKind::StorageFull));
        let twice = Err::<(), _>(once.hint("free some space")).doing(Exit::Store, || "saving".into()).unwrap_err();
        assert_eq!(twice.io, Some(io::ErrorKind::StorageFull));
        let within = twice.hint("h").within("training");
        assert_eq!((within.io, within.hint.as_deref()), (Some(io::ErrorKind::StorageFull), Some("h")));
        assert!(within.to_string().starts_with("training: saving: writing a: "), "{within}");
        let words = Err::<(), _>("No space left on device").doing(Exit::Store, || "writing".into()).unwrap_err();
        assert_eq!(words.io, None);
    }
}
