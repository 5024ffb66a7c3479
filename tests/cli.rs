//! The command line as people and scripts see it: commands, exit codes, JSON shapes, what goes where.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use exp::base::manifest::FileRef;
use serde_json::Value;
use tempfile::TempDir;

const TINY: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus_chars: 20000}
train: {steps: 12, batch: 4}
eval: {every: 5, batches: 2, batch: 4}
grid: {lr: [1e-2, 1e-3]}
";

/// A folder with specs, and a root in it.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { folder: tempfile::tempdir().unwrap() };
        lab.write("tiny.yaml", TINY);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(args).current_dir(self.folder.path()).env_remove("EXP_ROOT").stdin(Stdio::null());
        // Nothing of this user is touched, and nothing is downloaded: nobody listens at port 1.
        command.env("EXP_CACHE", self.path("user")).env("EXP_SHAKESPEARE_URL", "http://127.0.0.1:1/");
        command
    }

    /// Runs `exp` and gives its output, which must end with that code.
    fn exp(&self, args: &[&str], code: i32) -> Output {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "exp {args:?}: {}", text(&output.stderr));
        output
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.exp(args, 0).stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn assert_keys(value: &Value, wanted: &[&str]) {
    let missing: Vec<_> = wanted.iter().filter(|k| !keys(value).contains(*k)).collect();
    assert!(missing.is_empty(), "{missing:?} are missing from {:?}", keys(value));
}

#[test]
fn from_a_spec_to_runs_reports_and_json() {
    let lab = Lab::new();
    let plan = lab.json(&["plan", "tiny.yaml", "--json"]);
    assert_keys(&plan, &["experiment", "runs", "duplicates", "excluded"]);
    assert_keys(
        &plan["runs"][0],
        &["id", "reason", "config", "engine", "params", "params_without_positions", "tokens", "flops", "bytes"],
    );
    assert_eq!((plan["runs"].as_array().unwrap().len(), &plan["runs"][0]["reason"]), (2, &Value::from("new")));

    let output = lab.exp(&["run", "tiny.yaml"], 0);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("lr") && out.contains("12/12") && !out.contains('\x1b'), "{out}");
    assert!(err.contains("tiny: 2 runs") && err.contains("report: reports/tiny/summary.md"), "{err}");
    assert!(!err.contains('\x1b'), "no colour and no bars where nobody looks: {err}");
    for file in ["loss_vs_lr.png", "learning_curves.png", "summary.md", "summary.csv"] {
        assert!(lab.path("reports/tiny").join(file).exists(), "{file}");
    }

    let runs = lab.json(&["ls", "--json"]);
    let known = ["id", "experiment", "state", "why", "step", "steps", "best_val_loss", "tokens_per_second", "attempts"];
    assert_keys(&runs[0], &known);
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["state"], &runs[0]["step"]), (2, &"done".into(), &12.into()));
    assert_eq!(runs[0]["config"]["train.lr"].as_f64().map(|lr| lr > 0.0), Some(true), "leaves are dotted");

    let id = runs[0]["id"].as_str().unwrap();
    assert_eq!(id.len(), 64, "ids in JSON are whole");
    let show = lab.json(&["show", &id[..12], "--json"]);
    assert_keys(&show, &known);
    let steps = |name: &str| -> Vec<u64> {
        show["metrics"][name].as_array().unwrap().iter().map(|p| p[0].as_u64().unwrap()).collect()
    };
    for name in ["train/loss", "lr", "grad_norm", "tokens_per_second", "step_ms", "data_ms", "memory_bytes"] {
        assert_eq!(steps(name), (1..=12).collect::<Vec<_>>(), "{name}");
    }
    for name in ["eval/train_loss", "val/loss", "val/bits_per_char"] {
        assert_eq!(steps(name), [0, 5, 10, 12], "{name}");
    }
    let artifacts = show["artifacts"].as_array().unwrap();
    artifacts.iter().for_each(|a| assert_keys(a, &["kind", "step", "path", "bytes", "blake3"]));
    let model = artifacts.iter().find(|a| a["path"].as_str().unwrap().ends_with("model.safetensors")).unwrap();
    let bytes = fs::read(lab.path(model["path"].as_str().unwrap())).unwrap();
    assert_eq!(model["blake3"], blake3::hash(&bytes).to_hex().as_str());

    let events = text(&lab.exp(&["logs", id, "--json"], 0).stdout);
    assert!(events.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()) && events.lines().count() > 15);
    assert!(text(&lab.exp(&["logs", id], 0).stdout).contains("val loss"));
    assert!(text(&lab.exp(&["show", id], 0).stdout).contains("train.weight_decay"));

    let again = lab.exp(&["run", "tiny.yaml", "--json"], 0);
    assert!(text(&again.stderr).contains("2 done already"));
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap()[0]["attempts"], 1, "nothing is trained twice");
    assert!(text(&lab.exp(&["resume", id], 0).stderr).contains("done already"));

    let picture = lab.path("reports/tiny/learning_curves.png");
    let before = fs::read(&picture).unwrap();
    lab.write("reports/tiny/mine.png", "a picture of my own");
    lab.write("reports/tiny/loss_vs_gone.png", "of an axis that is no more");
    let manifest = lab.path("reports/tiny/manifest.json");
    let mut earlier: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let gone = FileRef::of("loss_vs_gone.png", b"of an axis that is no more");
    let edited = FileRef::of("mine.png", b"a picture of exp's");
    for file in [gone, edited] {
        earlier["files"].as_array_mut().unwrap().push(serde_json::to_value(file).unwrap());
    }
    fs::write(&manifest, earlier.to_string()).unwrap();
    fs::remove_file(&picture).unwrap();
    lab.exp(&["report", "tiny"], 0);
    assert_eq!(fs::read(&picture).unwrap(), before, "the same rows give the same picture");
    assert!(lab.path("reports/tiny/mine.png").exists() && !lab.path("reports/tiny/loss_vs_gone.png").exists());
}

#[test]
fn tables_have_a_column_for_what_decides_results_or_is_swept_each_with_a_heading_of_its_own() {
    let lab = Lab::new();
    let quick = ["--set", "steps=1", "--set", "lr=1e-2", "--no-report"];
    let other = ["batch=2", "eval.batch=2", "keep_last=3", "retries=0", "sample.tokens=9"];
    lab.exp(&[&["run", "tiny.yaml"][..], &quick].concat(), 0);
    lab.write("other.yaml", TINY.replace("tiny", "other"));
    let other: Vec<&str> = other.iter().flat_map(|set| ["--set", set]).collect();
    lab.exp(&[&["run", "other.yaml"][..], &quick, &other].concat(), 0);
    let head = |args: &[&str]| -> Vec<String> {
        let out = text(&lab.exp(args, 0).stdout);
        out.lines().next().unwrap().split_whitespace().map(str::to_owned).collect()
    };
    let known = ["step", "best", "val", "loss", "bits/char", "tok/s", "state"];
    assert_eq!(head(&["ls"]), [&["run", "experiment", "settings"][..], &known].concat());
    let list = text(&lab.exp(&["ls"], 0).stdout);
    let of = |name: &str| list.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(of("other").contains("  train.batch=2 eval.batch=2  "), "{list}");

    lab.write("swept.yaml", TINY.replace("tiny", "swept") + "include: [{lr: 0.1, sample.tokens: 9}]\n");
    let plan = ["run", "lr", "sample.tokens", "params", "tokens", "FLOPs", "memory", "reason"];
    assert_eq!(head(&["plan", "swept.yaml"]), plan);
    lab.exp(&["run", "swept.yaml", "--set", "steps=1", "--no-report"], 0);
    assert_eq!(head(&["ls", "swept"]), [&["run", "lr", "tokens"][..], &known].concat());

    let runs = lab.json(&["ls", "--json"]);
    let ids: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).take(2).collect();
    let from = format!("init_from=[{}, {}]", ids[0], ids[1]);
    let told = text(&lab.exp(&["plan", "tiny.yaml", "--set", &from], 0).stdout);
    assert!(ids.iter().all(|id| told.contains(&id[..8]) && !told.contains(&id[..9])), "{told}");
    let whole = lab.json(&["plan", "tiny.yaml", "--set", &from, "--json"]);
    assert_eq!(whole["runs"][0]["config"]["run.init_from"], ids[0]);
}

#[test]
fn a_run_that_fails_is_told_and_the_others_go_on() {
    let lab = Lab::new();
    let output = lab.exp(&["run", "tiny.yaml", "--set", "lr=[1e30, 1e-3]", "--no-report"], 4);
    assert!(text(&output.stderr).contains("failed"), "{}", text(&output.stderr));
    let runs = lab.json(&["ls", "tiny", "--json"]);
    assert_eq!((&runs[0]["state"], &runs[1]["state"]), (&"failed".into(), &"done".into()));
    let why = runs[0]["why"].as_str().unwrap();
    assert!(why.contains("step"), "it names the step: {why}");
    assert!(!lab.path("reports").exists(), "--no-report draws nothing");
}

#[test]
fn only_some_points_are_trained_and_the_experiment_keeps_all() {
    let lab = Lab::new();
    let quick = ["--set", "steps=1", "--no-report"];
    let only =
        |condition: &'static str| [&["run", "tiny.yaml", "--seeds", "2", "--only", condition][..], &quick].concat();
    let said = text(&lab.exp(&only("lr > 5e-3 and seed == 1"), 0).stderr);
    assert!(said.contains("tiny: 1 run, 3 left out by --only"), "{said}");
    let of = |name: &str| -> Vec<(f64, u64)> {
        let runs = lab.json(&["ls", name, "--json"]);
        let leaf = |run: &Value, leaf: &str| run["config"][leaf].clone();
        let both = |run: &Value| (leaf(run, "train.lr").as_f64().unwrap(), leaf(run, "train.seed").as_u64().unwrap());
        runs.as_array().unwrap().iter().map(both).collect()
    };
    assert_eq!(of("tiny"), [(1e-2, 1)]);
    let folders = fs::read_dir(lab.path("runs"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().join("config.json").exists());
    assert_eq!(folders.count(), 1, "no folder is made for what is left out");
    let journal = fs::read_to_string(lab.path("runs/experiments/tiny/journal.jsonl")).unwrap();
    let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(last["members"].as_array().unwrap().len(), 4);

    let said = text(&lab.exp(&only("seed == 2"), 0).stderr);
    assert!(said.contains("2 runs, 2 left out") && !said.contains("leave its report"), "{said}");
    assert_eq!(of("tiny"), [(1e-2, 1), (1e-2, 2), (1e-3, 2)], "in the spec's order, what was trained before included");
    lab.exp(&["store", "rebuild"], 0);
    assert_eq!(of("tiny").len(), 3);
    let plan = lab.json(&["plan", "tiny.yaml", "--set", "steps=1", "--seeds=2", "--only", "seed == 1", "--json"]);
    assert_eq!((plan["runs"].as_array().unwrap().len(), &plan["left_out"]), (2, &2.into()));
    assert_eq!(plan["runs"][0]["reason"], "done already");

    // A device that is not here is none of those that are asked for.
    let devices = ["plan", "tiny.yaml", "--set", "run.device=cpu,cuda:63", "--json"];
    lab.exp(&devices, 3);
    let here = lab.json(&[&devices[..], &["--only", "device == cpu"]].concat());
    assert_eq!((here["runs"].as_array().unwrap().len(), &here["left_out"]), (2, &2.into()));
    for (condition, code, words) in [
        ("lr > 1", 2, "holds for none of 4 points"),
        ("lrr > 1", 2, "unknown name `lrr`"),
        ("lr", 2, "a condition is wanted"),
    ] {
        let error = text(&lab.exp(&only(condition), code).stderr);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_plan_says_what_is_cached_what_varies_and_how_long_the_rest_takes() {
    let lab = Lab::new();
    let planned = |args: &[&str]| text(&lab.exp(&[&["plan", "tiny.yaml"][..], args].concat(), 0).stdout);
    let json = |args: &[&str]| lab.json(&[&["plan", "tiny.yaml", "--json"][..], args].concat());
    let before = planned(&["--seeds", "20"]);
    assert!(before.contains("lr: 0.01, 0.001\n") && before.contains("40 of 40 runs to do"), "{before}");
    assert!(
        before.contains("seed: 1, 2, 3, 4, 5, 6, 7, 8, … 19, 20 (20 values)") && before.contains("40 new"),
        "{before}"
    );
    assert!(before.contains("once something was trained on this machine"), "{before}");
    assert_eq!(json(&[])["totals"]["seconds"], Value::Null);

    lab.exp(&["run", "tiny.yaml", "--no-report"], 0);
    let three = ["--set", "lr=1e-2,1e-3,3e-3"];
    let now = planned(&three);
    assert!(now.contains("1 of 3 runs to do") && now.contains("1 new, 2 cached"), "{now}");
    assert!(now.contains("\nabout ") && now.contains(" of checkpoints on disk"), "{now}");
    let of = json(&three);
    assert_eq!(of["axis_values"]["train.lr"], serde_json::json!([1e-2, 1e-3, 3e-3]));
    assert_eq!((&of["totals"]["runs_to_do"], &of["totals"]["seconds_are_rough"]), (&1.into(), &false.into()));
    assert_eq!((&of["runs"][0]["seconds"], of["runs"][2]["seconds"].as_f64().unwrap() > 0.0), (&0.0.into(), true));
    let kept = of["runs"][2]["disk_bytes"].as_u64().unwrap();
    assert_eq!(kept, 3 * 12 * of["runs"][2]["params"].as_u64().unwrap(), "12 steps, every 5: three checkpoints");
    let rough = ["--set", "layers=2"];
    assert!(planned(&rough).contains("\n~") && json(&rough)["totals"]["seconds_are_rough"] == true);

    let id = of["runs"][2]["id"].as_str().unwrap();
    let why = planned(&[&three[..], &["--explain", &id[..10]]].concat());
    let lines: Vec<&str> = why.lines().collect();
    assert!(
        lines.len() == 3 && lines[2].starts_with("train.lr") && lines[2].contains("0.003"),
        "min_lr follows: {why}"
    );
    let text_too = json(&["--set", "lr=3e-3", "--set", "corpus_seed=2"]);
    let id = text_too["runs"][0]["id"].as_str().unwrap();
    let why = json(&["--set", "lr=3e-3", "--set", "corpus_seed=2", "--explain", id]);
    assert_eq!(
        (&why["runs"][0], keys(&why["settings"])),
        (&id.into(), BTreeSet::from(["data.corpus_seed", "data.text", "train.lr"]))
    );
    assert!(text(&lab.exp(&["plan", "tiny.yaml", "--explain", "0123456789"], 2).stderr).contains("no run has an id"));
}

#[test]
fn each_kind_of_mistake_has_its_exit_code() {
    let lab = Lab::new();
    lab.write("bad.yaml", "model: {layres: 2}\n");
    for (args, code, words) in [
        (&["frobnicate"][..], 2, "frobnicate"),
        (&["run"], 2, "SPEC"),
        (&["run", "tiny.yaml", "--jobs", "0"], 2, "--jobs"),
        (&["show", "abc"], 2, "hint:"),
        (&["ls", "nothing"], 2, "hint:"),
        (&["report", "nothing"], 2, "hint:"),
        (&["run", "missing.yaml"], 3, "missing.yaml"),
        (&["run", "bad.yaml"], 3, "did you mean `layers`"),
        (&["plan", "tiny.yaml", "--set", "heads=3"], 3, "--set heads=3"),
        (&["plan", "tiny.yaml", "--device", "gpu"], 3, "did you mean"),
    ] {
        let output = lab.exp(args, code);
        assert!(text(&output.stderr).contains(words), "exp {args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "errors go to standard error");
    }
    assert!(!lab.path("runs").exists() || !lab.path("runs/exp.db").exists(), "a mistake starts nothing");

    fs::create_dir_all(lab.path("runs")).unwrap();
    lab.write("runs/exp.db", "no database");
    for args in [&["ls"][..], &["run", "tiny.yaml"]] {
        assert!(text(&lab.exp(args, 5).stderr).contains("exp.db"));
    }
    assert_eq!(fs::read(lab.path("runs/exp.db")).unwrap(), b"no database", "what cannot be read is not overwritten");
}

#[test]
fn the_root_may_be_named_anywhere() {
    let lab = Lab::new();
    lab.exp(&["--root", "a", "run", "tiny.yaml", "--no-report", "--set", "steps=1"], 0);
    lab.exp(&["run", "tiny.yaml", "--no-report", "--set", "steps=1", "--root", "b"], 0);
    let by_environment = lab.command(&["ls", "tiny", "--json"]).env("EXP_ROOT", "a").output().unwrap();
    let here = lab.json(&["ls", "tiny", "--json", "--root", "b"]);
    let there: Value = serde_json::from_slice(&by_environment.stdout).unwrap();
    assert_eq!((here.as_array().unwrap().len(), &here[0]["id"]), (2, &there[0]["id"]));
    assert!(!lab.path("runs").exists());
    fs::remove_file(lab.path("b/runs/exp.db")).unwrap();
    assert_eq!(lab.json(&["ls", "tiny", "--json", "--root", "b"]), here, "a lost index is made again");
    lab.exp(&["store", "rebuild", "--root", "b"], 0);
    assert_eq!(lab.json(&["ls", "tiny", "--json", "--root", "b"]), here);
}

#[test]
fn what_describes_the_tool_itself_is_well_formed() {
    let lab = Lab::new();
    assert_keys(&lab.json(&["schema"]), &["$schema", "properties"]);
    let devices = lab.json(&["devices", "--json"]);
    assert_keys(&devices[0], &["name", "id", "model", "cores", "memory_total", "memory_free", "runs"]);
    assert_eq!((&devices[0]["name"], &devices[0]["runs"]), (&"cpu".into(), &Value::Array(Vec::new())));
    let table = text(&lab.exp(&["devices"], 0).stdout);
    assert!(table.lines().next().unwrap().ends_with("runs") && table.lines().last().unwrap().ends_with('–'), "{table}");
    assert!(!lab.path("runs").exists(), "who looks makes nothing");
    assert!(text(&lab.exp(&["completions", "bash"], 0).stdout).contains("exp"));
    assert!(text(&lab.exp(&["--help"], 0).stdout).contains("resume"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let lab = Lab::new();
    let mut child = lab.command(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_an_error() {
    let lab = Lab::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = lab.command(&["schema"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard output cannot be written"));
}

#[test]
fn the_experiments_that_come_along_are_valid() {
    let lab = Lab::new();
    lab.write("input.txt", "To be, or not to be, that is the question.\n".repeat(100));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (spec, name) = (path.to_str().unwrap(), path.file_stem().unwrap().to_str().unwrap());
        if fs::read_to_string(&path).unwrap().contains("corpus: shakespeare") {
            let output = lab.exp(&["plan", spec], 3);
            assert!(text(&output.stderr).contains("exp data add shakespeare --from FILE"), "it says how to have it");
            assert_eq!(lab.json(&["plan", spec, "--json", "--set", "data.path=input.txt"])["experiment"], name);
        } else {
            assert_eq!(lab.json(&["plan", spec, "--json"])["experiment"], name);
        }
        seen += 1;
    }
    assert!(seen >= 4, "only {seen} experiments were found");
}

#[test]
fn the_readme_lists_every_setting_with_its_default() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    for leaf in exp::spec::leaf::all() {
        let row = format!("| `{}` | `{}` | {} |\n", leaf.path, leaf.default, leaf.doc);
        assert!(readme.contains(&row), "the README lacks the row\n{row}");
    }
}
