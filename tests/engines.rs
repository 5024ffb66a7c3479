//! The CPU engine against the tape, over random configurations, and against itself with other numbers of threads.

use exp::{
    base::rng,
    engine::{Batch, Engine, Part, Place, Update, cpu::Cpu, tape::Tape},
    kernels::Level,
    model::Layout,
    spec::{
        RunConfig,
        config::{Mlp, ModelConfig, Norm, Position},
    },
};
use proptest::{prelude::*, sample::select};
use serde::de::DeserializeOwned;

/// Any of an enum's words, so that a new one is tested as soon as it is there.
fn any_of<T: DeserializeOwned + std::fmt::Debug>(words: &'static [&'static str]) -> impl Strategy<Value = T> {
    select(words).prop_map(|word| serde_json::from_value(word.into()).unwrap())
}

/// Models around every switch, of no shape yet.
fn switches() -> impl Strategy<Value = ModelConfig> {
    let words = (any_of(Norm::WORDS), any_of(Position::WORDS), any_of(Mlp::WORDS));
    let numbers = (
        prop_oneof![Just(1e-5), 1e-6..0.1f64],
        prop_oneof![Just(1e4), 2.0..1e6f64],
        prop_oneof![Just(0.0), 0.05..0.6f64],
    );
    let bools = (any::<bool>(), any::<bool>(), any::<bool>());
    (words, numbers, bools).prop_map(|(words, numbers, (bias, tie_embeddings, qk_norm))| {
        let mut m = RunConfig::default().model;
        (m.norm, m.position, m.mlp) = words;
        (m.norm_eps, m.rope_theta, m.dropout) = numbers;
        (m.bias, m.tie_embeddings, m.qk_norm) = (bias, tie_embeddings, qk_norm);
        m
    })
}

/// Configurations small enough for the tape. A width of four at least: LayerNorm makes ±1 of any two numbers, as an
/// RMSNorm does of one, so that all gradients before it are 0 in theory and rounding in fact.
fn configs() -> impl Strategy<Value = (RunConfig, usize)> {
    let shape = (1usize..=3, 1usize..=3, 1usize..=3, 1usize..=20, 1usize..=40, 1usize..=90);
    let train = (1usize..=7, 1usize..=2, 0.0..2.0f64, 0u64..1000);
    (switches(), shape, train, 2usize..=150)
        .prop_map(|(switches, shape, train, vocab)| {
            let (layers, kv_heads, group, width, context, d_ff) = shape;
            let even = switches.position == Position::Rope || switches.qk_norm;
            let (heads, width) = (kv_heads * group, if even { width.next_multiple_of(2) } else { width });
            let mut c = RunConfig { model: switches, ..RunConfig::default() };
            let m = &mut c.model;
            (m.layers, m.heads, m.kv_heads, m.d_model) = (layers, heads, kv_heads, heads * width);
            (m.context, m.d_ff) = (context, d_ff);
            let t = &mut c.train;
            (t.batch, t.grad_accum, t.grad_clip, t.seed) = train;
            (c, vocab)
        })
        .prop_filter("LayerNorm needs some width", |(c, _)| c.model.d_model >= 4)
}

/// Random windows.
fn batch(seed: u64, sequences: usize, context: usize, vocab: usize) -> Batch {
    let mut rng = rng::stream(seed, "engines");
    let mut batch = Batch::zeros(sequences, context);
    batch.x.iter_mut().chain(&mut batch.y).for_each(|t| *t = rng::below(&mut rng, vocab as u64) as u32);
    batch
}

/// Weights that make every part of the network matter: larger than the initial ones, norms and biases included; but no
/// product of unit variance comes out larger than it went in, since a network that magnifies magnifies rounding too.
fn weights(layout: &Layout, seed: u64) -> Vec<f32> {
    let mut w = vec![0.0; layout.len()];
    let mut rng = rng::stream(seed, "weights");
    for p in layout.params() {
        let is_product = p.decays() && !p.name.contains("wte") && !p.name.contains("wpe");
        let std = if is_product { 0.3f64.min(1.0 / (p.shape[1] as f64).sqrt()) } else { 0.3 };
        rng::fill_normal(&mut rng, std, &mut w[p.range()]);
    }
    for p in layout.params().iter().filter(|p| !p.decays() && p.name.ends_with("weight")) {
        w[p.range()].iter_mut().for_each(|w| *w += 1.0);
    }
    w
}

fn norm(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt()
}

/// ‖a - b‖ is at most `share` of ‖b‖ and some rounding of what was summed.
fn assert_close(what: &str, a: &[f32], b: &[f32], share: f64, floor: f64) {
    let difference: Vec<f32> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let (off, of) = (norm(&difference), norm(b));
    assert!(off <= share * of + floor, "{what}: off by {off:e} of {of:e}");
}

fn accumulate(engine: &mut dyn Engine, c: &RunConfig, vocab: usize, step: u64) -> f64 {
    (0..c.train.grad_accum as u32)
        .map(|micro| {
            let batch = batch(step * 10 + u64::from(micro), c.train.batch, c.model.context, vocab);
            engine.accumulate(&batch, Place { step, micro }, c.train.grad_accum).unwrap()
        })
        .sum()
}

fn compare(c: &RunConfig, vocab: usize, level: Level) {
    let mut tape = Tape::new(c, vocab, "cpu").unwrap();
    let mut cpu = Cpu::at_level(c, vocab, 2, level).unwrap();
    assert_eq!(cpu.read(Part::Params).unwrap(), tape.read(Part::Params).unwrap(), "initial weights");
    let w = weights(tape.layout(), c.train.seed);
    tape.write(Part::Params, &w).unwrap();
    cpu.write(Part::Params, &w).unwrap();

    let (want, got) = (accumulate(&mut tape, c, vocab, 1), accumulate(&mut cpu, c, vocab, 1));
    assert!((got / want - 1.0).abs() < 1e-5, "loss {got} {want}");
    let (want, got) = (tape.read(Part::Grads).unwrap(), cpu.read(Part::Grads).unwrap());
    let floor = 1e-7 * norm(&want); // a gradient that is 0 in theory, as that of the key bias, is rounding in both
    for p in cpu.layout().params() {
        assert_close(&p.name, &got[p.range()], &want[p.range()], 1e-4, floor);
    }

    // From the same gradient, so that Adam does not magnify the rounding of what is nearly 0.
    cpu.write(Part::Grads, &want).unwrap();
    let update = Update { step: 1, lr: 1e-2 };
    let (a, b) = (tape.update(&c.train, update).unwrap(), cpu.update(&c.train, update).unwrap());
    assert!((b - a).abs() <= 1e-5 * a, "gradient norm {b} {a}"); // 0 where a norm is over a single number
    for part in [Part::Params, Part::Moment1, Part::Moment2] {
        let (want, got) = (tape.read(part).unwrap(), cpu.read(part).unwrap());
        assert_close(&format!("{part:?} after the update"), &got, &want, 1e-4, 1e-12);
    }
    assert!(cpu.read(Part::Grads).unwrap().iter().all(|&g| g == 0.0), "an update clears the gradient");

    let b = batch(99, 1 + c.train.batch * 3, c.model.context.div_ceil(2), vocab);
    let (want, got) = (tape.loss(&b).unwrap(), cpu.loss(&b).unwrap());
    assert!((got / want - 1.0).abs() < 1e-5, "evaluation {got} {want}");
    let (want, got) = (tape.logits(&b.x, b.batch).unwrap(), cpu.logits(&b.x, b.batch).unwrap());
    assert_close("logits", &got, &want, 1e-4, 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, max_global_rejects: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_agree((config, vocab) in configs()) {
        Level::available().into_iter().for_each(|level| compare(&config, vocab, level));
    }

    #[test]
    fn the_number_of_threads_changes_no_bit((config, vocab) in configs()) {
        for level in Level::available() {
            let states: Vec<_> = [1, 2, 3].map(|threads| train(&config, vocab, threads, level)).to_vec();
            prop_assert!(states.iter().all(|s| *s == states[0]), "{level:?}");
        }
    }
}

/// Everything that three steps, an evaluation and sampling leave.
fn train(c: &RunConfig, vocab: usize, threads: usize, level: Level) -> (Vec<f64>, [Vec<f32>; 4]) {
    let mut cpu = Cpu::at_level(c, vocab, threads, level).unwrap();
    let mut numbers = Vec::new();
    for step in 1..=3 {
        numbers.push(accumulate(&mut cpu, c, vocab, step));
        numbers.push(cpu.update(&c.train, Update { step, lr: 1e-3 }).unwrap());
    }
    accumulate(&mut cpu, c, vocab, 4);
    let b = batch(99, 5, c.model.context, vocab);
    numbers.push(cpu.loss(&b).unwrap());
    let logits = cpu.logits(&b.x, 5).unwrap();
    let [p, m, v] = [Part::Params, Part::Moment1, Part::Moment2].map(|part| cpu.read(part).unwrap());
    (numbers, [[p, cpu.read(Part::Grads).unwrap()].concat(), m, v, logits])
}

/// GPT-2's block, Llama's with every switch that it could have, and one that takes the other ways through the layers.
fn blocks() -> [RunConfig; 3] {
    let mut all = [(); 3].map(|()| RunConfig::default());
    let [_, llama, other] = all.each_mut().map(|c| &mut c.model);
    (llama.norm, llama.position, llama.mlp, llama.qk_norm) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu, true);
    (llama.bias, llama.tie_embeddings) = (false, false);
    (other.position, other.mlp, other.qk_norm, other.norm_eps) = (Position::Sinusoidal, Mlp::Relu2, true, 1e-3);
    all
}

/// Two parts, packed weights, and threads that help each other.
#[test]
fn medium_models_agree_and_do_not_depend_on_threads() {
    for mut c in blocks() {
        let m = &mut c.model;
        (m.layers, m.heads, m.kv_heads, m.d_model, m.context, m.d_ff) = (2, 6, 2, 96, 40, 400);
        agrees_for_any_threads(c, 50_257, &[2, 3]);
    }
}

/// One part, threads that share each operation, weights packed as they are used.
#[test]
fn large_models_agree_and_do_not_depend_on_threads() {
    let [_, mut c, _] = blocks(); // with the most switches; the others differ in nothing that size decides
    let m = &mut c.model;
    (m.layers, m.heads, m.kv_heads, m.d_model, m.context, m.d_ff) = (1, 6, 2, 672, 12, 700);
    m.tie_embeddings = true; // half as many numbers
    agrees_for_any_threads(c, 50_257, &[3]);
}

fn agrees_for_any_threads(mut c: RunConfig, vocab: usize, threads: &[usize]) {
    (c.model.dropout, c.train.batch, c.train.grad_accum) = (0.1, 3, 2);
    compare(&c, vocab, Level::available()[0]);
    let first = train(&c, vocab, 1, Level::available()[0]);
    for &threads in threads {
        assert!(train(&c, vocab, threads, Level::available()[0]) == first, "{threads} threads");
    }
}
