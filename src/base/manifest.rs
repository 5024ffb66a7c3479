//! What a folder holds, written last: the names, sizes and hashes of its files. Whoever finds a manifest can tell whether
//! all that was written is still there.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Component, Path},
};

use serde::{Deserialize, Serialize};

use super::{Error, Exit, Result, files};

/// Names a folder's files with their sizes and hashes; written last.
pub const MANIFEST: &str = "manifest.json";

/// A file by name, size and content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileRef {
    /// Relative to the folder that names it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// blake3 of its content, in hex.
    pub blake3: String,
}

/// What a folder holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// All of its files but the manifest.
    pub files: Vec<FileRef>,
}

/// Why a file is of no use.
#[derive(Debug)]
pub enum Fault {
    /// It is not what was written, and will not be again.
    Damaged(Error),
    /// It could not be read this time, which says nothing of what stands there.
    Unreadable(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damaged(error) | Fault::Unreadable(error) => error,
        }
    }
}

impl FileRef {
    /// A file of that content.
    pub fn of(name: impl Into<String>, content: &[u8]) -> Self {
        let blake3 = blake3::hash(content).to_hex().to_string();
        Self { name: name.into(), bytes: content.len() as u64, blake3 }
    }

    /// Errors where the file lacks in its folder, or has another size. Does not read it.
    pub fn check_size(&self, folder: &Path) -> Result<(), Fault> {
        let path = folder.join(&self.name);
        match fs::metadata(&path).map_err(|e| fault(&path, e))?.len() {
            bytes if bytes == self.bytes => Ok(()),
            bytes => Err(damaged(&path, format!("it has {bytes} bytes, not {}", self.bytes))),
        }
    }

    /// Errors where the file lacks in its folder, or is not, byte for byte, what was written.
    pub fn verify(&self, folder: &Path) -> Result<(), Fault> {
        self.check_size(folder)?;
        let path = folder.join(&self.name);
        let hash = || -> std::io::Result<_> { Ok(blake3::Hasher::new().update_reader(File::open(&path)?)?.finalize()) };
        match hash().map_err(|e| fault(&path, e))?.to_hex().as_str() {
            hash if hash == self.blake3 => Ok(()),
            _ => Err(damaged(&path, "its content is not what was written".into())),
        }
    }
}

impl Manifest {
    /// What stands in a folder's manifest. Looks at no other file.
    pub fn read(folder: &Path) -> Result<Self, Fault> {
        let path = folder.join(MANIFEST);
        let bytes = fs::read(&path).map_err(|e| fault(&path, e))?;
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|e| damaged(&path, e.to_string()))?;
        // A file elsewhere is never read, compared or removed in the name of this folder.
        match manifest.files.iter().find(|file| !is_plain(&file.name)) {
            Some(file) => Err(damaged(&path, format!("{:?} is no name of a file in it", file.name))),
            None => Ok(manifest),
        }
    }

    /// Writes it into a folder whose files are all there.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(MANIFEST), self)
    }
}

fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

fn damaged(path: &Path, why: String) -> Fault {
    Fault::Damaged(Error::new(Exit::Store, format!("verifying {}", path.display()), why))
}

/// What an error says of a file: that it is not there is damage, all else may pass.
fn fault(path: &Path, error: std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => damaged(path, error.to_string()),
        kind => Fault::Unreadable(Error::new(Exit::Store, format!("reading {}", path.display()), error).io(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_files_of_its_own_folder_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["../mine", "/etc/passwd", "a/b", "..", ".", "", "a/"] {
            Manifest { files: vec![FileRef::of(name, b"")] }.write(dir.path()).unwrap();
            assert!(matches!(Manifest::read(dir.path()), Err(Fault::Damaged(_))), "{name:?}");
        }
        Manifest { files: vec![FileRef::of("a b.png", b"x")] }.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap().files[0].bytes, 1);
    }
}
