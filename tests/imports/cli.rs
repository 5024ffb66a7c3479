//! `exp import`, `exp export` and `run.init_from`, as a person uses them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use exp::{
    base::{RunId, checkpoints, folders::RunFolder},
    model::{Layout, import::Import, safetensors::read},
    spec::{config::ModelConfig, identity::FrozenRun},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    foreign::{Named, Small, VOCAB, write_hf},
    lab::{Lab, Started, until},
};

#[test]
fn an_import_is_a_run_like_any_other() {
    let place = Place::new();
    let small = place.gpt2("gpt2");
    let (code, id, said) = place.exp(&["import", "gpt2"]);
    assert_eq!(code, 0, "{said}");
    let id = id.trim();
    assert!(said.contains("gpt2: a GPT-2 of Hugging Face's") && said.contains("kept: weights;"), "{said}");
    assert!(said.contains("prompts have to be ids"), "{said}");

    let weights = place.weights(id);
    assert!(weights == small.weights, "the checkpoint holds other weights");
    let folder = place.folder(id);
    checkpoints::list(&folder).unwrap()[0].verify().unwrap();
    assert_eq!(fs::read_to_string(folder.checkpoints().join("best")).unwrap(), "step-0.attempt-1\n");
    let imported = FrozenRun::read(&folder.config()).unwrap().imported.unwrap();
    assert_eq!((imported.format.as_str(), imported.source.as_str()), ("hf-gpt2", "gpt2"));

    let (code, again, said) = place.exp(&["import", "gpt2/model.safetensors", "--experiment", "others"]);
    assert!(code == 0 && again.trim() == id && said.contains("holds the same weights already"), "{said}");
    let other = place.exp(&["import", "gpt2", "--context", "4"]).1;
    assert_ne!(other.trim(), id);

    for round in ["as it was registered", "as the folders have it"] {
        let runs: Value = serde_json::from_str(&place.exp(&["ls", "imports", "--json"]).1).unwrap();
        let seen = |run: &Value| (run["id"] == id, run["state"].clone(), run["params"].clone());
        assert_eq!(seen(&runs[0]), (true, json!("done"), json!(small.weights.len())), "{round}: {runs}");
        assert_eq!(runs.as_array().unwrap().len(), 2, "{round}");
        let show: Value = serde_json::from_str(&place.exp(&["show", id, "--json"]).1).unwrap();
        assert_eq!(show["imported"]["format"], "hf-gpt2", "{round}: {show}");
        assert_eq!(show["experiments"].as_array().unwrap().len(), 2, "{round}: {show}");
        let kinds: Vec<_> = show["artifacts"].as_array().unwrap().iter().map(|a| a["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["config", "events", "import", "import"], "{round}");
        assert_eq!(place.exp(&["store", "rebuild"]).0, 0);
    }
    let show = place.exp(&["show", id]).1;
    assert!(show.contains("imported      hf-gpt2 from gpt2") && !show.contains("data.corpus"), "{show}");
    assert!(place.exp(&["logs", id]).1.contains("weights imported: "));
    let (code, _, said) = place.exp(&["resume", id]);
    assert!(code == 0 && said.contains("is done already"), "{said}");
    let (code, _, said) = place.exp(&["report", "imports"]);
    assert!(code == 2 && said.contains("none of its runs has logged a loss") && said.contains("init_from"), "{said}");
}

#[test]
fn an_import_is_fine_tuned_with_its_first_positions() {
    let place = Place::new();
    fs::write(place.path("text.txt"), "abcdefghij\n".repeat(200)).unwrap(); // VOCAB characters
    let small = place.gpt2("gpt2");
    let id = place.exp(&["import", "gpt2", "--text", "text.txt"]).1;
    let id = id.trim();
    let spec = |more: &str| {
        let model = "layers: 2, heads: 2, d_model: 8, d_ff: 20, mlp: gelu_tanh";
        format!(
            "model: {{{model}}}\ndata: {{corpus: text, path: text.txt}}\nrun: {{init_from: {}, device: cpu}}\n\
             train: {{steps: 3, batch: 2}}\neval: {{batches: 1}}\n{more}",
            &id[..8]
        )
    };
    fs::write(place.path("tune.yaml"), spec("context: 4")).unwrap();
    let (code, _, said) = place.exp(&["run", "tune.yaml", "--no-report"]);
    assert_eq!(code, 0, "{said}");
    let rows = place.lab().rows();
    let tuned = rows.iter().find(|row| row.config.train.steps == 3).unwrap();
    assert_eq!(tuned.config.run.init_from.as_deref(), Some(id));
    assert_eq!((tuned.step, tuned.config.model.context), (3, 4));
    // The first evaluation is of the weights as they came.
    let losses = place.lab().store().metrics(&tuned.id).unwrap();
    let first = losses["val/loss"][0];
    let zero = place.path("zero.yaml");
    fs::write(&zero, spec("context: 4\nsteps: 0").replace("steps: 3, ", "")).unwrap();
    assert_eq!(place.exp(&["run", "zero.yaml", "--no-report"]).0, 0);
    let rows = place.lab().rows();
    let untouched = rows.iter().find(|row| row.config.train.steps == 0 && row.config.run.init_from.is_some()).unwrap();
    assert_eq!((first.0, first.1), (0, untouched.best.unwrap().1));
    let (theirs, ours) = (place.weights(&untouched.id.to_string()), &small.weights);
    let cut = Layout::of(&ModelConfig { context: 4, ..small.config.clone() }, VOCAB);
    for param in cut.params() {
        let whole = &ours[small.layout.get(&param.name).unwrap().range()];
        assert!(theirs[param.range()] == whole[..param.len()], "{}", param.name);
    }

    for (more, why, hint) in [
        ("context: 8", "it has model.context 6, and this run 8", "leave `model.context` out: it then is 6"),
        ("context: 4\nnorm_eps: 1e-6", "model.norm_eps 0.00001, and this run 1e-6", "leave `model.norm_eps` out"),
        ("context: 4\ntokenizer: byte", "vocab_size 11, and this run 256", "trained with, of 11 tokens"),
    ] {
        fs::write(place.path("tune.yaml"), spec(more)).unwrap();
        let (code, _, said) = place.exp(&["plan", "tune.yaml"]);
        assert!(code == 3 && said.contains(why) && said.contains(hint), "{said}");
    }
}

#[test]
fn what_tokens_mean_is_said_or_found() {
    let place = Place::new();
    place.gpt2("gpt2");
    let words: serde_json::Map<_, _> = (0..VOCAB).map(|n| (format!("w{n}"), n.into())).collect();
    let model = json!({"type": "WordLevel", "vocab": words, "unk_token": "w0"});
    let tokenizer = json!({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": model}).to_string();
    fs::write(place.path("words.json"), &tokenizer).unwrap();
    fs::write(place.path("text.txt"), "to be or not").unwrap();
    fs::write(place.path("long.txt"), "the quick brown fox").unwrap();
    let mut ids = Vec::new();
    for (options, said_of_it) in [
        (&["--tokenizer", "char", "--text", "text.txt"][..], "has 7 tokens, and the model 11: the last 4"),
        (&["--text", "text.txt"], "the tokenizer `char`"),
        (&["--tokenizer-file", "words.json"], "the tokenizer `file`"),
        (&[], "prompts have to be ids"),
    ] {
        let (code, id, said) = place.exp(&[&["import", "gpt2"], options].concat());
        assert!(code == 0 && said.contains(said_of_it), "{options:?}: {said}");
        ids.push(id.trim().to_owned());
        let kept = place.folder(id.trim()).tokenizer();
        assert_eq!(kept.exists(), !options.is_empty(), "{options:?}");
    }
    assert_eq!(ids[0], ids[1]);
    fs::write(place.path("gpt2/tokenizer.json"), &tokenizer).unwrap();
    assert_eq!(place.exp(&["import", "gpt2"]).1.trim(), ids[2], "one beside the weights is found");
    let (code, _, said) = place.exp(&["export", &ids[2][..10], "--format", "hf", "out"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read_to_string(place.path("out/tokenizer.json")).unwrap(), tokenizer);
    for (options, code, why) in [
        (&["--text", "long.txt"][..], 3, "its tokenizer `char` has 16 tokens, and the model 11"),
        (&["--tokenizer", "gpt2"], 3, "its tokenizer `gpt2` has 50257 tokens"),
        (&["--tokenizer", "char"], 2, "needs the text that it was made from"),
        (&["--tokenizer", "byte", "--text", "text.txt"], 2, "--text is for the tokenizer `char`"),
        (&["--tokenizer", "bytes"], 2, "one of char, byte, gpt2, file"),
        (&["--experiment", "../up"], 2, "begins with a dot"),
    ] {
        let (found, _, said) = place.exp(&[&["import", "gpt2"], options].concat());
        assert!(found == code && said.contains(why), "{options:?}: {found} {said}");
    }
}

#[test]
fn imported_weights_are_evaluated_on_a_text_once_their_tokens_are_known() {
    let place = Place::new();
    place.gpt2("gpt2");
    fs::write(place.path("text.txt"), "to be or not to be").unwrap();
    let known = place.exp(&["import", "gpt2", "--text", "text.txt"]).1;
    let unknown = place.exp(&["import", "gpt2"]).1;
    let (code, _, said) = place.exp(&["eval", known.trim()]);
    assert!(code == 2 && said.contains("is not known") && said.contains("hint: `--text FILE` evaluates"), "{said}");
    let (code, score, said) = place.exp(&["eval", known.trim(), "--text", "text.txt", "--json"]);
    assert_eq!(code, 0, "{said}");
    let score: Value = serde_json::from_str(&score).unwrap();
    assert_eq!((&score["split"], &score["tokens"], &score["windows"]), (&json!("whole"), &json!(17), &json!(3)));
    for text in [&[][..], &["--text", "text.txt"]] {
        let (code, _, said) = place.exp(&[&["eval", unknown.trim()], text].concat());
        let hint = "hint: import them again and say what their tokens mean: `exp import gpt2 --tokenizer gpt2`";
        assert!(code == 2 && said.contains(hint), "{said}");
    }
}

#[test]
fn what_is_exported_comes_back_to_the_bit() {
    let place = Place::new();
    place.gpt2("gpt2");
    let llama = Small::llama(2, true);
    write_hf(&place.path("llama"), &llama.llama_config(), &llama.as_llama("model."));
    for name in ["gpt2", "llama"] {
        let id = place.exp(&["import", name]).1;
        let out = format!("{name}_out");
        let (code, _, said) = place.exp(&["export", id.trim(), "--format", "hf", &out]);
        assert_eq!(code, 0, "{said}");
        let (code, again, said) = place.exp(&["import", &out]);
        assert!(code == 0 && again == id && said.contains("the same weights already"), "{said}");
        let (code, _, said) = place.exp(&["export", id.trim(), "--format", "hf", &out]);
        assert!(code == 2 && said.contains("it is there already"), "{said}");
    }
    let left = |folder: &Path| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".aside")).count()
    };
    assert_eq!((left(place.dir.path()), left(&place.path("runs"))), (0, 0));

    // GPT-2 always has biases: a model without them comes back with zeros.
    let spec = |more: &str| {
        let sizes = "layers: 1, heads: 2, d_model: 8, context: 8";
        format!(
            "model: {{{sizes}, {more}}}\ndata: {{corpus_chars: 4000}}\ntrain: {{steps: 1, batch: 1}}\neval: {{batches: 1}}\nrun: {{device: cpu}}\n"
        )
    };
    fs::write(place.path("bare.yaml"), spec("bias: false")).unwrap();
    fs::write(place.path("other.yaml"), spec("norm: rmsnorm, kv_heads: 1")).unwrap();
    for name in ["bare", "other"] {
        let (code, _, said) = place.exp(&["run", &format!("{name}.yaml"), "--no-report"]);
        assert_eq!(code, 0, "{said}");
    }
    let run = |experiment: &str| {
        let runs: Value = serde_json::from_str(&place.exp(&["ls", experiment, "--json"]).1).unwrap();
        runs[0]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(place.exp(&["export", &run("bare"), "--format", "hf", "bare", "--checkpoint", "last"]).0, 0);
    let import = Import::open(&place.path("bare"), None).unwrap();
    let (with, without) = (import.weights(), place.weights(&run("bare")));
    let bare = FrozenRun::read(&place.folder(&run("bare")).config()).unwrap();
    let ours = Layout::of(&bare.config.model, bare.vocab_size);
    for param in import.layout.params() {
        match ours.get(&param.name) {
            Some(same) => assert!(with[param.range()] == without[same.range()], "{}", param.name),
            None => assert!(with[param.range()].iter().all(|w| *w == 0.0), "{}", param.name),
        }
    }
    let (code, _, said) = place.exp(&["export", &run("other"), "--format", "hf", "other"]);
    assert!(code == 2 && !place.path("other").exists(), "{said}");
    assert!(said.contains("GPT2LMHeadModel has no `model.norm` rmsnorm, no `model.kv_heads`"), "{said}");
    let (code, _, said) = place.exp(&["export", &run("bare"), "--format", "hf", "none", "--checkpoint", "7"]);
    assert!(code == 2 && said.contains("no checkpoint after step 7"), "{said}");
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing() {
    let place = Place::new();
    let config = ModelConfig {
        layers: 1,
        heads: 2,
        kv_heads: 2,
        d_model: 256,
        d_ff: 256,
        context: 60_000,
        ..ModelConfig::default()
    };
    let small = Small::new(config);
    write_hf(&place.path("large"), &small.gpt2_config(), &small.as_gpt2(""));
    let aside = || {
        let names = fs::read_dir(place.path("runs")).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".aside-")).count()
    };
    let mut command = place.command(&["import", "large"]);
    let started = Started(command.spawn().unwrap());
    until("the import is written", || (aside() > 0).then_some(()));
    started.signal(Signal::INT);
    assert_eq!(started.exit(), Some(130));
    assert_eq!(fs::read_dir(place.path("runs")).unwrap().count(), 0);
    assert_eq!(place.exp(&["import", "large"]).0, 0, "it can be imported all the same");
}

#[test]
fn a_model_of_no_numbers_is_warned_of() {
    let place = Place::new();
    let mut small = Small::gpt2(true);
    small.weights[3] = f32::NAN;
    small.weights[5] = f32::INFINITY;
    write_hf(&place.path("nan"), &small.gpt2_config(), &small.as_gpt2(""));
    let (code, _, said) = place.exp(&["import", "nan"]);
    assert!(code == 0 && said.contains("warning: 2 of its weights are not finite"), "{said}");
    write_hf(&place.path("empty"), &small.gpt2_config(), &Named::new());
    let (code, _, said) = place.exp(&["import", "empty"]);
    assert!(code == 3 && said.contains("error: importing empty: tensor wte.weight is not in it"), "{said}");
}

/// A working folder with a root of its own.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn lab(&self) -> Lab {
        Lab::at(self.dir.path())
    }

    /// `exp` in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        command.args(arguments).current_dir(self.dir.path()).env_remove("EXP_ROOT");
        command
    }

    /// Its exit code, what it printed, and what it said.
    pub fn exp(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// A folder of HF's GPT-2.
    pub fn gpt2(&self, name: &str) -> Small {
        let small = Small::gpt2(true);
        write_hf(&self.path(name), &small.gpt2_config(), &small.as_gpt2("transformer."));
        small
    }

    pub fn folder(&self, id: &str) -> RunFolder {
        self.lab().root.run(&id.parse::<RunId>().unwrap())
    }

    /// The weights of a run's newest checkpoint.
    fn weights(&self, id: &str) -> Vec<f32> {
        let folder = self.folder(id);
        let frozen = FrozenRun::read(&folder.config()).unwrap();
        let layout = Layout::of(&frozen.config.model, frozen.vocab_size);
        let saved = checkpoints::list(&folder).unwrap().remove(0);
        read(&saved.path.join("model.safetensors"), &layout, &[""]).unwrap().remove(0)
    }
}
