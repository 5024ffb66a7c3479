//! What people change while a sweep runs: the spec, the program, the text. Runs go by what they began with, or refuse.

mod lab;

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Stdio},
};

use exp::event::{Event, RunState};
use lab::{Lab, answer, assert_same, events, steps, until};
use rustix::process::Signal;

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 300, batch: 8}
eval: {every: 100, batches: 2, batch: 4}
run: {device: cpu}
seeds: 2
";

/// Waits until the first run of a sweep has logged a step.
fn first_step(lab: &Lab) {
    until("the first run trains", || lab.folders().first().filter(|folder| steps(folder, 1) > 0).map(drop));
}

/// Starts a sweep that trains one run after the other.
fn one_by_one(lab: &Lab, spec: &str) -> Child {
    let mut command = lab.command(spec);
    command.args(["--jobs", "1"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// [`SPEC`] on a text, long enough for a change in its midst.
fn on_text(text: &Path) -> String {
    fs::write(text, "To be, or not to be: that is the question. ".repeat(200)).unwrap();
    SPEC.replace("corpus: playbook, corpus_chars: 20000", &format!("corpus: text, path: {}", text.display()))
        .replace("steps: 300", "steps: 2000")
}

/// The one run that was begun second, and why it failed.
fn second(lab: &Lab) -> (u32, String) {
    let rows = lab.rows();
    let failed: Vec<_> = rows.iter().filter_map(|row| Some((row.attempts, row.state.why()?.to_owned()))).collect();
    let done = rows.iter().filter(|row| row.state == RunState::Done).count();
    assert_eq!((failed.len(), done), (1, 1), "{rows:?}");
    failed[0].clone()
}

#[test]
fn what_changes_during_a_sweep() {
    let (dir, straight) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let straight = Lab::at(straight.path());
    assert_eq!(straight.run(SPEC).0, Some(0));

    let mut lab = Lab::at(dir.path());
    let program = dir.path().join("exp");
    fs::copy(&lab.program, &program).unwrap();
    lab.program.clone_from(&program);
    let sweep = one_by_one(&lab, SPEC);
    until("the first run is ready", || {
        let ready = |folder| events(folder, 1).iter().any(|event| matches!(event, Event::Ready(_)));
        lab.folders().first().filter(|folder| ready(*folder)).map(drop)
    });
    fs::write(dir.path().join("spec.yaml"), "garbage: [").unwrap();
    let script = dir.path().join("script");
    fs::write(&script, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(script, &program).unwrap();
    let (exit, said) = answer(sweep.wait_with_output().unwrap());
    assert_eq!(exit, Some(0), "{said}");
    assert!(!said.contains("another build"), "{said}");
    assert_same(&lab.curves(), &straight.curves(), "with another spec and program in place");
}

#[test]
fn a_text_that_changes_fails_the_runs_that_begin_after() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, text) = (Lab::at(dir.path()), dir.path().join("text.txt"));
    let sweep = one_by_one(&lab, &on_text(&text));
    first_step(&lab);
    fs::File::options().append(true).open(&text).unwrap().write_all(b"!").unwrap();
    let (exit, said) = answer(sweep.wait_with_output().unwrap());
    assert_eq!(exit, Some(4), "{said}");
    let (attempts, why) = second(&lab);
    assert!(attempts == 1 && why.contains("has changed"), "{attempts}: {why}");
}

#[test]
fn a_text_that_is_removed_fails_the_runs_that_begin_after() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, text) = (Lab::at(dir.path()), dir.path().join("text.txt"));
    let sweep = one_by_one(&lab, &on_text(&text));
    first_step(&lab);
    fs::remove_file(&text).unwrap();
    let (exit, said) = answer(sweep.wait_with_output().unwrap());
    assert_eq!(exit, Some(4), "{said}");
    let (attempts, why) = second(&lab);
    assert!(attempts == 1 && why.contains(text.to_str().unwrap()), "{attempts}: {why}");
}

#[test]
fn a_run_whose_text_has_changed_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, text) = (Lab::at(dir.path()), dir.path().join("text.txt"));
    let sweep = lab.start(&on_text(&text).replace("seeds: 2", "seeds: 1"));
    first_step(&lab);
    sweep.signal(Signal::INT);
    assert_eq!(sweep.exit(), Some(130));
    let old = fs::read(&text).unwrap();
    fs::File::options().append(true).open(&text).unwrap().write_all(b"!").unwrap();
    let id = lab.rows()[0].id.to_string();
    let resume = || answer(lab.exp(&["resume", &id]).output().unwrap());
    let (exit, said) = resume();
    assert_eq!(exit, Some(3), "{said}");
    assert!(said.contains("no longer the text") && said.contains("hint: "), "{said}");
    assert_eq!(lab.rows()[0].attempts, 1);
    fs::write(&text, old).unwrap();
    let (exit, said) = resume();
    assert_eq!(exit, Some(0), "{said}");
}

#[test]
fn another_build_goes_on_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::at(dir.path());
    let spec = SPEC.replace("seeds: 2", "seeds: 1").replace("steps: 300", "steps: 2000");
    let sweep = lab.start(&spec);
    first_step(&lab);
    sweep.signal(Signal::INT);
    assert_eq!(sweep.exit(), Some(130));
    // The same code in a file that is not the same.
    let program = dir.path().join("exp");
    fs::copy(&lab.program, &program).unwrap();
    fs::File::options().append(true).open(&program).unwrap().write_all(b"built elsewhere").unwrap();
    lab.program = program;
    let (exit, said) = lab.run(&spec);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("the checkpoint was written by another build of exp: what follows may differ"), "{said}");
}

#[test]
fn a_config_of_a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let spec = SPEC.replace("seeds: 2", "seeds: 1").replace("steps: 300", "steps: 2000");
    let sweep = lab.start(&spec);
    first_step(&lab);
    sweep.signal(Signal::INT);
    assert_eq!(sweep.exit(), Some(130));
    let config = lab.folder().config();
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("\"format\": 1"), "{text}");
    fs::write(&config, text.replace("\"format\": 1", "\"format\": 12")).unwrap();
    let id = lab.rows()[0].id.to_string();
    for (exit, said) in [answer(lab.exp(&["resume", &id]).output().unwrap()), lab.run(&spec)] {
        assert_eq!(exit, Some(5), "{said}");
        assert!(said.contains("config.json: its format is 12") && said.contains("up to 1"), "{said}");
    }
}
