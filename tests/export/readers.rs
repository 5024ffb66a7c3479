//! pandas and TensorBoard read what is exported, where a Python that has them is there:
//!
//! ```sh
//! python3 -m venv target/torch && target/torch/bin/pip install pandas pyarrow tensorboard
//! ```
//!
//! or one that `EXP_TEST_PYTHON` names.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{exported, lab::Lab, made};

/// A Python that has the readers.
fn python() -> Option<PathBuf> {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/torch/bin/python"));
    let python = std::env::var_os("EXP_TEST_PYTHON").map_or(installed, PathBuf::from);
    let probe = Command::new(&python).args(["-c", "import pandas, pyarrow, tensorboard"]).output();
    let has_all = probe.is_ok_and(|output| output.status.success());
    if !has_all {
        eprintln!("skipped: {} has not pandas, pyarrow and tensorboard, or is not there", python.display());
    }
    has_all.then_some(python)
}

/// What `exp show --json` says of the runs of an experiment, in its order.
fn shown(lab: &Lab, experiment: &str) -> Value {
    let runs = lab.json(&["ls", experiment]);
    runs.as_array().unwrap().iter().map(|run| lab.json(&["show", run["id"].as_str().unwrap()])).collect()
}

fn reads_the_same(lab: &Lab, experiment: &str) {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    for format in ["csv", "jsonl", "parquet", "tensorboard"] {
        exported(lab, &[experiment, "--format", format], &dir.path().join(format));
    }
    fs::write(dir.path().join("want.json"), shown(lab, experiment).to_string()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/export/readers.py");
    let output = Command::new(python).arg(script).arg(dir.path()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}", said.concat());
    assert!(said[0].contains("as they should be"), "{}", said.concat());
}

#[test]
fn pandas_and_tensorboard_read_values_of_all_kinds() {
    let (_home, lab, _) = made();
    reads_the_same(&lab, "sweep");
}

#[test]
fn pandas_and_tensorboard_read_a_sweep() {
    if python().is_none() {
        return; // nothing has to be trained
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let spec = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 8}
data: {corpus_chars: 20000}
train: {steps: 40, batch: 2}
eval: {every: 20, batches: 1, batch: 2}
run: {device: cpu}
sample: {every: 20}
grid: {position: [learned, rope], lr: [1e-5, 1e-2]}
";
    let (code, said) = lab.run(spec);
    assert_eq!(code, Some(0), "{said}");
    reads_the_same(&lab, "tiny");
}
