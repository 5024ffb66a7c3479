//! What commands say of runs and experiments: into the folders first, then into the index.

use std::{
    panic::resume_unwind,
    path::{Component, Path},
    thread,
};

use super::{Store, experiments, ingest, lines};
use crate::{
    base::{Context, Error, Exit, Result, RunId, files, folders::Root},
    event::{Expansion, Note},
    spec::identity::FrozenRun,
};

impl Store {
    /// Makes the folders of runs that are new, writes down what an experiment's spec expanded to, and takes both in. A
    /// run that has a folder keeps the config that stands there.
    ///
    /// # Errors
    /// [`Exit::Store`] where a folder cannot be written, or where the folder of a run holds another one.
    pub fn register(&mut self, experiment: &str, expansion: &Expansion, runs: &[FrozenRun]) -> Result<()> {
        let root = self.root.clone();
        check_name(experiment)?;
        freeze_all(&root, runs)?;
        files::sync_folder(&root.runs()).doing(Exit::Store, || format!("writing {}", root.runs().display()))?;
        lines::append(&root.experiment_journal(experiment), expansion)?;
        self.write(|index| {
            runs.iter().try_for_each(|run| ingest::take_run(index, &root, &root.run(&run.id)))?;
            experiments::take(index, &root, experiment)
        })
    }

    /// Writes down a note on a run, which the next who brings the index up to date takes in.
    ///
    /// # Errors
    /// [`Exit::Store`] where the run's journal cannot be written.
    pub fn write_down(&self, id: &RunId, note: &Note) -> Result<()> {
        lines::append(&self.root.run(id).journal(), note)
    }

    /// Writes down a note on a run and takes it in.
    ///
    /// # Errors
    /// [`Exit::Store`] where the run's journal or the index cannot be written.
    pub fn note(&mut self, id: &RunId, note: &Note) -> Result<()> {
        self.write_down(id, note)?;
        self.ingest(id)
    }
}

/// A name that is also the name of a folder; specs allow fewer.
fn check_name(experiment: &str) -> Result<()> {
    let mut parts = Path::new(experiment).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if name == experiment => Ok(()),
        _ => Err(Error::new(
            Exit::Usage,
            format!("registering the experiment {experiment:?}"),
            "that cannot name a folder",
        )),
    }
}

/// Writes the `config.json` of each run. That waits for the disk, not for the CPU, and many wait no longer than one.
fn freeze_all(root: &Root, runs: &[FrozenRun]) -> Result<()> {
    const WRITERS: usize = 16;
    let some = runs.len().div_ceil(WRITERS).max(1);
    thread::scope(|scope| {
        let write = |some: &[FrozenRun]| some.iter().try_for_each(|run| freeze(root, run));
        let writers = runs.chunks(some).map(|some| {
            // Where no thread is to be had, this one does it.
            thread::Builder::new().spawn_scoped(scope, move || write(some)).map_err(|_| write(some))
        });
        let writers: Vec<_> = writers.collect(); // all are at work before we wait for the first
        writers.into_iter().try_for_each(|writer| match writer {
            Ok(writer) => writer.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(written) => written,
        })
    })
}

/// Writes `config.json`, unless it is there.
fn freeze(root: &Root, run: &FrozenRun) -> Result<()> {
    let path = root.run(&run.id).config();
    let doing = || format!("registering the run {} in {}", run.id, path.display());
    let mut text = serde_json::to_vec_pretty(run).doing(Exit::Unexpected, doing)?;
    text.push(b'\n');
    if files::write_new(&path, &text)? {
        return Ok(());
    }
    let there = FrozenRun::read(&path)?;
    if there.id == run.id {
        return Ok(());
    }
    Err(Error::new(Exit::Store, doing(), format!("that folder belongs to the run {}", there.id))
        .hint("both ids start with the same 16 digits; move the folder away to train this run"))
}
