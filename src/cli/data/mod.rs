//! `exp data …`: looks after texts and tokens.

mod prepare;

use crate::base::{Exit, Result, folders::Root};

/// Arguments of `exp data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a folder of tokens from texts: train.bin and val.bin, as nanoGPT has them
    Prepare(prepare::Args),
}

/// Runs the command.
pub fn run(_root: &Root, args: &Args) -> Result<Exit> {
    match &args.command {
        Command::Prepare(args) => prepare::run(args),
    }
}
