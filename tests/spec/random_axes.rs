//! Axes that are drawn: the same values everywhere, whatever else a spec says.

use serde_json::{Value, json};

use super::{sweep, sweep_with, values};

const THREE: &str = "samples: 3\ngrid: {lr: {log_uniform: [1e-4, 1e-2]}}\n";

#[test]
fn samples_are_the_same_on_every_machine() {
    let text = "samples: 4\ngrid:\n  lr: {log_uniform: [1e-4, 1e-2]}\n  dropout: {uniform: [0, 0.3]}\n  layers: {uniform: [2, 8]}\n  d_model: {choice: [32, 64, 128]}\n  steps: {log_uniform: [10, 1000]}\n  norm: {choice: [layernorm, rmsnorm]}\n";
    let sweep = sweep(text);
    let of = |leaf| Value::from(values(&sweep, leaf));
    let drawn = json!([of("lr"), of("dropout"), of("layers"), of("d_model"), of("steps"), of("norm")]);
    assert_eq!(drawn, golden(), "every stored random search would be lost");
    assert_eq!(sweep.axes[..2], ["train.lr", "model.dropout"]);
}

/// What the streams of sample seed 1 give.
fn golden() -> Value {
    json!([
        [0.00219172, 0.00140623, 0.000154356, 0.00434745],
        [0.203317, 0.10151, 0.0913723, 0.28362],
        [7, 5, 6, 3],
        [128, 128, 32, 64],
        [377, 319, 119, 96],
        ["rmsnorm", "rmsnorm", "layernorm", "layernorm"],
    ])
}

#[test]
fn more_samples_and_other_axes_change_none_that_were_there() {
    let first = values(&sweep(THREE), "lr");
    let more = values(&sweep_with(THREE, &["samples=7"]), "lr");
    assert_eq!((first.len(), more.len(), &more[..3]), (3, 7, &first[..]));
    let beside = sweep_with(THREE, &["dropout={uniform: [0, 0.5]}"]);
    assert_eq!((values(&beside, "lr"), beside.points.len()), (first.clone(), 3), "random axes are walked together");
    assert_ne!(values(&sweep_with(THREE, &["sample_seed=2"]), "lr"), first);
    assert_eq!(values(&sweep_with(THREE, &["sample_seed=1"]), "lr"), first);
    let within: Vec<f64> =
        values(&sweep_with(THREE, &["samples=1000"]), "lr").iter().map(|x| x.as_f64().unwrap()).collect();
    assert!(within.iter().all(|x| (1e-4..=1e-2).contains(x)));
    let below = within.iter().filter(|x| **x < 1e-3).count();
    assert!((450..550).contains(&below), "half lie below the middle of the logarithms: {below}");
}

#[test]
fn each_point_of_the_grid_has_the_same_samples() {
    let sweep = sweep_with(THREE, &["layers=[2, 4]", "seeds=2"]);
    assert_eq!(sweep.points.len(), 2 * 3 * 2);
    assert_eq!(sweep.axes, ["model.layers", "train.lr", "train.seed"]);
    let lr = values(&sweep, "lr");
    assert_eq!(lr[..6], lr[6..]);
    assert_eq!((&lr[0], &values(&sweep, "seed")[..2]), (&lr[1], &[json!(1), json!(2)][..]), "seeds stay innermost");
}

#[test]
fn integers_are_drawn_from_end_to_end() {
    let drawn = values(&sweep("samples: 400\ngrid: {layers: {uniform: [2, 4]}}\n"), "layers");
    for n in [2, 3, 4] {
        let count = drawn.iter().filter(|x| **x == json!(n)).count();
        assert!((90..180).contains(&count), "{n}: {count}");
    }
}

#[test]
fn a_block_s_random_axes_are_those_of_its_sample() {
    let text = "samples: 5\ngrid:\n  lr: {log_uniform: [1e-4, 1e-2]}\n  optimizer: [adamw, muon]\nblocks:\n  - when: {optimizer: muon}\n    grid: {momentum: {uniform: [0.8, 0.99]}}\n";
    let sweep = sweep(text);
    assert_eq!(sweep.points.len(), 2 * 5, "the momentum of the n-th sample goes with its learning rate");
    let momentum = values(&sweep, "momentum");
    assert_eq!(momentum[..5], [0.95; 5], "without Muon it has no part");
    assert!(momentum[5..].windows(2).all(|two| two[0] != two[1]));
    let alone = super::sweep(
        "samples: 5\ngrid: {optimizer: [adamw, muon]}\nblocks: [{when: {optimizer: muon}, grid: {momentum: {uniform: [0.8, 0.99]}}}]\n",
    );
    assert_eq!((alone.points.len(), &values(&alone, "momentum")[1..]), (1 + 5, &momentum[5..]));
}
