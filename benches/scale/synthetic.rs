//! Roots full of runs that nobody trained: the folders that workers would have left.

use std::{fmt::Write as _, fs, path::Path};

use exp::{
    base::{RunId, folders::Root},
    event::{Checkpointed, Eval, Event, Expansion, FileRef, Outcome, Ready, Started, Step},
    spec::{
        RunConfig,
        identity::{FORMAT, FrozenRun, run_id},
    },
};

/// The experiment that all of the runs belong to.
pub const EXPERIMENT: &str = "big";

/// Metrics of a step.
pub const METRICS: u64 = 7;

/// Writes `runs` runs of `steps` steps each, evaluated and saved ten times. `spike` is a step whose loss is far off.
pub fn write(root: &Root, runs: usize, steps: u64, spike: Option<u64>) {
    let mut members = Vec::new();
    for n in 0..runs {
        let frozen = frozen(n, steps);
        members.push(frozen.id);
        let folder = root.run(&frozen.id);
        fs::create_dir_all(folder.attempt(1)).expect("a folder");
        write_json(&folder.config(), &frozen);
        fs::write(folder.events(1), events(&frozen, steps, spike)).expect("a file");
    }
    let axes = vec!["model.layers".into(), "train.lr".into(), "train.seed".into()];
    let expansion = Expansion { at: 1, axes, members, spec: String::new() };
    let journal = root.experiment_journal(EXPERIMENT);
    fs::create_dir_all(journal.parent().expect("a folder")).expect("a folder");
    fs::write(journal, serde_json::to_string(&expansion).expect("JSON") + "\n").expect("a file");
}

/// One of three depths, then one of four seeds, then another learning rate.
pub fn frozen(n: usize, steps: u64) -> FrozenRun {
    let mut config = RunConfig::default();
    config.run.device = "cpu".into();
    (config.model.layers, config.train.seed) = ([2, 4, 8][n % 3], (n / 3 % 4) as u64 + 1);
    config.train.lr = 1e-3 * (1.0 + (n / 12) as f64);
    config.train.min_lr = config.train.lr / 10.0;
    config.train.steps = steps;
    (config.train.decay_steps, config.train.warmup_steps) = (steps, 100.min(steps / 10));
    let corpus_hash = "0".repeat(64);
    FrozenRun { format: FORMAT, id: id(&config, &corpus_hash), corpus_hash, vocab_size: 65, config, imported: None }
}

fn id(config: &RunConfig, corpus_hash: &str) -> RunId {
    run_id(config, Some(corpus_hash))
}

fn events(frozen: &FrozenRun, steps: u64, spike: Option<u64>) -> String {
    let mut text = String::new();
    let mut add = |event: Event| writeln!(text, "{}", serde_json::to_string(&event).expect("JSON")).expect("memory");
    let (device, host) = ("cpu".into(), "host".into());
    add(Event::Started(Started { at: 1, attempt: 1, device, host, threads: 1, ..Started::default() }));
    let (engine, processor) = ("cpu".into(), "a processor".into());
    let corpus_hash = frozen.corpus_hash.clone();
    add(Event::Ready(Ready {
        engine,
        processor,
        params: 800_000,
        vocab_size: 65,
        corpus_hash,
        chars_per_token: 1.0,
        flops_per_token: 5e6,
        ..Ready::default()
    }));
    let floor = 1.5 + 0.3 / frozen.config.model.layers as f64;
    for step in 0..=steps {
        let noise = (step.wrapping_mul(2_654_435_761) % 1000) as f64 / 1e4;
        let loss = floor + 2.5 * (-4.0 * step as f64 / steps as f64).exp() + noise;
        let loss = if spike == Some(step) { 50.0 } else { loss };
        if step > 0 {
            add(Event::Step(Step {
                step,
                loss,
                lr: 1e-3,
                grad_norm: 1.0 + noise,
                step_ms: 10.0 + noise,
                data_ms: 0.1,
                tokens_per_second: 76_800.0 - noise,
                mfu: None,
                memory_bytes: 50_000_000,
            }));
        }
        if step.is_multiple_of(steps.div_ceil(10).max(1)) {
            let bits_per_char = loss / std::f64::consts::LN_2;
            add(Event::Eval(Eval { step, train_loss: loss, val_loss: loss + 0.05, bits_per_char, eval_ms: 20.0 }));
            let files = ["model.safetensors", "optimizer.safetensors", "state.json"];
            let files = files.map(|name| FileRef::of(name, name.as_bytes())).to_vec();
            let folder = format!("checkpoints/step-{step}.attempt-1");
            add(Event::Checkpointed(Checkpointed { step, folder, files, ..Checkpointed::default() }));
        }
    }
    add(Event::Finished { at: 2, outcome: Outcome::Done, peak_bytes: None });
    text
}

/// Writes a value as JSON.
pub fn write_json(path: &Path, value: &impl serde::Serialize) {
    fs::write(path, serde_json::to_vec_pretty(value).expect("JSON")).expect("a file");
}
