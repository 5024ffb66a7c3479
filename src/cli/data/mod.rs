//! `exp data`: texts and tokens, apart from any run.

mod add;

use crate::base::{Exit, Result, folders::Root};

/// Arguments of `exp data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Have a known corpus at hand: downloaded now, or from a file
    Add(add::Args),
}

/// Runs the command.
pub fn run(_root: &Root, args: &Args) -> Result<Exit> {
    match &args.command {
        Command::Add(args) => add::run(args),
    }
}
