//! A root with specs, `exp` as a process, and its workers.

use std::{
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::lab::{self, Curves};
use exp::{
    base::{
        RunId,
        files::Lock,
        folders::{Root, RunFolder},
    },
    event::Event,
    sched::Plan,
    store::{RunRow, Store},
};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// Two runs of a few seconds.
pub const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 1500, batch: 16}
eval: {every: 500, batches: 2, batch: 4}
checkpoint: {every: 50}
run: {device: cpu}
seeds: 2
";

/// A root, and specs to run under it.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub root: Root,
}

impl Lab {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        Self { folder, root }
    }

    /// `exp` with that spec as `tiny.yaml`, and those arguments.
    pub fn exp(&self, spec: &str, args: &[&str]) -> Command {
        std::fs::write(self.folder.path().join("tiny.yaml"), spec).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(args).current_dir(self.folder.path()).env_remove("EXP_ROOT").stdin(Stdio::null());
        command
    }

    /// `exp run` with those arguments beside the spec.
    pub fn start(&self, spec: &str, args: &[&str]) -> Scheduler {
        let mut command = self.exp(spec, &[&["run", "tiny.yaml", "--no-report"], args].concat());
        Scheduler(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    pub fn run(&self, spec: &str, args: &[&str]) -> Ended {
        self.start(spec, args).ended()
    }

    /// Another command of `exp`, with the spec that stands there.
    pub fn also(&self, args: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        Ended::of(command.args(args).current_dir(self.folder.path()).env_remove("EXP_ROOT").output().unwrap())
    }

    /// A spec planned and registered, as `exp run` does before it starts anything.
    pub fn plan(&self, spec: &str) -> (Store, Plan) {
        lab::plan(&self.root, &self.folder.path().join("tiny.yaml"), spec)
    }

    pub fn store(&self) -> Store {
        lab::store(&self.root)
    }

    /// The runs in the order of the grid.
    pub fn rows(&self) -> Vec<RunRow> {
        self.store().runs(Some("tiny")).unwrap()
    }

    /// Each run's state with its reason.
    pub fn states(&self) -> Vec<String> {
        let state = |row: RunRow| match row.state.why() {
            Some(why) => format!("{}: {why}", row.state.word()),
            None => row.state.word().to_owned(),
        };
        self.rows().into_iter().map(state).collect()
    }

    pub fn curves(&self) -> Curves {
        lab::curves(&self.store())
    }

    /// The first worker that has logged so many steps: its run and its process.
    pub fn worker_at(&self, steps: usize) -> (RunId, Pid) {
        until("a worker gets there", || {
            let runs = if self.root.database().exists() { self.store().runs(None).unwrap() } else { Vec::new() };
            runs.iter().find_map(|row| Some((row.id, worker(&self.root.run(&row.id), steps)?)))
        })
    }
}

fn worker(folder: &RunFolder, steps: usize) -> Option<Pid> {
    let attempt = *folder.attempts().ok()?.last()?;
    if !Lock::is_held(&folder.lock()).unwrap() {
        return None;
    }
    let text = std::fs::read_to_string(folder.events(attempt)).ok()?;
    let Ok(Event::Started(started)) = serde_json::from_str(text.lines().next()?) else { return None };
    let logged = text.lines().filter(|line| line.contains("\"event\":\"step\"")).count();
    (logged >= steps).then(|| Pid::from_raw(started.pid as i32))?
}

/// How long after `begun` a process group was gone, zombies and all; it is ended where that takes too long.
pub fn gone_after(begun: Instant, group: Pid) -> Duration {
    while test_kill_process_group(group).is_ok() {
        if begun.elapsed() > Duration::from_secs(60) {
            kill_process_group(group, Signal::KILL).unwrap();
            panic!("the group {group:?} is still there");
        }
        sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

/// A running `exp run`; ends with the test.
pub struct Scheduler(pub Option<Child>);

impl Scheduler {
    pub fn ended(mut self) -> Ended {
        Ended::of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a process left.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None if start.elapsed() > Duration::from_secs(120) => panic!("waited too long until {what}"),
            None => sleep(Duration::from_millis(5)),
        }
    }
}
