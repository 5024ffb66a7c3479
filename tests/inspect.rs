//! `exp inspect`, and presets as the other commands show them.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Output},
};

use serde_json::{Value, json};

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn exp(&self, args: &[&str], code: i32) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
        let output = command.args(args).current_dir(self.0.path()).env_remove("EXP_ROOT").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "exp {args:?}: {said}");
        output
    }

    fn text(&self, args: &[&str]) -> String {
        String::from_utf8(self.exp(args, 0).stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.exp(&[args, &["--json"]].concat(), 0).stdout).unwrap()
    }

    fn error(&self, args: &[&str], code: i32) -> String {
        let output = self.exp(args, code);
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    }
}

const LLAMA: [&str; 8] = ["inspect", "llama", "--batch", "4", "--context", "2048", "--dtype", "bf16"];

#[test]
fn known_models_have_their_known_numbers() {
    let lab = Lab::new();
    fs::create_dir(lab.0.path().join("gpt2")).unwrap(); // a folder is no spec
    let gpt2 = lab.json(&["inspect", "gpt2", "--prompt-tokens", "500", "--new-tokens", "500"]);
    let (params, passes) = (&gpt2[0]["params"], &gpt2[0]["positions"]);
    assert_eq!((&params["total"], &params["layer"]["total"]), (&json!(124_439_808), &json!(7_087_872)));
    assert_eq!((&params["embedding"], &params["layer"]["feed_forward"]), (&json!(39_383_808), &json!(4_722_432)));
    assert_eq!((&passes["with_cache"], &passes["without_cache"]), (&json!(1000), &json!(375_250)));
    assert_eq!((&gpt2[0]["vocab_size"], &gpt2[0]["name"]), (&json!(50_257), &json!("gpt2")));
    assert_eq!(gpt2[0]["config"]["model.preset"], "gpt2");
    // 6·123,653,376 + 12·12·768·1024
    assert_eq!(gpt2[0]["flops_per_token"]["training"], json!(855_166_464.0));
    assert_eq!(gpt2[0]["flops_per_token"]["forward"], json!(855_166_464.0 / 3.0));

    let llama = lab.json(&LLAMA);
    let bytes = &llama[0]["bytes"];
    assert_eq!((&bytes["logits"], &bytes["cache_per_token"]), (&json!(2_101_346_304u64), &json!(131_072)));
    assert_eq!(bytes["weights_in_dtype"], json!(2 * 8_030_261_248u64));
    assert!(!lab.0.path().join("runs").exists(), "who looks makes nothing");
}

#[test]
fn the_tables_fit_a_terminal_and_say_the_known_shares() {
    let lab = Lab::new();
    let gpt2 = lab.text(&["inspect", "gpt2", "--prompt-tokens", "500", "--new-tokens", "500"]);
    for (name, words) in [
        ("embedding", "31.6 %"),
        ("  one of 12", "7,087,872"),
        ("    feed-forward", "66.6 %"),
        ("with a cache", "1,000"),
        ("without", "375,250"),
        ("all", "124,439,808"),
        ("N = ", "123.7 M parameters without positions"),
        ("P = ", "124.4 M parameters, "),
    ] {
        let line = gpt2.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| line.contains(words)), "{name:?} {words} in\n{gpt2}");
    }
    let llama = lab.text(&LLAMA);
    assert!(llama.contains("131,072") && llama.contains("2.10 GB") && llama.contains("8,030,261,248"), "{llama}");
    assert!(llama.contains("32 heads, 8 of keys and values"), "{llama}");
    assert!(!llama.lines().any(|line| line.starts_with("  positions")), "it has no table of them");
    for text in [gpt2, llama] {
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 80, "{longest} columns\n{text}");
    }
}

/// The bytes of each row of the table of memory.
fn memory(text: &str) -> Vec<(&str, u64)> {
    let lines = text.lines().skip_while(|line| !line.starts_with("memory ")).skip(2);
    // The number in groups of three digits.
    let is_number = |word: &&str| word.contains(',') && word.chars().all(|c| c == ',' || c.is_ascii_digit());
    let bytes = |line: &str| line.split_whitespace().find(is_number)?.replace(',', "").parse().ok();
    lines.map_while(|line| Some((line.split("  ").find(|part| !part.is_empty())?, bytes(line)?))).collect()
}

#[test]
fn what_training_takes_is_the_sum_of_the_rows_above_it_for_the_engine_that_trains() {
    let lab = Lab::new();
    for (set, engine, rows) in [("run.engine=cpu", "cpu", 4), ("run.engine=tape", "tape", 5)] {
        let args = ["inspect", "gpt2", "--set", "run.device=cpu", "--set", set];
        let (text, value) = (lab.text(&args), lab.json(&args));
        let table = memory(&text);
        let total = table.iter().position(|(name, _)| *name == format!("training by {engine}")).unwrap();
        assert_eq!(total, rows, "{text}");
        assert_eq!(table[..total].iter().map(|(_, bytes)| bytes).sum::<u64>(), table[total].1, "{text}");
        let bytes = &value[0]["bytes"];
        let parts = ["weights", "gradients", "optimizer", "gradient_sums", "activations"];
        let sum: u64 = parts.iter().map(|part| bytes[part].as_u64().unwrap()).sum();
        assert_eq!((Some(sum), sum), (bytes["training"].as_u64(), table[total].1));
        assert_eq!(text.contains("by tape instead"), engine == "cpu", "{text}");
        assert_eq!(bytes["with_tape"].is_null(), engine == "tape");
        assert!(!text.contains("at most"), "an estimate is no bound\n{text}");
        assert!(
            text.lines()
                .filter(|line| line.contains("activations") && line.contains("tape"))
                .all(|l| l.contains("about"))
        );
    }
}

#[test]
fn a_text_is_generated_that_has_a_token_and_what_is_beyond_the_context_is_said() {
    let lab = Lab::new();
    for (options, title, is_beyond) in [
        (&[][..], "to generate 512 tokens after 512 ", false),
        (&["--prompt-tokens", "1000"], "to generate 24 tokens after 1,000 ", false),
        (&["--prompt-tokens", "1023"], "to generate 1 token after 1,023 ", false),
        (&["--prompt-tokens", "1024"], "to generate 512 tokens after 1,024 ", true),
        (&["--prompt-tokens", "2000"], "to generate 512 tokens after 2,000 ", true),
        (&["--new-tokens", "2000"], "to generate 2,000 tokens after 512 ", true),
        (&["--context", "1"], "to generate 1 token after 1 ", true),
    ] {
        let text = lab.text(&[&["inspect", "gpt2"], options].concat());
        assert!(text.contains(title), "{options:?}\n{text}");
        assert_eq!(text.contains("more than the context"), is_beyond, "{options:?}\n{text}");
    }
}

const SMALL: &str = "experiment: small\nmodel: {layers: 2, heads: 2, d_model: 16, context: 16}\n\
                     data: {corpus_chars: 20000}\ntrain: {steps: 3, batch: 4}\neval: {every: 5, batches: 2, batch: 4}\n";

#[test]
fn a_spec_is_inspected_with_the_tokens_of_its_corpus_and_a_run_with_its_own() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALL);
    let plan = lab.json(&["plan", "small.yaml"]);
    let spec = lab.json(&["inspect", "small.yaml"]);
    assert_eq!((&spec[0]["params"]["total"], &spec[0]["name"]), (&plan["runs"][0]["params"], &json!("small")));
    assert_eq!(lab.json(&["inspect", "small.yaml", "--vocab", "1000"])[0]["params"]["tokens"], 16_000);

    lab.exp(&["run", "small.yaml", "--no-report", "--set", "mlp=relu2", "--set", "tokenizer=byte"], 0);
    let id = lab.json(&["ls"])[0]["id"].as_str().unwrap().to_owned();
    let run = lab.json(&["inspect", &id[..7]]);
    assert_eq!((&run[0]["vocab_size"], &run[0]["config"]["model.mlp"]), (&json!(256), &json!("relu2")));
    let wider = lab.json(&["inspect", &id, "--set", "d_model=32"]);
    assert_eq!((&wider[0]["config"]["model.d_ff"], &wider[0]["config"]["model.layers"]), (&json!(128), &json!(2)));
}

#[test]
fn a_sweep_is_compared_shape_by_shape() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALL);
    let set = ["--set", "layers=[1, 2]", "--set", "lr=[1e-3, 1e-4]", "--set", "preset=[gpt2, llama]"];
    let args = [&["inspect", "small.yaml"][..], &set].concat();
    let text = lab.text(&args);
    let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().take(3).collect();
    assert_eq!(heads, ["layers", "preset", "params"], "what makes no other shape is left out\n{text}");
    assert_eq!(text.lines().count(), 2 + 4);
    assert_eq!(lab.json(&args).as_array().unwrap().len(), 4);
}

#[test]
fn what_is_none_of_the_three_is_said_with_the_nearest_preset() {
    let lab = Lab::new();
    let error = lab.error(&["inspect", "lama"], 2);
    assert!(error.contains("it is no file, no preset and no run") && error.contains("the preset `llama`?"), "{error}");
    assert!(lab.error(&["inspect", "00ff"], 2).contains("gpt2, gpt2-medium"));
    lab.write("small.yaml", SMALL);
    lab.exp(&["run", "small.yaml", "--no-report"], 0);
    let error = lab.error(&["inspect", "small"], 2);
    assert!(error.contains("`small` is an experiment: `exp ls small` lists its runs"), "{error}");
    assert!(lab.error(&["inspect", "missing.yaml"], 3).contains("no such file"));
    assert!(lab.error(&["inspect", "gpt2", "--set", "heads=7"], 3).contains("--set heads=7"));
    assert!(lab.error(&["inspect", "gpt2", "--dtype", "f8"], 2).contains("bf16"));
    lab.write("far.yaml", "data: {corpus: text, path: nowhere.txt}\n");
    assert!(lab.error(&["inspect", "far.yaml"], 3).contains("hint:"));
    assert_eq!(lab.json(&["inspect", "far.yaml", "--vocab", "50"])[0]["vocab_size"], 50);
}

/// Planned, trained, listed and reported: the axis is the preset, and not each of the settings that it stands for.
#[test]
fn an_axis_of_presets_is_one_column_and_one_picture() {
    let lab = Lab::new();
    lab.write("small.yaml", SMALL);
    let set = ["--set", "preset=[gpt2, llama]", "--set", "norm=null"];
    let plan = lab.json(&[&["plan", "small.yaml"][..], &set].concat());
    assert_eq!(
        (&plan["axes"], &plan["runs"][1]["config"]["model.norm"]),
        (&json!(["model.preset"]), &json!("rmsnorm"))
    );
    lab.exp(&[&["run", "small.yaml"][..], &set].concat(), 0);
    let table = lab.text(&["ls"]);
    let heads: Vec<&str> = table.lines().next().unwrap().split_whitespace().take(3).collect();
    assert_eq!(heads, ["run", "preset", "step"], "{table}");
    assert!(table.contains("gpt2") && table.contains("llama"), "{table}");
    assert!(lab.0.path().join("reports/small/loss_vs_preset.png").exists());
    let runs = lab.json(&["ls"]);
    let words = runs.as_array().unwrap().iter().map(|run| run["config"]["model.preset"].as_str().unwrap());
    assert_eq!(words.collect::<BTreeSet<_>>(), BTreeSet::from(["gpt2", "llama"]));

    // The same settings written out are the same run, which is done.
    let written = ["--set", "mlp=gelu_tanh"];
    let plan = lab.json(&[&["plan", "small.yaml"][..], &written].concat());
    assert_eq!(plan["runs"][0]["reason"], "done already");
}
