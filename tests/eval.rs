//! `exp eval` as people see it: real runs, their stored losses, and other texts.

mod lab;

use std::{fs, process::Stdio};

use exp::{
    data::tokenizer::{self, Tokenizer},
    engine::{self, Engine, Part},
    train::{Trained, Which},
};
use lab::{Lab, answer, until};
use rustix::process::Signal;
use serde_json::Value;

const TINY: &str = "
experiment: tiny
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus_seed: 5, corpus_chars: 20000}
train: {steps: 12, batch: 4, lr: 1e-2}
eval: {every: 4, batches: 3, batch: 4}
checkpoint: {keep_last: 5}
";

/// A root in which a spec was run, and the id of its one run.
fn trained(folder: &tempfile::TempDir, spec: &str) -> (Lab, String) {
    let lab = Lab::at(folder.path());
    let (code, said) = lab.run(spec);
    assert_eq!(code, Some(0), "{said}");
    let id = lab.rows()[0].id.to_string();
    (lab, id)
}

fn eval(lab: &Lab, id: &str, options: &[&str]) -> Value {
    let output = lab.exp(&[&["eval", id, "--json"], options].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(lab: &Lab, id: &str, options: &[&str], code: i32) -> String {
    let (exit, said) = answer(lab.exp(&[&["eval", id], options].concat()).output().unwrap());
    assert_eq!(exit, Some(code), "{options:?}: {said}");
    said
}

/// The run's engine with the weights of a checkpoint, and its tokenizer.
fn model(lab: &Lab, which: Which) -> (Box<dyn Engine>, Box<dyn Tokenizer>) {
    let trained = Trained::load(&lab.folder(), which).unwrap();
    let mut engine = engine::build(&trained.frozen.config, trained.frozen.vocab_size, "cpu", 1).unwrap();
    engine.write(Part::Params, &trained.weights).unwrap();
    (engine, tokenizer::kept(&lab.root, &lab.folder()).unwrap().unwrap())
}

/// The mean of -log p of every token but the first, each window of `context` by itself; from logits, in f64.
fn walked(engine: &mut dyn Engine, tokens: &[u32], context: usize) -> f64 {
    let mut sum = 0.0;
    for start in (0..tokens.len() - 1).step_by(context) {
        let end = (start + context).min(tokens.len() - 1);
        let logits = engine.logits(&tokens[start..end], 1).unwrap();
        for (row, &next) in logits.chunks_exact(logits.len() / (end - start)).zip(&tokens[start + 1..=end]) {
            let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            sum += total.ln() - f64::from(row[next as usize]);
        }
    }
    sum / (tokens.len() - 1) as f64
}

fn close(a: &Value, b: f64) {
    let a = a.as_f64().unwrap();
    assert!((a - b).abs() < 1e-5 * b.abs(), "{a} is not {b}");
}

#[test]
fn the_loss_of_every_checkpoint_is_the_stored_one_to_the_bit() {
    for engine in ["cpu", "tape"] {
        let folder = tempfile::tempdir().unwrap();
        let (lab, id) = trained(&folder, &format!("{TINY}run: {{engine: {engine}}}\n"));
        let row = &lab.rows()[0];
        let metrics = lab.store().metrics(&row.id).unwrap();
        let stored = |name: &str, step: u64| {
            let (_, curve) = metrics.iter().find(|(metric, _)| *metric == name).unwrap();
            curve.iter().find(|(at, _)| *at == step).unwrap().1
        };
        let best = row.best.unwrap().0;
        for (which, step) in [("best", best), ("last", 12), ("4", 4), ("8", 8)] {
            let val = eval(&lab, &id[..8], &["--checkpoint", which, "--threads", "2"]);
            assert_eq!((&val["step"], &val["engine"], &val["split"]), (&step.into(), &engine.into(), &"val".into()));
            assert_eq!(val["loss"].as_f64(), Some(stored("val/loss", step)), "{engine}, {which}");
            assert_eq!(val["bits_per_char"].as_f64(), Some(stored("val/bits_per_char", step)));
            assert_eq!((&val["windows"], &val["tokens"], &val["run"]), (&12.into(), &192.into(), &id.as_str().into()));
            close(&val["perplexity"], stored("val/loss", step).exp());
            let train = eval(&lab, &id, &["--checkpoint", which, "--split", "train"]);
            assert_eq!(train["loss"].as_f64(), Some(stored("eval/train_loss", step)));
        }
        let said = refused(&lab, &id, &["--checkpoint", "5"], 2);
        assert!(said.contains("no checkpoint after step 5") && said.contains("4, 8, 12"), "{said}");
        assert_eq!(
            fs::read_dir(folder.path().join("runs/cache/tokens")).unwrap().flatten().count(),
            2,
            "with the lock"
        );
    }
}

#[test]
fn all_of_a_split_is_walked_once_whatever_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, id) = trained(&folder, TINY);
    let (mut engine, tokenizer) = model(&lab, Which::Best);
    let text = exp::data::playbook::Playbook::generate(5, 20_000).unwrap().text;
    let tokens = tokenizer.encode(&text).unwrap();
    let (train, val) = tokens.split_at((tokens.len() as f64 * 0.9) as usize);
    for (split, tokens) in [("val", val), ("train", train)] {
        assert!(!(tokens.len() - 1).is_multiple_of(16), "the last window is a shorter one");
        let want = walked(&mut *engine, tokens, 16);
        for options in [&["--batch", "64"][..], &["--batch", "7", "--threads", "1"], &[]] {
            let score = eval(&lab, &id, &[&["--all", "--split", split], options].concat());
            close(&score["loss"], want);
            close(&score["bits_per_char"], want / 2f64.ln());
            assert_eq!(score["tokens"], tokens.len() - 1);
            assert_eq!(score["windows"], (tokens.len() - 1).div_ceil(16));
        }
    }
    let twelve = eval(&lab, &id, &[]);
    close(&eval(&lab, &id, &["--windows", "12", "--batch", "5"])["loss"], twelve["loss"].as_f64().unwrap());
    let more = eval(&lab, &id, &["--windows", "30"]);
    assert!(more["loss"] != twelve["loss"] && more["tokens"] == 480, "{more}");
    let table = lab.exp(&["eval", &id]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for word in [
        &format!("{:.4} nats per token", twelve["loss"].as_f64().unwrap()),
        "playbook, val split, the last 10 % of it\n",
        "192 predicted, in 12 windows drawn from 2,",
    ] {
        assert!(table.contains(word), "{table}");
    }

    // The whole of it is walked as one text: at the end of the training split goes no window to its end.
    let whole = eval(&lab, &id, &["--split", "whole"]);
    close(&whole["loss"], walked(&mut *engine, &tokens, 16));
    assert_eq!((&whole["tokens"], &whole["split_tokens"]), (&(tokens.len() - 1).into(), &tokens.len().into()));
    assert_eq!((&whole["windows"], &whole["split"]), (&(tokens.len() - 1).div_ceil(16).into(), &"whole".into()));
    assert_eq!(eval(&lab, &id, &["--split", "whole", "--all"]), whole);
    let table = lab.exp(&["eval", &id, "--split", "whole"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for word in ["playbook, the whole of it\n", " predicted, each once, in "] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn another_text_is_read_by_the_run_s_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, id) = trained(&folder, TINY);
    let (mut engine, tokenizer) = model(&lab, Which::Last);
    // Other letters in other numbers: a new alphabet would give other ids.
    let text = "so the sea was the one that sees us at noon\n".repeat(40);
    let path = folder.path().join("sea: one, two.txt");
    fs::write(&path, &text).unwrap();
    let tokens = tokenizer.encode(&text).unwrap();
    let (train, val) = tokens.split_at((tokens.len() as f64 * 0.9) as usize);
    let name = path.to_str().unwrap();
    let last = |options: &[&str]| eval(&lab, &id, &[&["--text", name, "--checkpoint", "last"], options].concat());
    for (options, part, word) in [
        (&[][..], &tokens[..], "whole"),
        (&["--all"], &tokens, "whole"),
        (&["--split", "val"], val, "val"),
        (&["--split", "train", "--batch", "5"], train, "train"),
    ] {
        let score = last(options);
        let want = walked(&mut *engine, part, 16);
        close(&score["loss"], want);
        close(&score["bits_per_char"], want / 2f64.ln());
        assert_eq!((&score["corpus"], &score["split"]), (&name.into(), &word.into()));
        assert_eq!((&score["tokens"], &score["split_tokens"]), (&(part.len() - 1).into(), &part.len().into()));
    }
    assert_eq!(last(&["--windows", "3"])["tokens"], 48);
    fs::copy(&path, folder.path().join("plain.txt")).unwrap();
    let plain = format!("data.path={}", folder.path().join("plain.txt").display());
    let by_set = ["--set", "corpus=text", "--set", &plain, "--checkpoint", "last"];
    assert_eq!(eval(&lab, &id, &by_set)["loss"], last(&[])["loss"]);
    let half = last(&["--set", "val_fraction=0.5", "--split", "val"]);
    assert_eq!(half["tokens"], tokens.len() - tokens.len() / 2 - 1);
    assert_eq!(half["set"]["data.val_fraction"], 0.5);

    // Another corpus by a setting is another text; the same one is the run's own.
    assert_eq!(eval(&lab, &id, &["--set", "corpus_seed=5"]), eval(&lab, &id, &[]));
    let seed = ["--set", "corpus_seed=2"];
    let other = eval(&lab, &id, &seed);
    assert_eq!(
        (&other["split"], &other["tokens"]),
        (&"whole".into(), &(other["split_tokens"].as_u64().unwrap() - 1).into())
    );
    assert_eq!(other["set"], serde_json::json!({"data.corpus_seed": 2}));
    let table = lab.exp(&[&["eval", &id][..], &seed].concat()).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("playbook with data.corpus_seed = 2, the whole of it\n"), "{table}");

    fs::write(&path, format!("{text}¿")).unwrap();
    let said = refused(&lab, &id, &["--text", name], 2);
    assert!(said.contains("no character '¿'") && said.contains(&id[..8]) && said.contains("hint:"), "{said}");
    let gone = refused(&lab, &id, &["--text", "nowhere.txt"], 2);
    assert!(gone.contains("nowhere.txt: there is no such file"), "{gone}");
    fs::write(&path, "too short").unwrap();
    assert_eq!(eval(&lab, &id, &["--text", name])["tokens"], 8, "a window may be shorter than the context");
    assert_eq!(eval(&lab, &id, &["--text", name, "--split", "train"])["tokens"], 7);
    for (options, why, hint) in [
        (&["--split", "train", "--windows", "2"][..], "the train split has 8 tokens, and 17 are needed", "`--all`"),
        (&["--split", "val"], "the val split has 1 token, and 2 are needed", "`--split whole`"),
    ] {
        let short = refused(&lab, &id, &[&["--text", name], options].concat(), 2);
        assert!(short.contains(why) && short.contains(hint), "{short}");
    }
    fs::write(&path, "to").unwrap();
    assert_eq!(eval(&lab, &id, &["--text", name])["tokens"], 1);
    fs::write(&path, "t").unwrap();
    let short = refused(&lab, &id, &["--text", name], 2);
    assert!(
        short.contains("the whole text has 1 token, and 2 are needed") && short.contains("a longer text"),
        "{short}"
    );
    fs::write(&path, "").unwrap();
    assert!(refused(&lab, &id, &["--text", name], 2).contains("there is no text in it"));
    let other = refused(&lab, &id, &["--set", "lr=3"], 2);
    assert!(other.contains("`train.lr` cannot be set here"), "{other}");
    let caret = other.lines().find(|line| line.contains('^')).unwrap();
    let key = other.lines().find(|line| line.contains("--set lr=3")).unwrap().find("lr").unwrap();
    assert_eq!((caret.find('^'), caret.matches('^').count()), (Some(key), 2), "{other}");
    for (options, why) in [
        (&["--text", name, "--set", "corpus_seed=2"][..], "`data.corpus_seed` has no effect on the corpus `text`"),
        (&["--text", name, "--set", "corpus_chars=2000"], "`data.corpus_chars` has no effect"),
        (&["--text", name, "--set", "corpus=playbook"], "`--text` sets `data.corpus` already"),
        (&["--text", name, "--set", "path=a"], "`--text` sets `data.path` already"),
        (&["--text", name, "--set", "val_fraction=0.5"], "`--split val` and `--split train` take a part"),
        (&["--set", "val_fraction=0.5"], "no effect on the whole"),
    ] {
        let said = refused(&lab, &id, options, 2);
        assert!(said.contains(why), "{options:?}: {said}");
    }
    let half = eval(&lab, &id, &["--set", "val_fraction=0.5", "--split", "val"]);
    let whole = eval(&lab, &id, &["--split", "whole"])["split_tokens"].as_u64().unwrap();
    assert_eq!(half["tokens"], whole - whole / 2 - 1);
    let other = refused(&lab, &id, &["--set", "tokenizer=byte"], 2);
    assert!(other.contains("its tokens are what they are"), "{other}");
    refused(&lab, &id, &["--all", "--windows", "3"], 2);
    refused(&lab, "ffffffff", &[], 2);
}

#[test]
fn a_run_outlives_its_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let (corpus, other) = (folder.path().join("corpus.txt"), folder.path().join("other.txt"));
    fs::write(&corpus, "what is here today may be gone tomorrow. ".repeat(60)).unwrap();
    fs::write(&other, "tomorrow is here. ".repeat(60)).unwrap();
    let spec = TINY.replace("{corpus_seed: 5, corpus_chars: 20000}", "{corpus: text, path: corpus.txt}");
    let (lab, id) = trained(&folder, &spec);
    let other = other.to_str().unwrap();
    let before = eval(&lab, &id, &["--text", other]);

    let kept = lab.folder().tokenizer();
    let text = fs::read(&kept).unwrap();
    fs::remove_file(&kept).unwrap(); // as in runs from before it was kept
    assert_eq!(eval(&lab, &id, &["--text", other]), before);
    assert_eq!(fs::read(&kept).unwrap(), text, "it is kept from then on");
    fs::remove_file(&kept).unwrap();
    fs::write(&corpus, "something else altogether. ".repeat(60)).unwrap();
    let said = refused(&lab, &id, &["--text", other], 3);
    assert!(said.contains("none is kept with it") && said.contains("put the corpus back"), "{said}");
    let said = refused(&lab, &id, &[], 3);
    assert!(said.contains("not what it was") && said.contains("--text"), "{said}");

    fs::write(&kept, text).unwrap();
    fs::remove_file(&corpus).unwrap();
    assert_eq!(eval(&lab, &id, &["--text", other]), before);
    let said = refused(&lab, &id, &[], 3);
    assert!(said.contains("corpus.txt: there is no such file") && said.contains("--text"), "{said}");
}

#[test]
fn help_takes_a_line_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let help = Lab::at(folder.path()).exp(&["eval", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let options = help.split("Options:\n").nth(1).unwrap();
    assert!(!options.trim_end().contains("\n\n"), "{help}");
}

#[test]
#[cfg(target_os = "linux")] // where a process says which signals it handles
fn ctrl_c_ends_a_long_walk_with_130() {
    let folder = tempfile::tempdir().unwrap();
    let (lab, id) = trained(&folder, TINY);
    let text = folder.path().join("long.txt");
    fs::write(&text, "the same sea\n".repeat(400_000)).unwrap();
    let text = text.to_str().unwrap();
    let mut command = lab.exp(&["eval", &id, "--text", text, "--all", "--split", "train", "--batch", "1"]);
    let child = lab::Started(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let status = format!("/proc/{}/status", child.0.id());
    until("it handles SIGINT", || {
        let status = fs::read_to_string(&status).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        (u64::from_str_radix(&caught, 16).ok()? & (1 << 1) != 0).then_some(())
    });
    child.signal(Signal::INT);
    assert_eq!(child.exit(), Some(130));
}
