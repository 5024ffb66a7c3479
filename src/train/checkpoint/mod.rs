//! Checkpoints: folders `checkpoints/step-N.attempt-K/` that are whole or absent.
//!
//! Each holds the weights, the optimizer's moments, a state and a manifest with the sizes and hashes of these, written
//! last. It is written aside, every file fsynced, then renamed. Random streams and the data cursor are functions of the
//! seed and the step, so nothing of them is needed to go on exactly. `last` and `best` are files that hold the name of a
//! folder, for people and their scripts; what is read here goes by the folders themselves.
//!
//! - here: what stands in a checkpoint, which is best, and whether a run may go on from it
//! - `load`: choosing the one to go on from, and what becomes of those that are of no use
//! - `save`: writing one, and removing what is not kept

mod load;
mod save;

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    base::{Context, Error, Exit, Result, checkpoints::Fault, files, folders::RunFolder, num},
    engine::{Engine, Part},
    event::FileRef,
    model::{Layout, safetensors},
    spec::RunConfig,
};

pub use crate::base::checkpoints::{Saved, latest_step, list};
pub use load::load;
pub use save::{Keep, Numbers, clean, most_bytes, point, remove_said, save, surplus};

/// The version of what a checkpoint's folder holds.
const FORMAT: u32 = 1;

/// What the name of a checkpoint that is not what was written begins with once it is moved aside.
const DAMAGED: &str = "damaged";
/// The same of one that failed to load too often.
const BAD: &str = "bad";
/// The same of one that a later attempt went on from before.
const VOID: &str = "void";

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
/// What the names of the two moments of a parameter begin with in the optimizer's file.
const MOMENTS: [&str; 2] = ["moment1.", "moment2."];

/// A loss and the number of updates before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct At {
    /// Updates done.
    pub step: u64,
    /// In nats per token; finite.
    pub loss: f64,
}

/// The norm of a gradient and the update that it was of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Norm {
    /// Which update, from 1.
    pub step: u64,
    /// Before clipping; finite.
    pub norm: f64,
}

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Updates done.
    pub step: u64,
    /// Whether the evaluation after that step, where there is one, is done.
    pub evaluated: bool,
    /// The validation loss of that evaluation; may not be finite.
    #[serde(with = "num::float_option", default)]
    pub val_loss: Option<f64>,
    /// The lowest finite validation loss so far.
    pub best: Option<At>,
    /// The latest finite training loss, of the update that `step` counts to.
    pub last_finite: Option<At>,
    /// The latest finite norm of a gradient.
    #[serde(default)]
    pub last_norm: Option<Norm>,
    /// The latest finite validation loss.
    #[serde(default)]
    pub last_val: Option<At>,
    /// The step after which the model wrote last.
    #[serde(default)]
    pub sampled: Option<u64>,
    /// Windows of tokens drawn for training: the data cursor.
    pub windows: u64,
}

/// What a checkpoint was computed from, and with what: a resume is exact only where all of it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The run's config.
    pub config: RunConfig,
    /// blake3 of the corpus's text, in hex.
    pub corpus_hash: String,
    /// `tape` or `cpu`.
    pub engine: String,
    /// The SIMD level of its kernels.
    pub simd: String,
    /// The model name of the CPU or GPU.
    pub processor: String,
    /// The version of `exp`.
    pub version: String,
    /// Which build of it; empty where that was not written down.
    #[serde(default)]
    pub binary: String,
}

/// `state.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The version of what a checkpoint holds, when it was written.
    pub format: u32,
    /// How far the run had come.
    pub progress: Progress,
    /// What it was computed from and with.
    pub origin: Origin,
}

impl State {
    /// A state in the format of this version.
    pub fn new(progress: Progress, origin: Origin) -> Self {
        Self { format: FORMAT, progress, origin }
    }
}

/// The checkpoint with the lowest validation loss, else the newest; a damaged one is passed over. Errors where one cannot
/// be read.
pub fn best(folder: &RunFolder) -> Result<Option<Saved>> {
    for saved in best_first(&list(folder)?) {
        match saved.verify() {
            Err(Fault::Damaged(_)) => {}
            verified => return Ok(verified.map(|()| Some(saved))?),
        }
    }
    Ok(None)
}

/// Those with a validation loss by it, the lowest first, then the others, the newest first.
pub fn best_first(all: &[Saved]) -> Vec<Saved> {
    let mut order = ranked(all);
    order.extend(all.iter().filter(|saved| !order.contains(saved)).cloned().collect::<Vec<_>>());
    order
}

/// Those with a finite validation loss of their own, the lowest first, and of equals the earliest.
fn ranked(all: &[Saved]) -> Vec<Saved> {
    let loss = |saved: &Saved| saved.state().ok()?.progress.val_loss.filter(|loss| loss.is_finite());
    let mut ranked: Vec<(f64, &Saved)> = all.iter().filter_map(|s| Some((loss(s)?, s))).collect();
    ranked.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.step.cmp(&y.step)));
    ranked.into_iter().map(|(_, saved)| saved.clone()).collect()
}

impl Saved {
    /// Its state.
    pub fn state(&self) -> Result<State> {
        let path = self.path.join(STATE);
        let state: Value = files::read_json(&path)?;
        let doing = || format!("reading {}", path.display());
        if state["format"] != FORMAT {
            let why = format!("its format is {}, and this version of exp knows {FORMAT}", state["format"]);
            return Err(Error::new(Exit::Spec, doing(), why).hint("use the version of exp that wrote it"));
        }
        serde_json::from_value(state).doing(Exit::Store, doing)
    }

    /// Its weights as one flat vector and the file of them, once its files are verified. Errors name the tensor that does
    /// not fit.
    pub fn weights(&self, layout: &Layout) -> Result<(Vec<f32>, FileRef)> {
        self.verify()?;
        let mut files = self.manifest()?.files.into_iter();
        let path = self.path.join(MODEL);
        let file = files.find(|file| file.name == MODEL).ok_or_else(|| {
            Error::new(Exit::Store, format!("reading {}", self.path.display()), format!("it has no {MODEL}"))
        })?;
        Ok((safetensors::read(&path, layout, &[""])?.remove(0), file))
    }

    /// Takes its place among the checkpoints from it; nothing is deleted. Returns its new name.
    fn move_aside(&self, why: &str) -> Result<String> {
        let name = format!("{why}-{}", self.name());
        let path = self.path.with_file_name(&name);
        let move_aside = || -> std::io::Result<()> {
            if path.exists() {
                fs::remove_dir_all(&path)?; // of the same name: a copy that was moved back
            }
            fs::rename(&self.path, &path)?;
            files::sync_folder(path.parent().unwrap_or(Path::new(".")))
        };
        move_aside().doing(Exit::Store, || format!("moving {} to {name}", self.path.display()))?;
        Ok(name)
    }

    /// Puts weights and moments into the engine.
    fn restore(&self, engine: &mut dyn Engine) -> Result<()> {
        let weights = safetensors::read(&self.path.join(MODEL), engine.layout(), &[""])?.remove(0);
        let moments = safetensors::read(&self.path.join(OPTIMIZER), engine.layout(), &MOMENTS)?;
        engine.write(Part::Params, &weights)?;
        engine.write(Part::Moment1, &moments[0])?;
        engine.write(Part::Moment2, &moments[1])
    }
}

/// Says why a checkpoint of one origin cannot be gone on from in a run of another.
fn fits(then: &Origin, now: &Origin) -> Result<(), String> {
    if then.corpus_hash != now.corpus_hash {
        return Err("it was trained on another corpus".into());
    }
    // What stands under `checkpoint`, `sample` and `run` changes no result, a preset is but a name for other leaves, and a
    // path may change while its content stays.
    let aside = |leaf: &str| ["checkpoint.", "sample.", "run."].iter().any(|group| leaf.starts_with(group));
    let decides = |leaf: &str| !aside(leaf) && !["data.path", "data.tokenizer_file", "model.preset"].contains(&leaf);
    let was = then.config.leaves();
    match now.config.leaves().iter().find(|(leaf, value)| decides(leaf) && was.get(*leaf) != Some(value)) {
        Some((leaf, value)) => Err(format!(
            "it was trained with {leaf} {}, and the run has {value}",
            was.get(leaf).unwrap_or(&Value::Null)
        )),
        None => Ok(()),
    }
}

impl Origin {
    /// What of engine, instructions, processor and version is not the same now, a sentence each.
    fn differences(&self, now: &Self) -> Vec<String> {
        let pairs = [
            ("engine", &self.engine, &now.engine),
            ("SIMD level", &self.simd, &now.simd),
            ("processor", &self.processor, &now.processor),
            ("version of exp", &self.version, &now.version),
        ];
        let different = pairs.into_iter().filter(|(_, then, now)| then != now);
        let mut sentences: Vec<String> =
            different.map(|(what, then, now)| format!("the checkpoint's {what} was {then}, now it is {now}")).collect();
        let is_known = !self.binary.is_empty() && !now.binary.is_empty();
        if is_known && self.binary != now.binary && self.version == now.version {
            sentences.push("the checkpoint was written by another build of exp".into());
        }
        sentences
    }
}
