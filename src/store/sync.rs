//! Reconciles the index with all folders. Looks at sizes first: where nothing changed, nothing is read or locked.

use std::{collections::HashMap, fs::DirEntry, path::Path};

use super::{
    Store,
    damage::repaired,
    experiments,
    ingest::{self, Known},
    lines::{News, news},
};
use crate::base::{Result, folders::RunFolder};

impl Store {
    /// Takes in what all folders have new and forgets what has no folder any more. Does nothing to a store that is for
    /// reading only.
    ///
    /// An index with neither runs nor experiments beside it was copied to be read, and stays as it is.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read or written. What cannot be read of the
    /// folders is kept as [`Damage`](super::Damage).
    pub fn sync(&mut self) -> Result<()> {
        let runs: Vec<String> = folder_names(&self.root.runs()).into_iter().filter(|name| is_run(name)).collect();
        if self.read_only || (runs.is_empty() && !self.root.experiments().exists()) {
            return Ok(());
        }
        self.sync_runs(&runs)?;
        self.sync_experiments(&folder_names(&self.root.experiments()))?;
        self.sync_damage()
    }

    fn sync_runs(&mut self, names: &[String]) -> Result<()> {
        let root = self.root.clone();
        let mut known = self.read(Known::all)?;
        for name in names {
            let folder = RunFolder::new(root.runs().join(name));
            let behind = match known.remove(name) {
                Some(known) => known.is_behind(&folder),
                None => folder.config().exists(),
            };
            if behind {
                self.write(|index| ingest::take_run(index, &root, &folder))?;
            }
        }
        if known.is_empty() {
            return Ok(());
        }
        let gone = || known.keys().map(|name| RunFolder::new(root.runs().join(name)));
        self.write(|index| gone().try_for_each(|folder| ingest::forget(index, &root, &folder)))
    }

    fn sync_experiments(&mut self, names: &[String]) -> Result<()> {
        let root = self.root.clone();
        let mut known: HashMap<String, u64> = self.read(experiments::known)?.into_iter().collect();
        for name in names {
            let offset = known.remove(name).unwrap_or(0);
            if news(&root.experiment_journal(name), offset) != News::Nothing {
                self.write(|index| experiments::take(index, &root, name))?;
            }
        }
        if known.is_empty() {
            return Ok(());
        }
        self.write(|index| known.keys().try_for_each(|name| experiments::forget(index, &root, name)))
    }

    /// Forgets the damage of files that are gone.
    fn sync_damage(&mut self) -> Result<()> {
        let mut gone = self.damage()?;
        gone.retain(|damage| !self.root.path().join(&damage.file).exists());
        if gone.is_empty() {
            return Ok(());
        }
        self.write(|index| gone.iter().try_for_each(|damage| repaired(index, &damage.file)))
    }
}

/// The folders in a folder, sorted; none where it is absent. Names that are not UTF-8 are not ours.
fn folder_names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_folder = |entry: &DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_symlink() => entry.path().is_dir(),
        kind => kind.is_ok_and(|kind| kind.is_dir()),
    };
    let folders = entries.filter(is_folder);
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Whether a folder under `runs/` is named like a run's.
fn is_run(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
