//! `exp watch [EXPERIMENT]`: what runs, live. One thread has the terminal, another gathers what is shown, so that keys are
//! heeded however long the index takes. Nothing is written but the index, which is brought up to date as by `exp ls`.

mod gather;
mod outlook;

use std::{
    io::IsTerminal,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use gather::Gatherer;

use super::{cancel, no_runs_yet, nothing_yet};
use crate::{
    base::{Exit, Result, RunId, folders::Root},
    ui::{
        self,
        watch::{Look, News, Order},
    },
};

const HELP: &str = "\
Keys: ↑ ↓ PgUp PgDn move, Enter opens the loss curve, s changes the order, c cancels the selected run (asks first), ? \
tells all, q leaves: runs go on. Where standard output is no terminal, it prints how things stand, once.";

/// How wide the text is where there is no terminal.
const WIDTH: u16 = 120;

/// Arguments of `exp watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Only this experiment; by default all that something happens in, or did in the last twelve hours
    experiment: Option<String>,

    /// Look for news every so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds are a number from 0.1 to 3600".into())
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let mut gatherer = Gatherer::new(root, args.experiment.clone());
    gatherer.refresh()?;
    if args.experiment.is_some() && !gatherer.has_store() {
        return Err(nothing_yet(root));
    }
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return once(root, &mut gatherer);
    }
    let first = gatherer.scene(&Look::default(), Instant::now())?.0;
    let (tell, news) = channel();
    let (order, orders) = channel();
    let (asked, interval) = (root.clone(), args.interval);
    let filler = thread::spawn(move || fill(&asked, gatherer, interval, &orders, &tell));
    let exit = ui::watch::live(first, &news, &order, ui::has_colour());
    drop(order); // ends the other thread
    let unread = ui::watch::yield_terminal();
    let cancels = filler.join().unwrap_or_default();
    if cancels.iter().any(|cancel| !cancel.is_finished()) {
        ui::note("waiting until what was cancelled has stopped");
    }
    cancels.into_iter().for_each(|cancel| drop(cancel.join()));
    let said = news.try_iter().filter_map(|news| match news {
        News::Said(line) => Some(line),
        News::Scene(_) => None,
    });
    unread.into_iter().chain(said).for_each(|line| ui::note(&line));
    exit
}

/// Prints how things stand.
fn once(root: &Root, gatherer: &mut Gatherer) -> Result<Exit> {
    let look = Look { visible: gatherer.runs(), selected: None };
    let no_hurry = Instant::now() + Duration::from_secs(3600);
    let scene = gatherer.scene(&look, no_hurry)?.0;
    scene.notes.iter().for_each(|note| ui::note(note));
    match scene.groups.is_empty() {
        true => ui::note(&no_runs_yet(root)),
        false => ui::print(&ui::watch::plain(&scene, WIDTH)),
    }
    Ok(Exit::Done)
}

/// Fills scenes until nobody wants any more. Returns what it has begun to cancel.
fn fill(
    root: &Root,
    mut gatherer: Gatherer,
    interval: Duration,
    orders: &Receiver<Order>,
    tell: &Sender<News>,
) -> Vec<JoinHandle<()>> {
    /// How long curves are read before what is there is shown.
    const AT_ONCE: Duration = Duration::from_millis(150);
    let mut cancels = Vec::new();
    let mut look = Look::default();
    let (mut next, mut is_whole) = (Instant::now() + interval, true);
    loop {
        let patience = if is_whole { next.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        let first = match orders.recv_timeout(patience) {
            Err(RecvTimeoutError::Disconnected) => return cancels,
            order => order.ok(),
        };
        // Of what was looked at meanwhile, the last counts.
        for order in first.into_iter().chain(orders.try_iter()) {
            match order {
                Order::Look(asked) => look = asked,
                Order::Cancel(run) => {
                    let (root, tell) = (root.clone(), tell.clone());
                    cancels.push(thread::spawn(move || cancel_run(&root, &run, &tell)));
                }
            }
        }
        let begun = Instant::now();
        let refreshed = if begun >= next { gatherer.refresh() } else { Ok(()) };
        let said = match refreshed.and_then(|()| gatherer.scene(&look, Instant::now() + AT_ONCE)) {
            Ok((scene, whole)) => {
                is_whole = whole;
                News::Scene(Box::new(scene))
            }
            Err(error) => {
                is_whole = true;
                News::Said(error.to_string())
            }
        };
        let _ = tell.send(said); // nobody listens any more: the next order says so
        if begun >= next {
            // Of an index that takes long to read, most of the time is left to others.
            next = Instant::now() + interval.max(4 * begun.elapsed());
        }
    }
}

/// Does what `exp cancel` does for a run, and says what came of it.
fn cancel_run(root: &Root, run: &RunId, tell: &Sender<News>) {
    let lines = match cancel::stop(root, &run.to_string()) {
        Ok(stopped) if stopped.notes.is_empty() => {
            stopped.rows.iter().map(|row| format!("run {} is {}", row.id.short(), row.state.word())).collect()
        }
        Ok(stopped) => stopped.notes,
        Err(error) => vec![error.to_string()],
    };
    let _ = tell.send(News::Said(lines.join("; "))); // nobody may be there any more to hear it
}
