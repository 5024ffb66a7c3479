//! The CPU engine: explicit layers with hand-written backward passes over buffers that are allocated once.
//!
//! A batch is cut into parts, each with a gradient of its own, and a part into micro-batches that stay near the cache;
//! [`Workspace`] says how, from the config alone. In a small model each thread takes parts from a queue and works alone; in
//! a large one there is one part, and the threads share each operation; in one between them a thread whose part is done
//! helps with the operations of the others. All sums run in an order that does not depend on the threads, so their number
//! changes no bit of a result.
//!
//! What paid beyond the prototype of plain layers over the `gemm` crate: a matrix product of our own
//! ([`crate::kernels::gemm`] has its numbers) whose weights are packed once an update; attention that stops at the
//! diagonal; GELU's slope kept from the forward pass, so that the backward pass is one multiplication; adding to the
//! residual stream within the product; overwriting instead of clearing and adding to the gradient in the first
//! micro-batch of an update; adding up the parts' gradients in the pass that takes their norm. What made no difference
//! that could be measured: micro-batches of 256 instead of 512 positions (1126 and 1123 ms of processor time a step of 4
//! layers, width 128, context 256, batch 64).

mod attention;
mod embedding;
mod heads;
mod layers;
mod linear;
mod step;
mod update;
mod weights;
mod workspace;

use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder, iter::MinLen, prelude::*};

use self::{
    embedding::Positions,
    step::Micro,
    weights::{Norm, Weights},
    workspace::Acts,
};
use super::{Batch, Engine, Part, Place, Update, check_tokens};
use crate::{
    base::{Context, Error, Exit, Result},
    cost::Workspace,
    kernels::{Buffer, Level, gemm, muon},
    model::{self, Hidden, Layout},
    spec::{
        RunConfig,
        config::{ModelConfig, Optimizer, TrainConfig},
    },
};

/// Rows of activations that are one task at most.
const BLOCK: usize = gemm::HEIGHT;

/// A model, its gradients and moments, and the room to train it.
pub struct Cpu {
    config: RunConfig,
    vocab: usize,
    level: Level,
    pool: ThreadPool,
    layout: Layout,
    weights: Weights,
    positions: Positions,
    space: Workspace,
    params: Buffer,
    moment1: Buffer,
    moment2: Buffer,
    packed: Buffer,
    parts: Vec<Grads>,
    workers: Vec<Acts>,
    /// What Muon trains: nothing with another optimizer.
    hidden: Vec<Hidden>,
    /// Room for Muon, for each thread.
    muons: Vec<muon::Scratch>,
}

/// The gradient of a part of each batch.
struct Grads {
    sum: Buffer,
    /// Whether nothing was added since the last update: `sum` is then to be overwritten.
    fresh: bool,
    /// Σ losses of the part in the last batch.
    losses: f64,
}

/// What every operation needs to know.
struct Cx<'a> {
    config: &'a RunConfig,
    model: &'a ModelConfig,
    level: Level,
    weights: &'a Weights,
    positions: &'a Positions,
    params: &'a [f32],
    packed: &'a [f32],
    /// Threads that share each operation.
    helpers: usize,
}

impl Cx<'_> {
    /// Rows of a task: about as many tasks for each helper, and whole tiles of a product.
    fn block(&self, rows: usize) -> usize {
        let tasks = rows.div_ceil(BLOCK).next_multiple_of(self.helpers);
        rows.div_ceil(tasks.max(1)).next_multiple_of(12).clamp(12, BLOCK)
    }

    /// Lets the helpers share tasks, or one thread do them all.
    fn each<I: IndexedParallelIterator>(&self, tasks: I) -> MinLen<I> {
        tasks.with_min_len(if self.helpers == 1 { usize::MAX } else { 1 })
    }

    /// Which helper this thread is.
    fn helper(&self) -> usize {
        if self.helpers == 1 { 0 } else { rayon::current_thread_index().unwrap_or(0) }
    }

    /// Weight and bias of a norm.
    fn norm(&self, w: &Norm) -> (&[f32], Option<&[f32]>) {
        (&self.params[w.weight.clone()], w.bias.as_ref().map(|b| &self.params[b.clone()]))
    }
}

impl Cpu {
    /// Whether this engine has layers for everything that a config asks for.
    pub fn knows(config: &RunConfig) -> bool {
        config.beyond_cpu_engine().is_none()
    }

    /// The engine of a config over `vocab` tokens, with weights drawn from `train.seed`. Errors where it lacks a switch
    /// that the config sets, or `EXP_SIMD` names a level that the machine lacks.
    pub fn new(config: &RunConfig, vocab: usize, threads: usize) -> Result<Self> {
        Self::at_level(config, vocab, threads, Level::detect()?)
    }

    /// [`Cpu::new`] at a SIMD level of choice.
    pub fn at_level(config: &RunConfig, vocab: usize, threads: usize, level: Level) -> Result<Self> {
        if !Self::knows(config) {
            let why = "the CPU engine has no layers for some of its settings";
            return Err(Error::new(Exit::Spec, "building the engine", why).hint("set run.engine to tape or auto"));
        }
        let doing = || "starting the engine's threads".to_owned();
        let pool = ThreadPoolBuilder::new().num_threads(threads.max(1)).build().doing(Exit::Unexpected, doing)?;
        let layout = Layout::of(&config.model, vocab);
        let space = Workspace::of(config, vocab, threads);
        // Before the other buffers are there: a copy of all weights exists for a moment.
        let mut params = Buffer::zeros(layout.len());
        params.copy_from_slice(&model::init(&layout, config.model.layers, config.train.seed));
        let by_muon = config.train.optimizer == Optimizer::Muon;
        let grads = |_| Grads { sum: Buffer::zeros(layout.len()), fresh: true, losses: 0.0 };
        let mut engine = Self {
            weights: Weights::of(&layout, &config.model, level.panel()),
            positions: Positions::of(&config.model, &layout),
            params,
            moment1: Buffer::zeros(layout.len()),
            moment2: Buffer::zeros(layout.len()),
            packed: Buffer::zeros(space.packed),
            parts: (0..space.parts).map(grads).collect(),
            workers: (0..space.workers).map(|_| Acts::new(&config.model, vocab, &space)).collect(),
            hidden: if by_muon { model::hidden_matrices(&layout, &config.model) } else { Vec::new() },
            muons: (0..space.muons).map(|_| muon::Scratch::new(space.muon)).collect(),
            config: config.clone(),
            vocab,
            level,
            pool,
            layout,
            space,
        };
        engine.pack();
        Ok(engine)
    }

    /// Packs the weights anew, where packed ones are kept.
    fn pack(&mut self) {
        if self.space.packed > 0 {
            let Self { weights, level, params, packed, pool, .. } = self;
            pool.install(|| weights.pack(*level, params, packed));
        }
    }

    /// Sequences of `context` tokens in a micro-batch.
    fn at_once(&self, context: usize) -> usize {
        (self.space.rows / context).max(1)
    }

    /// What operations read, the threads, and what they write.
    fn split(&mut self) -> (Cx<'_>, &ThreadPool, &mut [Grads], &mut [Acts]) {
        let cx = Cx {
            config: &self.config,
            model: &self.config.model,
            level: self.level,
            weights: &self.weights,
            positions: &self.positions,
            params: &self.params,
            packed: &self.packed,
            helpers: self.space.helpers,
        };
        (cx, &self.pool, &mut self.parts, &mut self.workers)
    }

    fn check(&self, tokens: &[u32], batch: usize) -> Result<()> {
        check_tokens(tokens, batch, self.config.model.context, self.vocab)
    }
}

/// Lets workers, each with room of its own, take tasks from a queue until it is empty.
fn share<W: Send, T: Send>(
    pool: &ThreadPool,
    workers: &mut [W],
    tasks: impl Iterator<Item = T> + Send,
    work: impl Fn(&mut W, T) + Sync,
) {
    let queue = Mutex::new(tasks);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    pool.install(|| {
        workers.par_iter_mut().for_each(|room| {
            while let Some(task) = next() {
                work(room, task);
            }
        });
    });
}

impl Engine for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn simd(&self) -> String {
        self.level.name().to_owned()
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn accumulate(&mut self, batch: &Batch, at: Place, divisor: usize) -> Result<f64> {
        self.check(&batch.x, batch.batch)?;
        self.check(&batch.y, batch.batch)?;
        let (at_once, t) = (self.at_once(batch.context), batch.context);
        let scale = 1.0 / (batch.x.len() as f64 * divisor as f64);
        let count = self.parts.len();
        let (cx, pool, parts, workers) = self.split();
        share(pool, workers, parts.iter_mut().enumerate(), |acts, (i, part)| {
            let (first, end) = (i * batch.batch / count, (i + 1) * batch.batch / count);
            part.losses = 0.0;
            for first in (first..end).step_by(at_once) {
                let tokens = first * t..at_once.min(end - first) * t + first * t;
                let micro = Micro {
                    tokens: &batch.x[tokens.clone()],
                    targets: &batch.y[tokens],
                    context: t,
                    first,
                    place: Some(at),
                };
                part.losses += step::train(&cx, &micro, acts, &mut part.sum, part.fresh, scale as f32);
                part.fresh = false;
            }
        });
        Ok(self.parts.iter().map(|p| p.losses).sum::<f64>() / batch.x.len() as f64)
    }

    fn update(&mut self, train: &TrainConfig, update: Update) -> Result<f64> {
        let norm = self.reduce().sqrt();
        self.step(train, update, norm);
        self.pack();
        Ok(norm)
    }

    fn loss(&mut self, batch: &Batch) -> Result<f64> {
        self.check(&batch.x, batch.batch)?;
        self.check(&batch.y, batch.batch)?;
        let t = batch.context;
        let chunk = self.at_once(t) * t;
        let mut sums = vec![0.0; batch.x.len().div_ceil(chunk)];
        let (cx, pool, _, workers) = self.split();
        let tasks = batch.x.chunks(chunk).zip(batch.y.chunks(chunk)).zip(&mut sums);
        share(pool, workers, tasks, |acts, ((tokens, targets), sum)| {
            *sum = step::losses(&cx, &Micro { tokens, targets, context: t, first: 0, place: None }, acts);
        });
        Ok(sums.iter().sum::<f64>() / batch.x.len() as f64)
    }

    fn logits(&mut self, tokens: &[u32], batch: usize) -> Result<Vec<f32>> {
        self.check(tokens, batch)?;
        let (t, vocab) = (tokens.len() / batch, self.vocab);
        let chunk = self.at_once(t) * t;
        let mut logits = vec![0.0; tokens.len() * vocab];
        let (cx, pool, _, workers) = self.split();
        let tasks = tokens.chunks(chunk).zip(logits.chunks_mut(chunk * vocab));
        share(pool, workers, tasks, |acts, (tokens, out)| {
            step::logits(&cx, &Micro { tokens, targets: &[], context: t, first: 0, place: None }, acts, out);
        });
        Ok(logits)
    }

    fn read(&self, part: Part) -> Result<Vec<f32>> {
        Ok(match part {
            Part::Params => self.params.to_vec(),
            Part::Moment1 => self.moment1.to_vec(),
            Part::Moment2 => self.moment2.to_vec(),
            Part::Grads => self.grads(),
        })
    }

    fn write(&mut self, part: Part, values: &[f32]) -> Result<()> {
        if values.len() != self.layout.len() {
            let why = format!("{} numbers for a model of {}", values.len(), self.layout.len());
            return Err(Error::new(Exit::Unexpected, "writing to the CPU engine", why));
        }
        match part {
            Part::Params => {
                self.params.copy_from_slice(values);
                self.pack();
            }
            Part::Moment1 => self.moment1.copy_from_slice(values),
            Part::Moment2 => self.moment2.copy_from_slice(values),
            Part::Grads => {
                self.parts.iter_mut().for_each(|p| p.fresh = true);
                self.parts[0].sum.copy_from_slice(values);
                self.parts[0].fresh = false;
            }
        }
        Ok(())
    }
}
