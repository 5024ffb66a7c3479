//! `exp verify`: whatever is changed, cut off or taken away of what a run, a report or the index holds is named.

mod lab;

use std::{
    fs,
    path::{Path, PathBuf},
};

use exp::base::checkpoints;
use lab::{Lab, answer};

const SPEC: &str = "
experiment: whole
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 20, batch: 2}
eval: {every: 10, batches: 1, batch: 2}
sample: {every: 20, tokens: 5}
run: {device: cpu}
seeds: 2
";

fn trained(folder: &Path) -> Lab {
    let lab = Lab::at(folder);
    assert_eq!(lab.run(SPEC).0, Some(0));
    assert_eq!(answer(lab.exp(&["report", "whole"]).output().unwrap()).0, Some(0));
    lab
}

/// The exit code, and what was found: path and what is wrong with it.
fn verify(lab: &Lab, which: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let output = lab.exp(&[&["verify", "--json"], which].concat()).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |fault: &serde_json::Value, key: &str| fault[key].as_str().unwrap().to_owned();
    let faults = said["faults"].as_array().unwrap().iter().map(|f| (text(f, "path"), text(f, "what"))).collect();
    (output.status.code(), faults)
}

/// Changes one byte in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn everything_that_is_damaged_or_missing_is_named_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let lab = trained(dir.path());
    assert_eq!(verify(&lab, &[]), (Some(0), vec![]));

    let [one, other] = &lab.folders()[..] else { panic!("two runs") };
    let saved = checkpoints::list(one).unwrap().remove(0).path;
    let gone = checkpoints::list(other).unwrap().remove(0).path;
    let sample = one.sample(20, 1);
    let picture = lab.root.report("whole").join("summary.csv");
    let tokens = {
        let cached = fs::read_dir(lab.root.cache().join("tokens")).unwrap().flatten().map(|entry| entry.path());
        cached.into_iter().find(|path| path.is_dir()).unwrap().join("val.bin")
    };
    let mut expected: Vec<(PathBuf, &str)> = Vec::new();
    for file in ["model.safetensors", "optimizer.safetensors", "state.json"] {
        flip(&saved.join(file));
        expected.push((saved.join(file), "damaged"));
    }
    for file in [&sample, &picture, &one.events(1), &tokens] {
        flip(file);
        expected.push((file.clone(), "damaged"));
    }
    let config = fs::read_to_string(one.config()).unwrap();
    fs::write(one.config(), config.replace("\"lr\": 0.001", "\"lr\": 0.002")).unwrap();
    expected.push((one.config(), "damaged"));
    fs::remove_dir_all(&gone).unwrap();
    expected.push((gone, "missing"));
    fs::remove_file(other.sample(20, 1)).unwrap();
    expected.push((other.sample(20, 1), "missing"));
    fs::remove_file(lab.root.report("whole").join("summary.md")).unwrap();
    expected.push((lab.root.report("whole").join("summary.md"), "missing"));
    fs::write(lab.root.experiment_journal("whole"), "{}\n").unwrap();
    expected.push((lab.root.experiment_journal("whole"), "damaged"));

    let (code, found) = verify(&lab, &[]);
    let mut named: Vec<(String, String)> = found.clone();
    // The folder of cached tokens is named, not the file in it.
    let mut expected: Vec<(String, String)> = expected
        .into_iter()
        .map(|(path, what)| match path.parent().filter(|_| path == tokens) {
            Some(folder) => (folder.display().to_string(), what.to_owned()),
            None => (lab.root.relative(&path), what.to_owned()),
        })
        .collect();
    named.sort();
    named.dedup();
    expected.sort();
    assert_eq!((code, named), (Some(5), expected), "{found:?}");

    // Of one run alone, what is wrong with it.
    let (code, found) = verify(&lab, &[&other.name()]);
    assert_eq!((code, found.len()), (Some(5), 2), "{found:?}");
}

#[test]
fn what_is_taken_away_is_missed_and_what_nobody_has_read_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let lab = trained(dir.path());
    let [one, other] = &lab.folders()[..] else { panic!("two runs") };
    let whole = tempfile::tempdir().unwrap();
    lab::copy(lab.root.runs().as_path(), &whole.path().join("runs"));
    let put_back = || {
        fs::remove_dir_all(lab.root.runs()).unwrap();
        lab::copy(&whole.path().join("runs"), &lab.root.runs());
        assert_eq!(verify(&lab, &[]), (Some(0), vec![]));
    };
    let named = |path: &Path, what: &str| (lab.root.relative(path), what.to_owned());

    // The last line, with its end.
    let events = fs::read_to_string(one.events(1)).unwrap();
    let cut = events.trim_end().rsplit_once('\n').unwrap().0.to_owned() + "\n";
    fs::write(one.events(1), &cut).unwrap();
    assert_eq!(verify(&lab, &[]), (Some(5), vec![named(&one.events(1), "damaged")]));
    // Who makes the index anew knows of no more than there is: as of a worker that was killed in the middle of a line.
    fs::write(one.events(1), cut + "{\"event\":\"fini").unwrap();
    assert_eq!(answer(lab.exp(&["store", "rebuild"]).output().unwrap()).0, Some(0));
    assert_eq!(verify(&lab, &[]), (Some(0), vec![]));
    put_back();

    // A log without a seal, as older versions wrote it.
    let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "finished");
    let unsealed = events.replace(&format!(",\"blake3\":{}", last["blake3"]), "");
    assert_ne!(unsealed, events);
    fs::write(one.events(1), unsealed).unwrap();
    assert_eq!(answer(lab.exp(&["store", "rebuild"]).output().unwrap()).0, Some(0));
    assert_eq!(verify(&lab, &[]), (Some(0), vec![]));
    put_back();

    fs::remove_file(one.events(1)).unwrap();
    let missing = (Some(5), vec![named(&one.events(1), "missing")]);
    assert_eq!(verify(&lab, &[&one.name()]), missing, "its checkpoints say that there was one");
    put_back();
    fs::remove_dir_all(other.path()).unwrap();
    assert_eq!(verify(&lab, &[]), (Some(5), vec![named(other.path(), "missing")]));
    put_back();
    fs::write(one.config(), "{}").unwrap();
    assert_eq!(answer(lab.exp(&["store", "rebuild"]).output().unwrap()).0, Some(0));
    assert_eq!(verify(&lab, &[]), (Some(5), vec![named(&one.config(), "damaged")]), "the index knows nothing of it");
    put_back();
    flip(&one.tokenizer());
    fs::remove_file(other.tokenizer()).unwrap();
    let (code, mut found) = verify(&lab, &[]);
    let mut both = vec![named(&one.tokenizer(), "damaged"), named(&other.tokenizer(), "missing")];
    found.sort();
    both.sort();
    assert_eq!((code, found), (Some(5), both));
    put_back();
    // What cannot be read is neither: it may be whole.
    let saved = checkpoints::list(one).unwrap().remove(0).path.join("state.json");
    fs::remove_file(&saved).unwrap();
    std::os::unix::fs::symlink("state.json", &saved).unwrap(); // ELOOP
    assert_eq!(verify(&lab, &[]), (Some(5), vec![named(&saved, "unreadable")]));
}

#[test]
fn a_run_that_is_trained_meanwhile_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let long = SPEC.replace("steps: 20", "steps: 4000").replace("eval: {", "checkpoint: {every: 2}\neval: {");
    let started = lab.start(&long);
    lab::until("it is at work", || lab.folders().iter().any(|run| lab::steps(run, 1) > 20).then_some(()));
    for _ in 0..5 {
        assert_eq!(verify(&lab, &[]), (Some(0), vec![]));
    }
    started.signal(rustix::process::Signal::INT);
    started.exit();
}

#[test]
fn an_index_that_is_damaged_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let lab = trained(dir.path());
    let path = lab.root.database();
    let page: u32 = {
        let index = rusqlite::Connection::open(&path).unwrap();
        index.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'members_by_id'";
        index.query_row(root, [], |row| row.get(0)).unwrap()
    };
    let mut bytes = fs::read(&path).unwrap();
    bytes[(page as usize - 1) * 4096..page as usize * 4096].fill(0);
    fs::write(&path, bytes).unwrap();
    let output = lab.exp(&["verify"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("exp.db") && said.contains("exp store rebuild"), "{said}");
}

#[test]
fn what_runs_share_is_on_the_disk_once_and_known_by_each_with_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let lab = trained(dir.path());
    let parent = lab.rows()[0].id;
    let child =
        format!("{}run: {{device: cpu, init_from: {parent}}}\n", SPEC.replace("run: {device: cpu}\nseeds: 2\n", ""));
    assert_eq!(lab.run(&child).0, Some(0));

    let store = lab.store();
    let used = |kind: &str| -> Vec<(String, String)> {
        let all = store.runs(None).unwrap().into_iter().flat_map(|row| store.artifacts(&row.id).unwrap());
        all.filter(|file| file.kind == kind).map(|file| (file.path, file.blake3.unwrap())).collect()
    };
    for (kind, uses, files) in [("corpus", 3 * 2, 2), ("weights", 1, 1), ("tokenizer", 3, 3)] {
        let all = used(kind);
        let distinct: std::collections::BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!((all.len(), distinct.len()), (uses, files), "{kind}: {all:?}");
        for (path, hash) in distinct {
            let content = fs::read(lab.root.path().join(path)).unwrap();
            assert_eq!(hash, blake3::hash(&content).to_hex().to_string());
        }
    }
    let (weights, _) = used("weights").remove(0);
    let best = checkpoints::list(&lab.root.run(&parent)).unwrap();
    assert!(best.iter().any(|saved| weights == lab.root.relative(&saved.path.join("model.safetensors"))), "{weights}");

    // The same by SQL, and from the folders alone.
    let ask = || {
        let query = "SELECT kind, count(*), count(DISTINCT path) FROM artifact GROUP BY kind ORDER BY kind";
        let output = lab.exp(&["sql", query, "--csv"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let before = ask();
    assert!(
        before.contains("corpus,6,2\n") && before.contains("weights,1,1\n") && before.contains("report,"),
        "{before}"
    );
    assert_eq!(answer(lab.exp(&["store", "rebuild"]).output().unwrap()).0, Some(0));
    assert_eq!(ask(), before);
}
