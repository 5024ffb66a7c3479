//! Folders that are whole or absent: written under another name beside their place, then renamed to it. A command that is
//! asked to end meanwhile leaves nothing.

use std::{
    env,
    fs::{self, Permissions},
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use tempfile::TempDir;

use super::{Context, Error, Exit, Result, files, machine};

/// A folder that is not in its place yet. Dropped, it is gone.
pub struct Aside {
    folder: TempDir,
    entry: Arc<Entry>,
}

/// What the thread that hears signals knows of a folder.
struct Entry {
    path: PathBuf,
    /// Nobody writes into it any more.
    is_still: AtomicBool,
}

/// All folders that are not in their places. Who ends the process takes it and never gives it back.
static FOLDERS: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<Arc<Entry>>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Aside {
    /// An empty folder in `parent`, which is made where it lacks. From the first on, SIGINT, SIGTERM and SIGHUP end this
    /// process, and remove what folders are not in their places by then. Those that it was told to ignore it ignores.
    pub fn new(parent: &Path) -> std::io::Result<Self> {
        listen()?;
        files::make_folder(parent)?;
        let rights = Permissions::from_mode(0o755);
        let mut folders = folders();
        let folder = tempfile::Builder::new().prefix(files::ASIDE).permissions(rights).tempdir_in(parent)?;
        let entry = Arc::new(Entry { path: folder.path().to_owned(), is_still: AtomicBool::new(false) });
        folders.push(Arc::clone(&entry));
        Ok(Self { folder, entry })
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives it its name, durably. What lies in it must be durable before.
    ///
    /// # Errors
    /// Where a folder of that name is there and is not empty.
    pub fn put_in_place(self, path: &Path) -> std::io::Result<()> {
        files::sync_folder(self.path())?;
        let _unasked = self.unasked();
        fs::rename(self.path(), path)?;
        files::sync_folder(files::folder_of(path))
    }

    /// As [`Aside::put_in_place`], instead of the folder that stands there: a reader finds the one or the other. What stood
    /// there is then removed.
    pub fn put_instead(self, path: &Path) -> std::io::Result<()> {
        files::sync_folder(self.path())?;
        let _unasked = self.unasked();
        match exchange(self.path(), path) {
            // Not every file system can do it in one step.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
                replace(self.path(), path)?;
            }
            exchanged => exchanged?, // and what was there goes with `self`
        }
        files::sync_folder(files::folder_of(path))
    }

    /// Nobody asks this process to end as long as this is held; where somebody did, it waits for the end. What is in its
    /// place would be whole no more: who was asked removes what lies in the folder.
    fn unasked(&self) -> MutexGuard<'static, Vec<Arc<Entry>>> {
        self.entry.is_still.store(true, Ordering::SeqCst);
        folders()
    }
}

/// Gives two folders each other's name, in one step.
fn exchange(a: &Path, b: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

/// Gives a folder the name of another, which is then removed; in steps, so that a kill in between leaves the old one, at
/// worst under the name that it has aside.
fn replace(new: &Path, place: &Path) -> std::io::Result<()> {
    let mut name = new.file_name().unwrap_or_default().to_owned(); // nobody else's
    name.push("-old");
    let old = files::folder_of(place).join(name);
    fs::rename(place, &old)?;
    if let Err(error) = fs::rename(new, place) {
        fs::rename(&old, place)?;
        return Err(error);
    }
    files::sync_folder(files::folder_of(place))?;
    files::sweep_away(&old)
}

/// Where the folder comes to stand that a person calls `folder`: where links lead.
///
/// # Errors
/// [`Exit::Usage`] for a link to what is not there, and for the current folder: who stands in a folder would still stand in
/// the one that was replaced. [`Exit::Store`] where it cannot be looked at.
pub fn destination(folder: &Path) -> Result<PathBuf> {
    let doing = || format!("writing {}", folder.display());
    let taken = |why: &str, hint: &str| Err(Error::new(Exit::Usage, doing(), why).hint(hint));
    if fs::symlink_metadata(folder).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        return Ok(folder.into());
    }
    let place = match fs::canonicalize(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return taken("it is a link to what is not there", "name a folder that is new or empty");
        }
        place => place.doing(Exit::Store, doing)?,
    };
    if env::current_dir().is_ok_and(|current| current == place) {
        let why = "it is the current folder, and what is written would take its place";
        return taken(why, "name a folder that is not there yet, as `./export`");
    }
    Ok(place)
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Who was writing meets errors where the folder is removed, and comes here; the process ends by the signal all the
        // same, since this waits for ever.
        self.entry.is_still.store(true, Ordering::SeqCst);
        let mut folders = folders();
        let _ = fs::remove_dir_all(self.path());
        folders.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }
}

/// Begins to hear signals, once. That goes on to the end of the process: a handler, once set, stays, and without anybody
/// who listens the signal would be lost.
fn listen() -> std::io::Result<()> {
    static LISTENS: Mutex<bool> = Mutex::new(false);
    let mut listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    if *listens {
        return Ok(());
    }
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !machine::ignores(signal));
    let mut signals = Signals::new(heeded)?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            let folders = folders();
            folders.iter().for_each(|entry| remove(entry));
            process::exit(Exit::Interrupted as i32)
        }
    })?;
    *listens = true;
    Ok(())
}

/// Removes a folder that another thread may still be writing into, and may make again meanwhile: until that thread is still,
/// or for some seconds, since it may compute for long without writing.
fn remove(entry: &Entry) {
    for _ in 0..300 {
        let is_still = entry.is_still.load(Ordering::SeqCst);
        let _ = fs::remove_dir_all(&entry.path);
        if is_still && !entry.path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_in_full_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("deep/place");
        let names = || files::names(place.parent().unwrap()).unwrap();
        let aside = Aside::new(place.parent().unwrap()).unwrap();
        fs::write(aside.path().join("file"), "1").unwrap();
        assert!(!place.exists());
        aside.put_in_place(&place).unwrap();
        assert_eq!((names(), fs::read(place.join("file")).unwrap()), (vec!["place".into()], b"1".to_vec()));

        let second = Aside::new(place.parent().unwrap()).unwrap();
        assert!(second.put_in_place(&place).is_err(), "it is there and not empty");
        assert_eq!(names(), ["place"]);
    }

    #[test]
    fn a_folder_that_is_replaced_in_steps_is_removed_only_once_the_new_one_stands() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join(".aside-new"), dir.path().join("place"));
        fs::create_dir(&place).unwrap();
        fs::write(place.join("file"), "old").unwrap();
        assert!(replace(&new, &place).is_err(), "there is no new one");
        assert_eq!(fs::read(place.join("file")).unwrap(), b"old");
        fs::create_dir(&new).unwrap();
        fs::write(new.join("file"), "new").unwrap();
        replace(&new, &place).unwrap();
        assert_eq!(fs::read(place.join("file")).unwrap(), b"new");
        assert_eq!(files::names(dir.path()).unwrap(), ["place"]);
    }
}
