//! `exp data prepare` against tiktoken's `encode_ordinary`, with GPT-2's tokens, on the same files:
//! `cargo bench --bench vs_tiktoken [-- FILE …]`; without a file, on 32 MB of the built-in corpus.
//!
//! tiktoken is optional and stays out of the project; one command installs it, and without it this bench only says so:
//!
//! ```text
//! python3 -m venv target/torch && target/torch/bin/pip install tiktoken
//! ```
//!
//! The two take turns, first one then the other going first, on as many cores as they have threads. Of tiktoken only the
//! encoding counts, of a text that is in memory, whole in one thread and in parts of 64 KiB in two
//! (`encode_ordinary_batch`); of `exp` the whole command, from its start over reading and writing to its end. Tokens are
//! compared. Where other processes use the cores meanwhile, nothing is reported.

#[path = "../vs_torch/load.rs"]
mod load;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::Instant,
};

use exp::data::corpus;
use exp::spec::config::DataConfig;
use load::Load;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Turns of each side, beside one to warm up.
const PAIRS: usize = 5;

/// Cores that other processes may use before nothing is reported.
const BUSY: f64 = 0.08;

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).filter(|a| a != "--bench").map(PathBuf::from).collect();
    let python = python();
    if !Command::new(&python).args(["-c", "import tiktoken"]).status().is_ok_and(|status| status.success()) {
        println!("vs_tiktoken: no tiktoken for {}; to compare with it, install it once:", python.display());
        println!("  python3 -m venv target/torch && target/torch/bin/pip install tiktoken");
        return ExitCode::SUCCESS;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let ranks = dir.path().join("ranks");
    fs::write(&ranks, tokens_in_hex()).expect("a file");
    let files = if files.is_empty() { vec![built_in(dir.path())] } else { files };
    println!("{:24} {:>7} {:>14} {:>9} {:>6}", "file", "threads", "tiktoken MB/s", "exp MB/s", "times");
    let all = files.iter().flat_map(|file| [1, 2].map(|threads| (file, threads)));
    let refused = all.filter(|(file, threads)| !compare(&python, &ranks, file, *threads, dir.path())).count();
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The Python that has tiktoken: `EXP_TORCH_PYTHON`, or that of the documented command.
fn python() -> PathBuf {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/torch/bin/python"));
    std::env::var_os("EXP_TORCH_PYTHON").map_or(installed, PathBuf::from)
}

/// What no text becomes is left out.
fn tokens_in_hex() -> String {
    let bpe = tiktoken_rs::r50k_base_singleton();
    let hex =
        |id: u32| bpe.decode_bytes(&[id]).expect("a token").iter().map(|b| format!("{b:02x}")).collect::<String>();
    (0..50_256).map(|id| hex(id) + "\n").collect()
}

fn built_in(folder: &Path) -> PathBuf {
    let config = DataConfig { corpus_chars: 32_000_000, ..DataConfig::default() };
    let text = corpus::of(&config).and_then(|corpus| corpus.read()).expect("the corpus");
    let path = folder.join("playbook");
    fs::write(&path, text.text).expect("a file");
    path
}

/// Compares the sides on one file; false where the machine was busy.
fn compare(python: &Path, ranks: &Path, file: &Path, threads: usize, dir: &Path) -> bool {
    let all = sched_getaffinity(None).expect("the cores");
    let mut some = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).take(threads).for_each(|cpu| some.set(cpu));
    sched_setaffinity(None, &some).expect("cores"); // what is started from here on has no others

    let megabytes = fs::metadata(file).expect("a file").len() as f64 / 1e6;
    let (out, theirs) = (dir.join("out"), dir.join("theirs.bin"));
    let mut tiktoken = Tiktoken::start(python, &[ranks, file, threads.to_string().as_ref(), &theirs]);
    tiktoken.turn("write");
    tiktoken.line();
    exp(file, threads, &out);
    let ours = ["train.bin", "val.bin"].map(|name| fs::read(out.join(name)).expect("tokens")).concat();
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    assert!(ours == fs::read(&theirs).expect("tokens"), "the tokens of {name} differ");

    let (mut times, mut busiest) = ([Vec::new(), Vec::new()], 0.0f64);
    for pair in 0..PAIRS {
        for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            let load = Load::begin(vec![tiktoken.child.id()]);
            let time = if side == 0 { tiktoken.turn("") } else { exp(file, threads, &out) };
            busiest = busiest.max(load.cores_of_others());
            times[side].push(time);
        }
    }
    sched_setaffinity(None, &all).expect("cores");
    if busiest > BUSY {
        println!("{name:24} {threads:7} not reported: other processes used {busiest:.2} cores meanwhile");
        return false;
    }
    let [theirs, ours] = times.map(|times| megabytes / median(times));
    println!("{name:24} {threads:7} {theirs:14.1} {ours:9.1} {:6.1}", ours / theirs);
    true
}

/// Seconds of the whole command.
fn exp(file: &Path, threads: usize, out: &Path) -> f64 {
    let _ = fs::remove_dir_all(out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_exp"));
    command.args(["data", "prepare", "--tokenizer", "gpt2", "--threads", &threads.to_string(), "--out"]);
    command.arg(out).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    assert!(command.status().expect("a process").success());
    begun.elapsed().as_secs_f64()
}

/// A process that encodes when told to.
struct Tiktoken {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Tiktoken {
    fn start(python: &Path, args: &[&Path]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/vs_tiktoken/encode.py");
        let mut command = Command::new(python);
        let mut child =
            command.arg(script).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let (stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, stdin, stdout: BufReader::new(stdout) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("an answer");
        line.trim().to_owned()
    }

    /// Seconds of a turn.
    fn turn(&mut self, what: &str) -> f64 {
        writeln!(self.stdin, "{what}").expect("a process that listens");
        self.line().parse().expect("a number")
    }
}

impl Drop for Tiktoken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    x[x.len() / 2]
}
