//! What must hold of every engine without a reference at hand: sizes, gradients, causality, dropout, the optimizer.

mod common;

use candle_core::{Device, Tensor};
use common::{config, for_each_engine, norm, random_batch, switches};
use exp::{
    base::rng,
    engine::{self, Batch, Part, Place, Update, tape::attention_weights},
    model::Layout,
    spec::config::{Dtype, EngineKind, TrainConfig},
};

const FIRST: Place = Place { step: 1, micro: 0 };

#[test]
fn known_models_have_their_known_sizes() {
    let gpt2 = Layout::of(&config(12, 12, 768, 1024).model, 50257);
    assert_eq!(gpt2.len(), 124_439_808);
    let six = Layout::of(&config(8, 4, 256, 512).model, 1000);
    assert_eq!((six.len() as f64 / 1e4).round() / 100.0, 6.71);
}

#[test]
fn attention_by_hand() {
    // Products of the last query with three keys, at a head width of 4.
    let last_row = |products: [f32; 3], scale: f64| {
        let k = Tensor::new(
            &[[[[products[0], 0.0, 0.0, 0.0], [0.0, products[1], 0.0, 0.0], [0.0, 0.0, products[2], 0.0]]]],
            &Device::Cpu,
        );
        let q = Tensor::ones((1, 1, 3, 4), candle_core::DType::F32, &Device::Cpu).unwrap();
        let weights = attention_weights(&q, &k.unwrap(), scale).unwrap(); // (1, 1, 3, 3)
        weights.flatten_all().unwrap().to_vec1::<f32>().unwrap()[6..].to_vec()
    };
    let divided = 1.0 / 4f64.sqrt();
    for (products, scale, want) in [
        ([1.0, 1.0, 2.0], divided, [0.27, 0.27, 0.45]),
        ([2.0, 6.0, 4.0], divided, [0.09, 0.67, 0.24]),
        ([2.0, 6.0, 4.0], 1.0, [0.016, 0.867, 0.117]),
    ] {
        for (got, want) in last_row(products, scale).iter().zip(want) {
            assert!((got - want).abs() < 0.006, "{products:?} times {scale}: {got}, not {want}");
        }
    }
}

#[test]
fn the_first_loss_is_that_of_guessing() {
    for_each_engine(|make| {
        for (layers, heads, d_model, vocab) in [(2, 2, 32, 65), (4, 4, 128, 65), (8, 4, 128, 500), (1, 1, 16, 10)] {
            let mut config = config(layers, heads, d_model, 32);
            for bias in [true, false] {
                config.model.bias = bias;
                let loss = make(&config, vocab).loss(&random_batch(1, 8, 32, vocab)).unwrap();
                let guess = (vocab as f64).ln();
                assert!((loss - guess).abs() < 0.1, "{layers} layers, width {d_model}: {loss}, guessing costs {guess}");
            }
        }
    });
}

#[test]
fn every_parameter_has_a_finite_gradient_that_is_not_zero() {
    for_each_engine(|make| {
        for (name, config) in switches() {
            let mut engine = make(&config, 11);
            engine.accumulate(&random_batch(2, 3, 8, 11), FIRST, 1).unwrap();
            let grads = engine.read(Part::Grads).unwrap();
            for p in engine.layout().params() {
                let grad = &grads[p.range()];
                assert!(grad.iter().all(|g| g.is_finite()), "{name}: {}", p.name);
                assert!(grad.iter().any(|&g| g != 0.0), "{name}: {} has no gradient", p.name);
            }
        }
    });
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for_each_engine(|make| {
        for (name, config) in switches() {
            let mut engine = make(&config, 11);
            let layout = engine.layout().clone();
            let mut weights = vec![0.0; layout.len()];
            rng::fill_normal(&mut rng::stream(3, "test/weights"), 0.4, &mut weights);
            engine.write(Part::Params, &weights).unwrap();
            let batch = random_batch(4, 2, 8, 11);
            engine.accumulate(&batch, FIRST, 1).unwrap();
            let grads = engine.read(Part::Grads).unwrap();
            // Along each parameter's own gradient the loss rises by the gradient's norm.
            for p in layout.params() {
                let slope = norm(&grads[p.range()]);
                let mut loss_at = |distance: f64| {
                    let mut moved = weights.clone();
                    for i in p.range() {
                        moved[i] += (distance * f64::from(grads[i]) / slope) as f32;
                    }
                    engine.write(Part::Params, &moved).unwrap();
                    engine.accumulate(&batch, FIRST, 1).unwrap() // with the same dropout masks
                };
                let h = 4e-3;
                let risen = (loss_at(h) - loss_at(-h)) / (2.0 * h);
                assert!((risen - slope).abs() < 0.01 * slope + 2e-4, "{name}: {}: {slope}, not {risen}", p.name);
            }
        }
    });
}

#[test]
fn the_future_changes_no_logit_of_the_past() {
    for_each_engine(|make| {
        for (name, config) in switches() {
            let mut engine = make(&config, 11);
            let batch = random_batch(5, 2, 8, 11);
            let before = engine.logits(&batch.x, 2).unwrap();
            for position in 0..8 {
                let mut x = batch.x.clone();
                x[position] = (x[position] + 1) % 11; // of the first of two rows
                let after = engine.logits(&x, 2).unwrap();
                let differs = |t: usize| before[t * 11..(t + 1) * 11] != after[t * 11..(t + 1) * 11];
                assert!((0..position).all(|t| !differs(t)), "{name}: token {position} reaches back");
                assert!((position..8).all(differs), "{name}: token {position} does not reach forward");
                assert!((8..16).all(|t| !differs(t)), "{name}: token {position} reaches another row");
            }
        }
    });
}

#[test]
fn a_shorter_window_has_the_same_logits() {
    for_each_engine(|make| {
        let mut engine = make(&config(2, 2, 16, 8), 11);
        let tokens = random_batch(6, 1, 8, 11).x;
        let whole = engine.logits(&tokens, 1).unwrap();
        let part = engine.logits(&tokens[..5], 1).unwrap();
        assert!(part.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-5));
    });
}

#[test]
fn one_batch_is_learnt_by_heart() {
    for_each_engine(|make| {
        let config = config(2, 2, 32, 16);
        let mut engine = make(&config, 20);
        let batch = random_batch(7, 2, 16, 20);
        for step in 1..=150 {
            engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
            engine.update(&config.train, Update { step, lr: 3e-3 }).unwrap();
        }
        let loss = engine.loss(&batch).unwrap();
        assert!(loss < 0.1, "{loss}");
    });
}

#[test]
fn dropout_masks_follow_from_the_place_and_evaluation_has_none() {
    for_each_engine(|make| {
        let mut with = config(2, 2, 16, 8);
        with.model.dropout = 0.3;
        let without = config(2, 2, 16, 8);
        let (mut with, mut without) = (make(&with, 11), make(&without, 11));
        let batch = random_batch(8, 2, 8, 11);
        assert_eq!(with.loss(&batch).unwrap(), without.loss(&batch).unwrap());
        assert_eq!(with.logits(&batch.x, 2).unwrap(), without.logits(&batch.x, 2).unwrap());
        let mut at = |step, micro| with.accumulate(&batch, Place { step, micro }, 1).unwrap();
        let first = at(1, 0);
        assert_eq!(first, at(1, 0), "the same place has the same masks");
        assert_ne!(first, at(2, 0));
        assert_ne!(first, at(1, 1));
        assert_ne!(first, without.accumulate(&batch, FIRST, 1).unwrap());
    });
}

#[test]
fn accumulated_micro_batches_give_the_gradient_of_their_mean_loss() {
    for_each_engine(|make| {
        let mut engine = make(&config(2, 2, 16, 8), 11);
        let (a, b) = (random_batch(9, 2, 8, 11), random_batch(10, 2, 8, 11));
        let both = Batch {
            x: [a.x.clone(), b.x.clone()].concat(),
            y: [a.y.clone(), b.y.clone()].concat(),
            batch: 4,
            context: 8,
        };
        let losses = [&a, &b].map(|half| engine.accumulate(half, FIRST, 2).unwrap());
        let halves = engine.read(Part::Grads).unwrap();
        engine.write(Part::Grads, &vec![0.0; halves.len()]).unwrap();
        let loss = engine.accumulate(&both, FIRST, 1).unwrap();
        assert!((loss - (losses[0] + losses[1]) / 2.0).abs() < 1e-6);
        let whole = engine.read(Part::Grads).unwrap();
        let off: Vec<f32> = halves.iter().zip(&whole).map(|(h, w)| h - w).collect();
        assert!(norm(&off) < 1e-5 * norm(&whole));
    });
}

#[test]
fn the_gradient_is_clipped_by_its_global_norm_and_never_scaled_up() {
    for_each_engine(|make| {
        for (clip, is_clipped) in [(0.1, true), (1e3, false), (0.0, false)] {
            let config = config(2, 2, 16, 8);
            let train = TrainConfig { grad_clip: clip, ..config.train.clone() };
            let mut engine = make(&config, 11);
            engine.accumulate(&random_batch(11, 2, 8, 11), FIRST, 1).unwrap();
            let grads = engine.read(Part::Grads).unwrap();
            let returned = engine.update(&train, Update { step: 1, lr: 1e-3 }).unwrap();
            assert!((returned - norm(&grads)).abs() < 1e-5 * returned, "the norm is that before clipping");
            let factor = if is_clipped { clip / (returned + 1e-6) } else { 1.0 };
            let moment = engine.read(Part::Moment1).unwrap();
            for (m, g) in moment.iter().zip(&grads) {
                let want = (1.0 - train.beta1) * factor * f64::from(*g);
                assert!((f64::from(*m) - want).abs() < 1e-5 * want.abs() + 1e-12, "clip {clip}: {m}, not {want}");
            }
            assert!(engine.read(Part::Grads).unwrap().iter().all(|&g| g == 0.0), "an update clears the gradient");
        }
    });
}

#[test]
fn decay_shrinks_matrices_alone() {
    for_each_engine(|make| {
        let config = config(2, 2, 16, 8);
        let mut engine = make(&config, 11);
        let before = engine.read(Part::Params).unwrap();
        engine.update(&config.train, Update { step: 1, lr: 0.5 }).unwrap(); // of a gradient that is 0
        let after = engine.read(Part::Params).unwrap();
        for p in engine.layout().params() {
            let kept = if p.shape.len() >= 2 { 1.0 - 0.5 * config.train.weight_decay } else { 1.0 };
            for (a, b) in after[p.range()].iter().zip(&before[p.range()]) {
                assert!((f64::from(*a) - kept * f64::from(*b)).abs() < 1e-7, "{}: {b} became {a}", p.name);
            }
        }
    });
}

#[test]
fn what_an_engine_cannot_do_it_says() {
    for_each_engine(|make| {
        let mut engine = make(&config(2, 2, 16, 8), 11);
        let mut why = |x: Vec<u32>, context: usize| {
            let batch = Batch { y: vec![0; x.len()], x, batch: 1, context };
            let messages = [
                engine.loss(&batch).unwrap_err().to_string(),
                engine.accumulate(&batch, FIRST, 1).unwrap_err().to_string(),
                engine.logits(&batch.x, 1).unwrap_err().to_string(),
            ];
            assert!(messages.iter().all(|m| *m == messages[0]), "{messages:?}");
            messages[0].clone()
        };
        assert!(why(vec![1, 11], 2).contains("token 11 is outside the vocabulary of 11"));
        assert!(why(vec![1; 9], 9).contains("9 positions are more than the context of 8"));
        let short = engine.write(Part::Params, &[0.0; 3]).unwrap_err().to_string();
        assert!(short.contains("3 numbers for a model of"), "{short}");
    });
    let mut config = config(2, 2, 16, 8);
    let build = |config: &_, device| engine::build(config, 11, device, 1).map(|_| ()).unwrap_err();
    config.run.engine = EngineKind::Cpu;
    assert!(build(&config, "cuda:0").hint.is_some());
    config.run.engine = EngineKind::Tape;
    assert!(build(&config, "cuda:7").doing.contains("cuda:7"));
    config.train.dtype = Dtype::Bf16;
    assert!(build(&config, "cpu").hint.unwrap().contains("train.dtype"));
}

#[test]
fn threads_change_no_bit() {
    const MARK: &str = "EXP_TEST_PRINTS_BITS";
    if std::env::var_os(MARK).is_some() {
        return for_each_engine(|make| {
            let mut config = config(2, 4, 64, 64);
            config.model.dropout = 0.1;
            let mut engine = make(&config, 300);
            for step in 1..=3 {
                engine.accumulate(&random_batch(step, 8, 64, 300), Place { step, micro: 0 }, 1).unwrap();
                engine.update(&config.train, Update { step, lr: 1e-3 }).unwrap();
            }
            let bits: Vec<u8> = engine.read(Part::Params).unwrap().iter().flat_map(|w| w.to_le_bytes()).collect();
            println!("bits {}", blake3::hash(&bits));
        });
    }
    // The pool of threads is global, so each number of them needs a process.
    let bits = [1, 2, 3].map(|threads| {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "threads_change_no_bit", "--nocapture"]).env(MARK, "1");
        let output = test.env("RAYON_NUM_THREADS", threads.to_string()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|l| l.starts_with("bits ")).map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(!bits[0].is_empty());
    assert!(bits[0] == bits[1] && bits[1] == bits[2], "{bits:?}");
}
