//! Checkpoints that the disk damages, or does not give back any more, met by real processes: what is lost is the way back
//! to the checkpoint before, and no bit of the result.

mod lab;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use exp::{
    event::{Event, RunState},
    train::checkpoint,
};
use lab::{Curves, Lab, assert_same, copy, events, steps, until, worker};
use rustix::process::{Signal, kill_process};

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 400, batch: 8}
eval: {every: 100, batches: 2, batch: 4}
checkpoint: {every: 20}
run: {device: cpu}
";

/// What [`SPEC`] gives when nothing happens to it.
fn straight() -> &'static Curves {
    static STRAIGHT: OnceLock<Curves> = OnceLock::new();
    STRAIGHT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(dir.path());
        assert_eq!(lab.run(SPEC).0, Some(0));
        lab.curves()
    })
}

/// A root whose one run was stopped with two checkpoints to go on from.
fn stopped() -> &'static Path {
    static STOPPED: OnceLock<tempfile::TempDir> = OnceLock::new();
    let stopped = STOPPED.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let lab = Lab::at(dir.path());
        let scheduler = lab.start(SPEC);
        let folder = until("it has begun", || lab.folders().into_iter().next());
        until("it has checkpoints", || (steps(&folder, 1) > 50).then_some(()));
        scheduler.signal(Signal::INT);
        assert_eq!(scheduler.exit(), Some(130));
        assert!(checkpoint::list(&folder).unwrap().len() >= 2);
        dir
    });
    stopped.path()
}

/// A copy of [`stopped`], with the path of its newest checkpoint and the steps of this and of the one before.
fn scene(dir: &tempfile::TempDir) -> (Lab, PathBuf, [u64; 2]) {
    copy(stopped(), dir.path());
    let lab = Lab::at(dir.path());
    let all = checkpoint::list(&lab.folder()).unwrap();
    (lab, all[0].path.clone(), [all[0].step, all[1].step])
}

fn from_step(lab: &Lab, attempt: u32) -> Option<u64> {
    events(&lab.folder(), attempt).iter().find_map(|event| match event {
        Event::Ready(ready) => Some(ready.from_step),
        _ => None,
    })
}

#[test]
fn damage_to_any_file_of_the_newest_checkpoint_leads_back_to_the_one_before() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 2] = [
        ("cut", |bytes| bytes.truncate(bytes.len() - 1)),
        ("flipped", |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }),
    ];
    for file in ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"] {
        for (how, damage) in damages {
            let dir = tempfile::tempdir().unwrap();
            let (lab, newest, [step, before]) = scene(&dir);
            let path = newest.join(file);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();

            let (exit, said) = lab.run(SPEC);
            let story = format!("{file} {how}");
            assert_eq!(exit, Some(0), "{story}: {said}");
            let moved = format!("damaged-step-{step}.attempt-1");
            assert!(said.contains(&format!("passed over a damaged checkpoint, which is now {moved}: ")), "{said}");
            assert!(file == "manifest.json" || said.contains(&format!("step-{step}.attempt-1/{file}")), "{said}");
            assert!(newest.with_file_name(&moved).is_dir(), "{story}: nothing is deleted");
            assert_eq!(from_step(&lab, 2), Some(before), "{story}");
            assert_same(&lab.curves(), straight(), &story);
        }
    }
}

#[test]
fn a_checkpoint_that_failed_to_load_twice_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, newest, [step, before]) = scene(&dir);
    let model = newest.join("model.safetensors");
    fs::remove_file(&model).unwrap();
    std::os::unix::fs::symlink(&model, &model).unwrap(); // reading it fails, and not because it is not there
    let (exit, said) = lab.run(SPEC);
    assert_eq!(exit, Some(4), "{said}");
    assert!(said.contains("(try 1 of 1)") && said.contains("model.safetensors"), "{said}");
    assert!(newest.exists() && lab.folder().attempts().unwrap() == [1, 2, 3], "both tries are for the newest: {said}");
    assert!(matches!(&lab.rows()[0].state, RunState::Failed { why } if why.contains("symbolic link")));

    let (exit, said) = lab.run(SPEC);
    assert_eq!(exit, Some(0), "{said}");
    let name = format!("step-{step}.attempt-1");
    let words =
        format!("the checkpoint {name} failed to load twice; it is now bad-{name}; going on from step {before}");
    assert!(said.contains(&words), "{said}");
    assert!(newest.with_file_name(format!("bad-{name}")).is_dir() && !newest.exists());
    assert_eq!(from_step(&lab, 4), Some(before));
    assert_same(&lab.curves(), straight(), "a bad checkpoint");

    let logs = lab.exp(&["logs", &lab.rows()[0].id.to_string(), "--attempt", "4"]).output().unwrap();
    let logs = String::from_utf8(logs.stdout).unwrap();
    assert!(logs.contains(&format!("loading the checkpoint step-{before}.attempt-1")), "{logs}");
}

#[test]
fn a_worker_that_is_killed_while_it_loads_says_nothing_of_the_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, newest, [step, _]) = scene(&dir);
    // A pipe that nobody writes to: who reads it waits for ever.
    let state = newest.join("state.json");
    let away = dir.path().join("away");
    fs::rename(&state, &away).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&state).status().unwrap();
    assert!(made.success());
    let manifest = newest.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let size = fs::metadata(&away).unwrap().len();
    fs::write(&manifest, text.replace(&format!("\"bytes\": {size}"), "\"bytes\": 0")).unwrap();

    let scheduler = lab.start(SPEC);
    for attempt in [2, 3] {
        let folder = lab.folder();
        let loading = || events(&folder, attempt).iter().any(|e| matches!(e, Event::Loading { .. })).then_some(());
        until("it loads", loading);
        kill_process(worker(&folder, attempt).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(scheduler.exit(), Some(4));
    fs::remove_file(&state).unwrap();
    fs::rename(&away, &state).unwrap();
    fs::write(&manifest, text).unwrap();
    let (exit, said) = lab.run(SPEC);
    assert_eq!((exit, from_step(&lab, 4)), (Some(0), Some(step)), "{said}");
    assert_same(&lab.curves(), straight(), "killed twice while loading");
}

#[test]
fn an_index_with_a_damaged_page_says_what_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, ..) = scene(&dir);
    let list = || {
        let output = lab.exp(&["ls", "--json"]).output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), lab::answer(output))
    };
    let (before, (exit, _)) = list();
    assert_eq!(exit, Some(0));
    let index = lab.root.database();
    let whole = fs::read(&index).unwrap();
    let size = match u16::from_be_bytes([whole[16], whole[17]]) {
        1 => 1 << 16,
        size => usize::from(size),
    };
    let mut refused = 0;
    for page in 0..whole.len() / size {
        let mut bytes = whole.clone();
        bytes[page * size..(page + 1) * size].fill(0xff);
        fs::write(&index, &bytes).unwrap();
        let (listed, (exit, said)) = list();
        match exit {
            Some(0) => assert_eq!(listed, before, "page {page} is not read for this"),
            other => {
                assert_eq!(other, Some(5), "page {page}: {said}");
                assert!(said.contains("exp.db") && said.contains("hint: `exp store rebuild`"), "page {page}: {said}");
                refused += 1;
            }
        }
        assert!(fs::read(&index).unwrap() == bytes, "page {page}: the file is left as it is");
        if page == 0 || (refused == 2 && exit != Some(0)) {
            let (exit, said) = lab::answer(lab.exp(&["store", "rebuild"]).output().unwrap());
            assert_eq!(exit, Some(0), "{said}");
            assert_eq!(list().0, before, "page {page}");
        }
    }
    assert!(refused > 1, "the first page, and more");
}

#[test]
fn logs_end_with_the_last_whole_line() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let (lab, ..) = scene(&dir);
    let id = lab.rows()[0].id.to_string();
    let logs = || String::from_utf8(lab.exp(&["logs", &id, "--json"]).output().unwrap().stdout).unwrap();
    let whole = logs();
    let path = lab.folder().events(1);
    assert_eq!(whole, fs::read_to_string(&path).unwrap());
    let half = &whole.lines().last().unwrap()[..20];
    fs::File::options().append(true).open(&path).unwrap().write_all(half.as_bytes()).unwrap();
    assert_eq!(logs(), whole);
}
