//! `exp data`: texts and tokens, apart from any run.

mod add;
mod ls;
mod prepare;
mod show;
mod verify;

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
    /// List what there is to train on: texts, tokenized texts, folders of tokens
    Ls(ls::Args),
    /// Make a folder of tokens from texts: train.bin and val.bin, as nanoGPT has them
    Prepare(prepare::Args),
    /// Show a corpus: how much it is, where it lies, what it looks like
    Show(show::Args),
    /// Read everything again and name what is damaged, changed or missing
    Verify(verify::Args),
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    match &args.command {
        Command::Add(args) => add::run(args),
        Command::Ls(args) => ls::run(root, args),
        Command::Prepare(args) => prepare::run(args),
        Command::Show(args) => show::run(root, args),
        Command::Verify(args) => verify::run(root, args),
    }
}
