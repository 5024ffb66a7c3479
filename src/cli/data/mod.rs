//! `exp data`: looking after texts and tokens.

mod ls;
mod show;
mod verify;

use clap::Subcommand;

use crate::base::{Exit, Result, folders::Root};

/// Arguments of `exp data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what there is to train on: texts, tokenized texts, folders of tokens
    Ls(ls::Args),
    /// Show a corpus: how much it is, where it lies, what it looks like
    Show(show::Args),
    /// Read everything again and name what is damaged, changed or missing
    Verify(verify::Args),
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    match &args.command {
        Command::Ls(args) => ls::run(root, args),
        Command::Show(args) => show::run(root, args),
        Command::Verify(args) => verify::run(root, args),
    }
}
