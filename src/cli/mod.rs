//! The command line: one file per command, each thin over the layers below.

mod attention;
mod best;
mod cancel;
mod columns;
mod completions;
mod data;
mod devices;
mod diff;
mod eval;
mod export;
mod gc;
mod import;
mod inspect;
mod json;
mod logs;
mod ls;
mod plan;
mod prompt;
mod report;
mod resume;
mod rm;
mod run;
mod sample;
mod schema;
mod search;
mod show;
mod sql;
mod store;
mod tag;
mod verify;
mod watch;
mod worker;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

use crate::{
    base::{Error, Exit, Result, folders::Root, progress, wait},
    store::Store,
    ui,
};

/// Experiments on small and medium transformers: one YAML file, a grid of runs, curves and reports.
#[derive(Debug, Parser)]
#[command(name = "exp", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    /// The folder that holds runs/ and reports/
    #[arg(long, global = true, env = "EXP_ROOT", value_name = "DIR", default_value = ".", hide_default_value = true)]
    root: PathBuf,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train every run of a spec that is not done yet, and draw the report
    Run(run::Args),
    /// Show what `exp run` would do, and what it costs
    Plan(plan::Args),
    /// Continue one run from its last checkpoint
    Resume(resume::Args),
    /// Watch runs live in the terminal: states, losses, devices, time left
    Watch(watch::Args),
    /// Stop a run or an experiment: what runs writes a checkpoint, the rest is not begun
    Cancel(cancel::Args),
    /// Draw the report of an experiment again
    Report(report::Args),
    /// List runs
    Ls(ls::Args),
    /// Show one run: settings, state, metrics, files
    Show(show::Args),
    /// Name the run of an experiment that did best
    Best(best::Args),
    /// Show in what two runs differ: settings, metrics, provenance
    Diff(diff::Args),
    /// Call runs something, or list what they are called
    Tag(tag::Args),
    /// Remove runs, or experiments with their runs and reports
    Rm(rm::Args),
    /// Free what nothing refers to: cached tokens, damaged checkpoints, leftovers
    Gc(gc::Args),
    /// Ask the index in SQL, read-only
    Sql(sql::Args),
    /// Show what happened in a run
    Logs(logs::Args),
    /// Let a run's model write
    Sample(sample::Args),
    /// Measure how well a run's model predicts its corpus or another text
    Eval(eval::Args),
    /// Show where a run's heads look in a prompt: a table, and a picture of the weights
    Attention(attention::Args),
    /// Show a model's arithmetic from its settings: parameters by part, FLOPs, bytes
    Inspect(inspect::Args),
    /// Make a run of weights that another program trained: GPT-2, Llama, nanoGPT
    Import(import::Args),
    /// Write runs and their metrics, or a run's model, for other programs
    Export(export::Args),
    /// Look after texts and tokens to train on
    Data(data::Args),
    /// List the devices that runs can be placed on, and what runs there
    Devices(devices::Args),
    /// Read everything again and compare it with what was written
    Verify(verify::Args),
    /// Look after the index over the folders of runs
    Store(store::Args),
    /// Print the JSON Schema of a spec, for editors
    Schema,
    /// Print completions for a shell
    Completions(completions::Args),
    /// Train one run; started by `exp run`
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Runs the command of this process's arguments.
pub fn main() -> ExitCode {
    // clap prints and exits 2 by itself where the arguments are wrong.
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Worker(_)) {
        std::panic::set_hook(Box::new(end_of_a_panic));
        wait::say_with(ui::note);
        progress::show_with(|what| Box::new(ui::progress::Bar::new(what)));
    }
    let root = Root::new(cli.root);
    let exit = dispatch(&root, cli.command).unwrap_or_else(|e| {
        ui::error(&e);
        e.exit
    });
    let lost = exit == Exit::Done && ui::has_lost_output();
    ExitCode::from(if lost { Exit::Unexpected } else { exit } as u8)
}

/// A panic is a fault of this program: it is said in a line, and the process ends as it does for anything unexpected.
fn end_of_a_panic(panic: &std::panic::PanicHookInfo) {
    let place = panic.location().map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
    let what = panic.payload_as_str().unwrap_or("no message");
    let error = Error::new(Exit::Unexpected, format!("a fault of exp itself{place}"), what);
    ui::error(&error.hint("what was trained is safe in runs/; the same command goes on from there"));
    std::process::exit(Exit::Unexpected as i32)
}

fn dispatch(root: &Root, command: Command) -> Result<Exit> {
    if root.path().exists() && !root.path().is_dir() {
        let doing = format!("looking into {}", root.path().display());
        return Err(
            Error::new(Exit::Usage, doing, "it is no folder").hint("--root or EXP_ROOT names the folder of runs/")
        );
    }
    match command {
        Command::Run(args) => run::run(root, &args),
        Command::Plan(args) => plan::run(root, &args),
        Command::Resume(args) => resume::run(root, &args),
        Command::Watch(args) => watch::run(root, &args),
        Command::Cancel(args) => cancel::run(root, &args),
        Command::Report(args) => report::run(root, &args),
        Command::Ls(args) => ls::run(root, &args),
        Command::Show(args) => show::run(root, &args),
        Command::Best(args) => best::run(root, &args),
        Command::Diff(args) => diff::run(root, &args),
        Command::Tag(args) => tag::run(root, &args),
        Command::Rm(args) => rm::run(root, &args),
        Command::Gc(args) => gc::run(root, &args),
        Command::Sql(args) => sql::run(root, &args),
        Command::Logs(args) => logs::run(root, &args),
        Command::Sample(args) => sample::run(root, &args),
        Command::Eval(args) => eval::run(root, &args),
        Command::Attention(args) => attention::run(root, &args),
        Command::Inspect(args) => inspect::run(root, &args),
        Command::Import(args) => import::run(root, &args),
        Command::Export(args) => export::run(root, &args),
        Command::Data(args) => data::run(root, &args),
        Command::Devices(args) => devices::run(root, &args),
        Command::Verify(args) => verify::run(root, &args),
        Command::Store(args) => store::run(root, &args),
        Command::Schema => schema::run(),
        Command::Completions(args) => completions::run(&args),
        Command::Worker(args) => worker::run(root, &args),
    }
}

/// The index brought up to date with the folders, and made again where it is gone; `None` where nothing was ever run
/// under this root.
fn current_store(root: &Root) -> Result<Option<Store>> {
    store_within(root, PATIENCE)
}

/// The same, waiting at most so long for another process that writes the index.
fn store_within(root: &Root, patience: Duration) -> Result<Option<Store>> {
    let Some(mut store) = existing_store(root)? else { return Ok(None) };
    refresh(&mut store, patience)?;
    say_damage(&store)?;
    Ok(Some(store))
}

/// The index as it is; `None` where nothing was ever run.
fn existing_store(root: &Root) -> Result<Option<Store>> {
    match Store::open_existing(root)? {
        None if root.experiments().exists() => Store::open(root).map(Some),
        store => Ok(store),
    }
}

/// How long a command that only looks waits for another process that writes the index.
const PATIENCE: Duration = Duration::from_secs(4);

/// Brings the index up to date, or says why it is not.
fn refresh(store: &mut Store, patience: Duration) -> Result<()> {
    if !store.refresh(patience)? {
        ui::note(
            "another process keeps the index locked, perhaps since it was stopped: what follows is as it was before",
        );
    }
    Ok(())
}

/// Says what of the folders could not be read: nothing is lost by it but what it held.
fn say_damage(store: &Store) -> Result<()> {
    for damage in store.damage()? {
        ui::note(&format!("warning: {} cannot be read from byte {}: {}", damage.file, damage.offset, damage.why));
    }
    Ok(())
}

/// The index brought up to date, for commands that need something to be there.
fn needed_store(root: &Root) -> Result<Store> {
    current_store(root)?.ok_or_else(|| nothing_yet(root))
}

/// What a list says in place of runs.
fn no_runs_yet(root: &Root) -> String {
    format!("no runs under {} yet; `exp run SPEC` makes some", run::shown(&root.runs()))
}

fn nothing_yet(root: &Root) -> Error {
    let doing = format!("looking into {}", run::shown(&root.runs()));
    Error::new(Exit::Usage, doing, "nothing was run under this root yet")
        .hint("`exp run SPEC` runs an experiment; --root or EXP_ROOT names another root")
}
