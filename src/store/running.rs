//! Which `exp run` commands of an experiment are at work: each holds a lock of its own under the experiment's folder for as
//! long as it lives, also while none of its workers does. A file that nobody holds is what a killed one left.

use std::{fs, path::PathBuf, time::Duration};

use crate::base::{
    Error, Exit, Result, clock,
    files::{self, Lock},
    folders::Root,
    wait::Wait,
};

/// How long to wait for who removes the experiment, or adds to it; they take milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows that an `exp run` is at work, until it is dropped or its process dies.
#[derive(Debug)]
pub struct Running(Lock);

impl Running {
    /// An `exp run` of the experiment begins. Who [removes](super::remove) the experiment has done so by then, or sees this.
    ///
    /// # Errors
    /// [`Exit::Store`] where that cannot be written down.
    pub fn begin(root: &Root, experiment: &str) -> Result<Self> {
        let path = root.experiment_lock(experiment);
        let wait = Wait { what: "adds to the experiment or removes it", patience: PATIENCE, is_asked: &|| false };
        let stuck = || Error::new(Exit::Store, format!("waiting for {}", wait.holder(&path)), "it does not get on");
        let _alone = wait.take(&path)?.ok_or_else(stuck)?;
        for left in held(root, experiment)?.0 {
            let _ = fs::remove_file(left); // nobody's: it is in nobody's way
        }
        let name = format!("{}-{}.lock", std::process::id(), clock::now());
        let path = root.schedulers(experiment).join(name);
        let taken = || Error::new(Exit::Store, format!("locking {}", path.display()), "another process holds it");
        Lock::try_take(&path)?.map(Self).ok_or_else(taken)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0.path());
    }
}

/// How many `exp run` of an experiment are at work.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told.
pub fn count(root: &Root, experiment: &str) -> Result<usize> {
    Ok(held(root, experiment)?.1)
}

/// The files that nobody holds, and how many somebody does.
fn held(root: &Root, experiment: &str) -> Result<(Vec<PathBuf>, usize)> {
    let folder = root.schedulers(experiment);
    let (mut left, mut held) = (Vec::new(), 0);
    for path in files::names(&folder)?.into_iter().map(|name| folder.join(name)) {
        match Lock::is_held(&path)? {
            true => held += 1,
            false => left.push(path),
        }
    }
    Ok((left, held))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_may_be_at_work_and_what_a_killed_one_left_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert_eq!(count(&root, "tiny").unwrap(), 0);
        fs::create_dir_all(root.schedulers("tiny")).unwrap();
        fs::write(root.schedulers("tiny").join("7-7.lock"), "").unwrap();
        assert_eq!(count(&root, "tiny").unwrap(), 0);
        let first = Running::begin(&root, "tiny").unwrap();
        std::thread::sleep(Duration::from_millis(2)); // else it has the same name
        let second = Running::begin(&root, "tiny").unwrap();
        assert_eq!((count(&root, "tiny").unwrap(), count(&root, "other").unwrap()), (2, 0));
        drop(first);
        assert_eq!(count(&root, "tiny").unwrap(), 1);
        drop(second);
        assert_eq!(files::names(&root.schedulers("tiny")).unwrap().len(), 0, "nothing is left");
    }
}
