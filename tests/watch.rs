//! `exp watch` in real processes: in a terminal beside a sweep, and without one.

mod lab;
mod pty;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use exp::event::RunState;
use lab::{Lab, Started, steps, until};
use pty::Terminal;
use rustix::process::Signal;

const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 30, batch: 4}
eval: {every: 10, batches: 2, batch: 4}
run: {device: cpu}
grid: {lr: [1e-2, 1e-3]}
";

fn lab() -> (tempfile::TempDir, Lab) {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    (dir, lab)
}

/// A sweep of one run that lasts, once it has made some steps.
fn lasting(lab: &Lab) -> Started {
    let spec = SPEC.replace("steps: 30", "steps: 1000000").replace("every: 10", "every: 1000");
    let spec = spec.replace("[1e-2, 1e-3]", "[1e-2]");
    let sweep = lab.start(&spec);
    until("it trains", || lab.folders().first().filter(|folder| steps(folder, 1) > 20).map(drop));
    sweep
}

fn watch(lab: &Lab, arguments: &[&str], width: u16, height: u16) -> Terminal {
    let mut command = lab.exp(&[&["watch"], arguments].concat());
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    Terminal::start(command, width, height)
}

/// All files below a folder but those of the index, with what they hold.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_index = path.file_name().unwrap().to_string_lossy().starts_with("exp.db");
            if path.is_dir() {
                folders.push(path);
            } else if !is_index {
                let content = fs::read(&path).unwrap();
                files.insert(path, content);
            }
        }
    }
    files
}

#[test]
fn without_a_terminal_it_prints_how_things_stand_once_and_writes_nothing() {
    let (_dir, lab) = lab();
    let nothing = lab.answers(&["watch"]);
    assert_eq!((nothing.0, nothing.1.as_str()), (Some(0), ""));
    assert!(nothing.2.contains("no runs under") && nothing.2.contains("`exp run SPEC`"), "{}", nothing.2);
    assert_eq!(lab.answers(&["watch", "tiny"]).0, Some(2), "as `exp ls tiny`");

    assert_eq!(lab.run(SPEC).0, Some(0));
    let before = files(&lab.path);
    for arguments in [&["watch"][..], &["watch", "tiny"]] {
        let (code, out, err) = lab.answers(arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        assert!(out.starts_with("tiny ") && out.contains("100 %   2 done"), "{out}");
        assert_eq!(out.matches("✓ done").count(), 2, "{out}");
        assert!(out.contains("30/30") && out.contains('█') && out.contains("cpu"), "{out}");
        assert!(!out.contains('\u{1b}') && out.lines().all(|line| line.trim_end() == line), "{out:?}");
    }
    assert_eq!(files(&lab.path), before);
    let (code, _, err) = lab.answers(&["watch", "tinny"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("there is none of that name") && err.contains("did you mean `tiny`?"), "{err}");
    assert_eq!(lab.answers(&["watch", "--interval", "0"]).0, Some(2));

    // A copy of the index alone, elsewhere.
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("runs")).unwrap();
    fs::copy(lab.root.database(), copy.path().join("runs/exp.db")).unwrap();
    let (code, out, err) = Lab::at(copy.path()).answers(&["watch"]);
    assert!(code == Some(0) && out.contains("✓ done") && out.contains('█'), "{out}{err}");
}

#[test]
fn a_run_is_seen_at_every_size_and_the_terminal_is_given_back() {
    let (_dir, lab) = lab();
    let _sweep = lasting(&lab);
    for leave in ["q", "\u{1b}", "\u{3}"] {
        let mut terminal = watch(&lab, &["--interval", "0.2"], 80, 24);
        terminal.until_shown("running");
        assert!(terminal.is_taken(), "{}", terminal.text());
        terminal.until("its loss is drawn", |terminal| terminal.text().contains(['▁', '█']));
        assert!(terminal.text().contains("1 running") && terminal.text().contains("devices"), "{}", terminal.text());
        terminal.resize(40, 10);
        terminal.until("it fits", |terminal| !terminal.text().contains("devices") && terminal.text().contains("tiny"));
        assert!(terminal.text().contains("q quit"), "{}", terminal.text());
        terminal.press("\r");
        terminal.until_shown("loss of run");
        terminal.press(leave);
        if leave == "\u{1b}" {
            terminal.until("the curve is closed", |terminal| !terminal.text().contains("loss of run"));
            terminal.press(leave);
        }
        assert_eq!(terminal.ended().code(), Some(0), "{}", terminal.text());
        terminal.until("all is as it was", Terminal::is_given_back);
    }
}

#[test]
fn a_signal_gives_the_terminal_back_and_takes_it_again() {
    let (_dir, lab) = lab();
    assert_eq!(lab.run(SPEC).0, Some(0));
    let mut terminal = watch(&lab, &["tiny"], 80, 24);
    for stop in ["\u{1a}", ""] {
        terminal.until_shown("2 done");
        terminal.until("it has the terminal", Terminal::is_taken);
        match stop {
            "" => terminal.signal(Signal::TSTP),
            key => terminal.press(key),
        }
        terminal.until("it is suspended", Terminal::is_given_back);
        assert!(!terminal.text().contains("2 done"), "{}", terminal.text());
        terminal.signal(Signal::CONT);
    }
    terminal.until_shown("2 done");
    terminal.until("it has the terminal again", Terminal::is_taken);
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.ended().code(), Some(130));
    terminal.until("all is as it was", Terminal::is_given_back);
}

#[test]
fn it_ends_with_its_terminal() {
    let (_dir, lab) = lab();
    assert_eq!(lab.run(SPEC).0, Some(0));
    for ignores_signals in [false, true] {
        let mut watch = lab.exp(&["watch"]);
        if ignores_signals {
            let program = watch.get_program().to_owned();
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program).args(watch.get_args());
            shell.envs(watch.get_envs().filter_map(|(name, value)| Some((name, value?))));
            watch = shell;
        }
        watch.env("TERM", "xterm-256color");
        let mut terminal = Terminal::start(watch, 80, 24);
        terminal.until_shown("2 done");
        terminal.hang_up("?");
        assert_eq!(terminal.ended().code(), Some(130));
    }
}

#[test]
fn a_run_is_cancelled_by_a_key_and_a_yes() {
    let (_dir, lab) = lab();
    let sweep = lasting(&lab);
    let id = lab.rows()[0].id.to_string();
    let mut terminal = watch(&lab, &["--interval", "0.2"], 80, 24);
    terminal.until_shown("running");
    terminal.press("c");
    terminal.until_shown(&format!("cancel {}? y/n", &id[..6]));
    terminal.press("n");
    terminal.until_shown("q quit");
    assert!(matches!(lab.rows()[0].state, RunState::Running { .. }), "no is no");
    terminal.press("cy");
    terminal.until_shown("is stopped after step");
    terminal.until_shown("1 interrupted");
    assert!(matches!(lab.rows()[0].state, RunState::Interrupted { step } if step > 20), "{:?}", lab.rows());
    assert_eq!(sweep.exit(), Some(130), "as by `exp cancel`");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
    terminal.until("all is as it was", Terminal::is_given_back);
}

#[test]
fn a_sweep_that_begins_while_it_is_watched_is_seen() {
    let (_dir, lab) = lab();
    let terminal = watch(&lab, &["--interval", "0.2"], 80, 24);
    terminal.until_shown("no runs under");
    assert_eq!(lab.run(SPEC).0, Some(0));
    terminal.until_shown("2 done");
}
