//! The learning rate of each update, as nanoGPT's `get_lr` gives it.

use crate::spec::config::{Schedule, TrainConfig};

/// The learning rate of update `step`, from 1, which nanoGPT calls iteration `step - 1`: a straight line up over
/// `warmup_steps`, then from `lr` down to `min_lr` at `decay_steps`, and `min_lr` from there on. `constant` stays at `lr`.
pub fn lr_at(t: &TrainConfig, step: u64) -> f64 {
    let iteration = step - 1;
    if iteration < t.warmup_steps {
        return t.lr * (iteration + 1) as f64 / (t.warmup_steps + 1) as f64;
    }
    if t.schedule == Schedule::Constant {
        return t.lr;
    }
    if iteration >= t.decay_steps {
        return t.min_lr;
    }
    let done = (iteration - t.warmup_steps) as f64 / (t.decay_steps - t.warmup_steps) as f64;
    let left = match t.schedule {
        Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        Schedule::Linear => 1.0 - done,
        Schedule::Constant => 1.0,
    };
    t.min_lr + left * (t.lr - t.min_lr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_then_falls_and_stays() {
        let mut t = TrainConfig { lr: 1.0, min_lr: 0.1, warmup_steps: 4, decay_steps: 14, ..TrainConfig::default() };
        let rates = |t: &TrainConfig| [1, 4, 5, 10, 15, 100].map(|step| (lr_at(t, step) * 1e6).round() / 1e6);
        assert_eq!(rates(&t), [0.2, 0.8, 1.0, 0.55, 0.1, 0.1]);
        t.schedule = Schedule::Linear;
        assert_eq!(rates(&t), [0.2, 0.8, 1.0, 0.55, 0.1, 0.1]);
        assert_eq!(lr_at(&t, 7), 0.1 + 0.8 * 0.9);
        t.schedule = Schedule::Constant;
        assert_eq!(rates(&t), [0.2, 0.8, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_warm_up_beyond_the_decay_ends_at_the_lowest_rate() {
        let t = TrainConfig { warmup_steps: 9, decay_steps: 4, ..TrainConfig::default() };
        assert_eq!((lr_at(&t, 9), lr_at(&t, 10)), (t.lr * 0.9, t.min_lr));
        let none = TrainConfig { warmup_steps: 0, decay_steps: 1, ..t };
        assert_eq!((lr_at(&none, 1), lr_at(&none, 2)), (none.lr, none.min_lr));
    }
}
