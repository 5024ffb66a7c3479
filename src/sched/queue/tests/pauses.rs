//! Sweeps in which runs pause and go on: told as stories, replayed from recorded curves, and made up by chance.

use std::collections::VecDeque;

use super::*;
use crate::{
    sched::prune::{Fate, Pruner, Reason, Verdict},
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
    now: f64,
    /// What was started and paused, in order.
    log: Vec<String>,
}

impl Replay {
    fn new(search: Search, cores: usize, curves: Vec<Vec<(u64, f64)>>, pace: Vec<f64>) -> Self {
        let known = vec![0; curves.len()];
        let queue = Self::queue(&search, cores, &curves, &known, &[]);
        Self { search, cores, queue, curves, pace, known, workers: BTreeMap::new(), now: 0.0, log: Vec::new() }
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
        for _ in 0..evaluations {
            let next = self.workers.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(n, at)| (*n, *at));
            let Some((n, at)) = next else { break };
            self.now = at;
            self.known[n] += 1;
            let is_last = self.known[n] == self.curves[n].len();
            let values = self.curves[n][..self.known[n]].to_vec();
            self.tell(Input::Learned { run: id(n), values }, is_last.then_some(n));
            if is_last {
                self.workers.remove(&n);
                self.tell(Input::Ended { run: id(n), ended: done() }, None);
            } else {
                self.workers.entry(n).and_modify(|at| *at += self.pace[n]);
            }
        }
        self
    }

    /// Carries out what the queue says; `finishing` is not stopped any more.
    fn tell(&mut self, input: Input, finishing: Option<usize>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for action in self.queue.step(seconds(self.now), input) {
                match action {
                    Action::Start { run, threads, .. } => {
                        let n = usize::from(run.0[0]);
                        self.log.push(format!("{n} starts"));
                        assert!(self.workers.insert(n, self.now + self.pace[n]).is_none(), "it is trained already");
                        assert!(self.workers.len() <= self.cores);
                        inputs.push_back(Input::Granted { run, threads, company: false });
                    }
                    Action::Stop { run } if finishing != Some(usize::from(run.0[0])) => {
                        let n = usize::from(run.0[0]);
                        assert!(self.workers.remove(&n).is_some(), "nobody trains it");
                        let (step, _) = self.curves[n][self.known[n] - 1];
                        inputs.push_back(Input::Ended { run, ended: stopped(step) });
                    }
                    Action::Pause { run, why } => self.log.push(format!("{} pauses: {why}", run.0[0])),
                    Action::Kill { .. } | Action::GiveUp { .. } | Action::Skip { .. } => panic!("{action:?}"),
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

#[test]
fn the_same_arrivals_make_the_same_decisions() {
    let (curves, pace) = recorded();
    for prune in [Prune::Asha, Prune::Median] {
        let log = || {
            let mut replay = Replay::new(search(prune, 90, 3), 3, curves.clone(), pace.clone());
            replay.go(usize::MAX).log.clone()
        };
        assert_eq!(log(), log());
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
fn a_worker_that_does_not_leave_is_ended_and_its_run_pauses_all_the_same() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 3), [90, 90]);
    pruner.learn(0, &[]);
    let mut q = Queue::new(vec![task(0, "cpu", 1.0), task(1, "cpu", 1.0)], &machine(2, &[]), None).pruner(Some(pruner));
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0.len(), 2);
    let said = tell(&mut q, 1.0, Input::Learned { run: id(0), values: vec![(10, 2.0)] }).1;
    assert_eq!(said, [Action::Stop { run: id(0) }]);
    assert_eq!(tell(&mut q, 20.0, Input::Tick).1, []);
    assert_eq!(tell(&mut q, 31.0, Input::Tick).1, [Action::Kill { run: id(0) }]);
    let why = "1st of 1 at step 10: the best third goes on".to_owned();
    let pause = Action::Pause { run: id(0), why: why.clone() };
    assert_eq!(ends(&mut q, 32.0, 0, killed()).1, [pause, report(0, RunState::Paused { step: 40, why })]);
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

#[test]
fn the_median_is_of_what_others_had_on_average_by_then() {
    let mut pruner = Pruner::new(search(Prune::Median, 20, 3), [90; 4]);
    // What is measured before the first update does not count.
    pruner.learn(0, &[(0, 100.0), (10, 4.0), (20, 2.0), (30, 1.0)]); // 3 by step 20
    pruner.learn(1, &[(0, 100.0), (10, 5.0), (20, 5.0)]); // 5 by step 20
    pruner.learn(2, &[(0, 100.0), (10, 4.1), (20, 4.2)]);
    let verdicts = pruner.verdicts();
    let behind = Reason::Median { best: 4.1, median: 4.0, others: 2, step: 20 };
    assert_eq!(verdicts[2], Verdict::Pauses(behind.clone()));
    assert_eq!(behind.to_string(), "4.1000 by step 20: worse than 4.0000, the median of 2 others");
    assert_eq!((&verdicts[0], &verdicts[3]), (&Verdict::GoesOn, &Verdict::GoesOn), "none, and nothing to judge");
    pruner.is(0, Fate::Out);
    assert_eq!(pruner.verdicts()[2], Verdict::GoesOn, "what failed is worse than any number");
    pruner.is(0, Fate::Done);
    pruner.learn(1, &[(10, 5.0)]);
    assert_eq!(pruner.verdicts()[2], Verdict::GoesOn, "one other that has come as far is not enough");
}

#[test]
fn a_run_counts_at_a_rung_by_what_it_was_there_between_its_evaluations() {
    let mut pruner = Pruner::new(search(Prune::Asha, 10, 2), [90; 3]);
    let pauses = |rank, of| Verdict::Pauses(Reason::Rank { rank, of, step: 10, reduction: 2 });
    // 2.36 on the line between the two over the logarithm of the step, though it is at 1 when it is heard of.
    pruner.learn(0, &[(8, 3.0), (16, 1.0)]);
    pruner.learn(1, &[(10, 2.3)]);
    assert_eq!((pruner.mark(0), pruner.mark(1), pruner.mark(2)), (Some(10), Some(10), None));
    assert_eq!(pruner.verdicts()[..2], [pauses(2, 2), Verdict::GoesOn]);
    pruner.learn(1, &[(10, 2.4)]);
    assert_eq!(pruner.verdicts()[..2], [Verdict::GoesOn, pauses(2, 2)]);
    // Without a number before, what came first beyond stands for it.
    pruner.learn(2, &[(0, 9.0), (16, 2.37)]);
    assert_eq!(pruner.verdicts(), [Verdict::GoesOn, pauses(3, 3), pauses(2, 3)]);
    pruner.learn(2, &[(8, f64::NAN), (16, 2.35)]);
    assert_eq!(pruner.verdicts(), [pauses(2, 3), pauses(3, 3), Verdict::GoesOn]);
    let again = pruner.learn(0, &[(0, 9.0), (8, 3.0), (16, 1.0)]);
    assert!(!again && pruner.learn(0, &[(8, 1.0), (16, f64::NAN)]), "what is news");
    assert!(!pruner.learn(0, &[(8, 1.0), (16, f64::NAN)]), "NaN is NaN");
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
