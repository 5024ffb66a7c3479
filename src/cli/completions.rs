//! `exp completions SHELL`: a script for the shell to source.

use clap::CommandFactory;

use crate::{
    base::{Exit, Result},
    ui,
};

/// Arguments of `exp completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "exp", &mut script);
    ui::print(&String::from_utf8_lossy(&script));
    Ok(Exit::Done)
}
