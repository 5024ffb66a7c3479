//! Runs that share devices: as many as their memory holds, of all processes that use a root, and never more. Devices and
//! workers are the test's own, but for what a real worker says of its memory.

mod lab;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, mpsc::Sender},
    thread,
};

use exp::{
    base::{Result, RunId, folders::Root},
    event::{Event, Observer, Outcome, Progress},
    exec::{
        Ended, Executor, Handle, Inline, Job, Message, Slot,
        device::{DeviceInfo, Devices},
        slots,
    },
    sched::{self, Options, Outside, Plan, Summary},
    store::Store,
};
use lab::{Fixed, Lab, Said, events, machine};

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 5, batch: 2}
run: {device: cpu}
";

/// Bytes in a GB.
const GB: u64 = 1_000_000_000;

/// How many runs are on each device now, and how many there were at most, counted over all processes.
#[derive(Debug, Default)]
struct Counts {
    now: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
    most_in_all: usize,
}

impl Counts {
    fn add(&mut self, device: &str) {
        let now = self.now.entry(device.to_owned()).or_default();
        *now += 1;
        let most = self.most.entry(device.to_owned()).or_default();
        *most = (*most).max(*now);
        self.most_in_all = self.most_in_all.max(self.now.values().sum());
    }
}

/// Workers that are done when they are told to: the one that was started first at each tick, once all that has room has
/// long been started.
#[derive(Default)]
struct Workers {
    counts: Arc<Mutex<Counts>>,
    at_work: RefCell<Vec<(Job, String, Sender<Message>)>>,
    started: RefCell<Vec<String>>,
    /// What each says that it needed.
    peak: Option<u64>,
}

impl Executor for Workers {
    fn start(&self, job: &Job, slot: &Slot, sender: &Sender<Message>) -> Result<Box<dyn Handle>> {
        struct Told;
        impl Handle for Told {
            fn stop(&mut self) {}
            fn kill(&mut self) {}
        }
        self.counts.lock().unwrap().add(&slot.device);
        self.started.borrow_mut().push(slot.device.clone());
        self.at_work.borrow_mut().push((job.clone(), slot.device.clone(), sender.clone()));
        Ok(Box::new(Told))
    }
}

impl Workers {
    fn end_one(&self) {
        let mut at_work = self.at_work.borrow_mut();
        if at_work.is_empty() {
            return;
        }
        let (job, device, sender) = at_work.remove(0);
        *self.counts.lock().unwrap().now.get_mut(&device).unwrap() -= 1;
        let ended = Event::Finished { at: 1, outcome: Outcome::Done, peak_bytes: self.peak };
        let path = job.folder().events(job.attempt);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_string(&ended).unwrap() + "\n").unwrap();
        sender.send(Message::Ended { run: job.run, ended: Ended::Finished(Outcome::Done) }).unwrap();
    }
}

/// Ends workers as time passes, and keeps what was said.
struct Clock<'a> {
    workers: &'a Workers,
    ticks: usize,
    said: Said,
}

impl Observer for Clock<'_> {
    fn see(&mut self, progress: &Progress) {
        self.said.see(progress);
        if matches!(progress, Progress::Tick) {
            self.ticks += 1;
            if self.ticks > 3 {
                self.workers.end_one();
            }
        }
    }
}

/// Seeds that need so many bytes of a GPU, by their configs.
fn seeds(root: &Root, path: &Path, seeds: &str, bytes: u64) -> (Store, Plan) {
    let (store, mut plan) = lab::plan(root, path, &format!("{SPEC}seeds: {seeds}\n"));
    for run in &mut plan.runs {
        run.frozen.config.run.device = "cuda".into();
        run.cost.bytes = bytes - exp::exec::device::CONTEXT_BYTES;
    }
    (store, plan)
}

/// Sees to it that all runs of a plan are done on two GPUs of 10 GB, all of which is free.
fn dispatch(workers: &Workers, root: &Root, planned: (Store, Plan)) -> (Summary, Vec<String>) {
    dispatch_beside(0, workers, root, planned)
}

/// The same on GPUs of which another program has so much.
fn dispatch_beside(others: u64, workers: &Workers, root: &Root, planned: (Store, Plan)) -> (Summary, Vec<String>) {
    let mut devices = Fixed(machine(&["cuda:0", "cuda:1"], Some(10 * GB)));
    devices.0.iter_mut().for_each(|device| device.memory_free = Some(10 * GB - others));
    dispatch_on(&devices, workers, root, planned)
}

fn dispatch_on(
    devices: &dyn Devices,
    workers: &Workers,
    root: &Root,
    (mut store, plan): (Store, Plan),
) -> (Summary, Vec<String>) {
    let mut clock = Clock { workers, ticks: 0, said: Said::default() };
    let outside = Outside { executor: workers, devices };
    let summary = sched::dispatch_on(outside, &plan.runs, root, &mut store, &Options::default(), &mut clock).unwrap();
    (summary, clock.said.0)
}

/// Two GPUs of 10 GB, of which other programs hold so much; each run that is there has allocated so much.
struct Following<'a> {
    workers: &'a Workers,
    others: [u64; 2],
    allocated: u64,
}

impl Devices for Following<'_> {
    fn list(&self) -> Vec<DeviceInfo> {
        let now = &self.workers.counts.lock().unwrap().now;
        let mut devices = machine(&["cuda:0", "cuda:1"], Some(10 * GB));
        for (device, others) in devices[1..].iter_mut().zip(self.others) {
            let runs = now.get(&device.name).map_or(0, |&runs| runs as u64);
            device.memory_free = Some(10 * GB - others - runs * self.allocated);
        }
        devices
    }
}

fn most(workers: &Workers) -> Vec<usize> {
    workers.counts.lock().unwrap().most.values().copied().collect()
}

#[test]
fn two_runs_of_four_gigabytes_share_a_gpu_of_ten_and_a_third_waits() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let workers = Workers::default();
    let planned = seeds(&root, &dir.path().join("a.yaml"), "7", 4 * GB);
    let (summary, said) = dispatch(&workers, &root, planned);
    assert_eq!((summary.done.len(), said), (7, vec![]));
    assert_eq!(most(&workers), [2, 2], "{:?}", workers.started.borrow());
    assert_eq!(workers.started.borrow()[..4], ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]);
    assert!(slots::occupants(&root).unwrap().is_empty());
}

#[test]
fn what_another_program_has_of_a_gpu_is_left_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let workers = Workers::default();
    let planned = seeds(&root, &dir.path().join("a.yaml"), "5", 4 * GB);
    let (summary, said) = dispatch_beside(5 * GB, &workers, &root, planned);
    assert_eq!((summary.done.len(), said), (5, vec![]));
    assert_eq!(most(&workers), [1, 1], "{:?}", workers.started.borrow());
}

#[test]
fn what_another_program_has_is_left_to_it_before_and_after_runs_have_allocated_their_part() {
    for allocated in [0, 2 * GB] {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let workers = Workers::default();
        let planned = seeds(&root, &dir.path().join("a.yaml"), "8", 2 * GB);
        let devices = Following { workers: &workers, others: [4 * GB, 4 * GB], allocated };
        let (summary, said) = dispatch_on(&devices, &workers, &root, planned);
        assert_eq!((summary.done.len(), said), (8, vec![]));
        assert_eq!(most(&workers), [2, 2], "of 9.5 GB others have 4, and runs need 2 each");
    }
}

#[test]
fn a_gpu_that_another_program_fills_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let workers = Workers::default();
    let planned = seeds(&root, &dir.path().join("a.yaml"), "5", 4 * GB);
    let devices = Following { workers: &workers, others: [9 * GB, 0], allocated: 4 * GB };
    let (summary, _) = dispatch_on(&devices, &workers, &root, planned);
    assert_eq!(summary.done.len(), 5);
    assert_eq!(*workers.started.borrow(), ["cuda:1"; 5]);
}

#[test]
fn sweeps_of_two_processes_share_the_gpus() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    let counts = Arc::<Mutex<Counts>>::default();
    thread::scope(|scope| {
        for (name, list) in [("a", "[1, 2, 3, 4, 5, 6]"), ("b", "[11, 12, 13, 14, 15, 16]")] {
            let (root, counts) = (&root, Arc::clone(&counts));
            let path = dir.path().join(format!("{name}.yaml"));
            scope.spawn(move || {
                let workers = Workers { counts, ..Workers::default() };
                let planned = seeds(root, &path, list, 4 * GB);
                let (summary, said) = dispatch(&workers, root, planned);
                assert_eq!((summary.done.len(), said), (6, vec![]));
                assert_eq!(workers.started.borrow().len(), 6, "none was started by both");
            });
        }
    });
    let counts = counts.lock().unwrap();
    assert_eq!(counts.most.values().copied().collect::<Vec<_>>(), [2, 2], "{counts:?}");
    assert_eq!(counts.most_in_all, 4);
}

#[test]
fn what_the_first_run_needed_decides_how_many_there_are_after_it() {
    for (peak, at_once, words) in [(2, 4, "4 at a time go on cuda:0, not 2"), (6, 2, "1 at a time go on cuda:0, not 2")]
    {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let workers = Workers { peak: Some(peak * GB), ..Workers::default() };
        let planned = seeds(&root, &dir.path().join("a.yaml"), "20", 4 * GB);
        let (summary, said) = dispatch(&workers, &root, planned);
        assert_eq!((summary.done.len(), most(&workers)), (20, vec![at_once; 2]));
        assert!(said.len() == 1 && said[0].ends_with(words), "{said:?}");

        // A sweep of the same runs, of which these are done, knows from the start.
        let again = Workers::default();
        let planned = seeds(&root, &dir.path().join("a.yaml"), "30", 4 * GB);
        let (summary, said) = dispatch(&again, &root, planned);
        let want = if peak == 2 { 4 } else { 1 };
        assert_eq!((summary.done.len(), most(&again)), (30, vec![want; 2]), "{said:?}");
    }
}

#[test]
fn a_worker_tells_how_much_memory_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let ended = lab.run(SPEC);
    assert_eq!(ended.0, Some(0), "{ended:?}");
    let events = events(&lab.folder(), 1);
    let resident = events.iter().find_map(|event| match event {
        Event::Step(step) => Some(step.memory_bytes),
        _ => None,
    });
    let Some(Event::Finished { peak_bytes, .. }) = events.last() else { panic!("{events:?}") };
    let peak = peak_bytes.unwrap();
    assert!(peak >= resident.unwrap() / 2 && peak < GB, "{peak} bytes, of which {resident:?} after the first step");
}

#[test]
fn a_worker_that_shares_its_process_does_not_tell_whose_memory_that_was() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let (mut store, plan) = lab::plan(&lab.root, &dir.path().join("a.yaml"), SPEC);
    let devices = Fixed(machine(&[], None));
    let outside = Outside { executor: &Inline, devices: &devices };
    let options = Options::default();
    sched::dispatch_on(outside, &plan.runs, &lab.root, &mut store, &options, &mut Said::default()).unwrap();
    let id: RunId = plan.runs[0].frozen.id;
    let last = events(&lab.root.run(&id), 1).pop();
    assert!(matches!(last, Some(Event::Finished { outcome: Outcome::Done, peak_bytes: None, .. })), "{last:?}");
}
