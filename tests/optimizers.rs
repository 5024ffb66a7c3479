//! Muon in both engines: the formula, what its updates look like, and that all that held for AdamW holds with it.

mod common;

use common::{Make, config, for_each_engine, norm, random_batch};
use exp::{
    base::rng,
    engine::{Engine, Part, Place, Update, cpu::Cpu, tape::Tape},
    kernels::Level,
    model::{Hidden, hidden_matrices},
    spec::{
        RunConfig,
        config::{EngineKind, Mlp, Norm, Optimizer, Position},
    },
};
use proptest::prelude::*;

const VOCAB: usize = 23;

fn with_muon(mut c: RunConfig) -> RunConfig {
    c.train.optimizer = Optimizer::Muon;
    c.run.device = "cpu".into();
    c
}

/// Shapes of all kinds: wide and tall matrices, few heads of keys, a width of one at times.
fn configs() -> impl Strategy<Value = RunConfig> {
    let shape = (1usize..=2, 1usize..=3, 1usize..=3, 1usize..=12, 1usize..=60);
    let train = (0.0..0.99f64, 0.0..0.5f64, 0.0..2.0f64, 0u64..1000);
    (shape, train, any::<bool>(), any::<bool>()).prop_map(|(shape, train, bias, tied)| {
        let (layers, kv_heads, group, width, d_ff) = shape;
        let mut c = with_muon(config(layers, kv_heads * group, kv_heads * group * width, 6));
        (c.model.kv_heads, c.model.d_ff, c.model.bias, c.model.tie_embeddings) = (kv_heads, d_ff, bias, tied);
        (c.train.momentum, c.train.weight_decay, c.train.grad_clip, c.train.seed) = train;
        c
    })
}

fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    rng::fill_normal(&mut rng::stream(seed, "test/optimizers"), 0.1, &mut values);
    values
}

fn hidden(engine: &dyn Engine, c: &RunConfig) -> Vec<Hidden> {
    hidden_matrices(engine.layout(), &c.model)
}

/// Five iterations of the author's in f64, for a matrix of any shape.
fn newton_schulz([rows, cols]: [usize; 2], u: &[f64]) -> Vec<f64> {
    let at = |i: usize, j: usize| if rows > cols { u[j * cols + i] } else { u[i * cols + j] };
    let (r, c) = (rows.min(cols), rows.max(cols));
    let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt() + 1e-7;
    let mut x: Vec<f64> = (0..r * c).map(|i| at(i / c, i % c) / norm).collect();
    for _ in 0..5 {
        let gram = gram(&x, r, c);
        let square: Vec<f64> =
            (0..r * r).map(|i| (0..r).map(|k| gram[i / r * r + k] * gram[k * r + i % r]).sum()).collect();
        let change = |i: usize| -> f64 {
            (0..r).map(|k| (-4.7750 * gram[i / c * r + k] + 2.0315 * square[i / c * r + k]) * x[k * c + i % c]).sum()
        };
        x = (0..r * c).map(|i| 3.4445 * x[i] + change(i)).collect();
    }
    (0..rows * cols).map(|i| if rows > cols { x[i % cols * c + i / cols] } else { x[i] }).collect()
}

/// X·Xᵀ of (r, c).
fn gram(x: &[f64], r: usize, c: usize) -> Vec<f64> {
    (0..r * r).map(|i| (0..c).map(|k| x[i / r * c + k] * x[i % r * c + k]).sum()).collect()
}

/// The eigenvalues of a symmetric matrix, by Jacobi's rotations.
fn eigenvalues(mut a: Vec<f64>, n: usize) -> Vec<f64> {
    for _ in 0..30 {
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q].abs() < 1e-15 {
                    continue;
                }
                // The angle that makes the entry 0.
                let angle = 0.5 * (2.0 * a[p * n + q]).atan2(a[q * n + q] - a[p * n + p]);
                let (sin, cos) = angle.sin_cos();
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (cos * x - sin * y, sin * x + cos * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (cos * x - sin * y, sin * x + cos * y);
                }
            }
        }
    }
    (0..n).map(|i| a[i * n + i]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_engines_follow_the_formula(c in configs()) {
        let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Tape::new(&c, VOCAB, "cpu").unwrap())];
        for level in Level::available() {
            engines.push(Box::new(Cpu::at_level(&c, VOCAB, 2, level).unwrap()));
        }
        let mut adamw = c.clone();
        adamw.train.optimizer = Optimizer::AdamW;
        let mut reference = Cpu::new(&adamw, VOCAB, 1).unwrap();
        for engine in &mut engines {
            let len = engine.layout().len();
            let (p, g, m) = (random(1, len), random(2, len), random(3, len));
            for engine in [&mut **engine, &mut reference] {
                engine.write(Part::Params, &p).unwrap();
                engine.write(Part::Grads, &g).unwrap();
                engine.write(Part::Moment1, &m).unwrap();
                engine.write(Part::Moment2, &vec![0.0; len]).unwrap();
            }
            let update = Update { step: 3, lr: 0.02 };
            let before = engine.update(&c.train, update).unwrap();
            reference.update(&adamw.train, update).unwrap();
            prop_assert!((before / norm(&g) - 1.0).abs() < 1e-5, "the norm is that before clipping");
            let clip = if c.train.grad_clip > 0.0 { (c.train.grad_clip / (norm(&g) + 1e-6)).min(1.0) } else { 1.0 };
            let read = |engine: &dyn Engine| {
                [Part::Params, Part::Moment1, Part::Moment2].map(|part| engine.read(part).unwrap())
            };
            let [mut got, mut want] = [read(&**engine), read(&reference)];
            let mu = c.train.momentum;
            for h in hidden(&**engine, &c) {
                let of = |x: &[f32]| -> Vec<f64> { x[h.range.clone()].iter().map(|&x| f64::from(x)).collect() };
                let g: Vec<f64> = of(&g).iter().map(|g| (1.0 - mu) * clip * g).collect();
                let m: Vec<f64> = of(&m).iter().zip(&g).map(|(m, g)| mu * m + g).collect();
                let u: Vec<f64> = m.iter().zip(&g).map(|(m, g)| mu * m + g).collect();
                let scale = 0.02 * 0.2 * (h.rows.max(h.cols) as f64).sqrt();
                let x = newton_schulz([h.rows, h.cols], &u);
                for (i, at) in h.range.clone().enumerate() {
                    let p = f64::from(p[at]) * (1.0 - 0.02 * c.train.weight_decay) - scale * x[i];
                    prop_assert!((f64::from(got[0][at]) - p).abs() < 1e-5, "{}: {} {p}", engine.name(), got[0][at]);
                    prop_assert!((f64::from(got[1][at]) - m[i]).abs() < 1e-6, "{}", engine.name());
                    prop_assert!(got[2][at] == 0.0, "Muon has one moment");
                }
                for part in got.iter_mut().chain(&mut want) {
                    part[h.range.clone()].fill(0.0); // what is left is AdamW's
                }
            }
            for (got, want) in got.iter().zip(&want) {
                let off: Vec<f32> = got.iter().zip(want).map(|(a, b)| a - b).collect();
                prop_assert!(norm(&off) <= 1e-5 * norm(want), "{}: {:e}", engine.name(), norm(&off));
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit(c in configs()) {
        let states: Vec<_> = [1, 2, 3].into_iter().map(|threads| {
            let mut cpu = Cpu::new(&c, VOCAB, threads).unwrap();
            train(&mut cpu, &c, 1..=3);
            [Part::Params, Part::Moment1, Part::Moment2].map(|part| cpu.read(part).unwrap())
        }).collect();
        prop_assert!(states.iter().all(|s| *s == states[0]));
    }
}

fn train(engine: &mut dyn Engine, c: &RunConfig, steps: std::ops::RangeInclusive<u64>) {
    for step in steps {
        let batch = random_batch(step, 3, c.model.context, VOCAB);
        engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
        engine.update(&c.train, Update { step, lr: 1e-2 }).unwrap();
    }
}

/// Jordan's bounds on what his coefficients make of singular values that are not tiny. And since all of them are near 1,
/// entries have the root mean square that AdamW's updates have.
#[test]
fn an_update_s_singular_values_are_near_one() {
    for_each_engine(|make: Make| {
        let mut c = with_muon(config(1, 4, 32, 6));
        (c.model.d_ff, c.model.kv_heads, c.train.weight_decay, c.train.grad_clip) = (80, 2, 0.0, 0.0);
        let mut engine = make(&c, VOCAB);
        let len = engine.layout().len();
        engine.write(Part::Params, &vec![0.0; len]).unwrap();
        engine.write(Part::Grads, &random(5, len)).unwrap();
        engine.update(&c.train, Update { step: 1, lr: 1.0 }).unwrap();
        let moved = engine.read(Part::Params).unwrap();
        for h in hidden(&*engine, &c) {
            let step = &moved[h.range.clone()];
            let rms = norm(step) / (step.len() as f64).sqrt();
            assert!((0.12..0.24).contains(&rms), "a root mean square of {rms}, not about 0.2");
            let scale = 0.2 * (h.rows.max(h.cols) as f64).sqrt();
            let x: Vec<f64> = step.iter().map(|&s| -f64::from(s) / scale).collect();
            let (r, c) = (h.rows.min(h.cols), h.rows.max(h.cols));
            let wide: Vec<f64> = if h.rows > h.cols { (0..r * c).map(|i| x[i % c * r + i / c]).collect() } else { x };
            for value in eigenvalues(gram(&wide, r, c), r) {
                let singular = value.sqrt();
                // Of a square matrix the smallest may be too small to come up in five iterations.
                let floor = if r == c { 0.0 } else { 0.67 };
                assert!((floor..1.14).contains(&singular), "{singular} of ({}, {})", h.rows, h.cols);
            }
        }
    });
}

#[test]
fn the_eigenvalues_that_the_test_finds_are_right() {
    let mut found = eigenvalues(vec![2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 1.0, 2.0], 3);
    found.sort_by(f64::total_cmp);
    let root = 2f64.sqrt();
    for (got, want) in found.iter().zip([2.0 - root, 2.0, 2.0 + root]) {
        assert!((got - want).abs() < 1e-9, "{found:?}");
    }
}

/// With every switch that either engine has.
fn switched() -> RunConfig {
    let mut c = with_muon(config(2, 4, 16, 6));
    let m = &mut c.model;
    (m.norm, m.position, m.mlp, m.kv_heads) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu, 2);
    (m.qk_norm, m.bias, m.tie_embeddings) = (true, false, false);
    c
}

/// Every engine that knows the config: the tape always.
fn engines(c: &RunConfig) -> Vec<Box<dyn Engine>> {
    let mut all: Vec<Box<dyn Engine>> = vec![Box::new(Tape::new(c, VOCAB, "cpu").unwrap())];
    if Cpu::knows(c) {
        all.push(Box::new(Cpu::new(c, VOCAB, 2).unwrap()));
    }
    all
}

#[test]
fn what_was_saved_goes_on_to_the_bit() {
    const PARTS: [Part; 3] = [Part::Params, Part::Moment1, Part::Moment2];
    for c in [with_muon(config(2, 4, 16, 6)), switched()] {
        for (mut straight, mut resumed) in engines(&c).into_iter().zip(engines(&c)) {
            train(&mut *straight, &c, 1..=2);
            PARTS.iter().for_each(|&part| resumed.write(part, &straight.read(part).unwrap()).unwrap());
            train(&mut *straight, &c, 3..=4);
            train(&mut *resumed, &c, 3..=4);
            assert!(PARTS.iter().all(|&part| straight.read(part).unwrap() == resumed.read(part).unwrap()));
        }
    }
}

#[test]
fn a_batch_is_learnt_by_heart() {
    for c in [with_muon(config(2, 2, 32, 16)), switched()] {
        let batch = random_batch(7, 2, c.model.context, VOCAB);
        for mut engine in engines(&c) {
            for step in 1..=150 {
                engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
                engine.update(&c.train, Update { step, lr: 3e-3 }).unwrap();
            }
            let loss = engine.loss(&batch).unwrap();
            assert!(loss < 0.15, "{loss} with the engine {}", engine.name());
        }
    }
}

#[test]
fn the_fast_engine_knows_muon() {
    let c = with_muon(config(1, 2, 16, 8));
    assert_eq!((c.beyond_cpu_engine(), c.engine()), (None, EngineKind::Cpu));
}
