//! What one process does for all, others wait for: they say so, can be stopped meanwhile, and wait for none that does not
//! get on.

mod lab;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use exp::{
    base::files::{self, Lock},
    base::machine::Identity,
    event::{Event, Outcome},
};
use lab::{Lab, Started, events, until};
use rustix::process::Signal;

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: text, path: text.txt}
train: {steps: 5, batch: 4}
eval: {every: 5, batches: 1, batch: 4}
run: {device: cpu}
";

/// A root with a text of so many lines.
fn lab(folder: &tempfile::TempDir, lines: usize) -> Lab {
    let text: String = (0..lines).map(|n| format!("{n} bottles of beer on the wall\n")).collect();
    fs::write(folder.path().join("text.txt"), text).unwrap();
    fs::write(folder.path().join("spec.yaml"), SPEC).unwrap();
    Lab::at(folder.path())
}

/// What lies in the token cache.
fn cached(lab: &Lab) -> Vec<PathBuf> {
    let entries = fs::read_dir(lab.root.cache().join("tokens")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn lock(lab: &Lab) -> Option<PathBuf> {
    cached(lab).into_iter().find(|path| path.extension().is_some_and(|e| e == "lock"))
}

/// `exp plan`, which tokenizes; a lease lasts so many seconds.
fn plan(lab: &Lab, lease: &str) -> Command {
    let mut command = lab.exp(&["plan", lab.path.join("spec.yaml").to_str().unwrap(), "--json"]);
    command.env("EXP_LEASE", lease).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_process_that_is_stopped_while_it_tokenizes_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder, 8_000_000);
    let mut first = Started(plan(&lab, "30").spawn().unwrap());
    let lock = until("it tokenizes", || {
        let lock = lock(&lab)?;
        files::read_json::<Identity>(&lock).ok().map(|_| lock)
    });
    first.signal(Signal::STOP);
    assert!(Lock::is_held(&lock).unwrap(), "it was too fast");

    let mut second = Started(plan(&lab, "30").spawn().unwrap());
    let mut said = BufReader::new(second.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = said.next().unwrap();
    let who = format!("waiting for process {} on {}, which tokenizes", first.0.id(), exp::base::machine::host());
    assert!(line.starts_with(&who) && line.contains("text.txt") && line.contains(lock.to_str().unwrap()), "{line}");
    second.signal(Signal::INT);
    assert_eq!(second.0.wait().unwrap().signal(), Some(Signal::INT.as_raw()), "it can be stopped");

    let third: Output = plan(&lab, "0.75").output().unwrap();
    let said = String::from_utf8_lossy(&third.stderr);
    assert!(third.status.success() && said.contains(&who), "{said}");
    first.signal(Signal::CONT);
    let mut planned = Vec::new();
    first.0.stdout.take().unwrap().read_to_end(&mut planned).unwrap();
    assert!(first.0.wait().unwrap().success(), "who comes second leaves what is there");
    assert_eq!(planned, third.stdout);
    let left = cached(&lab);
    assert_eq!(left.len(), 2, "tokens, their lock, and nothing aside: {left:?}");
    assert!(plan(&lab, "30").output().unwrap().stderr.is_empty(), "what is there is waited for by nobody");
}

#[test]
fn a_worker_that_waits_says_so_and_leaves_when_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder, 1000);
    let id = lab::plan(&lab.root, &folder.path().join("spec.yaml"), SPEC).1.runs[0].frozen.id;
    let tokens = cached(&lab).into_iter().find(|path| path.is_dir()).unwrap();
    fs::remove_dir_all(&tokens).unwrap();
    let _held = Lock::try_take(&lock(&lab).unwrap()).unwrap().unwrap();
    let run = lab.root.run(&id);
    let mut worker = lab.exp(&["worker", "--run", run.path().to_str().unwrap(), "--attempt", "1"]);
    worker.args(["--device", "cpu", "--threads", "1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = Started(worker.stderr(Stdio::null()).spawn().unwrap());
    let lines = BufReader::new(worker.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut events_said = lines.filter_map(|line| serde_json::from_str(&line).ok());
    let waits = |event: &Event| match event {
        Event::Warning { message, .. } => message.contains("which tokenizes the corpus"),
        _ => false,
    };
    assert!(events_said.any(|event| waits(&event)), "the scheduler can show it");
    worker.0.stdin.as_mut().unwrap().write_all(b"stop\n").unwrap();
    assert_eq!(worker.0.wait().unwrap().code(), Some(130));
    let last = events(&run, 1).pop();
    assert!(matches!(last, Some(Event::Finished { outcome: Outcome::Interrupted { step: 0 }, .. })), "{last:?}");
    let log = fs::read_to_string(run.log(1)).unwrap();
    assert_eq!(log.matches("waiting for").count(), 1, "{log}");
}
