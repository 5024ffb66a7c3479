//! `exp report EXPERIMENT…`: draw the pictures and tables again, from the store alone; of several experiments, a report that
//! compares them.

use std::{io::ErrorKind, path::Path};

use super::{needed_store, run::shown};
use crate::{
    base::{
        Context, Exit, Result, files,
        folders::Root,
        manifest::{FileRef, MANIFEST, Manifest},
    },
    report::{self, Format},
    store::Store,
    ui,
};

/// Arguments of `exp report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment's name; several are compared, in a report of their own
    #[arg(required = true)]
    experiments: Vec<String>,

    /// What pictures are made of; with both, summary.md shows the first
    #[arg(long, value_name = "png|svg", value_enum, value_delimiter = ',', default_value = "png")]
    format: Vec<Picture>,
}

/// What pictures are made of.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Picture {
    /// Pixels
    Png,
    /// Strokes, for print and for pages
    Svg,
}

impl From<Picture> for Format {
    fn from(picture: Picture) -> Self {
        match picture {
            Picture::Png => Self::Png,
            Picture::Svg => Self::Svg,
        }
    }
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let store = needed_store(root)?;
    let formats: Vec<Format> = args.format.iter().copied().map(Format::from).collect();
    let mut experiments: Vec<&str> = Vec::new();
    for name in &args.experiments {
        if !experiments.contains(&name.as_str()) {
            experiments.push(name);
        }
    }
    draw_as(root, &store, &experiments, &formats)?;
    Ok(Exit::Done)
}

/// Draws the report as [`draw_as`] does, with pictures as `exp report` makes them where nothing is said.
pub fn draw(root: &Root, store: &Store, experiment: &str) -> Result<()> {
    draw_as(root, store, &[experiment], &[Format::Png])
}

/// Draws the report and says where it lies. Each file is replaced whole; those of an earlier report that the data no longer
/// supports go, and nothing that `exp` did not write. The manifest is there when all that it names is.
fn draw_as(root: &Root, store: &Store, experiments: &[&str], formats: &[Format]) -> Result<()> {
    let files = report::build(store, experiments, formats)?;
    // No experiment has a + in its name: this folder is no other's.
    let folder = root.report(&experiments.join("+"));
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
    for page in ["summary.md", "report.html"] {
        ui::note(&format!("report: {}", shown(&folder.join(page))));
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.doing(Exit::Store, || format!("removing {}", path.display())),
    }
}
