//! One side of the comparison: trains with `exp`'s engine, or writes with its decoder, on demand. Each line on standard
//! input, a number of steps or tokens, is answered by a line with the milliseconds of each; the last line of all is the
//! peak resident memory in KiB.

use std::{io::BufRead, time::Instant};

use exp::{
    base::rng,
    engine::{Batch, Place, Update},
    model::{self, Layout},
    spec::RunConfig,
    train::generate::{self, Sampling, Writer},
};

use crate::{Case, Task};

/// Works until standard input ends.
pub fn run(case: &Case, threads: usize) {
    let mut turn = match case.task {
        Task::Train => train(case, threads),
        Task::Decode => decode(case, threads),
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(steps) = line.expect("a line").trim().parse::<u64>() else { break };
        let times: Vec<String> = turn(steps).iter().map(|ms| format!("{ms:.4}")).collect();
        println!("{}", times.join(" "));
    }
    println!("{}", peak_kib());
}

/// Does so many steps and tells the milliseconds of each.
type Turn = Box<dyn FnMut(u64) -> Vec<f64>>;

fn train(case: &Case, threads: usize) -> Turn {
    let config = config(case);
    let mut engine = exp::engine::build(&config, case.vocab, "cpu", threads).expect("an engine");
    let text = text(case.vocab);
    let mut rng = rng::stream(1, "vs_torch");
    let (context, mut batch) = (case.context, Batch::zeros(case.batch, case.context));
    let mut step = 0;
    let mut one = move || {
        let start = Instant::now();
        step += 1;
        for b in 0..batch.batch {
            let first = rng::below(&mut rng, (text.len() - context - 1) as u64) as usize;
            let window = b * context..(b + 1) * context;
            batch.x[window.clone()].copy_from_slice(&text[first..first + context]);
            batch.y[window].copy_from_slice(&text[first + 1..first + 1 + context]);
        }
        let loss = engine.accumulate(&batch, Place { step, micro: 0 }, 1).expect("a gradient");
        let norm = engine.update(&config.train, Update { step, lr: 1e-3 }).expect("an update");
        assert!(loss.is_finite() && norm.is_finite());
        start.elapsed().as_secs_f64() * 1e3
    };
    Box::new(move |steps| (0..steps).map(|_| one()).collect())
}

/// Tokens of one text, as on the other side.
const TEXT: usize = 200;

/// All of a text counts, its prompt of eight tokens too, as on the other side.
fn decode(case: &Case, threads: usize) -> Turn {
    let config = config(case);
    let layout = Layout::of(&config.model, case.vocab);
    let weights = model::init(&layout, case.layers, 1);
    let mut writer = Writer::new(&config.model, case.vocab, &weights, case.context, threads).expect("a writer");
    Box::new(move |tokens| {
        let (mut rng, start) = (generate::stream(1, 0), Instant::now());
        let mut left = tokens as usize;
        while left > 0 {
            let now = left.min(TEXT);
            writer.forget();
            writer.begin(&[0, 1, 2, 3, 4, 5, 6, 7]).expect("a prompt");
            for _ in 0..now {
                writer.next(&Sampling::default(), &mut rng).expect("a token");
            }
            left -= now;
        }
        vec![start.elapsed().as_secs_f64() * 1e3 / tokens as f64]
    })
}

/// The run that a case stands for.
pub fn config(case: &Case) -> RunConfig {
    let mut config = RunConfig::default();
    let m = &mut config.model;
    (m.layers, m.heads, m.kv_heads, m.d_model) = (case.layers, case.heads, case.heads, case.d_model);
    (m.d_ff, m.context, m.dropout) = (4 * case.d_model, case.context, case.dropout);
    config.train.batch = case.batch;
    config
}

/// Tokens with some structure, so that the loss falls.
fn text(vocab: usize) -> Vec<u32> {
    let mut rng = rng::stream(1, "text");
    let mut token = 0;
    (0..100_000)
        .map(|_| {
            token = (token * 7 + 3 + rng::below(&mut rng, 4)) % vocab as u64;
            token as u32
        })
        .collect()
}

/// The most memory that this process has had resident, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
