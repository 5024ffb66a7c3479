//! The `exp` program.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use exp::{
    base::{Exit, Result, clock, folders::Root},
    event::{Expansion, Observer, Progress},
    exec::worker,
    sched::{self, Options},
    spec,
    store::Store,
};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let verb = words.next().unwrap_or_default();
    let args: Vec<String> = words.collect();
    let exit = match verb.as_str() {
        "worker" => work(&args),
        "run" => run(&args).unwrap_or_else(|error| {
            eprintln!("{error}");
            error.exit
        }),
        _ => Exit::Usage,
    };
    ExitCode::from(exit as u8)
}

fn value<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter().position(|word| word == flag).and_then(|at| args.get(at + 1)).map(String::as_str)
}

fn work(args: &[String]) -> Exit {
    let path = |flag| value(args, flag).map(PathBuf::from).unwrap_or_default();
    let number = |flag| value(args, flag).and_then(|n| n.parse().ok()).unwrap_or(1);
    worker::main(&worker::Args {
        root: path("--root"),
        run: path("--run"),
        attempt: number("--attempt") as u32,
        device: value(args, "--device").unwrap_or("cpu").into(),
        threads: number("--threads") as usize,
    })
}

fn run(args: &[String]) -> Result<Exit> {
    struct Screen;
    impl Observer for Screen {
        fn see(&mut self, progress: &Progress) {
            match progress {
                Progress::Event { .. } | Progress::Tick => {}
                other => eprintln!("{other:?}"),
            }
        }
    }
    let sweep = spec::load(Path::new(&args[0]), &[])?;
    let root = Root::new(value(args, "--root").unwrap_or("."));
    let mut store = Store::open(&root)?;
    store.sync()?;
    let plan = sched::plan(&sweep, &root, Some(&store))?;
    let frozen: Vec<_> = plan.runs.iter().map(|run| run.frozen.clone()).collect();
    let members = frozen.iter().map(|run| run.id).collect();
    let expansion = Expansion { at: clock::now(), axes: plan.axes, members, spec: plan.spec };
    store.register(&plan.experiment, &expansion, &frozen)?;
    let options = Options { jobs: value(args, "--jobs").and_then(|jobs| jobs.parse().ok()) };
    Ok(sched::dispatch(&plan.runs, &root, &mut store, &options, &mut Screen)?.exit())
}
