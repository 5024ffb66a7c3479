//! `exp devices`: what runs can be placed on.

use serde_json::json;

use crate::{
    base::{Exit, Result},
    exec::device::{self, DeviceInfo},
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let devices = device::list();
    if args.json {
        ui::print_json(&devices.iter().map(as_json).collect());
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = devices.iter().map(row).collect();
    let columns = [words("device"), words("model"), numbers("cores"), numbers("memory"), numbers("free")];
    ui::print(&table::render(&columns, &rows));
    Ok(Exit::Done)
}

fn as_json(d: &DeviceInfo) -> serde_json::Value {
    json!({
        "name": d.name,
        "model": d.model,
        "cores": d.cores,
        "memory_total": d.memory_total,
        "memory_free": d.memory_free,
    })
}

fn row(d: &DeviceInfo) -> Vec<String> {
    let bytes = |b: Option<u64>| b.map_or("–".into(), format::bytes);
    let cores = d.cores.map_or("–".into(), |c| c.to_string());
    vec![d.name.clone(), d.model.clone(), cores, bytes(d.memory_total), bytes(d.memory_free)]
}
