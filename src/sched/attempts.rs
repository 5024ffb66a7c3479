//! The numbers of attempts at runs, which stand in the names of their folders.

use std::{fs, io::ErrorKind};

use super::{PlannedRun, Reason};
use crate::base::{
    Context, Exit, Result,
    files::Lock,
    folders::{Root, RunFolder},
};

/// A run that was new when it was planned had no attempt then: one that it has now is another process's.
pub fn known_attempt(run: &PlannedRun, root: &Root) -> Result<u32> {
    match run.reason {
        Reason::New => Ok(0),
        _ => last_attempt(&root.run(&run.frozen.id)),
    }
}

/// The number of the last attempt that has a folder; 0 where there is none.
pub fn last_attempt(folder: &RunFolder) -> Result<u32> {
    Ok(folder.attempts()?.last().copied().unwrap_or(0))
}

/// Sees to it that the number of an attempt that is given up is not given to another: where its worker died before it
/// made the attempt's folder, or could not be started, makes it. `false` where another process has taken the run up.
///
/// Not done before a worker is started: a folder without a worker that holds the run tells other schedulers that this
/// attempt is over, and they would begin the next one.
pub fn spend(folder: &RunFolder, attempt: u32) -> Result<bool> {
    let path = folder.attempt(attempt);
    if path.exists() {
        return Ok(true);
    }
    let Some(_lock) = Lock::try_take(&folder.lock())? else { return Ok(false) };
    match fs::create_dir(&path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true).doing(Exit::Store, || format!("making {}", path.display())),
    }
}
