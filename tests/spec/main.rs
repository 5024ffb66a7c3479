//! The spec language from outside: what a person writes, and what comes of it.

mod axes;
mod derived;
mod errors;
mod ids;
mod inheritance;
mod presets;
mod random;
mod random_axes;
mod stopping;
mod sweeps;

use std::{fs, path::Path};

use exp::{
    base::Error,
    spec::{self, Sweep},
};

/// The sweep of a spec of that text.
fn sweep(text: &str) -> Sweep {
    sweep_with(text, &[])
}

/// The sweep of a spec of that text with `--set`s.
fn sweep_with(text: &str, set: &[&str]) -> Sweep {
    try_load(text, set).unwrap_or_else(|error| panic!("{}\n{text}", shown(&error)))
}

/// The error of a spec of that text with `--set`s.
fn error_with(text: &str, set: &[&str]) -> Error {
    match try_load(text, set) {
        Err(error) => error,
        Ok(sweep) => panic!("{} points were taken from\n{text}", sweep.points.len()),
    }
}

fn try_load(text: &str, set: &[&str]) -> Result<Sweep, Error> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), text).unwrap();
    load_in(folder.path(), "a.yaml", set)
}

/// Loads a spec of a folder, and takes the folder out of the error's words.
fn load_in(folder: &Path, name: &str, set: &[&str]) -> Result<Sweep, Error> {
    let set: Vec<String> = set.iter().map(|&s| s.into()).collect();
    spec::load(&folder.join(name), &set).map_err(|mut error| {
        let bare = |text: String| text.replace(&format!("{}/", folder.display()), "");
        error.doing = bare(error.doing);
        error.why = bare(error.why);
        error.hint = error.hint.map(bare);
        error
    })
}

/// An error as it stands on the screen.
fn shown(error: &Error) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("error: {error}{hint}")
}

/// The values of a leaf over a sweep's points.
fn values(sweep: &Sweep, leaf: &str) -> Vec<serde_json::Value> {
    let leaf = spec::leaf::find(leaf).unwrap();
    sweep.points.iter().map(|point| leaf.get(point)).collect()
}
