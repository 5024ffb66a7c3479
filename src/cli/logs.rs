//! `exp logs RUN`: what happened in a run, attempt by attempt, and what its workers wrote to standard error.

use std::{fs, io::ErrorKind, path::Path};

use super::needed_store;
use crate::{
    base::{Context, Error, Exit, Result, clock, folders::Root},
    event::{Event, IMPORT, Outcome},
    ui::{self, format},
};

/// Arguments of `exp logs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// Only this attempt
    #[arg(long, value_name = "K")]
    attempt: Option<u32>,

    /// Every step, not only evaluations, checkpoints and warnings
    #[arg(long)]
    steps: bool,

    /// Print the events as JSON, one a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    let folder = root.run(&row.id);
    let attempts: Vec<u32> = folder.attempts()?.into_iter().filter(|k| args.attempt.is_none_or(|a| a == *k)).collect();
    if let (true, Some(k)) = (attempts.is_empty(), args.attempt) {
        let doing = format!("reading the log of run {}", row.id.short());
        return Err(Error::new(Exit::Usage, doing, format!("it has no attempt {k}, but {}", row.attempts)));
    }
    if attempts.is_empty() {
        ui::note(&format!("run {} has no attempt yet", row.id.short()));
    }
    for k in attempts {
        let mut events = read_if_there(&folder.events(k))?;
        events.truncate(events.rfind('\n').map_or(0, |end| end + 1)); // a line without its end is not there yet
        if args.json {
            ui::print(&events);
            continue;
        }
        let mut text = format!("attempt {k}\n");
        let events = events.lines().filter_map(|line| serde_json::from_str(line).ok());
        events.filter_map(|e| describe(&e, args.steps)).for_each(|line| text += &format!("  {line}\n"));
        let log = read_if_there(&folder.log(k))?;
        if !log.is_empty() {
            text += "  standard error:\n";
            log.lines().for_each(|line| text += &format!("    {line}\n"));
        }
        ui::print(&text);
    }
    Ok(Exit::Done)
}

/// A file's text, empty where there is none; what is not UTF-8 is replaced, a log may hold anything.
fn read_if_there(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(e).doing(Exit::Store, || format!("reading {}", path.display())),
    }
}

/// One line for a person; steps only where they are asked for.
fn describe(event: &Event, steps: bool) -> Option<String> {
    Some(match event {
        Event::Started(s) => {
            let threads = format::plural(s.threads, "thread");
            format!("{}  started on {}, process {}, {}, {threads}", clock::local(s.at), s.host, s.pid, s.device)
        }
        Event::MovedAside { at, checkpoints } => {
            format!("{}  moved aside: {}", clock::local(*at), checkpoints.join(", "))
        }
        Event::Loading { at, checkpoint } => format!("{}  loading the checkpoint {checkpoint}", clock::local(*at)),
        Event::Ready(r) if r.engine == IMPORT => {
            format!("{}  weights imported: {} parameters", clock::local(r.at), format::count(r.params as f64))
        }
        Event::Ready(r) => format!(
            "{}  ready: {} engine ({}), {} parameters, from step {}",
            clock::local(r.at),
            r.engine,
            r.simd,
            format::count(r.params as f64),
            r.from_step
        ),
        Event::Step(_) if !steps => return None,
        Event::Step(s) => format!(
            "step {:>6}  loss {}  lr {:.3e}  norm {:.3}  {:.1} ms  {} tok/s",
            s.step,
            format::loss(Some(s.loss)),
            s.lr,
            s.grad_norm,
            s.step_ms,
            format::count(s.tokens_per_second)
        ),
        Event::Eval(e) => format!(
            "step {:>6}  train loss {}  val loss {}  {:.3} bits/char",
            e.step,
            format::loss(Some(e.train_loss)),
            format::loss(Some(e.val_loss)),
            e.bits_per_char
        ),
        Event::Checkpointed(c) => {
            format!("step {:>6}  checkpoint {}{}", c.step, c.folder, if c.best { ", best so far" } else { "" })
        }
        Event::Sampled(s) => format!("step {:>6}  wrote {}", s.step, s.file.name),
        Event::Warning { at, message } => format!("{}  warning: {message}", clock::local(*at)),
        Event::Finished { at, outcome, .. } => {
            let how = match outcome {
                Outcome::Done => "done".into(),
                Outcome::Failed { why, .. } => format!("failed: {why}"),
                Outcome::Interrupted { step } => format!("interrupted after step {step}"),
            };
            format!("{}  {how}", clock::local(*at))
        }
    })
}
