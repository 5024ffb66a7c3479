//! Leases and locks in real processes: schedulers that are killed, workers that are stopped, machines that are not seen,
//! terminals that go away. No core is given twice, no run is trained by two, and nobody else's process is touched.

mod lab;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::Sender,
    thread::{self, sleep},
    time::{Duration, Instant, SystemTime},
};

use exp::{
    base::{
        Exit, Result, RunId,
        folders::{Root, RunFolder},
        lease::Lease,
        machine::Identity,
    },
    event::{Event, Observer, Progress, RunState, Started},
    exec::{
        Executor, Handle, Job, Message, Slot,
        device::{self, ThisMachine},
    },
    sched::{self, Options, Outside, Plan},
    store::Store,
};
use rustix::process::{Pid, Signal, kill_process};

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 300, batch: 16}
eval: {every: 100, batches: 2, batch: 4}
checkpoint: {every: 30}
run: {device: cpu}
";

/// A program that ends with the test.
struct Ends(Child);

impl Ends {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn exit(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Lab {
    folder: tempfile::TempDir,
    root: Root,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        Self { folder, root }
    }

    fn exp(&self, name: &str, spec: &str, lease: &str) -> Command {
        let path = self.folder.path().join(format!("{name}.yaml"));
        fs::write(&path, spec).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.arg("run").arg(path).arg("--no-report").arg("--root").arg(self.folder.path());
        command.env("EXP_LEASE", lease).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(&self, name: &str, spec: &str, lease: &str) -> Ends {
        Ends(self.exp(name, spec, lease).spawn().unwrap())
    }

    /// A spec planned and registered, as `exp run` does before it starts anything.
    fn plan(&self, spec: &str) -> (Store, Plan) {
        lab::plan(&self.root, &self.folder.path().join("planned.yaml"), spec)
    }

    /// A worker for the first attempt at a run, without a scheduler or a slot; this process is its parent.
    fn worker(&self, folder: &RunFolder, lease: &str) -> Ends {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.arg("worker").arg("--root").arg(self.folder.path()).arg("--run").arg(folder.path());
        command.args(["--attempt", "1", "--device", "cpu", "--threads", "1"]).process_group(0);
        command.env("EXP_LEASE", lease).env("RAYON_NUM_THREADS", "1");
        Ends(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn store(&self) -> Store {
        lab::store(&self.root)
    }

    fn states(&self) -> Vec<RunState> {
        self.store().runs(None).unwrap().into_iter().map(|row| row.state).collect()
    }

    /// The losses of all runs, to the bit.
    fn losses(&self) -> BTreeMap<RunId, Vec<(u64, u64)>> {
        let store = self.store();
        let losses = |id: &RunId| {
            let metrics = store.metrics(id).unwrap();
            let curve = metrics["train/loss"].iter().chain(&metrics["val/loss"]);
            curve.map(|(step, loss)| (*step, loss.to_bits())).collect()
        };
        store.runs(None).unwrap().iter().map(|row| (row.id, losses(&row.id))).collect()
    }

    /// The folders of runs, and others.
    fn folders(&self) -> Vec<RunFolder> {
        let entries = fs::read_dir(self.root.runs()).into_iter().flatten().flatten();
        entries.map(|entry| RunFolder::new(entry.path())).collect()
    }

    /// The threads of the workers of this root that are alive, by process id.
    fn threads(&self) -> BTreeMap<i32, usize> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let threads = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words: Vec<String> = line.split(|&b| b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
            let ours = words.get(1)? == "worker" && Path::new(words.get(3)?) == self.folder.path();
            let at = words.iter().position(|word| word == "--threads").filter(|_| ours)?;
            words.get(at + 1)?.parse().ok()
        };
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| Some((pid, threads(pid)?))).collect()
    }
}

fn steps(folder: &RunFolder, attempt: u32) -> usize {
    let text = fs::read_to_string(folder.events(attempt)).unwrap_or_default();
    text.lines().filter(|line| line.contains("\"event\":\"step\"")).count()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None if start.elapsed() > Duration::from_secs(120) => panic!("waited too long until {what}"),
            None => sleep(Duration::from_millis(2)),
        }
    }
}

/// Somewhere below `most`, another number each time.
fn some(most: u32) -> u32 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_micros() % most
}

/// All files below a folder and what stands in them.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => files.extend(tree(&path)),
            path => drop(files.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    files
}

fn straight(spec: &str) -> BTreeMap<RunId, Vec<(u64, u64)>> {
    let lab = Lab::new();
    assert_eq!(lab.start("straight", spec, "30").exit(), Some(0));
    lab.losses()
}

#[test]
fn a_killed_scheduler_leaves_no_core_to_two() {
    let spec = format!("{}\nseeds: 3\n", SPEC.replace("steps: 300", "steps: 1000"));
    let lab = Lab::new();
    let mut first = lab.start("tiny", &spec, "30");
    until("workers train", || (!lab.threads().is_empty()).then_some(()));
    sleep(Duration::from_millis(300));
    let orphans = lab.threads();
    first.signal(Signal::KILL);
    first.exit();
    let killed = Instant::now();
    let mut second = lab.start("tiny", &spec, "30");
    let mut most = 0;
    while second.is_running() {
        let threads = lab.threads();
        most = most.max(threads.values().sum());
        assert!(most <= device::cores(), "{threads:?}, of which {orphans:?} were left behind");
        let left = orphans.keys().any(|pid| threads.contains_key(pid));
        assert!(!left || killed.elapsed() < Duration::from_secs(5), "a worker without a scheduler stays");
        sleep(Duration::from_millis(1));
    }
    assert!(most > 0);
    assert_eq!(second.exit(), Some(0));
    assert_eq!(lab.states(), [RunState::Done, RunState::Done, RunState::Done]);
    assert_eq!(lab.losses(), straight(&spec));
}

#[test]
fn a_process_that_only_has_the_number_of_a_worker_is_left_alone() {
    let mut sleep = Command::new("sleep");
    let mut sleeper = Ends(sleep.arg("600").stdout(Stdio::null()).process_group(0).spawn().unwrap());
    let me = Identity { pid: sleeper.0.id(), ..Identity::me() };
    let others = [
        Identity { host: "elsewhere".into(), ..me.clone() },
        Identity { boot: "another".into(), ..me.clone() },
        Identity { started: 1, ..me },
    ];
    for identity in others {
        let lab = Lab::new();
        let id = lab.plan(SPEC).1.runs[0].frozen.id;
        let folder = lab.root.run(&id);
        let lease = Lease { identity: identity.clone(), ..Lease::new(1) };
        fs::write(folder.lock(), serde_json::to_string(&lease).unwrap()).unwrap();
        fs::create_dir(folder.attempt(1)).unwrap();
        let started = Started {
            attempt: 1,
            pid: identity.pid,
            host: identity.host.clone(),
            boot: identity.boot.clone(),
            process_started: identity.started,
            ..Started::default()
        };
        assert_eq!(started.identity(), identity);
        fs::write(folder.events(1), serde_json::to_string(&Event::Started(started)).unwrap() + "\n").unwrap();
        assert_eq!(lab.start("tiny", SPEC, "1").exit(), Some(0), "{identity:?}");
        assert_eq!(lab.states(), [RunState::Done]);
        assert!(sleeper.is_running(), "{identity:?}");
    }
}

#[test]
fn a_run_of_another_machine_is_taken_over_once_its_lease_is_not_renewed() {
    let lab = Lab::new();
    let id = lab.plan(SPEC).1.runs[0].frozen.id;
    let folder = lab.root.run(&id);
    let lease = Lease::new(1);
    let lease = Lease { identity: Identity { host: "elsewhere".into(), ..lease.identity.clone() }, ..lease };
    fs::write(folder.lock(), serde_json::to_string(&lease).unwrap()).unwrap();
    let file = File::options().write(true).open(folder.lock()).unwrap();
    let mut scheduler = lab.start("tiny", SPEC, "1");
    let begun = Instant::now();
    // Its clock is an hour behind.
    let hour = Duration::from_secs(3600);
    while begun.elapsed() < Duration::from_secs(3) {
        file.set_modified(SystemTime::now() - hour).unwrap();
        sleep(Duration::from_millis(200));
        assert!(
            folder.attempts().unwrap().is_empty() && scheduler.is_running(),
            "it was started after {:?}",
            begun.elapsed()
        );
    }
    assert_eq!(scheduler.exit(), Some(0));
    assert!(begun.elapsed() > Duration::from_secs(4), "the lease had not ended");
    assert_eq!((lab.states(), folder.attempts().unwrap()), (vec![RunState::Done], vec![1]));
}

#[test]
fn a_run_that_another_machine_trains_is_shown_as_running_while_its_lease_is_renewed() {
    let lab = Lab::new();
    let id = lab.plan(SPEC).1.runs[0].frozen.id;
    let folder = lab.root.run(&id);
    let identity = Identity { host: "vega".into(), boot: "its own".into(), pid: 17, started: 99 };
    let lease = Lease { identity, ..Lease::new(1) };
    fs::write(folder.lock(), serde_json::to_string(&lease).unwrap()).unwrap();
    fs::create_dir(folder.attempt(1)).unwrap();
    let started = Started { attempt: 1, pid: 17, host: "vega".into(), device: "cuda:3".into(), ..Started::default() };
    fs::write(folder.events(1), serde_json::to_string(&Event::Started(started)).unwrap() + "\n").unwrap();
    let ask = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        let output = command.args(words).arg("--root").arg(lab.folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let id = id.to_string();
    assert!(ask(&["ls", "--json"]).contains("\"state\": \"running\""), "{}", ask(&["ls"]));
    let shown = ask(&["show", &id]);
    assert!(shown.contains("running on cuda:3") && shown.contains("vega"), "{shown}");
    assert!(!shown.contains("killed"), "its attempt runs as well: {shown}");
    let planned = lab.folder.path().join("planned.yaml");
    assert!(ask(&["plan", planned.to_str().unwrap()]).contains("running elsewhere"));
    let mut run = lab.exp("planned", SPEC, "30");
    let mut waiting = Ends(run.stderr(Stdio::piped()).spawn().unwrap());
    let said = BufReader::new(waiting.0.stderr.take().unwrap()).lines().map_while(Result::ok).next();
    assert!(said.as_ref().is_some_and(|said| said.contains("1 trained by another process")), "{said:?}");
    drop(waiting);

    let file = File::options().write(true).open(folder.lock()).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    assert!(ask(&["ls", "--json"]).contains("\"state\": \"interrupted\""), "{}", ask(&["ls"]));
    let shown = ask(&["show", &id]);
    assert!(shown.contains("interrupted at step 0"), "{shown}");
}

/// Stops a worker at some moment, has its run taken over, and lets it go on: it has to leave without another word.
fn stopped_and_taken_over(round: u32) {
    let saving = round.is_multiple_of(2);
    let spec = if saving { SPEC.replace("every: 30", "every: 1") } else { SPEC.to_owned() };
    let lab = Lab::new();
    let id = lab.plan(&spec).1.runs[0].frozen.id;
    let folder = lab.root.run(&id);
    let mut worker = lab.worker(&folder, "2");
    let step = 1 + some(150) as usize;
    until("it trains", || (steps(&folder, 1) >= step).then_some(()));
    let aside = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".aside-step").then_some(());
    if saving {
        until("it saves", || fs::read_dir(folder.checkpoints()).ok()?.flatten().find_map(aside));
    }
    worker.signal(Signal::STOP);
    let mut scheduler = lab.start("planned", &spec, "2");
    assert_eq!(scheduler.exit(), Some(0), "round {round}");
    let left = || (tree(&folder.attempt(1)), tree(&folder.checkpoints()));
    let before = left();
    worker.signal(Signal::CONT);
    let resumed = Instant::now();
    assert_eq!(worker.exit(), Some(Exit::LeaseLost as i32), "round {round}, stopped at step {step}");
    assert!(resumed.elapsed() < Duration::from_secs(2), "{:?}", resumed.elapsed());
    let after = left();
    let differ: Vec<_> = before.1.keys().filter(|path| !after.1.contains_key(*path)).collect();
    assert!(before == after, "round {round}: it wrote into a run that was another's; gone: {differ:?}");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut worker.0.stderr.take().unwrap(), &mut said).unwrap();
    assert!(said.contains("another worker has taken it over"), "{said:?}");
    assert_eq!((lab.states(), folder.attempts().unwrap()), (vec![RunState::Done], vec![1, 2]));
    assert_eq!(lab.losses(), straight(&spec), "round {round}");
}

#[test]
fn a_worker_that_was_stopped_past_its_lease_finds_its_run_taken_and_writes_nothing() {
    for rounds in [0..5, 5..10] {
        thread::scope(|s| rounds.for_each(|round| drop(s.spawn(move || stopped_and_taken_over(round)))));
    }
}

#[test]
fn a_worker_that_does_not_stir_is_ended_by_its_scheduler_and_its_run_goes_on() {
    let lab = Lab::new();
    let spec = SPEC.replace("steps: 300", "steps: 1000");
    let mut scheduler = lab.start("tiny", &spec, "1");
    let pid = until("it trains", || lab.threads().into_keys().next());
    let folder = until("it gets on", || lab.folders().into_iter().find(|folder| steps(folder, 1) > 0));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    assert_eq!(scheduler.exit(), Some(0));
    assert_eq!((lab.states(), folder.attempts().unwrap()), (vec![RunState::Done], vec![1, 2]));
    assert_eq!(lab.losses(), straight(&spec));
}

#[test]
fn a_waiting_scheduler_that_is_stopped_keeps_nobody_waiting() {
    let lab = Lab::new();
    let endless = SPEC.replace("steps: 300", "steps: 1000000");
    let mut first = lab.start("first", &endless, "30");
    until("the first trains", || (lab.threads().values().sum::<usize>() == device::cores()).then_some(()));
    let mut second = lab.start("second", &format!("{SPEC}\nseeds: [2]\n"), "30");
    let turns = || fs::read_dir(lab.root.slots(&exp::base::machine::host())).ok();
    let turn = |entry: fs::DirEntry| entry.path().extension().is_some_and(|e| e == "turn").then(|| entry.path());
    let turn = until("there is a turn", || turns()?.flatten().find_map(turn));
    until("the second has it", || exp::base::files::Lock::is_held(&turn).unwrap().then_some(()));
    sleep(Duration::from_millis(500));
    assert!(exp::base::files::Lock::is_held(&turn).unwrap(), "it keeps it while it waits");
    second.signal(Signal::STOP);
    let mut third = lab.start("third", &format!("{SPEC}\nseeds: [3]\n"), "30");
    first.signal(Signal::INT);
    assert_eq!(first.exit(), Some(130));
    assert_eq!(third.exit(), Some(0));
    second.signal(Signal::CONT);
    assert_eq!(second.exit(), Some(0));
}

#[test]
fn a_terminal_that_goes_away_stops_gently_however_often_it_says_so() {
    let lab = Lab::new();
    let mut scheduler = lab.start("tiny", &SPEC.replace("steps: 300", "steps: 1000000"), "30");
    until("it trains", || lab.folders().into_iter().find(|folder| steps(folder, 1) > 0));
    // A worker that is stopped cannot leave in between, so that all of them are heard.
    let worker = Pid::from_raw(lab.threads().into_keys().next().unwrap()).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    for _ in 0..3 {
        scheduler.signal(Signal::HUP);
        sleep(Duration::from_millis(250));
        assert!(scheduler.is_running() && !lab.threads().is_empty(), "it was not waited for");
    }
    kill_process(worker, Signal::CONT).unwrap();
    let status = scheduler.0.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    let states = lab.states();
    assert!(matches!(states[..], [RunState::Interrupted { step }] if step > 0), "{states:?}");
}

#[test]
fn who_was_told_to_outlive_the_terminal_does() {
    let lab = Lab::new();
    let exp = lab.exp("tiny", SPEC, "30");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(exp.get_program()).args(exp.get_args());
    let mut scheduler = Ends(shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("it trains", || (!lab.threads().is_empty()).then_some(()));
    scheduler.signal(Signal::HUP);
    assert_eq!(scheduler.exit(), Some(0));
}

/// Its workers never end.
struct Immortal;

impl Executor for Immortal {
    fn start(&self, _: &Job, _: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        struct Forever(#[allow(dead_code)] Sender<Message>);
        impl Handle for Forever {
            fn stop(&mut self) {}
            fn kill(&mut self) {}
        }
        let me = Pid::from_raw(std::process::id() as i32).unwrap();
        thread::spawn(move || {
            for _ in 0..3 {
                sleep(Duration::from_secs(1));
                kill_process(me, Signal::INT).unwrap();
            }
        });
        Ok(Box::new(Forever(sender.clone())))
    }
}

#[test]
fn a_third_signal_ends_the_scheduler_though_a_worker_does_not_end() {
    struct Deaf;
    impl Observer for Deaf {
        fn see(&mut self, _: &Progress) {}
    }
    let lab = Lab::new();
    let (mut store, plan) = lab.plan(SPEC);
    let summary = sched::dispatch_on(
        Outside { executor: &Immortal, devices: &ThisMachine },
        &plan.runs,
        &lab.root,
        &mut store,
        &Options::default(),
        &mut Deaf,
    )
    .unwrap();
    assert_eq!(summary.exit(), Exit::Interrupted);
}

#[test]
fn many_at_once_on_a_fresh_root_wait_for_each_other_and_for_a_rude_reader() {
    let lab = Lab::new();
    let tiny = SPEC.replace("steps: 300", "steps: 10");
    let runs: Vec<Child> = (0..8)
        .map(|n| {
            let mut run = lab.exp(&format!("s{n}"), &format!("{tiny}\nseeds: [{n}]\n"), "30");
            run.stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ls = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(["ls", "--json", "--root"]).arg(lab.folder.path()).output().unwrap()
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    let fine = |what: &str, output: &Output| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("locked"), "{what}: {stderr}");
    };
    thread::scope(|s| {
        let lists: Vec<_> = (0..2)
            .map(|_| {
                s.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        fine("ls", &ls());
                    }
                })
            })
            .collect();
        until("there is an index", || lab.root.database().exists().then_some(()));
        let rude = rusqlite::Connection::open(lab.root.database()).unwrap();
        rude.busy_timeout(Duration::from_secs(60)).unwrap();
        rude.execute_batch("BEGIN EXCLUSIVE").unwrap();
        sleep(Duration::from_secs(3));
        rude.execute_batch("COMMIT").unwrap();
        let outputs: Vec<Output> = runs.into_iter().map(|run| run.wait_with_output().unwrap()).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        lists.into_iter().for_each(|list| list.join().unwrap());
        outputs.iter().for_each(|output| fine("run", output));
    });
    assert_eq!(lab.states(), vec![RunState::Done; 8]);
}
