//! Weights that other programs wrote: Hugging Face's GPT-2 and Llama, nanoGPT's checkpoints, and what [`super::export`]
//! writes.
//!
//! - `hf`: `config.json`, whatever it says of a model; `gpt2`, `llama`: what these models' settings come to here
//! - `nanogpt`: `ckpt.pt`; `torch`: how such a file is read
//! - `tensors`: named tensors in mapped files
//!
//! Files are checked in full before a number is read: sizes that a config claims are believed only once a tensor of that
//! size is there. Whatever decides what weights mean and is not known here is refused, since a model that computes
//! something else than its author meant is worse than none.

mod gpt2;
mod hf;
mod llama;
mod nanogpt;
mod tensors;
mod torch;

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use self::tensors::Tensors;
use super::{Layout, POSITIONS, mapping::Piece};
use crate::{
    base::{Context, Error, Exit, Result},
    spec::config::{ModelConfig, Position},
};

/// Who wrote the weights, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder of `GPT2LMHeadModel` or `GPT2Model`.
    HfGpt2,
    /// A folder of `LlamaForCausalLM` or `LlamaModel`.
    HfLlama,
    /// nanoGPT's `ckpt.pt`.
    NanoGpt,
}

impl Format {
    /// The word for it in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::HfGpt2 => "hf-gpt2",
            Self::HfLlama => "hf-llama",
            Self::NanoGpt => "nanogpt",
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::HfGpt2 => "a GPT-2 of Hugging Face's",
            Self::HfLlama => "a Llama of Hugging Face's",
            Self::NanoGpt => "a checkpoint of nanoGPT's",
        }
    }
}

/// A model in somebody else's files: understood and checked, its numbers not read yet.
pub struct Import {
    /// Who wrote it.
    pub format: Format,
    /// Where it lies: the folder, or the file of nanoGPT.
    pub path: PathBuf,
    /// What it is here.
    pub model: ModelConfig,
    /// How many tokens it knows.
    pub vocab: usize,
    /// Names and shapes of its parameters here.
    pub layout: Layout,
    /// The `tokenizer.json` beside it.
    pub tokenizer_file: Option<PathBuf>,
    /// What a person should know of it, a sentence each.
    pub notes: Vec<String>,
    tensors: Tensors,
    pieces: Vec<Piece>,
    /// What the names of tensors in `pieces` lack in the files: their bare models have no name of their own.
    stripped: &'static str,
    /// Whether the optimizer's two moments are there.
    has_moments: bool,
}

/// What the names of the moments begin with among the tensors: PyTorch's words for them.
const MOMENTS: [&str; 2] = ["exp_avg.", "exp_avg_sq."];

impl Import {
    /// Finds out what lies at a path and whether it can be a model here. `context` leaves out the position embeddings
    /// beyond it.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is nothing; [`Exit::Spec`] where it is no model that is known here, with what was looked
    /// for; where it computes something that is not known here; where a tensor lacks, has another shape than the config
    /// says, or is not known; where a file is damaged.
    pub fn open(path: &Path, context: Option<usize>) -> Result<Self> {
        let read = || format!("reading {}", path.display());
        let is_folder = fs::metadata(path).doing(Exit::Usage, read)?.is_dir();
        let mut import = match (is_folder, path.file_name().and_then(|name| name.to_str())) {
            (true, _) if path.join(hf::CONFIG).exists() => hf::open(path)?,
            (true, _) if path.join(nanogpt::FILE).exists() => nanogpt::open(&path.join(nanogpt::FILE))?,
            (false, Some(name)) if name.ends_with(".safetensors") => hf::open_file(path)?,
            (false, _) if begins_as_zip(path).doing(Exit::Spec, read)? => nanogpt::open(path)?,
            (is_folder, _) => return Err(unknown(path, is_folder)),
        };
        if let Some(context) = context {
            import.crop(context)?;
        }
        Ok(import)
    }

    /// A model of these tensors. `map` says which of them make up its parameters; `stripped` is what their names lack
    /// here, and `ignored` says of which other tensors nothing is lost.
    fn new(
        source: Source,
        tensors: Tensors,
        map: impl Fn(&Layout) -> Vec<Piece>,
        stripped: &'static str,
        ignored: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let Source { format, path, model, vocab, has_moments } = source;
        let layout = Layout::of(&model, vocab);
        let pieces = map(&layout);
        let import = Self {
            format,
            path,
            model,
            vocab,
            layout,
            tokenizer_file: None,
            notes: Vec::new(),
            tensors,
            pieces,
            stripped,
            has_moments,
        };
        let mut taken: Vec<(usize, Range<usize>, String)> = Vec::new();
        let mut unknown: BTreeSet<&str> = import.tensors.names().filter(|name| !ignored(name)).collect();
        for prefix in import.prefixes() {
            for piece in &import.pieces {
                let name = import.name(prefix, piece);
                import.tensors.check(&name, piece, &import.path)?;
                unknown.remove(name.as_str());
                taken.extend(import.tensors.get(&name).map(|stored| (stored.file, stored.bytes.clone(), name)));
            }
        }
        import.each_has_its_own(taken)?;
        let stray = unknown.first().and_then(|name| Some((name, import.tensors.get(name)?)));
        if let Some((name, stored)) = stray {
            let why = format!("tensor {name} of shape {:?} is no parameter of this model", stored.shape);
            return Err(refused(import.tensors.path(stored), why));
        }
        Ok(import)
    }

    /// Refuses two tensors that share bytes: a few bytes could make up a model of any size. A head that is the embedding is
    /// none of the parameters here.
    fn each_has_its_own(&self, mut taken: Vec<(usize, Range<usize>, String)>) -> Result<()> {
        taken.sort_by_key(|(file, bytes, _)| (*file, bytes.start));
        for pair in taken.windows(2) {
            let [(file, bytes, name), (next_file, next, other)] = pair else { continue };
            if file == next_file && bytes.end > next.start {
                let why = format!("the tensors {name} and {other} share their numbers");
                return Err(refused(&self.path, why));
            }
        }
        Ok(())
    }

    /// Whether the optimizer's two moments are there.
    pub fn has_moments(&self) -> bool {
        self.has_moments
    }

    /// The weights, as one flat vector in the layout's order.
    pub fn weights(&self) -> Vec<f32> {
        self.flat("")
    }

    /// The optimizer's first or second moment (0 or 1) of each weight, where they are there.
    pub fn moment(&self, which: usize) -> Option<Vec<f32>> {
        self.has_moments.then(|| self.flat(MOMENTS[which]))
    }

    fn flat(&self, prefix: &str) -> Vec<f32> {
        let mut flat = vec![0.0; self.layout.len()];
        for piece in &self.pieces {
            if let Some(param) = self.layout.get(&piece.param) {
                self.tensors.fill(&self.name(prefix, piece), piece, &mut flat[param.range()]);
            }
        }
        flat
    }

    fn prefixes(&self) -> Vec<&'static str> {
        [""].into_iter().chain(MOMENTS.into_iter().filter(|_| self.has_moments)).collect()
    }

    /// What the tensor of a piece is called in the files.
    fn name(&self, prefix: &str, piece: &Piece) -> String {
        format!("{prefix}{}", piece.tensor.strip_prefix(self.stripped).unwrap_or(&piece.tensor))
    }

    /// Leaves out what the model knows of later positions.
    fn crop(&mut self, context: usize) -> Result<()> {
        let has = self.model.context;
        if context == 0 || context > has {
            let why = format!("a context of {context} cannot be had: the model has one of {has}");
            return Err(Error::new(Exit::Usage, format!("importing {}", self.path.display()), why)
                .hint("`--context` can only make it smaller"));
        }
        self.model.context = context;
        self.layout = Layout::of(&self.model, self.vocab);
        if self.model.position == Position::Learned {
            for piece in self.pieces.iter_mut().filter(|piece| piece.param == POSITIONS) {
                piece.range = 0..context * self.model.d_model;
            }
        }
        Ok(())
    }
}

/// What a format has found out before the tensors are checked.
struct Source {
    format: Format,
    path: PathBuf,
    model: ModelConfig,
    vocab: usize,
    has_moments: bool,
}

fn begins_as_zip(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut begin = Vec::new();
    if fs::metadata(path)?.is_file() {
        fs::File::open(path)?.take(2).read_to_end(&mut begin)?;
    }
    Ok(begin == b"PK")
}

fn unknown(path: &Path, is_folder: bool) -> Error {
    let doing = format!("importing {}", path.display());
    let has = |name: &str| path.join(name).exists();
    let why = match is_folder {
        true if has(hf::WEIGHTS) || has(hf::INDEX) => {
            "it has weights, but no config.json that says what model they are of".to_owned()
        }
        true => format!(
            "there is neither a {} of Hugging Face's models nor a {} of nanoGPT's in it",
            hf::CONFIG,
            nanogpt::FILE
        ),
        false => "it is neither safetensors nor a file of `torch.save`".into(),
    };
    Error::new(Exit::Spec, doing, why).hint(
        "`exp import` takes a folder with config.json and model.safetensors (GPT-2 or Llama), or nanoGPT's ckpt.pt; \
         `run.init_from` takes runs of exp as they are",
    )
}

/// Refuses a file, and says why.
fn refused(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(Exit::Spec, format!("importing {}", path.display()), harmless(&why.to_string()))
}

/// What may quote names out of a stranger's file, fit for a terminal: without control characters and of a length that
/// somebody reads.
fn harmless(text: &str) -> String {
    const BEGIN: usize = 500;
    const END: usize = 200;
    let escape = |c: char| match c {
        '"' | '\'' | '\\' => c.to_string(), // would be escaped too, and do no harm
        _ => c.escape_debug().to_string(),
    };
    let count = text.chars().count();
    let all = || text.chars();
    match count > BEGIN + END {
        true => all().take(BEGIN).chain(['…']).chain(all().skip(count - END)).map(escape).collect(),
        false => all().map(escape).collect(),
    }
}
