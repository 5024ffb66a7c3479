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
fn a_run_that_was_stopped_and_a_log_of_an_older_version_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let lab = trained(dir.path());
    let folder = lab.folder();
    // Killed in the middle of a line.
    let events = fs::read_to_string(folder.events(1)).unwrap();
    let lines: Vec<&str> = events.lines().collect();
    fs::write(folder.events(1), lines[..lines.len() - 1].join("\n") + "\n{\"event\":\"fini").unwrap();
    assert_eq!(verify(&lab, &[]), (Some(0), vec![]), "a line without its end is not there yet");
    let last: serde_json::Value = serde_json::from_str(lines[lines.len() - 1]).unwrap();
    assert_eq!(last["event"], "finished");
    let mut unsealed = last.clone();
    assert!(unsealed.as_object_mut().unwrap().remove("blake3").is_some(), "{last}");
    fs::write(folder.events(1), lines[..lines.len() - 1].join("\n") + "\n" + &unsealed.to_string() + "\n").unwrap();
    assert_eq!(verify(&lab, &[]), (Some(0), vec![]));
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
    for (kind, uses, files) in [("corpus", 3 * 2, 2), ("weights", 1, 1), ("tokenizer", 0, 0)] {
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
