//! `exp rm`: what goes, what stays, and when it is refused.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime},
};

use exp::{
    base::{files::Lock, lease::Lease, machine::Identity},
    event::Note,
    store::running::{self, Running},
};
use serde_json::{Value, json};

use crate::{
    common::*,
    lab::{self, copy, until},
};

#[test]
fn a_run_is_removed_once_somebody_says_so_and_is_trained_again_when_it_is_wanted() {
    let home = Home::new();
    home.says(&["report", "tiny"]);
    let ids = home.ids();
    let folder = home.lab.root.run(&ids[1].parse().unwrap());
    let before = (all_below(home.path()).len(), home.lab.curves());

    let (code, out, err) = home.exp(&["rm", &ids[1], "--json"]);
    assert!(code == Some(2) && out.is_empty() && err.contains("this is no terminal"), "nothing goes: {out}");
    let (code, out, err) = home.exp(&["rm", &ids[1]]);
    assert!(code == Some(2) && err.contains("this is no terminal") && err.contains("hint: `--yes`"), "{err}");
    assert!(out.contains("tiny") && out.contains("4/4") && out.contains("KiB"), "it says what would go: {out}");
    let said = home.says(&["rm", &ids[1], "--dry-run"]);
    assert!(said.contains(&format!("would remove the run {}, ", &ids[1][..8])), "{said}");
    assert_eq!(all_below(home.path()).len(), before.0, "nothing was removed");

    let said = home.says(&["rm", &ids[1], "--yes"]);
    assert!(said.contains("removed the run") && said.contains("the report of tiny still shows it"), "{said}");
    assert!(!folder.path().exists() && !in_runs(&home).iter().any(|name| name.starts_with('.')));
    assert_eq!(home.ids(), [ids[0].clone(), ids[2].clone()]);
    home.says(&["report", "tiny"]);
    let table = fs::read_to_string(home.lab.root.report("tiny").join("summary.csv")).unwrap();
    assert!(table.contains(&ids[0]) && !table.contains(&ids[1]));
    let (code, _, err) = home.exp(&["rm", &ids[1], "--yes"]);
    assert!(code == Some(2) && err.contains("no run has an id that starts so"), "{err}");

    let (code, said) = home.lab.run(SPEC);
    assert!(code == Some(0) && said.contains("3 runs, 2 done already"), "{said}");
    assert_eq!(home.ids(), ids);
    assert_eq!(home.lab.curves(), before.1);
}

#[test]
fn an_experiment_goes_with_the_runs_that_are_no_others_and_with_what_exp_drew() {
    let home = Home::new();
    let ids = home.ids();
    let other = SPEC.replace("tiny", "other").replace("1e-3, 1e-2, 1e-1", "1e-2");
    assert_eq!(home.lab.run(&other).0, Some(0));
    home.says(&["report", "tiny"]);
    home.says(&["report", "other"]);
    let report = home.lab.root.report("tiny");
    fs::write(report.join("my notes.txt"), "mine").unwrap();
    let (_, _, err) = home.exp(&["rm", "tiny", "--dry-run"]);
    assert!(err.contains("reports/tiny: not written by exp: my notes.txt"), "{err}");
    assert!(err.contains(&format!("stays: run {}, which is of other too", &ids[1][..8])), "{err}");
    let plan = home.json(&["rm", "tiny", "--dry-run"]);
    assert_eq!(
        (plan["staying_files"].clone(), plan["staying_runs"].clone()),
        (json!(["reports/tiny/my notes.txt"]), json!([ids[1]]))
    );
    assert!(plan["runs"].as_array().unwrap().len() == 2 && plan["bytes"].as_u64().unwrap() > 10_000, "{plan}");

    let said = home.says(&["rm", "tiny", "--yes"]);
    let sum = |said: &str| said.lines().find_map(|line| Some(line.split_once("the experiment tiny")?.1.to_owned()));
    assert!(sum(&said).is_some_and(|sum| sum.ends_with("iB")) && sum(&said) == sum(&err), "{said} {err}");
    assert_eq!(all_below(&report), [report.join("my notes.txt")]);
    assert_eq!(home.json(&["ls"]).as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["ls", "other"])[0]["experiments"], json!(["other"]));
    assert!(!home.lab.root.experiment("tiny").exists());
    let (code, _, err) = home.exp(&["ls", "tiny"]);
    assert!(code == Some(2) && err.contains("there is none of that name"), "{err}");
    home.says(&["report", "other"]);

    // A report's folder that is a link: what it leads to is not ours.
    let outside = home.path().join("outside");
    fs::rename(home.lab.root.report("other"), &outside).unwrap();
    let drawn = all_below(&outside);
    symlink(&outside, home.lab.root.report("other")).unwrap();
    let said = home.says(&["rm", "other", "--yes"]);
    assert!(said.contains("reports/other, a link; not what it leads to"), "{said}");
    assert!(home.lab.root.report("other").symlink_metadata().is_err());
    assert!(drawn.len() >= 3 && all_below(&outside) == drawn);
    assert_eq!(in_runs(&home), ["cache", "experiments", "slots"]);
    assert_eq!(home.json(&["ls"]), json!([]));
    assert_eq!(home.lab.run(SPEC).0, Some(0));
}

#[test]
fn runs_are_removed_by_a_condition_and_names_must_be_clear() {
    let home = Home::new();
    let ids = home.ids();
    home.says(&["tag", &ids[0], "bad"]);
    home.says(&["rm", "--where", "\"bad\" in tags", "--yes"]);
    assert_eq!(home.ids(), ids[1..]);
    assert!(home.says(&["rm", "--where", "state == failed", "--yes"]).contains("there is no such run"));
    let (code, _, err) = home.exp(&["rm", "tinny", "--yes"]);
    assert!(code == Some(2) && err.contains("looking for"), "{err}");
    let (code, _, err) = home.exp(&["rm", "", "--yes"]);
    assert!(code == Some(2) && err.contains("an empty name names nothing"), "{err}");
    let (code, _, err) = home.exp(&["rm", "--yes"]);
    assert!(code == Some(2) && err.contains("RUN|EXPERIMENT"), "{err}");
}

/// What it does not know yet may be what a run is needed for.
#[test]
fn nothing_is_removed_by_an_index_that_cannot_be_brought_up_to_date() {
    let home = Home::new();
    let ids = home.ids();
    let folder = home.lab.root.run(&ids[0].parse().unwrap());
    let note = serde_json::to_string(&Note::Tagged { at: 1, tag: "keep".into() }).unwrap();
    fs::File::options()
        .create(true)
        .append(true)
        .open(folder.journal())
        .unwrap()
        .write_all(format!("{note}\n").as_bytes())
        .unwrap();
    let rude = rusqlite::Connection::open(home.lab.root.database()).unwrap();
    rude.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (code, _, err) = home.exp(&["rm", "--where", "not \"keep\" in tags", "--yes"]);
    assert!(code == Some(5) && err.contains("locked") && err.contains("nothing was removed"), "{err}");
    rude.execute_batch("ROLLBACK").unwrap();
    assert_eq!(home.ids(), ids);
    home.says(&["rm", "--where", "not \"keep\" in tags", "--yes"]);
    assert_eq!(home.ids(), ids[..1]);
}

#[test]
fn an_experiment_that_is_called_as_a_run_begins_is_what_its_name_means_everywhere() {
    let home = Home::new();
    let ids = home.ids();
    let name = &ids[1][..4];
    let spec = SPEC.replace("tiny", &format!("\"{name}\"")).replace("1e-3, 1e-2, 1e-1", "1e-1");
    assert_eq!(home.lab.run(&spec).0, Some(0));
    let its = [ids[2].clone()];
    assert_eq!(crate::common::ids(&home.json(&["cancel", name])), its);
    let tables = home.path().join("tables");
    home.says(&["export", name, "--format", "jsonl", tables.to_str().unwrap()]);
    let runs = fs::read_to_string(tables.join("runs.jsonl")).unwrap();
    assert!(runs.contains(&ids[2]) && !runs.contains(&ids[1]), "{runs}");
    let (code, _, err) = home.exp(&["export", name, "--format", "hf", "hf"]);
    assert!(code == Some(2) && err.contains("is an experiment"), "{err}");
    let files = |name: &str| home.json(&["verify", name])["files"].clone();
    assert_ne!(files(name), files(&ids[1]), "a journal, and a run");

    let said = home.says(&["rm", name, "--yes"]);
    assert!(
        said.contains(&format!("stays: run {}", &ids[1][..16])) && said.contains("removed the experiment"),
        "{said}"
    );
    assert_eq!(home.ids(), ids, "its run is of another experiment too");
    assert!(!home.lab.root.experiment(name).exists());
    home.says(&["rm", name, "--yes"]);
    assert_eq!(home.ids(), [ids[0].clone(), ids[2].clone()], "and now the name means the run");
}

/// `exp` with a terminal before it, what it says there, and what it is told; nothing where there is no `script`.
struct Terminal(Child);

impl Terminal {
    fn start(home: &Home, arguments: &str) -> Option<Self> {
        let command = format!("'{}' --root '{}' {arguments}", home.lab.program.display(), home.path().display());
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        match script.spawn() {
            Ok(child) => Some(Self(child)),
            Err(_) => {
                eprintln!("skipped: there is no `script`, which makes terminals");
                None
            }
        }
    }

    /// What is said until the next question.
    fn asked(&mut self) -> String {
        let out = self.0.stdout.as_mut().unwrap();
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"[y/N] ") {
            assert_eq!(out.read(&mut byte).unwrap(), 1, "it ended: {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    fn answer(&mut self, answer: &str) {
        self.0.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
    }

    /// The rest of it, and the exit code.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.0.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.0.wait().unwrap().code(), rest)
    }
}

#[test]
fn what_changed_while_somebody_was_asked_is_asked_again() {
    let home = Home::new();
    let ids = home.ids();
    let Some(mut rm) = Terminal::start(&home, "rm tiny") else { return };
    let asked = rm.asked();
    assert!(asked.contains("remove the experiment tiny and 3 runs, "), "{asked}");
    let other = SPEC.replace("tiny", "other").replace("1e-3, 1e-2, 1e-1", "1e-2");
    assert_eq!(home.lab.run(&other).0, Some(0));
    rm.answer("y\n");
    let asked = rm.asked();
    assert!(asked.contains("while you were asked, that has changed"), "{asked}");
    assert!(asked.contains("which is of other too") && asked.contains("tiny and 2 runs, "), "{asked}");
    assert_eq!(home.ids(), ids);
    rm.answer("y\n");
    let (code, said) = rm.end();
    assert!(code == Some(0) && said.contains("removed the experiment tiny and 2 runs"), "{said}");
    assert_eq!(crate::common::ids(&home.json(&["ls"])), ids[1..2]);

    let Some(mut rm) = Terminal::start(&home, "rm other --json") else { return };
    let asked = rm.asked();
    assert!(!asked.contains('{'), "{asked}");
    rm.answer("n\n");
    let (code, said) = rm.end();
    assert!(code != Some(0) && said.contains("nothing was removed") && !said.contains('{'), "{said}");
}

#[test]
fn where_one_of_several_is_taken_meanwhile_it_is_said_what_went() {
    let home = Home::new();
    let order = home.json(&["rm", "tiny", "--dry-run"])["runs"].clone();
    let ids: Vec<String> = order.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().into()).collect();
    let lock = |id: &str| home.lab.root.run(&id.parse().unwrap()).lock();
    // A lease that another machine left is watched for a while; in it somebody takes the last of the runs.
    let identity = Identity { host: "elsewhere".into(), boot: "b".into(), pid: 7, started: 7 };
    let lease = Lease { identity, attempt: 2, token: "t".into() };
    fs::write(lock(&ids[0]), serde_json::to_string(&lease).unwrap()).unwrap();
    let left = fs::File::options().write(true).open(lock(&ids[0])).unwrap();
    left.set_modified(SystemTime::now() - Duration::from_secs(9000)).unwrap();
    let mut rm = home.command(&["rm", "tiny", "--yes", "--json"]);
    let rm = rm.env("EXP_LEASE", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut rm = rm.spawn().unwrap();
    let mut said = BufReader::new(rm.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("watching for 2 s")));
    let _held = Lock::try_take(&lock(&ids[2])).unwrap().unwrap();
    let said = said.collect::<Vec<_>>().join("\n");
    let output = rm.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("removed 2 runs, ") && said.contains("; 1 of 3 runs stay"), "{said}");
    assert!(said.contains(&format!("removing the run {}: it is being trained", &ids[2][..8])), "{said}");
    let gone: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((gone["runs"][1]["id"].clone(), gone["experiments"].clone()), (json!(ids[1]), json!([])));
    let index = rusqlite::Connection::open(home.lab.root.database()).unwrap();
    let known: i64 = index.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap();
    assert_eq!(known, 1, "the index has forgotten them");
}

#[test]
fn an_experiment_stays_while_an_exp_run_of_it_is_at_work_though_no_worker_is() {
    let home = Home::new();
    let root = &home.lab.root;
    let before = in_runs(&home);
    let running = Running::begin(root, "tiny").unwrap();
    let (code, _, err) = home.exp(&["rm", "tiny", "--yes"]);
    assert!(code == Some(2) && err.contains("removing the experiment tiny: an `exp run` of it is at work"), "{err}");
    assert_eq!((in_runs(&home), home.ids().len()), (before, 3), "nor do its runs go");
    drop(running);
    home.says(&["rm", "tiny", "--yes"]);
    assert_eq!(in_runs(&home), ["cache", "experiments", "slots"]);
}

#[test]
fn what_is_trained_is_not_removed() {
    let home = Home::new();
    let long = SPEC.replace("steps: 4", "steps: 200000").replace("tiny", "long").replace("1e-3, 1e-2, 1e-1", "1e-3");
    let scheduler = home.lab.start(&long);
    let id = until("it is trained", || {
        let (_, out, _) = home.exp(&["ls", "long", "--json"]);
        let list: Value = serde_json::from_str(&out).ok()?;
        (list[0]["step"].as_u64()? > 0).then(|| list[0]["id"].as_str().unwrap().to_owned())
    });
    assert_eq!(running::count(&home.lab.root, "long").unwrap(), 1);
    for what in
        [&["rm", &id, "--yes"][..], &["rm", "long", "tiny", "--yes"], &["rm", "--where", "layers == 1", "--yes"]]
    {
        let (code, _, err) = home.exp(what);
        assert!(code == Some(2) && err.contains(&format!("1 run is being trained: {}", &id[..8])), "{err}");
        assert!(err.contains(&format!("hint: `exp cancel {}` first: nothing was removed", &id[..8])), "{err}");
    }
    assert_eq!(home.json(&["ls"]).as_array().unwrap().len(), 4, "nor is what was named beside it");
    home.says(&["cancel", &id]);
    scheduler.exit();
    assert_eq!(running::count(&home.lab.root, "long").unwrap(), 0);
    home.says(&["rm", "long", "--yes"]);
    assert_eq!(home.json(&["ls"]).as_array().unwrap().len(), 3);
}

#[test]
fn a_run_that_another_machine_trains_is_not_removed_and_one_that_it_left_is() {
    let home = Home::new();
    let ids = home.ids();
    let lock = home.lab.root.run(&ids[0].parse().unwrap()).lock();
    let identity = Identity { host: "elsewhere".into(), boot: "b".into(), pid: 7, started: 7 };
    let lease = Lease { identity, attempt: 2, token: "t".into() };
    let renew = |seconds: u64| {
        let file = fs::File::options().write(true).open(&lock).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    let rm = || {
        let (code, said) = lab::answer(home.command(&["rm", &ids[0], "--yes"]).env("EXP_LEASE", "1").output().unwrap());
        (code, said)
    };
    fs::write(&lock, serde_json::to_string(&lease).unwrap()).unwrap();
    let (code, err) = rm();
    assert!(code == Some(2) && err.contains("1 run is being trained"), "{err}");

    // By the clocks it was left long ago, but clocks may be wrong: somebody renews it.
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            (0..).map_while(|n| (!stop.load(Relaxed)).then_some(9000 + n)).for_each(|n| {
                renew(n);
                thread::sleep(Duration::from_millis(20));
            })
        });
        let (code, err) = rm();
        stop.store(true, Relaxed);
        assert!(code == Some(2) && err.contains("it is being trained"), "{err}");
    });
    assert_eq!(home.ids(), ids);
    renew(9000);
    let (code, err) = rm();
    assert!(code == Some(0) && err.contains("watching for 1 s"), "{err}");
    assert_eq!(home.ids(), ids[1..]);
}

#[test]
fn a_run_stays_whose_weights_another_is_to_begin_with() {
    let home = Home::new();
    let ids = home.ids();
    let child =
        format!("{}\n", SPEC.replace("tiny", "child").replace("run: {", &format!("run: {{init_from: {}, ", ids[0])));
    let child = child.replace("1e-3, 1e-2, 1e-1", "3e-3");
    drop(lab::plan(&home.lab.root, &home.path().join("child.yaml"), &child)); // registered, not begun
    let id = home.json(&["ls", "child"])[0]["id"].as_str().unwrap().to_owned();
    let (code, _, err) = home.exp(&["rm", "tiny", "--yes"]);
    let why = format!("run {}, which is queued, begins with the weights of {}", &id[..8], &ids[0][..8]);
    assert!(code == Some(2) && err.contains(&why), "{err}");
    assert_eq!(home.ids(), ids);
    assert_eq!(home.lab.run(&child).0, Some(0));
    home.says(&["rm", &ids[0], "--yes"]);
    assert_eq!(home.json(&["ls", "child"])[0]["state"], "done");
}

#[test]
fn a_removal_that_is_killed_leaves_all_of_a_run_or_none() {
    let home = Home::new();
    let id = home.ids()[0].clone();
    let folder = home.lab.root.run(&id.parse().unwrap());
    for n in 0..400 {
        fs::write(folder.attempt(1).join(format!("file-{n}")), "").unwrap();
    }
    let (whole, kept) = (all_below(folder.path()).len(), home.path().join("kept"));
    copy(folder.path(), &kept);
    let (mut left, mut gone) = (0, 0);
    // From before it begins to after it has ended.
    for n in 0..40 {
        let mut rm = home.command(&["rm", &id, "--yes"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let aside = || in_runs(&home).iter().any(|name| name.starts_with(".aside"));
        let begun = Instant::now();
        while n >= 20 && !aside() && rm.try_wait().unwrap().is_none() {}
        thread::sleep(if n < 20 { Duration::from_millis(n) } else { Duration::from_micros((n - 20) * 100) });
        assert!(begun.elapsed() < Duration::from_secs(60));
        let _ = rm.kill();
        rm.wait().unwrap();
        match folder.path().exists() {
            true => {
                left += 1;
                assert_eq!(all_below(folder.path()).len(), whole);
            }
            false => {
                gone += 1;
                assert_eq!(home.ids().len(), 2);
                copy(&kept, folder.path());
            }
        }
        assert_eq!(home.ids().len(), 3);
    }
    assert!(left > 0 && gone > 0, "{left} were left, {gone} were gone");
}

#[test]
fn a_run_that_is_removed_while_a_sweep_is_about_to_train_it_is_skipped() {
    let home = Home::new();
    let spec = SPEC.replace("steps: 4", "steps: 3000").replace("tiny", "two").replace("1e-3, 1e-2, 1e-1", "1e-3, 1e-2");
    let mut run = home.lab.command(&spec);
    let run = run.args(["--jobs", "1"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let second = until("the first is trained", || {
        let (_, out, _) = home.exp(&["ls", "two", "--json"]);
        let list: Value = serde_json::from_str(&out).ok()?;
        (list[0]["state"] == "running").then(|| list[1]["id"].as_str().unwrap().to_owned())
    });
    home.says(&["rm", &second, "--yes"]);
    let (code, said) = lab::answer(run.wait_with_output().unwrap());
    assert!(code == Some(4) && said.contains("it was removed meanwhile"), "{said}");
    assert!(!home.lab.root.run(&second.parse().unwrap()).path().exists());
    assert_eq!(home.json(&["ls", "two"]).as_array().unwrap().len(), 1);
}
