//! Files that are whole or absent: written aside, fsynced, renamed, and the folder fsynced after.

use std::{
    ffi::OsString,
    fs::{self, DirEntry, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use super::{
    Context, Exit, Result,
    clock::{self, Millis},
};

pub use super::lock::Lock;

/// What the names of files and folders begin with that are not whole yet.
pub const ASIDE: &str = ".aside-";

/// In ms.
pub const DAY: Millis = 24 * 60 * 60 * 1000;

/// Writes `bytes` to `path` so that a reader sees the old file or the new one, never a part. Makes the folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write_atomic`], with the content written by `fill`.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<()> {
    let write = || -> std::io::Result<()> {
        written_aside(path, fill)?.persist(path)?;
        sync_folder(folder_of(path))
    };
    write().doing(Exit::Store, || format!("writing {}", path.display()))
}

/// As [`write_atomic`], but never over a file that is there already: `false` where one is, whoever wrote it meanwhile.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<bool> {
    let write = || -> std::io::Result<bool> {
        match written_aside(path, |file| file.write_all(bytes))?.persist_noclobber(path) {
            Ok(_) => sync_folder(folder_of(path)).map(|()| true),
            Err(e) if e.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e.error),
        }
    };
    if path.exists() {
        return Ok(false);
    }
    write().doing(Exit::Store, || format!("writing {}", path.display()))
}

fn written_aside(
    path: &Path,
    fill: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = folder_of(path);
    make_folder(folder)?;
    let mut aside = tempfile::Builder::new().prefix(ASIDE).permissions(readable()).tempfile_in(folder)?;
    fill(aside.as_file_mut())?;
    aside.as_file().sync_all()?;
    Ok(aside)
}

/// The folder that a file lies in; the current one for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What a file gets from `File::create` under the usual mask; temporary files are private by default.
pub(super) fn readable() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o644)
}

/// Makes a folder and those above it that lack, durably: each stands in its parent when this returns.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = folder_of(path);
    make_folder(parent)?;
    match fs::create_dir(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {} // another process was faster
        made => made?,
    }
    sync_folder(parent)
}

/// Removes a file, a link and not what it leads to, or a folder, which vanishes at once: who is killed meanwhile leaves all
/// of it, or something aside that nobody sees and that is [swept](sweep) later. What is not there was removed already.
pub fn remove(path: &Path) -> std::io::Result<()> {
    let folder = folder_of(path);
    let mut name = OsString::from(ASIDE);
    name.push(path.file_name().unwrap_or_default());
    name.push(format!("-{}-{}", std::process::id(), clock::now()));
    let aside = folder.join(name);
    match path.symlink_metadata().and_then(|found| match found.is_dir() {
        true => fs::rename(path, &aside),
        false => fs::remove_file(path),
    }) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()), // others were faster
        removed => removed?,
    }
    sync_folder(folder)?;
    sweep_away(&aside)
}

/// Bytes of a file, or of all files of a folder. Links are not followed, and what cannot be looked at is left out.
pub fn size(path: &Path) -> u64 {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum()
        }
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    }
}

/// Removes what killed writers left aside in a folder at least `age` ms ago. Whoever writes takes seconds, so that what is
/// older than a [`DAY`] is nobody's. What cannot be removed stays: it is in nobody's way.
pub fn sweep(folder: &Path, age: Millis) {
    for path in left_aside(folder, age) {
        let _ = sweep_away(&path);
    }
}

/// What killed writers left aside in a folder at least `age` ms ago.
pub fn left_aside(folder: &Path, age: Millis) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let aside = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(ASIDE.as_bytes()));
    aside.map(|entry| entry.path()).filter(|path| clock::now() - clock::modified(path) >= age).collect()
}

/// As [`remove`], for what nobody looks at: where it stands, since half of it is no worse than all of it.
pub fn sweep_away(path: &Path) -> std::io::Result<()> {
    let found = path.symlink_metadata();
    match found.and_then(|found| if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What stands at a path, a link for itself; `None` where nothing does. That it cannot be told is an error.
pub fn stands(path: &Path) -> std::io::Result<Option<fs::Metadata>> {
    match path.symlink_metadata() {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        found => found.map(Some),
    }
}

/// Makes a rename or a new file inside `folder` durable.
pub fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The names of all that lies in a folder; none where there is no folder. One that is there and cannot be listed is never
/// taken for an empty one.
pub fn names(folder: &Path) -> Result<Vec<OsString>> {
    listed(folder, |_| true)
}

/// The names of the folders in a folder, and of links to folders; none where there is no folder. What cannot be looked at
/// stays: it is there, and may be one.
pub fn folders(folder: &Path) -> Result<Vec<OsString>> {
    let is_folder = |entry: &DirEntry| match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(), // the list itself says so: 10,000 runs are not asked one by one
        _ => match entry.path().metadata() {
            Ok(metadata) => metadata.is_dir(),
            Err(e) => e.kind() != ErrorKind::NotFound,
        },
    };
    listed(folder, is_folder)
}

fn listed(folder: &Path, is_wanted: impl Fn(&DirEntry) -> bool) -> Result<Vec<OsString>> {
    let entries = || fs::read_dir(folder)?.collect::<std::io::Result<Vec<DirEntry>>>();
    match entries() {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries.doing(Exit::Store, || format!("listing {}", folder.display()))?;
            Ok(entries.into_iter().filter(is_wanted).map(|entry| entry.file_name()).collect())
        }
    }
}

/// Whether the disk that holds a file has no room left for who is not its administrator; no, where that cannot be told.
pub fn is_full(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail == 0)
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).doing(Exit::Store, || format!("reading {}", path.display()))
}

/// Opens a file to read it. What stands in its place and is none is refused: a pipe would wait for somebody who writes.
pub fn open(path: &Path) -> std::io::Result<File> {
    match path.metadata()?.is_file() {
        true => File::open(path),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// blake3 of a file, in hex.
pub fn hash(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let read = open(path).and_then(|file| hasher.update_reader(file).map(drop));
    read.doing(Exit::Store, || format!("reading {}", path.display()))?;
    Ok(hasher.finalize().to_hex().to_string())
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
    fn folders_are_made_by_many_at_once_and_only_old_remains_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        std::thread::scope(|s| (0..8).for_each(|_| drop(s.spawn(|| make_folder(&path).unwrap()))));
        fs::write(path.join("file"), "").unwrap();
        assert!(make_folder(&path.join("file/d")).is_err());

        fs::create_dir_all(path.join(".aside-folder/deep")).unwrap();
        fs::write(path.join(".aside-file"), "").unwrap();
        let names = || fs::read_dir(&path).unwrap().count();
        sweep(&path, DAY);
        assert_eq!(names(), 3, "somebody may be writing them");
        let old =
            fs::FileTimes::new().set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(90_000));
        for name in [".aside-file", ".aside-folder"] {
            File::open(path.join(name)).unwrap().set_times(old).unwrap();
        }
        sweep(&path, DAY);
        assert_eq!(names(), 1);
    }

    #[test]
    fn a_folder_is_removed_with_all_of_it_and_a_link_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("kept/deep")).unwrap();
        fs::write(path("kept/deep/file"), "12345").unwrap();
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink(path("kept"), path("folder/link")).unwrap();
        std::os::unix::fs::symlink(path("kept"), path("link")).unwrap();
        assert_eq!(size(&path("kept")), 5);
        assert!(size(&path("link")) != 5 && size(&path("none")) == 0);
        remove(&path("link")).unwrap();
        remove(&path("folder")).unwrap();
        assert_eq!(names(dir.path()).unwrap(), ["kept"]);
        assert_eq!(size(&path("kept")), 5);
        assert!(remove(&path("link")).is_ok() && sweep_away(&path("link")).is_ok(), "it is gone already");
        assert!(stands(&path("kept/deep/file/none")).unwrap().is_none(), "a file has nothing below it");
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        assert!(remove(&path("loop/none")).is_err() && stands(&path("loop/none")).is_err());
        assert!(stands(&path("kept")).unwrap().is_some() && stands(&path("link")).unwrap().is_none());
    }

    #[test]
    fn a_new_file_is_never_written_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.json");
        let first: usize = std::thread::scope(|s| {
            let writers: Vec<_> = (0..8).map(|_| s.spawn(|| usize::from(write_new(&path, b"one").unwrap()))).collect();
            writers.into_iter().map(|w| w.join().unwrap()).sum()
        });
        assert_eq!(first, 1);
        assert!(!write_new(&path, b"two").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
    }
}
