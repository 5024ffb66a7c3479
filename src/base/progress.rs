//! Long work of a known size, for whoever is watching. What is shown of it, and where, a layer decides that knows this
//! process's screen; in a worker nothing is.

use std::sync::OnceLock;

/// What shows how far a piece of work is; it is gone when it is dropped.
pub trait Show {
    /// So much of so much is done.
    fn at(&self, done: u64, of: u64);
}

/// A piece of work that is being done.
pub struct Progress(Option<Box<dyn Show>>);

impl Progress {
    /// Work that begins; `what` says which: `downloading shakespeare`.
    pub fn of(what: &str) -> Self {
        Self(SHOW.get().map(|show| show(what)))
    }

    /// So much of so much is done, in whatever unit.
    pub fn at(&self, done: u64, of: u64) {
        if let Some(show) = &self.0 {
            show.at(done, of);
        }
    }
}

/// What shows a piece of work of that name.
type Shower = fn(&str) -> Box<dyn Show>;

static SHOW: OnceLock<Shower> = OnceLock::new();

/// Has work shown from now on, once for the whole process.
pub fn show_with(show: Shower) {
    let _ = SHOW.set(show);
}
