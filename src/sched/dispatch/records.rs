//! What the dispatcher puts on record about runs, in their folders and in the index, and what it takes from there.

use std::io::ErrorKind;

use super::{
    super::{
        attempts::{last_attempt, spend},
        queue::{Input, Standing},
        task::kept,
    },
    Dispatcher, INDEX, LAST, TELL_ENOUGH,
};
use crate::{
    base::{
        Result, RunId, checkpoints, clock,
        files::{self, Lock},
    },
    event::{Note, Progress, RunState},
    exec,
    spec::identity::FrozenRun,
};

impl Dispatcher<'_> {
    /// Tells the queue what memory the run's last attempt took, where that is known.
    pub(super) fn learn_from(&mut self, run: &RunId) -> Result<()> {
        let attempt = self.known.get(run).copied().unwrap_or(0);
        match exec::peak_of_done(&self.root.run(run), attempt) {
            Some(bytes) => self.feed(Input::Measured { run: *run, bytes }),
            None => Ok(()),
        }
    }

    /// The same for runs that were done before, where there are others to do; a few tell enough.
    pub(super) fn learn_from_what_is_done(&mut self) -> Result<()> {
        if self.queue.is_over() {
            return Ok(());
        }
        let is_done = |standing: &Standing| *standing == Standing::Ended(RunState::Done);
        let done = self.queue.standings().filter(|(_, standing)| is_done(standing)).map(|(run, _)| run);
        let some: Vec<RunId> = done.take(TELL_ENOUGH).collect();
        some.iter().try_for_each(|run| self.learn_from(run))
    }

    /// Takes in what running runs wrote: ours, and those of others where ours are compared with them.
    pub(super) fn take_in(&mut self) -> Result<()> {
        let mut running: Vec<RunId> = self.active.keys().copied().collect();
        if self.followed.is_some() {
            let elsewhere = self.queue.standings().filter(|(_, standing)| **standing == Standing::Elsewhere);
            running.extend(elsewhere.map(|(run, _)| run));
        }
        running.iter().for_each(|run| self.ingest(run));
        running.iter().try_for_each(|run| self.compare(run))?;
        self.take_in_what_is_owed()
    }

    /// Asks again for what the index did not take in or tell of runs that nobody trains any more; to the first for which it
    /// does not either.
    fn take_in_what_is_owed(&mut self) -> Result<()> {
        let owed: Vec<RunId> = self.owed.iter().filter(|run| !self.active.contains_key(run)).copied().collect();
        for run in owed {
            self.owed.remove(&run);
            self.ingest(&run);
            self.compare(&run)?;
            self.followed.iter_mut().for_each(|followed| followed.leave(&run));
            if self.owed.contains(&run) {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing is left to do, by all that the runs wrote: what the index still owes of one may be what lifts another.
    pub(super) fn is_over(&mut self) -> Result<bool> {
        let is_over = self.queue.is_over();
        if !is_over || self.owed.is_empty() {
            return Ok(is_over);
        }
        self.store.set_patience(LAST)?;
        self.take_in_what_is_owed()?;
        self.store.set_patience(INDEX)?;
        Ok(self.queue.is_over())
    }

    /// Tells the queue what is stored of a run's metric, by which it decides which runs go on. What a worker sends of its
    /// evaluations is but the occasion to ask.
    pub(super) fn compare(&mut self, run: &RunId) -> Result<()> {
        let Some(followed) = &mut self.followed else { return Ok(()) };
        let values = followed.read(self.store, run);
        match self.index(values) {
            Some(values) => self.feed(Input::Learned { run: *run, values }),
            None => {
                self.owed.insert(*run);
                Ok(())
            }
        }
    }

    /// Before our first attempt at a run: brings the config in its folder up to the plan. While nobody has begun the run
    /// that is all of it, afterwards only where its text lies and what its checkpoints may take; what it keeps of an older
    /// spec is said.
    pub(super) fn freeze(&mut self, run: &RunId) -> Result<()> {
        let Some(planned) = self.planned.remove(run) else { return Ok(()) };
        let folder = self.root.run(run);
        let there = FrozenRun::read(&folder.config())?;
        let mut frozen = planned.clone();
        if last_attempt(&folder)? > 0 {
            let kept = kept(&there.config, &planned.config);
            if !kept.is_empty() {
                let message = format!("run {} keeps the {} that it began with", run.short(), kept.join(", "));
                self.observer.see(&Progress::Message(message));
            }
            frozen = there.clone();
            frozen.config.data.path.clone_from(&planned.config.data.path);
            frozen.config.data.tokenizer_file.clone_from(&planned.config.data.tokenizer_file);
            frozen.config.checkpoint.max_bytes = planned.config.checkpoint.max_bytes;
        }
        if frozen == there {
            return Ok(());
        }
        // Whoever holds the run trains it by the config that is there, and a worker of ours will not get it.
        let Some(_lock) = Lock::try_take(&folder.lock())? else { return Ok(()) };
        files::write_json(&folder.config(), &frozen)?;
        let taken_in = self.store.take_anew(run);
        self.index(taken_in);
        Ok(())
    }

    pub(super) fn give_up(&mut self, run: &RunId, why: String) {
        let attempt = self.known.get(run).copied().unwrap_or(0);
        let noted = spend(&self.root.run(run), attempt).and_then(|ours| match ours {
            true => self.store.note(run, &Note::GaveUp { at: clock::now(), attempt, why }),
            false => Ok(()),
        });
        self.index(noted);
    }

    /// Puts on record that a run pauses. One of its attempts may have no folder, and its number is given again.
    pub(super) fn pause(&mut self, run: &RunId, why: String) -> Result<()> {
        let folder = self.root.run(run);
        let known = self.known.get(run).copied().unwrap_or(0);
        let attempt = last_attempt(&folder)?.min(known);
        let step = checkpoints::latest_step(&folder)?.unwrap_or(0);
        self.store.note(run, &Note::Paused { at: clock::now(), attempt, step, why })
    }

    /// Takes in what another process did to a run, and says where the run stands after that.
    pub(super) fn catch_up(&mut self, run: &RunId) -> Result<RunState> {
        self.known.insert(*run, last_attempt(&self.root.run(run))?);
        self.ingest(run);
        let row = self.store.run(run);
        Ok(self.index(row).flatten().map_or(RunState::Queued, |row| row.state))
    }

    pub(super) fn ingest(&mut self, run: &RunId) {
        let ingested = self.store.ingest(run);
        if self.index(ingested).is_some() {
            self.owed.remove(run);
        } else if self.followed.is_some() {
            self.owed.insert(*run);
        }
    }

    /// The answer of the index. That it fails stops no run; it is said once, and is the error of the sweep where the index still
    /// lacks something in the end.
    pub(super) fn index<T>(&mut self, answer: Result<T>) -> Option<T> {
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        // One that is locked is tried again with the next that there is to take in.
        if self.index_error.is_none() && error.io == Some(ErrorKind::WouldBlock) {
            self.index_error = Some(error);
        } else if self.index_error.is_none() {
            self.observer.see(&Progress::Message(format!("{error}; the runs go on, their folders keep everything")));
            self.index_error = Some(error);
        }
        None
    }
}
