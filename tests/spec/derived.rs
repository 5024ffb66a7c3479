//! What follows from other leaves: derivations, budgets; and blocks for some points.

use exp::spec::identity::run_id;
use serde_json::json;

use super::{load_in, sweep, sweep_with, values};

#[test]
fn leaves_follow_from_others_after_the_axes() {
    let sweep = sweep(
        "grid: {d_model: [64, 128], lr: [3e-4, 1e-3]}\nderive:\n  min_lr: lr / 10\n  model: {d_ff: 2 * d_model, heads: d_model / 32}\n  warmup_steps: round(0.1 * steps)\n  bias: d_model < 100\n",
    );
    assert_eq!(values(&sweep, "d_ff"), [128, 128, 256, 256]);
    assert_eq!(values(&sweep, "heads"), [2, 2, 4, 4]);
    assert_eq!(values(&sweep, "kv_heads"), [2, 2, 4, 4], "defaults follow what is derived");
    assert_eq!(values(&sweep, "min_lr"), [3e-5, 1e-4, 3e-5, 1e-4], "as one would write it");
    assert_eq!(values(&sweep, "bias"), [true, true, false, false]);
    assert_eq!(values(&sweep, "warmup_steps"), [50; 4]);
    assert_eq!(sweep.axes, ["model.d_model", "train.lr"]);
}

#[test]
fn derivations_may_name_one_another_in_any_order() {
    let sweep = sweep("layers: 3\nderive: {d_ff: 4 * d_model, d_model: 8 * heads, heads: 2 * layers}\n");
    let m = &sweep.points[0].model;
    assert_eq!((m.heads, m.d_model, m.d_ff), (6, 48, 192));
}

#[test]
fn what_is_derived_is_the_run_that_one_would_write() {
    let id = |text: &str| run_id(&sweep(text).points[0], None);
    assert_eq!(id("lr: 3e-4\nderive: {min_lr: lr / 10}\n"), id("lr: 3e-4\n"));
    assert_eq!(id("derive: {steps: 30 * 10}\n"), id("steps: 300\n"));
}

#[test]
fn tokens_stand_for_steps() {
    let text = "tokens: 1e5\ngrid: {batch: [4, 8], context: [32, 64]}\ngrad_accum: 3\n";
    let sweep = sweep(text);
    let steps =
        [100_000.0f64 / 384.0, 100_000.0 / 768.0, 100_000.0 / 768.0, 100_000.0 / 1536.0].map(|x| x.ceil() as u64);
    assert_eq!(values(&sweep, "steps"), steps);
    assert_eq!(values(&sweep, "decay_steps"), steps, "what follows from steps follows");
    let id = |text: &str| run_id(&super::sweep(text).points[0], None);
    assert_eq!(id("train: {tokens: 76800}\n"), id("steps: 100\n"), "the same run by either");
    let axis = super::sweep("grid: {train.tokens: [76800, 153600]}\n");
    assert_eq!((values(&axis, "steps"), axis.axes.join(" ")), (vec![json!(100), json!(200)], "train.steps".into()));
}

#[test]
fn a_derivation_may_use_the_budget() {
    let text = "tokens: 1e6\nderive: {min_lr: lr / 10, d_ff: 4 * d_model, steps: round(tokens / (batch * context))}\n";
    assert_eq!(values(&sweep(text), "steps"), [1302]);
    assert_eq!(values(&sweep_with(text, &["tokens=2e6"]), "steps"), [2604]);
}

#[test]
fn whoever_says_how_long_is_trained_says_it_last() {
    let steps = |text: &str, set: &[&str]| values(&sweep_with(text, set), "steps");
    assert_eq!(steps("steps: 7\n", &["tokens=76800"]), [100]);
    assert_eq!(steps("tokens: 76800\n", &["steps=7"]), [7]);
    assert_eq!(steps("grid: {tokens: [76800]}\n", &["steps=7"]), [7]);
    assert_eq!(steps("derive: {steps: 10 * layers}\n", &["steps=7"]), [7]);
    assert_eq!(steps("steps: 7\n", &["tokens=76800", "steps=8"]), [8]);
    let text = "steps: 7\ninclude: [{tokens: 76800}]\n";
    assert_eq!(steps(text, &[]), [7, 100], "an entry's word counts for its point");
    assert_eq!(steps("tokens: 76800\ninclude: [{steps: 7}]\n", &[]), [100, 7]);
    assert_eq!(steps("tokens: 76800\nblocks: [{when: layers == 4, set: {steps: 7}}]\n", &[]), [7]);
}

#[test]
fn derivations_are_inherited_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("base.yaml", "lr: 1e-2\nd_ff: 7\nderive: {min_lr: lr / 2, warmup_steps: steps / 5}\n");
    write("a.yaml", "base: base.yaml\nmin_lr: 1e-3\nderive: {d_ff: 3 * d_model}\n");
    let point = &load_in(folder.path(), "a.yaml", &[]).unwrap().points[0];
    assert_eq!((point.train.min_lr, point.train.warmup_steps, point.model.d_ff), (1e-3, 100, 384));
    let point = &load_in(folder.path(), "a.yaml", &["warmup_steps=3", "d_ff=null"]).unwrap().points[0];
    assert_eq!((point.train.warmup_steps, point.model.d_ff), (3, 512));
}

#[test]
fn a_block_is_for_the_points_for_which_it_holds() {
    let text = "grid: {position: [learned, rope], layers: [2, 4]}\nseeds: 2\nblocks:\n  - when: {position: rope}\n    grid: {rope_theta: [1e3, 1e4]}\n    set: {qk_norm: true}\n  - when: layers > 3 and position == learned\n    set: {lr: 5e-4}\n";
    let sweep = sweep(text);
    let rows: Vec<_> = sweep
        .points
        .iter()
        .map(|p| (p.model.layers, p.model.rope_theta, p.model.qk_norm, p.train.lr, p.train.seed))
        .collect();
    let expected = [
        (2, 1e4, false, 1e-3, 1),
        (2, 1e4, false, 1e-3, 2),
        (4, 1e4, false, 5e-4, 1),
        (4, 1e4, false, 5e-4, 2),
        (2, 1e3, true, 1e-3, 1),
        (2, 1e3, true, 1e-3, 2),
        (2, 1e4, true, 1e-3, 1),
        (2, 1e4, true, 1e-3, 2),
        (4, 1e3, true, 1e-3, 1),
        (4, 1e3, true, 1e-3, 2),
        (4, 1e4, true, 1e-3, 1),
        (4, 1e4, true, 1e-3, 2),
    ];
    assert_eq!(rows, expected, "seeds stay innermost");
    assert_eq!(sweep.axes.join(" "), "model.position model.layers model.qk_norm model.rope_theta train.lr train.seed");
    let error = sweep.error_at(4, "model.rope_theta", "why", None);
    assert!(error.why.contains("a.yaml:5:25"), "{error}");
}

#[test]
fn blocks_add_to_one_another_and_give_way_to_the_command_line() {
    let text = "layers: 2\nblocks:\n  - {when: layers < 4, grid: {lr: [1e-3, 2e-3]}}\n  - {when: {layers: 2}, zip: [{d_model: [32, 64], heads: [1, 2]}]}\nexclude: ['lr > 1e-3 and heads == 2']\nderive: {min_lr: lr / 4}\ninclude: [{layers: 3}]\n";
    let of = |set: &[&str]| {
        let sweep = sweep_with(text, set);
        sweep.points.iter().map(|p| (p.model.layers, p.train.lr, p.train.min_lr, p.model.heads)).collect::<Vec<_>>()
    };
    let (one, two) = ((2, 1e-3, 2.5e-4, 1), (2, 2e-3, 5e-4, 1));
    assert_eq!(of(&[]), [one, (2, 1e-3, 2.5e-4, 2), two, (3, 1e-3, 2.5e-4, 4)], "what is included is as it says");
    let loose = "layers: 2\nblocks: [{when: layers < 4, grid: {lr: [1e-3, 2e-3]}}]\n";
    assert_eq!(sweep_with(loose, &["layers=8"]).points.len(), 1, "--set may leave a block no point");
    assert_eq!(of(&["lr=5e-3", "layers=2"]).len(), 2 - 1 + 1);
}
