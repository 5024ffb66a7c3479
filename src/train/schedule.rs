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
