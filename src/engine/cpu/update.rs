//! From the gradients of the parts to new weights: one pass that adds them and takes their norm, one that clips and
//! updates; and where Muon trains the hidden matrices, those apart, each by one thread.

use rayon::prelude::*;

use super::{Cpu, Grads, share};
use crate::{
    engine::Update,
    kernels::{
        adamw::{Rates, adamw},
        muon::{self, muon},
        pointwise,
    },
    spec::config::TrainConfig,
};

/// Numbers that one task updates; squares are summed over each such stretch, then over the stretches in order.
const STRETCH: usize = 1 << 14;

impl Cpu {
    /// Adds the parts' gradients in order, into the first, and returns the sum of their squares.
    pub(super) fn reduce(&mut self) -> f64 {
        let level = self.level;
        let (first, others) = self.parts.split_at_mut(1);
        let others: Vec<&Grads> = others.iter().filter(|p| !p.fresh).collect();
        let overwrite = first[0].fresh;
        let stretches = first[0].sum.par_chunks_mut(STRETCH).enumerate();
        let squares: Vec<f64> = self.pool.install(|| {
            let add_up = |(i, sum): (usize, &mut [f32])| {
                if overwrite {
                    sum.fill(0.0);
                }
                for part in &others {
                    pointwise::add(level, &part.sum[i * STRETCH..][..sum.len()], sum);
                }
                pointwise::sum_of_squares(level, sum)
            };
            stretches.map(add_up).collect()
        });
        self.parts.iter_mut().for_each(|p| p.fresh = true);
        squares.iter().sum()
    }

    /// One update with the gradient that [`Cpu::reduce`] left, whose norm is `norm`. The gradient counts as cleared.
    pub(super) fn step(&mut self, t: &TrainConfig, update: Update, norm: f64) {
        // As torch's clip_grad_norm_: the small number keeps the quotient finite, and nothing is ever scaled up.
        let clip = if t.grad_clip > 0.0 { (t.grad_clip / (norm + 1e-6)).min(1.0) } else { 1.0 };
        self.adamw(t, update, clip);
        self.muon(t, update, clip);
    }

    /// Updates all but the hidden matrices that Muon trains.
    fn adamw(&mut self, t: &TrainConfig, Update { step, lr }: Update, clip: f64) {
        let rates = |decays: bool| Rates {
            clip: clip as f32,
            beta1: t.beta1 as f32,
            beta2: t.beta2 as f32,
            unbias2: (1.0 / (1.0 - t.beta2.powf(step as f64)).sqrt()) as f32,
            eps: t.eps as f32,
            step: (lr / (1.0 - t.beta1.powf(step as f64))) as f32,
            keep: if decays { (1.0 - lr * t.weight_decay) as f32 } else { 1.0 },
        };
        let rates = [rates(false), rates(true)];
        let (level, layout, hidden, grads) = (self.level, &self.layout, &self.hidden, &self.parts[0].sum);
        // The first matrix of a tensor begins where the tensor does.
        let is_hidden = |offset: usize| hidden.binary_search_by_key(&offset, |h| h.range.start).is_ok();
        let stretches = (
            self.params.par_chunks_mut(STRETCH),
            grads.par_chunks(STRETCH),
            self.moment1.par_chunks_mut(STRETCH),
            self.moment2.par_chunks_mut(STRETCH),
        );
        let update = |first: usize, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]| {
            let end = first + p.len();
            let tensors = layout.params();
            let from = tensors.partition_point(|t| t.range().end <= first);
            for tensor in tensors[from..].iter().take_while(|t| t.offset < end).filter(|t| !is_hidden(t.offset)) {
                let range = tensor.range();
                let part = range.start.max(first) - first..range.end.min(end) - first;
                let rates = rates[usize::from(tensor.decays())];
                adamw(level, rates, &mut p[part.clone()], &g[part.clone()], &mut m[part.clone()], &mut v[part]);
            }
        };
        self.pool.install(|| {
            stretches.into_par_iter().enumerate().for_each(|(i, (p, g, m, v))| update(i * STRETCH, p, g, m, v));
        });
    }

    /// Updates the hidden matrices, where there are any for Muon.
    fn muon(&mut self, t: &TrainConfig, Update { lr, .. }: Update, clip: f64) {
        let keep = (1.0 - lr * t.weight_decay) as f32;
        let rates = muon::Rates { clip: clip as f32, momentum: t.momentum as f32, lr, keep };
        let mut tasks = Vec::with_capacity(self.hidden.len());
        let (mut params, mut moments, mut at) = (&mut self.params[..], &mut self.moment1[..], 0);
        for hidden in &self.hidden {
            let (before, end) = (hidden.range.start - at, hidden.range.end - at);
            let (p, rest) = params[before..].split_at_mut(end - before);
            let (m, others) = moments[before..].split_at_mut(end - before);
            (params, moments, at) = (rest, others, hidden.range.end);
            tasks.push((hidden, p, m));
        }
        // The largest first, so that no thread begins one when the others are done.
        tasks.sort_unstable_by_key(|(hidden, ..)| (std::cmp::Reverse(hidden.range.len()), hidden.range.start));
        let (level, grads) = (self.level, &self.parts[0].sum);
        share(&self.pool, &mut self.muons, tasks.into_iter(), |room, (hidden, p, m)| {
            muon(level, rates, [hidden.rows, hidden.cols], p, &grads[hidden.range.clone()], m, room);
        });
    }

    /// The accumulated gradient.
    pub(super) fn grads(&self) -> Vec<f32> {
        let mut sum = vec![0.0; self.layout.len()];
        for part in self.parts.iter().filter(|p| !p.fresh) {
            pointwise::add(self.level, &part.sum, &mut sum);
        }
        sum
    }
}
