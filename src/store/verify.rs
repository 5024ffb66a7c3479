//! Reads all that is kept of runs and reports again, and compares it with what was written. What stands under `cache/` is
//! for `data` to verify.

use std::{collections::BTreeSet, fs, io::ErrorKind, path::Path};

use serde_json::Value;

use super::{Store, history::artifact, lines::Lines, rows::Artifact};
use crate::{
    base::{
        Error, Result, RunId, checkpoints, files,
        folders::RunFolder,
        manifest::{self, FileRef, MANIFEST, Manifest},
    },
    event::{Event, Expansion, Note, SEAL},
    spec::identity::{FrozenRun, run_id},
};

/// What was found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is not as it was written.
    pub faults: Vec<Fault>,
}

/// A file that is not as it was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Relative to the root.
    pub path: String,
    /// What is wrong with it.
    pub what: What,
    /// In words.
    pub why: String,
    /// What to do about it.
    pub advice: String,
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is not what was written.
    Damaged,
    /// It is not there.
    Missing,
    /// It could not be read this time.
    Unreadable,
}

impl What {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Verified {
    /// Notes a file that is not as it was written.
    pub fn fault(&mut self, path: String, what: What, why: impl ToString, advice: &str) {
        self.faults.push(Fault { path, what, why: why.to_string(), advice: advice.into() });
    }

    /// What it has read, as far as it could.
    fn has_read(&mut self, path: &Path) {
        if let Ok(file) = path.metadata() {
            self.files += 1;
            self.bytes += file.len();
        }
    }
}

const EARLIER: &str = "a checkpoint that is damaged is passed over: the run goes on from the one before it";
const COPY: &str = "what a run has written is to be put back from a copy: nothing else makes it again";

impl Store {
    /// Reads a run's folder again: its config against its id, its events and its journal line by line and by their seal, its
    /// checkpoints and samples by their hashes. What a worker writes meanwhile is no fault.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn verify_run(&self, id: &RunId, found: &mut Verified) -> Result<()> {
        let folder = self.root.run(id);
        self.verify_config(id, &folder, found);
        self.verify_lines::<Note>(&folder.journal(), found);
        match folder.attempts() {
            Ok(attempts) => attempts.iter().for_each(|&attempt| self.verify_events(&folder.events(attempt), found)),
            Err(error) => found.fault(self.root.relative(folder.path()), What::Unreadable, error.why, COPY),
        }
        self.verify_checkpoints(&folder, found);
        let mut gone = BTreeSet::new();
        for file in self.made(id)? {
            let path = self.root.path().join(&file.path);
            let checkpoint = files::folder_of(&path);
            match file.kind.as_str() {
                "sample" => self.verify_file(&path, file.bytes, file.blake3, COPY, found),
                // Those of a checkpoint that is there were verified with it.
                _ if checkpoint.exists() || was_moved_aside(checkpoint) => {}
                _ => drop(gone.insert(self.root.relative(checkpoint))),
            }
        }
        gone.into_iter().for_each(|path| found.fault(path, What::Missing, "it was kept, and is gone", COPY));
        Ok(())
    }

    /// What the index knows of the checkpoints and samples that a run made and kept.
    fn made(&self, id: &RunId) -> Result<Vec<Artifact>> {
        self.read(|index| {
            let made = "SELECT * FROM artifact WHERE run = ?1 AND kind IN ('checkpoint', 'import', 'sample')";
            index.prepare_cached(made)?.query_map([id.to_string()], artifact)?.collect()
        })
    }

    /// Bytes of what a run made and kept, as far as the index knows.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn made_bytes(&self, id: &RunId) -> Result<u64> {
        Ok(self.made(id)?.iter().map(|file| file.bytes).sum())
    }

    /// Reads the journal of an experiment again.
    pub fn verify_experiment(&self, name: &str, found: &mut Verified) {
        self.verify_lines::<Expansion>(&self.root.experiment_journal(name), found);
    }

    /// Reads the files of a report again, where it has a manifest.
    pub fn verify_report(&self, name: &str, found: &mut Verified) {
        let folder = self.root.report(name);
        let advice = format!("`exp report {name}` draws it again");
        if !folder.join(MANIFEST).exists() {
            return;
        }
        match Manifest::read(&folder) {
            Ok(manifest) => {
                for FileRef { name, bytes, blake3 } in manifest.files {
                    self.verify_file(&folder.join(name), bytes, Some(blake3), &advice, found);
                }
            }
            Err(fault) => self.add(&folder.join(MANIFEST), fault, &advice, found),
        }
    }

    /// Reads the files of tokenizers again, whose names say what they hold.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where they cannot be listed.
    pub fn verify_tokenizers(&self, found: &mut Verified) -> Result<()> {
        let folder = self.root.tokenizers();
        for name in files::names(&folder)? {
            let path = folder.join(&name);
            let Some(hash) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
            let bytes = path.metadata().map_or(0, |file| file.len());
            self.verify_file(&path, bytes, Some(hash.to_owned()), COPY, found);
        }
        Ok(())
    }

    /// Has SQLite look through the index.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn verify_index(&self, found: &mut Verified) -> Result<()> {
        const AGAIN: &str = "`exp store rebuild` makes it again from the folders of the runs";
        let said: Vec<String> = self.read(|index| {
            let mut check = index.prepare("PRAGMA integrity_check(10)")?;
            check.query_map([], |row| row.get(0))?.collect()
        })?;
        found.has_read(&self.path);
        let faults = said.into_iter().filter(|line| line != "ok");
        faults.for_each(|why| found.fault(self.root.relative(&self.path), What::Damaged, why, AGAIN));
        Ok(())
    }

    fn verify_config(&self, id: &RunId, folder: &RunFolder, found: &mut Verified) {
        let path = folder.config();
        found.has_read(&path);
        let relative = self.root.relative(&path);
        match FrozenRun::read(&path) {
            Err(error) if error.io == Some(ErrorKind::NotFound) => {
                found.fault(relative, What::Missing, "the folder has none", COPY);
            }
            Err(error) => found.fault(relative, What::Damaged, error.why, COPY),
            Ok(there) if there.id != *id => {
                found.fault(relative, What::Damaged, format!("it is of the run {}", there.id), COPY);
            }
            // That of an import follows from its weights, which its checkpoint has the hash of.
            Ok(there) if there.imported.is_none() && run_id(&there.config, Some(&there.corpus_hash)) != there.id => {
                found.fault(relative, What::Damaged, "its settings are not those that its id was made of", COPY);
            }
            Ok(_) => {}
        }
    }

    fn verify_checkpoints(&self, folder: &RunFolder, found: &mut Verified) {
        let all = match checkpoints::list(folder) {
            Ok(all) => all,
            Err(error) => return found.fault(self.root.relative(folder.path()), What::Unreadable, error.why, COPY),
        };
        for saved in all {
            let files = match Manifest::read(&saved.path) {
                Ok(manifest) => manifest.files,
                // Its worker may have removed it just now.
                Err(_) if !saved.path.exists() => continue,
                Err(fault) => {
                    self.add(&saved.path.join(MANIFEST), fault, EARLIER, found);
                    continue;
                }
            };
            for file in files {
                let path = saved.path.join(&file.name);
                let before = found.faults.len();
                self.verify_file(&path, file.bytes, Some(file.blake3), EARLIER, found);
                if !saved.path.exists() {
                    found.faults.truncate(before);
                }
            }
        }
    }

    fn verify_file(&self, path: &Path, bytes: u64, blake3: Option<String>, advice: &str, found: &mut Verified) {
        found.has_read(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = FileRef { name, bytes, blake3: blake3.unwrap_or_default() };
        if let Err(fault) = file.verify(files::folder_of(path)) {
            self.add(path, fault, advice, found);
        }
    }

    fn add(&self, path: &Path, fault: manifest::Fault, advice: &str, found: &mut Verified) {
        let relative = self.root.relative(path);
        let is_gone = path.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound);
        match fault {
            _ if is_gone => found.fault(relative, What::Missing, "it was written, and is gone", advice),
            manifest::Fault::Damaged(Error { why, .. }) => found.fault(relative, What::Damaged, why, advice),
            manifest::Fault::Unreadable(Error { why, .. }) => {
                found.fault(relative, What::Unreadable, why, "try again: it may be readable then");
            }
        }
    }

    /// Whether each whole line is what it should be. One without its end is not there yet.
    fn verify_lines<T: serde::de::DeserializeOwned>(&self, path: &Path, found: &mut Verified) {
        self.each_line(path, found, |_, line| serde_json::from_slice::<T>(line).map(drop).map_err(|e| e.to_string()));
    }

    /// The same of events, which have a seal at the end where they ended well.
    fn verify_events(&self, path: &Path, found: &mut Verified) {
        let mut hasher = blake3::Hasher::new();
        self.each_line(path, found, |_, line| {
            let parsed: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
            let seal = parsed[SEAL].as_str().map(str::to_owned);
            serde_json::from_value::<Event>(parsed).map_err(|e| e.to_string())?;
            match seal {
                Some(seal) if seal != hasher.finalize().to_hex().as_str() => {
                    Err("what stands before this line is not what was written".into())
                }
                _ => {
                    hasher.update(line).update(b"\n");
                    Ok(())
                }
            }
        });
    }

    fn each_line(&self, path: &Path, found: &mut Verified, mut verify: impl FnMut(u64, &[u8]) -> Result<(), String>) {
        found.has_read(path);
        let relative = self.root.relative(path);
        let mut lines = match Lines::open(path, 0) {
            Ok(lines) => lines,
            Err(e) if e.kind() == ErrorKind::NotFound => return, // nobody has written any
            Err(e) => return found.fault(relative, What::Unreadable, e, COPY),
        };
        loop {
            match lines.next() {
                Ok(None) => return,
                Ok(Some((_, b""))) => {}
                Ok(Some((start, line))) => {
                    if let Err(why) = verify(start, line) {
                        found.fault(relative.clone(), What::Damaged, format!("from byte {start} on: {why}"), COPY);
                    }
                }
                Err(e) => return found.fault(relative, What::Unreadable, e, COPY),
            }
        }
    }
}

/// Whether a checkpoint was moved aside, which its folder's new name tells.
fn was_moved_aside(checkpoint: &Path) -> bool {
    let end = format!("-{}", checkpoint.file_name().unwrap_or_default().to_string_lossy());
    let beside = fs::read_dir(files::folder_of(checkpoint)).into_iter().flatten().flatten();
    beside.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().ends_with(&end))
}
