//! Every engine against nanoGPT in PyTorch: logits, gradients, and whole training traces, for each folder named
//! `nanogpt*` in `$EXP_PARITY_DIR` (`../shared/parity` by default).

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use common::{ENGINES, Make, norm};
use exp::{
    engine::{Batch, Engine, Part, Place, Update},
    model::{Layout, safetensors::read},
    spec::RunConfig,
    train::{
        generate::{self, Sampling, Writer},
        schedule::lr_at,
    },
};
use safetensors::SafeTensors;
use serde_json::Value;

#[test]
fn parity_of_first_logits_and_gradients() {
    for_each_case("first logits and gradients", |case, engine| {
        let (batch, logits) = (case.batch(0, 0), case.tensor("batches", "logits_first"));
        assert_close("logits", &engine.logits(&batch.x, batch.batch).unwrap(), &logits, 1e-4);
        let loss = engine.accumulate(&batch, Place { step: 1, micro: 0 }, 1).unwrap();
        assert_near("first_loss", loss, case.number("first_loss"), 1e-5);
        case.compare(&engine.read(Part::Grads).unwrap(), "grads_first", |_| 1e-4);
    });
}

#[test]
fn parity_of_losses_rates_norms_and_final_weights() {
    for_each_case("traces", |case, engine| {
        let train = &case.config.train;
        for step in 1..=train.steps {
            let losses = (0..train.grad_accum).map(|micro| {
                let at = Place { step, micro: micro as u32 };
                engine.accumulate(&case.batch(step as usize - 1, micro), at, train.grad_accum).unwrap()
            });
            let loss = losses.sum::<f64>() / train.grad_accum as f64;
            let lr = lr_at(train, step);
            let norm = engine.update(train, Update { step, lr }).unwrap();
            for (what, got) in [("losses", loss), ("lrs", lr), ("grad_norms", norm)] {
                assert_near(
                    &format!("{what}[{step}]"),
                    got,
                    case.trace[what][step as usize - 1].as_f64().unwrap(),
                    1e-5,
                );
            }
        }
        // The gradient of the key part of c_attn.bias is 0 in theory: Adam turns its rounding noise into steps.
        let tolerance = |name: &str| if name.ends_with("c_attn.bias") { 1e-2 } else { 1e-4 };
        case.compare(&engine.read(Part::Params).unwrap(), "final", tolerance);
    });
}

/// The likeliest tokens after a prompt under the final weights: each from all tokens before it, and from a cache.
#[test]
fn parity_of_greedy_texts_with_and_without_a_cache() {
    for_each_case("greedy texts", |case, engine| {
        let greedy: Value = serde_json::from_slice(&fs::read(case.folder.join("greedy.json")).unwrap()).unwrap();
        let tokens = |name: &str| -> Vec<u32> {
            greedy[name].as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
        };
        let (prompt, want) = (tokens("prompt"), tokens("greedy"));
        let weights = case.read(greedy["weights"].as_str().unwrap().trim_end_matches(".safetensors"));
        let (model, vocab) = (&case.config.model, case.vocab());
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let mut rng = generate::stream(1, 0);

        let mut writer = Writer::new(model, vocab, &weights, want.len(), 2).unwrap();
        writer.begin(&prompt).unwrap();
        while writer.tokens().len() < want.len() {
            writer.next(&sampling, &mut rng).unwrap();
        }
        assert_eq!(writer.tokens(), want, "with a cache");

        engine.write(Part::Params, &weights).unwrap();
        let mut text = prompt;
        while text.len() < want.len() {
            let window = &text[text.len().saturating_sub(model.context)..];
            let logits = engine.logits(window, 1).unwrap();
            text.push(sampling.choose(&logits[logits.len() - vocab..], &mut rng).unwrap());
        }
        assert_eq!(text, want, "without a cache");
    });
}

/// One folder of reference numbers.
struct Case {
    folder: PathBuf,
    trace: Value,
    config: RunConfig,
    layout: Layout,
    windows: [Vec<u32>; 2], // x and y: (steps, grad_accum, B, T)
}

impl Case {
    fn open(folder: PathBuf) -> Self {
        let trace: Value = serde_json::from_slice(&fs::read(folder.join("trace.json")).unwrap()).unwrap();
        let int = |v: &Value| v.as_u64().unwrap() as usize;
        let mut config = RunConfig::default();
        let (m, of) = (&mut config.model, &trace["model"]);
        (m.layers, m.d_model, m.context) = (int(&of["n_layer"]), int(&of["n_embd"]), int(&of["block_size"]));
        (m.heads, m.kv_heads, m.d_ff) = (int(&of["n_head"]), int(&of["n_head"]), 4 * m.d_model);
        (m.bias, m.dropout) = (of["bias"].as_bool().unwrap(), of["dropout"].as_f64().unwrap());
        let (t, real) = (&mut config.train, |name: &str| trace[name].as_f64().unwrap());
        (t.steps, t.batch, t.grad_accum) = (real("steps") as u64, int(&trace["batch_size"]), int(&trace["grad_accum"]));
        (t.lr, t.min_lr, t.weight_decay) = (real("lr"), real("min_lr"), real("weight_decay"));
        (t.warmup_steps, t.decay_steps) = (real("warmup_steps") as u64, real("lr_decay_steps") as u64);
        (t.beta1, t.beta2) = (trace["betas"][0].as_f64().unwrap(), trace["betas"][1].as_f64().unwrap());
        (t.eps, t.grad_clip) = (real("eps"), real("grad_clip"));
        let layout = Layout::of(&config.model, int(&trace["model"]["vocab_size"]));
        let windows = ["x", "y"].map(|name| {
            let (bytes, _) = tensor(&folder, "batches", name);
            bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
        });
        Self { folder, trace, config, layout, windows }
    }

    fn vocab(&self) -> usize {
        self.trace["model"]["vocab_size"].as_u64().unwrap() as usize
    }

    fn engine(&self, make: Make) -> Box<dyn Engine> {
        let mut engine = make(&self.config, self.vocab());
        engine.write(Part::Params, &self.read("init")).unwrap();
        engine
    }

    fn batch(&self, step: usize, micro: usize) -> Batch {
        let (batch, context) = (self.config.train.batch, self.config.model.context);
        let at = (step * self.config.train.grad_accum + micro) * batch * context;
        let [x, y] = self.windows.each_ref().map(|all| all[at..at + batch * context].to_vec());
        Batch { x, y, batch, context }
    }

    fn read(&self, file: &str) -> Vec<f32> {
        read(&self.folder.join(format!("{file}.safetensors")), &self.layout, &[""]).unwrap().remove(0)
    }

    fn tensor(&self, file: &str, name: &str) -> Vec<f32> {
        let (bytes, _) = tensor(&self.folder, file, name);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn number(&self, name: &str) -> f64 {
        self.trace[name].as_f64().unwrap()
    }

    /// A flat vector against a file, parameter by parameter.
    fn compare(&self, got: &[f32], file: &str, tolerance: impl Fn(&str) -> f64) {
        let want = self.read(file);
        for p in self.layout.params() {
            assert_close(&format!("{file}: {}", p.name), &got[p.range()], &want[p.range()], tolerance(&p.name));
        }
    }
}

fn tensor(folder: &Path, file: &str, name: &str) -> (Vec<u8>, Vec<usize>) {
    let bytes = fs::read(folder.join(format!("{file}.safetensors"))).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor(name).unwrap();
    (tensor.data().to_vec(), tensor.shape().to_vec())
}

fn assert_near(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs(), "{what}: {got}, not {want}");
}

fn assert_close(what: &str, got: &[f32], want: &[f32], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let difference: Vec<f32> = got.iter().zip(want).map(|(g, w)| g - w).collect();
    let (off, of) = (norm(&difference), norm(want));
    assert!(off <= tolerance * of, "{what}: off by {:.1e} of its norm, more than {tolerance:.0e}", off / of);
}

/// Runs `check` on every folder with every engine, and says on how many.
fn for_each_case(what: &str, check: impl Fn(&Case, &mut dyn Engine)) {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let asked = std::env::var_os("EXP_PARITY_DIR");
    let expected = asked.is_some() || shared.exists();
    let folder = asked.map_or_else(|| shared.join("parity"), PathBuf::from);
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("nanogpt") {
            cases.insert(name, Case::open(entry.path()));
        }
    }
    for (engine, make) in ENGINES {
        for (name, case) in &cases {
            println!("parity of {what}: {engine} on {name}");
            check(case, &mut *case.engine(*make));
        }
        println!("parity of {what}: {engine} ran {} folders of {}", cases.len(), folder.display());
    }
    if cases.is_empty() {
        assert!(!expected, "{} has no folder whose name starts with nanogpt", folder.display());
        println!("parity of {what}: skipped, there are no reference numbers at {}", folder.display());
    }
}
