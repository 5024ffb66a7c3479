//! Reads all that is kept of runs and reports again, and compares it with what was written. What stands under `cache/` is
//! for `data` to verify.

use std::{collections::BTreeSet, io::ErrorKind, path::Path};

use serde_json::Value;

use super::{
    Store,
    history::artifact,
    ingest::{self, Known},
    lines::Lines,
    parts::EVERY,
    rows::Artifact,
};
use crate::{
    base::{
        Error, Result, RunId,
        checkpoints::{self, Saved},
        files,
        folders::RunFolder,
        manifest::{self, FileRef, MANIFEST, Manifest},
    },
    event::{Event, Expansion, Note, SEAL},
    spec::identity::run_id,
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

const EARLIER: &str = "a run that is not done goes on from the checkpoint before a damaged one; one that is done is trained \
                       again by `exp run` of its spec once `exp rm` has removed it";
const COPY: &str = "put back from a copy what a run has written, or remove the run with `exp rm`: `exp run` of its spec then \
                    trains it again, with the same losses";

impl Store {
    /// What the index knows and the folders lack: to be asked before the index is brought up to date, and forgets it.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn verify_presence(&self, found: &mut Verified) -> Result<()> {
        for (name, known) in self.read(|index| Known::all(index, &EVERY))? {
            let folder = RunFolder::new(self.root.runs().join(name));
            if is_gone(folder.path()) {
                found.fault(self.root.relative(folder.path()), What::Missing, "the index knows this run", COPY);
                continue;
            }
            for (path, offset) in known.files(&folder) {
                let relative = self.root.relative(&path);
                match path.metadata() {
                    Ok(file) if file.len() < offset => {
                        let why = format!("it has {} bytes, and had {offset} when it was last read", file.len());
                        found.fault(relative, What::Damaged, why, COPY);
                    }
                    Err(e) if e.kind() == ErrorKind::NotFound && offset > 0 => {
                        found.fault(relative, What::Missing, "it was read before", COPY);
                    }
                    _ => {} // what cannot be read is found when it is
                }
            }
        }
        Ok(())
    }

    /// Reads a run's folder again: its config against its id, its events and its journal line by line and by their seal, its
    /// checkpoints, samples and tokenizer by their hashes. What a worker writes meanwhile is no fault.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn verify_run(&mut self, folder: &RunFolder, found: &mut Verified) -> Result<()> {
        let id = self.verify_config(folder, found);
        self.verify_lines::<Note>(&folder.journal(), found);
        let attempts = folder.attempts().unwrap_or_else(|error| {
            found.fault(self.root.relative(folder.path()), What::Unreadable, error.why, COPY);
            Vec::new()
        });
        let saved = self.verify_checkpoints(folder, found);
        for attempt in saved.iter().map(|saved| saved.attempt).chain(attempts.iter().copied()).collect::<BTreeSet<_>>()
        {
            let path = folder.events(attempt);
            let is_last = attempts.last() == Some(&attempt);
            let has_saved = saved.iter().any(|saved| saved.attempt == attempt);
            // A worker that has just begun, or was killed when it did, has written none.
            if is_gone(&path) && (!is_last || has_saved) {
                found.fault(self.root.relative(&path), What::Missing, "this attempt was made", COPY);
            }
            self.verify_events(&path, found);
        }
        id.map_or(Ok(()), |id| self.verify_made(&id, folder, found))
    }

    /// What the index says that a run made and kept, and its tokenizer.
    fn verify_made(&mut self, id: &RunId, folder: &RunFolder, found: &mut Verified) -> Result<()> {
        for file in self.made(id)?.iter().filter(|file| file.kind == "sample") {
            let path = self.root.path().join(&file.path);
            self.verify_file(&path, file.bytes, file.blake3.clone(), COPY, found);
        }
        for file in self.used(id)?.into_iter().filter(|file| file.kind == "tokenizer") {
            let path = self.root.path().join(&file.path);
            if path == folder.tokenizer() || is_gone(&path) {
                self.verify_file(&path, file.bytes, file.blake3, COPY, found);
            }
        }
        if self.gone_checkpoints(id)?.is_empty() {
            return Ok(());
        }
        self.ingest(id)?; // its worker may have removed some just now, and said so before
        for path in self.gone_checkpoints(id)? {
            found.fault(path, What::Missing, "it was kept", EARLIER);
        }
        Ok(())
    }

    /// The checkpoints that the index knows and that are not there; those that are there were verified by their manifests.
    fn gone_checkpoints(&self, id: &RunId) -> Result<BTreeSet<String>> {
        let files = self.made(id)?.into_iter().filter(|file| file.kind != "sample");
        let folders = files.map(|file| files::folder_of(&self.root.path().join(file.path)).to_path_buf());
        let gone = folders.filter(|folder| is_gone(folder) && !was_moved_aside(folder));
        Ok(gone.map(|folder| self.root.relative(&folder)).collect())
    }

    /// What the index knows of the checkpoints and samples that a run made and kept.
    fn made(&self, id: &RunId) -> Result<Vec<Artifact>> {
        self.read(|index| {
            let made = "SELECT * FROM artifact WHERE run = ?1 AND kind IN ('checkpoint', 'import', 'sample')";
            index.prepare_cached(made)?.query_map([id.to_string()], artifact)?.collect()
        })
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
            let hash = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let Some(hash) = hash.filter(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit())) else {
                continue;
            };
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

    /// The run that a folder is of, where its config tells.
    fn verify_config(&self, folder: &RunFolder, found: &mut Verified) -> Option<RunId> {
        let path = folder.config();
        found.has_read(&path);
        let relative = self.root.relative(&path);
        if is_gone(&path) {
            // A lock alone is left by who came too late for the run, and no run.
            if !is_gone(&folder.attempt(1)) || !is_gone(&folder.checkpoints()) {
                found.fault(relative, What::Missing, "the folder has none", COPY);
            }
            return None;
        }
        let there = match ingest::frozen(&path) {
            Ok(there) => there,
            Err(why) => {
                found.fault(relative, What::Damaged, why, COPY);
                return None;
            }
        };
        let id = there.id;
        if id.folder() != folder.name() {
            found.fault(relative, What::Damaged, format!("it is of the run {id}"), COPY);
            return None;
        }
        // That of an import follows from its weights, which its checkpoint has the hash of.
        if there.imported.is_none() && run_id(&there.config, Some(&there.corpus_hash)) != id {
            found.fault(relative, What::Damaged, "its settings are not those that its id was made of", COPY);
        }
        Some(id)
    }

    fn verify_checkpoints(&self, folder: &RunFolder, found: &mut Verified) -> Vec<Saved> {
        let all = checkpoints::list(folder).unwrap_or_else(|error| {
            found.fault(self.root.relative(&folder.checkpoints()), What::Unreadable, error.why, EARLIER);
            Vec::new()
        });
        for saved in &all {
            let files = match Manifest::read(&saved.path) {
                Ok(manifest) => manifest.files,
                // Its worker may have removed it just now.
                Err(_) if is_gone(&saved.path) => continue,
                Err(fault) => {
                    self.add(&saved.path.join(MANIFEST), fault, EARLIER, found);
                    continue;
                }
            };
            for file in files {
                let path = saved.path.join(&file.name);
                let before = found.faults.len();
                self.verify_file(&path, file.bytes, Some(file.blake3), EARLIER, found);
                if is_gone(&saved.path) {
                    found.faults.truncate(before);
                }
            }
        }
        all
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
        match fault {
            _ if is_gone(path) => found.fault(relative, What::Missing, "it was written, and is gone", advice),
            manifest::Fault::Damaged(Error { why, .. }) => found.fault(relative, What::Damaged, why, advice),
            manifest::Fault::Unreadable(Error { why, .. }) => {
                found.fault(relative, What::Unreadable, why, "try again: it may be readable then");
            }
        }
    }

    /// Whether each whole line is what it should be. One without its end is not there yet.
    fn verify_lines<T: serde::de::DeserializeOwned>(&self, path: &Path, found: &mut Verified) {
        self.each_line(path, found, |line| serde_json::from_slice::<T>(line).map(drop).map_err(|e| e.to_string()));
    }

    /// The same of events, which have a seal at the end where they ended well.
    fn verify_events(&self, path: &Path, found: &mut Verified) {
        let (mut hasher, mut is_broken) = (blake3::Hasher::new(), false);
        self.each_line(path, found, |line| {
            let parsed = serde_json::from_slice::<Value>(line);
            let seal = parsed.as_ref().ok().and_then(|parsed| parsed[SEAL].as_str().map(str::to_owned));
            let event = parsed.and_then(serde_json::from_value::<Event>).map_err(|e| e.to_string());
            match seal {
                // What is broken before it was named already.
                Some(seal) if !is_broken && seal != hasher.finalize().to_hex().as_str() => {
                    return Err("what stands before this line is not what was written".into());
                }
                _ => drop(hasher.update(line).update(b"\n")),
            }
            is_broken |= event.is_err();
            event.map(drop)
        });
    }

    fn each_line(&self, path: &Path, found: &mut Verified, mut verify: impl FnMut(&[u8]) -> Result<(), String>) {
        found.has_read(path);
        let relative = self.root.relative(path);
        let mut lines = match Lines::open(path, 0) {
            Ok(lines) => lines,
            Err(e) if e.kind() == ErrorKind::NotFound => return, // nobody has written any
            Err(e) => return found.fault(relative, What::Unreadable, e, COPY),
        };
        for number in 1.. {
            match lines.next() {
                Ok(None) => return,
                Ok(Some((_, b""))) => {}
                Ok(Some((_, line))) => {
                    if let Err(why) = verify(line) {
                        found.fault(relative.clone(), What::Damaged, format!("line {number}: {why}"), COPY);
                    }
                }
                Err(e) => return found.fault(relative, What::Unreadable, e, COPY),
            }
        }
    }
}

/// Whether something is known not to be there.
fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// Whether a checkpoint was moved aside, which its folder's new name tells.
fn was_moved_aside(checkpoint: &Path) -> bool {
    let name = checkpoint.file_name().unwrap_or_default().to_string_lossy();
    ["damaged", "bad", "void"].iter().any(|why| !is_gone(&checkpoint.with_file_name(format!("{why}-{name}"))))
}
