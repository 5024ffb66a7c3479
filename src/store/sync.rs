//! Reconciles the index with all folders. Looks at sizes first: where nothing changed, nothing is read or locked.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
    path::Path,
    time::Duration,
};

use super::{
    PATIENCE, Store,
    damage::repaired,
    experiments,
    ingest::{self, Known},
    lines::{News, news},
    parts::parts,
    reports::{self, Stamp},
};
use crate::base::{
    Result, files,
    folders::{RunFolder, is_run},
};

impl Store {
    /// Takes in what all folders have new and forgets what has no folder any more. Does nothing to a store that is for
    /// reading only.
    ///
    /// An index with neither runs nor experiments beside it was copied to be read, and stays as it is.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read or written, or the folders of runs or of
    /// experiments cannot be listed, lest all that they hold be forgotten. What cannot be read of one of them is kept as [`Damage`](super::Damage).
    pub fn sync(&mut self) -> Result<()> {
        let runs: Vec<String> = folder_names(&self.root.runs())?.into_iter().filter(|name| is_run(name)).collect();
        if self.read_only || (runs.is_empty() && !self.root.experiments().exists()) {
            return Ok(());
        }
        self.sync_runs(&runs)?;
        self.sync_experiments(&folder_names(&self.root.experiments())?)?;
        // No run depends on reports: where they cannot be listed, what is known of them stays.
        if let Ok(reports) = folder_names(&self.root.reports()) {
            self.sync_reports(&reports)?;
        }
        self.sync_damage()
    }

    /// [`Store::sync`] for those who would rather see the index as it was last than wait longer than `patience`: then
    /// `false`.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn refresh(&mut self, patience: Duration) -> Result<bool> {
        self.set_patience(patience)?;
        let synced = self.sync();
        self.set_patience(PATIENCE)?;
        match synced {
            Err(error) if error.io == Some(ErrorKind::WouldBlock) => Ok(false),
            synced => synced.map(|()| true),
        }
    }

    fn sync_runs(&mut self, names: &[String]) -> Result<()> {
        let root = self.root.clone();
        let folder = |name: &str| RunFolder::new(root.runs().join(name));
        // With many runs most of the time goes into asking the system for sizes.
        let looked = self.in_parts(&self.read(parts)?, |store, part| {
            let known = store.read(|index| Known::all(index, part))?;
            let look = |(name, known): (String, Known)| (known.is_behind(&folder(&name)), name);
            Ok(known.into_iter().map(look).collect())
        })?;
        let mut new: HashSet<&str> = names.iter().map(String::as_str).collect();
        let (mut behind, mut gone) = (Vec::new(), Vec::new());
        for (is_behind, name) in looked {
            match new.remove(name.as_str()) {
                true if is_behind => behind.push(folder(&name)),
                true => {}
                false => gone.push(folder(&name)),
            }
        }
        gone.retain(|folder| !folder.path().is_dir()); // others are as new as to have come after the folders were listed
        let new = names.iter().filter(|name| new.contains(name.as_str())).map(|name| folder(name));
        // Why a config cannot be read is to be said.
        behind.extend(new.filter(|folder| folder.config().try_exists().unwrap_or(true)));
        for folder in behind {
            self.write(|index| ingest::take_run(index, &root, &folder))?;
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.write(|index| gone.iter().try_for_each(|folder| ingest::forget(index, &root, folder)))
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

    fn sync_reports(&mut self, names: &[String]) -> Result<()> {
        let root = self.root.clone();
        let mut known = self.read(reports::known)?;
        for name in names {
            match Stamp::of(&root.report(name)) {
                Stamp::Absent => {}
                Stamp::Unknown => drop(known.remove(name)),
                Stamp::Of(stamp) if known.remove(name).is_none_or(|before| before != stamp) => {
                    self.write(|index| reports::take(index, &root, name, &stamp))?;
                }
                Stamp::Of(_) => {}
            }
        }
        if known.is_empty() {
            return Ok(());
        }
        self.write(|index| known.keys().try_for_each(|name| reports::forget(index, &root, name)))
    }

    /// Forgets the damage of files that are gone, and of folders that can be listed again.
    fn sync_damage(&mut self) -> Result<()> {
        let mut gone = self.damage()?;
        gone.retain(|damage| {
            let path = self.root.path().join(&damage.file);
            let is_listed_again = || path.parent() == Some(&self.root.runs()) && path.read_dir().is_ok();
            // A file that could be read but for what follows; nothing follows, or it would be read again.
            let has_no_more = || {
                damage.file.ends_with(".jsonl")
                    && path.metadata().is_ok_and(|m| m.is_file() && m.len() <= damage.offset)
            };
            !path.try_exists().unwrap_or(true) || is_listed_again() || has_no_more()
        });
        if gone.is_empty() {
            return Ok(());
        }
        self.write(|index| gone.iter().try_for_each(|damage| repaired(index, &damage.file)))
    }
}

/// The folders in a folder, sorted; none where it is absent. Names that are not UTF-8 are not ours.
fn folder_names(path: &Path) -> Result<Vec<String>> {
    let names = files::folders(path)?.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with(files::ASIDE)).collect(); // those are on their way out
    names.sort_unstable();
    Ok(names)
}
