//! What the tests of engines share: the engines that there are, and small configs.

#![allow(dead_code)] // each test binary uses a part of it

use exp::{
    base::rng,
    engine::{Batch, Engine, cpu::Cpu, tape::Tape},
    spec::RunConfig,
};

/// How an engine is made for a config and a vocabulary.
pub type Make = fn(&RunConfig, usize) -> Box<dyn Engine>;

/// Every engine there is. All that is tested here holds for each.
pub const ENGINES: &[(&str, Make)] = &[
    ("tape", |config, vocab| Box::new(Tape::new(config, vocab, "cpu").unwrap())),
    ("cpu", |config, vocab| Box::new(Cpu::new(config, vocab, 2).unwrap())),
];

/// Runs `check` with the constructor of every engine.
pub fn for_each_engine(check: impl Fn(Make)) {
    for (name, make) in ENGINES {
        println!("engine {name}");
        check(*make);
    }
}

/// A model of `layers`, `heads`, `d_model` and `context`; all else is the default.
pub fn config(layers: usize, heads: usize, d_model: usize, context: usize) -> RunConfig {
    let mut config = RunConfig::default();
    let m = &mut config.model;
    (m.layers, m.heads, m.kv_heads) = (layers, heads, heads);
    (m.d_model, m.d_ff, m.context) = (d_model, 4 * d_model, context);
    config
}

/// The switches of a small model in all their combinations, each with its name.
pub fn switches() -> Vec<(String, RunConfig)> {
    let mut all = Vec::new();
    for bias in [true, false] {
        for tie_embeddings in [true, false] {
            for kv_heads in [4, 2, 1] {
                for dropout in [0.0, 0.2] {
                    let mut c = config(2, 4, 16, 8);
                    (c.model.bias, c.model.tie_embeddings) = (bias, tie_embeddings);
                    (c.model.kv_heads, c.model.dropout) = (kv_heads, dropout);
                    all.push((
                        format!("bias {bias}, tied {tie_embeddings}, kv_heads {kv_heads}, dropout {dropout}"),
                        c,
                    ));
                }
            }
        }
    }
    all
}

/// `batch` windows of `context` random tokens of `vocab`.
pub fn random_batch(seed: u64, batch: usize, context: usize, vocab: usize) -> Batch {
    let mut rng = rng::stream(seed, "test/tokens");
    let mut draw = || (0..batch * context).map(|_| rng::below(&mut rng, vocab as u64) as u32).collect();
    Batch { x: draw(), y: draw(), batch, context }
}

/// √Σx².
pub fn norm(x: &[f32]) -> f64 {
    x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}
