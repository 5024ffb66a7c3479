//! Folders that are whole or absent: written under another name beside their place, then renamed to it. A command that is
//! asked to end meanwhile leaves nothing.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::{Handle, Signals},
};
use tempfile::TempDir;

use super::{Exit, files};

/// A folder that is not in its place yet. Dropped, it is gone.
pub struct Aside {
    folder: TempDir,
    signals: Handle,
    end: Arc<End>,
}

/// What two threads know of the end that a signal asked for.
#[derive(Default)]
struct End {
    /// It was asked for.
    is_near: AtomicBool,
    /// Nobody writes into the folder any more.
    is_still: AtomicBool,
}

impl Aside {
    /// An empty folder in `parent`, which is made where it lacks. Until it is put in place, SIGINT, SIGTERM and SIGHUP
    /// remove it and end the process.
    pub fn new(parent: &Path) -> std::io::Result<Self> {
        files::make_folder(parent)?;
        let rights = Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().prefix(files::ASIDE).permissions(rights).tempdir_in(parent)?;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let (path, handle, end) = (folder.path().to_owned(), signals.handle(), Arc::<End>::default());
        let asked = end.clone();
        thread::spawn(move || {
            if signals.forever().next().is_some() {
                asked.is_near.store(true, Ordering::SeqCst);
                remove(&path, &asked);
                process::exit(Exit::Interrupted as i32)
            }
        });
        Ok(Self { folder, signals: handle, end })
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
        fs::rename(self.path(), path)?;
        files::sync_folder(files::folder_of(path))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.signals.close();
        // Who was writing meets errors where the folder is removed; the process ends by the signal all the same.
        while self.end.is_near.load(Ordering::SeqCst) {
            self.end.is_still.store(true, Ordering::SeqCst);
            thread::park();
        }
    }
}

/// Removes a folder that another thread may still be writing into, and may make again meanwhile: until that thread is still,
/// or for some seconds, since it may compute for long without writing.
fn remove(path: &Path, end: &End) {
    for _ in 0..300 {
        let is_still = end.is_still.load(Ordering::SeqCst);
        let _ = fs::remove_dir_all(path);
        if is_still && !path.exists() {
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
}
