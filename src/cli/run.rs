//! `exp run SPEC`: expand, check all, train what is not done, draw.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{json, ls, report, search};
use crate::{
    base::{Exit, Result, RunId, clock, folders::Root, provenance::Provenance},
    event::{Expansion, RunState},
    sched::{self, PlannedRun, Reason},
    spec::{
        self,
        expr::{Expr, Leaves},
    },
    store::{Store, running::Running},
    ui::{self, format, screen},
};

/// Which points of which spec.
#[derive(Debug, clap::Args)]
pub struct SpecArgs {
    /// The spec, a YAML file
    pub spec: PathBuf,

    /// Set a leaf, or replace an axis: --set lr=3e-4, --set layers=2,4, --set 'layers={range: [2, 9, 2]}'
    #[arg(long, value_name = "LEAF=VALUE")]
    pub set: Vec<String>,

    /// Repeat every point with so many seeds, or with these: --seeds 5, --seeds 7,8
    #[arg(long, value_name = "N")]
    pub seeds: Option<String>,

    /// Take those points alone for which a condition holds: --only 'layers == 4 and lr < 1e-2'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    pub only: Option<String>,

    /// Take a sweep of more than 100,000 points
    #[arg(long)]
    pub yes: bool,

    /// Train on this device: auto, cpu, cuda, cuda:N, metal
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
}

impl SpecArgs {
    /// The spec with the command line's settings, expanded and checked.
    pub fn load(&self) -> Result<spec::Sweep> {
        self.condition()?; // a slip in it is told before the spec is read, which may take a while
        let device = self.device.iter().map(|device| format!("run.device={device}"));
        let seeds = self.seeds.iter().map(|seeds| format!("seeds={seeds}"));
        let set: Vec<String> = self.set.iter().cloned().chain(seeds).chain(device).collect();
        let load = if self.yes { spec::load_large } else { spec::load };
        load(&self.spec, &set)
    }

    /// The plan of what of a spec is asked for.
    pub fn plan(&self, sweep: &spec::Sweep, root: &Root, store: Option<&Store>) -> Result<sched::Plan> {
        sched::plan_only(sweep, root, store, self.condition()?.as_ref())
    }

    /// What `--only` says.
    fn condition(&self) -> Result<Option<Expr>> {
        self.only.as_deref().map(|only| Expr::condition(only, &Leaves)).transpose()
    }
}

/// Arguments of `exp run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    spec: SpecArgs,

    /// Train at most this many runs at once [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Stop all runs gently as soon as one has failed for good
    #[arg(long)]
    fail_fast: bool,

    /// Try as well what is skipped because something smaller ran out of memory
    #[arg(long)]
    force: bool,

    /// Do not draw the report at the end
    #[arg(long)]
    no_report: bool,

    /// Print the runs as JSON at the end (as `exp ls --json`)
    #[arg(long)]
    json: bool,
}

impl Args {
    fn options(&self, plan: &sched::Plan) -> sched::Options {
        let jobs = self.jobs.map(|n| n as usize);
        sched::Options { jobs, fail_fast: self.fail_fast, force: self.force, search: plan.search.clone() }
    }
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    std::thread::spawn(Provenance::here); // git may take a while; who needs it waits
    let sweep = args.spec.load()?;
    let mut store = Store::open(root)?;
    store.sync()?;
    super::say_damage(&store)?;
    let plan = args.spec.plan(&sweep, root, Some(&store))?;

    let frozen: Vec<_> = plan.runs.iter().map(|r| r.frozen.clone()).collect();
    let members = plan.members.clone();
    let left = leaving(&store, &plan.experiment, &members)?;
    let _running = Running::begin(root, &plan.experiment)?; // to the end: `exp rm` is not to take the experiment away
    let expansion = Expansion { at: clock::now(), axes: plan.axes.clone(), members, spec: plan.spec.clone() };
    store.register(&plan.experiment, &expansion, &frozen)?;
    let trimmed = sched::budget::trim(root, &mut store, &plan.runs)?;

    ui::note(&opening(&plan));
    if plan.search.is_some() {
        ui::note(search::told(&plan).trim_end());
    }
    left.iter().for_each(|note| ui::note(note));
    if trimmed > 0 {
        ui::note(&format!("{} removed, to keep to `checkpoint.max_bytes`", format::plural(trimmed, "checkpoint")));
    }
    notes(&plan);
    let summary = train(root, &mut store, &plan.experiment, &plan.axes, &plan.runs, &args.options(&plan))?;

    store.sync()?; // the index may have been lost meanwhile, and made again from the folders
    let rows = store.runs(Some(&plan.experiment))?;
    if args.json {
        ui::print_json(&json::runs(&rows));
    } else {
        ui::print(&ls::table(&store, &rows)?);
    }
    if !summary.skipped.is_empty() {
        ui::note(&format!("{} skipped; `--force` tries them", format::plural(summary.skipped.len(), "run")));
    }
    // Of a sweep that was stopped, some only wait to be lifted.
    let is_whole = [&summary.interrupted, &summary.queued, &summary.elsewhere].iter().all(|left| left.is_empty());
    if is_whole && !summary.paused.is_empty() {
        ui::note(&search::saved(&plan, &rows));
    }
    match summary.exit() {
        Exit::Interrupted if summary.done.is_empty() => ui::note("interrupted; the same command continues"),
        Exit::Interrupted => ui::note(&format!(
            "interrupted; the same command continues, `exp report {}` draws what is there",
            plan.experiment
        )),
        exit if args.no_report || rows.iter().all(|r| r.best.is_none()) => return Ok(exit),
        Exit::Done => report::draw(root, &store, &plan.experiment)?,
        // What became of the runs matters more than a picture that cannot be drawn.
        _ => report::draw(root, &store, &plan.experiment).unwrap_or_else(|e| ui::error(&e)),
    }
    Ok(summary.exit())
}

/// What to say of runs that an earlier spec of the experiment had and this one has not: they stay, but not in its report,
/// and `exp cancel` of the experiment is not for them.
fn leaving(store: &Store, experiment: &str, members: &[RunId]) -> Result<Option<String>> {
    if !store.experiments()?.iter().any(|known| known.name == experiment) {
        return Ok(None);
    }
    let mut rows = store.runs(Some(experiment))?;
    rows.retain(|row| !members.contains(&row.id));
    let running: Vec<_> = rows.iter().filter(|row| matches!(row.state, RunState::Running { .. })).collect();
    let running: Vec<_> = running.iter().map(|row| format!("`exp cancel {}`", row.id.short())).collect();
    Ok((!rows.is_empty()).then(|| {
        let (are, leave) = if rows.len() == 1 { ("is", "leaves") } else { ("are", "leave") };
        let note = format!(
            "{} of its last spec {are} not in this one and {leave} its report; `exp ls` without a name lists all runs",
            format::plural(rows.len(), "run")
        );
        match &running[..] {
            [] => note,
            some => format!("{note}; those still being trained stop by {}", some.join(", ")),
        }
    }))
}

/// Trains what is not done, with a screen.
pub fn train(
    root: &Root,
    store: &mut Store,
    title: &str,
    axes: &[String],
    runs: &[PlannedRun],
    options: &sched::Options,
) -> Result<sched::Summary> {
    let digits = store.shortest(&runs.iter().map(|r| r.frozen.id).collect::<Vec<_>>())?;
    let is_over = |r: &PlannedRun| match r.reason {
        Reason::Done => true,
        Reason::Skipped { .. } => !options.force,
        _ => false,
    };
    let entries = runs.iter().filter(|r| !is_over(r)).map(|r| screen::Entry {
        pauses: options.search.is_some() && matches!(r.reason, Reason::Paused { .. }),
        ..entry(r, axes, digits)
    });
    let mut screen = screen::Screen::new(title, entries.collect());
    let summary = sched::dispatch(runs, root, store, options, &mut screen);
    screen.close();
    summary
}

fn entry(run: &PlannedRun, axes: &[String], digits: usize) -> screen::Entry {
    let config = &run.frozen.config;
    let done = match run.reason {
        Reason::Interrupted { step } | Reason::Paused { step, .. } => step,
        _ => 0,
    };
    screen::Entry {
        id: run.frozen.id,
        label: label(run, axes, digits),
        steps: config.train.steps,
        done,
        pauses: false,
        weight: run.cost.flops_per_token * config.tokens_per_step() as f64,
    }
}

/// `3f2a91 layers=8 seed=2`: a run among its siblings.
fn label(run: &PlannedRun, axes: &[String], digits: usize) -> String {
    let leaves = run.frozen.config.leaves();
    let named = axes.iter().zip(format::headings(axes, &[]));
    let settings = named.filter_map(|(a, name)| leaves.get(a).map(|v| format!(" {name}={}", format::value(v))));
    run.frozen.id.to_string()[..digits].to_owned() + &settings.collect::<String>()
}

/// One line on what is about to happen.
fn opening(plan: &sched::Plan) -> String {
    let count = |f: fn(&Reason) -> bool| plan.runs.iter().filter(|r| f(&r.reason)).count();
    let mut parts = vec![format::plural(plan.runs.len(), "run")];
    let named = [
        (count(|r| matches!(r, Reason::Done)), "done already"),
        (count(|r| matches!(r, Reason::Interrupted { .. })), "to continue"),
        (count(|r| matches!(r, Reason::Paused { goes_on: true, .. })), "paused, to continue"),
        (count(|r| matches!(r, Reason::Paused { goes_on: false, .. })), "paused"),
        (count(|r| matches!(r, Reason::FailedBefore { .. })), "failed before, tried again"),
        (count(|r| matches!(r, Reason::Elsewhere)), "trained by another process"),
        (count(|r| matches!(r, Reason::Skipped { .. })), "skipped before"),
        (plan.duplicates, "duplicate"),
        (plan.excluded, "excluded"),
        (plan.left_out(), "left out by --only"),
    ];
    parts.extend(named.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    format!("{}: {}", plan.experiment, parts.join(", "))
}

/// What is worth knowing of the corpora, each once.
pub fn notes(plan: &sched::Plan) {
    let mut said = BTreeSet::new();
    for note in plan.runs.iter().flat_map(|r| r.corpus.notes.iter().map(|n| format!("{}: {n}", r.corpus.name))) {
        if said.insert(note.clone()) {
            ui::note(&note);
        }
    }
}

/// A path as the current folder sees it, for notes.
pub fn shown(path: &Path) -> String {
    path.strip_prefix("./").unwrap_or(path).display().to_string()
}
