//! Known models by name: what `model.preset` fills, what wins over it, and that it is but a name.

use std::fs;

use exp::spec::{
    self, RunConfig,
    config::{Mlp, Norm, Position, Preset},
    identity::{FrozenRun, run_id},
    leaf,
};
use serde_json::json;

use super::{error_with, load_in, shown, sweep, sweep_with, values};

fn one(text: &str) -> RunConfig {
    let mut points = sweep(text).points;
    assert_eq!(points.len(), 1);
    points.remove(0)
}

#[test]
fn the_sizes_of_gpt2_and_the_shape_of_llama_3() {
    for (word, layers, heads, d_model) in
        [("gpt2", 12, 12, 768), ("gpt2-medium", 24, 16, 1024), ("gpt2-large", 36, 20, 1280), ("gpt2-xl", 48, 25, 1600)]
    {
        let c = one(&format!("preset: {word}\n"));
        let m = &c.model;
        assert_eq!((m.layers, m.heads, m.kv_heads, m.d_model, m.d_ff), (layers, heads, heads, d_model, 4 * d_model));
        assert_eq!((m.norm, m.position, m.mlp), (Norm::LayerNorm, Position::Learned, Mlp::GeluTanh));
        assert_eq!((m.context, m.bias, m.tie_embeddings, m.dropout), (1024, true, true, 0.0));
        assert_eq!((m.preset.map(Preset::word), c.train), (Some(word), RunConfig::default().train));
    }
    let m = one("model: {preset: llama}\n").model;
    assert_eq!((m.layers, m.heads, m.kv_heads, m.d_model, m.d_ff, m.context), (32, 32, 8, 4096, 14336, 8192));
    assert_eq!((m.norm, m.position, m.mlp), (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu));
    assert_eq!((m.norm_eps, m.rope_theta, m.bias, m.tie_embeddings), (1e-5, 5e5, false, false));
    for word in Preset::WORDS {
        let preset: Preset = serde_json::from_value(json!(word)).unwrap();
        assert_eq!(one(&format!("preset: {word}\n")).model, preset.model(), "all of it, as its own table says");
    }
}

#[test]
fn what_is_written_wins_wherever_it_is_written() {
    let small = one("model: {preset: llama, layers: 4, d_model: 256, heads: 4, context: 64}\n").model;
    assert_eq!((small.d_ff, small.kv_heads), (688, 4), "what follows from written leaves follows from them");
    assert_eq!((small.norm, small.position, small.bias), (Norm::RmsNorm, Position::Rope, false));
    assert_eq!(sweep_with("preset: llama\n", &["layers=3"]).points[0].model.layers, 3);
    assert_eq!(sweep_with("layers: 3\n", &["preset=gpt2"]).points[0].model.layers, 3);
    assert_eq!(one("grid: {preset: [gpt2], heads: [6]}\n").model.heads, 6);
    assert_eq!(one("preset: gpt2\nlayers: null\n").model.layers, 12, "null is what is left out");
    assert_eq!(sweep_with("preset: gpt2\n", &["preset=null"]).points, [RunConfig::default()]);

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("base.yaml"), "layers: 2\nmlp: gelu\n").unwrap();
    fs::write(folder.path().join("a.yaml"), "base: base.yaml\npreset: gpt2\n").unwrap();
    let m = load_in(folder.path(), "a.yaml", &[]).unwrap().points.remove(0).model;
    assert_eq!((m.layers, m.mlp, m.d_model), (2, Mlp::Gelu, 768));
}

#[test]
fn what_follows_is_the_preset_s_where_all_that_it_follows_from_is() {
    let d_ff = |more: &str| one(&format!("preset: llama\n{more}")).model.d_ff;
    assert_eq!(d_ff(""), 14336);
    assert_eq!(d_ff("layers: 2\nheads: 16\n"), 14336);
    assert_eq!(d_ff("d_model: 4096\nmlp: swiglu\n"), 14336, "written, but the same");
    assert_eq!(d_ff("mlp: gelu\n"), 4 * 4096);
    assert_eq!(d_ff("d_model: 512\n"), 1368);
    assert_eq!(d_ff("d_model: 512\nd_ff: 1000\n"), 1000);
    let kv_heads = |more: &str| one(&format!("preset: llama\n{more}")).model.kv_heads;
    assert_eq!([kv_heads(""), kv_heads("heads: 16\n"), kv_heads("heads: 16\nkv_heads: 2\n")], [8, 16, 2]);
}

#[test]
fn a_preset_can_be_an_axis() {
    let text = "grid: {preset: [gpt2, llama, null], lr: [1e-3, 1e-4]}\nlayers: 2\nd_model: 64\nheads: 4\n\
                exclude: [{preset: llama, lr: 1e-4}, {preset: gpt2, position: null, lr: 1e-3}]\n\
                include: [{preset: gpt2-xl, context: 32}]\n";
    let sweep = sweep(text);
    assert_eq!(sweep.axes, ["model.preset", "train.lr", "model.context"]);
    let words = ["gpt2", "llama", "-", "-", "gpt2-xl"].map(|word| if word == "-" { json!(null) } else { json!(word) });
    assert_eq!(values(&sweep, "preset"), words);
    assert_eq!(values(&sweep, "context"), [1024, 8192, 64, 64, 32].map(|n| json!(n)));
    assert_eq!(values(&sweep, "mlp"), ["gelu_tanh", "swiglu", "gelu", "gelu", "gelu_tanh"].map(|word| json!(word)));
    assert_eq!(values(&sweep, "d_model"), [json!(64), json!(64), json!(64), json!(64), json!(64)]);
}

#[test]
fn the_same_leaves_are_the_same_run_however_they_came_about() {
    let id = |text: &str| run_id(&one(text), None);
    let written = "model: {layers: 12, heads: 12, d_model: 768, context: 1024, mlp: gelu_tanh}\n";
    assert_eq!(id("preset: gpt2\n"), id(written));
    assert_ne!(id("preset: gpt2\n"), id("preset: gpt2-medium\n"));
    assert_eq!(id("preset: gpt2\n"), id("preset: gpt2-medium\nlayers: 12\nheads: 12\nd_model: 768\n"));
    let llama = "model: {layers: 32, heads: 32, kv_heads: 8, d_model: 4096, d_ff: 14336, context: 8192, \
                 norm: rmsnorm, position: rope, rope_theta: 5e5, mlp: swiglu, bias: false, tie_embeddings: false}\n";
    assert_eq!(id("preset: llama\n"), id(llama));
    assert_eq!(id("preset: llama\nd_model: 256\n"), id(&llama.replace("4096, d_ff: 14336", "256, d_ff: 688")));
}

#[test]
fn a_config_that_is_older_than_presets_is_read_as_it_was() {
    let config = one("layers: 2\n");
    let hash = String::from("0");
    let mut old = serde_json::to_value(FrozenRun {
        format: 1,
        id: run_id(&config, None),
        corpus_hash: hash,
        vocab_size: 7,
        config: config.clone(),
        imported: None,
    })
    .unwrap();
    assert!(old["config"]["model"].as_object_mut().unwrap().remove("preset").is_some());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, old.to_string()).unwrap();
    let read = FrozenRun::read(&path).unwrap();
    assert_eq!((run_id(&read.config, None), read.config), (run_id(&config, None), config));
}

#[test]
fn a_mistake_with_a_preset_is_shown_where_it_was_made() {
    let mut gallery = String::new();
    for text in [
        "model: {preset: gpt2-larg}\n",
        "model: {model_type: gpt2}\n",
        "preset: gpt-2\n",
        "preset: gpt2-xl\nheads: 12\n",
        "grid: {preset: [gpt2, llama]}\nbatch: 1000000\ngrad_accum: 1000000\nsteps: 1000000\n",
        "preset: llama\nkv_heads: 7\n",
    ] {
        gallery += &format!("{}\n\n\n", shown(&error_with(text, &[])));
    }
    insta::assert_snapshot!(gallery);
    let sweep = sweep("preset: llama\nlayers: 2\n");
    let error = sweep.error_at(0, "model.d_model", "too much", None).to_string();
    assert!(error.contains("a.yaml:1:9") && error.contains("preset: llama"), "what filled it is shown: {error}");
    assert!(!sweep.error_at(0, "train.lr", "too much", None).to_string().contains("-->"));
}

#[test]
fn what_a_config_says_in_settings_gives_it_again() {
    for text in [
        "{}",
        "preset: llama\nlayers: 2\n",
        "lr: 3e-4\noptimizer: muon\nmomentum: 0.9\ndropout: 0.1\ndevice: cuda:1\ninit_from: 12e45\n",
        "data: {corpus: text, path: 'a, #b: c.txt', tokenizer: byte}\nd_ff: 77\nbias: false\n",
    ] {
        let mut config = one(text);
        let again = spec::from_settings(&leaf::settings(&config)).unwrap().points.remove(0);
        config.model.preset = None; // a name, whose settings are written out
        assert_eq!(again, config, "{text}");
    }
}

#[test]
fn only_names_and_what_decides_can_be_axes() {
    for leaf in leaf::all() {
        assert_eq!(leaf.can_be_axis(), leaf.counts || leaf.path == "model.preset", "{}", leaf.path);
    }
    assert!(error_with("momentum: 1.0\n", &[]).why.contains("takes a number in [0, 1)"));
    assert!(error_with("grid: {keep_last: [1, 2]}\n", &[]).why.contains("cannot be an axis"));
}
