//! What computes a training step. An engine owns the parameters, their gradient and the optimizer's moments on its
//! device, and gives them away as flat vectors in the order of [`Layout`]; the loop in [`crate::train`] knows no tensor.
//!
//! Two engines stand behind the trait: [`tape`], candle's autograd, which runs anywhere and is the reference; and `cpu`,
//! explicit layers over a preallocated workspace. For one config they agree to rounding.

pub mod tape;

use crate::{
    base::Result,
    model::Layout,
    spec::{RunConfig, config::TrainConfig},
};

/// Token windows and what follows them, both (B, T), row by row. `y[b, t]` is the token after `x[b, t]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Input tokens, (B, T).
    pub x: Vec<u32>,
    /// Target tokens, (B, T).
    pub y: Vec<u32>,
    /// B.
    pub batch: usize,
    /// T.
    pub context: usize,
}

impl Batch {
    /// Room for `batch` windows of `context` tokens.
    pub fn zeros(batch: usize, context: usize) -> Self {
        Self { x: vec![0; batch * context], y: vec![0; batch * context], batch, context }
    }
}

/// Where in the run a micro-batch stands: what its dropout masks follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// The number of the update that it belongs to, from 1.
    pub step: u64,
    /// Its index in the accumulation of that update, from 0.
    pub micro: u32,
}

/// One of the four flat vectors that make up the trained state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The weights.
    Params,
    /// The gradient accumulated since the last update.
    Grads,
    /// Adam's first moment.
    Moment1,
    /// Adam's second moment.
    Moment2,
}

/// The settings of one update that change from step to step, beside [`TrainConfig`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The number of this update, from 1: what the moments' bias correction goes by.
    pub step: u64,
    /// The learning rate.
    pub lr: f64,
}

/// Computes losses, gradients and updates of one model.
pub trait Engine {
    /// `tape` or `cpu`.
    fn name(&self) -> &'static str;

    /// The SIMD level of its kernels on this machine, or the device's kind: `avx512`, `avx2`, `scalar`, `cuda`.
    fn simd(&self) -> String;

    /// Names, shapes and offsets of the parameters in the flat vectors.
    fn layout(&self) -> &Layout;

    /// Forward and backward of one micro-batch with dropout: adds the gradient of loss / `divisor` to the accumulated
    /// one and returns the loss itself, the mean cross-entropy over all B·T positions in nats.
    fn accumulate(&mut self, batch: &Batch, at: Place, divisor: usize) -> Result<f64>;

    /// Clips the accumulated gradient by its global norm (`grad_clip`, 0: not), updates weights and moments, clears the
    /// gradient, and returns the norm before clipping. Weight decay applies to tensors of two and more dimensions.
    fn update(&mut self, train: &TrainConfig, update: Update) -> Result<f64>;

    /// The mean cross-entropy of a batch in nats, without dropout or gradient. Any B; T up to the context.
    fn loss(&mut self, batch: &Batch) -> Result<f64>;

    /// Next-token logits (B, T, V) for tokens (B, T), without dropout. T up to the context.
    fn logits(&mut self, tokens: &[u32], batch: usize) -> Result<Vec<f32>>;

    /// A copy of one part, `layout().len()` numbers.
    fn read(&self, part: Part) -> Result<Vec<f32>>;

    /// Replaces one part. Errors where the length is not `layout().len()`.
    fn write(&mut self, part: Part, values: &[f32]) -> Result<()>;
}

/// The engine for a config: what `run.engine` names, or the fastest that knows the settings and the device. `device` is
/// `cpu`, `cuda:N` or `metal`; `threads` is how many the engine may compute with. Weights are initialised from the seed.
pub fn build(config: &RunConfig, vocab: usize, device: &str, threads: usize) -> Result<Box<dyn Engine>> {
    let _ = (config, vocab, device, threads);
    todo!()
}
