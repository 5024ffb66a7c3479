//! Work that is stopped, killed, done twice, or done by two at once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread::sleep,
    time::{Duration, Instant},
};

use exp::base::rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Lab, gzip, lines, said, text, zstd};

/// Texts of all kinds, of some twenty pieces.
fn texts() -> Lab {
    let lab = Lab::new();
    lab.write("texts/a", text(1, 6_000_000));
    lab.write("texts/b.jsonl.gz", gzip(lines(&[&text(2, 2_500_000), &text(3, 300), &text(4, 2_500_000)]).as_bytes()));
    lab.write("texts/c", zstd(text(5, 4_000_000).as_bytes()));
    lab.write("texts/d", [gzip(text(6, 1_000_000).as_bytes()), gzip(text(7, 2_000_000).as_bytes())].concat());
    lab.write("texts/e", "the end");
    lab
}

fn state(lab: &Lab, out: &str) -> Option<String> {
    fs::read_to_string(lab.path(out).join(".aside-prepare/state.json")).ok()
}

/// Looks until there is something; `None` where the process ends before.
fn until<T>(child: &mut Child, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited too long");
        sleep(Duration::from_micros(300));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn kills_at_any_time_change_no_byte() {
    let lab = texts();
    for (tokenizer, separator) in [("char", "newline"), ("byte", "none")] {
        let words = |out: &str| {
            format!(
                "texts --out {out} --field text --tokenizer {tokenizer} --separator {separator} --threads 2 --save-every 0"
            )
        };
        let (straight, killed) = (format!("{tokenizer}-straight"), format!("{tokenizer}-killed"));
        let report = lab.report(&words(&straight));

        let mut rng = rng::stream(9, "test/prepare/kills");
        let (mut kills, mut splits) = (0, 0);
        loop {
            let before = state(&lab, &killed);
            let mut child = lab.command(&words(&killed)).spawn().unwrap();
            // Once it has got on, so that it comes to an end; some moments later, so that it dies anywhere.
            let is_new = || state(&lab, &killed).filter(|now| Some(now) != before.as_ref() || splits > 0);
            let Some(now) = until(&mut child, is_new) else {
                said(child.wait_with_output().unwrap(), &killed, 0);
                break;
            };
            sleep(Duration::from_micros(rng::below(&mut rng, if splits > 0 { 30_000 } else { 4000 })));
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            splits += u32::from(now.contains("\"split\""));
            if splits > 12 {
                break;
            }
        }
        assert!(kills > 8, "{kills} kills");
        let again = lab.report(&words(&killed));
        assert!(lab.tokens(&killed) == lab.tokens(&straight), "{tokenizer}: {kills} kills");
        assert_eq!(lab.meta(&killed), lab.meta(&straight));
        for key in ["documents", "text_bytes", "train_chars", "val_chars", "train_tokens"] {
            assert_eq!(again[key], report[key], "{key}");
        }
        assert_eq!(lab.names(&killed), [".lock", "meta.json", "prepared.json", "train.bin", "val.bin"]);
    }
}

#[test]
fn who_is_asked_to_stop_does_and_the_same_command_goes_on() {
    let lab = texts();
    let words = |out: &str| format!("texts --out {out} --field text --tokenizer gpt2 --threads 1 --save-every 0");
    lab.prepare(&words("straight"), 0);
    for stop in [Signal::INT, Signal::TERM] {
        // On a machine that is busy elsewhere it may be done before it is asked.
        let interrupted = (0..20).map(|n| format!("{stop:?}-{n}")).find(|out| {
            let mut child = lab.command(&words(out)).spawn().unwrap();
            until(&mut child, || state(&lab, out)).expect("it is at work");
            signal(&child, stop);
            let ended = child.wait_with_output().unwrap();
            let is_done = ended.status.code() == Some(0);
            if !is_done {
                let said = said(ended, out, 130);
                assert!(said.contains("the same command goes on from there"), "{said}");
            }
            !is_done
        });
        let out = interrupted.expect("it stops when it is asked");
        assert!(lab.names(&out) == [".aside-prepare", ".lock"], "{:?}", lab.names(&out));
        let said = lab.prepare(&words(&out), 0);
        assert!(said.contains("going on where it was interrupted, at "), "{said}");
        assert!(lab.tokens(&out) == lab.tokens("straight"));
    }
}

/// Begins and stops in the middle.
fn interrupted(lab: &Lab, words: &str) {
    let mut child = lab.command(&format!("{words} --save-every 0")).spawn().unwrap();
    until(&mut child, || state(lab, "out")).expect("it is at work");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_changed_meanwhile_is_begun_anew_and_said() {
    let lab = Lab::new();
    lab.write("a", text(1, 24_000_000));
    lab.write("b", "the end");
    interrupted(&lab, "a b --out out --tokenizer byte");
    lab.write("a", text(2, 16_000_000));
    let said = lab.prepare("a b --out out --tokenizer byte", 0);
    assert!(said.contains("begun anew: ") && said.contains("/a has changed"), "{said}");

    for (words, wanted) in [
        ("a b --tokenizer gpt2", "the tokenizer is another"),
        ("a b --tokenizer byte --val-fraction 0.2", "the share that validates is another"),
        ("a b --tokenizer byte --separator none", "what separates documents is another"),
        ("a --tokenizer byte", "the files to read are others"),
    ] {
        let said = lab.prepare(&format!("{words} --out out"), 2);
        assert!(said.contains(wanted) && said.contains("--force"), "{words}: {said}");
    }

    // Made of the same, it is left as it is; of what is there, nothing is lost before the new is whole.
    let before = fs::metadata(lab.path("out/train.bin")).unwrap().modified().unwrap();
    let said = lab.prepare("a b --out out --tokenizer byte", 0);
    assert!(said.contains("holds these tokens already"), "{said}");
    assert_eq!(lab.report("a b --out out --tokenizer byte")["was_done"], true);
    assert_eq!(fs::metadata(lab.path("out/train.bin")).unwrap().modified().unwrap(), before);
    let old = lab.tokens("out");
    interrupted(&lab, "a b --out out --tokenizer byte --val-fraction 0.2 --force");
    assert!(lab.tokens("out") == old && lab.path("out/meta.json").exists());
    lab.prepare("a b --out out --tokenizer byte --val-fraction 0.2 --force", 0);
    assert!(lab.tokens("out")[1].len() > old[1].len() && lab.tokens("out").concat() == old.concat());
}

#[test]
fn what_cannot_be_read_is_not_taken_for_what_is_not_there() {
    let lab = Lab::new();
    lab.write("a", text(1, 24_000_000));
    let words = "a --out out --tokenizer byte";
    interrupted(&lab, words);
    let aside = lab.path("out/.aside-prepare");
    let size = || fs::metadata(aside.join("tokens.bin")).unwrap().len();
    let (known, tokens) = (state(&lab, "out").unwrap(), size());
    for name in ["job.json", "state.json"] {
        let path = aside.join(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, "{\"format\": ").unwrap();
        let said = lab.prepare(words, 5);
        assert!(said.contains(&format!("{name}: EOF")) && said.contains("--force begins anew"), "{said}");
        // Nobody, root included, reads a folder as a file.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        for force in ["", " --force"] {
            let said = lab.prepare(&format!("{words}{force}"), 5);
            assert!(said.contains(&format!("{name}: Is a directory")) && said.contains("is kept"), "{said}");
        }
        fs::remove_dir(&path).unwrap();
        fs::write(&path, before).unwrap();
        assert_eq!(size(), tokens);
    }
    fs::write(aside.join("tokens.bin"), "").unwrap();
    let far = known.replacen("\"tokens\": 0,", "\"tokens\": 1,", 1);
    fs::write(aside.join("state.json"), far).unwrap();
    let said = lab.prepare(words, 5);
    assert!(said.contains("state.json: it tells of ") && said.contains("--force begins anew"), "{said}");
    let said = lab.prepare(&format!("{words} --force"), 0);
    assert!(said.contains("begun anew: ") && said.contains("state.json: it tells of "), "{said}");

    lab.write("out/prepared.json", "{}");
    let said = lab.prepare(words, 5);
    assert!(said.contains("prepared.json: missing field") && said.contains("--force"), "{said}");
    lab.prepare(&format!("{words} --force"), 0);
    fs::write(lab.path("out/val.bin"), "short").unwrap();
    let said = lab.prepare(words, 2);
    assert!(said.contains("not as long as it was made") && said.contains("--force"), "{said}");
}

#[test]
fn what_was_begun_over_a_whole_folder_is_kept_when_that_is_asked_for_again() {
    let lab = Lab::new();
    lab.write("a", text(1, 24_000_000));
    let (first, second) = ("a --out out --tokenizer byte", "a --out out --tokenizer byte --val-fraction 0.2 --force");
    lab.prepare(first, 0);
    interrupted(&lab, second);
    let begun = state(&lab, "out");
    let said = lab.prepare(first, 0);
    assert!(said.contains("holds these tokens already") && said.contains("it is kept"), "{said}");
    assert!(said.contains("the share that validates is another"), "{said}");
    assert_eq!(state(&lab, "out"), begun);
    let said = lab.prepare(second, 0);
    assert!(said.contains("going on where it was interrupted"), "{said}");
    assert!(!lab.path("out/.aside-prepare").exists());
}

#[test]
fn of_two_at_once_one_works_and_the_other_waits_and_says_so() {
    let lab = texts();
    let words = "texts --out out --field text --tokenizer gpt2 --threads 1 --save-every 0";
    let mut first = lab.command(words).spawn().unwrap();
    until(&mut first, || state(&lab, "out")).expect("it is at work");
    signal(&first, Signal::STOP);
    let mut second = lab.command(words);
    let log = lab.path("second.log");
    let mut second = second.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
    let is_said = || fs::read_to_string(&log).ok().filter(|said| said.contains("waiting for process"));
    let line = until(&mut second, is_said).expect("it waits");
    assert!(line.contains(&format!("process {}", first.id())) && line.contains("prepares tokens"), "{line}");
    signal(&first, Signal::CONT);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!(second.wait().unwrap().code(), Some(0));
    let line = fs::read_to_string(&log).unwrap();
    assert!(line.contains("holds these tokens already"), "{line}");
}

/// A small file system in memory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(path).unwrap();
        let options = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then(|| Self(path.into()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_what_is_there() {
    let lab = Lab::new();
    let Some(_disk) = Disk::mount(&lab.path("disk"), 14) else {
        println!("skipped: needs root");
        return;
    };
    lab.write("text", text(1, 5_000_000));
    lab.write("disk/filler", vec![0; 6 << 20]);
    let words = "text --out disk/out --tokenizer byte --save-every 0";
    let said = lab.prepare(words, 5);
    assert!(said.contains("writing disk/out") && said.contains("No space left on device"), "{said}");
    fs::remove_file(lab.path("disk/filler")).unwrap();
    let said = lab.prepare(words, 0);
    assert!(said.contains("going on where it was interrupted, at "), "{said}");
    lab.prepare("text --out straight --tokenizer byte", 0);
    assert!(lab.tokens("disk/out") == lab.tokens("straight"));
}
