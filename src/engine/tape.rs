//! The reference engine: candle's autograd on any device. It is written to be read and to be right, not to be fast;
//! every other engine is checked against it. On a CPU, candle takes its number of threads from `RAYON_NUM_THREADS` when the
//! process starts, and no bit of the result depends on it: each sum is computed by one thread in an order of its own.

mod gpt;
mod muon;
mod position;

use std::{cell::RefCell, collections::BTreeMap, ops::Range};

use candle_core::{DType, Device, Tensor, Var, backprop::GradStore};
use gpt::Gpt;
pub use gpt::{attention_weights, rms_norm};
pub use muon::orthogonalize;
pub use position::{rotate, sinusoids};

use super::{Batch, Engine, Part, Place, Update, check_tokens};
use crate::{
    base::{Error, Exit, Result, machine},
    kernels::muon::scale,
    model::{self, Hidden, Layout},
    spec::{
        RunConfig,
        config::{Dtype, Optimizer, TrainConfig},
    },
};

/// What the loss is multiplied with before the backward pass in f16, whose smallest normal number is 6e-5: without it
/// the gradients of all but the likeliest tokens vanish. A power of two, so that taking it out again is exact.
const F16_LOSS_SCALE: f64 = 1024.0;

/// A model, its gradient and its moments as candle tensors.
pub struct Tape {
    config: RunConfig,
    vocab: usize,
    device: Device,
    dtype: DType,
    layout: Layout,
    params: Vec<Var>,         // in the layout's order, as the next three
    grads: Vec<Tensor>,       // accumulated since the last update
    moment1: Vec<Tensor>,     // Adam's running mean of gradients, or Muon's
    moment2: Vec<Tensor>,     // Adam's running mean of squared gradients
    hidden: Vec<Vec<Hidden>>, // of each parameter, the matrices in it that Muon trains
}

impl Tape {
    /// The engine of a config over `vocab` tokens on `cpu`, `cuda:N` or `metal`, with weights drawn from `train.seed`.
    ///
    /// With `train.dtype` bf16 or f16, weights, moments, residual stream, norms, softmax and loss stay in f32. The loss
    /// of f16 is scaled by a constant only: where a gradient overflows, its norm is infinite and the run ends there.
    pub fn new(config: &RunConfig, vocab: usize, device: &str) -> Result<Self> {
        let dtype = match config.train.dtype {
            Dtype::F32 => DType::F32,
            Dtype::Bf16 => DType::BF16,
            Dtype::F16 => DType::F16,
        };
        if dtype != DType::F32 && device == "cpu" {
            return Err(Error::new(
                Exit::Spec,
                "building the engine",
                format!("a CPU does not train in {}", dtype.as_str()),
            )
            .hint("leave train.dtype at f32, or set run.device to cuda or metal"));
        }
        Self::on(open(device)?, dtype, config, vocab)
    }

    fn on(device: Device, dtype: DType, config: &RunConfig, vocab: usize) -> Result<Self> {
        let layout = Layout::of(&config.model, vocab);
        let by_muon = config.train.optimizer == Optimizer::Muon;
        let matrices = if by_muon { model::hidden_matrices(&layout, &config.model) } else { Vec::new() };
        let inside =
            |range: Range<usize>| matrices.iter().filter(|h| range.contains(&h.range.start)).cloned().collect();
        let hidden = layout.params().iter().map(|p| inside(p.range())).collect();
        let weights = model::init(&layout, config.model.layers, config.train.seed);
        let make = || -> candle_core::Result<_> {
            let zeros = tensors(&layout, &vec![0.0; layout.len()], &device)?;
            let params = tensors(&layout, &weights, &device)?.iter().map(Var::from_tensor).collect::<Result<_, _>>()?;
            Ok((params, zeros))
        };
        let (params, zeros): (_, Vec<Tensor>) =
            make().map_err(|e| explain(&format!("placing the model on {}", name(&device)), e))?;
        Ok(Self {
            config: config.clone(),
            vocab,
            device,
            dtype,
            params,
            grads: zeros.clone(),
            moment1: zeros.clone(),
            moment2: zeros,
            hidden,
            layout,
        })
    }

    /// Runs `f` on the network; weights remember what is computed with them only while training.
    fn with_model<T>(
        &self,
        training: Option<Place>,
        f: impl FnOnce(&Gpt) -> candle_core::Result<T>,
    ) -> candle_core::Result<T> {
        let weight = |var: &Var| if training.is_some() { var.as_tensor().clone() } else { var.as_detached_tensor() };
        let names = self.layout.params().iter().map(|p| p.name.clone());
        let weights: BTreeMap<_, _> = names.zip(self.params.iter().map(weight)).collect();
        f(&Gpt { config: &self.config, weights: &weights, dtype: self.dtype, dropout: training, probe: None })
    }

    /// The attention weights of each layer over a row of T tokens, after softmax and without dropout: (H, T, T), queries
    /// by keys.
    ///
    /// # Errors
    /// Where there are no tokens, more than the context, or others than the vocabulary has.
    pub fn attention(&self, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
        self.check(tokens, 1)?;
        let layers = RefCell::new(Vec::with_capacity(self.config.model.layers));
        let see = |weights: &Tensor| -> candle_core::Result<()> {
            layers.borrow_mut().push(weights.flatten_all()?.to_vec1()?);
            Ok(())
        };
        let run = || {
            let tokens = self.tokens(tokens, 1)?;
            self.with_model(None, |gpt| Gpt { probe: Some(&see), ..*gpt }.logits(&tokens))
        };
        run().map_err(|e| explain("computing attention weights", e))?;
        Ok(layers.take())
    }

    /// (B, T) tokens on the device.
    fn tokens(&self, tokens: &[u32], batch: usize) -> candle_core::Result<Tensor> {
        Tensor::from_slice(tokens, (batch, tokens.len() / batch), &self.device)
    }

    fn check(&self, tokens: &[u32], batch: usize) -> Result<()> {
        check_tokens(tokens, batch, self.config.model.context, self.vocab)
    }

    /// Adds `factor` times the gradients of one backward pass to the accumulated ones.
    fn collect(&mut self, grads: &GradStore, factor: f64) -> candle_core::Result<()> {
        for (sum, param) in self.grads.iter_mut().zip(&self.params) {
            if let Some(grad) = grads.get(param) {
                // Detached, or the gradient would keep the whole graph of its step alive.
                *sum = (&*sum + (grad.detach() * factor)?)?;
            }
        }
        Ok(())
    }

    /// √Σg² over all parameters.
    fn grad_norm(&self) -> candle_core::Result<f64> {
        let squares = self.grads.iter().map(|g| g.sqr()?.sum_all()).collect::<candle_core::Result<Vec<_>>>()?;
        let squares = Tensor::stack(&squares, 0)?.to_vec1::<f32>()?; // one transfer from the device for all of them
        Ok(squares.iter().map(|&s| f64::from(s)).sum::<f64>().sqrt())
    }

    /// Updates weights and moments with the gradients times `clip`; clears the gradients.
    fn step(&mut self, t: &TrainConfig, update: Update, clip: f64) -> candle_core::Result<()> {
        for i in 0..self.params.len() {
            let g = (&self.grads[i] * clip)?;
            let step =
                if self.hidden[i].is_empty() { self.adamw(i, &g, t, update)? } else { self.muon(i, &g, t, update)? };
            let decay = if self.layout.params()[i].decays() { 1.0 - update.lr * t.weight_decay } else { 1.0 };
            self.params[i].set(&((self.params[i].as_detached_tensor() * decay)? - step)?)?;
            self.grads[i] = g.zeros_like()?;
        }
        Ok(())
    }

    /// What AdamW (Loshchilov and Hutter, 2019), as PyTorch writes it, takes from a parameter.
    fn adamw(
        &mut self,
        i: usize,
        g: &Tensor,
        t: &TrainConfig,
        Update { step, lr }: Update,
    ) -> candle_core::Result<Tensor> {
        let unbias1 = 1.0 - t.beta1.powf(step as f64);
        let unbias2 = 1.0 - t.beta2.powf(step as f64);
        let m = ((&self.moment1[i] * t.beta1)? + (g * (1.0 - t.beta1))?)?;
        let v = ((&self.moment2[i] * t.beta2)? + (g.sqr()? * (1.0 - t.beta2))?)?;
        let spread = ((v.sqrt()? / unbias2.sqrt())? + t.eps)?;
        let step = ((&m / spread)? * (lr / unbias1))?;
        self.moment1[i] = m;
        self.moment2[i] = v;
        Ok(step)
    }

    /// What Muon takes from the hidden matrices of a parameter: Nesterov's momentum, each matrix orthogonalised on its own.
    fn muon(
        &mut self,
        i: usize,
        g: &Tensor,
        t: &TrainConfig,
        Update { lr, .. }: Update,
    ) -> candle_core::Result<Tensor> {
        let g = (g * (1.0 - t.momentum))?;
        let m = ((&self.moment1[i] * t.momentum)? + &g)?;
        let u = ((&m * t.momentum)? + g)?;
        let first = self.layout.params()[i].offset;
        let orthogonal = |h: &Hidden| {
            let part = u.narrow(0, (h.range.start - first) / h.cols, h.rows)?;
            orthogonalize(&part)? * (lr * scale(h.rows, h.cols))
        };
        let parts = self.hidden[i].iter().map(orthogonal).collect::<candle_core::Result<Vec<_>>>()?;
        self.moment1[i] = m;
        Tensor::cat(&parts, 0)
    }
}

impl Engine for Tape {
    fn name(&self) -> &'static str {
        "tape"
    }

    fn simd(&self) -> String {
        if self.device.is_cpu() { simd().to_owned() } else { kind(&self.device).to_owned() }
    }

    fn processor(&self) -> String {
        processor(&self.device)
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn accumulate(&mut self, batch: &Batch, at: Place, divisor: usize) -> Result<f64> {
        self.check(&batch.x, batch.batch)?;
        self.check(&batch.y, batch.batch)?;
        let scale = if self.dtype == DType::F16 { F16_LOSS_SCALE } else { 1.0 };
        let run = || -> candle_core::Result<_> {
            let (x, y) = (self.tokens(&batch.x, batch.batch)?, self.tokens(&batch.y, batch.batch)?);
            let loss = self.with_model(Some(at), |gpt| gpt.loss(&x, &y))?;
            let grads = (&loss * (scale / divisor as f64))?.backward()?;
            Ok((f64::from(loss.to_scalar::<f32>()?), grads))
        };
        let computed = run().and_then(|(loss, grads)| self.collect(&grads, 1.0 / scale).map(|()| loss));
        computed.map_err(|e| explain(&format!("computing the gradient of step {}", at.step), e))
    }

    fn update(&mut self, train: &TrainConfig, update: Update) -> Result<f64> {
        let doing = |e| explain(&format!("updating the weights in step {}", update.step), e);
        let norm = self.grad_norm().map_err(doing)?;
        // As torch's clip_grad_norm_: the small number keeps the quotient finite, and nothing is ever scaled up.
        let clip = if train.grad_clip > 0.0 { (train.grad_clip / (norm + 1e-6)).min(1.0) } else { 1.0 };
        self.step(train, update, clip).map_err(doing)?;
        Ok(norm)
    }

    fn loss(&mut self, batch: &Batch) -> Result<f64> {
        self.check(&batch.x, batch.batch)?;
        self.check(&batch.y, batch.batch)?;
        let run = || {
            let (x, y) = (self.tokens(&batch.x, batch.batch)?, self.tokens(&batch.y, batch.batch)?);
            self.with_model(None, |gpt| gpt.loss(&x, &y))?.to_scalar::<f32>()
        };
        run().map(f64::from).map_err(|e| explain("computing a loss", e))
    }

    fn logits(&mut self, tokens: &[u32], batch: usize) -> Result<Vec<f32>> {
        self.check(tokens, batch)?;
        let run = || {
            let tokens = self.tokens(tokens, batch)?;
            self.with_model(None, |gpt| gpt.logits(&tokens))?.flatten_all()?.to_vec1()
        };
        run().map_err(|e| explain("computing logits", e))
    }

    fn read(&self, part: Part) -> Result<Vec<f32>> {
        let params: Vec<Tensor>;
        let tensors = match part {
            Part::Params => {
                params = self.params.iter().map(Var::as_detached_tensor).collect();
                &params
            }
            Part::Grads => &self.grads,
            Part::Moment1 => &self.moment1,
            Part::Moment2 => &self.moment2,
        };
        let mut flat = Vec::with_capacity(self.layout.len());
        for tensor in tensors {
            let values = tensor.flatten_all().and_then(|t| t.to_vec1::<f32>());
            flat.extend(values.map_err(|e| explain(&format!("reading tensors from {}", name(&self.device)), e))?);
        }
        Ok(flat)
    }

    fn write(&mut self, part: Part, values: &[f32]) -> Result<()> {
        let doing = format!("writing tensors to {}", name(&self.device));
        if values.len() != self.layout.len() {
            let why = format!("{} numbers for a model of {}", values.len(), self.layout.len());
            return Err(Error::new(Exit::Unexpected, doing, why));
        }
        let new = tensors(&self.layout, values, &self.device).map_err(|e| explain(&doing, e))?;
        match part {
            Part::Params => self
                .params
                .iter()
                .zip(&new)
                .try_for_each(|(param, value)| param.set(value))
                .map_err(|e| explain(&doing, e))?,
            Part::Grads => self.grads = new,
            Part::Moment1 => self.moment1 = new,
            Part::Moment2 => self.moment2 = new,
        }
        Ok(())
    }
}

/// A flat vector as one tensor per parameter.
fn tensors(layout: &Layout, flat: &[f32], device: &Device) -> candle_core::Result<Vec<Tensor>> {
    layout.params().iter().map(|p| Tensor::from_slice(&flat[p.range()], p.shape.as_slice(), device)).collect()
}

/// The device of a resolved name.
fn open(device: &str) -> Result<Device> {
    let opened = match device.split_once(':') {
        None if device == "cpu" => Ok(Device::Cpu),
        None if device == "metal" => Device::new_metal(0),
        Some(("cuda", index)) => match index.parse() {
            Ok(index) => Device::new_cuda(index),
            Err(_) => Err(candle_core::Error::Msg(format!("{index:?} is no number"))),
        },
        _ => Err(candle_core::Error::Msg("devices are cpu, cuda:N and metal".into())),
    };
    opened.map_err(|e| {
        let feature = if device == "metal" { "metal" } else { "cuda" };
        explain(&format!("opening the device {device}"), e)
            .hint(format!("`exp devices` lists what is here; GPUs need a build with --features {feature}"))
    })
}

fn kind(device: &Device) -> &'static str {
    match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
        Device::Metal(_) => "metal",
    }
}

fn name(device: &Device) -> String {
    match device.location() {
        candle_core::DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        _ => kind(device).to_owned(),
    }
}

/// The widest instructions of the matrix products on this CPU.
fn simd() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "avx512";
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return "avx2";
        }
    }
    if cfg!(target_arch = "aarch64") { "neon" } else { "scalar" }
}

fn processor(device: &Device) -> String {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(cuda) = device {
        return cuda.cuda_stream().context().name().unwrap_or_else(|_| name(device));
    }
    if device.is_cpu() { machine::cpu_model() } else { name(device) }
}

/// What failed, in a sentence: candle's own message without the backtrace that it may carry.
fn explain(doing: &str, error: candle_core::Error) -> Error {
    use candle_core::Error as Candle;
    let mut error = &error;
    while let Candle::WithBacktrace { inner, .. } | Candle::Context { inner, .. } | Candle::WithPath { inner, .. } =
        error
    {
        error = inner;
    }
    let why = error.to_string();
    let out_of_memory = why.to_lowercase().contains("out of memory") || why.contains("OUT_OF_MEMORY");
    let error = Error::new(Exit::Unexpected, doing, why.lines().next().unwrap_or("candle did not say why"));
    if out_of_memory {
        error.hint("halve train.batch and double train.grad_accum: a step then covers as many windows in less memory")
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(context: usize, vocab: u32) -> Batch {
        let tokens = |salt: u32| (0..2 * context as u32).map(|i| (i * i + salt) % vocab).collect();
        Batch { x: tokens(3), y: tokens(5), batch: 2, context }
    }

    /// GPUs compute in 16 bits by the same path; a CPU can follow it in f16.
    #[test]
    fn half_floats_give_nearly_the_gradient_of_whole_ones() {
        let mut config = RunConfig::default();
        (config.model.layers, config.model.d_model, config.model.d_ff, config.model.dropout) = (2, 32, 64, 0.1);
        let gradient = |dtype| {
            let mut tape = Tape::on(Device::Cpu, dtype, &config, 11).unwrap();
            let loss = tape.accumulate(&batch(8, 11), Place { step: 1, micro: 0 }, 2).unwrap();
            (loss, tape.read(Part::Grads).unwrap())
        };
        let ((loss, whole), (rough_loss, rough)) = (gradient(DType::F32), gradient(DType::F16));
        let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|v| v * v).sum::<f32>().sqrt();
        let off = norm(&mut whole.iter().zip(&rough).map(|(a, b)| a - b));
        assert!((loss - rough_loss).abs() < 1e-3 && loss != rough_loss, "{loss} {rough_loss}");
        assert!(off < 5e-3 * norm(&mut whole.iter().copied()) && off > 0.0, "{off}");
    }

    #[test]
    fn what_candle_says_reaches_people_without_a_backtrace() {
        let long = candle_core::Error::Msg("CUDA_ERROR_OUT_OF_MEMORY\n   0: candle::frame\n   1: main".into()).bt();
        let error = explain("training", long.context("deeper"));
        assert_eq!(error.to_string(), "training: CUDA_ERROR_OUT_OF_MEMORY");
        assert!(error.hint.unwrap().contains("train.batch"));
    }
}
