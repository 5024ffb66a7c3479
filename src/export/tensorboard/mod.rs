//! Runs as TensorBoard reads them: a folder for each, named by its experiment, its place on the axes and its id, with one
//! event file that has its settings, its metrics and its texts.

mod events;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use self::events::Events;
use super::{Meter, Written, folder::Folder};
use crate::{
    base::{Context, Exit, Result, RunId},
    event::RunState,
    spec::leaf,
    store::{AttemptRow, Point, RunRow, Store},
};

/// How long the name of a folder is at most, in bytes: file systems take 255.
const LONGEST: usize = 150;

/// Writes the event files of all runs that were ever begun.
pub fn write(store: &Store, rows: &[RunRow], folder: &mut Folder, meter: &Meter) -> Result<Written> {
    let names = Names::new(store, rows)?;
    let mut written = Written::default();
    for (place, row) in rows.iter().enumerate() {
        let attempts = store.attempts(&row.id)?;
        let Some(first) = attempts.first() else { continue };
        let began = first.started.at;
        let file = format!("events.out.tfevents.{:010}.{}", began / 1000, row.id.folder());
        let path = names.folder(row).join(file);
        let file = folder.create(&path)?;
        let doing = || folder.doing(&path);
        let mut events = Events::new(file, began).doing(Exit::Store, doing)?;
        let settings = leaf::all().iter().map(|leaf| (leaf.path, leaf.get(&row.config)));
        events.session_start(began, settings).doing(Exit::Store, doing)?;
        written.runs += 1;
        written.points += points(store, row, &attempts, &mut events, &doing, |share| meter.at(place, share))?;
        let ended = attempts.last().and_then(|last| last.ended);
        if let (Some(at), RunState::Done | RunState::Failed { .. }) = (ended, &row.state) {
            events.session_end(at, row.state == RunState::Done).doing(Exit::Store, doing)?;
        }
        events.finish().doing(Exit::Store, doing)?;
    }
    Ok(written)
}

/// Writes the metrics and texts of a run, step by step; returns how many values there were.
fn points(
    store: &Store,
    row: &RunRow,
    attempts: &[AttemptRow],
    events: &mut Events,
    doing: &dyn Fn() -> String,
    done: impl Fn(f64),
) -> Result<u64> {
    let names = store.metric_names(&row.id)?;
    let mut samples = store.samples(&row.id)?.into_iter().peekable();
    let mut clock = Clock::new(attempts);
    let (mut count, mut last) = (0, None);
    store.try_each_step(&row.id, &names, |step, points| {
        let (of_eval, of_step): (Vec<_>, Vec<_>) = points
            .iter()
            .map(|(place, point)| (names[*place].as_str(), *point))
            .partition(|(name, _)| is_of_eval(name));
        for (part, took) in [(of_step, "step_ms"), (of_eval, "eval_ms")] {
            part.iter().filter(|(name, _)| *name == took).for_each(|(_, point)| clock.advance(point));
            for (name, point) in part {
                events.scalar(clock.at(&point), step, name, point.value).doing(Exit::Store, doing)?;
                count += 1;
            }
        }
        last = points.last().map(|(_, point)| *point).or(last);
        while let (Some((at, text)), Some(point)) = (samples.next_if(|(at, _)| *at <= step), &last) {
            events.text(clock.at(point), at, "sample", &verbatim(&text)).doing(Exit::Store, doing)?;
        }
        if step.is_multiple_of(1000) {
            done(step as f64 / row.step.max(step).max(1) as f64);
        }
        Ok(())
    })?;
    if let Some(point) = &last {
        for (at, text) in samples {
            events.text(clock.at(point), at, "sample", &verbatim(&text)).doing(Exit::Store, doing)?;
        }
    }
    Ok(count)
}

/// Whether a metric is measured by an evaluation, which comes after the step's own.
fn is_of_eval(name: &str) -> bool {
    name == "eval_ms" || name.starts_with("eval/") || name.starts_with("val/")
}

/// A text as Markdown shows it letter by letter.
fn verbatim(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// When the points of a run were measured: attempts say when they began, steps and evaluations how long they took. What
/// else took time, as checkpoints do, is not known.
struct Clock(HashMap<u32, f64>);

impl Clock {
    fn new(attempts: &[AttemptRow]) -> Self {
        let began = |attempt: &AttemptRow| attempt.ready.as_ref().map_or(attempt.started.at, |ready| ready.at);
        Self(attempts.iter().map(|attempt| (attempt.started.attempt, began(attempt) as f64)).collect())
    }

    /// So many ms went by in an attempt.
    fn advance(&mut self, took: &Point) {
        if took.value.is_finite() {
            *self.0.entry(took.attempt).or_default() += took.value;
        }
    }

    /// The time in the attempt that a point comes from, in ms since the Unix epoch.
    fn at(&self, point: &Point) -> f64 {
        self.0.get(&point.attempt).copied().unwrap_or_default()
    }
}

/// What the folders of runs are called.
struct Names {
    /// The swept leaves of each experiment.
    axes: HashMap<String, Vec<String>>,
    digits: usize,
}

impl Names {
    fn new(store: &Store, rows: &[RunRow]) -> Result<Self> {
        let ids: Vec<RunId> = rows.iter().map(|row| row.id).collect();
        let axes = store.experiments()?.into_iter().map(|experiment| (experiment.name, experiment.axes)).collect();
        Ok(Self { axes, digits: store.shortest(&ids)? })
    }

    /// `depth_sweep/layers=2,seed=1,3f2a91`; the id alone of a run that belongs to no experiment.
    fn folder(&self, row: &RunRow) -> PathBuf {
        let id = &row.id.to_string()[..self.digits];
        let Some(experiment) = row.experiments.first() else { return id.into() };
        let axes = self.axes.get(experiment).into_iter().flatten().filter_map(|path| leaf::find(path));
        let mut name: String = axes.map(|axis| format!("{}={},", axis.word(), word(&axis.get(&row.config)))).collect();
        name.truncate(name.floor_char_boundary(LONGEST - id.len()));
        Path::new(&safe(experiment)).join(safe(&name) + id)
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => format!("{:?}", n.as_f64().unwrap_or(f64::NAN)), // 1e-5, not 0.00001
        other => other.to_string(),
    }
}

/// A name that every file system and shell takes as it is.
fn safe(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-+=,".contains(c);
    let name: String = name.chars().map(|c| if is_safe(c) { c } else { '-' }).collect();
    name.strip_prefix('.').map(|rest| format!("-{rest}")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_safe_and_say_what_was_meant() {
        assert_eq!(safe("layers=2,lr=1e-5,"), "layers=2,lr=1e-5,");
        assert_eq!(safe("path=/tmp/ä b\n,"), "path=-tmp---b-,");
        assert_eq!([safe(".."), safe(".x")], ["-.", "-x"]);
    }
}
