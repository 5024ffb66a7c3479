//! Chooses the checkpoint that a run goes on from, and moves those out of the way that are of no use.
//!
//! One that is not what was written is damaged, and passed over. One that cannot be read may be readable the next time,
//! and to go on from an older one loses steps: so the attempt fails. But a run must not fail for ever at a checkpoint
//! that the disk no longer gives back, or that crashes whoever loads it. So the attempt says which one it is about to
//! load, and one that failed to load twice is passed over as well. Deaths by a signal do not count, since they say
//! nothing of the checkpoint; nor does a refusal, which waits for a person.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use super::{BAD, DAMAGED, Keep, Origin, Progress, Saved, VOID, fits, list, save};
use crate::{
    base::{Context, Error, Exit, Result, checkpoints::Fault, clock, folders::RunFolder},
    engine::Engine,
    event::{Event, Outcome, Sink},
};

/// How often a checkpoint may fail to load before the one before it is used.
const FAILURES: usize = 2;

/// Puts the newest whole checkpoint into the engine and returns how far it had come; `None` where the run starts anew.
/// One that holds no step is nothing to go on from: a run that starts anew evaluates anew.
///
/// Damaged ones, and those that failed to load twice, are moved aside, so that they are neither gone on from, nor best,
/// nor kept for ever; the sink hears of them, and of whatever may change bits of what follows. Errors where the newest
/// cannot be read, since to go on from an older one would lose steps for good; and where it is of another config, corpus
/// or format, since that would mix two runs.
pub fn load(
    folder: &RunFolder,
    keep: Keep,
    engine: &mut dyn Engine,
    origin: &Origin,
    sink: &mut dyn Sink,
) -> Result<Option<Progress>> {
    let Some(saved) = newest(folder, keep, sink)?.filter(|saved| saved.step > 0) else { return Ok(None) };
    let state = saved.state()?;
    if let Err(why) = fits(&state.origin, origin) {
        return Err(Error::new(Exit::Spec, format!("resuming from {}", saved.path.display()), why)
            .hint("move the checkpoints of this run away to train it anew"));
    }
    saved.restore(engine)?;
    for difference in state.origin.differences(origin) {
        warn(sink, format!("{difference}: what follows may differ in its last bits from a straight run"))?;
    }
    Ok(Some(state.progress))
}

fn warn(sink: &mut dyn Sink, message: String) -> Result<()> {
    sink.emit(&Event::Warning { at: clock::now(), message }, false)
}

/// Moves a checkpoint aside, once that is said: whoever reads what was said never misses one. Returns its new name.
fn set_aside(saved: &Saved, why: &str, sink: &mut dyn Sink) -> Result<String> {
    sink.emit(&Event::MovedAside { at: clock::now(), checkpoints: vec![saved.relative()] }, true)?;
    saved.move_aside(why)
}

/// The newest whole checkpoint, once all that are void, damaged or bad are out of the way.
fn newest(folder: &RunFolder, keep: Keep, sink: &mut dyn Sink) -> Result<Option<Saved>> {
    let attempts = Attempt::all(folder)?;
    let mut newest = None;
    let all = list(folder)?;
    for (i, saved) in all.iter().enumerate() {
        if let Some((attempt, from)) = attempts.iter().find_map(|a| a.voids(saved)) {
            let name = set_aside(saved, VOID, sink)?;
            let why = format!("attempt {attempt} went on from step {from}");
            warn(sink, format!("the checkpoint {} is void, since {why}; it is now {name}", saved.name()))?;
            continue;
        }
        if newest.is_none() {
            if failures(&attempts, &saved.name()) >= FAILURES {
                let name = set_aside(saved, BAD, sink)?;
                let next = match all[i + 1..].iter().find(|older| !older.is_damaged()) {
                    Some(older) => format!("going on from step {}", older.step),
                    None => "starting anew".into(),
                };
                warn(sink, format!("the checkpoint {} failed to load twice; it is now {name}; {next}", saved.name()))?;
                continue;
            }
            // Durable before anything of it is read: whatever happens then is told of this checkpoint.
            sink.emit(&Event::Loading { at: clock::now(), checkpoint: saved.name() }, true)?;
        }
        match saved.verify() {
            Err(Fault::Damaged(error)) => {
                let name = set_aside(saved, DAMAGED, sink)?;
                warn(sink, format!("passed over a damaged checkpoint, which is now {name}: {error}"))?;
            }
            // An older one that cannot be read now is not needed now.
            verified if newest.is_none() => newest = Some(verified.map(|()| saved.clone())?),
            _ => {}
        }
    }
    // Pointers are for people: what is gone on from was found without them. And what is kept too long is in nobody's way.
    for seen_to in [save::point(folder, &[]), save::tidy(folder, keep)] {
        seen_to.or_else(|error| warn(sink, error.to_string()))?;
    }
    Ok(newest)
}

/// What an earlier attempt says of the checkpoints that it met.
struct Attempt {
    number: u32,
    /// The checkpoint that it was about to load.
    loading: Option<String>,
    /// The step that it went on from, where it came to train. What earlier attempts did beyond is void.
    from_step: Option<u64>,
    /// Whether it failed before that, in a way that another attempt might not.
    failed: bool,
}

impl Attempt {
    /// Those that wrote anything, the first one first.
    fn all(folder: &RunFolder) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for number in folder.attempts()? {
            let events = folder.events(number);
            match Self::read(number, &events) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                read => all.push(read.doing(Exit::Store, || format!("reading {}", events.display()))?),
            }
        }
        Ok(all)
    }

    fn read(number: u32, events: &Path) -> std::io::Result<Self> {
        let mut attempt = Self { number, loading: None, from_step: None, failed: false };
        for line in BufReader::new(File::open(events)?).split(b'\n') {
            match serde_json::from_slice(&line?) {
                Ok(Event::Loading { checkpoint, .. }) => attempt.loading = Some(checkpoint),
                Ok(Event::Finished { outcome, .. }) => {
                    attempt.failed = matches!(outcome, Outcome::Failed { retry: true, .. });
                }
                Ok(Event::Ready(ready)) => {
                    attempt.from_step = Some(ready.from_step);
                    break; // what follows is training
                }
                _ => {}
            }
        }
        Ok(attempt)
    }

    /// Where this attempt makes a checkpoint void: its number, and the step that it went on from.
    fn voids(&self, saved: &Saved) -> Option<(u32, u64)> {
        let from = self.from_step.filter(|&from| saved.step > from || from == 0)?;
        (self.number > saved.attempt).then_some((self.number, from))
    }
}

/// How often a checkpoint failed to load since it was last loaded well.
fn failures(attempts: &[Attempt], checkpoint: &str) -> usize {
    let tried = attempts.iter().rev().filter(|a| a.loading.as_deref() == Some(checkpoint));
    tried.take_while(|a| a.from_step.is_none()).filter(|a| a.failed).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ready;

    const NAME: &str = "step-12.attempt-1";

    /// Writes the events of an attempt that was about to load [`NAME`].
    fn attempt(folder: &RunFolder, number: u32, after: &[Event]) {
        let loading = Event::Loading { at: 1, checkpoint: NAME.into() };
        let lines = [&loading].into_iter().chain(after).map(|event| serde_json::to_string(event).unwrap() + "\n");
        std::fs::create_dir_all(folder.attempt(number)).unwrap();
        std::fs::write(folder.events(number), lines.collect::<String>()).unwrap();
    }

    fn failed(retry: bool) -> Event {
        Event::Finished { at: 2, outcome: Outcome::Failed { why: "no".into(), retry }, peak_bytes: None }
    }

    #[test]
    fn what_counts_against_a_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        let count = |name: &str| failures(&Attempt::all(&folder).unwrap(), name);
        let ready = Event::Ready(Ready { from_step: 12, ..Ready::default() });
        assert_eq!(count(NAME), 0, "nobody tried");
        attempt(&folder, 2, &[]);
        assert_eq!(count(NAME), 0, "killed: a signal says nothing of the checkpoint");
        attempt(&folder, 3, &[failed(false)]);
        attempt(&folder, 4, &[Event::Finished { at: 2, outcome: Outcome::Interrupted { step: 0 }, peak_bytes: None }]);
        assert_eq!(count(NAME), 0, "a refusal waits for a person, a stop was asked for");
        attempt(&folder, 5, &[failed(true)]);
        assert_eq!((count(NAME), count("step-9.attempt-1")), (1, 0));
        attempt(&folder, 6, &[]);
        attempt(&folder, 7, &[failed(true)]);
        assert_eq!(count(NAME), 2, "a death between does not make it good");
        attempt(&folder, 8, &[ready, failed(true)]);
        assert_eq!(count(NAME), 0, "it was loaded: what failed then was something else");
        attempt(&folder, 9, &[failed(true)]);
        assert_eq!(count(NAME), 1);
    }
}
