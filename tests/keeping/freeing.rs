//! `exp gc`: what nothing refers to goes, and nothing else.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use exp::{base::files::Lock, train::checkpoint};
use serde_json::{Value, json};

use crate::{
    common::*,
    lab::{self, copy},
};

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
    let answer = home.json(&["gc"]);
    assert_eq!((freed(&answer), cached(&home).len()), ([0; 4], 2));
    assert!(answer["in_use"].as_array().unwrap().len() == 1 && answer["in_use"][0]["what"] == "tokens", "{answer}");
    let said = home.says(&["gc"]);
    assert!(said.contains("is in use by now"), "{said}");
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
    fs::write(home.lab.root.database(), [7; 8192]).unwrap();
    let (code, _, err) = home.exp(&["gc"]);
    assert!(code == Some(5) && err.contains("exp store rebuild") && cached(&home).len() == 1, "{err}");
    fs::write(home.lab.root.database(), index).unwrap();
    assert_eq!(freed(&home.json(&["gc"]))[0], 1);
}

#[test]
fn tokens_that_cannot_be_read_or_are_of_another_version_stay_and_are_named() {
    let home = Home::new();
    let tokens = cached(&home)[0].clone();
    let info = tokens.join("info.json");
    let mut newer: Value = serde_json::from_slice(&fs::read(&info).unwrap()).unwrap();
    newer["format"] = 99.into();
    let damages: [(&dyn Fn(), &str); 3] = [
        (&|| symlink("info.json", &info).unwrap(), "reading "), // ELOOP
        (&|| fs::create_dir(&info).unwrap(), "reading "),
        (&|| fs::write(&info, newer.to_string()).unwrap(), "its format is 99"),
    ];
    for (damage, why) in damages {
        let _ = fs::remove_file(&info).or_else(|_| fs::remove_dir(&info));
        damage();
        let answer = home.json(&["gc"]);
        assert_eq!((freed(&answer), cached(&home).len()), ([0; 4], 1), "{answer}");
        let unreadable = &answer["unreadable"][0];
        let path = tokens.strip_prefix(home.path()).unwrap();
        assert!(
            unreadable["path"] == path.to_str().unwrap() && unreadable["why"].to_string().contains(why),
            "{answer}"
        );
        let said = home.says(&["gc"]);
        assert!(said.contains("stays, whosever it is: "), "{said}");
        let (code, _, err) = home.exp(&["verify"]);
        assert!(code == Some(5) && !err.contains("panick"), "{err}");
    }
}

#[test]
fn several_may_free_at_once() {
    let home = Home::new();
    let tokens = cached(&home)[0].clone();
    home.says(&["rm", "tiny", "--yes"]);
    for k in 0..60 {
        copy(&tokens, &tokens.with_file_name(format!("{k:032}")));
    }
    let start = || home.command(&["gc"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let all: Vec<_> = (0..4).map(|_| start()).collect();
    for gc in all {
        let (code, said) = lab::answer(gc.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "{said}");
    }
    home.says(&["gc"]);
    let left = all_below(&home.lab.root.cache().join("tokens"));
    assert!(left.is_empty(), "neither tokens nor locks are left: {left:?}");
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
    let held = Lock::try_take(&home.lab.root.tokenizers_lock()).unwrap().unwrap();
    let (code, said) = lab::answer(home.command(&["gc"]).env("EXP_LEASE", "0.2").output().unwrap());
    assert!(code == Some(5) && said.contains("has not got on") && files() == 1, "{said}");
    drop(held);
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
    let mut info: Value = serde_json::from_slice(&fs::read(kept.join("info.json")).unwrap()).unwrap();
    info["info"]["hash"] = "of another text".into();
    fs::write(kept.join("info.json"), info.to_string()).unwrap();
    let mut met = 0;
    for n in 0..24 {
        for k in 0..40 {
            copy(&kept, &folder.checkpoints().join(format!("void-step-{k}.attempt-1")));
            copy(&kept, &tokens.with_file_name(format!("{k:032}")));
        }
        let mut gc = home.command(&["gc"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let left = || {
            let tokens = cached(&home).into_iter().filter(|path| path.to_string_lossy().contains("/0000"));
            let names = fs::read_dir(folder.checkpoints()).unwrap().map(|entry| entry.unwrap().file_name());
            tokens.count() + names.filter(|name| name.as_encoded_bytes().starts_with(b"void")).count()
        };
        // From before it frees anything to when it is nearly done.
        while n > 0 && left() > 80 - 3 * n && gc.try_wait().unwrap().is_none() {}
        let _ = gc.kill();
        gc.wait().unwrap();
        met += usize::from((1..80).contains(&left()));
        assert_eq!(home.ids().len(), 2);
    }
    assert!(met > 0, "no kill met it at work");
    home.says(&["gc"]);
    assert_eq!(
        cached(&home).iter().filter(|path| !path.file_name().unwrap().as_encoded_bytes().starts_with(b".")).count(),
        1
    );
    assert_eq!(checkpoint::list(&folder).unwrap().len(), 2);
    assert!(all_below(&folder.checkpoints()).iter().all(|path| !path.to_string_lossy().contains("void")));
    assert_eq!(home.says(&["data", "verify"]).matches("damaged").count(), 0);
}
