//! `exp report EXPERIMENT`: draw its pictures and tables again, from the store alone.

use std::path::Path;

use super::{needed_store, run::shown};
use crate::{
    base::{Exit, Result, files, folders::Root},
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

/// Draws the report and says where it lies. Each file is replaced whole; pictures that the data no longer supports go.
pub fn draw(root: &Root, store: &Store, experiment: &str) -> Result<()> {
    let files = report::build(store, experiment)?;
    let folder = root.report(experiment);
    for (name, bytes) in &files {
        files::write_atomic(&folder.join(name), bytes)?;
    }
    remove_stale(&folder, &files);
    ui::note(&format!("report: {}", shown(&folder.join("summary.md"))));
    Ok(())
}

/// Removes pictures of earlier reports that are no longer among `files`, and nothing that has a name of its own.
fn remove_stale(folder: &Path, files: &[(String, Vec<u8>)]) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if report::is_own(&name) && !files.iter().any(|(file, _)| *file == name) {
            // A picture that cannot be removed is only out of date.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
