//! `exp store rebuild`: make the index again from the folders.

use crate::{
    base::{Exit, Result, folders::Root},
    store::Store,
    ui::{self, format::plural},
};

/// Arguments of `exp store`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make the index again from the folders of runs, which are the truth
    Rebuild,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    match args.what {
        What::Rebuild => {
            let store = Store::rebuild(root)?;
            let (runs, experiments) = (store.runs(None)?.len(), store.experiments()?.len());
            super::say_damage(&store)?;
            let found = format!("{}, {}", plural(runs, "run"), plural(experiments, "experiment"));
            ui::note(&format!("rebuilt {}: {found}", root.database().display()));
        }
    }
    Ok(Exit::Done)
}
