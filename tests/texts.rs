//! What models write: in `exp sample`, and while they are trained.

mod lab;

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use lab::{Lab, answer, assert_same, steps, until};
use rustix::process::Signal;
use serde_json::Value;

const SPEC: &str = "
experiment: texts
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus_chars: 20000}
train: {steps: 12, batch: 4}
eval: {every: 6, batches: 2, batch: 4}
run: {device: cpu}
";

fn lab(dir: &tempfile::TempDir, more: &str) -> Lab {
    let lab = Lab::at(dir.path());
    let (code, said) = lab.run(&format!("{SPEC}{more}"));
    assert_eq!(code, Some(0), "{said}");
    lab
}

/// What `exp sample` of the one run writes to standard output, and its exit code.
fn sample(lab: &Lab, arguments: &[&str]) -> (Option<i32>, String) {
    let run = lab.rows()[0].id.to_string();
    let output = lab.exp(&[&["sample", &run], arguments].concat()).output().unwrap();
    assert!(output.status.success() || output.stdout.is_empty());
    let out = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code(), String::from_utf8(out).unwrap())
}

#[test]
fn a_run_writes_after_a_prompt_the_same_for_the_same_seed() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(&dir, "");
    let write = |arguments: &[&str]| {
        let (code, text) = sample(&lab, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
        text
    };
    let text = write(&["--prompt", "the ", "--tokens", "40"]);
    assert!(text.starts_with("the ") && text.trim_end_matches('\n').chars().count() <= 44, "{text:?}");
    assert_eq!(write(&["--prompt", "the ", "--tokens", "40", "--threads", "1"]), text);
    assert_ne!(write(&["--prompt", "the ", "--tokens", "40", "--seed", "2"]), text);
    assert_ne!(write(&["--prompt", "the ", "--tokens", "40", "--checkpoint", "6"]), text);
    // The first of several is the one alone; greedy ones are all the same.
    let three = write(&["--prompt", "the ", "--tokens", "40", "--count", "3"]);
    let parts: Vec<&str> = three.split("---------------\n").collect();
    assert!(parts.len() == 3 && parts[0] == text && parts[1] != text && parts[1] != parts[2], "{three}");
    let greedy = write(&["--prompt", "the ", "--tokens", "9", "--count", "2", "--temperature", "0"]);
    let (one, two) = greedy.split_once("---------------\n").unwrap();
    assert_eq!(one, two);
    assert_eq!(write(&["--prompt", "the ", "--tokens", "9", "--top-k", "1"]), one);

    let json: Value = serde_json::from_str(&write(&["--prompt", "the ", "--tokens", "40", "--json"])).unwrap();
    let ids = json["samples"][0]["ids"].as_array().unwrap();
    assert_eq!((ids.len(), json["samples"][0]["text"].as_str().unwrap()), (40, text.trim_end_matches('\n')));
    assert_eq!((&json["step"], json["run"].as_str().unwrap().len()), (&Value::from(12), 64));
    // The prompt as ids gives the same.
    let prompt: Vec<String> = json["prompt_ids"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(write(&["--ids", &prompt.join(","), "--tokens", "40"]), text);

    // From a file and from standard input.
    let file = dir.path().join("prompt.txt");
    fs::write(&file, "the ").unwrap();
    assert_eq!(write(&["--prompt-file", file.to_str().unwrap(), "--tokens", "40"]), text);
    for dash in [&["-"][..], &["--prompt-file", "-"]] {
        let run = lab.rows()[0].id.to_string();
        let mut command: Command = lab.exp(&[&["sample", &run, "--tokens", "40"], dash].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"the ").unwrap();
        assert_eq!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(), text);
    }
    let bench: Value = serde_json::from_str(&write(&["--bench", "--json", "--tokens", "5"])).unwrap();
    // Two numbers of four bytes for each of the layer's 16 columns of keys.
    assert_eq!(bench["cache_bytes_per_token"], 2 * 4 * 16);
    for figure in ["first_token_ms", "token_ms", "tokens_per_second", "memory_bandwidth", "memory_bandwidth_share"] {
        assert!(bench[figure].as_f64().unwrap() > 0.0, "{bench}");
    }
}

#[test]
fn what_cannot_be_written_after_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(&dir, "");
    for (arguments, code, words) in [
        (&["--prompt", "日本"][..], 2, "no character '日'"),
        (&["--prompt", ""], 2, "it is empty"),
        (&["--checkpoint", "7"], 2, "after steps 6, 12"),
        (&["--checkpoint", "newest"], 2, "`best`, `last` or the number of a step"),
        (&["--ids", "1,65000"], 2, "token 65000 is outside its vocabulary"),
        (&["--temperature", "-1"], 2, "at least 0"),
        (&["--top-p", "0"], 2, "(0, 1]"),
        (&["--tokens", "0"], 2, "0 is not in 1.."),
        (&["--prompt-file", "/no/such/file"], 2, "/no/such/file"),
    ] {
        let (got, said) = sample(&lab, arguments);
        assert!(
            got == Some(code) && said.contains(words) && !said.contains("panicked"),
            "{arguments:?} {got:?}: {said}"
        );
    }
    // The run knows what its tokens mean when the cache is gone, and its corpus was never a file.
    fs::remove_dir_all(lab.root.cache()).unwrap();
    assert_eq!(sample(&lab, &["--tokens", "3"]).0, Some(0));
    // One of an older version finds it again in the corpus.
    fs::remove_file(lab.folder().tokenizer()).unwrap();
    assert_eq!(sample(&lab, &["--tokens", "3"]).0, Some(0));
    assert!(lab.folder().tokenizer().exists());
}

#[test]
fn texts_are_written_while_a_run_is_trained_and_stand_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let spec = "sample: {every: 5, prompt: 'the ', tokens: 30}\ngrid: {lr: [1e-2, 1e-3]}\n";
    let lab = lab(&dir, spec);
    let store = lab.store();
    let rows = lab.rows();
    for row in &rows {
        let samples = store.samples(&row.id).unwrap();
        assert_eq!(samples.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [5, 10, 12], "multiples and the end");
        assert!(samples.iter().all(|(_, text)| text.starts_with("the ") && text.chars().count() == 34), "{samples:?}");
        // What is written during a run is what its checkpoint writes after it.
        let args =
            ["sample", &row.id.to_string(), "--checkpoint", "12", "--prompt", "the ", "--tokens", "30", "--json"];
        let output = lab.exp(&args).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["samples"][0]["text"], samples[2].1.as_str());
        let kinds = store.artifacts(&row.id).unwrap();
        assert_eq!(kinds.iter().filter(|a| a.kind == "sample" && a.blake3.is_some()).count(), 3);
    }
    let (code, said) = answer(lab.exp(&["report", "texts"]).output().unwrap());
    assert_eq!(code, Some(0), "{said}");
    let page = fs::read_to_string(lab.root.report("texts").join("summary.md")).unwrap();
    let last = &store.samples(&rows[0].id).unwrap()[2].1;
    assert!(page.contains("## What the models wrote") && page.contains(last.trim_end_matches('\n')), "{page}");

    // Texts change nothing of what is trained, and are no part of a run's name.
    let plain = tempfile::tempdir().unwrap();
    let other = Lab::at(plain.path());
    assert_eq!(other.run(&format!("{SPEC}grid: {{lr: [1e-2, 1e-3]}}\n")).0, Some(0));
    assert_same(&other.curves(), &lab.curves(), "with and without texts");

    // A text that was changed on disk is not shown.
    let path = lab.root.run(&rows[0].id).sample(12, 1);
    fs::write(path, "the end").unwrap();
    assert_eq!(lab.store().samples(&rows[0].id).unwrap().len(), 2);
}

#[test]
fn a_prompt_that_the_tokenizer_cannot_read_is_refused_before_the_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let (code, said) = lab.run(&format!("{SPEC}sample: {{every: 5, prompt: 'für'}}\n"));
    assert!(code == Some(3) && said.contains("no character 'ü'") && said.contains("prompt: 'für'"), "{said}");
    assert!(lab.folders().is_empty());
}

#[test]
fn with_a_prompt_alone_a_run_writes_once_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(&dir, "sample: {prompt: 'the ', tokens: 3}\n");
    let samples = lab.store().samples(&lab.rows()[0].id).unwrap();
    assert_eq!(samples.iter().map(|(step, text)| (*step, text.chars().count())).collect::<Vec<_>>(), [(12, 7)]);
}

#[test]
fn who_has_gone_away_is_written_for_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(&dir, "");
    let run = lab.rows()[0].id.to_string();
    let mut command = lab.exp(&["sample", &run, "--tokens", "4000000000"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    // It ends by itself, or the test does not end.
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_that_is_stopped_while_it_writes_goes_on_as_if_it_had_not_been() {
    let straight = tempfile::tempdir().unwrap();
    let sample = "sample: {every: 6, prompt: 'the ', tokens: 20000}\n";
    let want = lab(&straight, sample);
    let dir = tempfile::tempdir().unwrap();
    let stopped = Lab::at(dir.path());
    let spec = format!("{SPEC}{sample}");
    let started = stopped.start(&spec);
    // Six steps are done in no time; what takes long is the text.
    until("the run writes", || {
        let folder = stopped.folders().into_iter().next()?;
        (steps(&folder, 1) >= 6).then_some(())
    });
    started.signal(Signal::INT);
    let code = started.exit();
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    assert_eq!(stopped.run(&spec).0, Some(0));
    assert_same(&stopped.curves(), &want.curves(), "stopped while it wrote");
    let texts = |lab: &Lab| lab.store().samples(&lab.rows()[0].id).unwrap();
    assert_eq!(texts(&stopped), texts(&want));

    // What an attempt wrote after the step that a later one began from does not count.
    let folder = stopped.folder();
    let attempt = *folder.attempts().unwrap().last().unwrap();
    let events = [
        format!(
            r#"{{"event":"started","at":1,"attempt":{0},"pid":1,"host":"h","device":"cpu","threads":1,"version":"0"}}"#,
            attempt + 1
        ),
        ready(0),
    ];
    fs::create_dir_all(folder.attempt(attempt + 1)).unwrap();
    fs::write(folder.events(attempt + 1), events.join("\n") + "\n").unwrap();
    assert!(texts(&stopped).is_empty(), "the last attempt began anew");
}

/// The event of an attempt that goes on from a step.
fn ready(from_step: u64) -> String {
    let ready = exp::event::Ready { from_step, ..Default::default() };
    serde_json::to_string(&exp::event::Event::Ready(ready)).unwrap()
}
