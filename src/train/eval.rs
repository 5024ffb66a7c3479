//! Losses over the fixed evaluation windows.

use std::time::Instant;

use super::Stop;
use crate::{
    base::Result,
    data::{Dataset, Split},
    engine::{Batch, Engine},
    event::Eval,
    spec::RunConfig,
};

/// The mean losses over `eval.batches` batches of `eval.batch` windows of each split, after `step` updates. `None` where
/// a stop was asked for meanwhile.
pub fn evaluate(
    engine: &mut dyn Engine,
    data: &Dataset,
    config: &RunConfig,
    step: u64,
    stop: &Stop,
) -> Result<Option<Eval>> {
    let begin = Instant::now();
    let mut batch = Batch::zeros(config.eval.batch, config.model.context);
    let mut mean = |split| -> Result<Option<f64>> {
        let mut sum = 0.0;
        for index in 0..config.eval.batches {
            if stop.requested() {
                return Ok(None);
            }
            data.fill_eval(split, index, &mut batch);
            sum += engine.loss(&batch)?;
        }
        Ok(Some(sum / config.eval.batches as f64))
    };
    let (Some(train_loss), Some(val_loss)) = (mean(Split::Train)?, mean(Split::Val)?) else { return Ok(None) };
    let bits_per_char = val_loss / std::f64::consts::LN_2 / data.info().chars_per_token;
    let eval_ms = begin.elapsed().as_secs_f64() * 1e3;
    Ok(Some(Eval { step, train_loss, val_loss, bits_per_char, eval_ms }))
}
