//! The values of axes, however they are written, and which points of their product are left.

use serde_json::{Value, json};

use super::{sweep, sweep_with, values};

/// The values of an axis of a leaf that is written so.
fn axis(leaf: &str, values: &str) -> Vec<Value> {
    super::values(&sweep(&format!("grid: {{{leaf}: {values}}}\n")), leaf)
}

#[test]
fn a_range_is_python_s() {
    assert_eq!(axis("layers", "{range: [1, 9, 2]}"), [1, 3, 5, 7].map(|n| json!(n)));
    assert_eq!(axis("layers", "{range: [2, 5]}"), [2, 3, 4].map(|n| json!(n)));
    assert_eq!(axis("layers", "{range: [8, 1, -3]}"), [8, 5, 2].map(|n| json!(n)));
    assert_eq!(axis("dropout", "{range: [0, 0.3, 0.1]}"), [0.0, 0.1, 0.2].map(|x| json!(x)), "as one would write them");
    assert_eq!(axis("dropout", "{range: [0.1, 0.75, 0.2]}"), [0.1, 0.3, 0.5, 0.7].map(|x| json!(x)));
    assert_eq!(axis("rope_theta", "{range: [1000000, 1000003]}"), [1e6, 1_000_001.0, 1_000_002.0].map(|x| json!(x)));
    assert_eq!(axis("seed", "{range: [9007199254740990, 9007199254740991]}"), [json!(9_007_199_254_740_990u64)]);
}

#[test]
fn spaced_values_have_their_ends_and_six_digits() {
    assert_eq!(axis("dropout", "{linspace: [0, 0.3, 4]}"), [0.0, 0.1, 0.2, 0.3].map(|x| json!(x)));
    assert_eq!(axis("layers", "{linspace: [8, 2, 4]}"), [8, 6, 4, 2].map(|n| json!(n)));
    assert_eq!(axis("lr", "{logspace: [1e-4, 1e-2, 5]}"), [1e-4, 3.16228e-4, 1e-3, 3.16228e-3, 1e-2].map(|x| json!(x)));
    assert_eq!(axis("d_model", "{logspace: [32, 512, 5]}"), [32, 64, 128, 256, 512].map(|n| json!(n)));
    let thirds = axis("lr", "{linspace: [0.123456789, 1.123456789, 4]}");
    assert_eq!(thirds, [0.123456789, 0.45679, 0.790123, 1.123456789].map(|x| json!(x)), "ends are as they are written");
}

#[test]
fn a_spacing_stands_wherever_a_list_does() {
    let sweep = sweep("zip: [{layers: {range: [2, 8, 2]}, lr: {logspace: [1e-3, 1e-1, 3]}}]\nseeds: {range: [5, 7]}\n");
    assert_eq!(values(&sweep, "layers"), [2, 2, 4, 4, 6, 6].map(|n| json!(n)));
    assert_eq!(values(&sweep, "lr"), [1e-3, 1e-3, 1e-2, 1e-2, 0.1, 0.1].map(|x| json!(x)));
    assert_eq!(values(&sweep, "seed"), [5, 6, 5, 6, 5, 6].map(|n| json!(n)));
}

#[test]
fn the_command_line_has_the_same_grammar() {
    let text = "grid: {layers: [2, 4]}\n";
    let of = |set: &str, leaf: &str| values(&sweep_with(text, &[set]), leaf);
    assert_eq!(of("layers={range: [2, 9, 2]}", "layers"), [2, 4, 6, 8].map(|n| json!(n)));
    assert_eq!(of("layers={range:[2,4]}", "layers"), [2, 3].map(|n| json!(n)), "no space is needed");
    assert_eq!(of("lr=1e-3,3e-4", "lr"), [1e-3, 3e-4, 1e-3, 3e-4].map(|x| json!(x)));
    assert_eq!(of("layers=8, 6", "layers"), [8, 6].map(|n| json!(n)));
    assert_eq!(of("norm=layernorm,rmsnorm", "norm")[..2], ["layernorm", "rmsnorm"].map(|w| json!(w)));
    assert_eq!(of("seeds=7,9", "seed"), [7, 9, 7, 9].map(|n| json!(n)));
    assert_eq!(of("lr={logspace: [1, 100, 3]}", "lr")[..3], [1.0, 10.0, 100.0].map(|x| json!(x)));
    assert_eq!(of("sample.prompt=To be, or not", "sample.prompt"), ["To be, or not"; 2], "a text may have commas");
}

#[test]
fn points_are_excluded_by_conditions() {
    let text = "grid:\n  layers: [2, 4, 8]\n  lr: [1e-3, 1e-2]\nexclude:\n  - layers == 8 and train.lr > 1e-3\n  - {layers: 2, lr: 1e-3}\n  - d_ff < 4 * d_model or layers in [4] and lr == 0.01\n";
    let text = text.replace("d_ff < 4 * d_model or ", "");
    let sweep = sweep(&text);
    assert_eq!(sweep.excluded, 3);
    assert_eq!(values(&sweep, "layers"), [2, 4, 8].map(|n| json!(n)));
    assert_eq!(values(&sweep, "lr"), [1e-2, 1e-3, 1e-3].map(|x| json!(x)));
    let by_default = super::sweep("grid: {d_model: [64, 128]}\nexclude: ['d_ff > 256']\n");
    assert_eq!(values(&by_default, "d_model"), [64], "of what a point resolves to");
    let word = super::sweep("grid: {position: [rope, learned, none]}\nexclude: [position != rope]\n");
    assert_eq!(values(&word, "position"), ["rope"]);
    let loose = "grid: {layers: [2, 4]}\nexclude: [layers > 3]\n";
    assert_eq!(sweep_with(loose, &["layers=[2, 3]"]).points.len(), 2, "--set may leave it nothing");
}

#[test]
fn many_points_are_taken_by_those_who_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.yaml");
    let load = |seeds: &str| {
        std::fs::write(&path, format!("seeds: {seeds}\n")).unwrap();
        (exp::spec::load(&path, &[]), exp::spec::load_large(&path, &[]))
    };
    let (refused, taken) = load("{range: [0, 100001]}");
    assert!(refused.unwrap_err().hint.unwrap().contains("`--yes`"));
    assert_eq!(taken.unwrap().points.len(), 100_001);
    let (few, _) = load("100000");
    assert_eq!(few.unwrap().points.len(), 100_000);
    std::fs::write(&path, "grid: {layers: [1, 2]}\nseeds: 1000000\n").unwrap();
    let error = exp::spec::load_large(&path, &[]).unwrap_err();
    assert!(error.why.contains("2000000 points, and 1000000 are the most"), "{error}");
    assert!(!error.hint.unwrap().contains("--yes"));
}
