//! What happened to one run: its curves, its attempts, its files.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Row, named_params};

use super::{
    Store,
    columns::{Float, from_json_option, unsigned, unsigned_option},
    rows::{Artifact, AttemptRow, Point, Summary},
    state::Latest,
};
use crate::{
    base::{Result, RunId, checkpoints, files, folders::RunFolder, lease},
    event::{Outcome, Started},
};

impl Store {
    /// All metrics of a run by name, each in ascending steps, one value per step; none for a run that is not known.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn metrics(&self, id: &RunId) -> Result<BTreeMap<String, Vec<(u64, f64)>>> {
        let names = self.read(|index| {
            let mut statement = index.prepare_cached("SELECT text FROM metric_names")?;
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        })?;
        let mut metrics = BTreeMap::new();
        for name in names {
            let points = self.curve(id, &name)?;
            if !points.is_empty() {
                metrics.insert(name, points.iter().map(|p| (p.step, p.value)).collect());
            }
        }
        Ok(metrics)
    }

    /// One metric of a run in ascending steps, one value per step; empty where there is none.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn curve(&self, id: &RunId, name: &str) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        self.each_point(id, name, &mut |point| points.push(point))?;
        Ok(points)
    }

    /// Hands over one metric of a run, point by point in ascending steps: for those who do not want all of it at once.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn each_point(&self, id: &RunId, name: &str, take: &mut dyn FnMut(Point)) -> Result<()> {
        self.read(|index| {
            let mut statement = index.prepare_cached(
                "SELECT step, value, attempt
                 FROM points
                 WHERE run = (SELECT run FROM runs WHERE id = :id) AND name = :name
                 ORDER BY step",
            )?;
            let mut rows = statement.query(named_params! { ":id": id.to_string(), ":name": name })?;
            while let Some(row) = rows.next()? {
                let (step, Float(value), attempt) = (row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?);
                take(Point { step: step.max(0) as u64, value, attempt });
            }
            Ok(())
        })
    }

    /// What there is to say of each metric of a run in a line, by name.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn summaries(&self, id: &RunId) -> Result<BTreeMap<String, Summary>> {
        self.read(|index| {
            let mut statement = index.prepare_cached(
                "SELECT name, count(*), max(step),
                        (SELECT value FROM points AS last
                         WHERE last.run = points.run AND last.name = points.name ORDER BY step DESC LIMIT 1),
                        min(value) FILTER (WHERE typeof(value) = 'real'),
                        max(value) FILTER (WHERE typeof(value) = 'real')
                 FROM points
                 WHERE run = (SELECT run FROM runs WHERE id = ?1)
                 GROUP BY name",
            )?;
            let rows = statement.query_map([id.to_string()], |row| {
                let (count, step) = (row.get::<_, i64>(1)?, row.get::<_, i64>(2)?);
                let Float(last) = row.get(3)?;
                let range = row.get::<_, Option<f64>>(4)?.zip(row.get::<_, Option<f64>>(5)?);
                Ok((row.get(0)?, Summary { count: count as u64, step: step as u64, last, range }))
            })?;
            rows.collect()
        })
    }

    /// The attempts at a run, the first one first.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn attempts(&self, id: &RunId) -> Result<Vec<AttemptRow>> {
        let folder = self.root.run(id);
        let mut attempts = self.read(|index| {
            index
                .prepare_cached(
                    "SELECT outcome, gave_up, started, attempt, ready, ended
                     FROM attempts
                     WHERE run = (SELECT run FROM runs WHERE id = ?1)
                     ORDER BY attempt",
                )?
                .query_map([id.to_string()], attempt_row)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        if let Some(last) = attempts.last_mut().filter(|row| row.outcome == KILLED)
            && lease::is_held(&folder.lock())?
        {
            last.outcome = "running".into();
        }
        for row in &mut attempts {
            let events = self.root.relative(&folder.events(row.started.attempt));
            row.warnings = self.read(|index| warnings(index, id, row.started.attempt, &events))?;
        }
        Ok(attempts)
    }

    /// The files of a run: its config, the events and logs of its attempts, the checkpoints that are kept, and the files
    /// that it uses and others may use too.
    ///
    /// # Errors
    /// Where the index or the config cannot be read.
    pub fn artifacts(&self, id: &RunId) -> Result<Vec<Artifact>> {
        let folder = self.root.run(id);
        let mut artifacts = Vec::new();
        if folder.config().exists() {
            let content = files::read(&folder.config())?;
            let blake3 = Some(blake3::hash(&content).to_hex().to_string());
            artifacts.extend(self.file("config", &folder.config()).map(|file| Artifact { blake3, ..file }));
        }
        for attempt in folder.attempts()? {
            artifacts.extend(self.file("events", &folder.events(attempt)));
            artifacts.extend(self.file("log", &folder.log(attempt)));
        }
        artifacts.extend(self.checkpoints(id, &folder)?);
        artifacts.extend(self.used(id)?);
        Ok(artifacts)
    }

    /// The texts that the run's model wrote, by the step that each was written after. Of several attempts' the latest one's
    /// counts, and none after the step that a later attempt went on from. A file that is gone, or is not what was written,
    /// is left out.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn samples(&self, id: &RunId) -> Result<Vec<(u64, String)>> {
        let rows = self.read(|index| {
            index
                .prepare_cached(
                    "SELECT step, path, blake3,
                            (SELECT min(from_step) FROM attempts AS later
                             WHERE later.run = artifacts.run AND later.attempt > attempts.attempt) AS void_after
                     FROM artifacts
                     JOIN attempts ON attempts.run = artifacts.run
                          AND artifacts.path LIKE '%.attempt-' || attempts.attempt || '.txt'
                     WHERE kind = 'sample' AND artifacts.run = (SELECT run FROM runs WHERE id = ?1)
                     ORDER BY step, attempt",
                )?
                .query_map([id.to_string()], |row| {
                    let (path, blake3): (String, String) = (row.get("path")?, row.get("blake3")?);
                    Ok((unsigned(row, "step")?, path, blake3, unsigned_option(row, "void_after")?))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let folder = self.root.run(id);
        let mut samples = BTreeMap::new();
        for (step, path, hash, void_after) in rows {
            let is_void = void_after.is_some_and(|from_step| step > from_step || from_step == 0);
            let read = std::fs::read(folder.path().join(path)).ok();
            let whole = read.filter(|bytes| blake3::hash(bytes).to_hex().as_str() == hash);
            if let (false, Some(Ok(text))) = (is_void, whole.map(String::from_utf8)) {
                samples.insert(step, text);
            }
        }
        Ok(samples.into_iter().collect())
    }

    /// A file that may still grow; `None` where it is not there.
    fn file(&self, kind: &str, path: &std::path::Path) -> Option<Artifact> {
        let bytes = path.metadata().ok()?.len();
        Some(Artifact { kind: kind.into(), step: None, path: self.root.relative(path), bytes, blake3: None })
    }

    /// The files that a run uses and did not make.
    pub(super) fn used(&self, id: &RunId) -> Result<Vec<Artifact>> {
        self.read(|index| {
            let used = "SELECT kind, NULL AS step, path, bytes, blake3
                        FROM used
                        WHERE run = (SELECT run FROM runs WHERE id = ?1)
                        ORDER BY kind, path";
            index.prepare_cached(used)?.query_map([id.to_string()], artifact)?.collect()
        })
    }

    fn checkpoints(&self, id: &RunId, folder: &RunFolder) -> Result<Vec<Artifact>> {
        let mut files = self.read(|index| {
            index
                .prepare_cached(
                    "SELECT kind, step, path, bytes, blake3
                     FROM artifacts
                     WHERE run = (SELECT run FROM runs WHERE id = ?1)
                     ORDER BY step, path",
                )?
                .query_map([id.to_string()], artifact)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        if folder.path().exists() {
            // A worker that is killed after it wrote or removed a checkpoint has no time to say so.
            files.retain(|file| folder.path().join(&file.path).exists());
            let told: HashSet<String> = files.iter().map(|file| file.path.clone()).collect();
            files.extend(on_disk(folder)?.filter(|file| !told.contains(&file.path)));
            files.sort_by(|a, b| (a.step, &a.path).cmp(&(b.step, &b.path)));
        }
        for file in &mut files {
            file.path = self.root.relative(&folder.path().join(&file.path));
        }
        Ok(files)
    }
}

pub fn artifact(row: &Row) -> rusqlite::Result<Artifact> {
    Ok(Artifact {
        kind: row.get("kind")?,
        step: unsigned_option(row, "step")?,
        path: row.get("path")?,
        bytes: unsigned(row, "bytes")?,
        blake3: row.get("blake3")?,
    })
}

/// The files of all whole checkpoints in a run's folder, their paths as seen from it.
fn on_disk(folder: &RunFolder) -> Result<impl Iterator<Item = Artifact>> {
    Ok(checkpoints::list(folder)?.into_iter().flat_map(|saved| {
        let files = saved.manifest().map_or_else(|_| Vec::new(), |manifest| manifest.files);
        files.into_iter().map(move |file| Artifact {
            kind: "checkpoint".into(),
            step: Some(saved.step),
            path: format!("{}/{}", saved.relative(), file.name),
            bytes: file.bytes,
            blake3: Some(file.blake3),
        })
    }))
}

/// The outcome of an attempt that ended without a word.
const KILLED: &str = "killed";

fn attempt_row(row: &Row) -> rusqlite::Result<AttemptRow> {
    let latest = Latest::from_row(row, 0)?;
    let attempt = row.get("attempt")?;
    Ok(AttemptRow {
        started: Started { attempt, ..latest.started.unwrap_or_default() },
        ready: from_json_option(row, "ready")?,
        ended: row.get("ended")?,
        outcome: match (latest.outcome, latest.gave_up) {
            (Some(Outcome::Done), _) => "done".into(),
            (_, Some(why)) | (Some(Outcome::Failed { why, .. }), None) => format!("failed: {why}"),
            (Some(Outcome::Interrupted { step }), None) => format!("interrupted at step {step}"),
            (None, None) => KILLED.into(),
        },
        warnings: Vec::new(),
    })
}

/// What an attempt warned of, and what of its events cannot be read, in the order of the file.
fn warnings(index: &Connection, id: &RunId, attempt: u32, events: &str) -> rusqlite::Result<Vec<String>> {
    index
        .prepare_cached(
            "SELECT offset, message
             FROM warnings
             WHERE run = (SELECT run FROM runs WHERE id = :id) AND attempt = :attempt
             UNION ALL
             SELECT offset, file || ', byte ' || offset || ': ' || why
             FROM damage
             WHERE file = :events
             ORDER BY offset",
        )?
        .query_map(named_params! { ":id": id.to_string(), ":attempt": attempt, ":events": events }, |row| row.get(1))?
        .collect()
}

/// Median over the steps of the latest attempt that logged one, its first tenth left out: what an engine does while it
/// warms up is not its speed. Of very many steps every n-th counts.
pub fn tokens_per_second(index: &Connection, run: i64) -> rusqlite::Result<Option<f64>> {
    let mut speeds: Vec<f64> = index
        .prepare_cached(
            "SELECT value
             FROM points
             WHERE run = :run AND name = 'tokens_per_second' AND attempt = (
                 SELECT attempt FROM points WHERE run = :run AND name = 'tokens_per_second' ORDER BY step DESC LIMIT 1
             )
             ORDER BY step",
        )?
        .query_map(named_params! { ":run": run }, |row| row.get(0).map(|Float(value)| value))?
        .enumerate()
        .try_fold(Vec::new(), |mut kept, (n, value)| {
            thin(&mut kept, n, value?);
            Ok::<_, rusqlite::Error>(kept)
        })?;
    let warm_up = speeds.len() / 10;
    Ok(median(&mut speeds[warm_up..]))
}

/// Keeps the `n`-th value of many: all of the first 50,000, then every 2nd of all, every 4th, and so on, so that there are
/// never more.
fn thin(kept: &mut Vec<f64>, n: usize, value: f64) {
    const MOST: usize = 50_000;
    let every = (n / MOST + 1).next_power_of_two();
    if kept.len() >= MOST {
        let mut n = 0;
        kept.retain(|_| {
            n += 1;
            n % 2 == 1
        });
    }
    if n.is_multiple_of(every) {
        kept.push(value);
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_values_every_so_many_are_kept_from_the_first_on() {
        let kept = |count: usize| {
            let mut kept = Vec::new();
            (0..count).for_each(|n| thin(&mut kept, n, n as f64));
            kept
        };
        assert_eq!(kept(50_000).len(), 50_000);
        for count in [50_001, 100_000, 100_001, 1_000_000] {
            let kept = kept(count);
            let apart = kept[1] - kept[0];
            assert!(kept.windows(2).all(|w| w[1] - w[0] == apart) && kept[0] == 0.0, "{count}");
            assert!((20_000..=50_000).contains(&kept.len()), "{count}: {}", kept.len());
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }
}
