//! What people ask of runs: lists with conditions, the best ones, differences, SQL.

mod lab;

use std::{fs, process::Command, sync::LazyLock};

use lab::Lab;
use serde_json::{Value, json};

const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 8}
data: {corpus_chars: 20000}
train: {steps: 4, batch: 2}
eval: {every: 2, batches: 1, batch: 2}
run: {device: cpu}
grid: {layers: [1, 2], lr: [1e-3, 1e-2], position: [learned, rope]}
";

const SECRET: &str = "open-sesame";

/// Eight runs, trained once for all tests, which only look.
static RUNS: LazyLock<(tempfile::TempDir, Lab)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let (code, said) = lab::answer(lab.command(SPEC).env("MY_TOKEN", SECRET).env("TZ", "UTC").output().unwrap());
    assert_eq!(code, Some(0), "{said}");
    let tagged = lab.exp(&["tag", "--where", "layers == 1 and position == rope", "mine"]).output().unwrap();
    assert!(tagged.status.success());
    (dir, lab)
});

/// Exit code, standard output and standard error of a command.
fn exp(arguments: &[&str]) -> (Option<i32>, String, String) {
    RUNS.1.answers(arguments)
}

fn json_of(arguments: &[&str]) -> Value {
    RUNS.1.json(arguments)
}

/// What of a setting the listed runs have.
fn settings(list: &Value, leaf: &str) -> Vec<Value> {
    list.as_array().unwrap().iter().map(|run| run["config"][leaf].clone()).collect()
}

#[test]
fn lists_are_filtered_by_settings_and_by_what_came_out() {
    let all = json_of(&["ls", "tiny"]);
    assert_eq!(all.as_array().unwrap().len(), 8);
    let deep = json_of(&["ls", "tiny", "--filter", "layers >= 2 and position == rope"]);
    assert_eq!(settings(&deep, "model.layers"), [2, 2]);
    assert_eq!(settings(&deep, "model.position"), ["rope", "rope"]);
    let losses: Vec<f64> = all.as_array().unwrap().iter().map(|run| run["best_val_loss"].as_f64().unwrap()).collect();
    let middle = losses.iter().sum::<f64>() / 8.0;
    let low = json_of(&["ls", "--filter", &format!("best_val_loss < {middle} and state == done")]);
    assert_eq!(low.as_array().unwrap().len(), losses.iter().filter(|loss| **loss < middle).count());
    assert_eq!(json_of(&["ls", "--filter", "imported or step < 4"]), json!([]));
    let mine = json_of(&["ls", "--filter", "\"mine\" in tags"]);
    assert_eq!((settings(&mine, "model.layers"), mine[0]["tags"].clone()), (vec![json!(1), json!(1)], json!(["mine"])));
    let (code, out, err) = exp(&["ls", "--filter", "imported"]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", "there is no such run\n"));
    for (condition, why) in [
        ("layers === 2", "a value is missing before `=`"),
        ("layrs > 1", "did you mean `layers`?"),
        ("state == dnoe", "did you mean `done`?"),
    ] {
        let (code, _, err) = exp(&["ls", "--filter", condition]);
        assert_eq!(code, Some(2));
        assert!(err.contains(why), "{condition}: {err}");
    }
}

#[test]
fn lists_are_sorted_and_show_what_is_asked() {
    let sorted = json_of(&["ls", "tiny", "--sort=-layers,lr,position"]);
    assert_eq!(settings(&sorted, "model.layers"), [2, 2, 2, 2, 1, 1, 1, 1]);
    assert_eq!(settings(&sorted, "train.lr")[..4], [json!(0.001), json!(0.001), json!(0.01), json!(0.01)]);
    assert_eq!(settings(&sorted, "model.position")[..2], ["learned", "rope"]);
    let (_, out, _) = exp(&["ls", "tiny", "--sort", "layers", "--columns", "layers,train.lr,state"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["layers", "train.lr", "state"]);
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["1", "0.001", "done"]);
    let (code, _, err) = exp(&["ls", "--columns", "best_val_los"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("did you mean `best_val_loss`?"), "{err}");
}

#[test]
fn the_best_run_is_named_for_scripts() {
    let all = json_of(&["ls", "tiny"]);
    let loss = |run: &Value| run["best_val_loss"].as_f64().unwrap();
    let best = all.as_array().unwrap().iter().min_by(|a, b| loss(a).total_cmp(&loss(b))).unwrap();
    let (code, out, _) = exp(&["best", "tiny"]);
    assert_eq!((code, out.trim_end()), (Some(0), best["id"].as_str().unwrap()));
    let shallow = json_of(&["best", "tiny", "--where", "layers == 1", "-n", "3", "--by=-best_val_loss"]);
    let losses: Vec<f64> = shallow.as_array().unwrap().iter().map(loss).collect();
    assert!(losses.len() == 3 && losses.is_sorted_by(|a, b| a >= b), "{losses:?}");
    assert_eq!(settings(&shallow, "model.layers"), [1, 1, 1]);
    for (arguments, why) in [
        (
            &["best", "tiny", "--where", "layers > 8"][..],
            "no run of it has a finite `best_val_loss` under that condition",
        ),
        (&["best", "tiny", "--by", "state"], "`state` is no number"),
        (&["best", "tiney"], "did you mean `tiny`?"),
    ] {
        let (code, _, err) = exp(arguments);
        assert_eq!(code, Some(2));
        assert!(err.contains(why), "{err}");
    }
}

#[test]
fn two_runs_differ_in_what_they_differ_in() {
    let pair = json_of(&["ls", "tiny", "--filter", "layers == 1 and position == rope"]);
    let [a, b] = [0, 1].map(|i| pair[i]["id"].as_str().unwrap());
    let diff = json_of(&["diff", a, b]);
    assert_eq!(diff["runs"], json!([a, b]));
    assert_eq!(diff["settings"], json!({"train.lr": [0.001, 0.01], "train.min_lr": [0.0001, 0.001]}));
    assert_eq!(diff["metrics"]["best_val_loss"], json!([pair[0]["best_val_loss"], pair[1]["best_val_loss"]]));
    assert_eq!(diff["provenance"], json!({}), "trained alike");
    let (_, out, err) = exp(&["diff", a, a]);
    assert_eq!((out.as_str(), err.as_str()), ("", "they do not differ in anything\n"));
}

#[test]
fn a_run_knows_by_what_it_was_made_and_no_secrets() {
    let best = json_of(&["best", "tiny"]);
    let id = best[0]["id"].as_str().unwrap();
    let shown = json_of(&["show", id]);
    let from = &shown["attempt_list"][0]["started"]["provenance"];
    let command: Vec<&str> = from["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(command[1..4], ["--root", RUNS.0.path().to_str().unwrap(), "run"], "{command:?}");
    assert_eq!(from["folder"], std::env::current_dir().unwrap().to_str().unwrap());
    let program = blake3::hash(&fs::read(env!("CARGO_BIN_EXE_exp")).unwrap()).to_string();
    assert_eq!(from["program"], program[..16]);
    assert_eq!(from["environment"]["TZ"], "UTC");
    assert!(!shown.to_string().contains(SECRET) && !shown.to_string().contains("MY_TOKEN"), "{shown}");
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output().ok().filter(|output| output.status.success());
    match head {
        Some(head) => assert_eq!(from["git"]["commit"], String::from_utf8_lossy(&head.stdout).trim()),
        None => assert!(from["git"].is_null(), "no git here"),
    }
    let (_, text, _) = exp(&["show", id]);
    assert!(text.lines().any(|line| line.starts_with("command       ") && line.contains(" run ")), "{text}");
}

#[test]
fn sql_answers_questions_and_changes_nothing() {
    let rows = json_of(&[
        "sql",
        "SELECT run.id, setting.value AS lr FROM run JOIN setting ON setting.run = run.id AND name = 'train.lr' ORDER BY 1",
    ]);
    assert_eq!(rows.as_array().unwrap().len(), 8);
    assert!(rows.as_array().unwrap().iter().all(|row| row["lr"].is_number()), "{rows}");
    let steps = json_of(&["sql", "SELECT count(*) AS n, max(step) AS last FROM metric WHERE name = 'train/loss'"]);
    assert_eq!(steps, json!([{"n": 32, "last": 4}]));
    for view in ["run", "setting", "metric", "attempt", "member", "artifact", "tag"] {
        let some = json_of(&["sql", &format!("SELECT * FROM {view} LIMIT 1")]);
        assert_eq!(some.as_array().unwrap().len(), 1, "{view}");
    }
    let (_, out, _) = exp(&["sql", "SELECT 'a,\"b\"' AS x, NULL AS y, 1.5 AS z", "--csv"]);
    assert_eq!(out, "x,y,z\n\"a,\"\"b\"\"\",,1.5\n");
    let (code, _, err) = exp(&["sql", "SELECT 1 AS a, 2 AS a", "--json"]);
    assert!(code == Some(2) && err.contains("two of its columns are called \"a\""), "{err}");
    for question in [
        "DELETE FROM runs",
        "WITH x AS (SELECT 1) DELETE FROM runs",
        "PRAGMA journal_mode = DELETE",
        "ATTACH 'other.db' AS other",
        "SELECT 1; DROP TABLE runs",
        "SELECT nothing FROM nowhere",
        "",
    ] {
        let (code, out, err) = exp(&["sql", question]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{question}: {err}");
        assert!(err.contains("hint: there are run, setting, metric"), "{err}");
    }
    assert_eq!(json_of(&["ls", "tiny"]).as_array().unwrap().len(), 8);
}
