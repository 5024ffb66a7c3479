//! Names and shapes of a model's parameters, and where each lies in the flat vectors that engines exchange.
//!
//! Names are those of HF's GPT-2 (`transformer.h.0.attn.c_attn.weight`); weights of linear layers are (out, in), as
//! PyTorch's `nn.Linear` stores them. What GPT-2 lacks is named in its manner: `mlp.c_gate` is the gate of a SwiGLU, a
//! matrix of its own beside `c_fc` and `c_proj` (HF Llama's `gate_proj`, `up_proj`, `down_proj`); `attn.q_norm` and
//! `attn.k_norm` are called as in HF's Qwen3. The order is that of the names, so that it never depends on how a model is
//! built.

use crate::spec::config::{Mlp, ModelConfig, Norm, Position};

/// The position table, whose rows are positions.
pub const POSITIONS: &str = "transformer.wpe.weight";

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// HF GPT-2's name.
    pub name: String,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Where it begins in the flat vectors.
    pub offset: usize,
}

impl Param {
    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat vectors.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }

    /// Weight decay applies to matrices and embeddings, not to biases and norms (nanoGPT's rule).
    pub fn decays(&self) -> bool {
        self.shape.len() >= 2
    }
}

/// All parameters of a model, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    params: Vec<Param>,
    len: usize,
}

impl Layout {
    /// The parameters of a model over `vocab` tokens. A tied head has no parameter of its own; an untied one is
    /// `lm_head.weight`.
    pub fn of(m: &ModelConfig, vocab: usize) -> Self {
        let (d, kv) = (m.d_model, m.d_model / m.heads * m.kv_heads);
        let mut list = vec![("transformer.wte.weight".to_owned(), vec![vocab, d])];
        if m.position == Position::Learned {
            list.push((POSITIONS.to_owned(), vec![m.context, d]));
        }
        let norm = |list: &mut Vec<_>, name: String| {
            list.push((format!("{name}.weight"), vec![d]));
            if m.bias && m.norm == Norm::LayerNorm {
                list.push((format!("{name}.bias"), vec![d]));
            }
        };
        let linear = |list: &mut Vec<_>, name: String, outputs: usize, inputs: usize| {
            list.push((format!("{name}.weight"), vec![outputs, inputs]));
            if m.bias {
                list.push((format!("{name}.bias"), vec![outputs]));
            }
        };
        for layer in 0..m.layers {
            let h = format!("transformer.h.{layer}");
            norm(&mut list, format!("{h}.ln_1"));
            linear(&mut list, format!("{h}.attn.c_attn"), d + 2 * kv, d); // rows: q, then k, then v
            linear(&mut list, format!("{h}.attn.c_proj"), d, d);
            if m.qk_norm {
                // One scale for each number of a head, the same for all heads.
                let scales = ["q_norm", "k_norm"].map(|name| format!("{h}.attn.{name}.weight"));
                list.extend(scales.map(|name| (name, vec![d / m.heads])));
            }
            norm(&mut list, format!("{h}.ln_2"));
            linear(&mut list, format!("{h}.mlp.c_fc"), m.d_ff, d);
            if m.mlp == Mlp::SwiGlu {
                linear(&mut list, format!("{h}.mlp.c_gate"), m.d_ff, d);
            }
            linear(&mut list, format!("{h}.mlp.c_proj"), d, m.d_ff);
        }
        norm(&mut list, "transformer.ln_f".to_owned());
        if !m.tie_embeddings {
            list.push(("lm_head.weight".to_owned(), vec![vocab, d]));
        }
        list.sort();
        let mut len = 0;
        let params = list
            .into_iter()
            .map(|(name, shape)| {
                let param = Param { name, shape, offset: len };
                len += param.len();
                param
            })
            .collect();
        Self { params, len }
    }

    /// The parameters in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Numbers in all of them.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The numbers of this layout out of those of another. A position table may be shorter: it keeps its first rows.
    ///
    /// # Errors
    /// The tensor that does not fit, with the shape found and the shape wanted.
    pub fn cut(&self, from: &Self, values: &[f32]) -> Result<Vec<f32>, String> {
        if let Some(stray) = from.params.iter().find(|theirs| self.get(&theirs.name).is_none()) {
            return Err(format!("tensor {} is no parameter of this model", stray.name));
        }
        let mut flat = vec![0.0; self.len];
        for ours in &self.params {
            let theirs = from.get(&ours.name).ok_or_else(|| format!("tensor {} is not in it", ours.name))?;
            let is_cut = ours.name == POSITIONS && ours.shape[0] <= theirs.shape[0] && ours.shape[1] == theirs.shape[1];
            if ours.shape != theirs.shape && !is_cut {
                return Err(format!("tensor {} has shape {:?}, not {:?}", ours.name, theirs.shape, ours.shape));
            }
            flat[ours.range()].copy_from_slice(&values[theirs.range()][..ours.len()]);
        }
        Ok(flat)
    }

    /// The parameter of that name.
    pub fn get(&self, name: &str) -> Option<&Param> {
        self.params.binary_search_by(|p| p.name.as_str().cmp(name)).ok().map(|i| &self.params[i])
    }
}
