//! `exp worker`: train one run. Started by the scheduler, one process a run; not for people.

use std::path::PathBuf;

use crate::{
    base::{Exit, Result, folders::Root, lease::Sight},
    exec::worker,
};

/// Arguments of `exp worker`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run's folder
    #[arg(long)]
    run: PathBuf,

    /// The number of this attempt
    #[arg(long)]
    attempt: u32,

    /// cpu, cuda:N or metal
    #[arg(long)]
    device: String,

    /// What all processes of this machine call it: a GPU's UUID; its name where that is left out
    #[arg(long)]
    device_id: Option<String>,

    /// CPU threads to compute with
    #[arg(long)]
    threads: usize,

    /// Bytes that the run's checkpoints may take
    #[arg(long, value_name = "N")]
    checkpoint_bytes: Option<u64>,

    /// Take the run from a worker whose lease still is as it was seen
    #[arg(long, value_name = "TOKEN")]
    seize: Option<Sight>,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    Ok(worker::main(&worker::Args {
        root: root.path().to_owned(),
        run: args.run.clone(),
        attempt: args.attempt,
        device: args.device.clone(),
        id: args.device_id.as_ref().unwrap_or(&args.device).clone(),
        threads: args.threads,
        checkpoint_bytes: args.checkpoint_bytes,
        seize: args.seize.clone(),
    }))
}
