//! What is refused, and in which words.

use std::{fs, process::Command};

use crate::common::{Lab, gzip, lines, said, text, words, zstd};

/// That it is refused with that code, says all of this, and leaves no tokens.
#[track_caller]
fn refused(lab: &Lab, words: &str, code: i32, wanted: &[&str]) {
    let said = lab.prepare(&format!("{words} --out out --tokenizer byte"), code);
    for wanted in wanted {
        assert!(said.contains(wanted), "{words}: {said}");
    }
    assert!(!lab.path("out/meta.json").exists() && !lab.path("out/train.bin").exists());
}

#[test]
fn damaged_files_are_named_with_the_place() {
    let lab = Lab::new();
    let long = text(1, 3_000_000);
    let (gz, zst) = (gzip(long.as_bytes()), zstd(long.as_bytes()));
    lab.write("cut.gz", &gz[..gz.len() / 2]);
    lab.write("cut.zst", &zst[..zst.len() / 2]);
    let flipped = |mut bytes: Vec<u8>, from_end: usize| {
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        bytes
    };
    lab.write("sum.gz", flipped(gz, 6));
    lab.write("sum.zst", flipped(zst, 2));
    lab.write("latin", [long.as_bytes(), b"caf\xe9 au lait"].concat());
    lab.write("half", [b"good ", &"é".as_bytes()[..1]].concat());
    let at = format!("latin is not UTF-8: byte {} is 0xe9", long.len() + 3);
    for (name, wanted) in [
        ("cut.gz", &["cut.gz: its gzip data ends too early, after ", "cut off"][..]),
        ("cut.zst", &["cut.zst: its zstd data ends too early, after ", "cut off"]),
        ("sum.gz", &["sum.gz: its gzip data cannot be read on after ", "checksum"]),
        ("sum.zst", &["sum.zst: its zstd data cannot be read on after ", "checksum"]),
        ("latin", &[&at, "iconv"]),
        ("half", &["half is not UTF-8: byte 5 is 0xc3"]),
    ] {
        refused(&lab, name, 3, wanted);
    }
    lab.write("gone/damaged", lab.path("cut.gz").to_str().unwrap());
    fs::copy(lab.path("cut.gz"), lab.path("gone/damaged")).unwrap();
    refused(&lab, "gone", 3, &["gone/damaged: its gzip data ends too early"]);
}

#[test]
fn lines_that_have_no_text_are_named_by_file_and_number() {
    let lab = Lab::new();
    for (name, line, wanted) in [
        ("a", r#"{"id": 5}"#, "it has no field `text`"),
        ("b", r#"{"text": ["x"]}"#, "no object whose field `text` is a string"),
        ("c", "[1, 2]", "no object whose field `text` is a string"),
        ("d", "plain words", "it is no JSON"),
        ("e", r#"{"text": "a"#, "it is no JSON"),
    ] {
        let name = format!("{name}.jsonl");
        lab.write(&name, format!("{}\n{line}\n{}", lines(&["good"]), lines(&["good"])));
        refused(&lab, &format!("{name} --field text"), 3, &[&format!("{name}, line 3: {wanted}")]);
    }
    lab.write("packed.ndjson.zst", zstd(b"{\"text\": \"\xff\"}"));
    refused(
        &lab,
        "packed.ndjson.zst --field text",
        3,
        &["packed.ndjson.zst, line 1: it is not UTF-8 from its byte 10 on"],
    );
    refused(&lab, "a.jsonl", 2, &["a.jsonl", "--field NAME"]);
    lab.write("folder/x.jsonl.gz", gzip(b"{}"));
    refused(&lab, "folder", 2, &["folder/x.jsonl.gz", "--field NAME"]);
    lab.write("plain.txt", "x");
    refused(&lab, "plain.txt --field text", 2, &["--field is for them", ".jsonl"]);
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_written() {
    let lab = Lab::new();
    lab.write("text", "the text");
    lab.write("empty", "");
    words(&lab.path("words.json"));
    fs::create_dir(lab.path("bare")).unwrap();
    let pipe = Command::new("mkfifo").arg(lab.path("pipe")).status().unwrap();
    assert!(pipe.success());
    for (words, code, wanted) in [
        ("missing --out out", 3, "there is no such file or folder"),
        ("bare --out out", 3, "the folder has no files"),
        ("pipe --out out", 3, "it is neither a file nor a folder"),
        ("empty --out out", 3, "there is no text in it"),
        ("empty --out out --tokenizer char", 3, "there is no text in it"),
        ("text --out out --val-fraction 0", 2, "above 0, at most 0.5"),
        ("text --out out --val-fraction nan", 2, "above 0, at most 0.5"),
        ("text --out out --tokenizer words", 2, "words"),
        ("text --out out --tokenizer file", 2, "--tokenizer-file"),
        ("text --out out --tokenizer gpt2 --tokenizer-file words.json", 2, "is for the tokenizer `file`"),
        ("text --out out --tokenizer-file text", 3, "it is no `tokenizer.json`"),
        ("text --out out --tokenizer char --separator eot", 2, "has no token that ends a text"),
        ("text --out out --tokenizer-file words.json --separator eot", 2, "--eot TOKEN"),
        ("text --out out --tokenizer-file words.json --eot <no>", 2, "has no token \"<no>\""),
        ("text --out out --tokenizer-file words.json --eot <eot> --separator none", 2, "another thing"),
        ("text --out out --eot <eot>", 2, "--eot is for the tokenizer `file`"),
        ("text --out text", 2, "it is no folder"),
    ] {
        let said = lab.prepare(words, code);
        assert!(said.contains(wanted), "{words}: {said}");
        let left = if lab.path("out").exists() { lab.names("out") } else { Vec::new() };
        assert!(left.is_empty() || left == [".lock"], "{words}: {left:?}");
    }
}

#[test]
fn a_folder_that_holds_something_else_is_left_alone() {
    let lab = Lab::new();
    lab.write("text", "the text");
    lab.write("out/thesis.tex", "precious");
    let refused = lab.prepare("text --out out", 2);
    assert!(refused.contains("something else: thesis.tex") && lab.names("out") == ["thesis.tex"], "{refused}");
    lab.prepare("text --out out --force", 0);
    assert_eq!(fs::read(lab.path("out/thesis.tex")).unwrap(), b"precious");

    lab.write("nano/train.bin", "12");
    lab.write("nano/val.bin", "12");
    for meta in [false, true] {
        let refused = lab.prepare("text --out nano", 2);
        assert!(refused.contains("did not make"), "{refused}");
        assert_eq!(fs::read(lab.path("nano/train.bin")).unwrap(), b"12");
        if !meta {
            lab.write("nano/meta.json", "{}");
        }
    }
    lab.prepare("text --out nano --force", 0);
    assert_eq!(lab.ids("nano"), [1169, 2420]);
}

#[test]
fn memory_is_bounded_whatever_there_is_to_read() {
    let lab = Lab::new();
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..200 {
        std::io::Write::write_all(&mut bomb, &[b'a'; 1 << 20]).unwrap();
    }
    lab.write("bomb", bomb.finish().unwrap());
    lab.write("line.jsonl", lines(&[&"x y\n".repeat(25_000_000)]));
    for (words, kilobytes, bytes) in [
        ("bomb --out a --tokenizer byte", 300_000, 200 << 20),
        ("line.jsonl --field text --out b --tokenizer byte", 500_000, 100_000_000),
    ] {
        let prepare = lab.command(&format!("{words} --threads 2 --json"));
        let mut limited = Command::new("bash");
        limited.args(["-c", &format!("ulimit -v {kilobytes}; exec \"$@\""), "bash"]);
        limited.arg(prepare.get_program()).args(prepare.get_args());
        // Otherwise each thread reserves, and does not use, 64 MB.
        let output = limited.env("MALLOC_ARENA_MAX", "1").current_dir(lab.dir.path()).output().unwrap();
        let report = output.stdout.clone();
        said(output, words, 0);
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["text_bytes"], bytes);
    }
}
