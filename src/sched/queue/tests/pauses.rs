//! Sweeps in which runs pause and go on: told as stories, replayed from recorded curves, and made up by chance.

use std::collections::VecDeque;

use super::*;
use crate::{
    sched::prune::Pruner,
    spec::search::{Prune, Search},
};

fn search(prune: Prune, min_steps: u64, reduction: u64) -> Search {
    Search { prune, metric: "val/loss", min_steps, reduction }
}

/// A sweep whose curves are known beforehand, on a machine that trains so many runs at a time.
struct Replay {
    search: Search,
    cores: usize,
    queue: Queue,
    curves: Vec<Vec<(u64, f64)>>,
    /// Seconds from one evaluation to the next.
    pace: Vec<f64>,
    /// Evaluations that are known of each run.
    known: Vec<usize>,
    /// When each worker evaluates next.
    workers: BTreeMap<usize, f64>,
    /// What comes of starts and evaluations, where not all goes well, and the runs that others train.
    chances: VecDeque<u8>,
    foreign: Vec<usize>,
    cancelled: BTreeSet<usize>,
    now: f64,
    /// What was started and paused, in order.
    log: Vec<String>,
}

impl Replay {
    fn new(search: Search, cores: usize, curves: Vec<Vec<(u64, f64)>>, pace: Vec<f64>) -> Self {
        let known = vec![0; curves.len()];
        let queue = Self::queue(&search, cores, &curves, &known, &[]);
        Self {
            search,
            cores,
            queue,
            curves,
            pace,
            known,
            workers: BTreeMap::new(),
            chances: VecDeque::new(),
            foreign: Vec::new(),
            cancelled: BTreeSet::new(),
            now: 0.0,
            log: Vec::new(),
        }
    }

    /// A queue that knows what a store would: the runs' curves so far, and who pauses.
    fn queue(search: &Search, cores: usize, curves: &[Vec<(u64, f64)>], known: &[usize], paused: &[usize]) -> Queue {
        let mut pruner = Pruner::new(search.clone(), curves.iter().map(|curve| curve.last().unwrap().0));
        let tasks = curves.iter().enumerate().map(|(n, curve)| {
            pruner.learn(n, &curve[..known[n]]);
            let (mut task, mut standing) = task(n, "cpu", 1.0);
            task.from = curve[..known[n]].last().map(|(step, _)| *step);
            if known[n] == curve.len() {
                standing = Standing::Ended(RunState::Done);
            } else if paused.contains(&n) {
                standing = Standing::Paused { why: "as was said".into() };
            }
            (task, standing)
        });
        let tasks = tasks.collect();
        Queue::new(tasks, &machine(cores, &[]), Some(cores)).pruner(Some(pruner))
    }

    /// The scheduler is killed, and its workers leave; another goes on from what is stored.
    fn restart(&mut self) {
        let paused = self.that(|standing| matches!(standing, Standing::Paused { .. }));
        self.workers.clear();
        self.queue = Self::queue(&self.search, self.cores, &self.curves, &self.known, &paused);
    }

    /// Until nothing is left to do, or `evaluations` have been made.
    fn go(&mut self, evaluations: usize) -> &mut Self {
        self.tell(Input::Tick, None);
        let mut idle = 0;
        for _ in 0..evaluations {
            let next = self.workers.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(n, at)| (*n, *at));
            let Some((n, at)) = next else {
                idle += 1;
                if self.queue.is_over() || idle == 100 {
                    break;
                }
                self.now += 1.0;
                let left = |n: usize, step| Input::Settled { run: id(n), state: RunState::Interrupted { step } };
                let input = self.foreign.pop().map_or(Input::Tick, |n| left(n, self.step_of(n)));
                self.tell(input, None);
                continue;
            };
            idle = 0;
            self.now = self.now.max(at);
            self.known[n] += 1;
            let is_last = self.known[n] == self.curves[n].len();
            let values = self.curves[n][..self.known[n]].to_vec();
            self.tell(Input::Learned { run: id(n), values }, is_last.then_some(n));
            if is_last {
                self.workers.remove(&n);
                self.tell(Input::Ended { run: id(n), ended: done() }, None);
                continue;
            }
            self.workers.entry(n).and_modify(|at| *at += self.pace[n]);
            let Some(chance) = self.chances.pop_front().filter(|_| self.workers.contains_key(&n)) else { continue };
            match chance % 12 {
                0 => {
                    self.workers.remove(&n);
                    self.tell(Input::Ended { run: id(n), ended: self.died(n) }, None);
                }
                1 => {
                    self.workers.remove(&n);
                    let failed = Outcome::Failed { why: "out of disk".into(), retry: chance > 128 };
                    self.tell(Input::Ended { run: id(n), ended: Ended::Finished(failed) }, None);
                }
                2 => {
                    let n = usize::from(chance / 12) % self.curves.len();
                    self.cancelled.insert(n);
                    self.tell(Input::Cancelled { run: id(n) }, None);
                }
                _ => {}
            }
        }
        self
    }

    /// How far a run has come.
    fn step_of(&self, n: usize) -> u64 {
        self.curves[n][..self.known[n]].last().map_or(0, |(step, _)| *step)
    }

    fn died(&self, n: usize) -> Ended {
        Ended::Died { why: "killed by SIGKILL".into(), step: self.step_of(n), retry: true }
    }

    /// Carries out what the queue says; `finishing` is not stopped any more.
    fn tell(&mut self, input: Input, finishing: Option<usize>) {
        let mut inputs = VecDeque::from([input]);
        let mut told = 0;
        while let Some(input) = inputs.pop_front() {
            told += 1;
            assert!(told < 1000, "the queue does not come to rest: {:?}", &self.log[self.log.len() - 4..]);
            for action in self.queue.step(seconds(self.now), input) {
                match action {
                    Action::Start { run, threads, .. } => {
                        let n = usize::from(run.0[0]);
                        self.log.push(format!("{n} starts"));
                        assert!(!self.workers.contains_key(&n), "it is trained already");
                        inputs.push_back(match self.chances.pop_front().map_or(9, |chance| chance % 10) {
                            0 => busy(run),
                            1 => {
                                self.foreign.push(n);
                                Input::Elsewhere { run }
                            }
                            2 => Input::Ended { run, ended: self.died(n) },
                            _ => {
                                self.workers.insert(n, self.now + self.pace[n]);
                                assert!(self.workers.len() <= self.cores);
                                Input::Granted { run, threads, company: false }
                            }
                        });
                    }
                    Action::Stop { run } if finishing != Some(usize::from(run.0[0])) => {
                        let n = usize::from(run.0[0]);
                        assert!(self.workers.remove(&n).is_some(), "nobody trains it");
                        inputs.push_back(Input::Ended { run, ended: stopped(self.step_of(n)) });
                    }
                    Action::Pause { run, why } => self.log.push(format!("{} pauses: {why}", run.0[0])),
                    Action::Kill { .. } | Action::Skip { .. } => panic!("{action:?}"),
                    _ => {}
                }
            }
        }
    }

    fn that(&self, is_so: impl Fn(&Standing) -> bool) -> Vec<usize> {
        self.queue.standings().enumerate().filter(|(_, (_, s))| is_so(s)).map(|(n, _)| n).collect()
    }

    fn done(&self) -> Vec<usize> {
        self.that(|standing| *standing == Standing::Ended(RunState::Done))
    }

    /// The share of the grid's evaluations that was made.
    fn share(&self) -> f64 {
        let all: usize = self.curves.iter().map(Vec::len).sum();
        self.known.iter().sum::<usize>() as f64 / all as f64
    }
}

/// The validation losses of a grid that was trained to its end: depths 1, 2 and 4, learning rates from 3e-4 to 0.1, 900
/// steps of a model of width 32 on 200,000 characters of play-like text. At step 90, where the learning rate has just
/// reached its height, the run that will be the best is the third.
fn recorded() -> (Vec<Vec<(u64, f64)>>, Vec<f64>) {
    let runs: Vec<serde_json::Value> = serde_json::from_str(include_str!("depths.json")).unwrap();
    let curve = |run: &serde_json::Value| -> Vec<(u64, f64)> {
        serde_json::from_value::<Vec<(u64, f64)>>(run["val_loss"].clone()).unwrap()
    };
    let pace = runs.iter().map(|run| run["layers"].as_f64().unwrap());
    (runs.iter().map(curve).collect(), pace.collect())
}

fn best_of(curves: &[Vec<(u64, f64)>], among: impl IntoIterator<Item = usize>) -> usize {
    among.into_iter().min_by(|&a, &b| curves[a].last().unwrap().1.total_cmp(&curves[b].last().unwrap().1)).unwrap()
}

#[test]
fn the_best_run_of_a_recorded_grid_survives() {
    let (curves, pace) = recorded();
    let best = best_of(&curves, 0..curves.len());
    for (prune, at_most) in [(Prune::Asha, 0.35), (Prune::Median, 0.75)] {
        for cores in 1..=6 {
            let mut replay = Replay::new(search(prune, 90, 3), cores, curves.clone(), pace.clone());
            replay.go(usize::MAX);
            assert!(replay.queue.is_over());
            assert!(replay.done().contains(&best), "{prune:?} on {cores}: {:?} {:#?}", replay.done(), replay.log);
            let (share, paused) = (replay.share(), replay.queue.summary().paused.len());
            assert!(share < at_most, "{prune:?} on {cores}: {share} of the grid was trained");
            assert_eq!(paused + replay.done().len(), curves.len());
        }
    }
}

/// Runs of 8 evaluations, 10 steps apart, that are at a value all the time.
fn flat(values: &[f64]) -> Vec<Vec<(u64, f64)>> {
    values.iter().map(|value| (0..8).map(|n| (10 * n, *value)).collect()).collect()
}

#[test]
fn a_run_that_reaches_a_rung_goes_on_only_among_the_best_third_and_is_lifted_by_later_results() {
    let mut replay = Replay::new(search(Prune::Asha, 10, 3), 1, flat(&[2.0, 3.0, 4.0, 1.0, 5.0, 6.0]), vec![1.0; 6]);
    replay.go(usize::MAX);
    let log = [
        "0 starts",
        "0 pauses: 1st of 1 at step 10: the best third goes on",
        "1 starts",
        "1 pauses: 2nd of 2 at step 10: the best third goes on",
        "2 starts",
        "2 pauses: 3rd of 3 at step 10: the best third goes on",
        "0 starts", // what goes on before what is new
        "0 pauses: 1st of 1 at step 30: the best third goes on",
        "3 starts", // the first of four goes on at once, and is alone at the next rung
        "3 pauses: 1st of 2 at step 30: the best third goes on",
        "4 starts",
        "4 pauses: 5th of 5 at step 10: the best third goes on",
        "5 starts",
        "5 pauses: 6th of 6 at step 10: the best third goes on",
        "3 starts", // nobody else can come up to that rung: its best goes on all the same
    ];
    assert_eq!(replay.log, log);
    assert_eq!((replay.done(), replay.queue.summary().paused.len()), (vec![3], 5));
    assert_eq!(replay.queue.summary().exit(), crate::base::Exit::Done, "that runs pause is no failure");
    let now: Vec<String> =
        replay.queue.standing_otherwise().iter().map(|(id, why)| format!("{} {why}", id.0[0])).collect();
    let goes_on = "the best third goes on";
    let stand = [
        (0, "2nd of 2 at step 30"),
        (1, "3rd of 6 at step 10"),
        (2, "4th of 6 at step 10"),
        (4, "5th of 6 at step 10"),
    ];
    assert_eq!(now, stand.map(|(n, stands)| format!("{n} {stands}: {goes_on}")), "in the end");
}

#[test]
fn what_is_not_finite_never_goes_on() {
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for prune in [Prune::Asha, Prune::Median] {
        let mut replay = Replay::new(search(prune, 10, 2), 2, flat(&bad), vec![1.0; 3]);
        replay.go(usize::MAX);
        assert_eq!((replay.done(), replay.queue.summary().paused.len()), (vec![], 3), "{prune:?}");
        assert!(replay.log.iter().any(|line| line == "0 pauses: not finite at step 10"), "{:?}", replay.log);
        let mut replay = Replay::new(search(prune, 10, 2), 2, flat(&[bad[0], 7.0, bad[2]]), vec![1.0; 3]);
        assert_eq!(replay.go(usize::MAX).done(), [1], "{prune:?}: any number is better");
    }
}

#[test]
fn where_the_best_of_a_rung_fails_the_next_one_goes_on() {
    let mut replay = Replay::new(search(Prune::Asha, 10, 3), 1, flat(&[2.0, 3.0, 1.0]), vec![1.0; 3]);
    while replay.known[2] < 5 {
        replay.go(1);
    }
    assert_eq!(replay.workers.keys().collect::<Vec<_>>(), [&2], "the best of three goes on: {:?}", replay.log);
    replay.workers.clear();
    let failed = Ended::Finished(Outcome::Failed { why: "the loss is nan".into(), retry: false });
    replay.tell(Input::Ended { run: id(2), ended: failed }, None);
    assert_eq!(replay.go(usize::MAX).done(), [0], "{:?}", replay.log);
    assert_eq!(replay.queue.summary().failed, [id(2)]);
}

#[test]
fn a_run_that_a_person_cancels_is_not_lifted() {
    let mut replay = Replay::new(search(Prune::Asha, 10, 3), 1, flat(&[1.0, 3.0, 4.0]), vec![1.0; 3]);
    replay.go(2);
    assert_eq!(replay.log.last().unwrap(), "1 starts", "the first one pauses");
    replay.tell(Input::Cancelled { run: id(0) }, None);
    assert_eq!(replay.go(usize::MAX).done(), [1], "{:?}", replay.log);
    assert_eq!(replay.queue.summary().paused, [id(0), id(2)]);
    let otherwise = replay.queue.standing_otherwise();
    assert!(otherwise.iter().all(|(run, why)| *run != id(0) && !why.contains("finite")), "{otherwise:?}");
}

#[test]
fn without_a_rule_what_paused_before_goes_on() {
    let paused = |(task, _): (Task, Standing)| (task, Standing::Waiting(Duration::ZERO));
    let mut q = Queue::new(vec![paused(task(0, "cpu", 1.0))], &machine(1, &[]), None);
    assert_eq!(tell(&mut q, 0.0, Input::Learned { run: id(0), values: vec![(10, 9.0)] }).0, [(0, 1)]);
    let settled = Input::Settled { run: id(0), state: RunState::Paused { step: 5, why: "4th of 4".into() } };
    tell(&mut q, 1.0, Input::Ended { run: id(0), ended: Ended::Elsewhere });
    assert_eq!(tell(&mut q, 2.0, settled).0, [(0, 1)], "another sweep had the rule");
}

#[test]
fn a_worker_that_takes_long_to_leave_is_not_ended_since_nobody_waits_for_it() {
    let pruner = Pruner::new(search(Prune::Asha, 10, 3), [90, 90]);
    let mut q = Queue::new(vec![task(0, "cpu", 1.0), task(1, "cpu", 1.0)], &machine(2, &[]), None).pruner(Some(pruner));
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0.len(), 2);
    let said = tell(&mut q, 1.0, Input::Learned { run: id(0), values: vec![(10, 2.0)] }).1;
    assert_eq!(said, [Action::Stop { run: id(0) }]);
    assert_eq!(tell(&mut q, 3000.0, Input::Tick).1, [], "it writes a checkpoint");
    let why = "1st of 1 at step 10: the best third goes on".to_owned();
    let pause = Action::Pause { run: id(0), why: why.clone() };
    let paused = [pause, report(0, RunState::Paused { step: 40, why })];
    assert_eq!(ends(&mut q, 3001.0, 0, killed()).1, paused, "if it dies of that, it pauses all the same");
}

#[test]
fn a_run_that_was_lifted_and_cannot_be_started_is_tried_again_later() {
    let pruner = Pruner::new(search(Prune::Asha, 10, 2), [90, 90]);
    let mut q = Queue::new(vec![task(0, "cpu", 1.0), task(1, "cpu", 1.0)], &machine(1, &[]), None).pruner(Some(pruner));
    let start = |n| Action::Start { run: id(n), device: "cpu".into(), threads: 1, bytes: 0 };
    tell(&mut q, 0.0, Input::Tick);
    tell(&mut q, 1.0, Input::Learned { run: id(0), values: vec![(10, 2.0)] });
    assert_eq!(ends(&mut q, 1.0, 0, stopped(10)).0, [(1, 1)], "the first of one pauses");
    tell(&mut q, 2.0, Input::Learned { run: id(1), values: vec![(10, 3.0)] });
    let said = q.step(seconds(2.0), Input::Ended { run: id(1), ended: stopped(10) });
    assert!(said.contains(&start(0)), "the first of two goes on: {said:?}");
    let said = q.step(seconds(3.0), Input::Ended { run: id(0), ended: killed() });
    assert!(matches!(&said[..], [Action::Say(what)] if what.contains("starting it again from step 40")), "{said:?}");
    assert_eq!(tell(&mut q, 4.0, Input::Tick).0, [(0, 1)]);
}

#[test]
fn a_run_that_failed_before_is_tried_again_where_it_would_go_on_and_else_has_failed() {
    for (ahead, behind) in [(0, 1), (1, 0)] {
        let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90, 90]);
        pruner.learn(ahead, &[(10, 1.0)]);
        pruner.learn(behind, &[(10, 2.0)]);
        let mut tasks = vec![task(0, "cpu", 1.0), task(1, "cpu", 1.0)];
        tasks[0].0.failed = Some("no space left".into());
        let mut q = Queue::new(tasks, &machine(1, &[]), None).pruner(Some(pruner));
        assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(ahead, 1)]);
        ends(&mut q, 1.0, ahead, done());
        let summary = q.summary();
        let exit = if ahead == 0 { crate::base::Exit::Done } else { crate::base::Exit::RunFailed };
        assert_eq!((q.is_over(), summary.exit(), summary.done), (true, exit, vec![id(ahead)]));
        assert_eq!(summary.failed.contains(&id(0)), ahead == 1, "that it failed is not forgotten");
    }
}

#[test]
fn a_run_that_no_device_is_left_for_is_not_waited_for() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 3), [90, 90, 90]);
    pruner.learn(0, &[(10, 2.0)]);
    pruner.learn(2, &[(10, 1.0)]);
    let mut tasks = vec![task(0, "cpu", 1.0), task(1, "cuda:0", 1.0), task(2, "cuda:0", 1.0)];
    for at in [0, 2] {
        tasks[at].1 = Standing::Paused { why: "1st of 1".into() };
    }
    let mut q = Queue::new(tasks, &machine(1, &["cuda:0"]), None).pruner(Some(pruner));
    q.places[1].aside = true;
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(0, 1)], "the best that can be trained");
    ends(&mut q, 1.0, 0, done());
    assert!(q.is_over());
    assert_eq!((q.summary().queued, q.summary().paused), (vec![id(1)], vec![id(2)]));
}

#[test]
fn a_run_that_comes_back_to_wait_is_judged_by_what_was_learned_meanwhile() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90; 3]);
    pruner.learn(0, &[(10, 2.0)]);
    pruner.learn(1, &[(10, 3.0)]);
    let mut tasks: Vec<_> = (0..3).map(|n| task(n, "cpu", 1.0)).collect();
    tasks[1].1 = Standing::Paused { why: "2nd of 2".into() };
    tasks[2].1 = Standing::Elsewhere;
    let mut q = Queue::new(tasks, &machine(1, &[]), None).pruner(Some(pruner));
    assert!(matches!(&q.step(seconds(0.0), Input::Tick)[..], [Action::Start { run, .. }] if *run == id(0)));
    q.step(seconds(0.0), Input::Learned { run: id(2), values: vec![(10, 1.0)] });
    let said = q.step(seconds(0.0), busy(id(0)));
    assert!(matches!(&said[..], [Action::Pause { run, .. }, Action::Report { .. }] if *run == id(0)), "{said:?}");
}

#[test]
fn a_paused_run_that_another_process_trains_is_awaited() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90; 2]);
    pruner.learn(0, &[(10, 2.0)]);
    let mut tasks = vec![task(0, "cpu", 1.0), task(1, "cpu", 1.0)];
    tasks[0].1 = Standing::Paused { why: "1st of 1".into() };
    let mut q = Queue::new(tasks, &machine(1, &[]), None).pruner(Some(pruner));
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(1, 1)]);
    assert_eq!(tell(&mut q, 1.0, Input::Elsewhere { run: id(0) }).1, [Action::Await { run: id(0) }]);
    assert_eq!(ends(&mut q, 2.0, 1, done()).0, []);
    assert!(!q.is_over());
    let settled = Input::Settled { run: id(0), state: RunState::Done };
    assert_eq!(tell(&mut q, 3.0, settled).1, [report(0, RunState::Done)]);
    assert!(q.is_over());
}

#[test]
fn a_leader_that_is_not_finite_any_more_takes_nobodys_place() {
    for (lost_at, done) in [(3, vec![1]), (5, vec![0, 1])] {
        let mut curves = flat(&[1.0, 3.0, 4.0]);
        curves[0][lost_at..].iter_mut().for_each(|(_, value)| *value = f64::NAN);
        let mut replay = Replay::new(search(Prune::Asha, 10, 3), 1, curves, vec![1.0; 3]);
        assert_eq!(replay.go(usize::MAX).done(), done, "{:?}", replay.log);
    }
}

#[test]
fn a_running_run_is_judged_once_at_a_rung_whatever_others_reach_there_later() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90, 90, 90]);
    pruner.learn(0, &[(10, 2.0)]);
    let (mut q0, waiting) = (task(0, "cpu", 1.0), task(2, "cpu", 1.0));
    q0.0.from = Some(10);
    let tasks = vec![q0, task(1, "cpu", 1.0), waiting];
    let mut q = Queue::new(tasks, &machine(2, &[]), None).pruner(Some(pruner));
    tell(&mut q, 0.0, Input::Tick);
    tell(&mut q, 1.0, Input::Learned { run: id(1), values: vec![(10, 1.5)] });
    // The first of two goes on; a better one comes, and it goes on undisturbed to the next rung.
    let (_, said) = tell(&mut q, 2.0, Input::Learned { run: id(2), values: vec![(10, 1.0)] });
    assert!(!said.contains(&Action::Stop { run: id(1) }), "{said:?}");
    let (_, said) = tell(&mut q, 3.0, Input::Learned { run: id(1), values: vec![(10, 1.5), (20, 1.4)] });
    assert!(said.contains(&Action::Stop { run: id(1) }), "the first of one at step 20: {said:?}");
}

fn curves() -> impl Strategy<Value = Vec<Vec<(u64, f64)>>> {
    let value = prop_oneof![20 => (0..1000u32).prop_map(f64::from), 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    // Evaluated every 3 to 7 steps, and of 4 to 30 evaluations.
    let curve = (3..8u64, prop::collection::vec(value, 4..30));
    let curve = curve.prop_map(|(every, values)| (0..).map(|n| n * every).zip(values).collect());
    prop::collection::vec(curve, 1..14)
}

proptest! {
    #[test]
    fn whatever_befalls_the_runs_a_sweep_ends_and_one_that_is_finite_is_trained_to_the_end(
        mut curves in curves(),
        is_asha: bool,
        (min_steps, reduction, cores) in (1..40u64, 2..5u64, 1..5usize),
        lost: Option<(prop::sample::Index, prop::sample::Index)>,
        chances in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        if let Some((run, from)) = lost {
            let curve = run.get(&curves).len();
            let at = from.index(curve);
            let run = run.index(curves.len());
            curves[run].iter_mut().for_each(|(_, value)| *value = -1.0); // the leader, until it is lost
            curves[run][at..].iter_mut().for_each(|(_, value)| *value = f64::NAN);
        }
        let prune = if is_asha { Prune::Asha } else { Prune::Median };
        let pace = (0..curves.len()).map(|n| 1.0 + (n % 3) as f64).collect();
        let mut replay = Replay::new(search(prune, min_steps, reduction), cores, curves.clone(), pace);
        replay.chances = chances.into();
        replay.go(10_000);
        prop_assert!(replay.queue.is_over(), "{:?}", replay.queue);
        let s = replay.queue.summary();
        let lists = [&s.done, &s.paused, &s.failed, &s.interrupted, &s.queued];
        prop_assert_eq!(lists.iter().map(|list| list.len()).sum::<usize>(), curves.len());
        let is_finite = |n: usize| curves[n][..replay.known[n]].last().is_none_or(|(_, value)| value.is_finite());
        let could = |n: &usize| is_finite(*n) && !s.failed.contains(&id(*n)) && !replay.cancelled.contains(n);
        if (0..curves.len()).any(|n| could(&n)) {
            prop_assert!((0..curves.len()).any(|n| is_finite(n) && s.done.contains(&id(n))), "{:#?}", replay.log);
        }
    }

    #[test]
    fn whatever_the_curves_a_sweep_ends_and_its_constant_leader_is_trained_to_the_end(
        mut curves in curves(),
        is_asha: bool,
        (min_steps, reduction, cores) in (1..40u64, 2..5u64, 1..5usize),
        kill_after in 0..60usize,
        leader: prop::sample::Index,
    ) {
        let prune = if is_asha { Prune::Asha } else { Prune::Median };
        let leader = leader.index(curves.len());
        curves[leader].iter_mut().for_each(|(_, value)| *value = -1.0);
        let pace = (0..curves.len()).map(|n| 1.0 + (n % 3) as f64).collect();
        let mut replay = Replay::new(search(prune, min_steps, reduction), cores, curves.clone(), pace);
        replay.go(kill_after).restart();
        replay.go(10_000);
        prop_assert!(replay.queue.is_over());
        let summary = replay.queue.summary();
        prop_assert_eq!(summary.done.len() + summary.paused.len(), curves.len());
        prop_assert!(summary.done.contains(&id(leader)));
        // Who asks the store later is told the same: nobody is left to be lifted.
        let before = replay.log.len();
        replay.restart();
        replay.go(10_000);
        prop_assert_eq!(replay.log.len(), before, "{:?}", &replay.log[before..]);
    }
}
