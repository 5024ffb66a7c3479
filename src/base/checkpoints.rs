//! The folders of checkpoints as anybody may read them: their names, their order, and whether all that was written is
//! still there. What stands in their files is known to those who write them, in `train`.

use std::path::PathBuf;

pub use super::manifest::{Fault, FileRef, MANIFEST, Manifest};
use super::{Result, files, folders::RunFolder};

/// A checkpoint's folder. That it exists says that it was whole when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// Updates that it holds.
    pub step: u64,
    /// Its folder.
    pub path: PathBuf,
}

/// All checkpoints of a run, newest first: those of the latest attempt before those of an earlier one, since what an
/// earlier one logged after the step that a later one went on from is void.
///
/// # Errors
/// Where the folder is there and cannot be listed: a run that seems to have no checkpoint would begin anew, and make void
/// all that it has done.
pub fn list(folder: &RunFolder) -> Result<Vec<Saved>> {
    let all = folder.checkpoints();
    let names = files::names(&all)?;
    let mut found: Vec<Saved> = names.iter().filter_map(|name| Saved::at(all.join(name))).collect();
    found.sort_by_key(|s| std::cmp::Reverse((s.attempt, s.step)));
    Ok(found)
}

/// The step of the newest checkpoint that is not seen to be damaged: what an interrupted run goes on from.
///
/// # Errors
/// As [`list`].
pub fn latest_step(folder: &RunFolder) -> Result<Option<u64>> {
    Ok(list(folder)?.into_iter().find(|s| !s.is_damaged()).map(|s| s.step))
}

impl Saved {
    /// `None` where the path's name is not a checkpoint's.
    pub fn at(path: PathBuf) -> Option<Self> {
        let (step, attempt) = path.file_name()?.to_str()?.strip_prefix("step-")?.split_once(".attempt-")?;
        Some(Self { attempt: attempt.parse().ok()?, step: step.parse().ok()?, path })
    }

    /// Its folder's name.
    pub fn name(&self) -> String {
        format!("step-{}.attempt-{}", self.step, self.attempt)
    }

    /// Its folder as seen from the run's.
    pub fn relative(&self) -> String {
        format!("checkpoints/{}", self.name())
    }

    /// Its manifest, once all files are there in the size that it says. Reads no other file.
    pub fn manifest(&self) -> Result<Manifest, Fault> {
        let manifest = Manifest::read(&self.path).map_err(hinted)?;
        manifest.files.iter().try_for_each(|file| file.check_size(&self.path)).map_err(hinted)?;
        Ok(manifest)
    }

    /// Whether a file of it lacks or has another size; one that cannot be read is not known to.
    pub fn is_damaged(&self) -> bool {
        matches!(self.manifest(), Err(Fault::Damaged(_)))
    }

    /// Errors where a file lacks or is not, byte for byte, what was written.
    pub fn verify(&self) -> Result<(), Fault> {
        self.manifest()?.files.iter().try_for_each(|file| file.verify(&self.path)).map_err(hinted)
    }

    /// Bytes of its files, as far as they are there.
    pub fn bytes(&self) -> u64 {
        files::size(&self.path)
    }
}

/// What to do where a checkpoint could not be read.
fn hinted(fault: Fault) -> Fault {
    let hint = "nothing was changed: try again, or move this checkpoint away to go on from the one before it";
    match fault {
        Fault::Unreadable(error) => Fault::Unreadable(error.hint(hint)),
        damaged => damaged,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::base::Exit;

    /// A checkpoint of one file.
    fn make(folder: &RunFolder, name: &str) -> PathBuf {
        let path = folder.checkpoints().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("state.json"), "{}").unwrap();
        Manifest { files: vec![FileRef::of("state.json", b"{}")] }.write(&path).unwrap();
        path
    }

    #[test]
    fn the_latest_step_is_that_of_the_newest_whole_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        assert_eq!(latest_step(&folder).unwrap(), None);
        for name in ["step-100.attempt-1", "step-300.attempt-1", ".aside-step-260.attempt-2", "step-x.attempt-9"] {
            make(&folder, name);
        }
        make(&folder, "step-200.attempt-2");
        fs::remove_file(make(&folder, "step-250.attempt-2").join(MANIFEST)).unwrap();
        fs::write(make(&folder, "step-270.attempt-2").join("state.json"), "{").unwrap();
        fs::remove_file(make(&folder, "step-280.attempt-2").join("state.json")).unwrap();
        fs::write(make(&folder, "step-290.attempt-2").join(MANIFEST), "{}").unwrap();
        assert_eq!(latest_step(&folder).unwrap(), Some(200));
        assert_eq!(
            list(&folder).unwrap().iter().map(|s| s.step).collect::<Vec<_>>(),
            [290, 280, 270, 250, 200, 300, 100]
        );
    }

    #[test]
    fn checkpoints_that_cannot_be_listed_are_not_taken_for_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        std::os::unix::fs::symlink("checkpoints", folder.checkpoints()).unwrap(); // ELOOP
        for error in [list(&folder).map(drop).unwrap_err(), latest_step(&folder).map(drop).unwrap_err()] {
            assert!(error.exit == Exit::Store && error.doing.contains("listing "), "{error}");
            assert!(error.doing.ends_with("/checkpoints"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_apart_from_what_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        let path = make(&folder, "step-5.attempt-1");
        let verify = || list(&folder).unwrap()[0].verify();
        verify().unwrap();
        fs::write(path.join("state.json"), "[]").unwrap();
        assert!(matches!(verify(), Err(Fault::Damaged(_))), "as long, but another content");
        assert!(!list(&folder).unwrap()[0].is_damaged(), "sizes alone do not tell");

        fs::remove_file(path.join("state.json")).unwrap();
        std::os::unix::fs::symlink("state.json", path.join("state.json")).unwrap(); // ELOOP
        assert!(matches!(verify(), Err(Fault::Unreadable(_))));
        assert!(!list(&folder).unwrap()[0].is_damaged());
    }
}
