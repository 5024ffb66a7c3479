//! `exp verify [RUN|EXPERIMENT…]`: everything is read again and compared with what was written.

use std::path::Path;

use serde_json::{Value, json};

use super::{needed_store, run::shown};
use crate::{
    base::{
        Exit, Result, RunId, files,
        folders::{Root, RunFolder},
        progress::Progress,
    },
    data::shelf,
    store::{Named, Store, Verified, What},
    ui::{self, format},
};

/// Arguments of `exp verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these, with the reports of experiments; by default all runs, reports, data and the index
    #[arg(value_name = "RUN|EXPERIMENT")]
    which: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let mut found = Verified::default();
    if args.which.is_empty()
        && let Some(store) = Store::open_existing(root)?
    {
        store.verify_presence(&mut found)?;
    }
    let mut store = needed_store(root)?;
    let (experiments, folders) = match &args.which[..] {
        [] => (names(&root.experiments())?, root.run_folders()?),
        some => chosen(&store, some).map(|(names, runs)| (names, runs.iter().map(|id| root.run(id)).collect()))?,
    };
    verify_runs(&mut store, &folders, &mut found)?;
    let reports = if args.which.is_empty() { names(&root.reports())? } else { experiments.clone() };
    experiments.iter().for_each(|name| store.verify_experiment(name, &mut found));
    reports.iter().for_each(|name| store.verify_report(name, &mut found));
    if args.which.is_empty() {
        store.verify_tokenizers(&mut found)?;
        store.verify_index(&mut found)?;
        verify_data(root, &mut found)?;
    }
    match args.json {
        true => ui::print_json(&as_json(&found)),
        false => say(&found),
    }
    Ok(if found.faults.is_empty() { Exit::Done } else { Exit::Store })
}

/// The experiments and runs that were named, each once, and the runs of those experiments.
fn chosen(store: &Store, names: &[String]) -> Result<(Vec<String>, Vec<RunId>)> {
    let (mut experiments, mut runs) = (Vec::new(), Vec::new());
    for name in names {
        let more = match store.named(name)? {
            Named::Experiment(experiment) => {
                experiments.push(experiment.name);
                store.runs(Some(name))?
            }
            Named::Run(row) => vec![*row],
        };
        runs.extend(more.iter().map(|row| row.id));
    }
    let mut seen = std::collections::HashSet::new();
    runs.retain(|id| seen.insert(*id));
    Ok((experiments, runs))
}

fn verify_runs(store: &mut Store, folders: &[RunFolder], found: &mut Verified) -> Result<()> {
    let progress = Progress::of("verifying");
    let sizes: Vec<u64> = folders.iter().map(|folder| files::size(folder.path())).collect();
    let (mut done, of) = (0, sizes.iter().sum());
    for (folder, size) in folders.iter().zip(sizes) {
        progress.at(done, of);
        store.verify_run(folder, found)?;
        done += size;
    }
    Ok(())
}

/// What lies in a folder: whatever the index says of it.
fn names(folder: &Path) -> Result<Vec<String>> {
    Ok(files::names(folder)?.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

fn verify_data(root: &Root, found: &mut Verified) -> Result<()> {
    for item in shelf::items(&root.cache())? {
        found.files += 1;
        found.bytes += item.bytes;
        let advice = match item.kind() {
            "cached" => "tokens in the cache are made again once their folder is gone",
            "text" => "`exp data add shakespeare` puts the text there again",
            _ => "a folder of tokens is to be prepared or copied again",
        };
        let what = if item.is_gone() { What::Missing } else { What::Damaged };
        match item.faults() {
            Ok(faults) => faults.into_iter().for_each(|why| found.fault(shown(&item.path), what, why, advice)),
            Err(error) => found.fault(shown(&item.path), What::Unreadable, error.why, advice),
        }
    }
    Ok(())
}

/// What is wrong, a line each, then what to do about it, each advice once.
fn say(found: &Verified) {
    let mut advice: Vec<&str> = Vec::new();
    for fault in &found.faults {
        ui::print(&format!("{:<10}  {}: {}\n", fault.what.word(), fault.path, fault.why));
        if !advice.contains(&fault.advice.as_str()) {
            advice.push(&fault.advice);
        }
    }
    let read = format!("{}, {}", format::plural(found.files as usize, "file"), format::bytes(found.bytes));
    ui::note(&match found.faults.len() {
        0 => format!("all is as it was written: {read}"),
        faults => format!("{} in {read}", format::plural(faults, "fault")),
    });
    advice.into_iter().for_each(|advice| ui::note(&format!("hint: {advice}")));
}

fn as_json(found: &Verified) -> Value {
    let faults = found
        .faults
        .iter()
        .map(|fault| json!({"path": fault.path, "what": fault.what.word(), "why": fault.why, "advice": fault.advice}));
    json!({"files": found.files, "bytes": found.bytes, "faults": faults.collect::<Vec<_>>()})
}
