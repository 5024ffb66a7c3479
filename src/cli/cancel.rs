//! `exp cancel RUN|EXPERIMENT`: stop what runs, and begin nothing more of it. The request stands in the runs' journals;
//! whoever trains them, or is about to, looks there. A worker of this machine that does not answer, and that no scheduler
//! ends either, is killed from here, with all of its process group.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{json, ls, nothing_yet, refresh, store_within};
use crate::{
    base::{
        Exit, Result, RunId, clock,
        folders::Root,
        lease::{self, Lease},
        machine::{Identity, Standing},
    },
    event::{Note, RunState},
    store::{RunRow, Store},
    ui::{self, format::plural},
};

/// How long workers may take to write a checkpoint and leave: a little longer than their schedulers give them, which end
/// those that do not.
const GRACE: Duration = Duration::from_secs(4);

/// How long to wait for all of them to be gone.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long a scheduler takes at most to look into the journals, and so may still begin a run.
const LOOK: Duration = Duration::from_millis(600);

/// How long to wait for the index before anything is asked: which runs there are changes seldom.
const FIRST_LOOK: Duration = Duration::from_millis(300);

/// How long to wait for the index, to tell from it what came of the request.
const LAST_LOOK: Duration = Duration::from_secs(2);

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
    let stopped = stop(root, &args.what)?;
    stopped.notes.iter().for_each(|note| ui::note(note));
    if args.json {
        ui::print_json(&json::runs(&stopped.rows));
    } else {
        ui::print(&ls::table(&stopped.store, &stopped.rows)?);
    }
    Ok(if stopped.is_over { Exit::Done } else { Exit::Unexpected })
}

/// What came of a request to stop.
pub struct Stopped {
    /// The runs that it was for, as they stand now.
    pub rows: Vec<RunRow>,
    /// What is to be said of it, a line each.
    pub notes: Vec<String>,
    /// Whether nobody trains any of them any more.
    is_over: bool,
    store: Store,
}

/// Asks for a run or an experiment to be stopped, and waits until it is.
pub fn stop(root: &Root, what: &str) -> Result<Stopped> {
    let mut store = store_within(root, FIRST_LOOK)?.ok_or_else(|| nothing_yet(root))?;
    let rows = store.runs_named(what)?;
    let is_over = |row: &&RunRow| matches!(row.state, RunState::Done | RunState::Skipped { .. });
    // Those that run come last: one that ends makes room for the next, which is to be cancelled by then.
    let (running, waiting): (Vec<_>, Vec<_>) = rows.iter().filter(|row| !is_over(row)).partition(|row| is_running(row));
    let mut asked = Vec::new();
    for row in waiting.into_iter().chain(running) {
        let attempt = root.run(&row.id).attempts()?.last().copied().unwrap_or(0);
        // Nobody is to wait for the index: who keeps it locked may be the one that is to be cancelled.
        store.write_down(&row.id, &Note::Cancelled { at: clock::now(), attempt })?;
        asked.push((row.id, holder(root, &row.id)));
    }
    let left = wait_for(root, &asked)?;
    refresh(&mut store, LAST_LOOK)?;
    let now = store.runs_named(what)?;
    let outcomes =
        |row: &RunRow| rows.iter().find(|before| before.id == row.id).and_then(|before| outcome(row, before));
    let mut notes: Vec<String> = now.iter().filter_map(outcomes).collect();
    if !left.is_empty() {
        notes.push(format!("{} still running after {} s", plural(left.len(), "run"), PATIENCE.as_secs()));
        let whereabouts = |run: &RunId| format!("run {} {}", run.short(), whereabouts(holder(root, run).as_ref()));
        notes.extend(left.iter().map(whereabouts));
    }
    Ok(Stopped { rows: now, notes, is_over: left.is_empty(), store })
}

/// Waits until nobody has the runs any more, and ends those who do not let go. Returns what is left then. Who has a run is
/// told by its lock and lease alone.
fn wait_for(root: &Root, asked: &[(RunId, Option<Lease>)]) -> Result<Vec<RunId>> {
    let begun = Instant::now();
    let mut is_patient = true;
    loop {
        let mut left = Vec::new();
        for (run, holder) in asked {
            if lease::is_held(&root.run(run).lock())? {
                left.push((*run, holder));
            }
        }
        let waited = begun.elapsed();
        if asked.is_empty() || (waited > LOOK && left.is_empty()) || waited > PATIENCE {
            return Ok(left.into_iter().map(|(run, _)| run).collect());
        }
        if waited > GRACE && is_patient {
            is_patient = false;
            left.into_iter().for_each(|(run, holder)| end(root, &run, holder.as_ref()));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Whoever has a run, by its lease.
fn holder(root: &Root, run: &RunId) -> Option<Lease> {
    Lease::read(&root.run(run).lock()).ok().flatten().map(|(lease, _)| lease)
}

/// Ends the worker of a run that did not stop when it was asked: only the one that had the run then. Who took it up since
/// was not meant, or has seen the request.
fn end(root: &Root, run: &RunId, asked: Option<&Lease>) {
    let Some(lease) = holder(root, run).filter(|lease| Some(lease) == asked) else { return };
    if lease.identity.signal_group(Signal::KILL) {
        let (id, pid, seconds) = (run.short(), lease.identity.pid, GRACE.as_secs());
        ui::note(&format!("run {id} did not stop within {seconds} s: its worker, process {pid}, was killed"));
    }
}

/// Where the worker is that goes on.
fn whereabouts(lease: Option<&Lease>) -> String {
    match lease.map(|lease| (&lease.identity, lease.identity.stands())) {
        Some((Identity { host, pid, .. }, Standing::Elsewhere)) => {
            format!("is trained by process {pid} on {host}, which looks for requests as soon as it stirs")
        }
        Some((Identity { pid, .. }, Standing::Alive)) => format!("is trained by process {pid}"),
        Some((_, Standing::Gone)) | None => "is held by a process that is not known".into(),
    }
}

fn is_running(row: &RunRow) -> bool {
    matches!(row.state, RunState::Running { .. })
}

/// What came of a request for a run, in a line; `None` where its state says it all.
fn outcome(now: &RunRow, before: &RunRow) -> Option<String> {
    let id = now.id.short();
    match (&before.state, &now.state) {
        (RunState::Done | RunState::Skipped { .. }, state) => {
            Some(format!("run {id} is {}: there is nothing to cancel", state.word()))
        }
        (RunState::Failed { .. } | RunState::Interrupted { .. } | RunState::Paused { .. }, state) => {
            let other = "an `exp run` that was about to continue it will not";
            Some(format!("run {id} is {}, neither running nor queued; {other}", state.word()))
        }
        (_, RunState::Interrupted { step }) => {
            Some(format!("run {id} is stopped after step {step}; `exp resume {id}` continues"))
        }
        _ => None,
    }
}
