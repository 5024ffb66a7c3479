//! What computes a training step. An engine owns the parameters, their gradient and the optimizer's moments on its
//! device, and gives them away as flat vectors in the order of [`Layout`]; the loop in [`crate::train`] knows no tensor.
//!
//! Two engines stand behind the trait: [`tape`], candle's autograd, which runs anywhere and is the reference; and `cpu`,
//! explicit layers over a preallocated workspace. For one config they agree to rounding.

pub mod cpu;
pub mod decode;
pub mod position;
pub mod tape;

pub use crate::data::Batch;

use crate::{
    base::{Error, Exit, Result, machine, rng::DropoutMask},
    model::Layout,
    spec::{
        RunConfig,
        config::{EngineKind, TrainConfig},
    },
};

/// Checks what an engine is given before it computes: tokens (B, T) of `context` and of `vocab` at most.
pub fn check_tokens(tokens: &[u32], batch: usize, context: usize, vocab: usize) -> Result<()> {
    let fail = |why: String| Err(Error::new(Exit::Unexpected, "running the model", why));
    if batch == 0 || tokens.is_empty() || !tokens.len().is_multiple_of(batch) {
        return fail(format!("{} tokens are not {batch} rows of equal length", tokens.len()));
    }
    if tokens.len() / batch > context {
        return fail(format!("{} positions are more than the context of {context}", tokens.len() / batch));
    }
    match tokens.iter().find(|&&t| t as usize >= vocab) {
        Some(token) => fail(format!("token {token} is outside the vocabulary of {vocab}")),
        None => Ok(()),
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

/// Where activations are dropped: nanoGPT's four sites. The number of a site is part of its mask's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Site {
    /// The sum of token and position embedding, (B, T, D); layer 0.
    Embedding = 0,
    /// The attention weights after softmax, (B, H, T, T).
    Attention = 1,
    /// What attention adds to the residual stream, (B, T, D).
    AttentionOut = 2,
    /// What the MLP adds to the residual stream, (B, T, D).
    MlpOut = 3,
}

impl Site {
    /// The mask of this site in one layer for one micro-batch. Element i of it belongs to element i of the site's
    /// activations, flat in row-major order over the whole micro-batch; indices beyond 32 bits wrap around.
    pub fn mask(self, config: &RunConfig, layer: usize, at: Place) -> DropoutMask {
        DropoutMask::new(config.model.dropout, config.train.seed, layer as u32, self as u32, at.step, at.micro)
    }
}

/// One of the four flat vectors that make up the trained state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The weights.
    Params,
    /// The gradient accumulated since the last update.
    Grads,
    /// Adam's first moment; Muon's momentum.
    Moment1,
    /// Adam's second moment; 0 for what Muon trains.
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

    /// The model name of the CPU or GPU that it computes on.
    fn processor(&self) -> String {
        machine::cpu_model()
    }

    /// Names, shapes and offsets of the parameters in the flat vectors.
    fn layout(&self) -> &Layout;

    /// Forward and backward of one micro-batch with dropout: adds the gradient of loss / `divisor` to the accumulated
    /// one and returns the loss itself, the mean cross-entropy over all B·T positions in nats.
    fn accumulate(&mut self, batch: &Batch, at: Place, divisor: usize) -> Result<f64>;

    /// Clips the accumulated gradient by its global norm (`grad_clip`, 0: not), updates weights and moments, clears the
    /// gradient, and returns the norm before clipping. Weight decay applies to tensors of two and more dimensions. The
    /// optimizer is that of the config that the engine was built for.
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
/// `cpu`, `cuda:N` (CUDA's own N in this process) or `metal`; `threads` is how many the engine may compute with. Weights
/// are initialised from the seed.
pub fn build(config: &RunConfig, vocab: usize, device: &str, threads: usize) -> Result<Box<dyn Engine>> {
    match config.run.engine {
        EngineKind::Cpu if device != "cpu" => Err(Error::new(
            Exit::Spec,
            format!("building the engine for {device}"),
            "run.engine cpu computes on CPUs only",
        )
        .hint("leave run.engine at auto, or set run.device to cpu")),
        EngineKind::Cpu => Ok(Box::new(cpu::Cpu::new(config, vocab, threads)?)),
        EngineKind::Auto if device == "cpu" && cpu::Cpu::knows(config) => {
            Ok(Box::new(cpu::Cpu::new(config, vocab, threads)?))
        }
        // On a CPU, candle has its number of threads from the environment.
        EngineKind::Auto | EngineKind::Tape => Ok(Box::new(tape::Tape::new(config, vocab, device)?)),
    }
}
