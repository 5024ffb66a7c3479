//! Sweeps in real processes: whatever is interrupted or killed, and whenever, what comes out in the end is what a
//! straight run gives, to the bit.

mod lab;

use std::{
    cell::Cell,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{OnceLock, mpsc::Sender},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use exp::{
    base::{
        Exit, Result, RunId,
        files::Lock,
        folders::{Root, RunFolder},
    },
    event::{Event, Observer, Outcome, Progress, RunState},
    exec::{
        Ended, Executor, Handle, Inline, Job, Message, Slot,
        device::{self, ThisMachine},
    },
    sched::{self, Options, Outside, Plan, Summary},
    store::{RunRow, Store},
};
use lab::Curves;
use rustix::process::{Pid, Signal, kill_process};

/// Two runs of a second or so.
const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 500, batch: 16}
eval: {every: 100, batches: 2, batch: 4}
checkpoint: {every: 30}
run: {device: cpu}
seeds: 2
";

/// A root, and specs to run under it.
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

    /// `exp run` of a spec.
    fn exp(&self, name: &str, spec: &str) -> Command {
        let path = self.folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, spec).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.arg("run").arg(path).arg("--no-report").arg("--root").arg(self.folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(&self, spec: &str) -> Scheduler {
        Scheduler(self.exp("tiny", spec).spawn().unwrap())
    }

    fn run(&self, spec: &str) -> Option<i32> {
        self.start(spec).exit()
    }

    /// A spec planned and registered, as `exp run` does before it starts anything.
    fn plan(&self, spec: &str) -> (Store, Plan) {
        lab::plan(&self.root, &self.folder.path().join("planned.yaml"), spec)
    }

    /// Plans a spec and runs it in this process; returns what became of it, and all that was said.
    fn dispatch(&self, executor: &dyn Executor, spec: &str) -> (Summary, Vec<String>) {
        let (mut store, plan) = self.plan(spec);
        let (mut said, options) = (Said::default(), Options::default());
        let summary = sched::dispatch_on(
            Outside { executor, devices: &ThisMachine },
            &plan.runs,
            &self.root,
            &mut store,
            &options,
            &mut said,
        )
        .unwrap();
        (summary, said.0)
    }

    fn store(&self) -> Store {
        lab::store(&self.root)
    }

    fn rows(&self) -> Vec<RunRow> {
        self.store().runs(None).unwrap()
    }

    fn curves(&self) -> Curves {
        lab::curves(&self.store())
    }

    /// The workers that train now, by their process ids, and how many steps they have logged.
    fn workers(&self) -> Vec<(Pid, usize)> {
        let folders = std::fs::read_dir(self.root.runs()).into_iter().flatten().flatten();
        folders.filter_map(|entry| worker(&RunFolder::new(entry.path()))).collect()
    }

    /// The first worker that has logged so many steps.
    fn worker_at(&self, steps: usize) -> Pid {
        until("a worker gets there", || self.workers().into_iter().find(|worker| worker.1 >= steps)).0
    }

    fn locks(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.root.runs()).into_iter().flatten().flatten();
        folders.map(|entry| entry.path().join("lock")).filter(|lock| lock.exists()).collect()
    }
}

fn worker(folder: &RunFolder) -> Option<(Pid, usize)> {
    let attempt = *folder.attempts().ok()?.last()?;
    if !Lock::is_held(&folder.lock()).unwrap() {
        return None;
    }
    let text = std::fs::read_to_string(folder.events(attempt)).ok()?;
    let Ok(Event::Started(started)) = serde_json::from_str(text.lines().next()?) else { return None };
    let steps = text.lines().filter(|line| line.contains("\"event\":\"step\"")).count();
    Some((Pid::from_raw(started.pid as i32)?, steps))
}

/// One run of [`SPEC`] that takes no time.
fn short() -> String {
    SPEC.replace("steps: 500", "steps: 20").replace("seeds: 2", "")
}

/// The messages of a sweep.
#[derive(Default)]
struct Said(Vec<String>);

impl Observer for Said {
    fn see(&mut self, progress: &Progress) {
        if let Progress::Message(message) = progress {
            self.0.push(message.clone());
        }
    }
}

/// Its first workers die before they have done anything; later ones are threads of this process.
struct Sickly(Cell<u32>);

impl Executor for Sickly {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        struct Dead;
        impl Handle for Dead {
            fn stop(&mut self) {}
            fn kill(&mut self) {}
        }
        match self.0.get() {
            0 => Inline.start(job, slot, sender),
            deaths => {
                self.0.set(deaths - 1);
                let ended = Ended::Died { why: "out of memory".into(), step: 0, retry: true };
                sender.send(Message::Ended { run: job.run, ended }).unwrap();
                Ok(Box::new(Dead))
            }
        }
    }
}

/// A running `exp run`; ends with the test.
struct Scheduler(Child);

impl Scheduler {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn exit(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

/// Somewhere in the first third of a run, another place each time.
fn some_step() -> usize {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    1 + nanos as usize / 1000 % 150
}

/// What [`SPEC`] gives when nothing happens to it.
fn straight() -> &'static Curves {
    static STRAIGHT: OnceLock<Curves> = OnceLock::new();
    STRAIGHT.get_or_init(|| {
        let lab = Lab::new();
        assert_eq!(lab.run(SPEC), Some(0));
        lab.curves()
    })
}

fn assert_straight(lab: &Lab, story: &str) {
    for (run, metrics) in lab.curves() {
        for (name, curve) in metrics {
            let whole = &straight()[&run][&name];
            let differs = curve.iter().zip(whole).find(|(a, b)| a != b);
            assert!(differs.is_none() && curve.len() == whole.len(), "{story}: {name} of {run:?} differs: {differs:?}");
        }
    }
    assert_eq!(lab.curves().len(), straight().len(), "{story}");
}

#[test]
fn a_sweep_is_done_once() {
    let lab = Lab::new();
    assert_eq!(lab.run(SPEC), Some(0));
    let rows = lab.rows();
    assert!(rows.iter().all(|row| row.state == RunState::Done && row.step == 500 && row.attempts == 1), "{rows:?}");
    assert_eq!(lab.run(SPEC), Some(0));
    assert!(lab.rows().iter().all(|row| row.attempts == 1), "nothing is left to do");
    for (run, metrics) in lab.curves() {
        let steps: Vec<u64> = metrics["train/loss"].iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, (1..=500).collect::<Vec<u64>>(), "one value per step of {run:?}");
        let evals: Vec<u64> = metrics["val/loss"].iter().map(|(step, _)| *step).collect();
        assert_eq!(evals, [0, 100, 200, 300, 400, 500]);
    }
    assert_straight(&lab, "twice the same");
}

#[test]
fn a_stopped_sweep_continues_exactly() {
    let lab = Lab::new();
    for signal in [Signal::INT, Signal::TERM] {
        let step = some_step();
        let scheduler = lab.start(SPEC);
        lab.worker_at(step);
        scheduler.signal(signal);
        assert_eq!(scheduler.exit(), Some(130), "stopped at step {step}");
        let states = lab.rows().into_iter().map(|row| row.state).collect::<Vec<_>>();
        assert!(states.iter().all(|state| !matches!(state, RunState::Running { .. })), "{states:?}");
        assert!(states.iter().any(|state| matches!(state, RunState::Interrupted { step } if *step > 0)), "{states:?}");
    }
    assert_eq!(lab.run(SPEC), Some(0));
    assert_straight(&lab, "stopped twice");
}

#[test]
fn a_second_signal_ends_at_once() {
    let lab = Lab::new();
    let endless = SPEC.replace("steps: 500", "steps: 1000000").replace("every: 30", "every: 1000000");
    let scheduler = lab.start(&endless);
    let worker = lab.worker_at(1);
    kill_process(worker, Signal::STOP).unwrap();
    scheduler.signal(Signal::INT);
    sleep(Duration::from_millis(300));
    scheduler.signal(Signal::INT);
    assert_eq!(scheduler.exit(), Some(130));
    assert!(lab.locks().iter().all(|lock| !Lock::is_held(lock).unwrap()), "no worker is left");
}

#[test]
fn a_killed_worker_is_started_again_and_nothing_is_lost() {
    let lab = Lab::new();
    let (scheduler, step) = (lab.start(SPEC), some_step());
    kill_process(lab.worker_at(step), Signal::KILL).unwrap();
    assert_eq!(scheduler.exit(), Some(0), "killed at step {step}");
    assert_eq!(lab.rows().iter().map(|row| row.attempts).sum::<u32>(), 3);
    assert_straight(&lab, &format!("killed at step {step}"));
}

#[test]
fn a_worker_that_is_killed_too_often_has_failed_and_the_others_go_on() {
    let lab = Lab::new();
    let spec = SPEC.replace("run: {", "run: {retries: 0, ");
    let scheduler = lab.start(&spec);
    kill_process(lab.worker_at(1), Signal::KILL).unwrap();
    assert_eq!(scheduler.exit(), Some(4));
    let mut states: Vec<RunState> = lab.rows().into_iter().map(|row| row.state).collect();
    states.sort_by_key(|state| state.word());
    assert_eq!(states, [RunState::Done, RunState::Failed { why: "killed by SIGKILL".into() }]);
    assert_eq!(lab.run(&spec), Some(0), "a failed run is tried again");
    assert_straight(&lab, "failed before");
}

#[test]
fn workers_of_a_killed_scheduler_write_a_checkpoint_and_leave() {
    let lab = Lab::new();
    let (scheduler, step) = (lab.start(SPEC), some_step());
    lab.worker_at(step);
    scheduler.signal(Signal::KILL);
    scheduler.exit();
    until("the workers leave", || lab.workers().is_empty().then_some(()));
    let states: Vec<RunState> = lab.rows().into_iter().map(|row| row.state).collect();
    assert!(states.iter().any(|state| matches!(state, RunState::Interrupted { step } if *step > 0)), "{states:?}");
    assert_eq!(lab.run(SPEC), Some(0));
    assert_straight(&lab, &format!("without a scheduler from step {step} on"));
}

#[test]
fn two_schedulers_of_one_spec_train_each_run_once() {
    let lab = Lab::new();
    let (a, b) = (lab.start(SPEC), lab.start(SPEC));
    assert_eq!((a.exit(), b.exit()), (Some(0), Some(0)));
    assert!(lab.rows().iter().all(|row| row.attempts == 1 && row.state == RunState::Done), "{:?}", lab.rows());
    assert_straight(&lab, "two at once");
}

#[test]
fn what_another_scheduler_leaves_unfinished_is_taken_over() {
    let lab = Lab::new();
    let a = lab.start(SPEC);
    lab.worker_at(1);
    let b = lab.start(SPEC);
    sleep(Duration::from_millis(200));
    a.signal(Signal::INT);
    assert_eq!((a.exit(), b.exit()), (Some(130), Some(0)));
    assert_straight(&lab, "taken over");
}

#[test]
fn sweeps_of_one_root_share_the_cores() {
    let lab = Lab::new();
    let spec = |seeds: &str| SPEC.replace("steps: 500", "steps: 200").replace("seeds: 2", seeds);
    let mut a = lab.exp("a", &spec("seeds: [1, 2, 3]")).spawn().unwrap();
    let mut b = lab.exp("b", &spec("seeds: [4, 5, 6]")).spawn().unwrap();
    assert!(a.wait().unwrap().success() && b.wait().unwrap().success());
    let store = lab.store();
    let attempts: Vec<_> = lab.rows().iter().flat_map(|row| store.attempts(&row.id).unwrap()).collect();
    assert_eq!(attempts.len(), 6);
    for at in attempts.iter().map(|attempt| attempt.started.at) {
        let busy = attempts.iter().filter(|a| a.started.at <= at && at < a.ended.unwrap());
        let threads: usize = busy.map(|attempt| attempt.started.threads).sum();
        assert!(threads <= device::cores(), "{threads} threads at once: {attempts:?}");
    }
}

#[test]
fn a_run_has_its_time_and_no_more() {
    let lab = Lab::new();
    let spec = SPEC.replace("steps: 500", "steps: 1000000").replace("run: {", "run: {timeout: 1.5, ");
    assert_eq!(lab.run(&spec.replace("seeds: 2", "")), Some(4));
    let rows = lab.rows();
    assert_eq!(rows[0].state, RunState::Failed { why: "timed out after 1.5 s".into() });
}

#[test]
fn a_run_that_diverges_has_failed_and_the_others_go_on() {
    let lab = Lab::new();
    let spec = SPEC.replace("steps: 500", "steps: 60").replace("seeds: 2", "grid: {lr: [1e-3, 1e30]}");
    assert_eq!(lab.run(&spec), Some(4));
    let mut words: Vec<&str> = lab.rows().iter().map(|row| row.state.word()).collect();
    words.sort_unstable();
    assert_eq!(words, ["done", "failed"]);
    assert!(lab.rows().iter().all(|row| row.attempts == 1), "it would diverge again");
}

#[test]
fn an_observer_sees_all_that_a_run_in_this_process_does() {
    #[derive(Default)]
    struct Seen {
        steps: Vec<u64>,
        others: Vec<String>,
    }
    impl Observer for Seen {
        fn see(&mut self, progress: &Progress) {
            match progress {
                Progress::Event { event: Event::Step(step), .. } => self.steps.push(step.step),
                Progress::Started { attempt, slot, .. } => self.others.push(format!("attempt {attempt} on {slot}")),
                Progress::Event { event: Event::Finished { outcome, .. }, .. } => {
                    self.others.push(format!("{outcome:?}"))
                }
                Progress::Ended { state, .. } => self.others.push(state.word().into()),
                _ => {}
            }
        }
    }
    let lab = Lab::new();
    let (mut store, plan) = lab.plan(&short());
    let id = plan.runs[0].frozen.id;
    let mut seen = Seen::default();
    let summary = sched::dispatch_on(
        Outside { executor: &Inline, devices: &ThisMachine },
        &plan.runs,
        &lab.root,
        &mut store,
        &Options::default(),
        &mut seen,
    )
    .unwrap();
    assert_eq!((summary.exit(), summary.done), (Exit::Done, vec![id]));
    assert_eq!(seen.steps, (1..=20).collect::<Vec<u64>>());
    assert_eq!(seen.others, ["attempt 1 on cpu", "Done", "done"]);
    assert_eq!(store.metrics(&id).unwrap()["train/loss"].len(), 20, "the index has it all by then");
}

/// Writes an attempt that ended so.
fn attempt(lab: &Lab, run: &RunId, attempt: u32, outcome: Outcome) {
    let events = lab.root.run(run).events(attempt);
    std::fs::create_dir_all(events.parent().unwrap()).unwrap();
    std::fs::write(
        events,
        serde_json::to_string(&Event::Finished { at: 1, outcome, peak_bytes: None }).unwrap() + "\n",
    )
    .unwrap();
}

#[test]
fn a_worker_that_died_before_it_began_is_started_again_though_the_run_failed_before() {
    let lab = Lab::new();
    let id = lab.plan(&short()).1.runs[0].frozen.id;
    attempt(&lab, &id, 1, Outcome::Failed { why: "the loss is NaN".into(), retry: false });
    let (summary, said) = lab.dispatch(&Sickly(Cell::new(1)), &short());
    assert_eq!(summary.done, [id], "{said:?}");
}

#[test]
fn the_number_of_an_attempt_that_was_given_up_is_spent() {
    let lab = Lab::new();
    let (summary, _) = lab.dispatch(&Sickly(Cell::new(2)), &short());
    assert_eq!(summary.failed.len(), 1);
    let folder = lab.root.run(&summary.failed[0]);
    assert_eq!(folder.attempts().unwrap(), [1]);
    assert_eq!(lab.rows()[0].state, RunState::Failed { why: "out of memory".into() });
    attempt(&lab, &summary.failed[0], folder.attempts().unwrap()[0] + 1, Outcome::Interrupted { step: 7 });
    assert_eq!(lab.rows()[0].state, RunState::Interrupted { step: 7 });
    assert_eq!(lab.dispatch(&Inline, &short()).0.done, summary.failed);
    assert_eq!(lab.rows()[0].attempts, 3);
}

#[test]
fn a_run_goes_on_where_its_text_was_moved_to() {
    let lab = Lab::new();
    let text = |name: &str| lab.folder.path().join(name);
    std::fs::write(text("old.txt"), "To be, or not to be: that is the question. ".repeat(50)).unwrap();
    let spec = |name: &str| {
        let data = format!("data: {{corpus: text, path: {}}}", text(name).display());
        short().replace("data: {corpus: playbook, corpus_chars: 20000}", &data)
    };
    let id = lab.plan(&spec("old.txt")).1.runs[0].frozen.id;
    attempt(&lab, &id, 1, Outcome::Interrupted { step: 0 });
    std::fs::rename(text("old.txt"), text("new.txt")).unwrap();
    let (summary, said) = lab.dispatch(&Inline, &spec("new.txt"));
    assert_eq!((summary.done, said), (vec![id], vec![]));
    let row = &lab.rows()[0];
    assert_eq!(row.config.data.path.as_deref(), text("new.txt").to_str());
    assert_eq!((row.attempts, &row.experiments[..]), (2, &["planned".to_owned()][..]));
}

#[test]
fn a_spec_decides_until_the_run_has_begun() {
    let lab = Lab::new();
    let every = |n: u32| short().replace("every: 30", &format!("every: {n}, keep_last: {n}"));
    let id = lab.plan(&every(7)).1.runs[0].frozen.id;
    assert_eq!(lab.dispatch(&Inline, &every(8)), (Summary { done: vec![id], ..Summary::default() }, vec![]));
    assert_eq!(lab.rows()[0].config.checkpoint.every, 8);
    attempt(&lab, &id, 2, Outcome::Interrupted { step: 20 });
    let kept =
        format!("run {} keeps the checkpoint.every = 8, checkpoint.keep_last = 8 that it began with", id.short());
    let spec = every(9).replace("run: {", "run: {timeout: 60, ");
    assert_eq!(lab.dispatch(&Inline, &spec), (Summary { done: vec![id], ..Summary::default() }, vec![kept]));
    assert_eq!(lab.rows()[0].config.checkpoint.every, 8);
}

#[test]
fn what_the_file_system_spoils_is_tried_again() {
    let lab = Lab::new();
    let id = lab.plan(&short()).1.runs[0].frozen.id;
    std::fs::create_dir(lab.root.run(&id).checkpoints()).unwrap();
    std::fs::create_dir(lab.root.run(&id).checkpoints().join("last")).unwrap(); // where a file is to be written
    let (summary, said) = lab.dispatch(&Inline, &short());
    assert_eq!(
        (summary.done, lab.root.run(&id).attempts().unwrap()),
        (vec![id], vec![1, 2]),
        "its last checkpoint was whole"
    );
    assert!(said.len() == 1 && said[0].contains("(try 1 of 1)"), "{said:?}");
}

#[test]
fn a_run_that_was_done_meanwhile_is_left_alone() {
    let lab = Lab::new();
    let (mut store, mut plan) = lab.plan(&short());
    let id = plan.runs[0].frozen.id;
    lab.dispatch(&Inline, &short());
    plan.runs[0].reason = sched::Reason::Interrupted { step: 7 };
    let (mut said, options) = (Said::default(), Options::default());
    let summary = sched::dispatch_on(
        Outside { executor: &Inline, devices: &ThisMachine },
        &plan.runs,
        &lab.root,
        &mut store,
        &options,
        &mut said,
    )
    .unwrap();
    assert_eq!((summary.done, lab.root.run(&id).attempts().unwrap()), (vec![id], vec![1]));
}
