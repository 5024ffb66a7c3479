//! Where something happens, or happened not long ago, and what is new of a curve: for those who look again and again.

use std::collections::{HashMap, HashSet};

use rusqlite::named_params;

use super::{
    Store,
    columns::{Float, id, int},
    rows::Point,
};
use crate::base::{Result, RunId, clock::Millis, lease};

/// Of what something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recent {
    /// Experiments, the one whose spec was run last before the others.
    pub experiments: Vec<String>,
    /// Runs of no experiment.
    pub others: Vec<RunId>,
}

impl Store {
    /// What was run, has begun or has ended since a time, and what is being trained, whenever it began.
    ///
    /// # Errors
    /// Where the index cannot be read, or a run's lock cannot be looked at.
    pub fn recent(&self, since: Millis) -> Result<Recent> {
        let mut recent = Recent { experiments: self.read(|index| run_since(index, since))?, others: Vec::new() };
        let mut seen: HashSet<String> = recent.experiments.iter().cloned().collect();
        let mut late = Vec::new();
        for (run, experiment, is_surely) in self.read(|index| candidates(index, since))? {
            if experiment.as_ref().is_some_and(|name| seen.contains(name)) {
                continue;
            }
            if !is_surely && !lease::is_held(&self.root.run(&run).lock())? {
                continue;
            }
            match experiment {
                Some(name) => {
                    seen.insert(name.clone());
                    late.push(name);
                }
                None => recent.others.push(run),
            }
        }
        recent.experiments.extend(late);
        Ok(recent)
    }

    /// When the latest attempts at the runs of an experiment ended, of those that did.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn ends(&self, experiment: &str) -> Result<HashMap<RunId, Millis>> {
        self.read(|index| {
            index
                .prepare_cached(
                    "SELECT runs.id, last.ended
                     FROM experiments
                     JOIN members USING (experiment)
                     JOIN runs ON runs.id = members.id
                     JOIN attempts AS last ON last.run = runs.run AND last.attempt = runs.last_attempt
                     WHERE experiments.name = ?1 AND last.ended IS NOT NULL",
                )?
                .query_map([experiment], |row| Ok((id(row)?, row.get("ended")?)))?
                .collect()
        })
    }

    /// Hands over what a metric of a run has beyond a step, point by point in ascending steps.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn each_point_after(&self, id: &RunId, name: &str, after: u64, take: &mut dyn FnMut(Point)) -> Result<()> {
        self.read(|index| {
            let mut statement = index.prepare_cached(
                "SELECT step, value, attempt
                 FROM metrics
                 WHERE run = (SELECT run FROM runs WHERE id = :id)
                   AND name = (SELECT name FROM metric_names WHERE text = :name)
                   AND step > :after
                 ORDER BY step",
            )?;
            let mut rows =
                statement.query(named_params! { ":id": id.to_string(), ":name": name, ":after": int(after) })?;
            while let Some(row) = rows.next()? {
                let (step, Float(value), attempt) = (row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?);
                take(Point { step: step.max(0) as u64, value, attempt });
            }
            Ok(())
        })
    }
}

/// The experiments whose spec was run since then.
fn run_since(index: &rusqlite::Connection, since: Millis) -> rusqlite::Result<Vec<String>> {
    index
        .prepare_cached("SELECT name FROM experiments WHERE at >= ?1 ORDER BY at DESC, name")?
        .query_map([since], |row| row.get(0))?
        .collect()
}

/// Runs, each with an experiment of its: those of which something happened since then surely, and those that may be trained
/// still, since nobody said that they are not.
fn candidates(index: &rusqlite::Connection, since: Millis) -> rusqlite::Result<Vec<(RunId, Option<String>, bool)>> {
    index
        .prepare_cached(
            "SELECT runs.id, experiments.name, ifnull(last.ended >= :since, 0) OR ifnull(last.started ->> 'at' >= :since, 0) AS is_surely
             FROM runs
             JOIN attempts AS last ON last.run = runs.run AND last.attempt = runs.last_attempt
             LEFT JOIN members ON members.id = runs.id
             LEFT JOIN experiments ON experiments.experiment = members.experiment
             WHERE is_surely OR (last.outcome IS NULL AND last.gave_up IS NULL)
             ORDER BY experiments.at DESC, experiments.name, members.position",
        )?
        .query_map(named_params! { ":since": since }, |row| Ok((id(row)?, row.get("name")?, row.get("is_surely")?)))?
        .collect()
}
