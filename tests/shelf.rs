//! `exp data ls`, `show` and `verify`: what there is to train on, and whether it is whole.

mod lab;

use std::{fs, path::PathBuf};

use lab::Lab;
use serde_json::Value;

/// What a command of `exp data` prints as JSON, and its exit code.
fn data(lab: &Lab, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = lab.exp(&[&["data"], arguments, &["--json"]].concat());
    let output = command.env("EXP_CACHE", lab.root.path().join("user")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(said)))
}

/// A root with a text and a folder of tokens.
fn lab(dir: &tempfile::TempDir) -> (Lab, PathBuf, PathBuf) {
    let (text, tokens) = (dir.path().join("text.txt"), dir.path().join("numbers"));
    fs::write(&text, "[Exeunt.]\r\nA bc é 春\n".repeat(30)).unwrap();
    fs::create_dir(&tokens).unwrap();
    fs::write(tokens.join("train.bin"), [1, 0, 2, 0, 1, 0, 0, 0]).unwrap();
    fs::write(tokens.join("val.bin"), [2, 0, 2, 0]).unwrap();
    fs::write(tokens.join("meta.json"), r#"{"vocab_size": 5}"#).unwrap();
    (Lab::at(dir.path()), text, tokens)
}

#[test]
fn a_corpus_is_shown_and_then_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, text, tokens) = lab(&dir);
    let show = |what: &str, set: &[&str]| data(&lab, &[&["show", what], set].concat());
    let (code, shown) = show(text.to_str().unwrap(), &["--set", "tokenizer=byte", "--set", "val_fraction=0.5"]);
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown["characters"], "\n\r .AE[]bcentuxé春");
    assert_eq!((shown["chars"].as_u64(), shown["vocab_size"].as_u64()), (Some(600), Some(256)));
    assert_eq!((shown["train_tokens"].as_u64(), shown["bytes"].as_u64()), (Some(345), Some(1380)), "{shown}");
    assert!(shown["sample"].as_str().unwrap().starts_with("[Exeunt.]\r\nA bc é 春\n"));

    // By the hash of what is listed, too.
    let hash = &shown["hash"].as_str().unwrap()[..8];
    assert_eq!(show(hash, &[]), (code, shown.clone()));
    let (_, numbers) = show(tokens.to_str().unwrap(), &[]);
    assert_eq!((&numbers["tokenizer"], &numbers["sample"]), (&"ids".into(), &"1 2 1 0 2 2 ".into()));

    let (_, list) = data(&lab, &["ls"]);
    let kinds: Vec<_> = list.as_array().unwrap().iter().map(|item| (&item["kind"], &item["hash"])).collect();
    assert_eq!(kinds, [(&"prepared".into(), &numbers["hash"]), (&"cached".into(), &shown["hash"])], "by name");

    // The text by bytes and by characters has one hash: the folder tells them apart.
    show(text.to_str().unwrap(), &[]);
    let (code, why) = show(hash, &[]);
    let why = why.as_str().unwrap();
    assert!(code == Some(2) && why.contains("several begin so") && why.contains("(char)"), "{why}");
    let folder = why.split(" (byte)").next().unwrap().rsplit([' ', ',']).next().unwrap();
    assert_eq!(show(&folder[..12], &[]).1["tokenizer"], "byte");

    let (code, why) = show("nowhere", &[]);
    assert_eq!(code, Some(2));
    assert!(why.as_str().unwrap().contains("no such file or folder, and no hash begins so"), "{why}");
    let (code, why) = show("playbook", &["--set", "layers=3"]);
    assert_eq!(code, Some(2));
    assert!(why.as_str().unwrap().contains("`model.layers` cannot be set here"), "{why}");
}

#[test]
fn what_is_damaged_changed_or_gone_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, text, tokens) = lab(&dir);
    for what in [&text, &tokens] {
        assert_eq!(data(&lab, &["show", what.to_str().unwrap()]).0, Some(0));
    }
    let faults = || {
        let (code, items) = data(&lab, &["verify"]);
        let all = items.as_array().unwrap().iter().flat_map(|item| item["faults"].as_array().unwrap().clone());
        (code, all.map(|fault| fault.as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(faults(), (Some(0), vec![]));

    let (_, list) = data(&lab, &["ls"]);
    let cached = PathBuf::from(list[1]["path"].as_str().unwrap()).join("val.bin");
    let mut content = fs::read(&cached).unwrap();
    content[7] ^= 1;
    fs::write(&cached, &content).unwrap();
    assert_eq!(faults(), (Some(5), vec!["val.bin is not what was written".into()]));
    fs::write(&cached, &content[1..]).unwrap();
    assert!(faults().1[0].contains("not as long as they were"), "{:?}", faults());
    fs::remove_dir_all(cached.parent().unwrap()).unwrap();
    assert_eq!(faults(), (Some(0), vec![]));

    // A copy of a text that everybody knows.
    let copy = dir.path().join("user/shakespeare.txt");
    fs::create_dir(copy.parent().unwrap()).unwrap();
    fs::write(&copy, "First Citizen:").unwrap();
    assert_eq!(faults(), (Some(5), vec!["it has 14 bytes instead of 1,115,394".into()]));
    fs::remove_file(copy).unwrap();

    fs::write(tokens.join("val.bin"), [2, 0, 3, 0]).unwrap();
    assert_eq!(faults(), (Some(5), vec!["its tokens are others than those that were seen there last".into()]));
    fs::write(tokens.join("val.bin"), [2, 0, 9, 0]).unwrap();
    assert!(faults().1[0].contains("at byte 2 it has the id 9"), "{:?}", faults());
    fs::remove_file(tokens.join("val.bin")).unwrap();
    assert!(faults().1[0].contains("it has train.bin and no val.bin"), "{:?}", faults());
    fs::remove_dir_all(&tokens).unwrap();
    assert_eq!(faults(), (Some(5), vec!["it is gone, and forgotten now".into()]));
    assert_eq!(faults(), (Some(0), vec![]));
}
