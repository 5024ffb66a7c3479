//! What does harm on purpose or by its place: files that share numbers, are pipes, claim more than there is, or bear names
//! made for a terminal; folders that are damaged or in use; signals that come late.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use exp::{
    base::{Exit, checkpoints, files::Lock},
    model::{Layout, import::Import},
    spec::config::{Mlp, ModelConfig},
};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    cli::Place,
    files::refused,
    foreign::{Small, Torch, write_hf},
    lab::{Started, until},
};

#[test]
fn parameters_that_share_their_numbers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ckpt.pt");
    let small = Small::gpt2(true);
    let small = Small::new(ModelConfig { d_ff: 32, mlp: Mlp::Gelu, ..small.config });
    small.write_nanogpt(&path, "", None);
    let mut bytes = fs::read(&path).unwrap();
    let find = |from: usize, what: &[u8]| from + bytes[from..].windows(what.len()).position(|w| w == what).unwrap();
    let storage = b"FloatStorage\n";
    let key = find(find(0, b"transformer.h.0.ln_2.weight"), storage) + storage.len() + 5;
    assert_eq!(bytes[key], b'8');
    bytes[key] = b'2'; // that of ln_1, which is as long
    fs::write(&path, bytes).unwrap();
    let error = refused(&path).to_string();
    let names = "the tensors transformer.h.0.ln_1.weight and transformer.h.0.ln_2.weight share their numbers";
    assert!(error.contains(names), "{error}");
}

#[test]
fn pipes_and_devices_are_refused_and_not_waited_for() {
    let place = Place::new();
    place.gpt2("gpt2");
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(place.path(name)).status().unwrap().success());
    };
    for folder in ["piped", "shards", "nano"] {
        fs::create_dir(place.path(folder)).unwrap();
        if folder != "nano" {
            fs::copy(place.path("gpt2/config.json"), place.path(folder).join("config.json")).unwrap();
        }
    }
    let index = json!({"weight_map": {"wte.weight": "a.safetensors"}}).to_string();
    fs::write(place.path("shards/model.safetensors.index.json"), index).unwrap();
    for name in ["piped/model.safetensors", "shards/a.safetensors", "nano/ckpt.pt", "text"] {
        pipe(name);
    }
    for (arguments, code) in [
        (&["import", "piped"][..], 3),
        (&["import", "piped/model.safetensors"], 3),
        (&["import", "shards"], 3),
        (&["import", "nano"], 3),
        (&["import", "gpt2", "--text", "text"], 2),
        (&["import", "gpt2", "--text", "/dev/zero"], 2),
    ] {
        let mut started = Started(place.command(arguments).stderr(Stdio::null()).spawn().unwrap());
        let ended = until(&format!("{arguments:?} ends"), || started.0.try_wait().unwrap());
        assert_eq!(ended.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn more_numbers_than_memory_holds_are_refused_before_they_are_read() {
    const VOCAB: usize = 1_000_000;
    let place = Place::new();
    let base = ModelConfig { layers: 1, heads: 1, kv_heads: 1, d_model: 1 << 18, d_ff: 1, ..ModelConfig::default() };
    let config = ModelConfig { context: VOCAB, mlp: Mlp::GeluTanh, ..base };
    let (mut header, mut end) = (serde_json::Map::new(), 0u64);
    for param in Layout::of(&config, VOCAB).params() {
        let (mut shape, from) = (param.shape.clone(), end);
        if ["c_attn.weight", "c_fc.weight", "c_proj.weight"].iter().any(|name| param.name.ends_with(name)) {
            shape.reverse();
        }
        end += 2 * param.len() as u64;
        let name = param.name.replace("transformer.", "");
        header.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [from, end]}));
    }
    let header = json!(header).to_string();
    let folder = place.path("huge");
    fs::create_dir(&folder).unwrap();
    let sizes = json!({
        "model_type": "gpt2", "vocab_size": VOCAB, "n_embd": config.d_model, "n_head": 1, "n_layer": 1, "n_inner": 1,
        "n_positions": config.context,
    });
    fs::write(folder.join("config.json"), sizes.to_string()).unwrap();
    let mut file = File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    if let Err(e) = file.set_len(8 + header.len() as u64 + end) {
        return eprintln!("skipped: a file with holes of {end} bytes cannot be made here: {e}");
    }
    let (code, _, said) = place.exp(&["import", "huge"]);
    assert!(code == 3 && said.contains("parameters take") && said.contains("and this machine has"), "{said}");

    let sizes = sizes.to_string().replace("\"n_positions\":1000000", "\"n_positions\":1000001");
    fs::write(folder.join("config.json"), sizes).unwrap();
    let error = refused(&folder).to_string();
    assert!(error.contains("its `n_positions` is 1000001, which is not a size"), "specs have none larger: {error}");
}

#[test]
fn names_made_for_a_terminal_come_escaped() {
    let dir = tempfile::tempdir().unwrap();
    let small = Small::gpt2(true);
    let mut named = small.as_gpt2("");
    named.insert("x\u{1b}[31m\u{202e}".into(), (vec![1], vec![1.0]));
    write_hf(dir.path(), &small.gpt2_config(), &named);
    let pickle = dir.path().join("evil.pt");
    let mut torch = Torch::default();
    torch.op(b"\x80\x02c\x1b[31mposix\x1b[2J\nsystem\n)R.").write(&pickle);
    let long = dir.path().join("long.pt");
    let mut torch = Torch::default();
    torch.op(b"\x80\x02c").op(&[b'a'; 1 << 20]).op(b"\nsystem\n)R.").write(&long);
    for (path, shown) in [
        (dir.path(), "tensor x\\u{1b}[31m\\u{202e} of shape [1]"),
        (&pickle, "it calls \\u{1b}[31mposix\\u{1b}[2J.system, which no tensor needs"),
        (&long, "aaa.system, which no tensor needs; nothing was run"),
    ] {
        let error = refused(path).to_string();
        assert!(error.contains(shown) && !error.contains('\u{1b}'), "{error:?}");
        assert!(error.len() < 1500, "{} bytes", error.len());
    }
}

#[test]
fn a_damaged_checkpoint_is_not_said_to_hold_the_weights() {
    let place = Place::new();
    place.gpt2("gpt2");
    let id = place.exp(&["import", "gpt2"]).1;
    let saved = checkpoints::list(&place.folder(id.trim())).unwrap().remove(0);
    let weights = saved.path.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let (code, _, said) = place.exp(&["import", "gpt2"]);
    assert_eq!(code, Exit::Store as i32, "{said}");
    assert!(said.contains("its checkpoint is damaged: ") && said.contains("move the folder away"), "{said}");
    fs::rename(place.folder(id.trim()).path(), place.path("away")).unwrap();
    let (code, again, said) = place.exp(&["import", "gpt2"]);
    assert!(code == 0 && again == id && !said.contains("already"), "{said}");
}

#[test]
fn who_waits_to_register_an_import_can_be_interrupted() {
    for (begin, signal) in [("", Signal::INT), ("trap '' HUP; ", Signal::HUP)] {
        let place = Place::new();
        place.gpt2("gpt2");
        let lock = place.path("runs/experiments/imports/lock");
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let held = Lock::try_take(&lock).unwrap().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{begin}exec \"$0\" import gpt2"), env!("CARGO_BIN_EXE_exp")]);
        let silent = command.current_dir(place.path(".")).env_remove("EXP_ROOT").stdout(Stdio::null());
        let started = Started(silent.stderr(Stdio::null()).spawn().unwrap());
        let whole = |path: &Path| path.join("config.json").exists() && !path.to_string_lossy().contains(".aside");
        until("the run is in its place", || {
            fs::read_dir(place.path("runs")).unwrap().flatten().any(|entry| whole(&entry.path())).then_some(())
        });
        started.signal(signal);
        if signal == Signal::INT {
            assert_eq!(started.exit(), Some(130));
            drop(held);
        } else {
            drop(held);
            assert_eq!(started.exit(), Some(0), "what it was told to ignore it ignores");
        }
        assert_eq!(place.exp(&["import", "gpt2"]).0, 0);
    }
}

#[test]
fn an_experiment_of_a_spec_is_left_as_the_spec_says() {
    let place = Place::new();
    place.gpt2("gpt2");
    let model = "model: {layers: 1, heads: 2, d_model: 8, context: 8}\ndata: {corpus_chars: 4000}\n";
    let spec = format!("{model}train: {{steps: 1, batch: 1}}\neval: {{batches: 1}}\nrun: {{device: cpu}}\n");
    fs::write(place.path("lab.yaml"), spec).unwrap();
    let (code, _, said) = place.exp(&["run", "lab.yaml", "--no-report"]);
    assert_eq!(code, 0, "{said}");
    let journal = || fs::read_to_string(place.path("runs/experiments/lab/journal.jsonl")).unwrap();
    let before = journal();
    let (code, _, said) = place.exp(&["import", "gpt2", "--experiment", "lab"]);
    assert!(code == 2 && said.contains("it is a spec's") && said.contains("`--experiment NAME`"), "{said}");
    assert_eq!(journal(), before);
}

#[test]
fn an_export_into_an_empty_folder_is_there_or_says_why_not() {
    let place = Place::new();
    let mut small = Small::gpt2(true);
    small.weights[3] = f32::NAN;
    write_hf(&place.path("gpt2"), &small.gpt2_config(), &small.as_gpt2(""));
    let id = place.exp(&["import", "gpt2"]).1;
    let export = |to: &str, at: &str| {
        let root = place.dir.path().to_str().unwrap();
        let mut command = place.command(&["export", id.trim(), "--format", "hf", to, "--root", root]);
        let output = command.current_dir(place.path(at)).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for name in ["here", "there"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    symlink("there", place.path("link")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    let (code, said) = export(".", "here");
    assert!(code == 2 && said.contains("it is the current folder") && said.contains("`./export`"), "{said}");
    let (code, said) = export("dangling", ".");
    assert!(code == 2 && said.contains("it is a link to what is not there"), "{said}");
    let (code, said) = export("link", ".");
    assert!(code == 0 && said.contains("warning: 1 of its weights are not finite"), "{said}");
    assert!(Import::open(&place.path("there"), None).is_ok() && place.path("link").is_symlink());
}
