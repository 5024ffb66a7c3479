//! Specs that inherit from others.

use std::{fs, path::Path};

use exp::spec::Sweep;

use super::{load_in, shown, values};

/// Loads the first of some files, written into one folder.
fn load(files: &[(&str, &str)]) -> Result<Sweep, exp::base::Error> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    load_in(folder.path(), files[0].0, &[])
}

const BASE: &str = "experiment: base\nmodel: {layers: 3, heads: 2}\ngrid:\n  batch: [1, 2]\n  lr: [1e-3, 1e-2]\n\
                    zip:\n  - {d_model: [64, 128], d_ff: [100, 200]}\nexclude: [{batch: 2, lr: 1e-2}]\nseeds: 2\n";

#[test]
fn a_child_replaces_what_it_names_and_keeps_the_rest() {
    let child = load(&[("c.yaml", "base: b.yaml\nlayers: 5\n"), ("b.yaml", BASE)]).unwrap();
    assert_eq!(child.experiment, "c", "a name is not inherited");
    assert_eq!(child.axes, ["train.batch", "train.lr", "model.d_model", "model.d_ff", "train.seed"]);
    assert_eq!((child.points.len(), child.excluded), (12, 4));
    assert_eq!((child.points[0].model.layers, child.points[0].model.heads), (5, 2));
    assert_eq!(child.text, "base: b.yaml\nlayers: 5\n");
}

#[test]
fn an_axis_of_a_child_replaces_that_of_grid_or_zip() {
    let axes = |child: &str| load(&[("c.yaml", &format!("base: b.yaml\n{child}")), ("b.yaml", BASE)]).unwrap();
    let child = axes("grid: {lr: [5e-3], d_model: [32]}\n");
    assert_eq!(child.axes, ["train.batch", "train.lr", "model.d_model", "model.d_ff", "train.seed"]);
    assert_eq!(child.points.len(), 2 * 2 * 2);
    let child = axes("zip: [{lr: [1e-3, 1e-2], d_ff: [1, 2]}]\n");
    assert_eq!(child.axes, ["train.batch", "train.lr", "model.d_ff", "model.d_model", "train.seed"]);
    let child = axes("lr: 1\nseed: 4\nexclude: []\n");
    assert_eq!(child.axes, ["train.batch", "model.d_model", "model.d_ff"], "a plain value replaces an axis too");
    assert_eq!(child.points.len(), 4);
    let child = axes("grid: {seed: [1, 2, 3]}\n");
    assert_eq!(child.axes, ["train.batch", "train.lr", "model.d_model", "model.d_ff", "train.seed"]);
    assert_eq!(values(&child, "seed")[..4], [1, 2, 3, 1]);
}

#[test]
fn a_path_belongs_to_the_file_that_wrote_it() {
    let sweep = load(&[
        ("specs/c.yaml", "base: ../shared/b.yaml\n"),
        ("shared/b.yaml", "base: deep/a.yaml\ndata: {path: texts/x.txt}\n"),
        ("shared/deep/a.yaml", "data: {corpus: text, path: y.txt}\nlayers: 9\n"),
        ("shared/texts/x.txt", "text"),
    ])
    .unwrap();
    assert!(Path::new(sweep.points[0].data.path.as_ref().unwrap()).ends_with("shared/texts/x.txt"));
    assert_eq!(sweep.points[0].model.layers, 9);
}

#[test]
fn a_fault_of_a_base_is_shown_in_the_base() {
    let mut gallery = String::new();
    for files in [
        &[("c.yaml", "# mine\nbase: b.yaml\n"), ("b.yaml", "lr: fast\n")][..],
        &[("c.yaml", "base: d.yaml\n"), ("b.yaml", "lr: 1\n")],
        &[("c.yaml", "base: folder\n"), ("folder/b.yaml", "lr: 1\n")],
        &[("c.yaml", "base: b.yaml\n"), ("b.yaml", "base: a.yaml\n"), ("a.yaml", "base: ./b.yaml\n")],
        &[("c.yaml", "base: c.yaml\n")],
        &[("c.yaml", "base: [b.yaml]\n")],
        &[("c.yaml", "base: b.yaml\ngrid: {heads: [3]}\n"), ("b.yaml", "model:\n  d_model: 128\n")],
        &[("c.yaml", "base: b.yaml\nlr: 1\n"), ("b.yaml", "grid: {layers: [2]}\nexclude: [{layers: 3}]\n")],
    ] {
        gallery += &format!("{}\n\n\n", shown(&load(files).unwrap_err()));
    }
    insta::assert_snapshot!(gallery);
}
