//! Which runs and experiments there are, and where each stands.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use rusqlite::{Connection, Params, Row};

use super::{
    Store,
    columns::{Float, from_json, from_json_option, id, run_id, unsigned, unsigned_option},
    history,
    parts::{Part, parts, places},
    rows::{ExperimentRow, RunRow},
    state::{self, Known},
    tags,
};
use crate::{
    base::{Error, Exit, Result, RunId, clock::Millis, folders::Root},
    event::RunState,
};

/// The columns that [`Read`] has, by their places: to look for each by its name takes longer than to read it. A query
/// goes on with the rows that it wants and their order.
const RUNS: &str = "
SELECT runs.run, runs.id, runs.config, runs.step, runs.best_step, runs.best_val_loss, runs.last_val_loss,
       runs.tokens_per_second, runs.attempts, runs.created, ready.ready,
       runs.last_attempt, runs.skipped_attempt, runs.skipped,
       last.outcome, last.gave_up, iif(last.outcome IS NULL, last.started, NULL),
       runs.paused_attempt, runs.paused_step, runs.paused
FROM runs
LEFT JOIN attempts AS last  ON last.run  = runs.run AND last.attempt  = runs.last_attempt
LEFT JOIN attempts AS ready ON ready.run = runs.run AND ready.attempt = runs.ready_attempt
";

/// The fewest digits of an id on screen: fewer would soon be taken by another run.
const FEWEST_DIGITS: usize = 6;

/// What a word of the command line names.
pub enum Named {
    /// An experiment, by its whole name.
    Experiment(ExperimentRow),
    /// A run, by a prefix of its id that no other has, where no experiment is called so.
    Run(Box<RunRow>),
}

impl Store {
    /// The experiment of that name, or else the run whose id starts so.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is neither, or several runs have such ids; [`Exit::Store`] where the index cannot be read.
    pub fn named(&self, what: &str) -> Result<Named> {
        let unknown = match self.experiment(what) {
            Ok(experiment) => return Ok(Named::Experiment(experiment)),
            Err(error) if error.exit != Exit::Usage => return Err(error),
            Err(error) => error,
        };
        match self.find(what) {
            Ok(run) => Ok(Named::Run(Box::new(run))),
            // Nobody writes a run's id with other letters than it has: a name was meant.
            Err(e) if e.exit == Exit::Usage && what.contains(|c: char| !c.is_ascii_hexdigit()) => Err(unknown),
            Err(error) => Err(error),
        }
    }

    /// The run of what is [so named](Store::named), or the runs of the experiment in the order of its grid. Errors as there.
    pub fn runs_named(&self, what: &str) -> Result<Vec<RunRow>> {
        match self.named(what)? {
            Named::Experiment(experiment) => self.runs(Some(&experiment.name)),
            Named::Run(run) => Ok(vec![*run]),
        }
    }

    /// The runs of one experiment in the order of its grid, or all: those that became known last come first, and those that
    /// became known together stay in the order of their grid, or of their ids once the index was made anew.
    ///
    /// # Errors
    /// As [`Store::experiment`] for an unknown one; [`Exit::Store`] where the index cannot be read.
    pub fn runs(&self, experiment: Option<&str>) -> Result<Vec<RunRow>> {
        match experiment {
            Some(name) => {
                self.experiment(name)?;
                let which = "JOIN members ON members.id = runs.id
                             JOIN experiments ON experiments.experiment = members.experiment
                             WHERE experiments.name = ?1 AND members.position BETWEEN ?2 AND ?3
                             ORDER BY members.position";
                let ask = |store: &Self, part: &Part| store.understood(which, (name, part.start(), part.end()));
                let rows = self.in_parts(&self.read(|index| places(index, name))?, ask)?;
                self.labelled(rows, Some(name))
            }
            None => {
                let which = "WHERE runs.run BETWEEN ?1 AND ?2 ORDER BY runs.run";
                let ask = |store: &Self, part: &Part| store.understood(which, [part.start(), part.end()]);
                let mut rows = self.in_parts(&self.read(parts)?, ask)?;
                // Not by SQLite, whose sorter writes the configs of many runs to the disk.
                let begun = starts(rows.iter().map(|row| row.created).collect());
                let group = |row: &RunRow| begun.partition_point(|start| *start <= row.created);
                rows.sort_by_cached_key(|row| Reverse(group(row))); // each is moved but once: they are large
                self.labelled(rows, None)
            }
        }
    }

    /// One run; `None` where it is not known.
    ///
    /// # Errors
    /// [`Exit::Store`] where the index cannot be read.
    pub fn run(&self, id: &RunId) -> Result<Option<RunRow>> {
        Ok(self.rows("WHERE runs.id = ?1", [id.to_string()])?.pop())
    }

    /// The run whose id starts with `prefix`.
    ///
    /// # Errors
    /// [`Exit::Usage`] where none does or several do.
    pub fn find(&self, prefix: &str) -> Result<RunRow> {
        // 'g' follows the last hex digit: these are the ids that start with the prefix.
        let which = "WHERE runs.id >= ?1 AND runs.id < ?1 || 'g' ORDER BY runs.id";
        let mut found = self.rows(which, [prefix.to_ascii_lowercase()])?;
        match found.len() {
            0 => Err(self.unknown_run(prefix)?),
            1 => Ok(found.swap_remove(0)),
            n => {
                let listed: String = found.iter().take(10).map(described).collect();
                let more = if n > 10 { format!("\n  and {} more", n - 10) } else { String::new() };
                let why = format!("{n} runs have ids that start so:{listed}{more}");
                Err(Error::new(Exit::Usage, looking_for(prefix), why).hint("give more digits"))
            }
        }
    }

    /// How many hex digits tell each of `ids` from every other stored run; at least 6.
    ///
    /// # Errors
    /// [`Exit::Store`] where the index cannot be read.
    pub fn shortest(&self, ids: &[RunId]) -> Result<usize> {
        let asked: HashSet<_> = ids.iter().collect();
        let all = self.ids()?;
        let pairs = all.windows(2).filter(|pair| pair.iter().any(|id| asked.contains(id)));
        Ok(pairs.map(|pair| shared_digits(&pair[0], &pair[1]) + 1).max().unwrap_or(0).max(FEWEST_DIGITS))
    }

    /// All experiments, the latest first.
    ///
    /// # Errors
    /// [`Exit::Store`] where the index cannot be read.
    pub fn experiments(&self) -> Result<Vec<ExperimentRow>> {
        self.read(|index| experiment_rows(index, "WHERE at IS NOT NULL ORDER BY at DESC, name", []))
    }

    /// One experiment.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is none of that name, with the nearest name.
    pub fn experiment(&self, name: &str) -> Result<ExperimentRow> {
        let which = "WHERE at IS NOT NULL AND name = ?1";
        let found = self.read(|index| experiment_rows(index, which, [name]))?.pop();
        found.map_or_else(|| Err(self.unknown_experiment(name)?), Ok)
    }

    /// The runs that the spec of an experiment expanded to, in the order of its grid; some may have been removed since. None
    /// where there is no such experiment.
    ///
    /// # Errors
    /// [`Exit::Store`] where the index cannot be read.
    pub fn members(&self, experiment: &str) -> Result<Vec<RunId>> {
        let members = "SELECT id FROM members JOIN experiments USING (experiment) WHERE name = ?1 ORDER BY position";
        self.read(|index| index.prepare_cached(members)?.query_map([experiment], id)?.collect())
    }

    fn unknown_experiment(&self, name: &str) -> Result<Error> {
        let known = self.experiments()?;
        let hint = match nearest(name, known.iter().map(|e| e.name.as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "nothing was run here yet: `exp run SPEC` does".into(),
            None => "`exp ls` lists the runs and their experiments".into(),
        };
        let doing = format!("looking for the experiment {name:?}");
        Ok(Error::new(Exit::Usage, doing, "there is none of that name").hint(hint))
    }

    fn unknown_run(&self, prefix: &str) -> Result<Error> {
        let known: Vec<String> = self.ids()?.iter().map(|id| id.to_string()).collect();
        let starts = known.iter().filter(|_| prefix.len() >= 4).filter_map(|id| id.get(..prefix.len()));
        let hint = match nearest(prefix, starts) {
            _ if self.experiment(prefix).is_ok() => {
                format!("`{prefix}` is an experiment: `exp ls {prefix}` lists its runs")
            }
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "nothing was run here yet: `exp run SPEC` does".into(),
            None => "`exp ls` lists the runs".into(),
        };
        Ok(Error::new(Exit::Usage, looking_for(prefix), "no run has an id that starts so").hint(hint))
    }

    /// Runs that a query chose.
    fn rows(&self, which: &str, parameters: impl Params) -> Result<Vec<RunRow>> {
        self.labelled(self.understood(which, parameters)?, None)
    }

    /// Runs that a query chose, without their experiments and tags.
    fn understood(&self, which: &str, parameters: impl Params) -> Result<Vec<RunRow>> {
        let rows = self.read(|index| {
            let mut statement = index.prepare_cached(&format!("{RUNS}{which}"))?;
            let rows = statement.query_map(parameters, |row| understood(&self.root, index, row))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.into_iter().collect()
    }

    /// Runs with their experiments, the one asked for first, and their tags.
    fn labelled(&self, mut rows: Vec<RunRow>, asked: Option<&str>) -> Result<Vec<RunRow>> {
        let (mut experiments, mut tags) = self.read(|index| match rows.as_slice() {
            [] => Ok((HashMap::new(), HashMap::new())),
            [one] => {
                let experiments = HashMap::from([(one.id, memberships_of(index, &one.id)?)]);
                Ok((experiments, tags::of(index, "WHERE runs.id = ?1", &[one.id.to_string()])?))
            }
            _ => Ok((memberships(index)?, tags::of(index, "", &[])?)),
        })?;
        for row in &mut rows {
            row.experiments = experiments.remove(&row.id).unwrap_or_default();
            row.experiments.sort_by_key(|name| Some(name.as_str()) != asked);
            row.tags = tags.remove(&row.id).unwrap_or_default();
        }
        Ok(rows)
    }

    /// All ids in order.
    fn ids(&self) -> Result<Vec<RunId>> {
        self.read(|index| index.prepare_cached("SELECT id FROM runs ORDER BY id")?.query_map([], id)?.collect())
    }
}

fn looking_for(prefix: &str) -> String {
    format!("looking for the run {prefix:?}")
}

/// A row of [`RUNS`]: all of a run but its experiments and its tags. Its folder tells where it stands now.
fn understood(root: &Root, index: &Connection, row: &Row) -> rusqlite::Result<Result<RunRow>> {
    let known = Known::from_row(row, 11)?;
    let goes_on = known.latest.as_ref().is_some_and(|l| l.outcome.is_none() && l.gave_up.is_none());
    let (id, config) = (run_id(row, 1)?, from_json(row, 2)?);
    let state = match state::state(&root.run(&id), &config, &known) {
        Ok(state) => state,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(RunRow {
        id,
        experiments: Vec::new(),
        step: match state {
            // What lies beyond is logged, but will be done again.
            RunState::Interrupted { step } | RunState::Paused { step, .. } => step,
            _ => unsigned(row, 3)?,
        },
        state,
        config,
        best: unsigned_option(row, 4)?.zip(row.get(5)?),
        last_val_loss: row.get::<_, Option<Float>>(6)?.map(|Float(value)| value),
        tokens_per_second: match goes_on {
            true => history::tokens_per_second(index, row.get(0)?)?,
            false => row.get(7)?,
        },
        attempts: row.get(8)?,
        ready: from_json_option(row, 10)?,
        tags: Vec::new(),
        created: row.get(9)?,
    }))
}

/// The experiments that all runs belong to, the latest first.
fn memberships(index: &Connection) -> rusqlite::Result<HashMap<RunId, Vec<String>>> {
    let mut members = index.prepare_cached("SELECT id FROM members WHERE experiment = ?1")?;
    let mut latest = index.prepare_cached("SELECT experiment, name FROM experiments ORDER BY at DESC, name")?;
    let mut latest = latest.query([])?;
    let mut experiments: HashMap<RunId, Vec<String>> = HashMap::new();
    while let Some(row) = latest.next()? {
        let (experiment, name): (i64, String) = (row.get(0)?, row.get(1)?);
        for id in members.query_map([experiment], |row| run_id(row, 0))? {
            let names = experiments.entry(id?).or_default();
            names.extend((names.last() != Some(&name)).then(|| name.clone()));
        }
    }
    Ok(experiments)
}

/// The experiments that a run belongs to, the latest first.
fn memberships_of(index: &Connection, run: &RunId) -> rusqlite::Result<Vec<String>> {
    index
        .prepare_cached(
            "SELECT name
             FROM experiments
             WHERE experiment IN (SELECT experiment FROM members WHERE id = ?1)
             ORDER BY at DESC, name",
        )?
        .query_map([run.to_string()], |row| row.get(0))?
        .collect()
}

fn experiment_rows(index: &Connection, which: &str, parameters: impl Params) -> rusqlite::Result<Vec<ExperimentRow>> {
    index
        .prepare_cached(&format!("SELECT name, at, axes FROM experiments {which}"))?
        .query_map(parameters, |row| {
            Ok(ExperimentRow { name: row.get("name")?, at: row.get("at")?, axes: from_json(row, "axes")? })
        })?
        .collect()
}

/// When each group of runs that became known together began: what a sweep makes known, it does without a pause.
fn starts(mut times: Vec<Millis>) -> Vec<Millis> {
    const PAUSE: Millis = 1000;
    times.sort_unstable();
    let later = times.windows(2).filter(|two| two[1] - two[0] > PAUSE).map(|two| two[1]);
    times.first().copied().into_iter().chain(later).collect()
}

/// One of the runs that a prefix fits.
fn described(run: &RunRow) -> String {
    format!("\n  {}  {}  {}", &run.id.to_string()[..12], run.state.word(), run.experiments.join(", "))
}

/// How many leading hex digits two ids have in common.
fn shared_digits(a: &RunId, b: &RunId) -> usize {
    let differ = a.0.iter().zip(b.0).position(|(x, y)| *x != y).unwrap_or(a.0.len());
    let half = a.0.get(differ).zip(b.0.get(differ)).is_some_and(|(x, y)| x >> 4 == y >> 4);
    2 * differ + usize::from(half)
}

/// The name that was probably meant, where one is near enough.
fn nearest<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = 1 + asked.chars().count() / 4;
    let distance = |name: &'a str| (strsim::damerau_levenshtein(asked, name), name);
    names.map(distance).filter(|(d, _)| *d <= allowed).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_common() {
        let id = |start: &str| format!("{start:0<64}").parse::<RunId>().unwrap();
        assert_eq!(shared_digits(&id("ab"), &id("b")), 0);
        assert_eq!(shared_digits(&id("ab"), &id("ac")), 1);
        assert_eq!(shared_digits(&id("abc1"), &id("abd1")), 2);
        assert_eq!(shared_digits(&id("ab"), &id("ab")), 64);
    }

    #[test]
    fn a_pause_parts_groups() {
        assert_eq!(starts(vec![]), [] as [Millis; 0]);
        assert_eq!(starts(vec![5000, 3, 2000, 1003, 9000, 4500]), [3, 4500, 9000]);
    }

    #[test]
    fn a_near_name_is_near() {
        let names = ["depth_sweep", "width_sweep", "lr"];
        assert_eq!(nearest("dept_sweep", names.into_iter()), Some("depth_sweep"));
        assert_eq!(nearest("wdith_sweep", names.into_iter()), Some("width_sweep"));
        assert_eq!(nearest("other", names.into_iter()), None);
    }
}
