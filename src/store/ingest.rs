//! Takes in what the folder of one run has new: its config once, then its attempts' events and its journal from where
//! they were read up to.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension, Params, Transaction, named_params, types::Value};

use super::{
    Store, attempt,
    columns::{int, json, unsigned},
    damage::{damaged, each_line, repaired},
    history,
    lines::{News, news},
    parts::Part,
    tags,
};
use crate::{
    base::{
        Result, RunId, clock, files,
        folders::{Root, RunFolder},
    },
    event::{CANCELLED, Note},
    spec::identity::FrozenRun,
};

impl Store {
    /// Takes in what a run's folder has new. Cheap where it has nothing.
    ///
    /// # Errors
    /// Where the index cannot be written. What cannot be read of the folder is kept as [`Damage`].
    ///
    /// [`Damage`]: super::Damage
    pub fn ingest(&mut self, id: &RunId) -> Result<()> {
        let folder = self.root.run(id);
        let known = self.read(|index| Known::of(index, &folder))?;
        if self.read_only || known.is_some_and(|known| !known.is_behind(&folder)) {
            return Ok(());
        }
        let root = self.root.clone();
        self.write(|index| take_run(index, &root, &folder))
    }

    /// Forgets what is known of a run and takes in its folder from the start: after its config was replaced, which is
    /// otherwise taken in once.
    ///
    /// # Errors
    /// As [`Store::ingest`].
    pub fn take_anew(&mut self, id: &RunId) -> Result<()> {
        let (root, folder) = (self.root.clone(), self.root.run(id));
        self.write(|index| {
            forget(index, &root, &folder)?;
            take_run(index, &root, &folder)
        })
    }
}

/// The run whose id starts with a folder's name: 'g' follows the last hex digit.
const IN_FOLDER: &str = "id >= ?1 AND id < ?1 || 'g'";

/// How far the folder of a run was read.
#[derive(Debug, Default)]
pub struct Known {
    run: i64,
    journal: u64,
    /// Each attempt's number and the bytes taken in of its events.
    attempts: Vec<(u32, u64)>,
}

impl Known {
    /// What is known of one folder.
    fn of(index: &Connection, folder: &RunFolder) -> rusqlite::Result<Option<Self>> {
        let which = format!("WHERE {IN_FOLDER}");
        Ok(Self::query(index, &which, [folder.name()])?.pop().map(|(_, known)| known))
    }

    /// What is known of the folders of a [part](parts) of the runs, with their names.
    pub fn all(index: &Connection, part: &Part) -> rusqlite::Result<Vec<(String, Self)>> {
        Self::query(index, "WHERE runs.run BETWEEN ?1 AND ?2", [part.start(), part.end()])
    }

    fn query(index: &Connection, which: &str, parameters: impl Params) -> rusqlite::Result<Vec<(String, Self)>> {
        let mut statement = index.prepare_cached(&format!(
            "SELECT substr(id, 1, 16), runs.run, journal, attempt, events
             FROM runs
             LEFT JOIN attempts ON attempts.run = runs.run
             {which}
             ORDER BY runs.run, attempt"
        ))?;
        let mut rows = statement.query(parameters)?;
        let mut read: Vec<(String, Self)> = Vec::new();
        while let Some(row) = rows.next()? {
            let run = row.get(1)?;
            if read.last().is_none_or(|(_, last)| last.run != run) {
                read.push((row.get(0)?, Self { run, journal: unsigned(row, 2)?, attempts: Vec::new() }));
            }
            if let (Some((_, last)), Some(attempt)) = (read.last_mut(), row.get(3)?) {
                last.attempts.push((attempt, unsigned(row, 4)?));
            }
        }
        Ok(read)
    }

    /// The files that were read, and up to which byte.
    pub fn files(&self, folder: &RunFolder) -> Vec<(PathBuf, u64)> {
        let events = self.attempts.iter().map(|&(attempt, offset)| (folder.events(attempt), offset));
        [(folder.journal(), self.journal)].into_iter().chain(events).collect()
    }

    /// Whether the folder has anything that the index does not know.
    pub fn is_behind(&self, folder: &RunFolder) -> bool {
        let next = self.attempts.last().map_or(1, |(last, _)| last + 1);
        folder.attempt(next).exists()
            || news(&folder.journal(), self.journal) != News::Nothing
            || self.attempts.iter().any(|&(k, offset)| news(&folder.events(k), offset) != News::Nothing)
    }

    /// Whether a file has less than was read of it.
    fn is_ahead(&self, folder: &RunFolder) -> bool {
        news(&folder.journal(), self.journal) == News::Shrunk
            || self.attempts.iter().any(|&(k, offset)| news(&folder.events(k), offset) == News::Shrunk)
    }
}

/// Takes in what the folder of a run has new. A folder without a config is no run yet.
pub fn take_run(index: &Transaction, root: &Root, folder: &RunFolder) -> rusqlite::Result<()> {
    let known = match Known::of(index, folder)? {
        Some(known) if known.is_ahead(folder) => {
            forget(index, root, folder)?;
            None
        }
        known => known,
    };
    let known = match known {
        Some(known) => known,
        None => match config(index, root, folder)? {
            Some(frozen) => Known { run: insert_run(index, root, folder, &frozen)?, ..Known::default() },
            None => return Ok(()),
        },
    };
    let read: HashMap<u32, u64> = known.attempts.iter().copied().collect();
    for attempt in attempts(index, root, folder, &known)? {
        let offset = read.get(&attempt).copied().unwrap_or(0);
        attempt::take(index, root, folder, known.run, attempt, offset)?;
    }
    take_journal(index, root, folder, &known)?;
    summarize(index, known.run)
}

/// The attempts at a run; those that are known already where its folder cannot be listed, which is noted.
fn attempts(index: &Transaction, root: &Root, folder: &RunFolder, known: &Known) -> rusqlite::Result<Vec<u32>> {
    match folder.attempts() {
        Ok(attempts) => Ok(attempts),
        Err(error) => {
            damaged(index, &root.relative(folder.path()), 0, &error.why)?;
            Ok(known.attempts.iter().map(|(attempt, _)| *attempt).collect())
        }
    }
}

/// Removes the run of a folder and all that is known of it.
pub fn forget(index: &Transaction, root: &Root, folder: &RunFolder) -> rusqlite::Result<()> {
    index.execute(&format!("DELETE FROM runs WHERE {IN_FOLDER}"), [folder.name()])?;
    repaired(index, &root.relative(folder.path()))
}

/// The frozen run of a config, or why it cannot be read: of a pipe in its place that it is one, lest everybody wait for it.
pub fn frozen(path: &Path) -> Result<FrozenRun, String> {
    files::open(path).map_err(|e| e.to_string())?;
    FrozenRun::read(path).map_err(|e| e.why)
}

fn config(index: &Transaction, root: &Root, folder: &RunFolder) -> rusqlite::Result<Option<FrozenRun>> {
    let path = folder.config();
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    let frozen = frozen(&path).and_then(|frozen| {
        if frozen.id.folder() == folder.name() {
            Ok(frozen)
        } else {
            Err(format!("it is of the run {}, which belongs elsewhere", frozen.id))
        }
    });
    match frozen {
        Ok(frozen) => Ok(Some(frozen)),
        Err(why) => damaged(index, &root.relative(&path), 0, &why).map(|()| None),
    }
}

fn insert_run(index: &Transaction, root: &Root, folder: &RunFolder, frozen: &FrozenRun) -> rusqlite::Result<i64> {
    index.prepare_cached("INSERT INTO runs (id, created, config) VALUES (:id, :created, :config)")?.execute(
        named_params! {
            ":id": frozen.id.to_string(),
            ":created": clock::modified(&folder.config()),
            ":config": json(&frozen.config)?,
        },
    )?;
    let run = index.last_insert_rowid();
    repaired(index, &root.relative(&folder.config()))?;
    let mut insert = index.prepare_cached("INSERT INTO leaves (run, path, value) VALUES (:run, :path, :value)")?;
    for (path, value) in frozen.config.leaves() {
        insert.execute(named_params! { ":run": run, ":path": path, ":value": column(&value) })?;
    }
    Ok(run)
}

/// A leaf as a column.
fn column(leaf: &serde_json::Value) -> Value {
    match leaf {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Integer((*flag).into()),
        serde_json::Value::String(text) => Value::Text(text.clone()),
        other => other.as_i64().map(Value::Integer).or(other.as_f64().map(Value::Real)).unwrap_or(Value::Null),
    }
}

/// Takes in what other commands say of the run.
fn take_journal(index: &Transaction, root: &Root, folder: &RunFolder, known: &Known) -> rusqlite::Result<()> {
    let skipped = |attempt: u32, why: &str| {
        index
            .execute(
                "UPDATE runs SET skipped = :why, skipped_attempt = :attempt WHERE run = :run",
                named_params! { ":run": known.run, ":attempt": attempt, ":why": why },
            )
            .map(drop)
    };
    let offset = each_line(index, root, &folder.journal(), known.journal, |_, note| match note {
        Note::GaveUp { attempt, why, .. } => index
            .execute(
                "INSERT INTO attempts (run, attempt, gave_up) VALUES (:run, :attempt, :why)
                 ON CONFLICT DO UPDATE SET gave_up = excluded.gave_up",
                named_params! { ":run": known.run, ":attempt": attempt, ":why": why },
            )
            .map(drop),
        Note::Skipped { attempt, why, .. } => skipped(attempt, &why),
        Note::Paused { attempt, step, why, .. } => index
            .execute(
                "UPDATE runs SET paused = :why, paused_step = :step, paused_attempt = :attempt WHERE run = :run",
                named_params! { ":run": known.run, ":attempt": attempt, ":step": int(step), ":why": why },
            )
            .map(drop),
        Note::Cancelled { attempt: 0, .. } => skipped(0, CANCELLED),
        Note::Cancelled { .. } => Ok(()), // how it was left, its last attempt says
        Note::Removed { checkpoints, .. } => attempt::drop_checkpoints(index, known.run, &checkpoints),
        Note::Tagged { tag, .. } => tags::put(index, known.run, &tag),
        Note::Untagged { tag, .. } => tags::take(index, known.run, &tag),
    })?;
    index.execute("UPDATE runs SET journal = ?2 WHERE run = ?1", (known.run, int(offset)))?;
    Ok(())
}

/// Brings up to date what a list of runs shows of a run.
fn summarize(index: &Transaction, run: i64) -> rusqlite::Result<()> {
    index.execute(
        "UPDATE runs SET
             attempts      = (SELECT count(*)     FROM attempts WHERE run = :run),
             last_attempt  = (SELECT max(attempt) FROM attempts WHERE run = :run),
             ready_attempt = (SELECT max(attempt) FROM attempts WHERE run = :run AND ready IS NOT NULL),
             step          = coalesce((SELECT step FROM points WHERE run = :run AND name = 'train/loss'
                                       ORDER BY step DESC LIMIT 1), 0),
             last_val_loss = (SELECT value FROM points WHERE run = :run AND name = 'val/loss'
                              ORDER BY step DESC LIMIT 1),
             (best_step, best_val_loss) = (SELECT step, value FROM points WHERE run = :run AND name = 'val/loss'
                                           AND typeof(value) = 'real' ORDER BY value, step LIMIT 1)
         WHERE run = :run",
        named_params! { ":run": run },
    )?;
    let over = "SELECT outcome IS NOT NULL OR gave_up IS NOT NULL
                FROM attempts WHERE run = ?1 ORDER BY attempt DESC LIMIT 1";
    let over = index.query_row(over, [run], |row| row.get(0)).optional()?.unwrap_or(false);
    let speed = if over { history::tokens_per_second(index, run)? } else { None };
    index.execute("UPDATE runs SET tokens_per_second = ?2 WHERE run = ?1", (run, speed))?;
    Ok(())
}
