//! `exp cancel`: what runs stops with a checkpoint, what waits is not begun, and the next `exp run` goes on.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::Path,
    process::Stdio,
    sync::OnceLock,
    time::{Duration, Instant},
};

use crate::lab::Curves;
use exp::{
    base::{
        RunId,
        lease::Lease,
        machine::{Identity, Standing},
    },
    event::RunState,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::*;

const SOON: Duration = Duration::from_secs(5);

/// What [`SPEC`] gives when nothing happens to it.
fn straight() -> &'static Curves {
    static STRAIGHT: OnceLock<Curves> = OnceLock::new();
    STRAIGHT.get_or_init(|| {
        let lab = Lab::new();
        assert_eq!(lab.run(SPEC, &[]).code, Some(0));
        lab.curves()
    })
}

/// One of two runs is cancelled by another process; its worker may have been stopped by a signal before.
fn one_of_two(is_stopped: bool) {
    let lab = Lab::new();
    let scheduler = lab.start(SPEC, &[]);
    let (run, worker) = lab.worker_at(60);
    if is_stopped {
        kill_process(worker, Signal::STOP).unwrap();
    }
    let begun = Instant::now();
    let cancel = std::thread::scope(|scope| {
        let cancel = scope.spawn(|| lab.also(&["cancel", &run.to_string()[..12], "--json"]));
        let gone = gone_after(begun, worker);
        assert!(gone < SOON, "it took {gone:?}");
        cancel.join().unwrap()
    });
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    let rows: Value = serde_json::from_str(&cancel.out).unwrap();
    assert_eq!((&rows[0]["state"], &rows[1]), (&"interrupted".into(), &Value::Null), "{cancel:?}");
    assert!(rows[0]["step"].as_u64().unwrap() >= 50, "{cancel:?}");
    let ended = scheduler.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    for row in lab.rows() {
        match row.id == run {
            true => assert!(matches!(row.state, RunState::Interrupted { step } if step >= 50), "{row:?}"),
            false => assert_eq!(row.state, RunState::Done),
        }
        assert_eq!(row.attempts, 1, "it is not tried again");
    }
    assert_eq!(lab.run(SPEC, &[]).code, Some(0));
    assert!(lab.curves() == *straight(), "the same bits as a straight run");
}

#[test]
fn a_cancelled_run_checkpoints_and_leaves_and_its_sibling_goes_on() {
    one_of_two(false);
}

#[test]
fn a_cancelled_run_that_cannot_answer_is_killed() {
    one_of_two(true);
}

#[test]
fn an_experiment_is_cancelled_with_all_that_waits() {
    let lab = Lab::new();
    let spec = SPEC.replace("seeds: 2", "seeds: 4");
    let scheduler = lab.start(&spec, &["--jobs", "1"]);
    let (_, worker) = lab.worker_at(10);
    let begun = Instant::now();
    let cancel = lab.also(&["cancel", "tiny"]);
    assert!(gone_after(begun, worker) < SOON);
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    let ended = scheduler.ended();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let states = lab.states();
    assert_eq!(states, ["interrupted", "skipped: cancelled", "skipped: cancelled", "skipped: cancelled"]);
    assert!(lab.rows()[1..].iter().all(|row| row.attempts == 0));

    assert_eq!(lab.also(&["store", "rebuild"]).code, Some(0));
    assert_eq!(lab.states(), states, "the journals keep it");
    let again = lab.run(&spec, &[]);
    assert_eq!(again.code, Some(0), "a new `exp run` wants it after all: {again:?}");
    assert!(lab.rows().iter().all(|row| row.state == RunState::Done));
}

#[test]
fn who_waits_for_a_cancelled_run_does_not_take_it_over() {
    let lab = Lab::new();
    let spec = SPEC.replace("seeds: 2", "").replace("steps: 1500", "steps: 100000");
    let first = lab.start(&spec, &[]);
    let (run, worker) = lab.worker_at(1);
    let mut second = lab.start(&spec, &[]);
    let said = second.0.as_mut().unwrap().stderr.take().unwrap();
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("1 trained by another process")), "it waits");
    std::thread::sleep(Duration::from_millis(500)); // until it does
    let begun = Instant::now();
    assert_eq!(lab.also(&["cancel", &run.to_string()]).code, Some(0));
    assert!(gone_after(begun, worker) < SOON);
    assert_eq!((first.ended().code, second.ended().code), (Some(130), Some(130)));
    assert_eq!(lab.rows()[0].attempts, 1);
}

#[test]
fn a_worker_without_a_scheduler_heeds_a_cancel() {
    let lab = Lab::new();
    let (store, plan) = lab.plan(&SPEC.replace("seeds: 2", "").replace("steps: 1500", "steps: 100000"));
    drop(store);
    let run = plan.runs[0].frozen.id;
    let folder = lab.root.run(&run);
    let args =
        ["worker", "--run", folder.path().to_str().unwrap(), "--attempt", "1", "--device", "cpu", "--threads", "1"];
    let spec = std::fs::read_to_string(lab.folder.path().join("tiny.yaml")).unwrap();
    let mut command = lab.exp(&spec, &args);
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut worker = command.spawn().unwrap(); // whose standard input stays open
    assert_eq!(lab.worker_at(60).1, Pid::from_child(&worker));
    let begun = Instant::now();
    let cancel = lab.also(&["cancel", &run.to_string()]);
    assert_eq!((cancel.code, worker.wait().unwrap().code()), (Some(0), Some(130)), "{cancel:?}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(matches!(lab.rows()[0].state, RunState::Interrupted { step } if step >= 60), "{:?}", lab.rows());
}

/// Who has a run, by its lease.
fn holder(lab: &Lab, run: &RunId) -> Identity {
    Lease::read(&lab.root.run(run).lock()).unwrap().unwrap().0.identity
}

/// Cancels a run whose worker is stopped, and whose scheduler does not end it.
fn cancel_from_outside(lab: &Lab, run: &RunId) {
    let worker = holder(lab, run);
    assert_eq!(worker.stands(), Standing::Alive);
    let begun = Instant::now();
    let (cancel, gone) = std::thread::scope(|scope| {
        let cancel = scope.spawn(|| lab.also(&["cancel", &run.to_string()]));
        until("its worker is gone", || (worker.stands() == Standing::Gone).then_some(()));
        let gone = begun.elapsed();
        (cancel.join().unwrap(), gone)
    });
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    let said = format!("its worker, process {}, was killed", worker.pid);
    assert!(cancel.err.contains(&said) && cancel.err.contains("is stopped after step"), "{cancel:?}");
    assert!(gone < SOON, "it took {gone:?}");
    assert!(matches!(lab.rows()[0].state, RunState::Interrupted { step } if step > 0), "{:?}", lab.rows());
}

#[test]
fn a_worker_that_is_stopped_and_whose_scheduler_was_killed_is_ended_by_the_cancel_itself() {
    let lab = Lab::new();
    // Steps that take long: it has not left yet when it is stopped, though it sees that its scheduler is gone.
    let wide = "model: {layers: 4, heads: 2, d_model: 128, context: 64}";
    let spec = SPEC.replace("model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}", wide);
    let spec =
        spec.replace("seeds: 2", "").replace("batch: 16", "batch: 64, grad_accum: 8").replace("every: 50", "every: 1");
    let mut scheduler = lab.start(&spec, &[]);
    let (run, worker) = lab.worker_at(3);
    let child = scheduler.0.as_mut().unwrap();
    child.kill().unwrap();
    child.wait().unwrap(); // the system lets those go on that are stopped when their parent dies
    kill_process(worker, Signal::STOP).unwrap();
    cancel_from_outside(&lab, &run);
}

#[test]
fn a_worker_that_is_stopped_with_its_scheduler_is_ended_by_the_cancel_itself() {
    let lab = Lab::new();
    let spec = SPEC.replace("seeds: 2", "").replace("device: cpu", "device: cpu, retries: 0");
    let scheduler = lab.start(&spec, &[]);
    let (run, worker) = lab.worker_at(60);
    let pid = Pid::from_child(scheduler.0.as_ref().unwrap());
    kill_process(pid, Signal::STOP).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    cancel_from_outside(&lab, &run);
    kill_process(pid, Signal::CONT).unwrap();
    let ended = scheduler.ended();
    assert_eq!(ended.code, Some(130), "it takes the death of its worker for what it was: {ended:?}");
    let row = lab.rows().remove(0);
    assert!(matches!(row.state, RunState::Interrupted { step } if step >= 50), "{row:?}");
    assert_eq!(row.attempts, 1);
    assert_eq!(lab.run(&spec, &[]).code, Some(0));
    let (curves, run) = (lab.curves(), lab.rows()[0].id);
    assert!(curves[&run] == straight()[&run], "the same bits as a straight run");
}

#[test]
fn an_index_that_somebody_keeps_locked_is_in_the_way_of_no_cancel() {
    let lab = Lab::new();
    let scheduler = lab.start(&SPEC.replace("seeds: 2", ""), &[]);
    let (run, worker) = lab.worker_at(60);
    // What a scheduler does that is stopped while it writes.
    let pid = Pid::from_child(scheduler.0.as_ref().unwrap());
    kill_process(pid, Signal::STOP).unwrap();
    kill_process(worker, Signal::STOP).unwrap();
    let rude = rusqlite::Connection::open(lab.root.database()).unwrap();
    rude.busy_timeout(Duration::from_millis(1)).unwrap();
    // Where it was stopped while it wrote indeed, nothing has to be played.
    let _ = rude.execute_batch("BEGIN IMMEDIATE");
    let holder = holder(&lab, &run);
    let cancel = lab.also(&["cancel", &run.to_string()]);
    assert_eq!(holder.stands(), Standing::Gone, "{cancel:?}");
    assert!(cancel.err.contains("keeps the index locked"), "{cancel:?}");
    let listed = lab.also(&["ls"]);
    assert!(listed.code == Some(0) && listed.err.contains("what follows is as it was before"), "{listed:?}");
    drop(rude);
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(scheduler.ended().code, Some(130));
    assert!(matches!(lab.rows()[0].state, RunState::Interrupted { step } if step >= 50), "{:?}", lab.rows());
}

#[test]
fn a_run_of_another_machine_is_asked_for_and_nobody_here_is_killed() {
    let lab = Lab::new();
    let run = lab.plan(&SPEC.replace("seeds: 2", "")).1.runs[0].frozen.id;
    let mut sleep = std::process::Command::new("sleep");
    let mut sleeper = sleep.arg("600").process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let started = started(Path::new(&format!("/proc/{}/stat", sleeper.id())));
    let identity = Identity { host: "vega".into(), pid: sleeper.id(), started, ..Identity::me() };
    let lease = Lease { identity, ..Lease::new(1) };
    std::fs::write(lab.root.run(&run).lock(), serde_json::to_string(&lease).unwrap()).unwrap();
    let cancel = lab.also(&["cancel", &run.to_string()]);
    let is_alive = sleeper.try_wait().unwrap().is_none();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(is_alive, "{cancel:?}");
    assert_eq!(cancel.code, Some(1), "{cancel:?}");
    assert!(cancel.err.contains(&format!("is trained by process {} on vega", lease.identity.pid)), "{cancel:?}");
    let journal = std::fs::read_to_string(lab.root.run(&run).journal()).unwrap();
    assert!(journal.contains("cancelled"), "its worker finds the request: {journal}");
}

/// When a process was started, in the kernel's ticks.
fn started(stat: &Path) -> u64 {
    std::fs::read_to_string(stat).unwrap().rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap()
}

#[test]
fn what_is_over_needs_no_cancel_and_that_is_said() {
    let lab = Lab::new();
    let spec = SPEC.replace("steps: 1500", "steps: 5");
    assert_eq!(lab.run(&spec, &[]).code, Some(0));
    let cancel = lab.also(&["cancel", "tiny"]);
    assert_eq!(cancel.code, Some(0), "{cancel:?}");
    assert_eq!(cancel.err.matches("is done: there is nothing to cancel").count(), 2, "{cancel:?}");
    assert!(cancel.out.contains("done"), "{cancel:?}");
    let unknown = lab.also(&["cancel", "tinny"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(!lab.root.run(&lab.rows()[0].id).journal().exists(), "nothing is asked of a run that is done");
}
