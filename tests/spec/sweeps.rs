//! What good specs expand to.

use exp::{
    base::Exit,
    spec::{RunConfig, config::Schedule},
};
use serde_json::json;

use super::{load_in, sweep, sweep_with, values};

#[test]
fn the_design_s_example() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spec/specs"));
    let sweep = load_in(folder, "depth_sweep.yaml", &[]).unwrap();
    assert_eq!(sweep.experiment, "depth_sweep");
    assert_eq!(sweep.axes, ["model.layers", "train.seed"]);
    assert_eq!(values(&sweep, "layers"), [2, 2, 2, 4, 4, 4, 8, 8, 8].map(|n| json!(n)));
    assert_eq!(values(&sweep, "seed"), [1, 2, 3, 1, 2, 3, 1, 2, 3].map(|n| json!(n)));
    let mut first = RunConfig::default();
    first.model.layers = 2;
    assert_eq!(sweep.points[0], first, "all else has its default");
    assert!(sweep.text.starts_with("# The example"));
}

#[test]
fn a_spec_without_axes_is_one_run() {
    let one = sweep("{}\n");
    assert_eq!((one.points, one.axes.len(), one.experiment.as_str()), (vec![RunConfig::default()], 0, "a"));
    let empty = sweep("model:\ntrain: ~\ngrid:\nzip:\nexclude:\ninclude:\n");
    assert_eq!(empty.points, [RunConfig::default()], "a key with nothing under it says nothing");
}

#[test]
fn a_leaf_has_many_names_and_a_number_many_forms() {
    let written = [
        "train: {lr: 0.0001, steps: 30}\n",
        "train:\n  lr: 1e-4\n  steps: 30.0\n",
        "lr: 1E-4\nsteps: 3e1\n",
        "train.lr: 1.0e-4\ntrain.steps: +30\n",
        "\"lr\": .0001\n'steps': 300e-1 # updates\n",
        "--- {lr: 1e-4, train: {steps: 30}}\n...\n",
        "\u{feff}lr: 1e-4\r\nsteps: 30\r\n",
    ];
    let points: Vec<_> = written.iter().map(|text| sweep(text).points).collect();
    assert!(points.windows(2).all(|two| two[0] == two[1]));
    assert_eq!((points[0][0].train.lr, points[0][0].train.steps), (1e-4, 30));
}

#[test]
fn a_shared_word_means_the_leaf_of_the_first_groups() {
    let sweep = sweep_with("eval: {batch: 3}\ngrid: {batch: [4, 8]}\n", &[]);
    assert_eq!(sweep.axes, ["train.batch"]);
    assert_eq!(values(&sweep, "eval.batch"), [3, 3]);
    let sweep = sweep_with("{}", &["batch=5", "eval.batch=6", "eval.every=7"]);
    let point = &sweep.points[0];
    assert_eq!((point.train.batch, point.eval.batch, point.eval.every, point.checkpoint.every), (5, 6, 7, 7));
}

#[test]
fn the_last_axis_walks_fastest_and_seeds_innermost() {
    let text = "seeds: [7, 5]\nzip:\n  - {layers: [2, 4], d_model: [64, 128]}\ngrid:\n  lr: [1e-3, 1e-2]\n  train: {batch: [1, 2]}\n";
    let sweep = sweep(text);
    assert_eq!(sweep.axes, ["model.layers", "model.d_model", "train.lr", "train.batch", "train.seed"]);
    let rows: Vec<_> = sweep
        .points
        .iter()
        .map(|p| (p.model.layers, p.model.d_model, p.train.lr, p.train.batch, p.train.seed))
        .collect();
    assert_eq!(rows.len(), 16);
    assert_eq!(
        rows[..5],
        [(2, 64, 1e-3, 1, 7), (2, 64, 1e-3, 1, 5), (2, 64, 1e-3, 2, 7), (2, 64, 1e-3, 2, 5), (2, 64, 1e-2, 1, 7)]
    );
    assert_eq!(rows[15], (4, 128, 1e-2, 2, 5));
}

#[test]
fn defaults_follow_the_point() {
    let sweep = sweep("grid: {d_model: [64, 128], lr: [3e-4], heads: [2]}\nzip: [{kv_heads: [1, null]}]\n");
    assert_eq!(values(&sweep, "d_ff"), [256, 256, 512, 512]);
    assert_eq!(values(&sweep, "min_lr"), [3e-5; 4]);
    assert_eq!(values(&sweep, "kv_heads"), [1, 2, 1, 2], "null stands for the default");
}

#[test]
fn points_are_excluded_by_what_they_are() {
    let text = "grid:\n  layers: [2, 4, 8]\n  lr: [1e-3, 1e-2]\nexclude:\n  - {layers: 8.0, train.lr: 0.01}\n  - {model: {layers: 2}, min_lr: 1e-4}\n  - {layers: 8, lr: 1e-2, norm: layernorm}\n";
    let sweep = sweep(text);
    assert_eq!(sweep.excluded, 2);
    assert_eq!(values(&sweep, "layers"), [2, 4, 4, 8]);
    assert_eq!(values(&sweep, "lr"), [1e-2, 1e-3, 1e-2, 1e-3]);
}

#[test]
fn an_excluded_point_may_be_one_that_cannot_be() {
    let sweep = sweep("grid: {heads: [2, 3], d_model: [128, 96]}\nexclude: [{heads: 3, d_model: 128}]\n");
    assert_eq!((sweep.points.len(), sweep.excluded), (3, 1));
}

#[test]
fn included_points_have_the_settings_outside_the_grid() {
    let text = "layers: 6\nbatch: 3\ngrid: {lr: [1e-3, 1e-2], layers: [2]}\ninclude:\n  - {lr: 1e-4}\n  - {layers: 12, dropout: 0.5, seed: 9}\nseeds: 2\n";
    let sweep = sweep(text);
    assert_eq!(sweep.axes, ["train.lr", "model.layers", "model.dropout", "train.seed"], "what varies is an axis");
    assert_eq!(sweep.points.len(), 2 * 2 + 2 + 1);
    assert_eq!(values(&sweep, "layers"), [2, 2, 2, 2, 6, 6, 12]);
    assert_eq!(values(&sweep, "seed"), [1, 2, 1, 2, 1, 2, 9], "for every seed, unless it has its own");
    assert_eq!(values(&sweep, "batch"), [3; 7]);
    assert_eq!(values(&sweep, "lr")[4..], [1e-4, 1e-4, 1e-3]);
}

#[test]
fn a_set_replaces_the_leaf_or_the_axis() {
    let text = "layers: 4\ngrid: {layers: [2, 4], lr: [1e-3, 1e-2]}\nseeds: 3\n";
    let set = |set: &[&str]| {
        let sweep = sweep_with(text, set);
        (sweep.axes.join(" "), sweep.points.len())
    };
    assert_eq!(set(&["lr=3e-4"]), ("model.layers train.seed".into(), 6));
    assert_eq!(set(&["train.lr=[1, 2, 3]"]), ("model.layers train.lr train.seed".into(), 18), "in its place");
    assert_eq!(set(&["batch=[1,2]"]), ("model.layers train.lr train.batch train.seed".into(), 24));
    assert_eq!(set(&["seed=5"]), ("model.layers train.lr".into(), 4));
    assert_eq!(set(&["seeds=2"]), ("model.layers train.lr train.seed".into(), 8));
    assert_eq!(set(&["seeds=[4]", "lr=null", "layers=8"]), ("train.seed".into(), 1));
    let sweep = sweep_with(text, &["lr=1", "lr=2", "layers=3", "run.device=cuda:1", "experiment=other"]);
    assert_eq!(values(&sweep, "lr"), [2.0; 3], "the last one counts");
    assert_eq!((values(&sweep, "layers"), sweep.experiment.as_str()), (vec![json!(3); 3], "other"));
    assert_eq!(sweep.points[0].run.device, "cuda:1");
}

#[test]
fn a_set_may_leave_an_exclusion_without_points() {
    let text = "grid: {layers: [2, 4]}\nexclude: [{layers: 4}]\n";
    assert_eq!(sweep_with(text, &["layers=[2,3]"]).points.len(), 2);
    assert_eq!(super::error_with(text, &["layers=4"]).exit, Exit::Spec, "nothing is left");
}

#[test]
fn paths_work_from_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "data: {corpus: text, path: texts/../b.txt}\n").unwrap();
    std::fs::create_dir(folder.path().join("texts")).unwrap();
    std::fs::write(folder.path().join("b.txt"), "text").unwrap();
    let whole = folder.path().canonicalize().unwrap().join("b.txt");
    let path = |set: &[&str]| load_in(folder.path(), "a.yaml", set).unwrap().points[0].data.path.clone().unwrap();
    assert_eq!(path(&[]), whole.to_str().unwrap());
    let here = std::env::current_dir().unwrap().canonicalize().unwrap();
    assert_eq!(path(&["data.path=Cargo.toml"]), here.join("Cargo.toml").to_str().unwrap());
    assert_eq!(path(&["path=missing.txt"]), here.join("missing.txt").to_str().unwrap());
    std::fs::write(folder.path().join("b.yaml"), "tokenizer: file\ntokenizer_file: b.txt\n").unwrap();
    let sweep = load_in(folder.path(), "b.yaml", &[]).unwrap();
    assert_eq!(sweep.points[0].data.tokenizer_file.as_deref(), whole.to_str());
}

#[test]
fn a_rate_that_never_falls_has_no_floor_to_check() {
    let sweep = sweep("lr: 1e-5\nmin_lr: 1e-4\nschedule: constant\n");
    assert_eq!(sweep.points[0].train.schedule, Schedule::Constant);
}
