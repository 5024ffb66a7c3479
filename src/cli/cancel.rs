//! `exp cancel RUN|EXPERIMENT`: stop what runs, and begin nothing more of it. The request stands in the runs' journals;
//! whoever trains them, or is about to, looks there.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{json, ls, needed_store};
use crate::{
    base::{Exit, Result, clock, folders::Root},
    event::{Note, RunState},
    store::{RunRow, Store},
    ui::{self, format::plural},
};

/// How long to wait for workers to leave: they are killed where they have not written a checkpoint by then.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long a scheduler takes at most to look into the journals, and so may still begin a run.
const LOOK: Duration = Duration::from_millis(600);

/// Arguments of `exp cancel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run, by any unique prefix of its id, or the experiment
    #[arg(value_name = "RUN|EXPERIMENT")]
    what: String,

    /// Print the runs as JSON (as `exp ls --json`)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let mut store = needed_store(root)?;
    let rows = find(&store, &args.what)?;
    let is_over = |row: &&RunRow| matches!(row.state, RunState::Done | RunState::Skipped { .. });
    // Those that run come last: one that ends makes room for the next, which is to be cancelled by then.
    let (running, waiting): (Vec<_>, Vec<_>) = rows.iter().filter(|row| !is_over(row)).partition(|row| is_running(row));
    let mut asked = Vec::new();
    for row in waiting.into_iter().chain(running) {
        let attempt = root.run(&row.id).attempts()?.last().copied().unwrap_or(0);
        store.note(&row.id, &Note::Cancelled { at: clock::now(), attempt })?;
        asked.push(row.id);
    }
    let begun = Instant::now();
    let now = loop {
        store.sync()?;
        let now = find(&store, &args.what)?;
        let is_running = now.iter().any(|row| is_running(row) && asked.contains(&row.id));
        let waited = begun.elapsed();
        if asked.is_empty() || (waited > LOOK && !is_running) || waited > PATIENCE {
            break now;
        }
        thread::sleep(Duration::from_millis(50));
    };
    for row in &now {
        rows.iter().filter(|before| before.id == row.id).for_each(|before| say(row, before));
    }
    if args.json {
        ui::print_json(&json::runs(&now));
    } else {
        ui::print(&ls::table(&store, &now)?);
    }
    let left = now.iter().filter(|row| is_running(row)).count();
    if left > 0 {
        let seconds = PATIENCE.as_secs();
        let why = "no scheduler looks after it here, or none that can end it";
        ui::note(&format!("{} still running after {seconds} s: {why}", plural(left, "run")));
        return Ok(Exit::Unexpected);
    }
    Ok(Exit::Done)
}

fn is_running(row: &RunRow) -> bool {
    matches!(row.state, RunState::Running { .. })
}

/// The run of that id, or else the runs of that experiment.
fn find(store: &Store, what: &str) -> Result<Vec<RunRow>> {
    match store.find(what) {
        Ok(row) => Ok(vec![row]),
        Err(_) if store.experiment(what).is_ok() => store.runs(Some(what)),
        Err(error) => Err(error),
    }
}

/// What came of a request, in a line.
fn say(now: &RunRow, before: &RunRow) {
    let id = now.id.short();
    match (&before.state, &now.state) {
        (RunState::Done | RunState::Skipped { .. }, state) => {
            ui::note(&format!("run {id} is {}: there is nothing to cancel", state.word()));
        }
        (RunState::Failed { .. } | RunState::Interrupted { .. }, state) => {
            let other = "an `exp run` that was about to continue it will not";
            ui::note(&format!("run {id} is {}, neither running nor queued; {other}", state.word()));
        }
        (_, RunState::Interrupted { step }) => {
            ui::note(&format!("run {id} is stopped after step {step}; `exp resume {id}` continues"));
        }
        _ => {}
    }
}
