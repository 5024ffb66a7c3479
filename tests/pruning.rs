//! Sweeps that stop what loses, with real processes: what a person sees of it, and what becomes of paused runs.

mod lab;

use std::{fs, process::Stdio, time::Duration};

use exp::{
    base::folders::RunFolder,
    event::{Note, RunState},
    store::{RunRow, Store},
};
use lab::{Lab, Started, assert_same, until};
use rustix::process::Signal;
use serde_json::Value;

/// Three runs of some seconds, of which one hardly learns.
const GRID: &str = "
experiment: tiny
model: {layers: 2, heads: 2, d_model: 32, context: 32, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 600, batch: 16, warmup_steps: 10}
eval: {every: 60, batches: 2, batch: 4}
checkpoint: {every: 60}
run: {device: cpu}
grid: {lr: [1e-6, 1e-2, 1e-3]}
";

const HOPELESS: f64 = 1e-6;
const BEST: f64 = 1e-2;

fn asha() -> String {
    format!("{GRID}search: {{prune: asha, min_steps: 60, reduction: 3}}\n")
}

/// The states of the runs by their learning rates.
fn of(rows: &[RunRow], lr: f64) -> &RunRow {
    rows.iter().find(|row| row.config.train.lr == lr).unwrap()
}

fn is_paused(row: &RunRow) -> bool {
    matches!(row.state, RunState::Paused { .. })
}

fn pauses(folder: &RunFolder) -> Vec<Note> {
    let journal = fs::read_to_string(folder.journal()).unwrap_or_default();
    let notes = journal.lines().filter_map(|line| serde_json::from_str(line).ok());
    notes.filter(|note| matches!(note, Note::Paused { .. })).collect()
}

#[test]
fn what_loses_pauses_and_goes_on_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let (code, said) = lab.run(&asha());
    assert_eq!(code, Some(0), "that runs pause is no failure: {said}");
    let rows = lab.rows();
    assert_eq!(of(&rows, BEST).state, RunState::Done, "{said}");
    let hopeless = of(&rows, HOPELESS);
    let RunState::Paused { step, why } = &hopeless.state else { panic!("{:?}: {said}", hopeless.state) };
    assert!((60..540).contains(step) && hopeless.step == *step, "{step}");
    // At which rung follows from when its worker left.
    let last = [60, 180, 540].map(|rung| format!(" at step {rung}: the best third goes on"));
    assert!(
        last.iter().any(|last| why.ends_with(last)) && !why.starts_with("1st of 1"),
        "as it stands in the end: {why}"
    );
    assert!(said.contains("2 of 3 runs paused: ") && said.contains(" FLOPs of the full grid saved, "), "{said}");

    // The same in every list, and from an index that is made anew.
    let listed = lab.json(&["ls", "--filter", "state == paused and lr == 1e-6"]);
    assert_eq!((&listed[0]["state"], &listed[0]["why"]), (&"paused".into(), &Value::from(why.as_str())), "{listed}");
    assert_eq!(listed[0]["step"], Value::from(*step));
    let (_, shown, _) = lab.answers(&["show", &hopeless.id.to_string()]);
    assert!(shown.contains(&format!("paused at step {step}: {why}; `exp resume ")), "{shown}");
    let (_, ids, said) = lab.answers(&["best", "tiny", "-n", "3"]);
    let of_hopeless = said.lines().find(|line| line.starts_with(&hopeless.id.short())).expect(&said);
    assert!(ids.lines().count() == 3 && of_hopeless.ends_with(&format!(", paused at step {step} of 600")), "{said}");
    assert_eq!(said.matches("paused").count(), 2, "{said}");
    drop(Store::rebuild(&lab.root).unwrap());
    assert_eq!(of(&lab.rows(), HOPELESS).state, hopeless.state);

    // Who runs it again starts nothing.
    let (code, said) = lab.run(&asha());
    assert_eq!((code, of(&lab.rows(), HOPELESS).attempts), (Some(0), hopeless.attempts), "{said}");
    assert!(said.contains("3 runs, 1 done already, 2 paused"), "{said}");

    // Who names it wants it; who takes the rule out of the spec wants all. They go on to the bits of a straight run.
    let (code, _, said) = lab.answers(&["resume", &hopeless.id.to_string()]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(of(&lab.rows(), HOPELESS).state, RunState::Done);
    let (code, said) = lab.run(GRID);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 paused, to continue") && !said.contains("saved"), "{said}");
    assert!(lab.rows().iter().all(|row| row.state == RunState::Done), "{:?}", lab.rows());
    let straight = tempfile::tempdir().unwrap();
    let straight = Lab::at(straight.path());
    assert_eq!(straight.run(GRID).0, Some(0));
    assert_same(&lab.curves(), &straight.curves(), "paused and gone on");
    let last = |lr| of(&straight.rows(), lr).last_val_loss.unwrap();
    assert!(last(BEST) < last(1e-3) && last(1e-3) < last(HOPELESS), "the survivor is the best of the full grid");
}

#[test]
fn decisions_go_on_from_the_store_when_the_scheduler_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let scheduler = lab.start(&asha());
    until("a run pauses", || lab.folders().iter().any(|folder| !pauses(folder).is_empty()).then_some(()));
    scheduler.signal(Signal::KILL);
    assert_eq!(scheduler.exit(), None);
    let (code, said) = lab.run(&asha());
    assert_eq!(code, Some(0), "{said}");
    let rows = lab.rows();
    assert_eq!(of(&rows, BEST).state, RunState::Done, "{said}");
    assert!(is_paused(of(&rows, HOPELESS)) && of(&rows, HOPELESS).step < 540, "{said}");
}

#[test]
fn decisions_go_on_from_the_store_after_an_interrupt() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let scheduler = lab.start(&asha());
    until("a run pauses", || lab.folders().iter().any(|folder| !pauses(folder).is_empty()).then_some(()));
    scheduler.signal(Signal::INT);
    assert_eq!(scheduler.exit(), Some(130));
    let was_paused: Vec<_> = lab.rows().into_iter().filter(is_paused).map(|row| row.id).collect();
    assert!(!was_paused.is_empty() && lab.rows().iter().any(|row| row.state != RunState::Done && !is_paused(row)));
    let (code, said) = lab.run(&asha());
    assert_eq!(code, Some(0), "{said}");
    let rows = lab.rows();
    assert_eq!(of(&rows, BEST).state, RunState::Done, "{said}");
    assert!(is_paused(of(&rows, HOPELESS)), "{said}");
}

#[test]
fn what_the_index_missed_while_it_was_locked_counts_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    // One after the other: the first pauses alone, the second, which is the best, is trained while the index is locked.
    let grid = GRID.replace("[1e-6, 1e-2, 1e-3]", "[1e-3, 1e-2, 1e-6]");
    let mut command = lab.command(&format!("{grid}search: {{prune: asha, min_steps: 60, reduction: 2}}\n"));
    let scheduler = command.arg("--jobs=1").stdout(Stdio::null()).stderr(Stdio::null());
    let scheduler = Started(scheduler.spawn().unwrap());
    let has_begun = |n| (lab.folders().len() == n).then_some(());
    until("the second run begins", || has_begun(2));
    let rude = rusqlite::Connection::open(lab.root.database()).unwrap();
    rude.busy_timeout(Duration::from_secs(60)).unwrap();
    rude.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("the third run begins", || has_begun(3));
    drop(rude);
    assert_eq!(scheduler.exit(), Some(0));
    let rows = lab.rows();
    assert_eq!(of(&rows, BEST).state, RunState::Done);
    // Of the two that were known at first, this one was the better.
    assert!(is_paused(of(&rows, 1e-3)) && is_paused(of(&rows, HOPELESS)), "{rows:?}");
}

#[test]
fn what_is_not_finite_pauses_whenever_it_is_evaluated_and_is_never_lifted() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    // One diverges and is trained on all the same; the runs are evaluated at steps of their own.
    let spec =
        GRID.replace("grid: {lr: [1e-6, 1e-2, 1e-3]}", "zip: [{lr: [1e30, 1e-2, 1e-3], eval.every: [20, 60, 50]}]");
    let spec = format!("{spec}on_nan: continue\nsearch: {{prune: asha, min_steps: 60, reduction: 2}}\n");
    let (code, said) = lab.run(&spec);
    assert_eq!(code, Some(0), "{said}");
    let rows = lab.rows();
    let lost = of(&rows, 1e30);
    let why = lost.state.why().unwrap_or_default();
    assert!(why.starts_with("not finite at step "), "{why}: {said}");
    assert!(is_paused(lost) && lost.step < 540, "{}: {said}", lost.step);
    assert_eq!(of(&rows, BEST).state, RunState::Done, "{said}");
    let (_, shown, _) = lab.answers(&["plan", lab.path.join("spec.yaml").to_str().unwrap()]);
    assert!(shown.contains(why) && shown.contains("0 of 3 runs to do"), "{shown}");
}

#[test]
fn commands_know_what_to_do_with_a_run_that_pauses() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let spec = GRID.replace("[1e-6, 1e-2, 1e-3]", "[1e-6, 1e-2]");
    let spec = format!("{spec}search: {{prune: asha, min_steps: 60, reduction: 2}}\n");
    assert_eq!(lab.run(&spec).0, Some(0));
    let id = of(&lab.rows(), HOPELESS).id.to_string();
    let path = lab.path.join("spec.yaml");
    let path = path.to_str().unwrap();
    let plan = lab.json(&["plan", path]);
    assert_eq!((&plan["totals"]["runs_to_do"], &plan["totals"]["flops"]), (&0.into(), &0.0.into()), "{plan}");
    let (code, _, said) = lab.answers(&["cancel", &id]);
    assert!(code == Some(0) && said.contains("is paused, neither running nor queued"), "{said}");
    for command in [&["verify"][..], &["gc"], &["store", "rebuild"]] {
        let (code, out, err) = lab.answers(command);
        assert_eq!(code, Some(0), "{command:?}: {out}{err}");
        assert!(is_paused(of(&lab.rows(), HOPELESS)), "{command:?}");
    }
    let folder = lab.path.join("tables");
    let (code, _, said) = lab.answers(&["export", "tiny", folder.to_str().unwrap(), "--format", "csv"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(fs::read_to_string(folder.join("runs.csv")).unwrap().contains("the best half goes on"));
    let (code, _, said) = lab.answers(&["rm", "--yes", "--where", "state == paused"]);
    assert_eq!((code, lab.rows().len()), (Some(0), 1), "{said}");
    let plan = lab.json(&["plan", path]);
    assert_eq!(plan["totals"]["runs_to_do"], 1, "{plan}");
}

#[test]
fn by_the_median_what_is_worse_than_the_others_pauses() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let spec = GRID.replace("[1e-6, 1e-2, 1e-3]", "[1e-2, 8e-3, 9e-3, 1e-6]");
    let (code, said) = lab.run(&format!("{spec}search: {{prune: median, metric: train/loss, min_steps: 60}}\n"));
    assert_eq!(code, Some(0), "{said}");
    let rows = lab.rows();
    let why = of(&rows, HOPELESS).state.why().unwrap_or_default().to_owned();
    assert!(is_paused(of(&rows, HOPELESS)) && why.contains("the median of "), "{said}");
    assert!(rows.iter().any(|row| row.state == RunState::Done), "{said}");
}

#[test]
fn a_plan_says_what_stops_runs() {
    let home = tempfile::tempdir().unwrap();
    let lab = Lab::at(home.path());
    let plan = |spec: &str, more: &[&str]| {
        let path = home.path().join("spec.yaml");
        fs::write(&path, spec).unwrap();
        lab.answers(&[&["plan", path.to_str().unwrap()], more].concat()).1
    };
    let text = plan(&asha(), &[]);
    assert!(text.contains("search: asha by val/loss: at steps 60, 180, 540 the best third of the runs"), "{text}");
    let json: Value = serde_json::from_str(&plan(&asha(), &["--json"])).unwrap();
    let rungs = serde_json::json!([60, 180, 540]);
    assert_eq!((&json["search"]["prune"], &json["search"]["rungs"]), (&"asha".into(), &rungs));
    // All three up to step 60, one of them from there to 600.
    let share = json["search"]["share"].as_f64().unwrap();
    assert!((share - 0.4).abs() < 1e-9 && text.contains("about 40 % of the full grid's FLOPs"), "{share}: {text}");
    let with: Vec<_> = json["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
    let json: Value = serde_json::from_str(&plan(GRID, &["--json"])).unwrap();
    let without: Vec<_> = json["runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
    assert_eq!((with, &json["search"]), (without, &Value::Null), "it is no part of a run's id");
}
