//! Folders as Hugging Face's `save_pretrained` writes them: `config.json`, and weights in one or several safetensors files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Import, gpt2, llama, refused, tensors::Tensors};
use crate::base::{Context, Exit, Result, files};

pub const CONFIG: &str = "config.json";
pub const WEIGHTS: &str = "model.safetensors";
pub const INDEX: &str = "model.safetensors.index.json";
const TOKENIZER: &str = "tokenizer.json";

/// The longest JSON that is read, in bytes. The index of a model with a hundred thousand tensors has some ten million.
const LONGEST: u64 = 64 << 20;

/// No size that a config may name is larger, as in specs, so that what is computed from sizes stays below 2⁶⁴.
pub const LARGEST: u64 = 1_000_000;

/// The model of a folder.
pub fn open(folder: &Path) -> Result<Import> {
    let (single, index) = (folder.join(WEIGHTS), folder.join(INDEX));
    let config = Config::read(folder)?;
    let mut tensors = Tensors::default();
    match (single.exists(), index.exists()) {
        (true, _) => tensors.add_safetensors(&single)?,
        (false, true) => add_shards(&mut tensors, folder, &index)?,
        (false, false) => return Err(no_weights(folder)),
    }
    understand(&config, folder, tensors)
}

/// The model of a safetensors file, with the config that lies beside it.
pub fn open_file(path: &Path) -> Result<Import> {
    let folder = files::folder_of(path);
    if !folder.join(CONFIG).exists() {
        return Err(refused(path, "there is no config.json beside it that says what model these weights are of"));
    }
    let config = Config::read(folder)?;
    let mut tensors = Tensors::default();
    tensors.add_safetensors(path)?;
    understand(&config, folder, tensors)
}

fn understand(config: &Config, folder: &Path, tensors: Tensors) -> Result<Import> {
    let kind = config.text("model_type")?.ok_or_else(|| config.refused("it has no `model_type`"))?;
    config.never("quantization_config", "quantized weights are not known here")?;
    let mut import = match kind {
        "gpt2" => gpt2::open(config, folder, tensors)?,
        "llama" => llama::open(config, folder, tensors)?,
        other => {
            let why = format!("its `model_type` is {other:?}, and what is known here are \"gpt2\" and \"llama\"");
            return Err(config.refused(why));
        }
    };
    import.tokenizer_file = Some(folder.join(TOKENIZER)).filter(|path| path.exists());
    Ok(import)
}

fn no_weights(folder: &Path) -> crate::base::Error {
    let error = refused(folder, format!("it has neither {WEIGHTS} nor {INDEX}"));
    match folder.join("pytorch_model.bin").exists() || folder.join("pytorch_model.bin.index.json").exists() {
        true => error.hint(
            "pytorch_model.bin is not read; in Python, `AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(NEW)` \
             writes safetensors",
        ),
        false => error,
    }
}

/// Takes in the tensors of all files that an index names.
fn add_shards(tensors: &mut Tensors, folder: &Path, index: &Path) -> Result<()> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let Index { weight_map } = serde_json::from_slice(&read(index)?).map_err(|e| refused(index, e))?;
    for name in weight_map.values().collect::<BTreeSet<_>>() {
        let mut parts = Path::new(name).components();
        let is_plain = !name.contains(char::is_control);
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if is_plain && part == name.as_str())
        {
            return Err(refused(index, format!("it names the file {name:?}, which is none of its own folder's")));
        }
        let path = folder.join(name);
        if !path.exists() {
            return Err(refused(index, format!("it names {name}, and there is no such file")));
        }
        tensors.add_safetensors(&path)?;
    }
    for (tensor, file) in &weight_map {
        let found = tensors.get(tensor).map(|stored| tensors.path(stored));
        if found.is_none_or(|path| path != folder.join(file)) {
            return Err(refused(index, format!("it says that tensor {tensor} is in {file}, and it is not")));
        }
    }
    Ok(())
}

/// A JSON file of no unreasonable size.
fn read(path: &Path) -> Result<Vec<u8>> {
    let doing = || format!("reading {}", path.display());
    let file = fs::metadata(path).doing(Exit::Spec, doing)?;
    if !file.is_file() {
        return Err(refused(path, "it is no regular file"));
    }
    if file.len() > LONGEST {
        return Err(refused(path, format!("it has {} bytes, more than {LONGEST}", file.len())));
    }
    fs::read(path).doing(Exit::Spec, doing)
}

/// A `config.json`. A setting that is not there, or is null, has the default that HF gives it.
pub struct Config {
    path: PathBuf,
    settings: Map<String, Value>,
}

impl Config {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CONFIG);
        match serde_json::from_slice(&read(&path)?) {
            Ok(Value::Object(settings)) => Ok(Self { path, settings }),
            Ok(_) => Err(refused(&path, "it is no JSON object")),
            Err(e) => Err(refused(&path, format!("it is no JSON: {e}"))),
        }
    }

    /// An error of this file.
    pub fn refused(&self, why: impl std::fmt::Display) -> crate::base::Error {
        refused(&self.path, why)
    }

    /// A setting, if it is there.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings.get(name).filter(|value| !value.is_null())
    }

    /// A group of settings, if it is there.
    pub fn group(&self, name: &str) -> Result<Option<Self>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(settings)) => Ok(Some(Self { path: self.path.clone(), settings: settings.clone() })),
            Some(other) => Err(self.wrong(name, other, "a group of settings")),
        }
    }

    /// A size, which must be there: from 1 to [`LARGEST`].
    pub fn size(&self, name: &str) -> Result<usize> {
        self.size_or(name)?.ok_or_else(|| self.refused(format!("it has no `{name}`")))
    }

    /// A size, if it is there.
    pub fn size_or(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_u64() {
            Some(size @ 1..=LARGEST) => Ok(Some(size as usize)),
            _ => Err(self.wrong(name, value, "a size")),
        }
    }

    /// A positive number, if it is there.
    pub fn positive(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_f64().filter(|x| x.is_finite() && *x > 0.0) {
            Some(x) => Ok(Some(x)),
            None => Err(self.wrong(name, value, "a positive number")),
        }
    }

    /// A word, if it is there.
    pub fn text(&self, name: &str) -> Result<Option<&str>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(name, value, "a text"))
    }

    /// A switch, or its default.
    pub fn switch(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.get(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| self.wrong(name, value, "true or false"))
    }

    /// Refuses a switch that does not stand where models here have it.
    pub fn must_be(&self, name: &str, wanted: bool, default: bool) -> Result<()> {
        match self.switch(name, default)? == wanted {
            true => Ok(()),
            false => Err(self.refused(format!("its `{name}` is {}, which models here do not do", !wanted))),
        }
    }

    /// Refuses a setting that models here do not know.
    pub fn never(&self, name: &str, why: &str) -> Result<()> {
        self.get(name).map_or(Ok(()), |value| Err(self.refused(format!("its `{name}` is {}: {why}", brief(value)))))
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &str) -> crate::base::Error {
        self.refused(format!("its `{name}` is {}, which is not {wanted} that is known here", brief(value)))
    }
}

/// A value in a message.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
