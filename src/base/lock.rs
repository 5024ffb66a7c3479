//! Lock files, which the kernel frees when the last process that has them open dies. The file stays; who takes a lock
//! over from a holder that no longer stirs puts another file in its place, so a lock is held by whoever holds the file
//! that stands at its path *now*.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use super::{Context, Exit, Result, files};

/// How long to wait for those who only ask whether a lock is held. They take microseconds, unless they are stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// An exclusive lock on a file, held until it is dropped or its process dies. The file stays.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock if nobody holds it; `None` where somebody does, or where somebody who only asks has been stopped
    /// while asking. Makes the file and its folder.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let doing = || format!("locking {}", path.display());
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let lock = Self::open(path)?;
            if free(lock.file.try_lock()).doing(Exit::Store, doing)? {
                match lock.stands().doing(Exit::Store, doing)? {
                    true => return Ok(Some(lock)),
                    false => continue, // another file was put in its place between opening and locking it
                }
            }
            // Whoever asks `is_held` shares the lock for an instant; only a holder keeps us from sharing it as well.
            if !free(lock.file.try_lock_shared()).doing(Exit::Store, doing)? {
                return Ok(None);
            }
            drop(lock);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(None)
    }

    /// Takes the lock whoever holds it, if `still` says so when nobody else is about to do the same: a new file with
    /// this content takes the place of the old one, whose holder finds that it no longer [`stands`](Self::stands).
    /// `None` where others were faster.
    pub fn seize(path: &Path, content: &str, still: impl FnOnce() -> io::Result<bool>) -> Result<Option<Self>> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".seize");
        let Some(_alone) = Self::try_take(&path.with_file_name(name))? else { return Ok(None) };
        let seize = || -> io::Result<Option<Self>> {
            if !still()? {
                return Ok(None);
            }
            // Where nobody here holds the old file, nobody shall take it meanwhile.
            let old = OpenOptions::new().read(true).append(true).open(path)?;
            free(old.try_lock())?;
            let mut new = tempfile::Builder::new()
                .prefix(files::ASIDE)
                .permissions(files::readable())
                .tempfile_in(files::folder_of(path))?;
            new.write_all(content.as_bytes())?;
            if !free(new.as_file().try_lock())? {
                return Ok(None);
            }
            Ok(Some(Self { file: new.persist(path)?, path: path.into() }))
        };
        seize().doing(Exit::Store, || format!("taking over {}", path.display()))
    }

    /// Whether somebody, this process included, holds the lock now. Writes nothing, so it may be asked of a folder that
    /// one can only read, and any number may ask at once.
    pub fn is_held(path: &Path) -> Result<bool> {
        let probe = || match File::open(path) {
            Ok(file) => free(file.try_lock_shared()).map(|free| !free),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        };
        probe().doing(Exit::Store, || format!("asking who holds {}", path.display()))
    }

    /// Whether the file that is locked is still the one at its path: if not, somebody took the lock over.
    pub fn stands(&self) -> io::Result<bool> {
        let mine = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) => Ok((mine.dev(), mine.ino()) == (there.dev(), there.ino())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Where the lock is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file's content, for those who ask who holds the lock.
    pub fn note(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(text.as_bytes())
    }

    /// Shows that the holder still stirs: the file's time becomes now.
    pub fn touch(&self) -> io::Result<()> {
        self.file.set_modified(SystemTime::now())
    }

    /// Whether programs that this process starts inherit the lock. One that did holds it as well, so that it is free
    /// only when both are gone.
    pub fn inherit(&self, inherit: bool) -> io::Result<()> {
        let mut flags = fcntl_getfd(&self.file)?;
        flags.set(FdFlags::CLOEXEC, !inherit);
        Ok(fcntl_setfd(&self.file, flags)?)
    }

    fn open(path: &Path) -> Result<Self> {
        let folder = files::folder_of(path);
        files::make_folder(folder).doing(Exit::Store, || format!("making the folder {}", folder.display()))?;
        let open = OpenOptions::new().create(true).read(true).append(true).open(path);
        let file = open.doing(Exit::Store, || format!("opening the lock {}", path.display()))?;
        Ok(Self { file, path: path.into() })
    }
}

/// Whether a lock that was tried is ours now.
fn free(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks/a");
        assert!(!Lock::is_held(&path).unwrap());
        let held = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none() && Lock::is_held(&path).unwrap());
        drop(held);
        assert!(!Lock::is_held(&path).unwrap());
    }

    #[test]
    fn asking_for_a_lock_neither_holds_it_nor_keeps_others_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "").unwrap();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..2000).for_each(|_| assert!(!Lock::is_held(&path).unwrap(), "others only ask")));
            }
        });
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..2000).for_each(|_| assert!(Lock::is_held(&path).is_ok())));
            }
            for _ in 0..200 {
                assert!(Lock::try_take(&path).unwrap().is_some(), "taken while others ask");
            }
        });
    }

    #[test]
    fn one_who_was_stopped_while_asking_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::write(&path, "").unwrap();
        let stopped = File::open(&path).unwrap();
        stopped.lock_shared().unwrap();
        let begun = Instant::now();
        assert!(Lock::try_take(&path).unwrap().is_none());
        assert!(begun.elapsed() < PATIENCE * 3);
        drop(stopped);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_was_seized_stands_no_longer_and_excludes_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let old = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::seize(&path, "no", || Ok(false)).unwrap().is_none());
        assert!(old.stands().unwrap());
        let new = Lock::seize(&path, "new", || Ok(true)).unwrap().unwrap();
        assert_eq!((old.stands().unwrap(), new.stands().unwrap()), (false, true));
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(Lock::try_take(&path).unwrap().is_none() && Lock::is_held(&path).unwrap());
        drop(old);
        assert!(Lock::try_take(&path).unwrap().is_none(), "the old file is nothing any more");
        drop(new);
        assert!(Lock::try_take(&path).unwrap().is_some());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "nothing is left aside: {left:?}");
    }

    #[test]
    fn of_many_who_take_or_seize_at_once_at_most_one_has_a_lock_that_stands() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let (taken, seized) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..100 {
            let stale = Lock::try_take(&path).unwrap().unwrap();
            let still = || stale.stands();
            let locks: Vec<Lock> = std::thread::scope(|s| {
                let seizing = (0..3).map(|_| s.spawn(|| Lock::seize(&path, "", still).unwrap()));
                let mut asking: Vec<_> = seizing.collect();
                asking.extend((0..3).map(|_| s.spawn(|| Lock::try_take(&path).unwrap())));
                asking.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(locks.iter().filter(|lock| lock.stands().unwrap()).count(), 1);
            assert_eq!(locks.len(), 1, "a seizer sees that another was faster");
            seized.fetch_add(1, Ordering::Relaxed);
            drop(locks);
            drop(stale);
            taken.fetch_add(usize::from(Lock::try_take(&path).unwrap().is_some()), Ordering::Relaxed);
        }
        assert_eq!((seized.into_inner(), taken.into_inner()), (100, 100));
    }

    #[test]
    fn a_lock_that_a_child_inherits_outlives_its_first_holder() {
        let dir = tempfile::tempdir().unwrap();
        for inherit in [false, true] {
            let path = dir.path().join(format!("{inherit}"));
            let lock = Lock::try_take(&path).unwrap().unwrap();
            lock.inherit(inherit).unwrap();
            let mut sleep = std::process::Command::new("sleep");
            let mut child = sleep.arg("600").stdout(std::process::Stdio::null()).spawn().unwrap();
            lock.inherit(false).unwrap();
            drop(lock);
            let begun = Instant::now();
            // Other tests start programs as well, which have all files open for a moment.
            while !inherit && Lock::is_held(&path).unwrap() && begun.elapsed() < PATIENCE {}
            let held = Lock::is_held(&path).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(held, inherit);
        }
    }
}
