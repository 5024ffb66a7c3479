//! Losses over windows of a corpus: the fixed ones of every evaluation, or all of a split.

use std::time::Instant;

use super::Stop;
use crate::{
    base::Result,
    data::{Dataset, Split},
    engine::{Batch, Engine},
    event::Eval,
    spec::RunConfig,
};

/// A mean over tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Cross-entropy in nats per token.
    pub loss: f64,
    /// Tokens that were predicted.
    pub tokens: u64,
    /// Windows that they stood in.
    pub windows: u64,
}

/// Asked before each batch, with the tokens that are done and those to do, whether to go on.
pub type GoOn<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

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
    let windows = config.eval.batches * config.eval.batch;
    let mut mean = |split| fixed(engine, data, split, windows, &mut batch, &mut |_, _| !stop.requested());
    let (Some(train), Some(val)) = (mean(Split::Train)?, mean(Split::Val)?) else { return Ok(None) };
    let bits_per_char = bits_per_char(val.loss, data.info().chars_per_token);
    let eval_ms = begin.elapsed().as_secs_f64() * 1e3;
    Ok(Some(Eval { step, train_loss: train.loss, val_loss: val.loss, bits_per_char, eval_ms }))
}

/// A loss in nats per token as bits per character.
pub fn bits_per_char(loss: f64, chars_per_token: f64) -> f64 {
    loss / std::f64::consts::LN_2 / chars_per_token
}

/// The mean loss over the first `windows` of a split's evaluation windows, as many at once as `batch` has room for.
/// `None` where it was asked not to go on.
pub fn fixed(
    engine: &mut dyn Engine,
    data: &Dataset,
    split: Split,
    windows: usize,
    batch: &mut Batch,
    go_on: GoOn,
) -> Result<Option<Mean>> {
    let (rows, context) = (batch.batch, batch.context);
    let tokens = (windows * context) as u64;
    let mut sum = 0.0;
    for first in (0..windows).step_by(rows) {
        if !go_on((first * context) as u64, tokens) {
            return Ok(None);
        }
        data.fill_eval(split, first / rows, batch);
        let here = rows.min(windows - first);
        if here == rows {
            sum += engine.loss(batch)?;
        } else {
            sum += engine.loss(&rows_of(batch, here))? * here as f64 / rows as f64;
        }
    }
    Ok(Some(Mean { loss: sum / (windows as f64 / rows as f64), tokens, windows: windows as u64 }))
}

/// The mean loss over all of a split, walked in windows of the context that neither overlap nor leave a gap, the last one
/// as long as what is left. So every token but the first is predicted once, from the tokens before it in its window: of
/// those there are 0 to T - 1 beside the one that stands right before it, and nothing is carried from window to window.
/// `None` where it was asked not to go on.
pub fn walk(
    engine: &mut dyn Engine,
    data: &Dataset,
    split: Split,
    (rows, context): (usize, usize),
    go_on: GoOn,
) -> Result<Option<Mean>> {
    let tokens = data.info().tokens(split).saturating_sub(1) as usize; // that can be predicted
    let (mut sum, mut done) = (0.0, 0);
    while done < tokens {
        if !go_on(done as u64, tokens as u64) {
            return Ok(None);
        }
        let whole = (tokens - done) / context;
        let (rows, context) = if whole == 0 { (1, tokens - done) } else { (rows.min(whole), context) };
        let mut batch = Batch::zeros(rows, context);
        data.fill_walk(split, done, &mut batch);
        sum += engine.loss(&batch)? * (rows * context) as f64;
        done += rows * context;
    }
    let windows = tokens.div_ceil(context) as u64;
    Ok(Some(Mean { loss: sum / tokens as f64, tokens: tokens as u64, windows }))
}

/// The first rows of a batch.
fn rows_of(batch: &Batch, rows: usize) -> Batch {
    let of = |tokens: &[u32]| tokens[..rows * batch.context].to_vec();
    Batch { x: of(&batch.x), y: of(&batch.y), batch: rows, context: batch.context }
}
