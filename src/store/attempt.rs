//! Takes in the events of one attempt.
//!
//! A later attempt continues from a checkpoint, so that what earlier attempts did beyond its step is void; one that
//! starts anew makes all of it void. An attempt's value at a step counts where it is void by no later attempt; of
//! several that count, the latest attempt's is kept. That rule knows no order: the attempts' files may be read one after
//! the other or in turns, and a worker that was thought dead and writes on changes nothing.

use std::collections::HashMap;

use rusqlite::{Transaction, named_params};

use super::{
    columns::{Float, int, json, unsigned_option},
    damage::each_line,
    lines::{News, news},
};
use crate::{
    base::folders::{Root, RunFolder},
    event::{Checkpointed, Eval, Event, FileRef, IMPORT, Ready, Started, Step, Used},
};

/// Takes in what an attempt's events have from `offset` on.
pub fn take(
    index: &Transaction,
    root: &Root,
    folder: &RunFolder,
    run: i64,
    attempt: u32,
    offset: u64,
) -> rusqlite::Result<()> {
    index.execute("INSERT OR IGNORE INTO attempts (run, attempt) VALUES (?1, ?2)", (run, attempt))?;
    let path = folder.events(attempt);
    if news(&path, offset) == News::Nothing {
        return Ok(());
    }
    let mut writer = Writer::new(index, run, attempt)?;
    let offset = each_line(index, root, &path, offset, |start, event| writer.take(start, &event))?;
    writer.set("events", int(offset))
}

/// Forgets the files of checkpoints that were removed.
pub fn drop_checkpoints(index: &Transaction, run: i64, folders: &[String]) -> rusqlite::Result<()> {
    // '0' follows '/': this is every path that starts with the folder and a slash.
    let mut drop =
        index.prepare_cached("DELETE FROM artifacts WHERE run = ?1 AND path > ?2 || '/' AND path < ?2 || '0'")?;
    folders.iter().try_for_each(|folder| drop.execute((run, folder)).map(|_| ()))
}

struct Writer<'a> {
    index: &'a Transaction<'a>,
    run: i64,
    attempt: u32,
    /// The earliest step that a later attempt continues from.
    void_after: Option<u64>,
    /// The numbers of the metrics that were met so far.
    names: HashMap<&'static str, i64>,
}

impl<'a> Writer<'a> {
    fn new(index: &'a Transaction<'a>, run: i64, attempt: u32) -> rusqlite::Result<Self> {
        let later = "SELECT min(from_step) AS from_step FROM attempts WHERE run = ?1 AND attempt > ?2";
        let void_after = index.query_row(later, (run, attempt), |row| unsigned_option(row, "from_step"))?;
        Ok(Self { index, run, attempt, void_after, names: HashMap::new() })
    }

    fn take(&mut self, start: u64, event: &Event) -> rusqlite::Result<()> {
        match event {
            Event::Started(started) => self.started(started),
            Event::MovedAside { checkpoints, .. } => drop_checkpoints(self.index, self.run, checkpoints),
            Event::Loading { .. } => Ok(()), // for the next attempt, which reads it in the folder
            Event::Ready(ready) => self.ready(ready),
            Event::Step(step) => self.step(step),
            Event::Eval(eval) => self.eval(eval),
            Event::Checkpointed(checkpoint) => self.checkpointed(checkpoint),
            Event::Sampled(sampled) => self.artifact("sample", sampled.step, &sampled.file.name, &sampled.file),
            Event::Warning { message, .. } => self.warning(start, message),
            Event::Finished { at, outcome, .. } => {
                self.set("ended", at)?;
                self.set("outcome", json(outcome)?)
            }
        }
    }

    fn started(&self, started: &Started) -> rusqlite::Result<()> {
        self.index.execute("UPDATE runs SET created = min(created, ?2) WHERE run = ?1", (self.run, started.at))?;
        self.set("started", json(started)?)
    }

    fn ready(&self, ready: &Ready) -> rusqlite::Result<()> {
        self.set("ready", json(ready)?)?;
        ready.used.iter().try_for_each(|used| self.used(used))?;
        self.set("from_step", int(ready.from_step))?;
        self.index.execute(
            "DELETE FROM metrics
             WHERE run = :run AND attempt < :attempt AND (step > :from_step OR :from_step = 0)",
            named_params! { ":run": self.run, ":attempt": self.attempt, ":from_step": int(ready.from_step) },
        )?;
        Ok(())
    }

    fn step(&mut self, step: &Step) -> rusqlite::Result<()> {
        self.put("train/loss", step.step, step.loss)?;
        self.put("lr", step.step, step.lr)?;
        self.put("grad_norm", step.step, step.grad_norm)?;
        self.put("step_ms", step.step, step.step_ms)?;
        self.put("data_ms", step.step, step.data_ms)?;
        self.put("tokens_per_second", step.step, step.tokens_per_second)?;
        self.put("memory_bytes", step.step, step.memory_bytes as f64)?;
        step.mfu.map_or(Ok(()), |mfu| self.put("mfu", step.step, mfu))
    }

    fn eval(&mut self, eval: &Eval) -> rusqlite::Result<()> {
        self.put("eval/train_loss", eval.step, eval.train_loss)?;
        self.put("val/loss", eval.step, eval.val_loss)?;
        self.put("val/bits_per_char", eval.step, eval.bits_per_char)?;
        self.put("eval_ms", eval.step, eval.eval_ms)
    }

    fn checkpointed(&self, checkpoint: &Checkpointed) -> rusqlite::Result<()> {
        let is_import = "SELECT ready ->> 'engine' = ?3 FROM attempts WHERE run = ?1 AND attempt = ?2";
        let is_import: Option<bool> =
            self.index.query_row(is_import, (self.run, self.attempt, IMPORT), |row| row.get(0))?;
        let kind = if is_import == Some(true) { "import" } else { "checkpoint" };
        for file in &checkpoint.files {
            self.artifact(kind, checkpoint.step, &format!("{}/{}", checkpoint.folder, file.name), file)?;
        }
        drop_checkpoints(self.index, self.run, &checkpoint.removed)
    }

    /// A file at `path` in the run's folder.
    fn artifact(&self, kind: &str, step: u64, path: &str, file: &FileRef) -> rusqlite::Result<()> {
        let mut insert = self.index.prepare_cached(
            "INSERT OR REPLACE INTO artifacts (run, path, kind, step, bytes, blake3)
             VALUES (:run, :path, :kind, :step, :bytes, :blake3)",
        )?;
        insert.execute(named_params! {
            ":run": self.run,
            ":path": path,
            ":kind": kind,
            ":step": int(step),
            ":bytes": int(file.bytes),
            ":blake3": file.blake3,
        })?;
        Ok(())
    }

    /// A file that the run uses, wherever it lies.
    fn used(&self, used: &Used) -> rusqlite::Result<()> {
        let mut insert = self.index.prepare_cached(
            "INSERT OR REPLACE INTO used (run, path, kind, bytes, blake3) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let FileRef { name, bytes, blake3 } = &used.file;
        insert.execute((self.run, name, used.kind.word(), int(*bytes), blake3)).map(drop)
    }

    fn warning(&self, start: u64, message: &str) -> rusqlite::Result<()> {
        self.index.execute(
            "INSERT OR REPLACE INTO warnings (run, attempt, offset, message) VALUES (?1, ?2, ?3, ?4)",
            (self.run, self.attempt, int(start), message),
        )?;
        Ok(())
    }

    /// Keeps a value, unless it is void or a later attempt has one.
    fn put(&mut self, name: &'static str, step: u64, value: f64) -> rusqlite::Result<()> {
        if self.void_after.is_some_and(|from_step| step > from_step || from_step == 0) {
            return Ok(());
        }
        let name = self.number(name)?;
        self.index
            .prepare_cached(
                "INSERT INTO metrics (run, name, step, attempt, value) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET attempt = excluded.attempt, value = excluded.value
                 WHERE excluded.attempt >= metrics.attempt",
            )?
            .execute((self.run, name, int(step), self.attempt, Float(value)))?;
        Ok(())
    }

    /// The number of a metric.
    fn number(&mut self, text: &'static str) -> rusqlite::Result<i64> {
        if let Some(&number) = self.names.get(text) {
            return Ok(number);
        }
        self.index.execute("INSERT OR IGNORE INTO metric_names (text) VALUES (?1)", [text])?;
        let number = self.index.query_row("SELECT name FROM metric_names WHERE text = ?1", [text], |row| row.get(0))?;
        self.names.insert(text, number);
        Ok(number)
    }

    /// Sets a column of the attempt's row.
    fn set(&self, column: &'static str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
        let sql = format!("UPDATE attempts SET {column} = :value WHERE run = :run AND attempt = :attempt");
        self.index.execute(&sql, named_params! { ":value": value, ":run": self.run, ":attempt": self.attempt })?;
        Ok(())
    }
}
