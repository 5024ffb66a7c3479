//! What a plan takes besides what [`Cost`](crate::cost::Cost) says of each run: room on the disk, and time, by what runs of
//! the same shape did on this machine.

use std::collections::HashMap;

use super::{Plan, PlannedRun, Reason};
use crate::{
    base::{Result, machine},
    cost::Cost,
    event::IMPORT,
    exec::device::{self, kind},
    spec::RunConfig,
    store::{RunRow, Store},
};

/// Seconds that a worker takes beside training and evaluating: to start, to open its corpus, to write its last checkpoint.
const BESIDE: f64 = 0.3;

/// Bytes of a checkpoint for each parameter: weights and two moments in f32.
const CHECKPOINT: u64 = 12;

/// A time that something takes, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// How long.
    pub seconds: f64,
    /// Whether only runs of another shape were seen here, so that it goes by their FLOPs.
    pub is_rough: bool,
}

/// What one run of a plan takes.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    /// Bytes of the checkpoints that are kept of it, at most.
    pub disk: u64,
    /// What is left to do of it with one core, or on a GPU of its own; `None` where nothing was trained here yet.
    pub time: Option<Estimate>,
}

/// What a plan takes.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// Each run, in the plan's order.
    pub runs: Vec<Takes>,
    /// Bytes of memory of the run that needs most.
    pub memory: u64,
    /// Bytes of all checkpoints that are kept, at most.
    pub disk: u64,
    /// What is left to do with all cores and GPUs of this machine; `None` where nothing was trained here yet.
    pub time: Option<Estimate>,
}

impl Outlook {
    /// What a plan takes, by the runs of an index.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn of(plan: &Plan, store: Option<&Store>) -> Result<Self> {
        let mut speeds = Speeds::of(store)?;
        let mut runs = Vec::new();
        // Seconds of one core, and of one GPU.
        let (mut on, mut is_known, mut is_rough) = ([Vec::new(), Vec::new()], true, false);
        for run in &plan.runs {
            let time = speeds.time(run)?;
            runs.push(Takes {
                disk: disk(&run.frozen.config, &run.cost).min(run.checkpoint_bytes.unwrap_or(u64::MAX)),
                time,
            });
            match time {
                Some(time) => {
                    on[usize::from(kind(&run.frozen.config.run.device) != "cpu")].push(time.seconds);
                    is_rough |= time.is_rough;
                }
                None => is_known = false,
            }
        }
        let gpus = if on[1].is_empty() { 1 } else { device::list().iter().filter(|d| kind(&d.name) != "cpu").count() };
        // Cores that there are no runs for are shared out among those that there are.
        let per_run = (device::cores() / on[0].len().max(1)).max(1);
        let on_cores = until_the_last(&on[0], device::cores() / per_run) / per_run as f64;
        let seconds = on_cores.max(until_the_last(&on[1], gpus));
        Ok(Self {
            memory: plan.runs.iter().map(|run| run.cost.bytes).max().unwrap_or(0),
            disk: runs.iter().map(|run| run.disk).sum(),
            time: is_known.then_some(Estimate { seconds, is_rough }),
            runs,
        })
    }
}

/// Seconds until all are done of which one after the other begins as a place becomes free.
fn until_the_last(seconds: &[f64], places: usize) -> f64 {
    let mut free_at: Vec<f64> = vec![0.0; places.max(1)];
    for seconds in seconds {
        if let Some(next) = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)) {
            *next += seconds;
        }
    }
    free_at.into_iter().fold(0.0, f64::max)
}

/// Whether a run is still to be done: as things stand, where it pauses.
pub fn is_to_do(run: &PlannedRun) -> bool {
    !matches!(run.reason, Reason::Done | Reason::Skipped { .. } | Reason::Paused { goes_on: false, .. })
}

/// Bytes of the checkpoints that are kept of a run: the last ones and the best, of as many as are written.
fn disk(config: &RunConfig, cost: &Cost) -> u64 {
    let written = config.train.steps.div_ceil(config.checkpoint.every).max(1);
    let kept = (config.checkpoint.keep_last + config.checkpoint.keep_best) as u64;
    CHECKPOINT * cost.params * kept.min(written)
}

/// Tokens that a run computes as much for as for training on one: those that it evaluates on, without a backward pass.
fn tokens(config: &RunConfig) -> f64 {
    let evaluations = config.train.steps / config.eval.every + 2; // the first and the last besides
    let windows = 2 * evaluations * (config.eval.batches * config.eval.batch) as u64; // of both splits
    let trained = config.tokens_per_step() as f64 * config.train.steps as f64;
    trained + (windows * config.model.context as u64) as f64 / 3.0
}

/// How fast runs were that this machine trained.
struct Speeds<'a> {
    store: Option<&'a Store>,
    /// By shape, those of the latest sweep first.
    seen: HashMap<String, Vec<RunRow>>,
    /// What was found for a shape: seconds of a core for a token.
    found: HashMap<String, Option<(f64, bool)>>,
}

impl<'a> Speeds<'a> {
    /// Of a shape so many runs are looked at, the first of those.
    const LOOKED_AT: usize = 3;

    fn of(store: Option<&'a Store>) -> Result<Self> {
        let mut seen: HashMap<String, Vec<RunRow>> = HashMap::new();
        for row in store.map_or(Ok(Vec::new()), |store| store.runs(None))? {
            let is_trained = row.ready.as_ref().is_some_and(|ready| ready.engine != IMPORT);
            if is_trained && row.tokens_per_second.is_some_and(|speed| speed > 0.0) {
                let of_shape = seen.entry(shape(&row.config)).or_default();
                if of_shape.len() < Self::LOOKED_AT {
                    of_shape.push(row);
                }
            }
        }
        Ok(Self { store, seen, found: HashMap::new() })
    }

    /// What is left to do of a run.
    fn time(&mut self, run: &PlannedRun) -> Result<Option<Estimate>> {
        if !is_to_do(run) {
            return Ok(Some(Estimate { seconds: 0.0, is_rough: false }));
        }
        let config = &run.frozen.config;
        let shape = shape(config);
        let found = match self.found.get(&shape) {
            Some(found) => *found,
            None => {
                let found = self.per_token(&shape, config, run.cost.flops_per_token)?;
                self.found.insert(shape, found);
                found
            }
        };
        let seconds = |per_token: f64| run.left() * tokens(config) * per_token + BESIDE;
        Ok(found.map(|(per_token, is_rough)| Estimate { seconds: seconds(per_token), is_rough }))
    }

    /// Seconds of a core for a token of a shape, and whether they are those of another.
    fn per_token(&self, shape: &str, config: &RunConfig, flops: f64) -> Result<Option<(f64, bool)>> {
        if let Some(per_token) = self.measured(self.seen.get(shape).map_or(&[], Vec::as_slice))? {
            return Ok(Some((per_token, false)));
        }
        let of_kind = |row: &&RunRow| kind(&row.config.run.device) == kind(&config.run.device);
        let flops_of = |row: &RunRow| row.ready.as_ref().map_or(flops, |ready| ready.flops_per_token);
        let mut others: Vec<&RunRow> = self.seen.values().flatten().filter(of_kind).collect();
        let distance = |row: &&RunRow| (flops_of(row) / flops).ln().abs();
        others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        for row in others {
            if let Some(per_token) = self.measured(std::slice::from_ref(row))? {
                return Ok(Some((per_token * flops / flops_of(row), true)));
            }
        }
        Ok(None)
    }

    /// The median over those of some runs that this machine trained.
    fn measured(&self, rows: &[RunRow]) -> Result<Option<f64>> {
        let Some(store) = self.store else { return Ok(None) };
        let mut found = Vec::new();
        for row in rows {
            let attempts = store.attempts(&row.id)?;
            let here = attempts.iter().rfind(|a| a.ready.is_some()).filter(|a| a.started.host == machine::host());
            let speed = row.tokens_per_second.unwrap_or(f64::INFINITY);
            found.extend(here.map(|attempt| match kind(&attempt.started.device) {
                "cpu" => attempt.started.threads.max(1) as f64 / speed,
                _ => 1.0 / speed,
            }));
        }
        found.sort_by(f64::total_cmp);
        Ok(found.get(found.len() / 2).copied())
    }
}

/// What a run's speed goes by.
fn shape(config: &RunConfig) -> String {
    let RunConfig { model, train, .. } = config;
    let device = kind(&config.run.device);
    format!("{model:?} {} {:?} {:?} {device} {:?}", train.batch, train.dtype, train.optimizer, config.engine())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_not_split_among_places() {
        assert_eq!(until_the_last(&[], 2), 0.0);
        assert_eq!(until_the_last(&[3.0, 3.0, 3.0], 2), 6.0);
        assert_eq!(until_the_last(&[1.0, 5.0, 1.0, 1.0], 2), 5.0);
        assert_eq!(until_the_last(&[2.0, 2.0], 0), 4.0, "a GPU that is not here");
    }

    #[test]
    fn as_many_checkpoints_are_kept_as_are_written() {
        let mut config = RunConfig::default();
        let cost = Cost::of(&config, 65);
        let kept = |config: &RunConfig| disk(config, &cost) / (12 * cost.params);
        (config.train.steps, config.checkpoint.every) = (500, 100);
        assert_eq!(kept(&config), 3);
        config.checkpoint.every = 400;
        assert_eq!(kept(&config), 2);
        config.train.steps = 0;
        assert_eq!(kept(&config), 1);
    }

    #[test]
    fn evaluations_cost_a_third() {
        let mut config = RunConfig::default();
        (config.train.steps, config.eval.every, config.eval.batches, config.eval.batch) = (100, 50, 3, 2);
        let windows = 2 * 4 * 3 * 2;
        assert_eq!(tokens(&config), (100 * 12 * 64) as f64 + (windows * 64) as f64 / 3.0);
    }
}
