//! Stories of how runs end that were cancelled, that fail fast, or whose device is broken.

use super::*;
use crate::{base::Exit, spec::RunConfig};

fn cancelled() -> RunState {
    RunState::Skipped { why: CANCELLED.into() }
}

fn cancel(queue: &mut Queue, at: f64, n: usize) -> Vec<Action> {
    tell(queue, at, Input::Cancelled { run: id(n) }).1
}

#[test]
fn a_cancelled_run_is_stopped_and_then_killed_and_not_tried_again() {
    let mut q = queue(2, 2, None);
    tell(&mut q, 0.0, Input::Tick);
    assert_eq!(cancel(&mut q, 1.0, 0), [Action::Stop { run: id(0) }]);
    assert_eq!(cancel(&mut q, 1.5, 0), [], "it was asked already");
    assert_eq!(tell(&mut q, 3.9, Input::Tick).1, []);
    assert_eq!(tell(&mut q, 4.0, Input::Tick).1, [Action::Kill { run: id(0) }]);
    assert_eq!(tell(&mut q, 5.0, Input::Tick).1, []);
    assert_eq!(ends(&mut q, 5.0, 0, killed()), (vec![], vec![report(0, RunState::Interrupted { step: 40 })]));
    assert!(!q.is_over(), "the other goes on");
    ends(&mut q, 6.0, 1, done());
    assert!(q.is_over());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.done, summary.interrupted), (Exit::Interrupted, vec![id(1)], vec![id(0)]));
}

#[test]
fn a_cancelled_run_that_waits_is_not_started() {
    let mut tasks: Vec<_> = (0..4).map(|n| task(n, "cpu", 1.0)).collect();
    tasks[2].0.from = Some(7);
    let mut q = Queue::new(tasks, &machine(1, &[]), None);
    tell(&mut q, 0.0, Input::Tick);
    assert_eq!(cancel(&mut q, 1.0, 1), [report(1, cancelled())]);
    assert_eq!(cancel(&mut q, 1.0, 2), [report(2, RunState::Interrupted { step: 7 })]);
    assert_eq!(ends(&mut q, 1.0, 0, killed()).0, [(3, 1)]);
    assert_eq!(cancel(&mut q, 1.1, 0), [report(0, RunState::Interrupted { step: 40 })], "it was to be tried again");
    assert_eq!(ends(&mut q, 2.0, 3, done()).0, []);
    assert!(q.is_over());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.queued), (Exit::Interrupted, vec![id(1)]));
}

#[test]
fn a_run_that_is_cancelled_while_it_starts_is_stopped_or_does_not_start() {
    let mut q = queue(2, 2, None);
    assert_eq!(q.step(seconds(0.0), Input::Tick).len(), 2);
    assert_eq!(q.step(seconds(0.0), Input::Cancelled { run: id(0) }), []);
    assert_eq!(q.step(seconds(0.0), Input::Cancelled { run: id(1) }), []);
    assert_eq!(
        q.step(seconds(2.0), Input::Granted { run: id(0), threads: 1, company: false }),
        [Action::Stop { run: id(0) }]
    );
    assert_eq!(tell(&mut q, 4.9, Input::Tick).1, [], "it has its time to write a checkpoint");
    assert_eq!(tell(&mut q, 5.0, Input::Tick).1, [Action::Kill { run: id(0) }]);
    assert_eq!(q.step(seconds(5.0), busy(id(1))), [report(1, cancelled())]);
}

#[test]
fn a_cancelled_run_of_another_process_is_not_taken_over() {
    let mut q = queue(4, 4, None);
    tell(&mut q, 0.0, Input::Tick);
    for n in 0..4 {
        ends(&mut q, 0.0, n, Ended::Elsewhere);
    }
    (0..3).for_each(|n| assert_eq!(cancel(&mut q, 1.0, n), []));
    let settled = |n, state| Input::Settled { run: id(n), state };
    let state = RunState::Interrupted { step: 5 };
    assert_eq!(tell(&mut q, 2.0, settled(0, state.clone())), (vec![], vec![report(0, state)]));
    assert_eq!(tell(&mut q, 2.0, settled(1, RunState::Done)).1, [report(1, RunState::Done)]);
    assert_eq!(tell(&mut q, 5.9, Input::Tick).1, []);
    assert_eq!(tell(&mut q, 6.0, Input::Tick).1, [report(2, cancelled())], "whoever has it does not let go of it");
    assert_eq!(tell(&mut q, 7.0, settled(3, cancelled())).0, [(3, 4)], "that was before anybody asked us for it");
}

#[test]
fn what_a_cancelled_run_comes_to_all_the_same_counts() {
    let failed = Outcome::Failed { why: "no route to host".into(), retry: true };
    for (ended, state) in [
        (done(), RunState::Done),
        (stopped(7), RunState::Interrupted { step: 7 }),
        (Ended::Finished(failed), RunState::Failed { why: "no route to host".into() }),
    ] {
        let (mut run, standing) = task(0, "cpu", 1.0);
        run.timeout = Some(seconds(2.0));
        let mut q = Queue::new(vec![(run, standing)], &machine(1, &[]), None);
        tell(&mut q, 0.0, Input::Tick);
        cancel(&mut q, 1.0, 0);
        tell(&mut q, 2.0, Input::Tick);
        assert_eq!(ends(&mut q, 2.5, 0, ended), (vec![], vec![report(0, state)]));
    }
}

#[test]
fn who_fails_fast_stops_the_others_at_the_first_final_failure() {
    let mut q = queue(4, 3, None).fail_fast(true);
    tell(&mut q, 0.0, Input::Tick);
    ends(&mut q, 1.0, 0, killed());
    assert!(!q.is_over(), "it is tried again");
    assert_eq!(ends(&mut q, 2.0, 3, done()).0, [(0, 1)]);
    let said = ends(&mut q, 3.0, 0, killed()).1;
    assert_eq!(said[1], report(0, RunState::Failed { why: "killed by SIGKILL".into() }));
    assert!(matches!(&said[2], Action::Say(what) if what.contains("--fail-fast")), "{said:?}");
    assert_eq!(said[3..], [Action::Stop { run: id(1) }, Action::Stop { run: id(2) }]);
    ends(&mut q, 4.0, 1, stopped(7));
    let again = Ended::Finished(Outcome::Failed { why: "NaN".into(), retry: false });
    assert_eq!(ends(&mut q, 4.0, 2, again).1.len(), 1, "that is said once");
    assert!(q.is_over());
    let summary = q.summary();
    assert_eq!(summary.exit(), Exit::RunFailed);
    assert_eq!((summary.failed, summary.interrupted), (vec![id(0), id(2)], vec![id(1)]));
}

#[test]
fn a_person_may_hurry_those_who_stop_because_another_failed() {
    let mut q = queue(3, 2, None).fail_fast(true);
    tell(&mut q, 0.0, Input::Tick);
    let failed = Ended::Finished(Outcome::Failed { why: "NaN".into(), retry: false });
    ends(&mut q, 1.0, 0, failed);
    assert_eq!(tell(&mut q, 1.0, Input::Signal).1[0], Action::Stop { run: id(1) }, "the first that a person sends");
    assert_eq!(tell(&mut q, 2.0, Input::Signal).1, [Action::Kill { run: id(1) }]);
    ends(&mut q, 2.0, 1, killed());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.queued), (Exit::Interrupted, vec![id(2)]));
}

/// A queue of runs that ask for those devices, with retries, on a machine with two GPUs.
fn on_gpus(devices: &[&str], retries: u32) -> Queue {
    let tasks = devices.iter().enumerate().map(|(n, device)| task(n, device, 1.0));
    let tasks = tasks.map(|(task, standing)| (Task { retries, ..task }, standing));
    Queue::new(tasks.collect(), &machine(2, &["cuda:0", "cuda:1"]), None)
}

/// Steps the queue and carries out its starts; returns where which run was started, and what was said.
fn place(queue: &mut Queue, at: f64, input: Input) -> (Vec<String>, Vec<String>) {
    let (mut started, mut said, mut inputs) = (Vec::new(), Vec::new(), vec![input]);
    while let Some(input) = inputs.pop() {
        for action in queue.step(seconds(at), input) {
            match action {
                Action::Start { run, device, threads, .. } => {
                    started.push(format!("{} on {device}", run.0[0]));
                    inputs.push(Input::Granted { run, threads, company: false });
                }
                Action::Say(what) => said.push(what),
                _ => {}
            }
        }
    }
    (started, said)
}

fn dies(queue: &mut Queue, at: f64, n: usize) -> (Vec<String>, Vec<String>) {
    place(queue, at, Input::Ended { run: id(n), ended: killed() })
}

#[test]
fn a_device_on_which_three_runs_in_a_row_fail_at_once_is_set_aside() {
    let mut q = on_gpus(&["cuda"; 5], 1);
    assert_eq!(place(&mut q, 0.0, Input::Tick).0, ["0 on cuda:0", "1 on cuda:1"]);
    assert_eq!(dies(&mut q, 1.0, 0).0, ["2 on cuda:0"]);
    assert_eq!(dies(&mut q, 2.0, 2).0, ["0 on cuda:0"]);
    let (started, said) = dies(&mut q, 3.0, 0);
    assert_eq!(started, [""; 0], "nothing more is started on it");
    assert_eq!(said, ["cuda:0 is set aside after three failures within seconds: killed by SIGKILL"]);
    let ended = |n| Input::Ended { run: id(n), ended: done() };
    assert_eq!(place(&mut q, 4.0, ended(1)), (vec!["2 on cuda:1".into()], vec![]));
    assert_eq!(place(&mut q, 5.0, ended(2)).0, ["3 on cuda:1"]);
    assert_eq!(place(&mut q, 6.0, ended(3)).0, ["4 on cuda:1"]);
    place(&mut q, 7.0, ended(4));
    assert!(q.is_over());
    assert_eq!((q.summary().done.len(), q.summary().failed), (4, vec![id(0)]));
}

#[test]
fn one_bad_run_alone_does_not_condemn_a_device() {
    let mut q = on_gpus(&["cuda:0"], 5);
    place(&mut q, 0.0, Input::Tick);
    for death in 0..5 {
        assert!(dies(&mut q, 100.0 * f64::from(death) + 1.0, 0).1[0].contains("starting it again"));
        assert_eq!(place(&mut q, 100.0 * f64::from(death + 1), Input::Tick).0, ["0 on cuda:0"]);
    }
    assert_eq!(dies(&mut q, 501.0, 0).1, [""; 0]);
    assert_eq!(q.summary().failed, [id(0)]);
}

#[test]
fn what_a_device_is_not_to_blame_for_does_not_count() {
    let nan = || Ended::Finished(Outcome::Failed { why: "NaN".into(), retry: false });
    let full = || Ended::Died { why: "no space left".into(), step: 0, retry: false };
    // A run that did well in between, one that lived longer, two that would fail anywhere.
    for (life, ended) in [(1.0, done()), (10.5, killed()), (1.0, nan()), (1.0, full())] {
        let mut q = on_gpus(&["cuda:0"; 4], 0);
        place(&mut q, 0.0, Input::Tick);
        dies(&mut q, 1.0, 0);
        dies(&mut q, 2.0, 1);
        assert_eq!(
            place(&mut q, 2.0 + life, Input::Ended { run: id(2), ended: ended.clone() }).1,
            [""; 0],
            "{ended:?}"
        );
        place(&mut q, 14.0, Input::Ended { run: id(3), ended: done() });
        assert!(q.is_over() && !q.summary().by_failure, "{ended:?}");
    }
}

#[test]
fn the_cpu_is_never_set_aside() {
    let mut q = on_gpus(&["cpu"; 5], 0);
    place(&mut q, 0.0, Input::Tick);
    for n in 0..5 {
        assert_eq!(dies(&mut q, 1.0, n).1, [""; 0]);
    }
    assert_eq!((q.is_over(), q.summary().failed.len()), (true, 5));
}

#[test]
fn runs_for_which_no_device_is_left_end_as_not_started() {
    let mut q = on_gpus(&["cuda:0", "cuda:0", "cuda:0", "cuda:0", "cpu"], 1);
    assert_eq!(place(&mut q, 0.0, Input::Tick).0, ["0 on cuda:0", "4 on cpu"]);
    dies(&mut q, 0.1, 0);
    dies(&mut q, 0.2, 1);
    let (started, said) = dies(&mut q, 0.3, 2);
    assert_eq!((started.len(), said.len()), (0, 3), "{said:?}");
    assert_eq!(said[1], "no device is left for 3 runs: they are not started");
    assert!(said[2].ends_with("killed by SIGKILL; no device is left to start it again on"), "{said:?}");
    assert!(!q.is_over(), "the run on the CPU goes on");
    place(&mut q, 5.0, Input::Ended { run: id(4), ended: done() });
    assert!(q.is_over());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.queued, summary.interrupted.len()), (Exit::RunFailed, vec![id(3)], 3));
}

#[test]
fn a_run_that_dies_again_and_again_waits_a_minute_at_most() {
    let mut q = on_gpus(&["cpu"], 20);
    place(&mut q, 0.0, Input::Tick);
    let mut now = 0.0;
    for death in 0..20 {
        assert_eq!(dies(&mut q, now, 0).0, [""; 0]);
        let wait = (0.5 * 2f64.powi(death)).min(60.0);
        assert_eq!(place(&mut q, now + wait - 0.1, Input::Tick).0, [""; 0], "after death {death}");
        now += wait;
        assert_eq!(place(&mut q, now, Input::Tick).0, ["0 on cpu"], "after death {death}");
    }
}

#[test]
fn what_needs_more_than_a_run_that_ran_out_of_memory_is_skipped() {
    let needs = |layers: usize, lr: f64| {
        let mut config = RunConfig::default();
        (config.model.layers, config.train.lr) = (layers, lr);
        Some(Needs::of(&config))
    };
    let sweep = || {
        let points = [(2, 1e-3), (4, 1e-3), (8, 1e-3), (8, 1e-4), (3, 1e-3), (8, 1e-3)];
        let mut tasks: Vec<_> = (0..6).map(|n| task(n, "cpu", 1.0)).collect();
        tasks.iter_mut().zip(points).for_each(|(task, (layers, lr))| task.0.needs = needs(layers, lr));
        tasks[5].0.from = Some(7);
        tasks
    };
    let why = "out of memory: killed by SIGKILL".to_owned();
    let full = || Ended::Died { why: why.clone(), step: 0, retry: false };
    let mut q = Queue::new(sweep(), &machine(1, &[]), None);
    tell(&mut q, 0.0, Input::Tick);
    ends(&mut q, 1.0, 0, done());
    let (started, said) = ends(&mut q, 2.0, 1, full());
    let reason = format!("needs more than {} which ran out of memory", id(1).short());
    let skipped = RunState::Skipped { why: reason.clone() };
    assert_eq!(said[2..], [Action::Skip { run: id(2), why: reason }, report(2, skipped)]);
    assert_eq!(started, [(3, 1)], "which learns at another rate");
    assert_eq!(ends(&mut q, 3.0, 3, done()).0, [(4, 1)], "which is smaller");
    assert_eq!(ends(&mut q, 4.0, 4, done()).0, [(5, 1)], "which has shown that it fits");
    ends(&mut q, 5.0, 5, done());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.failed, summary.skipped), (Exit::RunFailed, vec![id(1)], vec![id(2)]));

    let mut tasks = sweep();
    tasks[2].0.needs = None;
    let mut q = Queue::new(tasks, &machine(1, &[]), None);
    tell(&mut q, 0.0, Input::Tick);
    ends(&mut q, 1.0, 0, done());
    assert_eq!(ends(&mut q, 2.0, 1, full()).0, [(2, 1)], "that is tried in any case");
}

#[test]
fn what_was_skipped_before_stays_so_and_counts_as_left_out() {
    let mut tasks: Vec<_> = (0..2).map(|n| task(n, "cpu", 1.0)).collect();
    tasks[0].1 = Standing::Ended(RunState::Skipped { why: "too large".into() });
    let mut q = Queue::new(tasks, &machine(2, &[]), None);
    assert_eq!(tell(&mut q, 0.0, Input::Tick).0, [(1, 2)]);
    ends(&mut q, 1.0, 1, done());
    let summary = q.summary();
    assert_eq!((summary.exit(), summary.skipped, summary.done), (Exit::RunFailed, vec![id(0)], vec![id(1)]));
}
