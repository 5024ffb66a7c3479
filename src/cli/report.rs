//! `exp report EXPERIMENT`: draw its pictures and tables again, from the store alone.

use std::{io::ErrorKind, path::Path};

use super::{needed_store, run::shown};
use crate::{
    base::{
        Context, Exit, Result, files,
        folders::Root,
        manifest::{FileRef, MANIFEST, Manifest},
    },
    report,
    store::Store,
    ui,
};

/// Arguments of `exp report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment's name
    experiment: String,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let store = needed_store(root)?;
    draw(root, &store, &args.experiment)?;
    Ok(Exit::Done)
}

/// Draws the report and says where it lies. Each file is replaced whole; those of an earlier report that the data no longer
/// supports go, and nothing that `exp` did not write. The manifest is there when all that it names is.
pub fn draw(root: &Root, store: &Store, experiment: &str) -> Result<()> {
    let files = report::build(store, experiment)?;
    let folder = root.report(experiment);
    let before = Manifest::read(&folder).map_or_else(|_| Vec::new(), |manifest| manifest.files);
    remove(&folder.join(MANIFEST))?;
    for (name, bytes) in &files {
        files::write_atomic(&folder.join(name), bytes)?;
    }
    let is_stale = |old: &&FileRef| !files.iter().any(|(name, _)| *name == old.name);
    // What is not as it was written is a person's by now.
    for stale in before.iter().filter(is_stale).filter(|old| old.verify(&folder).is_ok()) {
        remove(&folder.join(&stale.name))?;
    }
    Manifest { files: files.iter().map(|(name, bytes)| FileRef::of(name, bytes)).collect() }.write(&folder)?;
    ui::note(&format!("report: {}", shown(&folder.join("summary.md"))));
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.doing(Exit::Store, || format!("removing {}", path.display())),
    }
}
