//! Which of two runs needs more memory, as far as that follows from their settings alone.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::spec::{RunConfig, leaf};

/// What takes the more memory the larger it is.
const SIZES: [&str; 4] = ["train.batch", "model.layers", "model.d_model", "model.context"];

/// What takes none.
const NOTHING: [&str; 4] = ["train.seed", "run.retries", "run.timeout", leaf::PRESET];

/// What decides how much memory a run needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    sizes: Vec<u64>,
    /// All else: two runs that differ in it are not compared.
    rest: BTreeMap<&'static str, Value>,
}

impl Needs {
    /// Of a run with that config.
    pub fn of(config: &RunConfig) -> Self {
        let fixed = RunConfig::default();
        let size = |path: &str| leaf::find(path).and_then(|leaf| leaf.get(config).as_u64()).unwrap_or(0);
        // One that follows from the sizes says no more than they do.
        let follows =
            |leaf: &leaf::Leaf| leaf.path == "model.d_ff" && leaf.get(config) == leaf.default_in(config, &fixed);
        let rest = leaf::all().iter().filter(|leaf| {
            let is_size = SIZES.contains(&leaf.path) || follows(leaf);
            !is_size && leaf.group() != "checkpoint" && !NOTHING.contains(&leaf.path)
        });
        Self { sizes: SIZES.map(size).to_vec(), rest: rest.map(|leaf| (leaf.path, leaf.get(config))).collect() }
    }

    /// Whether a run surely needs more than another: nothing of it is smaller, something is larger, and all else is equal.
    pub fn exceed(&self, other: &Self) -> bool {
        let no_smaller = self.sizes.iter().zip(&other.sizes).all(|(mine, theirs)| mine >= theirs);
        no_smaller && self.sizes != other.sizes && self.rest == other.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(change: impl Fn(&mut RunConfig)) -> Needs {
        let mut config = RunConfig::default();
        change(&mut config);
        Needs::of(&config)
    }

    fn width(config: &mut RunConfig, d_model: usize) {
        (config.model.d_model, config.model.d_ff) = (d_model, 4 * d_model);
    }

    #[test]
    fn a_run_needs_more_where_something_is_larger_and_nothing_is_smaller_or_different() {
        let base = needs(|_| ());
        let larger: [fn(&mut RunConfig); 6] = [
            |c| c.train.batch += 1,
            |c| c.model.layers += 1,
            |c| c.model.context += 1,
            |c| width(c, 256),
            |c| (c.train.batch, c.model.layers) = (100, 100),
            |c| (c.train.batch, c.train.seed, c.checkpoint.every, c.run.retries) = (100, 7, 7, 7),
        ];
        for (n, change) in larger.iter().enumerate() {
            assert!(needs(change).exceed(&base) && !base.exceed(&needs(change)), "change {n}");
        }
        let not_comparable: [fn(&mut RunConfig); 8] = [
            |_| (),
            |c| c.train.seed = 7,
            |c| (c.train.batch, c.model.layers) = (100, 1),
            |c| (c.train.batch, c.train.lr) = (100, 1.0),
            |c| (c.train.batch, c.model.heads) = (100, 2),
            |c| c.model.d_ff = 4096,
            |c| c.model.d_model = 256,
            |c| (c.train.batch, c.eval.batch) = (100, 1),
        ];
        for (n, change) in not_comparable.iter().enumerate() {
            assert!(!needs(change).exceed(&base) && !base.exceed(&needs(change)), "change {n}");
        }
        let written = |d_model| needs(|c| (c.model.d_model, c.model.d_ff) = (d_model, 100));
        assert!(written(256).exceed(&written(128)), "a written d_ff is one that both have");
    }
}
