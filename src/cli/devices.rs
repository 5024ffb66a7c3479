//! `exp devices`: what runs can be placed on, and what runs there.

use serde_json::json;

use crate::{
    base::{Exit, Result, RunId, folders::Root},
    exec::{
        device::{self, DeviceInfo},
        slots,
    },
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
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let devices = device::list();
    if let Some(why) = device::without_cuda() {
        ui::note(&format!("no NVIDIA GPU can be used: {why}"));
    }
    let occupants = slots::occupants(root)?;
    let shown = devices.iter().map(|device| (device, occupants.get(&device.id).map_or(&[][..], Vec::as_slice)));
    if args.json {
        ui::print_json(&shown.map(|(device, runs)| as_json(device, runs)).collect());
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = shown.map(|(device, runs)| row(device, runs)).collect();
    let columns =
        [words("device"), words("model"), numbers("cores"), numbers("memory"), numbers("free"), words("runs")];
    ui::print(&table::render(&columns, &rows));
    Ok(Exit::Done)
}

fn as_json(d: &DeviceInfo, runs: &[RunId]) -> serde_json::Value {
    json!({
        "name": d.name,
        "id": d.id,
        "model": d.model,
        "cores": d.cores,
        "memory_total": d.memory_total,
        "memory_free": d.memory_free,
        "runs": runs.iter().map(RunId::to_string).collect::<Vec<_>>(),
    })
}

fn row(d: &DeviceInfo, runs: &[RunId]) -> Vec<String> {
    let bytes = |b: Option<u64>| b.map_or("–".into(), format::bytes);
    let cores = d.cores.map_or("–".into(), |c| c.to_string());
    let runs = match runs {
        [] => "–".into(),
        some => some.iter().map(RunId::short).collect::<Vec<_>>().join(", "),
    };
    vec![d.name.clone(), d.model.clone(), cores, bytes(d.memory_total), bytes(d.memory_free), runs]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_shown_with_what_runs_there() {
        let gpu = DeviceInfo {
            name: "cuda:0".into(),
            id: "GPU-7".into(),
            model: "H200".into(),
            cores: None,
            memory_total: Some(141 << 30),
            memory_free: Some(140 << 30),
        };
        let runs = [RunId([0x3f; 32]), RunId([0xa2; 32])];
        assert_eq!(row(&gpu, &runs), ["cuda:0", "H200", "–", "141.0 GiB", "140.0 GiB", "3f3f3f3f, a2a2a2a2"]);
        assert_eq!(row(&gpu, &[])[5], "–");
        let json = as_json(&gpu, &runs);
        assert_eq!((&json["id"], &json["runs"][1]), (&json!("GPU-7"), &json!("a2".repeat(32))));
    }
}
