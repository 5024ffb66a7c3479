//! `exp export` to tables and event files, as a person uses it and as other programs read it.

mod events;
mod folders;
#[allow(dead_code)]
#[path = "../store/common.rs"]
mod home;
#[path = "../lab/mod.rs"]
mod lab;
mod readers;
mod tables;

use std::{collections::BTreeMap, fs, path::Path};

use exp::{
    base::{RunId, clock::Millis},
    event::{Eval, Event, FileRef, Note, Outcome, Ready, Sampled, Started, Step},
    store::Store,
};
use home::Home;
use lab::Lab;

/// When the first attempt at the first run of [`made`] began.
const BEGAN: Millis = 1_700_000_000_000;

/// Three runs: one that was killed and went on, with values that are not finite and a text; one that failed; one that never
/// began.
fn made() -> (Home, Lab, Vec<RunId>) {
    let home = Home::new();
    let mut runs: Vec<_> = (1..=3).map(home::frozen).collect();
    runs[0].config.sample.prompt = Some("a, \"b\"\n'c' é\r\n".into());
    runs[0].config.train.lr = 1e-5;
    let mut store = Store::open(&home.root).unwrap();
    store.register("sweep", &home::expansion(&runs), &runs).unwrap();
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();

    let started = |at, attempt| Event::Started(Started { at, attempt, device: "cpu".into(), ..Started::default() });
    let ready = |at, from_step| {
        let (params, chars_per_token) = ((1 << 53) + 1, 2.5);
        Event::Ready(Ready { at, from_step, params, chars_per_token, engine: "cpu".into(), ..Ready::default() })
    };
    let step = |step, loss, grad_norm| {
        Event::Step(Step {
            step,
            loss,
            grad_norm,
            lr: 1e-3 / 3.0,
            step_ms: 5.25,
            tokens_per_second: 1e7,
            ..Step::default()
        })
    };
    let eval = |step, val_loss| Event::Eval(Eval { step, val_loss, eval_ms: 1.5, ..Eval::default() });
    let ended = |at, outcome| Event::Finished { at, outcome, peak_bytes: None };

    let first = [
        started(BEGAN, 1),
        ready(BEGAN + 500, 0),
        eval(0, 4.0),
        step(1, 3.5, 1e-300),
        step(2, f64::NAN, 0.1 + 0.2),
        step(3, 9.0, 9.0),
    ];
    home.append(&ids[0], 1, &first);
    for tag in ["look at this", "100 %"] {
        store.note(&ids[0], &Note::Tagged { at: 1, tag: tag.into() }).unwrap();
    }
    let text = "one\n# two\n";
    let path = home.root.run(&ids[0]).sample(4, 2);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let file = FileRef {
        name: "samples/step-4.attempt-2.txt".into(),
        bytes: text.len() as u64,
        blake3: blake3::hash(text.as_bytes()).to_string(),
    };
    let second = [
        started(BEGAN + 100_000, 2),
        ready(BEGAN + 100_500, 2),
        step(3, f64::INFINITY, f64::NEG_INFINITY),
        step(4, -0.0, 123_456_789.0),
        eval(4, 3.3),
        Event::Sampled(Sampled { at: BEGAN + 100_600, step: 4, file }),
        ended(BEGAN + 101_000, Outcome::Done),
    ];
    home.append(&ids[0], 2, &second);
    let why = "it said \"no\",\nand left".to_owned();
    let failed = [
        started(BEGAN + 7, 1),
        ready(BEGAN + 8, 0),
        step(1, 1.0, 1.0),
        ended(BEGAN + 9, Outcome::Failed { why, retry: false }),
    ];
    home.append(&ids[1], 1, &failed);
    store.sync().unwrap();
    let lab = Lab::at(home.root.path());
    (home, lab, ids)
}

/// Runs `exp export` there; its exit code and what it said.
fn export(lab: &Lab, arguments: &[&str], to: &Path) -> (Option<i32>, String) {
    let mut command = lab.exp(&["export"]);
    command.args(arguments).arg(to);
    lab::answer(command.output().unwrap())
}

/// As [`export`], and it must go well.
fn exported(lab: &Lab, arguments: &[&str], to: &Path) {
    let (code, said) = export(lab, arguments, to);
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
}

/// All files below a folder, by their names within it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => {
                found.extend(files(&entry.path()).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)))
            }
            false => drop(found.insert(name, fs::read(entry.path()).unwrap())),
        }
    }
    found
}
