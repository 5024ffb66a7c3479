//! nanoGPT's `ckpt.pt`: weights, what model they are of, and AdamW's moments.

use std::path::Path;

use super::{Format, Import, MOMENTS, Source, hf::LARGEST, refused, tensors::Tensors, torch};
use crate::{
    base::{Result, pickle::Id},
    model::{Layout, mapping},
    spec::config::ModelConfig,
};

/// What nanoGPT calls it.
pub const FILE: &str = "ckpt.pt";

/// What `torch.compile` puts before the name of a parameter.
const COMPILED: &str = "_orig_mod.";

/// The model of a file.
pub fn open(path: &Path) -> Result<Import> {
    let mut tensors = Tensors::default();
    let file = torch::File::open(path, &mut tensors)?;
    let tree = &file.tree;
    let part = |name: &str| {
        tree.get(tree.root(), name)
            .ok_or_else(|| refused(path, format!("it is no checkpoint of nanoGPT's: it has no `{name}`")))
    };
    let (args, weights) = (part("model_args")?, part("model")?);
    let entries = tree.entries(weights).ok_or_else(|| refused(path, "its `model` is no dict of tensors"))?;
    let mut order = Vec::new(); // of parameters, as nanoGPT's model has them
    for &(key, value) in entries {
        let key = tree.text(key).ok_or_else(|| refused(path, "its `model` has a key that is no name"))?;
        let name = key.strip_prefix(COMPILED).unwrap_or(key);
        tensors.insert(name.to_owned(), file.locate(value, name)?)?;
        order.push(name.to_owned());
    }

    let (model, vocab) = model(&file, args, path)?;
    let (wte, wpe) = ("transformer.wte.weight", "transformer.wpe.weight");
    // Sizes that no tensor has are refused here, before anything is made of them.
    tensors.expect(wte, &[vocab, model.d_model], path)?;
    tensors.expect(wpe, &[model.context, model.d_model], path)?;
    super::gpt2::layers_are_there(&tensors, model.layers, path, |layer| format!("transformer.h.{layer}.ln_1.weight"))?;
    super::gpt2::head_is_tied(&tensors, wte)?;

    let layout = Layout::of(&model, vocab);
    order.retain(|name| layout.get(name).is_some());
    let has_moments = match tree.get(tree.root(), "optimizer") {
        Some(optimizer) => moments(&file, optimizer, &order, &layout, &mut tensors)?,
        None => false,
    };
    let mut notes = Vec::new();
    let number =
        |name: &str| tree.get(tree.root(), name).and_then(|id| tree.number(id).or_else(|| scalar(&file, id, &tensors)));
    if let Some(step) = number("iter_num") {
        let loss =
            number("best_val_loss").map_or(String::new(), |loss| format!(", its best validation loss {loss:.4}"));
        notes.push(format!("it was trained for {step} iterations{loss}"));
    }
    let ignored =
        |name: &str| name == super::gpt2::HEAD || (name.starts_with("transformer.h.") && name.ends_with(".attn.bias"));
    let source = Source { format: Format::NanoGpt, path: path.into(), model, vocab, has_moments };
    let import = Import::new(source, tensors, mapping::nanogpt, "", ignored)?;
    Ok(Import { notes, ..import })
}

/// What `model_args` come to: GPT-2's block with the exact GELU.
fn model(file: &torch::File, args: Id, path: &Path) -> Result<(ModelConfig, usize)> {
    let tree = &file.tree;
    let size = |name: &str| {
        let id = tree.get(args, name).ok_or_else(|| refused(path, format!("its `model_args` have no `{name}`")))?;
        match tree.int(id).and_then(|size| u64::try_from(size).ok()) {
            Some(size @ 1..=LARGEST) => Ok(size as usize),
            _ => Err(refused(path, format!("the `{name}` of its `model_args` is no size that is known here"))),
        }
    };
    let (heads, d_model) = (size("n_head")?, size("n_embd")?);
    if !d_model.is_multiple_of(heads) {
        return Err(refused(path, format!("its `n_head` {heads} does not divide its `n_embd` {d_model}")));
    }
    let model = ModelConfig {
        layers: size("n_layer")?,
        heads,
        kv_heads: heads,
        d_model,
        context: size("block_size")?,
        d_ff: 4 * d_model,
        // Checkpoints from before there was a choice have biases.
        bias: tree.get(args, "bias").and_then(|id| tree.bool(id)).unwrap_or(true),
        ..ModelConfig::default()
    };
    Ok((model, size("vocab_size")?))
}

/// Takes in the optimizer's moments under the names of their parameters; `false` where it has made no step. It numbers
/// parameters: first those that decay, matrices and embeddings, then the rest, each as the model has them.
fn moments(
    file: &torch::File,
    optimizer: Id,
    order: &[String],
    layout: &Layout,
    tensors: &mut Tensors,
) -> Result<bool> {
    let (tree, path) = (&file.tree, file.path());
    let decays = |name: &String| layout.get(name).is_some_and(|param| param.decays());
    let (decayed, rest): (Vec<&String>, Vec<&String>) = order.iter().partition(|name| decays(name));
    let groups = tree.get(optimizer, "param_groups").and_then(|groups| tree.list(groups)).unwrap_or_default();
    let sizes: Vec<usize> =
        groups.iter().filter_map(|group| tree.list(tree.get(*group, "params")?)).map(<[Id]>::len).collect();
    let Some(state) =
        tree.get(optimizer, "state").filter(|state| tree.entries(*state).is_some_and(|all| !all.is_empty()))
    else {
        return Ok(false);
    };
    if sizes != [decayed.len(), rest.len()] {
        let why = format!(
            "its optimizer has groups of {sizes:?} parameters, and nanoGPT's has {} that decay and {} that do not",
            decayed.len(),
            rest.len()
        );
        return Err(refused(path, why));
    }
    for (number, name) in decayed.into_iter().chain(rest).enumerate() {
        let lacks = || refused(path, format!("its optimizer has no moments of {name}"));
        let of = tree.get_numbered(state, number as i64).ok_or_else(lacks)?;
        for prefix in MOMENTS {
            let id = tree.get(of, prefix.trim_end_matches('.')).ok_or_else(lacks)?;
            let name = format!("{prefix}{name}");
            tensors.insert(name.clone(), file.locate(id, &name)?)?;
        }
    }
    Ok(true)
}

/// The one number of a tensor without dimensions.
fn scalar(file: &torch::File, id: Id, tensors: &Tensors) -> Option<f64> {
    let stored = file.tree.tensor(id).and_then(|_| file.locate(id, "").ok())?;
    let bytes = tensors.data(&stored).try_into().ok().filter(|_| stored.dtype == safetensors::Dtype::F32)?;
    Some(f32::from_le_bytes(bytes).into())
}
