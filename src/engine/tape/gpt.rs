//! GPT-2 as nanoGPT writes it, and with the switches of [`crate::spec::config::ModelConfig`] Llama and others, in candle's
//! plain operations: each has a backward pass. The fused ones of `candle_nn` (`layer_norm`, `softmax_last_dim`, `rope`, …)
//! have none and would cut the graph without a word.
//!
//! B sequences of T tokens, width D, H heads of width W = D / H, K of them with keys and values of their own,
//! vocabulary V. Matrix products and activations are in `dtype`; residual stream, norms, softmax and loss are in f32.

use std::collections::BTreeMap;

use candle_core::{D, DType, Result, Tensor, bail};

use super::position::{rotate, sinusoids};
use crate::{
    engine::{Place, Site},
    spec::{
        RunConfig,
        config::{Mlp, Norm, Position},
    },
};

/// What sees the attention weights (B, H, T, T) of each layer as they are computed, after softmax and before dropout.
pub type Probe<'a> = dyn Fn(&Tensor) -> Result<()> + 'a;

/// The network over one set of weights.
pub struct Gpt<'a> {
    /// The shape and switches of the model, and the seed of its dropout masks.
    pub config: &'a RunConfig,
    /// All parameters by name, in f32.
    pub weights: &'a BTreeMap<String, Tensor>,
    /// What matrix products and activations are computed in.
    pub dtype: DType,
    /// Where in the run the batch stands, which its dropout masks follow from; `None` drops nothing.
    pub dropout: Option<Place>,
    /// Who wants to see the attention weights, if anybody does.
    pub probe: Option<&'a Probe<'a>>,
}

impl Gpt<'_> {
    /// The mean cross-entropy of targets (B, T) after tokens (B, T), in nats: a scalar.
    pub fn loss(&self, tokens: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let logits = self.logits(tokens)?.flatten_to(1)?; // (B·T, V)
        candle_nn::loss::cross_entropy(&logits, &targets.flatten_all()?)
    }

    /// Next-token logits (B, T, V) in f32 after tokens (B, T).
    pub fn logits(&self, tokens: &Tensor) -> Result<Tensor> {
        let (b, t) = tokens.dims2()?;
        let token = self.weight("transformer.wte.weight")?.index_select(&tokens.flatten_all()?, 0)?; // (B·T, D)
        let token = token.reshape((b, t, ()))?; // (B, T, D)
        let x = self.positioned(token, t)?;
        let mut x = self.dropout(x, 0, Site::Embedding)?; // (B, T, D)
        for layer in 0..self.config.model.layers {
            let h = format!("transformer.h.{layer}");
            let attended = self.attention(layer, &self.norm(&format!("{h}.ln_1"), &x)?)?;
            x = (x + self.dropout(attended, layer, Site::AttentionOut)?)?;
            let mixed = self.mlp(&h, &self.norm(&format!("{h}.ln_2"), &x)?)?;
            x = (x + self.dropout(mixed, layer, Site::MlpOut)?)?;
        }
        let x = self.norm("transformer.ln_f", &x)?;
        let tied = self.config.model.tie_embeddings;
        let head = if tied { "transformer.wte.weight" } else { "lm_head.weight" };
        self.product(&x, head)?.to_dtype(DType::F32) // (B, T, V)
    }

    /// Token embeddings (B, T, D) with what their positions add to them, if anything.
    fn positioned(&self, token: Tensor, t: usize) -> Result<Tensor> {
        match self.config.model.position {
            Position::Learned => token.broadcast_add(&self.weight("transformer.wpe.weight")?.narrow(0, 0, t)?),
            // Initial embeddings are much smaller than sines: √D makes them of one size, as in the paper's section 3.4.
            Position::Sinusoidal => {
                let d = token.dim(2)?;
                let table = sinusoids(t, d, token.device())?; // (T, D)
                (token * (d as f64).sqrt())?.broadcast_add(&table)
            }
            Position::Rope | Position::None => Ok(token),
        }
    }

    /// Queries or keys (B, n, T, W) as they meet: normalised by the named RMSNorm and then rotated by their positions,
    /// as in Qwen3, where the model does that. In f32, or the angles of late positions would be too coarse.
    fn meeting(&self, norm: &str, x: &Tensor) -> Result<Tensor> {
        let m = &self.config.model;
        let mut y = x.clone();
        if m.qk_norm {
            y = rms_norm(&y.to_dtype(DType::F32)?, self.weight(&format!("{norm}.weight"))?, m.norm_eps)?;
        }
        if m.position == Position::Rope {
            y = rotate(&y.to_dtype(DType::F32)?, m.rope_theta)?;
        }
        y.to_dtype(self.dtype)
    }

    /// Causal self-attention of (B, T, D), with K ≤ H heads of keys and values: query head h attends with head h·K/H.
    fn attention(&self, layer: usize, x: &Tensor) -> Result<Tensor> {
        let m = &self.config.model;
        let (b, t, d) = x.dims3()?;
        let width = d / m.heads;
        let h = format!("transformer.h.{layer}.attn");
        let qkv = self.linear(&format!("{h}.c_attn"), x)?; // (B, T, D + 2·K·W)
        let heads = |start, n| qkv.narrow(2, start, n * width)?.reshape((b, t, n, width))?.transpose(1, 2); // (B, n, T, W)
        let q = self.meeting(&format!("{h}.q_norm"), &heads(0, m.heads)?)?.contiguous()?; // (B, H, T, W)
        let k = self.meeting(&format!("{h}.k_norm"), &heads(d, m.kv_heads)?)?; // (B, K, T, W)
        let k = repeat(&k, m.heads / m.kv_heads)?; // (B, H, T, W)
        let v = repeat(&heads(d + m.kv_heads * width, m.kv_heads)?, m.heads / m.kv_heads)?; // (B, H, T, W)
        let weights = attention_weights(&q, &k, 1.0 / (width as f64).sqrt())?; // (B, H, T, T)
        self.probe.map_or(Ok(()), |see| see(&weights))?;
        let weights = self.dropout(weights, layer, Site::Attention)?.to_dtype(self.dtype)?;
        let y = weights.matmul(&v)?.transpose(1, 2)?.reshape((b, t, d))?; // heads side by side again
        self.linear(&format!("{h}.c_proj"), &y)?.to_dtype(DType::F32) // (B, T, D)
    }

    /// The feed-forward sublayer: from (B, T, D) to (B, T, F) and back.
    fn mlp(&self, h: &str, x: &Tensor) -> Result<Tensor> {
        let up = self.linear(&format!("{h}.mlp.c_fc"), x)?; // (B, T, F)
        let inner = match self.config.model.mlp {
            Mlp::Gelu => up.gelu_erf()?,
            Mlp::GeluTanh => up.gelu()?,
            Mlp::Relu2 => up.relu()?.sqr()?,
            Mlp::SwiGlu => (self.linear(&format!("{h}.mlp.c_gate"), x)?.silu()? * up)?,
        };
        self.linear(&format!("{h}.mlp.c_proj"), &inner)?.to_dtype(DType::F32) // (B, T, D)
    }

    /// LayerNorm or RMSNorm over the last dimension of (B, T, D), in f32.
    fn norm(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let eps = self.config.model.norm_eps;
        if self.config.model.norm == Norm::RmsNorm {
            return rms_norm(x, self.weight(&format!("{name}.weight"))?, eps);
        }
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?; // (B, T, 1)
        let y = centred.broadcast_mul(&(variance + eps)?.sqrt()?.recip()?)?;
        let y = y.broadcast_mul(self.weight(&format!("{name}.weight"))?)?;
        match self.bias(name)? {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }

    /// x·Wᵀ + b, for weights (out, in): (B, T, in) becomes (B, T, out).
    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let y = self.product(x, &format!("{name}.weight"))?;
        match self.bias(name)? {
            // As a product with ones, the bias has a product for its gradient too, which sums over B·T in f32 whatever
            // the dtype; the gradient of a broadcast would be summed in the dtype itself.
            Some(bias) => {
                let (b, t, out) = y.dims3()?;
                let ones = Tensor::ones((b * t, 1), self.dtype, y.device())?;
                let rows = ones.matmul(&bias.to_dtype(self.dtype)?.unsqueeze(0)?)?; // (B·T, out)
                y + rows.reshape((b, t, out))?
            }
            None => Ok(y),
        }
    }

    /// x·Wᵀ of the named matrix (out, in): (B, T, in) becomes (B, T, out).
    fn product(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let (b, t, inputs) = x.dims3()?;
        let w = self.weight(name)?.to_dtype(self.dtype)?;
        let rows = x.to_dtype(self.dtype)?.reshape((b * t, inputs))?;
        rows.matmul(&w.t()?)?.reshape((b, t, w.dim(0)?))
    }

    /// Zeroes a share of `x` and scales the rest up, while training.
    fn dropout(&self, x: Tensor, layer: usize, site: Site) -> Result<Tensor> {
        match self.dropout {
            Some(at) if self.config.model.dropout > 0.0 => {
                let mask = site.mask(self.config, layer, at);
                let factors: Vec<f32> = (0..x.elem_count()).map(|i| mask.factor(i as u32)).collect();
                let factors = Tensor::from_vec(factors, x.shape(), x.device())?;
                x.mul(&factors.to_dtype(x.dtype())?)
            }
            _ => Ok(x),
        }
    }

    fn weight(&self, name: &str) -> Result<&Tensor> {
        match self.weights.get(name) {
            Some(weight) => Ok(weight),
            None => bail!("the model has no parameter {name}"),
        }
    }

    fn bias(&self, name: &str) -> Result<Option<&Tensor>> {
        self.config.model.bias.then(|| self.weight(&format!("{name}.bias"))).transpose()
    }
}

/// `x`·w / √(mean of x² + `eps`) over the last dimension, in f32.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let square = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_mul(&(square + eps)?.sqrt()?.recip()?)?.broadcast_mul(weight)
}

/// Softmax over the keys up to each query of `scale`·q·kᵀ: (B, H, T, T) in f32 from queries and keys (B, H, T, W).
pub fn attention_weights(q: &Tensor, k: &Tensor, scale: f64) -> Result<Tensor> {
    let t = q.dim(2)?;
    let scores = (q.matmul(&k.t()?)?.to_dtype(DType::F32)? * scale)?; // (B, H, T, T)
    let future: Vec<f32> = (0..t * t).map(|i| if i % t > i / t { f32::NEG_INFINITY } else { 0.0 }).collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(future, (t, t), q.device())?)?;
    let exp = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
    exp.broadcast_mul(&exp.sum_keepdim(D::Minus1)?.recip()?)
}

/// Each head of (B, K, T, W) `times` over, side by side: (B, K·times, T, W).
fn repeat(x: &Tensor, times: usize) -> Result<Tensor> {
    let (b, k, t, w) = x.dims4()?;
    x.unsqueeze(2)?.expand((b, k, times, t, w))?.reshape((b, k * times, t, w))
}
