//! What the store and the commands over it take for many runs, many points and many values, each beside what is aimed at:
//! `cargo bench --bench scale [-- PART …]`, with the parts `list`, `plan`, `report`, `points`, `log`, `spawn`, `others`.
//!
//! Commands are timed as whole processes of `exp`, the fastest of some, and their memory is the most that the kernel saw.
//! `others` logs the same values with trackers from PyPI where Python has them:
//!
//! ```text
//! python3 -m venv target/trackers && target/trackers/bin/pip install mlflow aim trackio
//! ```

mod synthetic;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use exp::{
    base::{folders::Root, lease::Fence, provenance::Provenance},
    event::{Event, Sink, Step},
    exec::events::EventLog,
    spec,
    store::Store,
};

/// Tries of each command.
const TRIES: usize = 5;

/// Measures something in an empty folder.
type Part = fn(&Path);

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let all: [(&str, Part); 7] = [
        ("list", list),
        ("plan", plan),
        ("report", report),
        ("points", points),
        ("log", log),
        ("spawn", spawn),
        ("others", others),
    ];
    println!("{:64} {:>12} {:>12}", "what", "measured", "aim");
    for (name, part) in all {
        if parts.is_empty() || parts.iter().any(|wanted| wanted == name) {
            let dir = tempfile::tempdir().expect("a folder");
            part(dir.path());
        }
    }
}

fn say(what: &str, measured: String, aim: &str) {
    println!("{what:64} {measured:>12} {aim:>12}");
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// A command of `exp` on a root.
fn exp(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
    command.args(args).arg("--root").arg(root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// How long a command takes, and the most memory that it had.
fn measure(mut command: Command) -> (Duration, u64) {
    let begun = Instant::now();
    let mut child = command.spawn().expect("a process");
    let peak = peak_of(&mut child);
    (begun.elapsed(), peak)
}

/// How long a command takes while nobody looks at it.
fn timed(mut command: Command) -> Duration {
    let begun = Instant::now();
    let status = command.status().expect("a process");
    assert!(status.success(), "the command failed: {status}");
    begun.elapsed()
}

/// Waits for a process, and tells the most memory that it was seen to have had.
fn peak_of(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let high = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let high = high.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(high.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().expect("a process") {
            assert!(status.success(), "the command failed: {status}");
            return peak;
        }
        sleep(Duration::from_micros(300));
    }
}

/// The fastest of some tries, and the most memory of one more, since to look at a process takes its time.
fn fastest(mut command: impl FnMut() -> Command) -> (Duration, u64) {
    let fastest = (0..TRIES).map(|_| timed(command())).min().expect("tries");
    (fastest, measure(command()).1)
}

/// 10,000 runs of 100 points: the index, and the list.
fn list(dir: &Path) {
    let (runs, steps) = (10_000, 100);
    let root = Root::new(dir);
    synthetic::write(&root, runs, steps, None);
    let (time, memory) = measure(exp(dir, &["store", "rebuild"]));
    let values = runs as u64 * (steps * synthetic::METRICS + 11 * 4);
    say("10,000 runs of 100 steps into the index, values a second", rate(values, time), "100 k");
    say("  memory for that", megabytes(memory), "");
    rustix::fs::sync(); // what was just written is not to be on its way to the disk while lists are timed
    let (time, memory) = fastest(|| exp(dir, &["ls"]));
    say("exp ls of 10,000 runs", ms(time), "200 ms");
    say("  memory for that", megabytes(memory), "");
    let (time, _) = fastest(|| exp(dir, &["ls", "--json"]));
    say("exp ls --json of them", ms(time), "");
    let (time, _) = fastest(|| exp(dir, &["best", synthetic::EXPERIMENT]));
    say("exp best of them", ms(time), "");
}

fn rate(values: u64, time: Duration) -> String {
    format!("{:.0} k", values as f64 / time.as_secs_f64() / 1e3)
}

/// A grid of 10,000 points: expanded, and planned as `exp plan` does.
fn plan(dir: &Path) {
    let spec = dir.join("spec.yaml");
    let rates: Vec<String> = (1..=1000).map(|n| format!("{n}e-6")).collect();
    let text = format!(
        "data: {{corpus_chars: 100000}}\ngrid: {{layers: [1, 2, 3, 4, 5], lr: [{}]}}\nseeds: 2\n",
        rates.join(", ")
    );
    fs::write(&spec, text).expect("a file");
    let expand = || {
        let begun = Instant::now();
        assert_eq!(spec::load(&spec, &[]).expect("a spec").points.len(), 10_000);
        begun.elapsed()
    };
    say(
        "a grid of 10,000 points expanded and checked",
        ms((0..TRIES).map(|_| expand()).min().expect("tries")),
        "100 ms",
    );
    let plan = || exp(dir, &["plan", spec.to_str().expect("a path")]);
    measure(plan()); // tokenizes the corpus
    say("exp plan of it", ms(fastest(plan).0), "300 ms");
}

/// 100 runs of 10,000 points: the report.
fn report(dir: &Path) {
    synthetic::write(&Root::new(dir), 100, 10_000, None);
    measure(exp(dir, &["store", "rebuild"]));
    rustix::fs::sync();
    let (time, memory) = fastest(|| exp(dir, &["report", synthetic::EXPERIMENT]));
    say("exp report of 100 runs of 10,000 steps", ms(time), "2000 ms");
    say("  memory for that", megabytes(memory), "");
}

/// One run of 10,000 and of 1,000,000 points, one of them far off: memory does not follow their number.
fn points(dir: &Path) {
    for (steps, what) in [(10_000, "10,000"), (1_000_000, "1,000,000")] {
        let dir = dir.join(what);
        fs::create_dir(&dir).expect("a folder");
        synthetic::write(&Root::new(&dir), 1, steps, Some(steps / 2 + 1));
        let (time, memory) = measure(exp(&dir, &["store", "rebuild"]));
        say(&format!("a run of {what} steps into the index"), ms(time), "");
        say("  memory for that", megabytes(memory), "flat");
        for command in [&["ls"][..], &["report", synthetic::EXPERIMENT]] {
            let (time, memory) = fastest(|| exp(&dir, command));
            say(&format!("exp {} of it", command[0]), ms(time), "");
            say("  memory for that", megabytes(memory), "flat");
        }
    }
}

/// What it costs a worker to log a value, and the scheduler to take it in.
fn log(dir: &Path) {
    let root = Root::new(dir);
    synthetic::write(&root, 1, 1, None);
    let frozen = synthetic::frozen(0, 1);
    let folder = root.run(&frozen.id);
    let mut store = Store::open(&root).expect("an index");
    store.sync().expect("the index");
    fs::create_dir(folder.attempt(2)).expect("a folder");
    let nobody = &mut |_: &Event| ();
    let mut events = EventLog::create(folder.events(2), Fence::default(), nobody).expect("events");
    let steps = 100_000;
    let begun = Instant::now();
    for step in 1..=steps {
        let values =
            Step { step, loss: 1.0 / step as f64, lr: 1e-3, grad_norm: 0.731, step_ms: 9.87, ..Step::default() };
        events.emit(&Event::Step(values), false).expect("a line");
    }
    let each = begun.elapsed().as_secs_f64() / (steps * synthetic::METRICS) as f64;
    say("a value logged by a worker", format!("{:.2} µs", each * 1e6), "5 µs");
    let begun = Instant::now();
    store.ingest(&frozen.id).expect("the index");
    say("values that a scheduler takes in, a second", rate(steps * synthetic::METRICS, begun.elapsed()), "100 k");
}

/// From the start of a worker's process to its first step, of a tiny model on a cached corpus.
fn spawn(dir: &Path) {
    let spec = dir.join("spec.yaml");
    let text = "model: {layers: 1, heads: 1, d_model: 16, context: 16}\ndata: {corpus_chars: 100000}\n\
                train: {steps: 1, batch: 1}\neval: {every: 1000, batches: 1, batch: 1}\nseeds: 6\n";
    fs::write(&spec, text).expect("a file");
    let root = Root::new(dir);
    let once = |seed: usize| {
        let mut store = Store::open(&root).expect("an index");
        let plan = exp::sched::plan(&spec::load(&spec, &[]).expect("a spec"), &root, None).expect("a plan");
        let run = &plan.runs[seed].frozen;
        let expansion = exp::event::Expansion { at: 1, axes: vec![], members: vec![run.id], spec: String::new() };
        store.register("spawn", &expansion, std::slice::from_ref(run)).expect("a folder");
        let mut worker = exp(dir, &["worker", "--attempt", "1", "--device", "cpu", "--threads", "1"]);
        worker.arg("--run").arg(root.run(&run.id).path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (name, value) = Provenance::handed_down(); // as the scheduler does
        worker.env(name, value);
        let begun = Instant::now();
        let mut child = worker.spawn().expect("a worker");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let first =
            lines.map_while(Result::ok).find(|line| line.contains(r#""event":"step""#)).map(|_| begun.elapsed());
        child.wait().expect("its end");
        first.expect("a step")
    };
    let fastest = (0..6).map(once).skip(1).min().expect("tries"); // the first measures the machine's peak
    say("from the start of a worker to its first step", ms(fastest), "50 ms");
}

/// The same values logged with other trackers.
fn others(dir: &Path) {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/trackers/bin/python"));
    let python = std::env::var_os("EXP_TRACKERS_PYTHON").map_or(installed, PathBuf::from);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/scale/others.py");
    for tracker in ["mlflow", "aim", "trackio"] {
        let folder = dir.join(tracker);
        fs::create_dir(&folder).expect("a folder");
        let logged = Command::new(&python).args([script, tracker, "2000"]).arg(&folder).stderr(Stdio::null()).output();
        let text = logged.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let measured = text.lines().find_map(|line| line.strip_prefix("microseconds "));
        match measured.and_then(|value| value.trim().parse::<f64>().ok()) {
            Some(each) => say(&format!("a value logged with {tracker}"), format!("{each:.1} µs"), ""),
            None => say(&format!("a value logged with {tracker}"), "not there".into(), ""),
        }
    }
}
