//! Stories told to the queue: some that a person would tell, and many that chance does.

mod ends;
mod memory;
mod pauses;
mod waits;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    event::{OUT_OF_MEMORY, Outcome},
    exec::slots::Lack,
};

fn id(n: usize) -> RunId {
    RunId([n as u8; 32])
}

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

fn task(n: usize, device: &str, flops: f64) -> (Task, Standing) {
    let (run, device) = (id(n), device.into());
    let task =
        Task { run, device, flops, bytes: vec![0], retries: 1, timeout: None, from: None, failed: None, needs: None };
    (task, Standing::Waiting(Duration::ZERO))
}

/// Others hold all of the device.
fn busy(run: RunId) -> Input {
    Input::Busy { run, refusal: Refusal { lack: Lack::Place, runs: Vec::new(), free: None, others: 0 } }
}

/// A machine whose memory is not known, with those GPUs.
fn machine(cores: usize, gpus: &[&str]) -> Vec<DeviceInfo> {
    let device = |name: &str, cores| {
        let (name, id, model) = (name.to_owned(), name.to_owned(), String::new());
        DeviceInfo { name, id, model, cores, memory_total: None, memory_free: None }
    };
    std::iter::once(device("cpu", Some(cores))).chain(gpus.iter().map(|gpu| device(gpu, None))).collect()
}

/// A queue of runs of equal length on the CPU.
fn queue(runs: usize, cores: usize, jobs: Option<usize>) -> Queue {
    Queue::new((0..runs).map(|n| task(n, "cpu", 1.0)).collect(), &machine(cores, &[]), jobs)
}

/// Steps the queue and carries out its starts in full; returns the starts as (run, threads), and the other actions.
fn tell(queue: &mut Queue, at: f64, input: Input) -> (Vec<(usize, usize)>, Vec<Action>) {
    let (mut started, mut others) = (Vec::new(), Vec::new());
    let mut inputs = vec![input];
    while let Some(input) = inputs.pop() {
        for action in queue.step(seconds(at), input) {
            match action {
                Action::Start { run, threads, .. } => {
                    started.push((usize::from(run.0[0]), threads));
                    inputs.push(Input::Granted { run, threads, company: false });
                }
                other => others.push(other),
            }
        }
    }
    (started, others)
}

fn ends(queue: &mut Queue, at: f64, n: usize, ended: Ended) -> (Vec<(usize, usize)>, Vec<Action>) {
    tell(queue, at, Input::Ended { run: id(n), ended })
}

fn done() -> Ended {
    Ended::Finished(Outcome::Done)
}

fn stopped(step: u64) -> Ended {
    Ended::Finished(Outcome::Interrupted { step })
}

fn killed() -> Ended {
    Ended::Died { why: "killed by SIGKILL".into(), step: 40, retry: true }
}

fn report(n: usize, state: RunState) -> Action {
    Action::Report { run: id(n), state }
}

#[test]
fn by_default_each_core_has_a_run_and_the_last_runs_share_what_is_idle() {
    let mut q = queue(6, 4, None);
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(0, 1), (1, 1), (2, 1), (3, 1)]);
    assert_eq!(ends(&mut q, 1.0, 0, done()).0, [(4, 1)]);
    assert_eq!(ends(&mut q, 1.0, 1, done()).0, [(5, 1)]);
    assert_eq!(tell(&mut queue(1, 4, None), 0.0, Input::Tick).0, [(0, 4)]);
    assert_eq!(tell(&mut queue(3, 4, None), 0.0, Input::Tick).0, [(0, 2), (1, 1), (2, 1)]);
}

#[test]
fn jobs_cut_the_cpu_into_whole_threads() {
    assert_eq!(tell(&mut queue(9, 5, Some(2)), 0.0, Input::Tick).0, [(0, 2), (1, 2)]);
    assert_eq!(tell(&mut queue(9, 2, Some(8)), 0.0, Input::Tick).0, [(0, 1), (1, 1)], "never more threads than cores");
    let mut q = queue(3, 4, Some(1));
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(0, 4)]);
    assert_eq!(ends(&mut q, 1.0, 0, done()).0, [(1, 4)]);
}

#[test]
fn more_jobs_than_can_be_are_curbed_and_that_is_said() {
    let curbed = |runs, cores, asked| queue(runs, cores, asked).curbed(asked);
    assert_eq!(curbed(9, 2, Some(8)).unwrap(), "8 jobs are more than there are cores: 2 at a time");
    assert_eq!(curbed(3, 8, Some(4)).unwrap(), "4 jobs are more than there are runs to train on the CPU: 3 at a time");
    assert_eq!((curbed(9, 8, Some(8)), curbed(9, 2, None), curbed(0, 2, Some(8))), (None, None, None));
}

#[test]
fn the_longest_run_starts_first_where_runs_go_side_by_side() {
    let tasks = || [1.0, 3.0, 2.0, 3.0].into_iter().enumerate().map(|(n, flops)| task(n, "cpu", flops)).collect();
    let order = |cores, jobs| {
        let mut q = Queue::new(tasks(), &machine(cores, &[]), jobs);
        let mut order: Vec<usize> = tell(&mut q, 0.0, Input::Tick).0.into_iter().map(|(n, _)| n).collect();
        for at in 0..4 {
            let n = order[at];
            order.extend(ends(&mut q, 1.0, n, done()).0.into_iter().map(|(n, _)| n));
        }
        order
    };
    assert_eq!(order(2, None), [1, 3, 2, 0]);
    assert_eq!(order(2, Some(1)), [0, 1, 2, 3], "one after the other: as the spec says");
}

#[test]
fn runs_on_the_cpu_do_not_wait_for_gpus() {
    let machine = machine(1, &["cuda:0", "cuda:1"]);
    let tasks = ["cuda:1", "cuda", "cuda", "cpu", "cuda:1"].into_iter().enumerate();
    let mut q = Queue::new(tasks.map(|(n, device)| task(n, device, 1.0)).collect(), &machine, None);
    let starts = q.step(seconds(0.0), Input::Tick);
    let device = |n: usize| {
        starts.iter().find_map(|a| match a {
            Action::Start { run, device, .. } if *run == id(n) => Some(device.as_str()),
            _ => None,
        })
    };
    assert_eq!([0, 1, 2, 3, 4].map(device), [Some("cuda:1"), Some("cuda:0"), None, Some("cpu"), None]);
}

#[test]
fn a_device_that_other_sweeps_hold_is_asked_for_again() {
    let mut q = queue(2, 2, None);
    assert_eq!(q.step(seconds(0.0), Input::Tick).len(), 2);
    assert_eq!(tell(&mut q, 0.0, busy(id(1))).0, []);
    assert_eq!(tell(&mut q, 0.0, busy(id(0))).0, [], "not before the next tick");
    assert_eq!(tell(&mut q, 0.1, Input::Tick).0.len(), 2);
}

#[test]
fn threads_that_were_not_granted_go_to_others() {
    let mut q = queue(3, 4, Some(2));
    assert_eq!(q.step(seconds(0.0), Input::Tick).len(), 2, "two threads for each of two");
    q.step(seconds(0.0), Input::Granted { run: id(0), threads: 1, company: false });
    q.step(seconds(0.0), Input::Granted { run: id(1), threads: 2, company: false });
    assert_eq!(ends(&mut q, 1.0, 1, done()).0, [(2, 3)]);
}

#[test]
fn a_run_that_died_is_started_again_later_and_then_given_up() {
    let mut q = queue(2, 1, None);
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(0, 1)]);
    let (started, said) = ends(&mut q, 1.0, 0, killed());
    assert_eq!(started, [(1, 1)], "the others go on");
    assert!(
        matches!(&said[..], [Action::Say(what)] if what.contains("killed by SIGKILL; starting it again from step 40"))
    );
    assert_eq!(ends(&mut q, 1.1, 1, done()).0, [], "it waits a moment");
    assert_eq!(tell(&mut q, 1.6, Input::Tick).0, [(0, 1)]);
    let why = "killed by SIGKILL".to_owned();
    let gave_up = [Action::GiveUp { run: id(0), why: why.clone() }, report(0, RunState::Failed { why })];
    assert_eq!(ends(&mut q, 2.0, 0, killed()).1, gave_up);
    assert!(q.is_over());
    assert_eq!((q.summary().done, q.summary().failed), (vec![id(1)], vec![id(0)]));
}

#[test]
fn a_failure_that_would_come_again_is_final() {
    let mut q = queue(1, 1, None);
    tell(&mut q, 0.0, Input::Tick);
    let why = "the loss is NaN at step 3".to_owned();
    let failed = Ended::Finished(Outcome::Failed { why: why.clone(), retry: false });
    assert_eq!(ends(&mut q, 1.0, 0, failed).1, [report(0, RunState::Failed { why })]);
    assert!(q.is_over());
}

#[test]
fn a_failure_that_may_not_come_again_is_tried_again() {
    let mut q = queue(1, 1, None);
    tell(&mut q, 0.0, Input::Tick);
    let why = "out of memory".to_owned();
    let failed = Ended::Finished(Outcome::Failed { why: why.clone(), retry: true });
    let said = ends(&mut q, 1.0, 0, failed.clone()).1;
    assert!(matches!(&said[..], [Action::Say(what)] if what.contains("again from its last checkpoint (try 1 of 1)")));
    assert_eq!(q.summary().interrupted, [id(0)], "where a stop request comes before the next try");
    assert_eq!(tell(&mut q, 2.0, Input::Tick).0, [(0, 1)]);
    assert_eq!(ends(&mut q, 3.0, 0, failed).1, [report(0, RunState::Failed { why })]);
}

#[test]
fn a_death_that_would_come_again_is_final() {
    let mut q = queue(1, 1, None);
    tell(&mut q, 0.0, Input::Tick);
    let why = "no space left".to_owned();
    let full = Ended::Died { why: why.clone(), step: 40, retry: false };
    let gave_up = [Action::GiveUp { run: id(0), why: why.clone() }, report(0, RunState::Failed { why })];
    assert_eq!(ends(&mut q, 1.0, 0, full).1, gave_up);
}

#[test]
fn a_first_signal_stops_gently_and_a_second_at_once() {
    let mut q = queue(3, 2, None);
    tell(&mut q, 0.0, Input::Tick);
    let stops = tell(&mut q, 1.0, Input::Signal).1;
    assert_eq!(stops[..2], [Action::Stop { run: id(0) }, Action::Stop { run: id(1) }]);
    assert_eq!(ends(&mut q, 2.0, 0, stopped(7)), (vec![], vec![report(0, RunState::Interrupted { step: 7 })]));
    assert!(!q.is_over(), "one still writes its checkpoint");
    assert_eq!(tell(&mut q, 3.0, Input::Signal).1, [Action::Kill { run: id(1) }]);
    assert_eq!(ends(&mut q, 3.0, 1, killed()).1, [report(1, RunState::Interrupted { step: 40 })]);
    assert!(q.is_over());
    let summary = q.summary();
    assert_eq!((summary.interrupted, summary.queued), (vec![id(0), id(1)], vec![id(2)]));
}

#[test]
fn a_worker_that_starts_while_a_stop_is_asked_for_is_stopped() {
    let mut q = queue(1, 1, None);
    let start = q.step(seconds(0.0), Input::Tick);
    assert_eq!(start.len(), 1);
    assert_eq!(q.step(seconds(0.0), Input::Signal), []);
    assert!(!q.is_over());
    assert_eq!(
        q.step(seconds(0.0), Input::Granted { run: id(0), threads: 1, company: false }),
        [Action::Stop { run: id(0) }]
    );
}

#[test]
fn a_run_has_its_time_and_no_more() {
    let (mut run, standing) = task(0, "cpu", 1.0);
    run.timeout = Some(seconds(10.0));
    let mut q = Queue::new(vec![(run, standing)], &machine(1, &[]), None);
    tell(&mut q, 5.0, Input::Tick);
    assert_eq!(tell(&mut q, 14.9, Input::Tick).1, []);
    assert_eq!(tell(&mut q, 15.0, Input::Tick).1, [Action::Stop { run: id(0) }]);
    assert_eq!(tell(&mut q, 30.0, Input::Tick).1, []);
    assert_eq!(tell(&mut q, 45.0, Input::Tick).1, [Action::Kill { run: id(0) }]);
    let why = "timed out after 10 s".to_owned();
    let gave_up = [Action::GiveUp { run: id(0), why: why.clone() }, report(0, RunState::Failed { why })];
    assert_eq!(ends(&mut q, 46.0, 0, stopped(7)).1, gave_up);
}

#[test]
fn a_run_that_another_process_trains_is_awaited_and_taken_over_where_it_is_left_unfinished() {
    let mut q = queue(3, 3, None);
    tell(&mut q, 0.0, Input::Tick);
    for n in 0..3 {
        assert_eq!(ends(&mut q, 0.0, n, Ended::Elsewhere).1, [Action::Await { run: id(n) }]);
    }
    let settled = |n, state| Input::Settled { run: id(n), state };
    assert_eq!(tell(&mut q, 1.0, settled(0, RunState::Done)).1, [report(0, RunState::Done)]);
    let failed = RunState::Failed { why: "NaN".into() };
    assert_eq!(tell(&mut q, 1.0, settled(1, failed.clone())).1, [report(1, failed)]);
    assert_eq!(tell(&mut q, 1.0, settled(2, RunState::Interrupted { step: 5 })).0, [(2, 3)]);
}

#[test]
fn what_is_done_is_left_alone() {
    let mut tasks: Vec<_> = (0..2).map(|n| task(n, "cpu", 1.0)).collect();
    tasks[0].1 = Standing::Ended(RunState::Done);
    let mut q = Queue::new(tasks, &machine(2, &[]), None);
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(1, 2)]);
    ends(&mut q, 1.0, 1, done());
    assert_eq!(q.summary().done, [id(0), id(1)]);
}

/// A machine that does what the queue says, and to which chance happens.
struct World {
    queue: Queue,
    now: f64,
    cores: usize,
    jobs: usize,
    /// Bytes that runs may take of a GPU together.
    usable: u64,
    /// Our workers: the device of each, its threads and its bytes.
    workers: BTreeMap<RunId, (String, usize, u64)>,
    /// Runs that other processes train.
    foreign: Vec<RunId>,
    done: Vec<RunId>,
    cancelled: BTreeSet<RunId>,
    /// The devices that were set aside.
    aside: Vec<String>,
    signals: usize,
}

impl World {
    /// Runs on the CPU.
    fn new(runs: usize, cores: usize, jobs: usize) -> Self {
        Self::on(&["cpu"], &machine(cores, &[]), runs, jobs)
    }

    /// Runs on two GPUs for one run each, with a thread each.
    fn with_gpus(runs: usize) -> Self {
        Self { usable: 0, ..Self::on(&["cuda"], &machine(2, &["cuda:0", "cuda:1"]), runs, 2) }
    }

    /// Runs on the CPU, on any of two GPUs and on one of them, which hold several.
    fn with_memory(runs: usize, cores: usize, jobs: usize) -> Self {
        let mut machine = machine(cores, &["cuda:0", "cuda:1"]);
        machine.iter_mut().for_each(|device| device.memory_total = Some(100));
        Self { usable: 95, ..Self::on(&["cuda", "cpu", "cuda:1", "cuda"], &machine, runs, jobs) }
    }

    fn on(devices: &[&str], machine: &[DeviceInfo], runs: usize, jobs: usize) -> Self {
        let mut tasks: Vec<_> = (0..runs).map(|n| task(n, devices[n % devices.len()], (n % 3) as f64)).collect();
        tasks.iter_mut().enumerate().for_each(|(n, (task, _))| task.bytes = vec![[30, 60, 10, 120, 50][n % 5]]);
        let cores = machine[0].cores.unwrap();
        Self {
            queue: Queue::new(tasks, machine, Some(jobs)),
            usable: u64::MAX,
            now: 0.0,
            cores,
            jobs,
            workers: BTreeMap::new(),
            foreign: Vec::new(),
            done: Vec::new(),
            cancelled: BTreeSet::new(),
            aside: Vec::new(),
            signals: 0,
        }
    }

    /// Tells the queue, and does what it says; `chance` decides what comes of a start.
    fn tell(&mut self, input: Input, chance: u8) -> Result<(), TestCaseError> {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let is_signal = matches!(input, Input::Signal);
            let mut asked = Vec::new();
            for action in self.queue.step(seconds(self.now), input) {
                match action {
                    Action::Start { run, threads, device, bytes } => {
                        prop_assert_eq!(self.signals, 0, "started after a stop request");
                        prop_assert!(!self.workers.contains_key(&run), "two workers for one run");
                        prop_assert!(!self.done.contains(&run), "a done run was started");
                        prop_assert!(!self.cancelled.contains(&run), "a cancelled run was started");
                        prop_assert!(!self.aside.contains(&device), "a run was started on a device that is set aside");
                        prop_assert!(threads >= 1);
                        inputs.push(self.start(run, device, threads, bytes, chance));
                    }
                    Action::Stop { run } => {
                        prop_assert!(self.workers.contains_key(&run));
                        asked.push(run);
                    }
                    Action::Kill { run } => {
                        asked.push(run);
                        self.workers.remove(&run);
                        inputs.push(Input::Ended { run, ended: killed() });
                    }
                    Action::Report { run, state: RunState::Done } => self.done.push(run),
                    Action::Say(what) => {
                        self.aside.extend(what.split_once(" is set aside").map(|(at, _)| at.to_owned()))
                    }
                    Action::GiveUp { .. }
                    | Action::Skip { .. }
                    | Action::Pause { .. }
                    | Action::Await { .. }
                    | Action::Report { .. } => {}
                }
            }
            if is_signal && self.signals == 0 {
                self.signals = 1;
                prop_assert_eq!(asked, self.workers.keys().copied().collect::<Vec<_>>(), "a stop stops all");
            }
            for device in ["cpu", "cuda:0", "cuda:1"] {
                let there: Vec<_> = self.workers.values().filter(|(at, ..)| at == device).collect();
                let bytes = there.iter().fold(0u64, |sum, (.., bytes)| sum.saturating_add(*bytes));
                prop_assert!(there.len() <= 1 || bytes <= self.usable, "more than fits on {}: {:?}", device, there);
                if device == "cpu" {
                    let threads = there.iter().map(|(_, threads, _)| threads).sum::<usize>();
                    prop_assert!(threads <= self.cores, "more threads than cores");
                    prop_assert!(there.len() <= self.jobs.max(1), "more runs than jobs");
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, run: RunId, device: String, threads: usize, bytes: u64, chance: u8) -> Input {
        match chance % 8 {
            0 => busy(run),
            1 => {
                self.foreign.push(run);
                Input::Elsewhere { run }
            }
            2 => Input::Ended { run, ended: killed() },
            _ => {
                let threads = if chance % 8 == 3 { 1 } else { threads };
                self.workers.insert(run, (device, threads, bytes));
                Input::Granted { run, threads, company: false }
            }
        }
    }

    /// Whether all that a run could be on is set aside.
    fn is_stranded(&self, run: &RunId) -> bool {
        let entry = self.queue.entries.iter().find(|entry| entry.task.run == *run).unwrap();
        match entry.task.device.as_str() {
            "cpu" => false,
            "cuda" => self.aside.len() == 2,
            one => self.aside.iter().any(|aside| aside == one),
        }
    }

    fn happens(&mut self, what: u8, which: usize, chance: u8) -> Result<(), TestCaseError> {
        self.now += 0.3;
        let worker = self.workers.keys().nth(which % self.workers.len().max(1)).copied();
        let input = match (what % 16, worker, self.foreign.pop()) {
            (0..=8, Some(run), foreign) => {
                self.foreign.extend(foreign);
                self.workers.remove(&run);
                let ended = match chance % 5 {
                    0 => killed(),
                    1 => stopped(3),
                    2 if chance < 50 => Ended::Died { why: OUT_OF_MEMORY.into(), step: 3, retry: false },
                    2 => Ended::Finished(Outcome::Failed { why: "NaN".into(), retry: chance > 128 }),
                    _ => done(),
                };
                Input::Ended { run, ended }
            }
            (9..=12, _, Some(run)) => {
                let state = if chance > 99 { RunState::Done } else { RunState::Interrupted { step: 1 } };
                Input::Settled { run, state }
            }
            (13, _, foreign) => {
                self.foreign.extend(foreign);
                let run = id(which % 12);
                self.cancelled.insert(run);
                Input::Cancelled { run }
            }
            (14, _, foreign) => {
                self.foreign.extend(foreign);
                Input::Measured { run: id(which % 12), bytes: u64::from(chance) }
            }
            (15, _, foreign) if chance > 200 => {
                self.foreign.extend(foreign);
                Input::Signal
            }
            (_, _, foreign) => {
                self.foreign.extend(foreign);
                Input::Tick
            }
        };
        self.tell(input, chance.rotate_left(3))
    }
}

proptest! {
    #[test]
    fn whatever_happens_no_run_has_two_workers_no_core_two_threads_and_all_ends(
        (runs, cores, jobs, kind) in (0usize..12, 1usize..6, 1usize..8, 0..3),
        story in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 0..60),
    ) {
        let mut world = match kind {
            0 => World::new(runs, cores, jobs),
            1 => World::with_gpus(runs),
            _ => World::with_memory(runs, cores, jobs),
        };
        for (what, which, chance) in story {
            world.happens(what, which, chance)?;
        }
        // From here on all goes well.
        for _ in 0..200 {
            if world.queue.is_over() {
                break;
            }
            world.now += 1.0;
            let next = match (world.workers.pop_first(), world.foreign.pop()) {
                (Some((run, _)), foreign) => {
                    world.foreign.extend(foreign);
                    Input::Ended { run, ended: done() }
                }
                (None, Some(run)) => Input::Settled { run, state: RunState::Done },
                (None, None) => Input::Tick,
            };
            world.tell(next, 7)?;
        }
        prop_assert!(world.queue.is_over(), "{:?}", world.queue);
        prop_assert!(world.workers.is_empty(), "a worker was left behind");
        let s = world.queue.summary();
        let lists = [s.done, s.failed, s.interrupted, s.queued, s.elsewhere, s.skipped];
        prop_assert_eq!(lists.iter().map(Vec::len).sum::<usize>(), runs, "every run is in one list");
        if world.signals == 0 {
            let seen_to = lists[3].iter().all(|run| world.is_stranded(run) || world.cancelled.contains(run));
            prop_assert!(seen_to && lists[4].is_empty(), "all was seen to");
        }
    }
}
