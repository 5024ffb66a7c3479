//! `exp`'s training step against PyTorch's, in eager mode, on the same models: `cargo bench --bench vs_torch [-- A B …]`;
//! and how it writes against `generate` of Hugging Face's transformers, both with a cache (`decode-…`).
//!
//! They are optional and stay out of the project; one command installs them, and without them this bench only says so:
//!
//! ```text
//! python3 -m venv target/torch && target/torch/bin/pip install torch numpy transformers
//! ```
//!
//! Each side is a process of its own that trains or writes when told to. They take turns within seconds of each other, first one
//! then the other going first; a turn's time is the median of its steps, the ratio that of the medians over all pairs.
//! Everything in a step counts: sampling, forward, backward, clipping, AdamW. Where other processes use the cores
//! meanwhile, nothing is reported: they slow the two sides down by different amounts.

mod load;
mod peak;
mod side;
mod worker;

use std::{path::PathBuf, process::ExitCode};

use load::Load;
use side::Side;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Task {
    /// A step of training.
    Train,
    /// A token of a text.
    Decode,
}

/// One model and batch, and what is done with it.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub task: Task,
    pub vocab: usize,
    pub layers: usize,
    pub heads: usize,
    pub d_model: usize,
    pub context: usize,
    pub batch: usize,
    pub dropout: f64,
    /// Threads of each process.
    pub threads: usize,
    /// Processes of each side, side by side.
    pub copies: usize,
    /// Steps, or tokens, of one turn.
    pub steps: usize,
}

/// Characters of a small corpus.
pub const VOCAB: usize = 65;

/// Turns of each side, beside one to warm up.
const PAIRS: usize = 7;

/// Cores that other processes may use before nothing is reported.
const BUSY: f64 = 0.08;

fn cases() -> Vec<Case> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let case = |name, [layers, heads, d_model, context, batch]: [usize; 5], steps| Case {
        name,
        task: Task::Train,
        vocab: VOCAB,
        layers,
        heads,
        d_model,
        context,
        batch,
        dropout: 0.0,
        threads: cores,
        copies: 1,
        steps,
    };
    let b = case("B", [4, 4, 128, 256, 64], 3);
    vec![
        case("A", [4, 4, 128, 64, 12], 40),
        b.clone(),
        case("C", [6, 6, 384, 256, 8], 3),
        case("D", [12, 12, 768, 256, 2], 2),
        Case { name: "B-dropout", dropout: 0.2, ..b.clone() },
        Case { name: "B-x2", threads: 1, copies: 2, ..b },
        // Of many texts a turn: the load of others is counted in hundredths of a second.
        Case { task: Task::Decode, ..case("decode-4-128", [4, 4, 128, 256, 1], 4000) },
        Case { task: Task::Decode, vocab: 50_257, ..case("decode-12-768", [12, 12, 768, 1024, 1], 30) },
    ]
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [command, name, threads] = &args[..]
        && command == "worker"
    {
        let case = cases().into_iter().find(|c| c.name == name).expect("a case");
        worker::run(&case, threads.parse().expect("a number of threads"));
        return ExitCode::SUCCESS;
    }
    let python = python();
    if !python.exists() {
        println!("vs_torch: no {}; to compare with PyTorch, install it once:", python.display());
        println!("  python3 -m venv target/torch && target/torch/bin/pip install torch numpy transformers");
        return ExitCode::SUCCESS;
    }
    println!(
        "{:13} {:>9} {:>9} {:>6} {:>17} {:>9} {:>9} {:>6} {:>8} {:>6}",
        "case", "torch ms", "exp ms", "ratio", "ratios of pairs", "torch MiB", "exp MiB", "ratio", "GFLOP/s", "peak"
    );
    let chosen: Vec<Case> =
        cases().into_iter().filter(|c| args.is_empty() || args.iter().any(|a| a == c.name)).collect();
    let refused = chosen.iter().filter(|case| !compare(case, &python)).count();
    if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The Python that has PyTorch: `EXP_TORCH_PYTHON`, or that of the documented command.
fn python() -> PathBuf {
    let installed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/torch/bin/python"));
    std::env::var_os("EXP_TORCH_PYTHON").map_or(installed, PathBuf::from)
}

/// Compares the sides on one case; false where the machine was busy.
fn compare(case: &Case, python: &std::path::Path) -> bool {
    let (mut torch, mut exp) = (Side::torch(case, python), Side::exp(case));
    torch.turn(1);
    exp.turn(1);
    let (mut times, mut peaks, mut busiest) = ([Vec::new(), Vec::new()], Vec::new(), 0.0f64);
    for pair in 0..PAIRS {
        for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            // Threads of a pool spin for a while after their last task; the other side's must not count.
            std::thread::sleep(std::time::Duration::from_millis(400));
            let turn = if side == 0 { &mut torch } else { &mut exp };
            let load = Load::begin(turn.pids());
            times[side].push(turn.turn(case.steps));
            busiest = busiest.max(load.cores_of_others());
        }
        peaks.push(peak::gflops(case.threads * case.copies));
    }
    if busiest > BUSY {
        println!("{:13} not reported: other processes used {busiest:.2} cores meanwhile", case.name);
        return false;
    }
    let ratios: Vec<f64> = times[1].iter().zip(&times[0]).map(|(e, t)| e / t).collect();
    let (least, most) = (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let [torch_ms, exp_ms] = times.map(median);
    let [torch_mib, exp_mib] = [torch.finish(), exp.finish()];
    let digits = if case.task == Task::Train { 1 } else { 3 };
    let gflops = operations(case) * case.copies as f64 / exp_ms / 1e6;
    println!(
        "{:13} {torch_ms:9.digits$} {exp_ms:9.digits$} {:6.3} {:>17} {torch_mib:9.0} {exp_mib:9.0} {:6.3} {gflops:8.0} {:6.2}",
        case.name,
        exp_ms / torch_ms,
        format!("{least:.3} to {most:.3}"),
        exp_mib / torch_mib,
        gflops / median(peaks),
    );
    true
}

/// Floating-point operations that a step needs: six for each weight and token, and the products of attention up to the
/// diagonal. A token that is written needs two for each weight.
fn operations(case: &Case) -> f64 {
    let cost = exp::cost::Cost::of(&worker::config(case), case.vocab);
    if case.task == Task::Decode {
        return 2.0 * cost.params_without_positions as f64;
    }
    let tokens = (case.batch * case.context) as f64;
    let attention = (case.layers * case.d_model * (case.context + 1)) as f64;
    tokens * 6.0 * (cost.params_without_positions as f64 + attention)
}

/// The middle one, or the mean of the two.
fn median(mut x: Vec<f64>) -> f64 {
    x.sort_by(f64::total_cmp);
    (x[(x.len() - 1) / 2] + x[x.len() / 2]) / 2.0
}
