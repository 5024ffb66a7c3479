//! Every bad spec that is refused, as the person who wrote it sees that: line, column, caret, words and hint.

use std::{fs, path::Path};

use exp::{
    base::{Error, Exit},
    spec,
};

/// The error of a spec of that text.
fn error(text: &str) -> Error {
    error_with(text, &[])
}

/// The error of a spec of that text with `--set`s.
fn error_with(text: &str, set: &[&str]) -> Error {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), text).unwrap();
    load_in(folder.path(), "a.yaml", set).expect_err(text)
}

/// Loads a spec of a folder, and takes the folder out of the error's words.
fn load_in(folder: &Path, name: &str, set: &[&str]) -> Result<spec::Sweep, Error> {
    let set: Vec<String> = set.iter().map(|&s| s.into()).collect();
    spec::load(&folder.join(name), &set).map_err(|mut error| {
        let prefix = format!("{}/", folder.display());
        error.doing = error.doing.replace(&prefix, "");
        error.why = error.why.replace(&prefix, "");
        error.hint = error.hint.map(|hint| hint.replace(&prefix, ""));
        error
    })
}

/// As it stands on the screen.
fn shown(error: &Error) -> String {
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    format!("error: {error}{hint}")
}

const BAD: &[(&str, &str)] = &[
    ("misspelt key", "model:\n  layrs: 4\n"),
    ("misspelt key at the top", "experiment: x\nmodle: {layers: 4}\n"),
    ("nanogpt's name", "model: {n_layer: 4}\n"),
    ("other's name at the top", "learning_rate: 1e-3\n"),
    ("leaf in the wrong group", "model:\n  layers: 4\n  lr: 1e-3\n"),
    ("group in a group", "model:\n  layers: 4\n  train:\n    lr: 1e-3\n"),
    ("nothing near", "colour: blue\n"),
    ("nothing near in a group", "eval: {colour: blue}\n"),
    ("misspelt axis", "grid:\n  layers: [2, 4]\n  learning_rat: [1e-3]\n"),
    ("seeds as an axis", "grid:\n  seeds: [1, 2]\n"),
    ("ambiguous", "every: 50\n"),
    ("merge key", "x: &a {lr: 1}\n<<: *a\n"),
    ("key twice", "train:\n  lr: 1e-3\n  batch: 4\n  lr: 1e-4\n"),
    ("key twice on a line", "train: {lr: 1e-3, lr: 1e-4}\n"),
    ("group twice", "model: {layers: 2}\ntrain: {lr: 1e-3}\nmodel: {heads: 2}\n"),
    ("leaf twice", "lr: 1e-3\ntrain: {lr: 1e-4}\n"),
    ("axis twice", "grid:\n  layers: [2, 4]\n  model.layers: [8]\n"),
    ("axis in grid and zip", "grid:\n  layers: [2, 4]\nzip:\n  - {layers: [2, 4], d_model: [64, 128]}\n"),
    ("seeds and seed", "train: {seed: 4}\nseeds: 3\n"),
    ("seeds and an axis", "seeds: 3\ngrid: {seed: [1, 2]}\n"),
    ("fraction for an integer", "train: {batch: 2.5}\n"),
    ("word for a number", "train:\n  lr: fast\n"),
    ("quoted number", "train: {lr: \"1e-3\"}\n"),
    ("separators", "data: {corpus_chars: 1_000_000}\n"),
    ("out of range", "model: {dropout: 1.0}\n"),
    ("negative", "train: {lr: -1e-3}\n"),
    ("too large", "model: {layers: 5000000}\n"),
    ("not finite", "train: {lr: .inf}\n"),
    ("zero layers", "model: {layers: 0}\n"),
    ("python's bool", "model: {bias: True}\n"),
    ("unknown word", "train: {schedule: cosin}\n"),
    ("word of later", "model: {norm: rmsnorm}\n"),
    ("nothing after the colon", "train:\n  lr:\n  batch: 4\n"),
    ("list for a scalar", "train:\n  lr: [1e-3, 1e-4]\n"),
    ("map for a scalar", "train:\n  lr: {a: 1}\n"),
    ("list for a map", "model:\n  - layers: 4\n  - heads: 4\n"),
    ("scalar for a map", "model: 4\n"),
    ("list at the top", "- layers: 4\n"),
    ("text at the top", "layers:4\n"),
    ("scalar axis", "grid:\n  layers: 4\n"),
    ("empty axis", "grid:\n  layers: []\n"),
    ("bad value of an axis", "grid:\n  layers: [2, 4, many]\n"),
    ("bad value of a block axis", "grid:\n  lr:\n    - 1e-3\n    - 0\n"),
    ("grid as a list", "grid: [2, 4]\n"),
    ("zip as a map", "zip: {layers: [2, 4], d_model: [64, 128]}\n"),
    ("zip of unequal length", "zip:\n  - layers: [2, 4]\n    d_model: [64, 128, 256]\n"),
    ("exclude as a map", "grid: {layers: [2, 4]}\nexclude: {layers: 2}\n"),
    ("exclude matches nothing", "grid: {layers: [2, 4], lr: [1e-3, 1e-2]}\nexclude:\n  - {layers: 8, lr: 1e-2}\n"),
    ("exclude never all", "zip: [{layers: [2, 4], lr: [1e-3, 1e-2]}]\nexclude: [{layers: 2, lr: 1e-2}]\n"),
    ("empty result", "grid: {layers: [2, 4]}\nexclude: [{layers: 2}, {layers: 4}]\n"),
    ("too many points", "grid: {seed: [1, 2, 3], layers: [1, 2]}\nzip: [{d_model: [64, 128]}]\n# \nexclude: []\n"),
    ("heads", "model: {heads: 3, d_model: 128}\n"),
    ("heads of an axis", "model: {d_model: 128}\ngrid:\n  heads: [2, 4, 6]\n"),
    ("heads that is the default", "grid:\n  d_model: [64, 30]\n"),
    ("kv heads", "model: {heads: 4, kv_heads: 3}\n"),
    ("rising rate", "train: {min_lr: 1e-4}\ngrid: {lr: [1e-3, 1e-5]}\n"),
    ("text without a path", "data: {corpus: text}\n"),
    ("shakespeare without a path", "data:\n  corpus: shakespeare\n"),
    ("playbook with a path", "data: {path: a.txt}\n"),
    ("half on a cpu", "train: {dtype: bf16}\nrun: {device: cpu}\n"),
    ("cpu engine on cuda", "run: {engine: cpu, device: 'cuda:1'}\n"),
    ("too large together", "model: {layers: 100000, d_model: 1000000}\n"),
    ("unknown device", "run: {device: gpu}\n"),
    ("unknown device in an axis", "grid: {device: [cpu, cude]}\n"),
    ("bad name", "experiment: ../../etc\n"),
    ("hidden name", "experiment: .git\n"),
    ("name with a space", "experiment: my sweep\n"),
    ("long name", "experiment: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"),
    ("no name", "experiment:\n"),
    ("seeds none", "seeds: 0\n"),
    ("seeds word", "seeds: many\n"),
    ("seeds empty", "seeds: []\n"),
    ("too many seeds", "seeds: 1000000000\n"),
    ("empty file", ""),
    ("comments alone", "# nothing\n\n"),
    ("tab", "model:\n\tlayers: 4\n"),
    ("tab after spaces", "model:\n  heads: 4\n  \tlayers: 4\n"),
    ("two documents", "lr: 1e-3\n---\nlr: 1e-4\n"),
    ("unclosed bracket", "grid:\n  layers: [2, 4\n"),
    ("unclosed brace", "model: {layers: 2\ntrain: {lr: 1}\n"),
    ("unclosed quote", "experiment: \"x\n"),
    ("no space after the colon", "model:\n  layers:4\n  heads: 4\n"),
    ("two colons", "model: layers: 4\n"),
    ("wrong column", "model:\n  layers: 4\n   heads: 4\n"),
    ("outdented", "model:\n    layers: 4\n  heads: 4\n"),
    ("extra bracket", "grid: {layers: [2, 4]]}\n"),
    ("text after", "lr: \"1\" x\n"),
    ("unknown alias", "grid: {lr: *rates}\n"),
    ("alias in itself", "grid: {lr: &a [*a]}\n"),
    ("tag", "lr: !!float 1\n"),
    ("list as a key", "? [a, b]\n: 1\n"),
    ("deep nesting", "x: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n"),
    ("very deep nesting", "x:\n - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - 1\n"),
];

#[test]
fn gallery() {
    let mut text = String::new();
    for (name, spec) in BAD {
        let shown = match std::panic::catch_unwind(|| error(spec)) { Ok(e) => shown(&e), Err(_) => "ACCEPTED".into() };
        text += &format!("## {name}\n\n{shown}\n\n");
    }
    println!("{text}");
    for set in ["lr", "lr=fast", "lrr=1", "layers=[2,many]", "layers=[]", "grid=1", "train=1", "lr=", "=3", "lr=a: b", "lr=[", "data.path", "every=3", "seeds=0", "device=gpu", "heads=3", "experiment=a/b", "lr=*x"] {
        println!("## --set {set}\n\n{}\n", match std::panic::catch_unwind(|| error_with("layers: 2\n", &[set])) { Ok(e) => shown(&e), Err(_) => "ACCEPTED".into() });
    }
}
