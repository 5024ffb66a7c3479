//! Files that are whole or absent: written aside, fsynced, renamed, and the folder fsynced after. And lock files, which
//! the kernel frees when their holder dies.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::Write,
    path::Path,
};

use super::{Context, Error, Exit, Result};

/// Writes `bytes` to `path` so that a reader sees the old file or the new one, never a part. Makes the folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write_atomic`], with the content written by `fill`.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut aside = tempfile::Builder::new().prefix(".aside-").permissions(readable()).tempfile_in(folder)?;
        fill(aside.as_file_mut())?;
        aside.as_file().sync_all()?;
        aside.persist(path)?;
        sync_folder(folder)
    };
    write().doing(Exit::Store, || format!("writing {}", path.display()))
}

/// What a file gets from `File::create` under the usual mask; temporary files are private by default.
fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}

/// Makes a rename or a new file inside `folder` durable.
pub fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).doing(Exit::Store, || format!("reading {}", path.display()))
}

/// Reads a file of JSON.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&read(path)?).doing(Exit::Store, || format!("reading {}", path.display()))
}

/// Writes a value as indented JSON, atomically.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut text =
        serde_json::to_vec_pretty(value).doing(Exit::Unexpected, || format!("writing {}", path.display()))?;
    text.push(b'\n');
    write_atomic(path, &text)
}

/// An exclusive lock on a file, held until it is dropped or its process dies. The file stays.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock if nobody holds it; `None` where somebody does. Makes the file and its folder.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        let file = Self::open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(Error::new(Exit::Store, format!("locking {}", path.display()), e)),
        }
    }

    /// Waits for the lock.
    pub fn take(path: &Path) -> Result<Self> {
        let file = Self::open(path)?;
        file.lock().doing(Exit::Store, || format!("locking {}", path.display()))?;
        Ok(Self { file })
    }

    /// Whether somebody, this process included, holds the lock now.
    pub fn is_held(path: &Path) -> Result<bool> {
        Ok(path.exists() && Self::try_take(path)?.is_none())
    }

    /// Replaces the file's content, for people who ask who holds the lock.
    pub fn note(&self, text: &str) -> std::io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(text.as_bytes())
    }

    fn open(path: &Path) -> Result<File> {
        let open = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            OpenOptions::new().create(true).read(true).append(true).open(path)
        };
        open().doing(Exit::Store, || format!("opening the lock {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.json");
        write_atomic(&path, b"old").unwrap();
        let error = write_with(&path, |f| {
            f.write_all(b"half")?;
            Err(std::io::Error::other("no space left"))
        });
        assert!(error.unwrap_err().to_string().contains("b.json: no space left"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
    }

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
}
