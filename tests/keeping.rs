//! What people keep of their runs, and what they call it: tags, removing, freeing room.

mod lab;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use exp::{
    base::{files::Lock, lease::Lease, machine::Identity},
    store::Store,
    train::checkpoint,
};
use lab::{Lab, copy, until};
use serde_json::{Value, json};

const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 8}
data: {corpus_chars: 20000}
train: {steps: 4, batch: 2}
eval: {every: 2, batches: 1, batch: 2}
run: {device: cpu}
grid: {lr: [1e-3, 1e-2, 1e-1]}
";

/// Three runs, trained once for all tests, each of which has a copy.
static TRAINED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = Lab::at(dir.path()).run(SPEC);
    assert_eq!(code, Some(0), "{said}");
    dir
});

/// A root of one test.
struct Home {
    lab: Lab,
    _dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(TRAINED.path(), dir.path());
        Self { lab: Lab::at(dir.path()), _dir: dir }
    }

    fn path(&self) -> &Path {
        &self.lab.path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.lab.program);
        command.arg("--root").arg(self.path()).args(arguments).stdin(Stdio::null());
        command
    }

    /// Exit code, standard output and standard error of a command.
    fn exp(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (output.status.code(), out, err)
    }

    /// What a command that succeeds says.
    fn says(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.exp(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        out + &err
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = self.exp(&[arguments, &["--json"]].concat());
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    /// The whole ids, in the order of the grid.
    fn ids(&self) -> Vec<String> {
        ids(&self.json(&["ls", "tiny"]))
    }
}

fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tags_are_given_listed_asked_for_and_taken_away() {
    let home = Home::new();
    let run = &home.ids()[0][..10];
    assert_eq!(home.json(&["tag"]), json!([]));
    assert!(
        home.says(&["tag", run, "good", "to look at", "good"]).contains(&format!("run {} is tagged good\n", &run[..8]))
    );
    let before = fs::read(home.lab.root.run(&home.lab.store().find(run).unwrap().id).journal()).unwrap();
    assert_eq!(before.iter().filter(|&&byte| byte == b'\n').count(), 2, "a tag that is named twice is one");
    assert!(home.says(&["tag", run, "good"]).contains("has the tag good already"));
    assert!(home.says(&["tag", run, "bad", "--remove"]).contains("does not have the tag bad"));
    let after = fs::read(home.lab.root.run(&home.lab.store().find(run).unwrap().id).journal()).unwrap();
    assert_eq!(before, after, "what changes nothing writes nothing");

    let said = home.says(&["tag", "--where", "lr > 1e-3", "good", "large"]);
    assert!(said.contains("good: 2 runs tagged, 0 had it already") && said.contains("large: 2 runs tagged"), "{said}");
    assert!(home.says(&["tag", "--where", "lr <= 1e-2", "good"]).contains("good: 0 runs tagged, 2 had it already"));
    assert_eq!(
        home.json(&["tag"]),
        json!([
            {"tag": "good", "runs": 3}, {"tag": "large", "runs": 2}, {"tag": "to look at", "runs": 1},
        ])
    );
    assert_eq!(home.json(&["tag", run]), json!([{"tag": "good", "runs": 1}, {"tag": "to look at", "runs": 1}]));
    assert_eq!(ids(&home.json(&["ls", "--filter", "\"to look at\" in tags"])), [home.ids()[0].clone()]);
    assert_eq!(home.json(&["show", run])["tags"], json!(["good", "to look at"]));
    assert!(home.says(&["show", run]).contains("\ntags          good, to look at\n"));
    assert!(home.says(&["ls", "--columns", "lr,tags"]).contains("0.001   good, to look at\n"));
    assert!(home.says(&["ls"]).lines().next().unwrap().ends_with("   tags"));
    let counts = home.json(&["sql", "SELECT tag, count(*) AS n FROM run JOIN tag ON tag.run = run.id GROUP BY 1"]);
    assert_eq!(counts[0], json!({"tag": "good", "n": 3}));

    let gone = home.json(&["tag", run, "good", "--remove"]);
    assert_eq!((ids(&gone), gone[0]["tags"].clone()), (vec![home.ids()[0].clone()], json!(["to look at"])));
    assert_eq!(home.json(&["tag"])[0], json!({"tag": "good", "runs": 2}));
}

#[test]
fn tags_stand_in_the_folders_and_survive_the_index() {
    let home = Home::new();
    let id = &home.ids()[1];
    home.says(&["tag", id, "🙂 100 % \"it's\"", "b"]);
    home.says(&["tag", id, "b", "--remove"]);
    let listed = home.json(&["ls", "tiny"]);
    home.says(&["store", "rebuild"]);
    assert_eq!(home.json(&["ls", "tiny"]), listed);
    assert_eq!(home.json(&["show", id])["tags"], json!(["🙂 100 % \"it's\""]));

    // An older version of `exp` takes the journal in, and passes over what it does not know.
    let index = rusqlite::Connection::open(home.lab.root.database()).unwrap();
    index.execute_batch("DROP VIEW tag; DROP TABLE tags; PRAGMA user_version = 3").unwrap();
    drop(index);
    assert_eq!(home.json(&["ls", "tiny"]), listed);
    assert!(Store::open(&home.lab.root).unwrap().damage().unwrap().is_empty());
}

#[test]
fn a_tag_that_breaks_the_rule_is_refused_with_it() {
    let home = Home::new();
    let id = &home.ids()[0];
    for tag in ["", " a", "a ", "a,b", "a\nb", &"x".repeat(201)] {
        let (code, _, err) = home.exp(&["tag", id, "fine", tag]);
        assert!(code == Some(2) && err.contains("hint: a tag has 1 to 200 characters, no comma"), "{tag:?}: {err}");
    }
    assert_eq!(home.json(&["tag"]), json!([]), "all or none of a command's tags");
    home.says(&["tag", id, "--", "-x", &"é".repeat(200)]);
    assert_eq!(home.json(&["tag", id]).as_array().unwrap().len(), 2);
    let (code, _, err) = home.exp(&["tag", "tiny", "good"]);
    assert!(code == Some(2) && err.contains("`tiny` is an experiment"), "{err}");
    let (code, _, err) = home.exp(&["tag", "--remove"]);
    assert!(code == Some(2) && err.contains("RUN"), "{err}");
}

/// All paths below a folder, sorted.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => [vec![entry.path()], all_below(&entry.path())].concat(),
            false => vec![entry.path()],
        })
        .collect();
    all.sort();
    all
}

/// What lies in `runs/`, but for the index.
fn in_runs(home: &Home) -> Vec<String> {
    let names = fs::read_dir(home.lab.root.runs()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("exp.db"));
    names.sort();
    names
}

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
    assert!(said.contains(&format!("the run {}, ", &ids[1][..8])) && said.contains("would go"), "{said}");
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

    home.says(&["rm", "tiny", "--yes"]);
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

/// How many things of each kind `exp gc` freed: tokens, tokenizers, checkpoints, leftovers.
fn freed(answer: &Value) -> [u64; 4] {
    ["tokens", "tokenizers", "checkpoints", "leftovers"].map(|what| {
        let found = answer["freed"].as_array().unwrap().iter().find(|freed| freed["what"] == what);
        found.unwrap()["count"].as_u64().unwrap()
    })
}

/// Makes a file or folder of two days ago.
fn old(path: &Path) {
    let at = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    fs::File::open(path).unwrap().set_times(fs::FileTimes::new().set_modified(at)).unwrap();
}

fn cached(home: &Home) -> Vec<PathBuf> {
    let all = fs::read_dir(home.lab.root.cache().join("tokens")).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.is_dir()).collect()
}

#[test]
fn tokens_are_freed_once_no_run_uses_them() {
    let home = Home::new();
    let another = SPEC.replace("tiny", "another").replace("20000", "30000").replace("1e-3, 1e-2, 1e-1", "1e-3");
    assert_eq!(home.lab.run(&another).0, Some(0));
    assert_eq!(cached(&home).len(), 2);
    assert_eq!(freed(&home.json(&["gc"])), [0; 4], "all is used");
    home.says(&["rm", "another", "--yes"]);
    let dry = home.json(&["gc", "--dry-run"]);
    assert_eq!((freed(&dry), cached(&home).len()), ([1, 0, 0, 0], 2));
    assert!(dry["bytes"].as_u64().unwrap() > 50_000, "{dry}");

    // Somebody is making them just now.
    let locks: Vec<_> =
        cached(&home).iter().map(|path| Lock::try_take(&path.with_extension("lock")).unwrap().unwrap()).collect();
    assert_eq!((freed(&home.json(&["gc"])), cached(&home).len()), ([0; 4], 2));
    drop(locks);
    let said = home.says(&["gc"]);
    assert!(said.contains("cached tokens of no run") && said.contains("in all"), "{said}");
    assert_eq!((cached(&home).len(), freed(&home.json(&["gc"]))), (1, [0; 4]));
    assert_eq!(home.lab.run(&another).0, Some(0), "they are made again");
    assert_eq!(cached(&home).len(), 2);
}

#[test]
fn what_was_set_aside_goes_but_not_from_a_run_that_is_trained() {
    let home = Home::new();
    let ids = home.ids();
    let folders: Vec<_> = ids.iter().map(|id| home.lab.root.run(&id.parse().unwrap())).collect();
    for folder in &folders {
        for name in ["damaged-step-4.attempt-1", "bad-step-2.attempt-1", "void-step-3.attempt-1"] {
            copy(&checkpoint::list(folder).unwrap()[0].path, &folder.checkpoints().join(name));
        }
        fs::write(folder.path().join(".aside-a"), "1").unwrap();
        old(&folder.path().join(".aside-a"));
    }
    let root = &home.lab.root;
    fs::create_dir_all(root.report("tiny")).unwrap();
    fs::create_dir_all(root.tokenizers()).unwrap();
    let places = [root.runs(), root.cache(), root.cache().join("tokens"), root.tokenizers(), root.report("tiny")];
    for place in &places {
        fs::create_dir(place.join(".aside-old")).unwrap();
        fs::write(place.join(".aside-old/file"), "12345").unwrap();
        old(&place.join(".aside-old"));
        fs::write(place.join(".aside-new"), "").unwrap();
    }
    let before = all_below(home.path());
    let held = Lock::try_take(&folders[0].lock()).unwrap().unwrap();
    assert_eq!(freed(&home.json(&["gc", "--dry-run"])), [0, 0, 6, 7]);
    let after = all_below(home.path());
    assert!(before.iter().all(|path| after.contains(path)), "nothing was freed");
    assert_eq!(freed(&home.json(&["gc"])), [0, 0, 6, 7]);
    assert!(folders[0].checkpoints().join("void-step-3.attempt-1").exists());
    drop(held);
    assert_eq!(freed(&home.json(&["gc"])), [0, 0, 3, 1]);
    let names = |place: &PathBuf| place.join(".aside-new").exists() && !place.join(".aside-old").exists();
    assert!(places.iter().all(names), "what is new may be somebody's");
    for folder in &folders {
        assert_eq!(checkpoint::list(folder).unwrap().len(), 2);
        assert!(checkpoint::list(folder).unwrap().iter().all(|saved| saved.verify().is_ok()));
    }
    assert_eq!(home.ids(), ids);
}

#[test]
fn where_a_run_or_the_index_cannot_be_read_nothing_goes_that_may_be_its_own() {
    let home = Home::new();
    let ids = home.ids();
    let folder = home.lab.root.run(&ids[0].parse().unwrap());
    let config = fs::read(folder.config()).unwrap();
    fs::create_dir(folder.checkpoints().join("void-step-3.attempt-1")).unwrap();
    ids[1..].iter().for_each(|id| drop(home.says(&["rm", id, "--yes"])));
    let damages: [&dyn Fn(); 3] =
        [&|| fs::write(folder.config(), "{").unwrap(), &|| fs::remove_file(folder.config()).unwrap(), &|| {
            fs::write(folder.config(), &config).unwrap();
            fs::write(folder.tokenizer(), "{").unwrap();
        }];
    for damage in damages {
        damage();
        let answer = home.json(&["gc"]);
        assert_eq!((freed(&answer), cached(&home).len()), ([0; 4], 1), "{answer}");
        assert_eq!(answer["unreadable"][0]["path"], format!("runs/{}", &ids[0][..16]));
        let said = home.says(&["gc"]);
        assert!(said.contains("so all cached tokens and tokenizers' files stay"), "{said}");
    }
    assert!(folder.checkpoints().join("void-step-3.attempt-1").exists());

    fs::remove_dir_all(folder.path()).unwrap();
    let index = fs::read(home.lab.root.database()).unwrap();
    fs::write(home.lab.root.database(), &[7; 8192]).unwrap();
    let (code, _, err) = home.exp(&["gc"]);
    assert!(code == Some(5) && err.contains("exp store rebuild") && cached(&home).len() == 1, "{err}");
    fs::write(home.lab.root.database(), index).unwrap();
    assert_eq!(freed(&home.json(&["gc"]))[0], 1);
}

#[test]
fn the_files_of_tokenizers_go_with_their_last_run() {
    let home = Home::new();
    let model = r#"{"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}"#;
    let json = format!(r#"{{"version": "1.0", "pre_tokenizer": {{"type": "Whitespace"}}, "model": {model}}}"#);
    fs::write(home.path().join("words.json"), json).unwrap();
    let data = "data: {tokenizer: file, tokenizer_file: words.json, corpus_chars: 20000}";
    let spec =
        SPEC.replace("data: {corpus_chars: 20000}", data).replace("tiny", "words").replace("1e-3, 1e-2, 1e-1", "1e-3");
    assert_eq!(home.lab.run(&spec).0, Some(0));
    let files = || all_below(&home.lab.root.tokenizers()).iter().filter(|p| p.extension().is_some()).count();
    assert_eq!((files(), freed(&home.json(&["gc"])), files()), (1, [0; 4], 1));
    let id = home.json(&["ls", "words"])[0]["id"].as_str().unwrap().to_owned();
    home.says(&["rm", "words", "--yes"]);
    // A run that is being imported has no name yet.
    let aside = home.lab.root.runs().join(".aside-import");
    fs::create_dir(&aside).unwrap();
    let hash = all_below(&home.lab.root.tokenizers())
        .iter()
        .find_map(|p| Some(p.file_name()?.to_str()?.strip_suffix(".json")?.to_owned()));
    fs::write(aside.join("tokenizer.json"), json!({"format": 1, "tokenizer": "file", "file": hash}).to_string())
        .unwrap();
    assert_eq!((freed(&home.json(&["gc"])), files()), ([1, 0, 0, 0], 1));
    fs::remove_dir_all(aside).unwrap();
    assert_eq!((freed(&home.json(&["gc"])), files()), ([0, 1, 0, 0], 0));
    assert_eq!(home.lab.run(&spec).0, Some(0));
    assert_eq!(home.json(&["ls", "words"])[0]["id"], id);
}

#[test]
fn runs_of_no_experiment_are_counted_and_stay() {
    let home = Home::new();
    let ids = home.ids();
    let (code, said) = home.lab.run(&SPEC.replace("1e-3, 1e-2, 1e-1", "1e-3, 1e-2"));
    assert!(code == Some(0) && said.contains("1 run of its last spec"), "{said}");
    let said = home.says(&["gc"]);
    assert!(
        said.contains("1 run belongs to no experiment, ") && said.contains("`exp rm --where 'experiment == none'`"),
        "{said}"
    );
    assert_eq!(home.json(&["gc"])["without_experiment"]["runs"], 1);
    home.says(&["rm", "--where", "experiment == none", "--yes"]);
    assert_eq!(home.ids(), ids[..2]);
    assert_eq!(home.json(&["gc"])["without_experiment"], json!({"runs": 0, "bytes": 0}));
}

#[test]
fn freeing_that_is_killed_is_done_by_the_next() {
    let home = Home::new();
    let ids = home.ids();
    home.says(&["rm", &ids[2], "--yes"]);
    let folder = home.lab.root.run(&ids[0].parse().unwrap());
    let tokens = cached(&home)[0].clone();
    let kept = home.path().join("kept");
    copy(&tokens, &kept);
    for n in 0..24 {
        for k in 0..40 {
            copy(&kept, &folder.checkpoints().join(format!("void-step-{k}.attempt-1")));
            copy(&kept, &tokens.with_file_name(format!("{k:032}")));
        }
        let mut gc = home.command(&["gc"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(n * 3));
        let _ = gc.kill();
        gc.wait().unwrap();
        assert_eq!(home.ids().len(), 2);
    }
    home.says(&["gc"]);
    assert_eq!(
        cached(&home).iter().filter(|path| !path.file_name().unwrap().as_encoded_bytes().starts_with(b".")).count(),
        1
    );
    assert_eq!(checkpoint::list(&folder).unwrap().len(), 2);
    assert!(all_below(&folder.checkpoints()).iter().all(|path| !path.to_string_lossy().contains("void")));
    assert_eq!(home.says(&["data", "verify"]).matches("damaged").count(), 0);
}
