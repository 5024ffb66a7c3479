//! Text as it comes, from the command line to a trained run: line ends of other systems, byte-order marks, scripts without
//! spaces, NUL, one endless line, nothing at all, next to nothing.

mod lab;

use std::{fs, process::Command};

use lab::{Lab, answer};

/// Trains two steps by each of three tokenizers.
const SPEC: &str = "
model: {layers: 1, heads: 2, d_model: 16, context: 16}
data: {corpus: text}
train: {steps: 2, batch: 4}
eval: {every: 2, batches: 1, batch: 4}
run: {device: cpu}
";

const ALL: &str = "grid: {tokenizer: [char, byte, gpt2]}";

/// A root with a text in a file.
fn lab(folder: &tempfile::TempDir, text: impl AsRef<[u8]>) -> Lab {
    let lab = Lab::at(folder.path());
    fs::write(lab.path.join("text.txt"), text).unwrap();
    lab
}

/// Trains on `path`, lets the models write and evaluates them; gives what `exp run` said.
fn trained(lab: &Lab, path: &str, more: &str) -> String {
    let (code, said) = lab.run(&format!("{SPEC}{more}\npath: {path}\n"));
    assert_eq!(code, Some(0), "{path}: {said}");
    for run in lab.rows() {
        let tokenizer = &run.config.data.tokenizer;
        let best = run.best.unwrap_or_else(|| panic!("{tokenizer:?} has no validation loss"));
        assert!(best.1.is_finite(), "{tokenizer:?}: {best:?}");
        for arguments in [&["sample", "--tokens", "20"][..], &["eval", "--json"]] {
            let id = run.id.to_string();
            let output = lab.exp(&[&arguments[..1], &[&id], &arguments[1..]].concat()).output().unwrap();
            assert!(output.status.success() && !output.stdout.is_empty(), "{tokenizer:?} {arguments:?}: {output:?}");
        }
    }
    said
}

#[test]
fn texts_of_any_kind_are_trained_on_as_they_are_from_a_file_and_from_a_folder() {
    let plain = "To be, or not to be,\nthat is the question.\n".repeat(40);
    for (name, text, note) in [
        ("CRLF", plain.replace('\n', "\r\n"), "its lines end with CR LF, which is kept"),
        ("BOM", format!("\u{feff}{plain}"), ""),
        ("CJK", "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。\n".repeat(40), ""),
        ("emoji", "🎭 the 👩‍🔧 smith 🎭 and the 👨‍👩‍👧 of the smith\n".repeat(40), ""),
        ("no line end", "to be or not to be ".repeat(40), ""),
    ] {
        println!("{name}");
        let folder = tempfile::tempdir().unwrap();
        let lab = lab(&folder, &text);
        let said = trained(&lab, "text.txt", ALL);
        assert_eq!(said.contains("text.txt: "), !note.is_empty(), "{said}");
        assert!(said.contains(note), "{said}");
        // The same text in a folder is the same three runs, which are done.
        fs::create_dir(lab.path.join("texts")).unwrap();
        fs::write(lab.path.join("texts/a.txt"), &text).unwrap();
        fs::write(lab.path.join("texts/empty.txt"), "").unwrap();
        let said = lab.run(&format!("{SPEC}{ALL}\npath: texts\n")).1;
        assert!(said.contains("3 runs, 3 done already"), "{said}");
    }
}

#[test]
fn nul_is_a_character_of_a_file_and_the_mark_of_what_is_no_text_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder, "a\0b\0c \0".repeat(100));
    let said = trained(&lab, "text.txt", ALL);
    assert!(said.contains("300 characters are NUL"), "{said}");
    fs::create_dir(lab.path.join("texts")).unwrap();
    fs::copy(lab.path.join("text.txt"), lab.path.join("texts/nul.bin")).unwrap();
    let (code, said) = lab.run(&format!("{SPEC}path: texts\n"));
    assert!(code == Some(3) && said.contains("the folder has no text, only binary files (1)"), "{said}");
    fs::write(lab.path.join("texts/plain.txt"), "to be or not to be\n".repeat(40)).unwrap();
    let said = trained(&lab, "texts", "");
    assert!(said.contains("passed over as binary: ") && said.contains("nul.bin"), "{said}");
}

#[test]
fn no_text_at_all_is_said_where_the_spec_names_it() {
    for (text, why) in [("", "there is no text in it"), ("\u{feff}", "there is no text in it"), ("x", "has 0 tokens")] {
        let folder = tempfile::tempdir().unwrap();
        let lab = lab(&folder, text);
        for tokenizer in ["char", "byte", "gpt2"] {
            let (code, said) = lab.run(&format!("{SPEC}tokenizer: {tokenizer}\npath: text.txt\n"));
            assert_eq!(code, Some(3), "{said}");
            assert!(said.contains(why) && said.contains("\n  | "), "{said}");
        }
    }
}

#[test]
fn a_window_and_the_token_after_it_are_enough_for_each_split_and_one_token_less_is_not() {
    for (tokenizers, unit) in [("[char, byte]", "x"), ("[gpt2]", " x")] {
        let more = format!("val_fraction: 0.5\ngrid: {{tokenizer: {tokenizers}}}");
        let folder = tempfile::tempdir().unwrap();
        trained(&lab(&folder, unit.repeat(34)), "text.txt", &more);
        let folder = tempfile::tempdir().unwrap();
        let (code, said) = lab(&folder, unit.repeat(33)).run(&format!("{SPEC}{more}\npath: text.txt\n"));
        let why = "has 16 tokens; a context of 16 needs at least 17";
        assert!(code == Some(3) && said.contains(why) && said.contains("a context of at most 15"), "{said}");
    }
}

#[test]
fn characters_that_only_the_validation_split_has_are_said_and_not_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder, "to be or not to be\n".repeat(50) + &"naïve 春\n".repeat(5));
    let said = trained(&lab, "text.txt", ALL);
    let note = "characters occur only in the validation split: 'a', 'v', 'ï', '春'";
    assert!(said.contains(note) && said.matches("occur only").count() == 1, "{said}");
}

#[test]
fn one_line_of_megabytes_is_a_text_like_others() {
    for unit in ["to be or not to be ", "a", "春眠不覺曉"] {
        let folder = tempfile::tempdir().unwrap();
        trained(&lab(&folder, unit.repeat(3_000_000 / unit.len())), "text.txt", ALL);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_word_of_megabytes_takes_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(&folder, "a".repeat(24_000_000));
    fs::write(lab.path.join("spec.yaml"), format!("{SPEC}path: text.txt\n")).unwrap();
    let spec = lab.path.join("spec.yaml").display().to_string();
    for tokenizer in ["char", "byte", "gpt2"] {
        let plan = lab.exp(&["plan", &spec, "--set", &format!("tokenizer={tokenizer}")]);
        // Of address space, of which each thread takes some.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 1000000 && exec \"$0\" \"$@\""]).arg(plan.get_program()).args(plan.get_args());
        let output = command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "2").output().unwrap();
        let (code, said) = answer(output);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{tokenizer}");
    }
}
