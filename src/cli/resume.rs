//! `exp resume RUN`: continue one run from its last checkpoint.

use super::{needed_store, run};
use crate::{
    base::{Exit, Result, folders::Root},
    event::RunState,
    sched, ui,
    ui::format,
};

/// Arguments of `exp resume`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let mut store = needed_store(root)?;
    let row = store.find(&args.run)?;
    let id = row.id.short();
    if row.state == RunState::Done {
        let best = row.best.map_or(String::new(), |(step, loss)| {
            format!(", best val loss {} at step {step}", format::loss(Some(loss)))
        });
        ui::note(&format!("run {id} is done already{best}"));
        return Ok(Exit::Done);
    }
    // Who names one run wants it, whatever became of others.
    let options = sched::Options { force: true, ..sched::Options::default() };
    let planned = sched::planned(root, &store, &row)?;
    if planned.reason == sched::Reason::Elsewhere {
        ui::note(&format!("run {id} is trained by another process; waiting for it"));
    }
    let summary = run::train(root, &mut store, &format!("resume {id}"), &[], &[planned], &options)?;
    let row = store.find(&row.id.to_string())?;
    ui::print(&super::ls::table(&store, std::slice::from_ref(&row))?);
    if summary.exit() == Exit::Interrupted {
        ui::note(&format!("interrupted; `exp resume {id}` continues"));
    } else {
        row.experiments.iter().for_each(|name| ui::note(&format!("`exp report {name}` draws its report again")));
    }
    Ok(summary.exit())
}
