//! Runs, experiments, curves, attempts and files, as they are asked for.

use std::fs;

use exp::{
    base::{Exit, files::Lock},
    event::{Eval, Event, FileRef, Note, Outcome, RunState, Step},
    store::{Artifact, Store},
};

use crate::common::*;

#[test]
fn a_run_tells_what_its_events_told() {
    let (home, mut store, ids) = Home::with_runs(1);
    let id = &ids[0];
    let row = store.run(id).unwrap().unwrap();
    assert_eq!((row.state, row.step, row.attempts, row.best), (RunState::Queued, 0, 0, None));
    assert_eq!((row.experiments, row.config), (vec!["sweep".to_owned()], frozen(0).config));

    home.append(id, 1, &[started(1), ready(0), eval(0, 4.0)]);
    for k in 1..=20 {
        home.append(id, 1, &[step(k, 4.0 - k as f64 / 10.0)]);
    }
    home.append(id, 1, &[eval(10, 2.5), eval(20, 3.0), checkpointed(20, 1, &[])]);
    home.append(id, 1, &[Event::Warning { at: 1, message: "the \"corpus\" is short".into() }]);
    home.append(id, 1, &[finished(Outcome::Done)]);
    store.ingest(id).unwrap();

    let row = store.run(id).unwrap().unwrap();
    assert_eq!((row.state, row.step, row.attempts), (RunState::Done, 20, 1));
    assert_eq!((row.best, row.last_val_loss), (Some((10, 2.5)), Some(3.0)));
    assert_eq!(row.tokens_per_second, Some(1011.5), "the median of the speeds at the steps 3 to 20");
    assert_eq!(row.ready.unwrap().engine, "tape");

    let metrics = store.metrics(id).unwrap();
    assert_eq!(metrics["train/loss"].len(), 20);
    assert_eq!(metrics["train/loss"][4], (5, 3.5));
    assert_eq!(metrics["val/loss"], [(0, 4.0), (10, 2.5), (20, 3.0)]);
    let names: Vec<_> = metrics.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "data_ms",
            "eval/train_loss",
            "eval_ms",
            "grad_norm",
            "lr",
            "memory_bytes",
            "step_ms",
            "tokens_per_second",
            "train/loss",
            "val/bits_per_char",
            "val/loss"
        ],
        "no `mfu` where no peak was measured"
    );

    let attempts = store.attempts(id).unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].started.at, attempts[0].ended, attempts[0].outcome.as_str()), (10, Some(99), "done"));
    assert_eq!(attempts[0].warnings, ["the \"corpus\" is short"]);
}

#[test]
fn numbers_survive() {
    let (home, mut store, ids) = Home::with_runs(2);
    home.append(&ids[1], 1, &[started(1), ready(0), eval(0, f64::NAN), eval(1, f64::NEG_INFINITY)]);
    store.ingest(&ids[1]).unwrap();
    assert_eq!(store.run(&ids[1]).unwrap().unwrap().best, None);

    let losses = [0.1 + 0.2, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-300, 3.0, -0.0, f64::MAX];
    home.append(&ids[0], 1, &[started(1), ready(0)]);
    for (k, &loss) in (1..).zip(&losses) {
        home.append(&ids[0], 1, &[step(k, loss), eval(k, loss)]);
    }
    store.ingest(&ids[0]).unwrap();
    let bits = |name| store.curve(&ids[0], name).unwrap().iter().map(|p| p.value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits("train/loss"), losses.map(f64::to_bits));
    assert_eq!(bits("val/loss"), losses.map(f64::to_bits));
    let row = store.run(&ids[0]).unwrap().unwrap();
    assert_eq!(row.best, Some((7, -0.0)), "what is not finite is never best");

    let odd = Step { step: 9, loss: 1.0, lr: f64::NAN, tokens_per_second: f64::INFINITY, ..Step::default() };
    let odd = Step { step_ms: f64::NAN, data_ms: f64::NEG_INFINITY, mfu: Some(f64::INFINITY), ..odd };
    home.append(&ids[0], 1, &[Event::Step(odd)]);
    home.append(&ids[0], 1, &[Event::Eval(Eval { step: 9, val_loss: f64::NAN, eval_ms: f64::NAN, ..Eval::default() })]);
    store.ingest(&ids[0]).unwrap();
    let row = store.run(&ids[0]).unwrap().unwrap();
    assert!(row.last_val_loss.unwrap().is_nan());
    assert_eq!(row.best, Some((7, -0.0)));
    let metrics = store.metrics(&ids[0]).unwrap();
    let odd = |name: &str| metrics[name].last().unwrap().1;
    assert!(odd("lr").is_nan() && odd("step_ms").is_nan() && odd("eval_ms").is_nan());
    assert_eq!((odd("data_ms"), odd("tokens_per_second")), (f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!((odd("mfu"), store.damage().unwrap()), (f64::INFINITY, vec![]));
}

#[test]
fn resumes_leave_one_value_per_step() {
    let (home, mut store, ids) = Home::with_runs(1);
    let id = &ids[0];
    let steps = |from: u64, to: u64, loss: f64| (from..=to).map(|k| step(k, loss)).collect::<Vec<_>>();
    home.append(id, 1, &[started(1), ready(0), eval(0, 1.0)]);
    home.append(id, 1, &steps(1, 10, 1.0));
    home.append(id, 1, &[eval(6, 1.0), eval(8, 1.0)]);
    store.ingest(id).unwrap();
    home.append(id, 2, &[started(2), ready(6)]);
    store.ingest(id).unwrap();
    assert_eq!(store.curve(id, "train/loss").unwrap().len(), 6, "what lies beyond the resume is void at once");
    assert_eq!(store.metrics(id).unwrap()["val/loss"], [(0, 1.0), (6, 1.0)], "the checkpoint came after its eval");

    home.append(id, 2, &[eval(6, 2.0)]);
    home.append(id, 2, &steps(7, 9, 2.0));
    store.ingest(id).unwrap();
    home.append(id, 3, &[started(3), ready(8)]);
    home.append(id, 3, &steps(9, 12, 3.0));
    // A worker that was thought dead goes on writing.
    home.append(id, 1, &steps(11, 13, 1.0));
    home.append(id, 1, &[eval(3, 1.5), eval(6, 1.0), finished(Outcome::Done)]);
    store.ingest(id).unwrap();
    let curve = store.curve(id, "train/loss").unwrap();
    let attempts: Vec<_> = curve.iter().map(|p| (p.step, p.attempt)).collect();
    let expected: Vec<_> = (1..=12)
        .map(|k| {
            (
                k,
                if k <= 6 {
                    1
                } else if k <= 8 {
                    2
                } else {
                    3
                },
            )
        })
        .collect();
    assert_eq!(attempts, expected);
    assert_eq!(store.metrics(id).unwrap()["val/loss"], [(0, 1.0), (3, 1.5), (6, 2.0)], "the latest counts");
    assert_eq!(
        store.run(id).unwrap().unwrap().state,
        RunState::Interrupted { step: 0 },
        "the third attempt says nothing"
    );

    home.append(id, 4, &[started(4), ready(0)]);
    store.ingest(id).unwrap();
    assert!(store.metrics(id).unwrap().is_empty(), "who starts anew evaluates anew");
    let row = store.run(id).unwrap().unwrap();
    assert_eq!((row.step, row.best, row.last_val_loss, row.tokens_per_second, row.attempts), (0, None, None, None, 4));
}

#[test]
fn speed_is_that_of_the_latest_attempt_while_it_runs_and_after() {
    let (home, mut store, ids) = Home::with_runs(1);
    let speed = |store: &Store| store.run(&ids[0]).unwrap().unwrap().tokens_per_second;
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0), step(2, 1.0)]);
    home.append(&ids[0], 2, &[started(2), ready(1), step(2, 1.0), step(3, 1.0), step(4, 1.0)]);
    store.ingest(&ids[0]).unwrap();
    assert_eq!(speed(&store), Some(1003.0));
    home.append(&ids[0], 2, &[step(5, 1.0), step(6, 1.0), finished(Outcome::Interrupted { step: 6 })]);
    store.ingest(&ids[0]).unwrap();
    assert_eq!(speed(&store), Some(1004.0));
    home.append(&ids[0], 3, &[started(3), ready(6), finished(Outcome::Done)]);
    store.ingest(&ids[0]).unwrap();
    assert_eq!(speed(&store), Some(1004.0), "an attempt without a step has no speed");
}

#[test]
fn a_run_is_running_while_its_lock_is_held() {
    let (home, mut store, ids) = Home::with_runs(2);
    let folder = home.root.run(&ids[0]);
    let state = |store: &Store| store.run(&ids[0]).unwrap().unwrap().state;
    let held = Lock::try_take(&folder.lock()).unwrap().unwrap();
    assert!(matches!(state(&store), RunState::Running { .. }), "it has not said so yet");
    home.append(&ids[0], 1, &[started(1), ready(39)]);
    home.append(&ids[0], 1, &(40..=50).map(|k| step(k, 1.0)).collect::<Vec<_>>());
    store.ingest(&ids[0]).unwrap();
    assert_eq!(store.run(&ids[0]).unwrap().unwrap().step, 50);
    assert_eq!(state(&store), RunState::Running { slot: "cpu".into(), since: 10 });
    assert_eq!(store.attempts(&ids[0]).unwrap()[0].outcome, "running");
    assert_eq!(store.run(&ids[1]).unwrap().unwrap().state, RunState::Queued);

    drop(held);
    let manifest = folder.checkpoints().join("step-40.attempt-1/manifest.json");
    fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    fs::write(manifest, r#"{"files": []}"#).unwrap();
    assert_eq!(state(&store), RunState::Interrupted { step: 40 });
    assert_eq!(store.run(&ids[0]).unwrap().unwrap().step, 40, "what it goes on from, not what it logged");
    assert_eq!(store.attempts(&ids[0]).unwrap()[0].outcome, "killed");

    store.note(&ids[0], &Note::GaveUp { at: 1, attempt: 1, why: "killed by signal 9".into() }).unwrap();
    assert_eq!(state(&store), RunState::Failed { why: "killed by signal 9".into() });
    assert_eq!(store.attempts(&ids[0]).unwrap()[0].outcome, "failed: killed by signal 9");
    home.append(&ids[0], 2, &[started(2), finished(Outcome::Interrupted { step: 3 })]);
    store.sync().unwrap();
    assert_eq!(state(&store), RunState::Interrupted { step: 3 }, "somebody tried again");
    assert_eq!(store.attempts(&ids[0]).unwrap()[1].outcome, "interrupted at step 3");
    store.note(&ids[0], &Note::GaveUp { at: 1, attempt: 2, why: "timed out".into() }).unwrap();
    assert_eq!(state(&store), RunState::Failed { why: "timed out".into() });
    assert_eq!(store.attempts(&ids[0]).unwrap()[1].outcome, "failed: timed out");
    store.note(&ids[0], &Note::GaveUp { at: 1, attempt: 3, why: "no such program".into() }).unwrap();
    assert_eq!(state(&store), RunState::Failed { why: "no such program".into() }, "it never came to an event");
}

#[test]
fn artifacts_are_the_files_that_are_kept() {
    let (home, mut store, ids) = Home::with_runs(1);
    let folder = home.root.run(&ids[0]);
    home.append(&ids[0], 1, &[started(1), checkpointed(1, 1, &[]), checkpointed(10, 1, &[])]);
    home.append(&ids[0], 1, &[checkpointed(20, 1, &["checkpoints/step-1.attempt-1"])]);
    fs::write(folder.log(1), "a warning\n").unwrap();
    for name in ["step-1.attempt-1", "step-10.attempt-1", "step-20.attempt-1"] {
        fs::create_dir_all(folder.checkpoints().join(name)).unwrap();
        fs::write(folder.checkpoints().join(name).join("model.safetensors"), "").unwrap();
        fs::write(folder.checkpoints().join(name).join("state.json"), "").unwrap();
    }
    store.ingest(&ids[0]).unwrap();
    let artifacts = store.artifacts(&ids[0]).unwrap();
    let found: Vec<_> =
        artifacts.iter().map(|a| (a.kind.as_str(), a.step, a.path.rsplit('/').next().unwrap())).collect();
    assert_eq!(
        found,
        [
            ("config", None, "config.json"),
            ("events", None, "events.jsonl"),
            ("log", None, "log.txt"),
            ("checkpoint", Some(10), "model.safetensors"),
            ("checkpoint", Some(10), "state.json"),
            ("checkpoint", Some(20), "model.safetensors"),
            ("checkpoint", Some(20), "state.json"),
        ]
    );
    for artifact in &artifacts {
        assert!(home.root.path().join(&artifact.path).exists(), "{} is relative to the root", artifact.path);
    }
    let config = fs::read(folder.config()).unwrap();
    assert_eq!(
        (artifacts[0].bytes, &artifacts[0].blake3),
        (config.len() as u64, &Some(blake3::hash(&config).to_string()))
    );
    assert_eq!((artifacts[2].bytes, &artifacts[2].blake3), (10, &None), "it may grow");
    assert_eq!((artifacts[3].bytes, &artifacts[3].blake3), (110, &Some(format!("{:064}", 10))));

    // A worker is killed after it renamed a checkpoint into place, before it says so.
    let late = folder.checkpoints().join("step-15.attempt-1");
    fs::create_dir_all(&late).unwrap();
    fs::write(late.join("model.safetensors"), "w").unwrap();
    let file = FileRef { name: "model.safetensors".into(), bytes: 1, blake3: "ab".into() };
    fs::write(late.join("manifest.json"), serde_json::json!({"files": [file]}).to_string()).unwrap();
    store.sync().unwrap();
    let all = store.artifacts(&ids[0]).unwrap();
    assert_eq!(all.iter().map(|a| a.step.unwrap_or(0)).collect::<Vec<_>>(), [0, 0, 0, 10, 10, 15, 20, 20]);
    let path = home.root.relative(&late.join("model.safetensors"));
    let found = Artifact { kind: "checkpoint".into(), step: Some(15), path, bytes: 1, blake3: Some("ab".into()) };
    assert_eq!(all[5], found);
}

#[test]
fn an_experiment_is_its_last_expansion_and_a_run_belongs_to_all() {
    let (_home, mut store, ids) = Home::with_runs(4);
    let subset = [frozen(3), frozen(1), frozen(5)];
    let later = exp::event::Expansion { at: 2_000, ..expansion(&subset) };
    store.register("it's \"new\"; 100% 😀", &later, &subset).unwrap();

    let names: Vec<_> = store.experiments().unwrap().iter().map(|e| e.name.clone()).collect();
    assert_eq!(names, ["it's \"new\"; 100% 😀", "sweep"]);
    let rows = store.runs(Some("it's \"new\"; 100% 😀")).unwrap();
    assert_eq!(rows.iter().map(|r| r.config.train.seed).collect::<Vec<_>>(), [3, 1, 5], "the grid's order");
    assert_eq!(
        store.runs(Some("sweep")).unwrap()[3].experiments,
        ["sweep", "it's \"new\"; 100% 😀"],
        "asked for first"
    );
    assert_eq!(
        store.run(&ids[3]).unwrap().unwrap().experiments,
        ["it's \"new\"; 100% 😀", "sweep"],
        "the latest first"
    );
    assert_eq!(store.runs(None).unwrap().len(), 5);

    store.register("sweep", &exp::event::Expansion { at: 3_000, ..expansion(&subset[..1]) }, &subset[..1]).unwrap();
    let sweep = store.experiment("sweep").unwrap();
    assert_eq!(
        (sweep.at, store.members("sweep").unwrap(), sweep.axes),
        (3_000, vec![ids[3]], vec!["train.seed".to_owned()])
    );
    assert_eq!(store.run(&ids[0]).unwrap().unwrap().experiments, [""; 0]);
}

#[test]
fn a_frozen_config_is_never_written_again() {
    let (home, mut store, _) = Home::with_runs(1);
    let path = home.root.run(&frozen(0).id).config();
    let before = fs::read(&path).unwrap();
    let mut other = frozen(0);
    other.config.checkpoint.keep_last = 9;
    store.register("sweep", &expansion(&[other.clone()]), &[other]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(store.runs(None).unwrap()[0].config.checkpoint.keep_last, 2);

    let mut twin = frozen(0);
    twin.id.0[31] ^= 1; // the same 16 digits, another run
    let error = store.register("sweep", &expansion(&[twin.clone()]), &[twin]).unwrap_err();
    assert_eq!(error.exit, Exit::Store);
    assert!(error.why.contains(&format!("belongs to the run {}", frozen(0).id)), "{error}");

    for name in ["..", "a/b", "/etc", "", "."] {
        assert_eq!(store.register(name, &expansion(&[]), &[]).unwrap_err().exit, Exit::Usage, "{name}");
    }
}

#[test]
fn prefixes_find_runs_or_say_what_is_near() {
    let (_home, store, ids) = Home::with_runs(40);
    for id in &ids {
        let digits = store.shortest(&[*id]).unwrap();
        assert_eq!(store.find(&id.to_string()[..digits]).unwrap().id, *id);
        assert_eq!(store.find(&id.to_string().to_uppercase()).unwrap().id, *id);
    }
    assert_eq!(store.shortest(&ids).unwrap(), 6);

    let some = store.find("").unwrap_err();
    assert_eq!(some.exit, Exit::Usage);
    assert!(some.why.starts_with("40 runs") && some.why.ends_with("and 30 more"), "{some}");
    assert!(some.why.contains("queued  sweep"), "{some}");

    let mut typo = ids[7].to_string()[..8].to_owned();
    typo.replace_range(5..6, if &typo[5..6] == "0" { "1" } else { "0" });
    let none = store.find(&typo).unwrap_err();
    assert_eq!(none.exit, Exit::Usage);
    assert_eq!(none.hint.unwrap(), format!("did you mean `{}`?", &ids[7].to_string()[..8]));
    assert!(store.find("sweep").unwrap_err().hint.unwrap().contains("is an experiment"));
    assert_eq!(store.find("'; DROP TABLE runs; --").unwrap_err().exit, Exit::Usage);

    let unknown = store.experiment("swep").unwrap_err();
    assert_eq!((unknown.exit, unknown.hint.as_deref()), (Exit::Usage, Some("did you mean `sweep`?")));
    assert_eq!(store.runs(Some("other")).unwrap_err().exit, Exit::Usage);
}

#[test]
fn shortest_tells_ids_from_all_that_are_stored() {
    let home = Home::new();
    let mut store = Store::open(&home.root).unwrap();
    let mut runs = [frozen(1), frozen(1), frozen(2)];
    runs[1].id.0[4] ^= 0x0f; // the first nine digits are the same
    store.register("sweep", &expansion(&runs), &runs).unwrap();
    assert_eq!(store.shortest(&[runs[0].id]).unwrap(), 10);
    assert_eq!(store.shortest(&[runs[2].id]).unwrap(), 6);
    assert_eq!(store.shortest(&[]).unwrap(), 6);
    assert!(store.find(&runs[0].id.to_string()[..9]).unwrap_err().why.starts_with("2 runs"));
}
