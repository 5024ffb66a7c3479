//! `exp rm`: what goes, what stays, and when it is refused.

use std::{
    fs,
    os::unix::fs::symlink,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant, SystemTime},
};

use exp::base::{lease::Lease, machine::Identity};
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

    let (code, out, err) = home.exp(&["rm", &ids[1]]);
    assert!(code == Some(2) && err.contains("this is no terminal") && err.contains("hint: `--yes`"), "{err}");
    assert!(out.contains("tiny") && out.contains("4/4") && out.contains("KiB"), "it says what would go: {out}");
    let said = home.says(&["rm", &ids[1], "--dry-run"]);
    assert!(said.contains(&format!("would remove the run {}, ", &ids[1][..8])), "{said}");
    assert_eq!(all_below(home.path()).len(), before.0, "nothing was removed");

    let said = home.says(&["rm", &ids[1], "--yes"]);
    assert!(said.contains("removed the run") && said.contains("the report of tiny still shows them"), "{said}");
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
    assert!(home.says(&["rm", "--where", "state == failed", "--yes"]).contains("no run is so"));
    let (code, _, err) = home.exp(&["rm", "tinny", "--yes"]);
    assert!(code == Some(2) && err.contains("looking for"), "{err}");
    let (code, _, err) = home.exp(&["rm", "", "--yes"]);
    assert!(code == Some(2) && err.contains("an empty name names nothing"), "{err}");
    let (code, _, err) = home.exp(&["rm", "--yes"]);
    assert!(code == Some(2) && err.contains("RUN|EXPERIMENT"), "{err}");
    let named = SPEC.replace("tiny", &ids[1][..4]).replace("1e-3, 1e-2, 1e-1", "1e-2");
    assert_eq!(home.lab.run(&named).0, Some(0));
    let (code, _, err) = home.exp(&["rm", &ids[1][..4], "--yes"]);
    assert!(code == Some(2) && err.contains("it is an experiment, and the beginning of the run"), "{err}");
    assert_eq!(home.ids(), ids[1..]);
}

#[test]
fn what_is_trained_is_not_removed() {
    let home = Home::new();
    let long = SPEC.replace("steps: 4", "steps: 200000").replace("tiny", "long").replace("1e-3, 1e-2, 1e-1", "1e-3");
    let _scheduler = home.lab.start(&long);
    let id = until("it is trained", || {
        let (_, out, _) = home.exp(&["ls", "long", "--json"]);
        let list: Value = serde_json::from_str(&out).ok()?;
        (list[0]["step"].as_u64()? > 0).then(|| list[0]["id"].as_str().unwrap().to_owned())
    });
    for what in
        [&["rm", &id, "--yes"][..], &["rm", "long", "tiny", "--yes"], &["rm", "--where", "layers == 1", "--yes"]]
    {
        let (code, _, err) = home.exp(what);
        assert!(code == Some(2) && err.contains(&format!("1 run is being trained: {}", &id[..8])), "{err}");
        assert!(err.contains(&format!("hint: `exp cancel {}` first: nothing was removed", &id[..8])), "{err}");
    }
    assert_eq!(home.json(&["ls"]).as_array().unwrap().len(), 4, "nor is what was named beside it");
    home.says(&["cancel", &id]);
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
