//! What tests of imports share: small models as other programs would have written them. Names and orders are written
//! down here once more, from those programs' own code, so that a slip in ours shows.

#![allow(dead_code)] // each test binary uses a part of it

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Write},
    path::Path,
};

use exp::{
    model::{Layout, Param, init},
    spec::config::{Mlp, ModelConfig, Norm, Position},
};
use half::{bf16, f16};
use safetensors::{Dtype, View};
use serde_json::{Value, json};

/// Tokens of the small models.
pub const VOCAB: usize = 11;

/// Named tensors in f32 with their shapes.
pub type Named = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A model of ours, with weights that are all different from zero.
pub struct Small {
    pub config: ModelConfig,
    pub layout: Layout,
    pub weights: Vec<f32>,
}

impl Small {
    pub fn new(config: ModelConfig) -> Self {
        let layout = Layout::of(&config, VOCAB);
        let noise = exp::base::rng::stream(7, "test/noise");
        let mut weights = init(&layout, config.layers, 3);
        let mut shift = vec![0.0; weights.len()];
        exp::base::rng::fill_normal(&mut { noise }, 0.1, &mut shift);
        weights.iter_mut().zip(shift).for_each(|(w, s)| *w += s);
        Self { config, layout, weights }
    }

    pub fn gpt2(tied: bool) -> Self {
        let base = ModelConfig { layers: 2, heads: 2, kv_heads: 2, d_model: 8, context: 6, ..ModelConfig::default() };
        Self::new(ModelConfig { d_ff: 20, mlp: Mlp::GeluTanh, tie_embeddings: tied, ..base })
    }

    pub fn llama(kv_heads: usize, tied: bool) -> Self {
        let base = ModelConfig { layers: 2, heads: 4, kv_heads, d_model: 16, context: 32, ..ModelConfig::default() };
        let block =
            ModelConfig { norm: Norm::RmsNorm, position: Position::Rope, mlp: Mlp::SwiGlu, bias: false, ..base };
        Self::new(ModelConfig { d_ff: 24, norm_eps: 1e-6, rope_theta: 5e5, tie_embeddings: tied, ..block })
    }

    fn get(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let param = self.layout.get(name).unwrap_or_else(|| panic!("no {name}"));
        (param.shape.clone(), self.weights[param.range()].to_vec())
    }

    /// HF GPT-2's tensors: a linear layer's weights are (in, out).
    pub fn as_gpt2(&self, prefix: &str) -> Named {
        let mut named = Named::new();
        for param in self.layout.params() {
            let (mut shape, mut values) = self.get(&param.name);
            let linear = ["c_attn.weight", "c_fc.weight", "c_proj.weight"].iter().any(|end| param.name.ends_with(end));
            if linear {
                let (out, inputs) = (shape[0], shape[1]);
                values = (0..inputs * out).map(|at| values[at % out * inputs + at / out]).collect();
                shape.reverse();
            }
            named.insert(param.name.replace("transformer.", prefix), (shape, values));
        }
        named
    }

    /// HF Llama's tensors.
    pub fn as_llama(&self, prefix: &str) -> Named {
        let mut named = Named::new();
        let mut put = |name: String, tensor| drop(named.insert(name, tensor));
        put(format!("{prefix}embed_tokens.weight"), self.get("transformer.wte.weight"));
        put(format!("{prefix}norm.weight"), self.get("transformer.ln_f.weight"));
        if !self.config.tie_embeddings {
            put("lm_head.weight".into(), self.get("lm_head.weight"));
        }
        for layer in 0..self.config.layers {
            let ours = |name: &str| self.get(&format!("transformer.h.{layer}.{name}.weight"));
            let (theirs, d) = (format!("{prefix}layers.{layer}"), self.config.d_model);
            put(format!("{theirs}.input_layernorm.weight"), ours("ln_1"));
            put(format!("{theirs}.post_attention_layernorm.weight"), ours("ln_2"));
            put(format!("{theirs}.self_attn.o_proj.weight"), ours("attn.c_proj"));
            put(format!("{theirs}.mlp.gate_proj.weight"), ours("mlp.c_gate"));
            put(format!("{theirs}.mlp.up_proj.weight"), ours("mlp.c_fc"));
            put(format!("{theirs}.mlp.down_proj.weight"), ours("mlp.c_proj"));
            let (shape, values) = ours("attn.c_attn");
            let kv = (shape[0] - d) / 2;
            for (name, from, rows) in [("q", 0, d), ("k", d, kv), ("v", d + kv, kv)] {
                let values = values[from * d..(from + rows) * d].to_vec();
                put(format!("{theirs}.self_attn.{name}_proj.weight"), (vec![rows, d], values));
            }
        }
        named
    }

    pub fn gpt2_config(&self) -> Value {
        let m = &self.config;
        json!({
            "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
            "vocab_size": VOCAB, "n_embd": m.d_model, "n_head": m.heads, "n_layer": m.layers, "n_inner": m.d_ff,
            "n_positions": m.context, "layer_norm_epsilon": m.norm_eps, "tie_word_embeddings": m.tie_embeddings,
        })
    }

    pub fn llama_config(&self) -> Value {
        let m = &self.config;
        json!({
            "model_type": "llama", "vocab_size": VOCAB, "hidden_size": m.d_model, "num_attention_heads": m.heads,
            "num_key_value_heads": m.kv_heads, "num_hidden_layers": m.layers, "intermediate_size": m.d_ff,
            "max_position_embeddings": m.context, "hidden_act": "silu", "rms_norm_eps": m.norm_eps,
            "rope_theta": m.rope_theta, "tie_word_embeddings": m.tie_embeddings,
        })
    }

    /// Writes nanoGPT's `ckpt.pt`, with moments m and v of each parameter where they are given.
    pub fn write_nanogpt(&self, path: &Path, prefix: &str, moments: Option<[&[f32]; 2]>) {
        let m = &self.config;
        // The order of nanoGPT's modules.
        let mut order: Vec<String> = vec!["wte.weight".into(), "wpe.weight".into()];
        for layer in 0..m.layers {
            for name in ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"] {
                order.extend(["weight", "bias"].map(|part| format!("h.{layer}.{name}.{part}")));
            }
        }
        order.extend(["ln_f.weight".into(), "ln_f.bias".into()]);
        order.retain(|name| self.layout.get(&format!("transformer.{name}")).is_some());
        let params: Vec<_> = order.iter().map(|n| self.layout.get(&format!("transformer.{n}")).unwrap()).collect();

        let mut torch = Torch::default();
        torch.op(b"\x80\x02}(");
        torch.text("model").op(b"}(");
        for param in &params {
            torch.text(&format!("{prefix}{}", param.name)).tensor(&param.shape, &self.weights[param.range()]);
        }
        let wte = self.get("transformer.wte.weight");
        torch.text(&format!("{prefix}lm_head.weight")).tensor(&wte.0, &wte.1).op(b"u");
        if let Some(moments) = moments {
            let (decayed, rest): (Vec<&Param>, Vec<&Param>) = params.iter().partition(|param| param.shape.len() >= 2);
            let numbered = [&decayed[..], &rest].concat();
            torch.text("optimizer").op(b"}(").text("state").op(b"}(");
            for (number, param) in numbered.iter().enumerate() {
                torch.int(number).op(b"}(").text("step").tensor(&[], &[3.0]);
                for (name, values) in ["exp_avg", "exp_avg_sq"].iter().zip(moments) {
                    torch.text(name).tensor(&param.shape, &values[param.range()]);
                }
                torch.op(b"u");
            }
            torch.op(b"u").text("param_groups").op(b"](");
            for group in [0..decayed.len(), decayed.len()..numbered.len()] {
                torch.op(b"}(").text("lr").op(b"G\x3f\x50\x62\x4d\xd2\xf1\xa9\xfc").text("params").op(b"](");
                for number in group {
                    torch.int(number);
                }
                torch.op(b"eu");
            }
            torch.op(b"eu");
        }
        torch.text("model_args").op(b"}(");
        let sizes = [("n_layer", m.layers), ("n_head", m.heads), ("n_embd", m.d_model), ("block_size", m.context)];
        for (name, size) in sizes.into_iter().chain([("vocab_size", VOCAB)]) {
            torch.text(name).int(size);
        }
        torch.text("bias").op(if m.bias { b"\x88" } else { b"\x89" }).op(b"u");
        torch.text("iter_num").int(20).text("best_val_loss").tensor(&[], &[1.5]).op(b"u.");
        torch.write(path);
    }
}

/// A file as `torch.save` writes it.
#[derive(Default)]
pub struct Torch {
    pub pickle: Vec<u8>,
    storages: Vec<Vec<u8>>,
}

impl Torch {
    pub fn op(&mut self, bytes: &[u8]) -> &mut Self {
        self.pickle.extend_from_slice(bytes);
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes()).op(text.as_bytes())
    }

    pub fn int(&mut self, n: usize) -> &mut Self {
        self.op(b"J").op(&(n as i32).to_le_bytes())
    }

    pub fn tensor(&mut self, shape: &[usize], values: &[f32]) -> &mut Self {
        let key = self.storages.len().to_string();
        self.storages.push(values.iter().flat_map(|v| v.to_le_bytes()).collect());
        self.op(b"ctorch._utils\n_rebuild_tensor_v2\n((").text("storage").op(b"ctorch\nFloatStorage\n");
        self.text(&key).text("cpu").int(values.len()).op(b"tQ").int(0);
        let strides: Vec<usize> = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect();
        for sizes in [shape, &strides] {
            self.op(b"(");
            for size in sizes {
                self.int(*size);
            }
            self.op(b"t");
        }
        self.op(b"\x89ccollections\nOrderedDict\n)RtR")
    }

    pub fn write(&self, path: &Path) {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        let mut put = |name: String, bytes: &[u8]| {
            zip.start_file(name, options).unwrap();
            zip.write_all(bytes).unwrap();
        };
        put("ckpt/data.pkl".into(), &self.pickle);
        put("ckpt/byteorder".into(), b"little");
        self.storages.iter().enumerate().for_each(|(key, bytes)| put(format!("ckpt/data/{key}"), bytes));
        fs::write(path, zip.finish().unwrap().into_inner()).unwrap();
    }
}

/// What numbers are written as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored {
    F32,
    F16,
    Bf16,
}

impl Stored {
    /// A number as it comes back.
    pub fn rounded(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            Self::F16 => f16::from_f32(x).to_f32(),
            Self::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }
}

pub struct Tensor {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The bytes of a safetensors file.
pub fn safetensors(named: &Named, stored: Stored) -> Vec<u8> {
    let tensors = named.iter().map(|(name, (shape, values))| {
        let (dtype, bytes) = match stored {
            Stored::F32 => (Dtype::F32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Stored::F16 => (Dtype::F16, values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect()),
            Stored::Bf16 => (Dtype::BF16, values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect()),
        };
        (name.clone(), Tensor { dtype, shape: shape.clone(), bytes })
    });
    safetensors::serialize(tensors, None).unwrap()
}

/// Writes a folder of Hugging Face's with one file of weights.
pub fn write_hf(folder: &Path, config: &Value, named: &Named) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    fs::write(folder.join("model.safetensors"), safetensors(named, Stored::F32)).unwrap();
}

/// Writes the weights in two files with an index instead.
pub fn write_shards(folder: &Path, named: &Named, stored: Stored) {
    let _ = fs::remove_file(folder.join("model.safetensors"));
    let mut map = BTreeMap::new();
    for part in 0..2 {
        let file = format!("model-0000{}-of-00002.safetensors", part + 1);
        let some = named.iter().enumerate().filter(|(n, _)| n % 2 == part).map(|(_, (k, v))| (k.clone(), v.clone()));
        let some: Named = some.collect();
        map.extend(some.keys().map(|name| (name.clone(), file.clone())));
        fs::write(folder.join(file), safetensors(&some, stored)).unwrap();
    }
    let index = json!({"metadata": {"total_size": 0}, "weight_map": map});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}
