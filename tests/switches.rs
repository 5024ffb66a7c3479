//! The switches of the model, alone and in random combinations: what must hold whatever they stand at.

mod common;

use candle_core::{Device, Tensor};
use common::{config, norm, random_batch};
use exp::{
    base::{files, rng},
    cost::Cost,
    engine::{
        Engine, Part, Place, Update,
        cpu::Cpu,
        decode::Decoder,
        tape::{Tape, attention_weights, rms_norm, rotate, sinusoids},
    },
    model::{Layout, safetensors},
    spec::{
        RunConfig,
        config::{Dtype, EngineKind, Mlp, ModelConfig, Norm, Position},
        leaf,
    },
    train::generate::{self, Sampling, Writer},
};
use proptest::{prelude::*, sample::select};
use serde::de::DeserializeOwned;

const VOCAB: usize = 11;

/// Any of an enum's words, so that a new one is tested as soon as it is there.
fn any_of<T: DeserializeOwned + std::fmt::Debug>(words: &'static [&'static str]) -> impl Strategy<Value = T> {
    select(words).prop_map(|word| serde_json::from_value(word.into()).unwrap())
}

/// Small models with any combination of switches. More than one position, or no query and key had a gradient; heads of
/// an even width, as RoPE needs.
fn configs() -> impl Strategy<Value = RunConfig> {
    let shape = (1usize..=2, 1usize..=2, 1usize..=2, select(&[4usize, 6, 8][..]), 4usize..=8, 6usize..=24);
    let words = (any_of(Norm::WORDS), any_of(Position::WORDS), any_of(Mlp::WORDS));
    let bools = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (shape, words, bools, 0u64..1000).prop_map(|(shape, words, (bias, tied, qk_norm, dropped), seed)| {
        let (layers, kv_heads, group, width, context, d_ff) = shape;
        let heads = kv_heads * group;
        let mut c = config(layers, heads, heads * width, context);
        let m = &mut c.model;
        (m.norm, m.position, m.mlp) = words;
        (m.kv_heads, m.d_ff, m.bias, m.tie_embeddings, m.qk_norm) = (kv_heads, d_ff, bias, tied, qk_norm);
        m.dropout = if dropped { 0.2 } else { 0.0 };
        (c.train.seed, c.run.device) = (seed, "cpu".into());
        c
    })
}

/// A model of the default's switches but one, for each of its other values.
fn one_by_one() -> Vec<RunConfig> {
    let switches = ["model.norm", "model.position", "model.mlp"].map(|path| leaf::find(path).unwrap());
    let default = serde_json::to_value(config(2, 2, 32, 16)).unwrap();
    let changes: [fn(&mut ModelConfig); 6] = [
        |_| (),
        |m| m.qk_norm = true,
        |m| m.kv_heads = 1,
        |m| m.bias = false,
        |m| m.tie_embeddings = false,
        |m| m.dropout = 0.1,
    ];
    let mut all: Vec<RunConfig> = changes
        .into_iter()
        .map(|change| {
            let mut c = config(2, 2, 32, 16);
            change(&mut c.model);
            c
        })
        .collect();
    for leaf in switches {
        let exp::spec::Kind::Words(words) = leaf.kind else { panic!("{} has no words", leaf.path) };
        for word in words.iter().filter(|word| **word != leaf.default) {
            let mut changed = default.clone();
            changed["model"][leaf.word()] = (*word).into();
            all.push(serde_json::from_value(changed).unwrap());
        }
    }
    all
}

/// Every engine that knows the config: the tape always.
fn engines(c: &RunConfig) -> Vec<Box<dyn Engine>> {
    let mut all: Vec<Box<dyn Engine>> = vec![Box::new(Tape::new(c, VOCAB, "cpu").unwrap())];
    if Cpu::knows(c) {
        all.push(Box::new(Cpu::new(c, VOCAB, 1).unwrap()));
    }
    all
}

const FIRST: Place = Place { step: 1, micro: 0 };

/// Weights with which every part of the network matters, norms and biases included, and none magnifies much.
fn weights(layout: &Layout, seed: u64) -> Vec<f32> {
    let mut weights = vec![0.0; layout.len()];
    let mut stream = rng::stream(seed, "test/weights");
    for p in layout.params() {
        let inputs = if p.shape.len() == 2 { p.shape[1] } else { 1 };
        rng::fill_normal(&mut stream, 0.4f64.min(1.0 / (inputs as f64).sqrt()), &mut weights[p.range()]);
    }
    weights
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Central differences of 4e-3, or of 1e-3, along each parameter's own gradient, in which direction the loss rises by the
    /// gradient's norm: within 1 % and what rounding of an f32 loss makes of such a step.
    #[test]
    fn gradients_are_finite_not_zero_and_those_of_finite_differences(c in configs()) {
        prop_assume!(c.model.d_model >= 8, "a norm of fewer numbers bends too sharply for differences in f32");
        let batch = random_batch(c.train.seed, 3, c.model.context, VOCAB);
        for mut engine in engines(&c) {
            let layout = engine.layout().clone();
            let weights = weights(&layout, c.train.seed);
            engine.write(Part::Params, &weights).unwrap();
            engine.accumulate(&batch, FIRST, 1).unwrap();
            let grads = engine.read(Part::Grads).unwrap();
            for p in layout.params() {
                prop_assert!(grads[p.range()].iter().all(|g| g.is_finite()), "{}", p.name);
                let slope = norm(&grads[p.range()]);
                prop_assert!(slope > 1e-6, "{} has no gradient", p.name);
                let mut loss_at = |distance: f64| {
                    let mut moved = weights.clone();
                    for i in p.range() {
                        moved[i] += (distance * f64::from(grads[i]) / slope) as f32;
                    }
                    engine.write(Part::Params, &moved).unwrap();
                    engine.accumulate(&batch, FIRST, 1).unwrap() // with the same dropout masks
                };
                // Where the loss bends sharply, only the smaller step is straight.
                let risen = [4e-3, 1e-3].map(|h| (h, (loss_at(h) - loss_at(-h)) / (2.0 * h)));
                let is_near = |&(h, risen): &(f64, f64)| (risen - slope).abs() < 0.01 * slope + 1.2e-6 / h;
                prop_assert!(risen.iter().any(is_near), "{}: {slope}, not {risen:?}", p.name);
            }
        }
    }

    #[test]
    fn the_future_changes_no_logit_of_the_past(c in configs()) {
        let t = c.model.context;
        for mut engine in engines(&c) {
            let x = random_batch(c.train.seed, 2, t, VOCAB).x;
            let before = engine.logits(&x, 2).unwrap();
            for position in 0..t {
                let mut x = x.clone();
                x[position] = (x[position] + 1) % VOCAB as u32; // of the first of two rows
                let after = engine.logits(&x, 2).unwrap();
                let differs = |t: usize| before[t * VOCAB..][..VOCAB] != after[t * VOCAB..][..VOCAB];
                prop_assert!((0..position).all(|t| !differs(t)), "token {position} reaches back");
                prop_assert!(differs(position), "token {position} is not seen");
                prop_assert!((t..2 * t).all(|t| !differs(t)), "token {position} reaches another row");
            }
        }
    }

    /// A run that is written to files after two steps and read by another process's engine.
    #[test]
    fn what_was_saved_goes_on_to_the_bit(c in configs()) {
        let train = |engine: &mut dyn Engine, steps: std::ops::RangeInclusive<u64>| {
            for step in steps {
                let batch = random_batch(step, 3, c.model.context, VOCAB);
                engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
                engine.update(&c.train, Update { step, lr: 1e-2 }).unwrap();
            }
        };
        const PARTS: [Part; 3] = [Part::Params, Part::Moment1, Part::Moment2];
        for (mut straight, mut resumed) in engines(&c).into_iter().zip(engines(&c)) {
            let layout = straight.layout().clone();
            train(&mut *straight, 1..=2);
            let [p, m, v] = PARTS.map(|part| straight.read(part).unwrap());
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("state.safetensors");
            let bytes = safetensors::to_bytes(&layout, &[("", &p), ("m.", &m), ("v.", &v)]).unwrap();
            files::write_atomic(&path, &bytes).unwrap();
            let read = safetensors::read(&path, &layout, &["", "m.", "v."]).unwrap();
            for (part, values) in PARTS.into_iter().zip(&read) {
                resumed.write(part, values).unwrap();
            }
            train(&mut *straight, 3..=4);
            train(&mut *resumed, 3..=4);
            for part in PARTS {
                prop_assert!(straight.read(part).unwrap() == resumed.read(part).unwrap(), "{part:?}");
            }
        }
    }

    /// A prompt in one pass and then a token at a time, against all tokens in one pass: the same logits, and so the same
    /// greedy tokens.
    #[test]
    fn a_cache_gives_what_a_full_pass_gives(c in configs(), prompt in 1usize..=8) {
        let (t, mut tape) = (c.model.context, Tape::new(&c, VOCAB, "cpu").unwrap());
        let weights = weights(tape.layout(), c.train.seed);
        tape.write(Part::Params, &weights).unwrap();
        let tokens = random_batch(c.train.seed, 1, t, VOCAB).x;
        let mut decoder = Decoder::new(&c.model, VOCAB, &weights, t, 2).unwrap();
        let mut fed = prompt.min(t);
        let mut close = |len: usize, got: &[f32]| {
            let want = &tape.logits(&tokens[..len], 1).unwrap()[(len - 1) * VOCAB..];
            let off = norm(&got.iter().zip(want).map(|(a, b)| a - b).collect::<Vec<_>>());
            off < 1e-4 * norm(want) + 1e-6
        };
        prop_assert!(close(fed, decoder.feed(&tokens[..fed]).unwrap()), "the prompt");
        while fed < t {
            fed += 1;
            prop_assert!(close(fed, decoder.feed(&tokens[fed - 1..fed]).unwrap()), "token {fed}");
        }
        // Gone back to, the same again.
        prop_assert!(decoder.rewind(1));
        prop_assert!(close(t, decoder.feed(&tokens[1..]).unwrap()), "after going back");
        let ends = matches!(c.model.position, Position::Learned | Position::Sinusoidal);
        prop_assert_eq!((decoder.room(), decoder.feed(&[1]).is_err()), (ends.then_some(0), ends));
    }

    #[test]
    fn the_cost_counts_the_parameters_that_there_are(c in configs()) {
        let (layout, cost) = (Layout::of(&c.model, VOCAB), Cost::of(&c, VOCAB));
        prop_assert_eq!(cost.params, layout.len() as u64);
        let table = layout.get("transformer.wpe.weight").map_or(0, exp::model::Param::len);
        prop_assert_eq!(cost.params_without_positions, (layout.len() - table) as u64);
    }
}

#[test]
fn with_each_switch_one_batch_is_learnt_by_heart() {
    let mut all = config(2, 2, 32, 16); // Llama's block with normed queries and keys
    let m = &mut all.model;
    (m.norm, m.position, m.mlp, m.kv_heads) = (Norm::RmsNorm, Position::Rope, Mlp::SwiGlu, 1);
    (m.bias, m.tie_embeddings, m.qk_norm) = (false, false, true);
    for c in one_by_one().into_iter().chain([all]) {
        let batch = random_batch(7, 2, 16, VOCAB);
        for mut engine in engines(&c) {
            for step in 1..=150 {
                engine.accumulate(&batch, Place { step, micro: 0 }, 1).unwrap();
                engine.update(&c.train, Update { step, lr: 3e-3 }).unwrap();
            }
            let loss = engine.loss(&batch).unwrap();
            assert!(loss < 0.1, "{loss} with the engine {} and {:?}", engine.name(), c.model);
        }
    }
}

#[test]
fn the_cpu_engine_knows_every_switch_and_says_what_it_does_not() {
    for mut c in one_by_one() {
        c.run.device = "cpu".into();
        let auto = exp::engine::build(&c, VOCAB, "cpu", 1).unwrap();
        assert_eq!((auto.name(), c.engine()), ("cpu", EngineKind::Cpu), "{:?}", c.model);
    }
    let mut c = config(2, 2, 32, 16);
    (c.run.engine, c.train.dtype) = (EngineKind::Cpu, Dtype::Bf16);
    assert_eq!(c.beyond_cpu_engine(), Some("train.dtype"));
    let error = exp::engine::build(&c, VOCAB, "cpu", 1).err().unwrap();
    assert!(error.why.contains("no layers") && error.hint.unwrap().contains("tape"));
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn random(seed: u64, shape: &[usize]) -> Tensor {
    let mut values = vec![0.0; shape.iter().product()];
    rng::fill_normal(&mut rng::stream(seed, "test/tensor"), 1.0, &mut values);
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Zhang and Sennrich (2019), equation 4, with 1e-5 beside the mean square.
#[test]
fn an_rms_norm_is_its_definition() {
    let (x, w) = (random(1, &[3, 5]), random(2, &[5]));
    let (got, x, w) = (numbers(&rms_norm(&x, &w, 1e-5).unwrap()), numbers(&x), numbers(&w));
    for (row, got) in x.chunks(5).zip(got.chunks(5)) {
        let square = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 5.0;
        for ((x, w), got) in row.iter().zip(&w).zip(got) {
            let want = f64::from(*x) / (square + 1e-5).sqrt() * f64::from(*w);
            assert!((f64::from(*got) - want).abs() < 1e-6, "{got}, not {want}");
        }
    }
    let tiny = Tensor::new(&[[1e-4f32, 1e-4]], &Device::Cpu).unwrap();
    let got = numbers(&rms_norm(&tiny, &Tensor::new(&[1f32, 1.0], &Device::Cpu).unwrap(), 1e-5).unwrap())[0];
    assert!((f64::from(got) - 1e-4 / (1e-8f64 + 1e-5).sqrt()).abs() < 1e-6, "{got}: epsilon counts");
}

/// HF Llama's convention: x·cos + rotate_half(x)·sin, where rotate_half puts the negated second half before the first.
#[test]
fn rope_is_that_of_llama() {
    let (t, w, theta) = (7, 6, 500.0);
    let x = random(3, &[2, 3, t, w]);
    let got = numbers(&rotate(&x, theta).unwrap());
    let x = numbers(&x);
    for (i, got) in got.iter().enumerate() {
        let (position, j) = (i / w % t, i % w);
        let angle = position as f64 * f64::powf(theta, -2.0 * (j % 3) as f64 / w as f64);
        let half = f64::from(if j < 3 { -x[i + 3] } else { x[i - 3] });
        let want = f64::from(x[i]) * angle.cos() + half * angle.sin();
        assert!((f64::from(*got) - want).abs() < 1e-6, "{got}, not {want}");
    }
    assert_eq!(got[..w], x[..w], "the first position is not rotated");
}

/// What a query has to say to a key depends on the distance between them alone.
#[test]
fn rope_knows_only_distances() {
    let t = 12;
    let everywhere = |seed| random(seed, &[1, 1, 1, 8]).expand((1, 1, t, 8)).unwrap().contiguous().unwrap();
    let (q, k) = (rotate(&everywhere(4), 1e4).unwrap(), rotate(&everywhere(5), 1e4).unwrap());
    let scores: Vec<Vec<f32>> =
        q.matmul(&k.t().unwrap()).unwrap().squeeze(0).unwrap().squeeze(0).unwrap().to_vec2().unwrap();
    for i in 1..t {
        for j in 1..t {
            assert!((scores[i][j] - scores[i - 1][j - 1]).abs() < 1e-4, "{i} and {j}");
        }
    }
    assert!((scores[5][0] - scores[5][1]).abs() > 1e-2, "and distances count");
    let weights = numbers(&attention_weights(&q, &k, 0.3).unwrap());
    assert!((weights.iter().sum::<f32>() - t as f32).abs() < 1e-4);
}

/// Vaswani et al. (2017), section 3.5.
#[test]
fn sinusoids_are_those_of_the_paper() {
    let table: Vec<Vec<f32>> = sinusoids(9, 6, &Device::Cpu).unwrap().to_vec2().unwrap();
    assert_eq!(table[0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    for (position, row) in table.iter().enumerate() {
        for i in 0..3 {
            let angle = position as f64 / 10_000f64.powf(2.0 * i as f64 / 6.0);
            for (got, want) in [(row[2 * i], angle.sin()), (row[2 * i + 1], angle.cos())] {
                assert!((f64::from(got) - want).abs() < 1e-7, "{got}, not {want}");
            }
        }
    }
}

/// The last token of one layer sees the others as a set where no position enters, and as a sequence where one does.
#[test]
fn without_positions_a_layer_sees_a_set() {
    for position in Position::WORDS {
        let mut c = config(1, 2, 32, 8);
        c.model.position = serde_json::from_value((*position).into()).unwrap();
        let mut tape = Tape::new(&c, VOCAB, "cpu").unwrap();
        let weights = weights(tape.layout(), 1);
        tape.write(Part::Params, &weights).unwrap();
        let mut last = |tokens: &[u32]| tape.logits(tokens, 1).unwrap()[7 * VOCAB..].to_vec();
        let (a, b) = (last(&[1, 2, 3, 4, 5, 6, 7, 8]), last(&[7, 3, 1, 2, 6, 5, 4, 8]));
        let off = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert_eq!(off < 1e-5, c.model.position == Position::None, "{position}: {off}");
    }
}

#[test]
fn the_base_of_rope_counts() {
    let logits = |theta: f64| {
        let mut c = config(1, 2, 32, 8);
        (c.model.position, c.model.rope_theta) = (Position::Rope, theta);
        let mut tape = Tape::new(&c, VOCAB, "cpu").unwrap();
        let weights = weights(tape.layout(), 1);
        tape.write(Part::Params, &weights).unwrap();
        tape.logits(&[1, 2, 3, 4], 1).unwrap()
    };
    assert_ne!(logits(1e4), logits(1e2));
}

/// What a feed-forward sublayer computes, from its definition: between two norms that are undone, with weights by name.
#[test]
fn each_feed_forward_is_its_definition() {
    let (d, f) = (4, 6);
    let tanh_gelu =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    type Inner<'a> = (Mlp, &'a dyn Fn(f64, f64) -> f64);
    let inner: [Inner<'_>; 3] = [
        (Mlp::GeluTanh, &|x, _| tanh_gelu(x)),
        (Mlp::Relu2, &|x, _| x.max(0.0).powi(2)),
        (Mlp::SwiGlu, &|x, gate| gate / (1.0 + (-gate).exp()) * x),
    ];
    for (mlp, inner) in inner {
        let mut c = config(1, 1, d, 4);
        (c.model.mlp, c.model.d_ff, c.model.bias, c.model.norm) = (mlp, f, false, Norm::RmsNorm);
        (c.model.position, c.model.tie_embeddings) = (Position::None, false);
        let mut tape = Tape::new(&c, d, "cpu").unwrap(); // as many tokens as the width, so that the head can be the identity
        let layout = tape.layout().clone();
        let mut weights = weights(&layout, 6);
        let range = |name: &str| layout.get(name).unwrap().range();
        let h = "transformer.h.0";
        weights[range(&format!("{h}.attn.c_proj.weight"))].fill(0.0); // attention adds nothing
        for norm in ["transformer.ln_f.weight", &format!("{h}.ln_2.weight")] {
            weights[range(norm)].fill(1.0);
        }
        for (i, w) in weights[range("lm_head.weight")].iter_mut().enumerate() {
            *w = f32::from(i % d == i / d);
        }
        tape.write(Part::Params, &weights).unwrap();
        let got = tape.logits(&[2], 1).unwrap();

        let matrix = |name: &str| weights[range(&format!("{h}.mlp.{name}.weight"))].to_vec();
        let times = |w: &[f32], x: &[f64]| -> Vec<f64> {
            w.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
        };
        let normed = |x: &[f64]| -> Vec<f64> {
            let rms = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-5).sqrt();
            x.iter().map(|x| x / rms).collect()
        };
        let x: Vec<f64> = weights[range("transformer.wte.weight")][2 * d..][..d].iter().map(|&x| x.into()).collect();
        let up = times(&matrix("c_fc"), &normed(&x));
        let gate = if mlp == Mlp::SwiGlu { times(&matrix("c_gate"), &normed(&x)) } else { vec![0.0; f] };
        let inner: Vec<f64> = up.iter().zip(&gate).map(|(up, gate)| inner(*up, *gate)).collect();
        let sum: Vec<f64> = x.iter().zip(times(&matrix("c_proj"), &inner)).map(|(x, y)| x + y).collect();
        for (got, want) in got.iter().zip(normed(&sum)) {
            assert!((f64::from(*got) - want).abs() < 1e-5, "{mlp:?}: {got}, not {want}");
        }
    }
}

/// Queries and keys of any length meet as those of one length do: the scale of their matrix has no effect.
#[test]
fn normed_queries_and_keys_forget_their_length() {
    let logits = |qk_norm: bool, scale: f32| {
        let mut c = config(1, 2, 32, 8);
        (c.model.qk_norm, c.model.bias) = (qk_norm, false);
        let mut tape = Tape::new(&c, VOCAB, "cpu").unwrap();
        let layout = tape.layout().clone();
        let mut weights = weights(&layout, 1);
        let c_attn = layout.get("transformer.h.0.attn.c_attn.weight").unwrap().range();
        weights[c_attn][..2 * 32 * 32].iter_mut().for_each(|w| *w *= 10.0 * scale); // the rows of queries and keys
        tape.write(Part::Params, &weights).unwrap();
        tape.logits(&[1, 2, 3, 4], 1).unwrap()
    };
    let off = |qk_norm| {
        let (a, b) = (logits(qk_norm, 1.0), logits(qk_norm, 3.0));
        a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    };
    assert!(off(true) < 1e-4 && off(false) > 1e-3, "{} {}", off(true), off(false));
}

/// In one layer, keys and values follow from their own tokens alone: with positions that are distances, a cache whose
/// oldest entries made way for new ones is the last window from anew.
#[test]
fn a_full_cache_slides_where_positions_are_distances() {
    for position in [Position::Rope, Position::None] {
        let mut c = config(1, 2, 32, 8);
        c.model.position = position;
        let mut tape = Tape::new(&c, VOCAB, "cpu").unwrap();
        let weights = weights(tape.layout(), 3);
        tape.write(Part::Params, &weights).unwrap();
        let tokens = random_batch(5, 1, 29, VOCAB).x;
        let mut decoder = Decoder::new(&c.model, VOCAB, &weights, 100, 1).unwrap();
        assert_eq!(decoder.capacity(), 8, "a context is all that is ever seen");
        decoder.feed(&tokens[..5]).unwrap();
        for end in (8..=29).step_by(3) {
            let got = decoder.feed(&tokens[end - 3..end]).unwrap().to_vec();
            let want = &tape.logits(&tokens[end - 8..end], 1).unwrap()[7 * VOCAB..];
            let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{position:?}, {end} tokens: {off}");
        }
        assert!(!decoder.rewind(2) && decoder.is_empty(), "the first tokens are gone");
    }
}

#[test]
fn threads_change_no_bit_of_what_a_decoder_computes() {
    let mut c = config(2, 8, 512, 128);
    (c.model.mlp, c.model.position, c.model.kv_heads) = (Mlp::SwiGlu, Position::Rope, 4);
    let layout = Layout::of(&c.model, VOCAB);
    let weights = weights(&layout, 4);
    let tokens = random_batch(6, 1, 128, VOCAB).x;
    let logits = |threads: usize| {
        let mut decoder = Decoder::new(&c.model, VOCAB, &weights, 128, threads).unwrap();
        let prompt = decoder.feed(&tokens[..120]).unwrap().to_vec();
        [prompt, decoder.feed(&tokens[120..121]).unwrap().to_vec()]
    };
    assert_eq!(logits(1), logits(3));
}

/// Greedy texts beyond the context against full passes over the windows that the rule names; and a second text of a
/// writer, with the same prompt or another, is what a new writer writes.
#[test]
fn a_writer_goes_on_beyond_the_context_by_its_rule() {
    for position in [Position::Learned, Position::Sinusoidal, Position::Rope] {
        let mut c = config(1, 2, 32, 8);
        c.model.position = position;
        let mut tape = Tape::new(&c, VOCAB, "cpu").unwrap();
        let weights = weights(tape.layout(), 3);
        tape.write(Part::Params, &weights).unwrap();
        let writer = || Writer::new(&c.model, VOCAB, &weights, 40, 1).unwrap();
        let write = |writer: &mut Writer, prompt: &[u32], sampling: Sampling, tokens: usize| {
            let mut rng = generate::stream(1, 0);
            writer.begin(prompt).unwrap();
            for _ in 0..tokens {
                writer.next(&sampling, &mut rng).unwrap();
            }
            writer.tokens().to_vec()
        };
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        for prompt in [&[1, 2, 3][..], &[3, 1, 4, 1, 5, 9, 2, 6, 5, 3]] {
            let mut want = prompt.to_vec();
            let mut first = want.len().saturating_sub(8);
            for _ in 0..20 {
                if want.len() - first > 8 {
                    first = want.len() - if position == Position::Rope { 8 } else { 4 };
                }
                let logits = tape.logits(&want[first..], 1).unwrap();
                let last = &logits[logits.len() - VOCAB..];
                want.push((0..VOCAB).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap() as u32);
            }
            assert_eq!(write(&mut writer(), prompt, greedy, 20), want, "{position:?}");
        }
        let mut one = writer();
        for (prompt, tokens) in [(&[1, 2, 3][..], 2), (&[1, 2, 3], 30), (&[1, 2, 3], 4), (&[1, 2], 4), (&[7; 20], 3)] {
            let again = write(&mut one, prompt, Sampling::default(), tokens);
            assert_eq!(again, write(&mut writer(), prompt, Sampling::default(), tokens), "{position:?} {prompt:?}");
        }
    }
}
