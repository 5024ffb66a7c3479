//! `exp data add shakespeare [--from FILE]`: a known corpus into the user's cache folder, before a run needs it there.

use std::path::PathBuf;

use crate::{
    base::{Exit, Result},
    data::shakespeare,
    ui::{self, format::grouped},
};

/// Arguments of `exp data add`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which corpus
    #[arg(value_enum)]
    corpus: Known,

    /// Take this file for it instead of downloading it
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// What can be added.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Known {
    /// Tiny Shakespeare
    Shakespeare,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let Known::Shakespeare = args.corpus;
    let path = match &args.from {
        Some(file) => shakespeare::add(file)?,
        None => {
            shakespeare::get(&|| false)?;
            shakespeare::path()?
        }
    };
    let bytes = grouped(shakespeare::BYTES);
    ui::print(&format!("shakespeare: {}, whole ({bytes} bytes, SHA-256 {})\n", path.display(), shakespeare::SHA256));
    Ok(Exit::Done)
}
