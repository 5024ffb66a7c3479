//! What becomes of the folder that is written: there in full or not at all, replaced when asked, the same bytes each time.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Stdio,
};

use rustix::process::Signal;

use crate::{
    export, exported, files,
    lab::{self, Started, until},
    made,
};

const FORMATS: [&str; 4] = ["csv", "jsonl", "parquet", "tensorboard"];

fn asides(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".aside")).count()
}

#[test]
fn what_lies_there_is_replaced_when_asked_and_only_if_an_export_wrote_it() {
    let (home, lab, ids) = made();
    let to = home.root.path().join("out");
    let id = ids[0].to_string();
    fs::create_dir(&to).unwrap();
    exported(&lab, &["sweep", "--format", "csv"], &to); // it was empty
    let before = files(&to);
    assert_eq!(before.keys().collect::<Vec<_>>(), [".export.json", "metrics.csv", "runs.csv"]);

    let (code, said) = export(&lab, &[&id, "--format", "csv"], &to);
    assert!(code == Some(2) && said.contains("it is there already") && said.contains("`--force`"), "{said}");
    assert_eq!(files(&to), before);
    exported(&lab, &[&id, "--format", "tensorboard", "--force"], &to);
    let events = files(&to);
    assert_eq!(events.len(), 2, "{:?}", events.keys());

    let inner = to.join(events.keys().last().unwrap()).parent().unwrap().join("notes");
    for foreign in [to.join("my notes.txt"), inner] {
        fs::write(&foreign, "").unwrap();
        let (code, said) = export(&lab, &[&id, "--format", "csv", "--force"], &to);
        let name = foreign.file_name().unwrap().to_str().unwrap();
        assert!(code == Some(2) && said.contains("no export wrote") && said.contains(name), "{said}");
        fs::remove_file(foreign).unwrap();
        assert_eq!(files(&to), events);
    }
    let link = home.root.path().join("link");
    symlink("out", &link).unwrap();
    exported(&lab, &["sweep", "--format", "csv", "--force"], &link);
    assert!(link.is_symlink() && files(&to) == before);

    let other = home.root.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "").unwrap();
    for force in [&[][..], &["--force"]] {
        let (code, said) = export(&lab, &[&["sweep", "--format", "csv"], force].concat(), &other);
        assert!(code == Some(2) && said.contains("no export") && !said.contains("--force"), "{said}");
    }
    let (code, said) = export(&lab, &["sweep", "--format", "csv", "--force"], &other.join("thesis.tex"));
    assert!(code == Some(2) && said.contains("no folder"), "{said}");
    assert_eq!(files(&other).len(), 1);
    assert_eq!((asides(home.root.path()), asides(&other)), (0, 0));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let (home, lab, ids) = made();
    let id = ids[0].to_string();
    let to = home.root.path().join("out");
    for (arguments, why) in [
        (&["sweep", "--format", "csv", "--checkpoint", "last"][..], "it goes with `--format hf`"),
        (&["sweep", "--format", "hf"], "sweep is an experiment"),
        (&[&id, &id, "--format", "hf"], "the model of one run"),
        (&[&id, "--format", "hf", "--force"], "`--format hf` writes the model of one run"),
        (&[&id, "--format", "hf", "--filter", "step > 1"], "`--format hf` writes the model of one run"),
        (&["--format", "csv"], "name what to export, and after it the folder"),
        (&["sweeep", "--format", "csv"], "did you mean `sweep`?"),
        (&["sweep", "--format", "xlsx"], "[possible values: csv, jsonl, parquet, tensorboard, hf]"),
    ] {
        let (code, said) = export(&lab, arguments, &to);
        assert!(code == Some(2) && said.contains(why), "{arguments:?}: {said}");
        assert!(!to.exists());
    }
}

#[test]
fn the_same_store_gives_the_same_bytes() {
    let (home, lab, _) = made();
    let all = |round: &str| {
        let to = home.root.path().join(round);
        FORMATS.iter().for_each(|format| exported(&lab, &["sweep", "--format", format], &to.join(format)));
        files(&to)
    };
    let first = all("first");
    assert_eq!(first.len(), 4 + 2 * 3 + 2, "{:?}", first.keys());
    assert!(all("second") == first);
    fs::remove_file(home.root.database()).unwrap();
    assert!(all("of an index that was made again") == first);
}

#[test]
fn an_export_that_is_interrupted_leaves_what_was_there() {
    let (home, lab, ids) = made();
    let index = rusqlite::Connection::open(home.root.database()).unwrap();
    index
        .execute(
            "WITH RECURSIVE steps (step) AS (SELECT 10 UNION ALL SELECT step + 1 FROM steps WHERE step < 500000)
             INSERT INTO metrics (run, name, step, attempt, value)
             SELECT (SELECT run FROM runs WHERE id = ?1),
                    (SELECT name FROM metric_names WHERE text = 'train/loss'), step, 2, 0.1 * step
             FROM steps",
            [ids[0].to_string()],
        )
        .unwrap();
    drop(index);
    for format in FORMATS {
        let place = home.root.path().join(format);
        let to = place.join("out");
        exported(&lab, &[&ids[1].to_string(), "--format", "csv"], &to);
        let before = files(&place);
        let mut command = lab.exp(&["export", "sweep", "--format", format, "--force"]);
        let export = Started(command.arg(&to).stderr(Stdio::null()).spawn().unwrap());
        until("it writes", || (asides(&place) > 0).then_some(()));
        export.signal(Signal::STOP); // so that it is not done before it hears
        assert_eq!(asides(&place), 1, "{format} was too fast");
        export.signal(Signal::TERM); // as Ctrl-C, which is ignored by what a shell runs in the background
        export.signal(Signal::CONT);
        assert_eq!(export.exit(), Some(130), "{format}");
        assert!(files(&place) == before, "{format}: {:?}", files(&place).keys());
    }
}

/// Root may write everywhere, so that a read-only folder needs another user.
#[test]
fn a_copied_index_that_cannot_be_written_is_enough() {
    let (home, lab, _) = made();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copied = lab::Lab::at(&dir.path().join("copied"));
    fs::create_dir_all(copied.root.runs()).unwrap();
    fs::copy(home.root.database(), copied.root.database()).unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, fs::Permissions::from_mode(0o777)).unwrap();
    for path in [&copied.root.runs(), &copied.path] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    exported(&lab, &["sweep", "--format", "csv"], &dir.path().join("want"));
    for format in FORMATS {
        let mut command = copied.exp(&["export", "sweep", "--format", format]);
        command.arg(out.join(format));
        if rustix::process::getuid().is_root() {
            command.uid(65534).gid(65534);
        }
        match command.output() {
            Ok(output) => assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(e) => return eprintln!("skipped: this program cannot be started by another user ({e})"),
        }
    }
    let (want, got) = (files(&dir.path().join("want")), files(&out.join("csv")));
    assert_eq!(want["metrics.csv"], got["metrics.csv"]);
    fs::set_permissions(copied.root.runs(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&copied.path, fs::Permissions::from_mode(0o755)).unwrap();
}
