//! A root with three runs, and `exp` as people use it there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::Value;

use crate::lab::{Lab, copy};

pub const SPEC: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 8}
data: {corpus_chars: 20000}
train: {steps: 4, batch: 2}
eval: {every: 2, batches: 1, batch: 2}
run: {device: cpu}
grid: {lr: [1e-3, 1e-2, 1e-1]}
";

/// Three runs, trained once for all tests, each of which has a copy.
pub static TRAINED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = Lab::at(dir.path()).run(SPEC);
    assert_eq!(code, Some(0), "{said}");
    dir
});

/// A root of one test.
pub struct Home {
    pub lab: Lab,
    _dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        copy(TRAINED.path(), dir.path());
        Self { lab: Lab::at(dir.path()), _dir: dir }
    }

    pub fn path(&self) -> &Path {
        &self.lab.path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.lab.exp(arguments)
    }

    /// Exit code, standard output and standard error of a command.
    pub fn exp(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.lab.answers(arguments)
    }

    /// What a command that succeeds says.
    pub fn says(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.exp(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        out + &err
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.lab.json(arguments)
    }

    /// The whole ids, in the order of the grid.
    pub fn ids(&self) -> Vec<String> {
        ids(&self.json(&["ls", "tiny"]))
    }
}

pub fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// All paths below a folder, sorted.
pub fn all_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => [vec![entry.path()], all_below(&entry.path())].concat(),
            false => vec![entry.path()],
        })
        .collect();
    all.sort();
    all
}

/// What lies in `runs/`, but for the index.
pub fn in_runs(home: &Home) -> Vec<String> {
    let names = fs::read_dir(home.lab.root.runs()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("exp.db"));
    names.sort();
    names
}
