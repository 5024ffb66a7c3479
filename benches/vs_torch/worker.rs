//! One side of the comparison: trains with `exp`'s engine on demand. Each line on standard input, a number of steps, is
//! answered by a line with the milliseconds of each; the last line of all is the peak resident memory in KiB.

use std::{io::BufRead, time::Instant};

use exp::{
    base::rng,
    engine::{Batch, Place, Update},
    spec::RunConfig,
};

use crate::{Case, VOCAB};

/// Trains until standard input ends.
pub fn run(case: &Case, threads: usize) {
    let config = config(case);
    let mut engine = exp::engine::build(&config, VOCAB, "cpu", threads).expect("an engine");
    let text = text(VOCAB);
    let mut rng = rng::stream(1, "vs_torch");
    let mut batch = Batch::zeros(case.batch, case.context);
    let mut step = 0;
    for line in std::io::stdin().lock().lines() {
        let Ok(steps) = line.expect("a line").trim().parse::<u64>() else { break };
        let mut times = Vec::new();
        for _ in 0..steps {
            let start = Instant::now();
            step += 1;
            for b in 0..case.batch {
                let first = rng::below(&mut rng, (text.len() - case.context - 1) as u64) as usize;
                let window = b * case.context..(b + 1) * case.context;
                batch.x[window.clone()].copy_from_slice(&text[first..first + case.context]);
                batch.y[window].copy_from_slice(&text[first + 1..first + 1 + case.context]);
            }
            let loss = engine.accumulate(&batch, Place { step, micro: 0 }, 1).expect("a gradient");
            let norm = engine.update(&config.train, Update { step, lr: 1e-3 }).expect("an update");
            assert!(loss.is_finite() && norm.is_finite());
            times.push(format!("{:.3}", start.elapsed().as_secs_f64() * 1e3));
        }
        println!("{}", times.join(" "));
    }
    println!("{}", peak_kib());
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
