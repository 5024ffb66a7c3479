//! A worker that panics, in real processes, and a live view that does. This program is `exp` with a fault in its worker:
//! asked to `run`, it does what `exp` does, and starts itself as the worker; there the fault waits in a thread of the
//! worker's pool. Asked to `watch`, it waits for a file. The product has no switch for it.

mod lab;
mod pty;

use std::{
    env, fs,
    io::Read,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
};

use exp::{
    base::{folders::RunFolder, lease::Lease},
    event::{Event, Outcome, RunState},
};
use lab::{Lab, events, steps, until};
use pty::Terminal;

/// Where the fault of a worker lies: `ATTEMPT` once it trains, or `0` before it has an attempt's folder. Of a view: the file
/// that it waits for.
const FAULT: &str = "EXP_TEST_FAULT";

/// Set in all that this test starts.
const WITHIN: &str = "EXP_TEST_WITHIN";

const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16, dropout: 0.1}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 1000, batch: 16}
eval: {every: 100, batches: 2, batch: 4}
checkpoint: {every: 20}
run: {device: cpu}
";

/// What the fault says; the reason is the first line of it.
const WORDS: &str = "the loss went backwards\n  left: 1\n right: 2";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    // The commands that the tests below give; a filter of test names has not so many words.
    let is_command = |name: &str| words.len() > 3 && words.iter().any(|word| word == name);
    if is_command("worker") {
        thread::spawn(fault);
        return exp::cli::main();
    }
    if is_command("watch") {
        thread::spawn(|| {
            let file = env::var(FAULT).unwrap_or_default();
            until("it is to panic", || fs::exists(&file).unwrap().then_some(()));
            panic!("{WORDS}")
        });
        return exp::cli::main();
    }
    if is_command("run") {
        return exp::cli::main();
    }
    if words.first().is_some_and(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    // Whatever starts this program with other words must not start it for ever.
    assert!(env::var_os(WITHIN).is_none(), "started by itself as {words:?}");
    // SAFETY: no other thread runs yet.
    unsafe { env::set_var(WITHIN, "1") };
    a_run_whose_worker_panics_goes_on_from_its_checkpoint();
    a_run_whose_workers_all_panic_has_failed_and_says_why();
    a_panic_before_there_are_events_is_told_to_the_scheduler();
    a_view_that_panics_gives_the_terminal_back_and_says_why();
    println!("4 tests passed");
    ExitCode::SUCCESS
}

/// Panics in a worker, where it is told to by [`FAULT`].
fn fault() {
    let words: Vec<String> = env::args().collect();
    let after = |name: &str| words[words.iter().position(|word| word == name).unwrap() + 1].clone();
    let (folder, attempt) = (RunFolder::new(after("--run")), after("--attempt"));
    let faults = env::var(FAULT).unwrap_or_default();
    let has = |fault: &str| faults.split(' ').any(|word| word == fault);
    if has("0") {
        until("it has the run", || Lease::read(&folder.lock()).ok().flatten());
    } else if has(&attempt) {
        let attempt = attempt.parse().unwrap();
        let saved = |event: &Event| matches!(event, Event::Checkpointed(_));
        until("it has saved", || events(&folder, attempt).iter().any(saved).then_some(()));
        let so_far = steps(&folder, attempt);
        until("it trains", || (steps(&folder, attempt) > so_far + 5).then_some(()));
    } else {
        return;
    }
    // Several threads stumble over the same thing.
    (0..3).for_each(|_| rayon::spawn(|| panic!("{WORDS}")));
}

/// A root on which this very program is run, with a worker that panics in these attempts.
fn run_with(path: &Path, faults: &str) -> (Lab, Option<i32>, String) {
    let lab = Lab { program: env::current_exe().unwrap(), ..Lab::at(path) };
    let mut command = lab.command(SPEC);
    command.env(FAULT, faults).env("RUST_BACKTRACE", "full");
    let (code, said) = lab::answer(command.output().unwrap());
    (lab, code, said)
}

/// What the real `exp` answers.
fn ask(lab: &Lab, arguments: &[&str]) -> String {
    let lab = Lab::at(&lab.path);
    String::from_utf8(lab.exp(arguments).output().unwrap().stdout).unwrap()
}

/// A reason begins with this; the line follows.
fn place() -> String {
    format!("panicked at {}:", file!())
}

fn assert_no_backtrace(text: &str) {
    for word in ["stack backtrace", "RUST_BACKTRACE", "thread '", "std::panicking", " 0: "] {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
}

fn a_run_whose_worker_panics_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, code, said) = run_with(folder.path(), "1");
    assert_eq!(code, Some(0), "{said}");
    let again = "the loss went backwards; starting it again from its last checkpoint (try 1 of 1)";
    assert!(said.contains(&place()) && said.contains(again) && !said.contains("left: 1"), "{said}");
    assert_eq!(said.matches("the loss went backwards").count(), 1, "{said}");
    assert_no_backtrace(&said);
    let run = lab.folder();
    assert_eq!(run.attempts().unwrap(), [1, 2]);
    let (first, second) = (events(&run, 1), events(&run, 2));
    let Some(Event::Finished { at: died, outcome: Outcome::Failed { why, retry: true }, .. }) = first.last() else {
        panic!("it says how it ended: {:?}", first.last())
    };
    assert!(why.starts_with(&place()) && why.ends_with(": the loss went backwards"), "{why}");
    let ends = first.iter().filter(|event| matches!(event, Event::Finished { .. })).count();
    assert_eq!(ends, 1, "though three threads panicked");
    assert!(
        matches!(&second[0], Event::Started(started) if started.at >= died + 500),
        "it waits before it is tried again"
    );
    let from = second.iter().find_map(|event| match event {
        Event::Ready(ready) => Some(ready.from_step),
        _ => None,
    });
    assert!(from.unwrap() >= 10, "from a checkpoint");

    let id = lab.rows()[0].id.to_string();
    assert!(ask(&lab, &["show", &id]).contains(&format!("failed: {}", place())), "of its first attempt");
    let logs = ask(&lab, &["logs", &id]);
    assert!(logs.contains("standard error:") && logs.contains("left: 1"), "the log has all of it: {logs}");
    assert_no_backtrace(&logs);

    let folder = tempfile::tempdir().unwrap();
    let (straight, code, said) = run_with(folder.path(), "");
    assert_eq!(code, Some(0), "{said}");
    lab::assert_same(&lab.curves(), &straight.curves(), "a panic changes nothing");
}

fn a_run_whose_workers_all_panic_has_failed_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, code, said) = run_with(folder.path(), "1 2");
    assert_eq!(code, Some(4), "{said}");
    assert_no_backtrace(&said);
    let row = lab.rows().remove(0);
    assert_eq!(row.attempts, 2, "it is tried once more, and not again");
    let RunState::Failed { why } = &row.state else { panic!("{:?}", row.state) };
    assert!(why.starts_with(&place()) && why.ends_with(": the loss went backwards"), "{why}");
    let shown = ask(&lab, &["show", &row.id.to_string()]);
    assert!(shown.contains(&format!("state         failed: {why}")), "{shown}");
    assert!(ask(&lab, &["ls"]).contains(&format!("failed: {}", place())));
    assert_no_backtrace(&shown);
}

fn a_panic_before_there_are_events_is_told_to_the_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::at(folder.path());
    let id = lab::plan(&lab.root, &folder.path().join("spec.yaml"), SPEC).1.runs[0].frozen.id;
    let run = lab.root.run(&id);
    // It waits for its config, with the run in its hands.
    fs::remove_file(run.config()).unwrap();
    assert!(Command::new("mkfifo").arg(run.config()).status().unwrap().success());
    let mut worker = Command::new(env::current_exe().unwrap());
    worker.arg("worker").arg("--root").arg(folder.path()).arg("--run").arg(run.path());
    worker.args(["--attempt", "1", "--device", "cpu", "--threads", "1"]);
    worker.env(FAULT, "0").env("RUST_BACKTRACE", "full");
    let mut worker = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _open = worker.stdin.take();
    let code = worker.wait().unwrap().code();
    let (mut out, mut err) = (String::new(), String::new());
    worker.stdout.unwrap().read_to_string(&mut out).unwrap();
    worker.stderr.unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(code, Some(101), "{err}");
    let Ok(Event::Finished { outcome: Outcome::Failed { why, retry: true }, .. }) = serde_json::from_str(&out) else {
        panic!("{out}")
    };
    assert!(why.starts_with(&place()), "{why}");
    assert_no_backtrace(&err);
}

fn a_view_that_panics_gives_the_terminal_back_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab { program: env::current_exe().unwrap(), ..Lab::at(folder.path()) };
    let file = folder.path().join("fault");
    let mut command = lab.exp(&["watch", "--interval", "0.2"]);
    command.env(FAULT, &file).env("TERM", "xterm");
    let mut terminal = Terminal::start(command, 100, 24);
    terminal.until_shown("no runs under");
    terminal.until("it has the terminal", Terminal::is_taken);
    fs::write(file, "").unwrap();
    assert_eq!(terminal.ended().code(), Some(1));
    terminal.until("all is as it was", Terminal::is_given_back);
    terminal.until_shown("error: a fault of exp itself");
    assert!(terminal.text().contains("the loss went backwards"), "{}", terminal.text());
}
