//! Names that break what is careless: of roots, specs, texts, tokenizers, folders to write to, tags. They work, or are
//! refused with the rule. And readers that go away.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
};

use serde_json::{Value, json};

/// What no name should break.
const ODD: &str = "a b'\"%é🙂\n?x=1#y|*z[`&$_";

/// A folder, a root of an odd name in it, and a sweep over two texts and a tokenizer of odd names in that.
static PLACE: LazyLock<(tempfile::TempDir, String)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let root = format!("file:{ODD}");
    let text = |n: usize| format!("to be or not to be, that is question {n}.\n").repeat(200);
    let long = "é".repeat(100) + &"x".repeat(51) + ".txt"; // 255 bytes, as long as a name may be
    fs::write(dir.path().join(format!("-{ODD}.txt")), text(1)).unwrap();
    fs::write(dir.path().join(&long), text(2)).unwrap();
    let axis = json!([format!("-{ODD}.txt"), long]);
    let spec = format!(
        "experiment: odd
model: {{layers: 1, heads: 2, d_model: 16, context: 8}}
data: {{corpus: text}}
train: {{steps: 4, batch: 2}}
eval: {{every: 2, batches: 1, batch: 2}}
sample: {{every: 2, prompt: \"to\", tokens: 5}}
run: {{device: cpu}}
grid: {{data.path: {axis}}}
"
    );
    fs::write(dir.path().join(format!("-{ODD}.yaml")), spec).unwrap();
    let place = (dir, root);
    let (code, _, err) = exp_in(&place, &["run", "--", &format!("-{ODD}.yaml")]);
    assert_eq!(code, Some(0), "{err}");
    place
});

fn command((dir, root): &(tempfile::TempDir, String), arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
    command.arg("--root").arg(root).args(arguments).current_dir(dir.path()).stdin(Stdio::null());
    command.env("EXP_CACHE", dir.path().join("user"));
    command
}

/// Exit code, standard output and standard error.
fn exp_in(place: &(tempfile::TempDir, String), arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(place, arguments).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code(), out, err)
}

/// What a command that succeeds prints.
fn exp(arguments: &[&str]) -> String {
    let (code, out, err) = exp_in(&PLACE, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    out
}

fn json_of(arguments: &[&str]) -> Value {
    serde_json::from_str(&exp(&[arguments, &["--json"]].concat())).unwrap()
}

fn below(path: &str) -> PathBuf {
    PLACE.0.path().join(path)
}

#[test]
fn every_command_works_with_odd_names() {
    let list = json_of(&["ls", "odd"]);
    let ids: Vec<String> = list.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    let path = list[0]["config"]["data.path"].as_str().unwrap();
    assert!(ids.len() == 2 && path.ends_with(&format!("/-{ODD}.txt")), "{path:?}");
    assert_eq!(exp(&["ls"]).lines().count(), 4);
    assert_eq!(exp(&["ls", "--columns", "id,data.path,tags"]).lines().count(), 4);
    assert!(exp(&["show", &ids[0]]).contains("runs/"));
    let csv = exp(&["sql", "SELECT value FROM setting WHERE name = 'data.path' ORDER BY 1", "--csv"]);
    assert!(csv.contains(&ODD.replace('"', "\"\"")), "{csv}");
    assert_eq!(json_of(&["ls", "--filter", "contains(path, '🙂')"]).as_array().unwrap().len(), 1);
    exp(&["logs", &ids[0]]);
    exp(&["best", "odd"]);
    exp(&["diff", &ids[0], &ids[1]]);
    exp(&["devices"]);
    exp(&["plan", "--", &format!("-{ODD}.yaml")]);
    exp(&["sample", &ids[0], "--prompt", "to", "--tokens", "3"]);
    exp(&["eval", &ids[0], "--text", &format!("./-{ODD}.txt"), "--all"]);
    exp(&["attention", &ids[0], "--prompt", "to be", "--out", &format!("{ODD}/{ODD}.png")]);
    assert!(below(&format!("{ODD}/{ODD}.png")).is_file());
    exp(&["export", &ids[0], "--format", "hf", &format!("{ODD}/model")]);
    exp(&["import", &format!("{ODD}/model"), "--experiment", "back"]);
    exp(&["data", "prepare", &format!("./-{ODD}.txt"), "--out", &format!("{ODD}/tokens"), "--tokenizer", "byte"]);
    exp(&["data", "ls"]);
    exp(&["data", "show", &format!("{ODD}/tokens")]);
    exp(&["data", "verify"]);
    exp(&["inspect", &format!("./-{ODD}.yaml")]);
    let tag = format!("{}{}", ODD.replace('\n', " "), "t".repeat(200 - ODD.chars().count()));
    exp(&["tag", &ids[0], &tag]);
    assert_eq!(json_of(&["tag"]), json!([{"tag": tag, "runs": 1}]));
    assert_eq!(exp(&["tag"]).lines().count(), 3);
    assert_eq!(json_of(&["show", &ids[0]])["tags"], json!([tag]));
    exp(&["store", "rebuild"]);
    exp(&["report", "odd"]);
    exp(&["gc"]);
    exp(&["rm", "back", "--yes"]);
    assert_eq!(json_of(&["ls"]).as_array().unwrap().len(), 2);
}

#[test]
fn reports_hold_odd_names_as_text() {
    exp(&["ls"]);
    let report = PLACE.0.path().join(&PLACE.1).join("reports/odd");
    let page = fs::read_to_string(report.join("summary.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.iter().any(|row| row.contains('🙂')), "{page}");
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for table in page.split("\n\n").filter(|part| part.starts_with('|')) {
        assert!(table.lines().all(|row| cells(row) == cells(table.lines().next().unwrap())), "{table}");
    }
    let csv = fs::read_to_string(report.join("summary.csv")).unwrap();
    assert_eq!(records(&csv).iter().map(Vec::len).collect::<Vec<_>>(), [records(&csv)[0].len(); 3]);
    assert!(records(&csv)[1..].iter().any(|record| record.iter().any(|cell| cell.ends_with(&format!("-{ODD}.txt")))));
}

/// CSV as RFC 4180 has it.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut cells, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                cells.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut cells));
            }
            other => cell.push(other),
        }
    }
    records
}

#[test]
fn a_name_that_an_experiment_cannot_have_is_refused_with_the_rule() {
    for name in ["a b", "é", "a/b", "..", "-x", "a%", "🙂", "a\"b", "a\nb", &"x".repeat(101)] {
        let path = below("refused.yaml");
        fs::write(&path, format!("experiment: {}\ntrain: {{steps: 1}}\n", json!(name))).unwrap();
        let (code, _, err) = exp_in(&PLACE, &["plan", "refused.yaml"]);
        assert!(code == Some(3) && err.contains("experiment"), "{name:?}: {err}");
        let says = [
            "letters, digits, `_`, `-` and `.` are all",
            "begins with a dot",
            "begins with a dash",
            "100 are the most",
        ];
        assert!(says.iter().any(|rule| err.contains(rule)), "{name:?}: {err}");
    }
    fs::write(below("sp ec.yaml"), "train: {steps: 1}\n").unwrap(); // the name would be the file's
    let (code, _, err) = exp_in(&PLACE, &["plan", "sp ec.yaml"]);
    assert!(code == Some(3) && err.contains("letters, digits"), "{err}");
    for what in ["rm", "report", "cancel"] {
        let (code, _, err) = exp_in(&PLACE, &[what, "no 🙂\nsuch"]);
        assert!(code == Some(2) && err.contains("hint: "), "{err}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let list = json_of(&["ls", "odd"]);
    let [id, other] = [0, 1].map(|n| list[n]["id"].as_str().unwrap());
    let spec = format!("./-{ODD}.yaml");
    let commands: [&[&str]; 22] = [
        &["ls"],
        &["ls", "--json"],
        &["ls", "--columns", "id"],
        &["show", id],
        &["show", id, "--json"],
        &["sql", "SELECT * FROM metric"],
        &["sql", "SELECT * FROM metric", "--csv"],
        &["sql", "SELECT * FROM metric", "--json"],
        &["logs", id, "--steps"],
        &["best", "odd", "-n", "2"],
        &["diff", id, other],
        &["plan", &spec],
        &["run", &spec],
        &["tag"],
        &["gc"],
        &["data", "ls"],
        &["devices"],
        &["inspect", &spec],
        &["schema"],
        &["completions", "bash"],
        &["sample", id, "--prompt", "to", "--tokens", "50"],
        &["--help"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&PLACE, arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(0) && !err.contains("panick") && !err.contains("ipe"),
            "{arguments:?}: {:?} {err}",
            output.status
        );
    }
}
