//! `exp tag`.

use std::fs;

use exp::store::Store;
use serde_json::json;

use crate::common::*;

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
    index
        .execute_batch(
            "DROP VIEW run; ALTER TABLE runs DROP COLUMN paused; ALTER TABLE runs DROP COLUMN paused_step;
             ALTER TABLE runs DROP COLUMN paused_attempt; CREATE VIEW run AS SELECT id FROM runs;
             DROP VIEW tag; DROP TABLE tags; DROP TABLE used; DROP TABLE reports;
             PRAGMA user_version = 3",
        )
        .unwrap();
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
