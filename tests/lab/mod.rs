//! What tests with real processes share: a root, the real `exp` run on it, and what came out, to the bit.

#![allow(dead_code)] // each test binary uses a part of it

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use exp::{
    base::{
        RunId,
        folders::{Root, RunFolder},
    },
    event::{Event, Expansion, Observer, Progress},
    exec::device::{DeviceInfo, Devices, kind},
    sched::{self, Plan},
    spec,
    store::{RunRow, Store},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// What runs compute: metric, then step and value by its bits.
pub type Curves = BTreeMap<RunId, BTreeMap<String, Vec<(u64, u64)>>>;

/// A root in a folder that its maker looks after.
pub struct Lab {
    pub path: PathBuf,
    pub root: Root,
    /// The `exp` that is run.
    pub program: PathBuf,
}

impl Lab {
    pub fn at(path: &Path) -> Self {
        Self { path: path.into(), root: Root::new(path), program: env!("CARGO_BIN_EXE_exp").into() }
    }

    pub fn exp(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--root").arg(&self.path).args(arguments).stdin(Stdio::null());
        command.env("EXP_CACHE", self.path.join("user"));
        command
    }

    /// Exit code, standard output and standard error of a command.
    pub fn answers(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.exp(arguments).output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (output.status.code(), out, err)
    }

    /// What a command that succeeds answers as JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.answers(&[arguments, &["--json"]].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    /// `exp run` of a spec.
    pub fn command(&self, spec: &str) -> Command {
        let path = self.path.join("spec.yaml");
        fs::write(&path, spec).unwrap();
        self.exp(&["run", path.to_str().unwrap(), "--no-report"])
    }

    pub fn run(&self, spec: &str) -> (Option<i32>, String) {
        answer(self.command(spec).output().unwrap())
    }

    pub fn start(&self, spec: &str) -> Started {
        Started(self.command(spec).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn rows(&self) -> Vec<RunRow> {
        self.store().runs(None).unwrap()
    }

    pub fn store(&self) -> Store {
        store(&self.root)
    }

    pub fn curves(&self) -> Curves {
        curves(&self.store())
    }

    /// The folders of runs that have been begun.
    pub fn folders(&self) -> Vec<RunFolder> {
        let entries = fs::read_dir(self.root.runs()).into_iter().flatten().flatten();
        let all = entries.map(|entry| RunFolder::new(entry.path()));
        all.filter(|folder| !folder.attempts().unwrap_or_default().is_empty()).collect()
    }

    /// The folder of the one run.
    pub fn folder(&self) -> RunFolder {
        self.folders().into_iter().next().unwrap()
    }
}

/// The index of a root, up to date.
pub fn store(root: &Root) -> Store {
    let mut store = Store::open(root).unwrap();
    store.sync().unwrap();
    store
}

/// What all runs of an index computed; how fast they did is left out.
pub fn curves(store: &Store) -> Curves {
    let timed = ["tokens_per_second", "step_ms", "data_ms", "eval_ms", "mfu", "memory_bytes"];
    let curves = |run: &RunRow| {
        let all = store.metrics(&run.id).unwrap().into_iter();
        let bits = |curve: Vec<(u64, f64)>| curve.into_iter().map(|(step, x)| (step, x.to_bits())).collect();
        all.filter(|(name, _)| !timed.contains(&name.as_str())).map(|(name, curve)| (name, bits(curve))).collect()
    };
    store.runs(None).unwrap().iter().map(|run| (run.id, curves(run))).collect()
}

/// A spec planned and registered, as `exp run` does before it starts anything.
pub fn plan(root: &Root, path: &Path, spec: &str) -> (Store, Plan) {
    fs::write(path, spec).unwrap();
    let mut store = store(root);
    let plan = sched::plan(&spec::load(path, &[]).unwrap(), root, Some(&store)).unwrap();
    let frozen: Vec<_> = plan.runs.iter().map(|run| run.frozen.clone()).collect();
    let members = frozen.iter().map(|run| run.id).collect();
    let expansion = Expansion { at: 1, axes: plan.axes.clone(), members, spec: plan.spec.clone() };
    store.register(&plan.experiment, &expansion, &frozen).unwrap();
    (store, plan)
}

/// What a process said on standard error, and its exit code.
pub fn answer(output: Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The whole events of an attempt so far.
pub fn events(folder: &RunFolder, attempt: u32) -> Vec<Event> {
    let text = fs::read_to_string(folder.events(attempt)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The steps that an attempt has logged so far.
pub fn steps(folder: &RunFolder, attempt: u32) -> usize {
    events(folder, attempt).iter().filter(|event| matches!(event, Event::Step(_))).count()
}

/// The process that makes an attempt, once it has said so.
pub fn worker(folder: &RunFolder, attempt: u32) -> Option<Pid> {
    events(folder, attempt).iter().find_map(|event| match event {
        Event::Started(started) => Pid::from_raw(started.pid as i32),
        _ => None,
    })
}

/// A process that ends with the test.
pub struct Started(pub Child);

impl Started {
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn exit(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None if start.elapsed() > Duration::from_secs(60) => panic!("waited too long until {what}"),
            None => sleep(Duration::from_micros(200)),
        }
    }
}

/// A copy of all that lies in a folder.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// That two roots hold the same curves; says which value differs first.
pub fn assert_same(got: &Curves, want: &Curves, story: &str) {
    assert_eq!(got.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>(), "{story}");
    for (run, metrics) in want {
        for (name, curve) in metrics {
            let ours = got[run].get(name).unwrap_or_else(|| panic!("{story}: {run:?} has no {name}"));
            let differs = ours.iter().zip(curve).find(|(a, b)| a != b);
            assert!(
                differs.is_none() && ours.len() == curve.len(),
                "{story}: {name} of {run:?} has {} values of {}, and differs at {differs:?}",
                ours.len(),
                curve.len()
            );
        }
    }
}

/// Devices that a test makes up. They change no more.
pub struct Fixed(pub Vec<DeviceInfo>);

impl Devices for Fixed {
    fn list(&self) -> Vec<DeviceInfo> {
        self.0.clone()
    }
}

/// A machine with a CPU and those GPUs, each with that much memory, all of which is free.
pub fn machine(gpus: &[&str], memory: Option<u64>) -> Vec<DeviceInfo> {
    std::iter::once("cpu").chain(gpus.iter().copied()).map(|name| device(name, memory)).collect()
}

/// A device of that name, all of whose memory is free; of a CPU, with four cores.
fn device(name: &str, memory: Option<u64>) -> DeviceInfo {
    let cores = (kind(name) == "cpu").then_some(4);
    let (id, name, model) = (format!("id of {name}"), name.to_owned(), "a test's".to_owned());
    DeviceInfo { name, id, model, cores, memory_total: memory, memory_free: memory }
}

/// What the scheduler told a person.
#[derive(Default)]
pub struct Said(pub Vec<String>);

impl Observer for Said {
    fn see(&mut self, progress: &Progress) {
        if let Progress::Message(message) = progress {
            self.0.push(message.clone());
        }
    }
}
