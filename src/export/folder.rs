//! The folder that an export writes: beside its place until it is whole. A file of its own, [`MANIFEST`], names what was
//! written, so that a later export replaces that and nothing else.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Format;
use crate::base::{
    Context, Error, Exit, Result,
    aside::{self, Aside},
    files,
};

/// What was written, as JSON. No experiment's folder is called so.
const MANIFEST: &str = ".export.json";

#[derive(Serialize, Deserialize)]
struct Manifest {
    format: String,
    /// Relative to the folder.
    files: BTreeSet<PathBuf>,
}

/// A folder that is being written.
pub struct Folder {
    place: PathBuf,
    aside: Aside,
    manifest: Manifest,
    /// How a person calls it.
    called: PathBuf,
    force: bool,
}

impl Folder {
    /// Begins one that comes to stand where `to` is.
    ///
    /// # Errors
    /// [`Exit::Usage`] where something is there that may not be replaced.
    pub fn begin(to: &Path, format: Format, force: bool) -> Result<Self> {
        let place = aside::destination(to)?;
        may_replace(&place, to, force)?;
        let aside = Aside::new(files::folder_of(&place)).doing(Exit::Store, || format!("writing {}", to.display()))?;
        let manifest = Manifest { format: format.name().into(), files: BTreeSet::new() };
        Ok(Self { place, aside, manifest, called: to.into(), force })
    }

    /// A new file in it; who wrote it makes it durable. `name` is relative and may lie in a folder.
    pub fn create(&mut self, name: &Path) -> Result<File> {
        let path = self.aside.path().join(name);
        let create = || {
            // Never the folder itself: where it is gone, somebody asked to end.
            let folders: Vec<&Path> = name.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
            folders.iter().rev().try_for_each(|folder| made(&self.aside.path().join(folder)))?;
            File::create_new(&path)
        };
        let file = create().doing(Exit::Store, || self.doing(name))?;
        self.manifest.files.insert(name.into());
        Ok(file)
    }

    /// What is being done to a file of it, for errors.
    pub fn doing(&self, name: &Path) -> String {
        format!("writing {}", self.called.join(name).display())
    }

    /// Puts it in its place.
    pub fn finish(self) -> Result<()> {
        let manifest = || {
            let mut file = File::create_new(self.aside.path().join(MANIFEST))?;
            writeln!(file, "{}", serde_json::to_string_pretty(&self.manifest)?)?;
            file.sync_all()
        };
        manifest().doing(Exit::Store, || self.doing(Path::new(MANIFEST)))?;
        // Somebody may have put something there meanwhile.
        let is_there = may_replace(&self.place, &self.called, self.force)?;
        let folders = folders(&self.manifest.files);
        let put = || {
            folders.iter().try_for_each(|folder| files::sync_folder(&self.aside.path().join(folder)))?;
            if is_there { self.aside.put_instead(&self.place) } else { self.aside.put_in_place(&self.place) }
        };
        put().doing(Exit::Store, || format!("writing {}", self.called.display()))
    }
}

/// Makes a folder that may be there.
fn made(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

/// Whether a folder stands where one is to be put that may go. One that is empty is as good as none.
fn may_replace(place: &Path, called: &Path, force: bool) -> Result<bool> {
    let doing = || format!("writing {}", called.display());
    let refused = |why: String, hint: &str| Err(Error::new(Exit::Usage, doing(), why).hint(hint));
    let Some(there) = files::stands(place).doing(Exit::Store, doing)? else { return Ok(false) };
    if !there.is_dir() {
        return refused("it is there already, and no folder".into(), "name a folder that is new or empty");
    }
    if files::names(place)?.is_empty() {
        return Ok(false);
    }
    let manifest: Option<Manifest> = files::read_json(&place.join(MANIFEST)).ok();
    match manifest {
        None => refused("it is there already, and no export".into(), "name a folder that is new or empty"),
        Some(_) if !force => refused("it is there already".into(), "`--force` replaces what an export wrote"),
        Some(manifest) => match foreign(place, Path::new(""), &manifest.files, &folders(&manifest.files))? {
            None => Ok(true),
            Some(path) => {
                let why = format!("no export wrote what else lies in it: {}", path.display());
                refused(why, "move that elsewhere, or name another folder")
            }
        },
    }
}

/// The folders that files lie in, relative as they are; the empty path among them.
fn folders(files: &BTreeSet<PathBuf>) -> BTreeSet<&Path> {
    files.iter().flat_map(|file| file.ancestors().skip(1)).collect()
}

/// Something below `within` that is none of our files, nor one of the folders that have some.
fn foreign(
    place: &Path,
    within: &Path,
    ours: &BTreeSet<PathBuf>,
    folders: &BTreeSet<&Path>,
) -> Result<Option<PathBuf>> {
    let mut names = files::names(&place.join(within))?;
    names.sort_unstable();
    for path in names.into_iter().map(|name| within.join(name)) {
        let is_folder = fs::symlink_metadata(place.join(&path)).is_ok_and(|metadata| metadata.is_dir());
        let found = match is_folder {
            true if folders.contains(path.as_path()) => foreign(place, &path, ours, folders)?,
            false if ours.contains(&path) || path == Path::new(MANIFEST) => None,
            _ => Some(path),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        let ask = |place: &str| may_replace(&dir.path().join(place), Path::new("out"), true);
        assert!(!ask("none").unwrap());
        let error = ask("loop/none").unwrap_err(); // ELOOP
        assert_eq!((error.exit, error.doing.as_str()), (Exit::Store, "writing out"));
    }
}
