//! Properties of specs that nobody wrote by hand.

use std::collections::HashSet;

use exp::spec::{Kind, identity::run_id, leaf};
use proptest::prelude::*;

use super::{sweep, try_load};

const VALID: &str = include_str!("specs/everything.yaml");

/// A value that a leaf takes, in several spellings of one meaning.
fn spelled(kind: &Kind, n: u64, form: usize) -> String {
    match kind {
        Kind::Integer { .. } => {
            let n = n % 1000 + 1;
            [n.to_string(), format!("{n}.0"), format!("{n}e0"), format!("{:e}", n as f64)][form % 4].clone()
        }
        Kind::Number(..) => {
            let x = (n % 400 + 1) as f64 / 1024.0;
            [format!("{x}"), format!("{x:e}"), format!("{x:E}"), format!("{x:?}")][form % 4].clone()
        }
        Kind::Bool => n.is_multiple_of(2).to_string(),
        Kind::Words(words) => words[n as usize % words.len()].to_string(),
        _ => ["auto", "cpu", "cuda", "cuda:3"][n as usize % 4].to_string(),
    }
}

/// Leaves that go together whatever their values.
fn free(path: &str) -> bool {
    !matches!(
        path,
        "model.preset"
            | "model.heads"
            | "model.kv_heads"
            | "model.d_model"
            | "train.min_lr"
            | "train.dtype"
            | "run.engine"
            | "run.init_from"
    ) && !path.starts_with("data.")
}

fn leaves() -> Vec<&'static leaf::Leaf> {
    leaf::all().iter().filter(|leaf| free(leaf.path)).collect()
}

/// A leaf and its value, in one of the ways to write it.
fn written(leaf: &leaf::Leaf, n: u64, form: usize) -> String {
    let value = spelled(&leaf.kind, n, form);
    match form % 3 {
        0 => format!("{}: {value}\n", leaf.path),
        1 if leaf::find(leaf.word()).is_some_and(|found| found.path == leaf.path) => {
            format!("{}: {value}\n", leaf.word())
        }
        _ => format!("{}: {value}   # {n}\n", leaf.path),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_grid_is_a_product_in_a_stable_order(sizes in prop::collection::vec(1usize..5, 1..4), seeds in 1usize..4) {
        let names = ["layers", "steps", "warmup_steps"];
        let axis = |(name, size): (&&str, &usize)| {
            format!("  {name}: [{}]\n", (1..=*size).map(|n| n.to_string()).collect::<Vec<_>>().join(", "))
        };
        let text = format!("grid:\n{}seeds: {seeds}\n", names.iter().zip(&sizes).map(axis).collect::<String>());
        let sweep = sweep(&text);
        let all: Vec<usize> = sizes.iter().copied().chain([seeds]).collect();
        prop_assert_eq!(sweep.points.len(), all.iter().product::<usize>());
        for (index, point) in sweep.points.iter().enumerate() {
            let mut rest = index;
            let mut digits: Vec<u64> = all.iter().rev().map(|size| { let d = rest % size; rest /= size; d as u64 + 1 }).collect();
            digits.reverse();
            let got = [point.model.layers as u64, point.train.steps, point.train.warmup_steps];
            prop_assert_eq!(&got[..sizes.len()], &digits[..sizes.len()]);
            prop_assert_eq!(point.train.seed, digits[sizes.len()]);
        }
        prop_assert_eq!(&super::sweep(&text).points, &sweep.points);
    }

    #[test]
    fn spaced_axes_have_their_ends_and_never_turn_back(first in 1e-6f64..1.0, factor in 1.001f64..1e4, count in 2usize..40) {
        for way in ["linspace", "logspace"] {
            let (first, last) = (format!("{first:e}"), format!("{:e}", first * factor));
            let points = sweep(&format!("grid: {{lr: {{{way}: [{first}, {last}, {count}]}}}}\nmin_lr: 0\n")).points;
            let values: Vec<f64> = points.iter().map(|point| point.train.lr).collect();
            prop_assert_eq!(values.len(), count);
            prop_assert_eq!((values[0], values[count - 1]), (first.parse().unwrap(), last.parse().unwrap()));
            for two in values.windows(2) {
                prop_assert!(two[1] > two[0] * (1.0 - 1e-5), "{:?}", values);
            }
            for inner in &values[1..count - 1] {
                prop_assert_eq!(format!("{inner:.5e}").parse::<f64>().unwrap(), *inner);
            }
        }
    }

    #[test]
    fn a_range_has_the_values_of_python_s(start in 1i64..50, stop in 1i64..50, step in -7i64..7) {
        let text = format!("grid: {{layers: {{range: [{start}, {stop}, {step}]}}}}\n");
        let mut wanted = Vec::new();
        let mut n = start;
        while step != 0 && (step > 0 && n < stop || step < 0 && n > stop) {
            wanted.push(n as usize);
            n += step;
        }
        match try_load(&text, &[]) {
            Ok(sweep) => prop_assert_eq!(sweep.points.iter().map(|p| p.model.layers).collect::<Vec<_>>(), wanted),
            Err(error) => prop_assert!(wanted.is_empty(), "{}", error),
        }
    }

    #[test]
    fn excluded_points_are_those_for_which_the_condition_holds(
        layers in prop::collection::btree_set(1u32..20, 1..6), heads in prop::sample::subsequence(vec![1u32, 2, 4, 8], 1..4), least in 1u32..20, most in 1u32..9
    ) {
        let layers: Vec<u32> = layers.into_iter().collect();
        let condition = format!("layers >= {least} and not heads > {most}");
        let text = format!("grid: {{layers: {layers:?}, heads: {heads:?}}}\nexclude: ['{condition}']\n");
        let all = layers.len() * heads.len();
        let gone = layers.iter().filter(|n| **n >= least).count() * heads.iter().filter(|n| **n <= most).count();
        match try_load(&text, &[]) {
            Ok(sweep) => prop_assert_eq!((sweep.excluded, sweep.points.len()), (gone, all - gone)),
            Err(error) => prop_assert!(gone == 0 || gone == all, "{}", error),
        }
    }

    #[test]
    fn a_larger_number_of_samples_begins_with_the_smaller(few in 1usize..20, more in 0usize..20, seed in any::<u32>()) {
        let of = |samples: usize, also: &str| {
            let text = format!("samples: {samples}\nsample_seed: {seed}\ngrid: {{lr: {{log_uniform: [1e-5, 1]}}{also}}}\n");
            sweep(&text).points.iter().map(|point| point.train.lr).collect::<Vec<_>>()
        };
        let first = of(few, "");
        prop_assert_eq!(&of(few + more, ", layers: {choice: [1, 2]}")[..few], &first[..]);
    }

    #[test]
    fn an_id_follows_the_config_and_not_its_spelling(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0usize..12, 0usize..12), 1..8)
    ) {
        let mut seen = HashSet::new();
        let picked: Vec<_> = picks.iter().map(|(index, n, a, b)| (leaves()[index.index(leaves().len())], *n, *a, *b)).collect();
        let picked: Vec<_> = picked.into_iter().filter(|(leaf, ..)| seen.insert(leaf.path)).collect();
        let one: String = picked.iter().map(|(leaf, n, a, _)| written(leaf, *n, *a)).collect();
        let two: String = picked.iter().rev().map(|(leaf, n, _, b)| written(leaf, *n, *b)).collect();
        let (one, two) = (sweep(&one).points.remove(0), sweep(&two).points.remove(0));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(run_id(&one, None), run_id(&two, None));
        let (leaf, n, ..) = picked[0];
        let other = sweep(&picked.iter().map(|(leaf, m, a, _)| {
            written(leaf, if leaf.path == picked[0].0.path { n.wrapping_add(1) } else { *m }, *a)
        }).collect::<String>()).points.remove(0);
        let differs = leaf.counts && leaf.get(&one) != leaf.get(&other);
        prop_assert_eq!(run_id(&one, None) != run_id(&other, None), differs, "{}", leaf.path);
    }

    #[test]
    fn random_text_never_panics(text in "(\\PC|[\n\t \\[\\]{}:,\\-&*!'\"#|>%@0-9a-z]){0,200}") {
        let _ = try_load(&text, &[]);
        let _ = try_load("{}", &[&text]);
        let _ = try_load("{}", &[&format!("lr={text}")]);
    }

    #[test]
    fn a_damaged_spec_never_panics(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, "[\n\t \\[\\]{}:,\\-&*!'\"#|>?~é0-9a-z]{0,4}"), 1..5)
    ) {
        let mut text: Vec<char> = VALID.chars().collect();
        for (index, length, insert) in cuts {
            let from = index.index(text.len() + 1);
            let to = (from + length).min(text.len());
            text.splice(from..to, insert.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = try_load(&text, &[]) {
            prop_assert!(!error.why.is_empty());
        }
    }
}

#[test]
fn the_spec_with_everything_in_it_is_good() {
    // By layers; learning rates, widths, samples, seeds; what the block makes of two; what is included.
    assert_eq!(sweep(VALID).points.len(), 2 * 2 * 2 * 2 * 2 + 2 * 2 * 2 * 2 + 2 + 2);
}
