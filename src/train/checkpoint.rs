//! Checkpoints: folders `checkpoints/step-N.attempt-K/` that are whole or absent.
//!
//! Each holds the weights, the optimizer's moments, a state and a manifest with the sizes and hashes of these, written
//! last. It is written aside, every file fsynced, then renamed. Random streams and the data cursor are functions of the
//! seed and the step, so nothing of them is needed to go on exactly. `last` and `best` are files that hold the name of a
//! folder, for people and their scripts; what is read here goes by the folders themselves.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    base::{Context, Error, Exit, Result, clock, files, folders::RunFolder, num},
    engine::{Engine, Part},
    event::{Checkpointed, FileRef},
    model::{Layout, safetensors},
    spec::{RunConfig, config::CheckpointConfig},
};

/// The version of what a checkpoint's folder holds.
const FORMAT: u32 = 1;

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const STATE: &str = "state.json";
const MANIFEST: &str = "manifest.json";
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

/// `manifest.json`.
#[derive(Serialize, Deserialize)]
struct Manifest {
    files: Vec<FileRef>,
}

/// A checkpoint's folder. That it exists says that it was whole when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The attempt that wrote it.
    pub attempt: u32,
    /// Updates that it holds.
    pub step: u64,
    /// Its folder.
    pub path: PathBuf,
}

/// All checkpoints of a run, newest first: those of the latest attempt before those of an earlier one, since what an
/// earlier one logged after the step that a later one went on from is void.
pub fn list(folder: &RunFolder) -> Vec<Saved> {
    let entries = fs::read_dir(folder.checkpoints()).into_iter().flatten().flatten();
    let mut found: Vec<Saved> = entries.filter_map(|e| Saved::at(e.path())).collect();
    found.sort_by_key(|s| std::cmp::Reverse((s.attempt, s.step)));
    found
}

/// The step of the newest checkpoint whose files are all there.
pub fn latest_step(folder: &RunFolder) -> Option<u64> {
    list(folder).into_iter().find(|s| s.manifest().is_ok()).map(|s| s.step)
}

/// The checkpoint with the lowest validation loss, else the newest.
pub fn best(folder: &RunFolder) -> Option<Saved> {
    let whole: Vec<Saved> = list(folder).into_iter().filter(|s| s.manifest().is_ok()).collect();
    ranked(&whole).first().or(whole.first()).cloned()
}

/// Those with a finite validation loss of their own, the lowest first, and of equals the earliest.
fn ranked(all: &[Saved]) -> Vec<Saved> {
    let loss = |saved: &Saved| saved.state().ok()?.progress.val_loss.filter(|loss| loss.is_finite());
    let mut ranked: Vec<(f64, &Saved)> = all.iter().filter_map(|s| Some((loss(s)?, s))).collect();
    ranked.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.step.cmp(&y.step)));
    ranked.into_iter().map(|(_, saved)| saved.clone()).collect()
}

impl Saved {
    /// `None` where the path's name is not a checkpoint's.
    fn at(path: PathBuf) -> Option<Self> {
        let (step, attempt) = path.file_name()?.to_str()?.strip_prefix("step-")?.split_once(".attempt-")?;
        Some(Self { attempt: attempt.parse().ok()?, step: step.parse().ok()?, path })
    }

    /// Its folder's name.
    pub fn name(&self) -> String {
        format!("step-{}.attempt-{}", self.step, self.attempt)
    }

    /// Its state.
    pub fn state(&self) -> Result<State> {
        let path = self.path.join(STATE);
        let state: Value = files::read_json(&path)?;
        let doing = || format!("reading {}", path.display());
        if state["format"] != FORMAT {
            let why = format!("its format is {}, and this version of exp knows {FORMAT}", state["format"]);
            return Err(Error::new(Exit::Store, doing(), why).hint("use the version of exp that wrote it"));
        }
        serde_json::from_value(state).doing(Exit::Store, doing)
    }

    /// Its weights as one flat vector, once its files are verified. Errors name the tensor that does not fit.
    pub fn weights(&self, layout: &Layout) -> Result<Vec<f32>> {
        self.verify()?;
        Ok(safetensors::read(&self.path.join(MODEL), layout, &[""])?.remove(0))
    }

    /// Its manifest, once all files are there in the size that it says.
    fn manifest(&self) -> Result<Manifest> {
        let manifest: Manifest = files::read_json(&self.path.join(MANIFEST))?;
        for file in &manifest.files {
            let path = self.path.join(&file.name);
            let bytes = fs::metadata(&path).doing(Exit::Store, || format!("reading {}", path.display()))?.len();
            if bytes != file.bytes {
                return Err(damaged(&path, format!("it has {bytes} bytes, not {}", file.bytes)));
            }
        }
        Ok(manifest)
    }

    /// Errors where a file lacks or is not, byte for byte, what was written.
    fn verify(&self) -> Result<()> {
        for file in self.manifest()?.files {
            let path = self.path.join(&file.name);
            let hash =
                || -> std::io::Result<_> { Ok(blake3::Hasher::new().update_reader(File::open(&path)?)?.finalize()) };
            let hash = hash().doing(Exit::Store, || format!("reading {}", path.display()))?;
            if hash.to_hex().as_str() != file.blake3 {
                return Err(damaged(&path, "its content is not what was written".into()));
            }
        }
        Ok(())
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

fn damaged(path: &Path, why: String) -> Error {
    Error::new(Exit::Store, format!("verifying {}", path.display()), why)
}

/// Puts the newest whole checkpoint into the engine and returns how far it had come; `None` where there is none.
/// `warn` hears of damaged ones that were passed over and of whatever may change bits of what follows. Errors where the
/// checkpoint is of another config, corpus or format: going on from it would mix two runs.
pub fn load(
    folder: &RunFolder,
    engine: &mut dyn Engine,
    origin: &Origin,
    warn: &mut dyn FnMut(String) -> Result<()>,
) -> Result<Option<Progress>> {
    for saved in list(folder) {
        if let Err(error) = saved.verify() {
            warn(format!("passing over a damaged checkpoint: {error}"))?;
            continue;
        }
        let state = saved.state()?;
        if let Err(why) = fits(&state.origin, origin) {
            return Err(Error::new(Exit::Store, format!("resuming from {}", saved.path.display()), why)
                .hint("move the checkpoints of this run away to train it anew"));
        }
        saved.restore(engine)?;
        for difference in state.origin.differences(origin) {
            warn(format!("{difference}: what follows may differ in its last bits from a straight run"))?;
        }
        return Ok(Some(state.progress));
    }
    Ok(None)
}

/// Says why a checkpoint of one origin cannot be gone on from in a run of another.
fn fits(then: &Origin, now: &Origin) -> Result<(), String> {
    if then.corpus_hash != now.corpus_hash {
        return Err("it was trained on another corpus".into());
    }
    // What stands under `checkpoint` and `run` changes no result, and a path may change while its content stays.
    let decides = |leaf: &str| !leaf.starts_with("checkpoint.") && !leaf.starts_with("run.") && leaf != "data.path";
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
        different.map(|(what, then, now)| format!("the checkpoint's {what} was {then}, now it is {now}")).collect()
    }
}

/// Writes a checkpoint, removes what `keep` does not ask for, and moves the pointers. What was logged up to this step
/// must be durable before.
pub fn save(
    folder: &RunFolder,
    attempt: u32,
    engine: &dyn Engine,
    state: &State,
    keep: &CheckpointConfig,
) -> Result<Checkpointed> {
    let progress = &state.progress;
    let all = folder.checkpoints();
    let name = format!("step-{}.attempt-{attempt}", progress.step);
    let (aside, path) = (all.join(format!(".aside-{name}")), all.join(&name));
    let rename = |files| -> std::io::Result<_> {
        fs::rename(&aside, &path)?;
        files::sync_folder(&all)?;
        Ok(files)
    };
    let written = write(&aside, engine, state)
        .and_then(|files| rename(files).doing(Exit::Store, || format!("writing the checkpoint {}", path.display())));
    let files = written.inspect_err(|_| {
        let _ = fs::remove_dir_all(&aside); // what is wrong with the disk is said already
    })?;
    let removed = prune(folder, keep)?.iter().map(|s| relative(&s.name())).collect();
    point(&all, "last", &name)?;
    if let Some(best) = self::best(folder) {
        point(&all, "best", &best.name())?;
    }
    let best = progress.evaluated && progress.best.is_some_and(|best| best.step == progress.step);
    Ok(Checkpointed { at: clock::now(), step: progress.step, folder: relative(&name), files, best, removed })
}

/// A checkpoint's folder as seen from the run's.
fn relative(name: &str) -> String {
    format!("checkpoints/{name}")
}

/// Removes what a killed attempt left half written.
pub fn clean(folder: &RunFolder) {
    for entry in fs::read_dir(folder.checkpoints()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".aside-") {
            let _ = fs::remove_dir_all(entry.path()); // left alone it is in nobody's way
        }
    }
}

/// Writes all files of a checkpoint into a new folder, the manifest last; each is durable on return.
fn write(aside: &Path, engine: &dyn Engine, state: &State) -> Result<Vec<FileRef>> {
    fs::create_dir_all(aside).doing(Exit::Store, || format!("making {}", aside.display()))?;
    let tensors = |parts: &[(&str, Part)]| -> Result<Vec<u8>> {
        let values =
            parts.iter().map(|&(prefix, part)| Ok((prefix, engine.read(part)?))).collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = values.iter().map(|(prefix, values)| (*prefix, values.as_slice())).collect();
        safetensors::to_bytes(engine.layout(), &views)
    };
    let files = vec![
        put(aside, MODEL, &tensors(&[("", Part::Params)])?)?,
        put(aside, OPTIMIZER, &tensors(&[(MOMENTS[0], Part::Moment1), (MOMENTS[1], Part::Moment2)])?)?,
        put(aside, STATE, &json(state)?)?,
    ];
    put(aside, MANIFEST, &json(&Manifest { files: files.clone() })?)?;
    files::sync_folder(aside).doing(Exit::Store, || format!("writing {}", aside.display()))?;
    Ok(files)
}

/// Writes one file, durably.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<FileRef> {
    let path = folder.join(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().doing(Exit::Store, || format!("writing {}", path.display()))?;
    Ok(FileRef { name: name.into(), bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() })
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).doing(Exit::Unexpected, || "writing the state of a checkpoint".into())
}

/// Makes `pointer` name a checkpoint.
fn point(all: &Path, pointer: &str, name: &str) -> Result<()> {
    files::write_atomic(&all.join(pointer), format!("{name}\n").as_bytes())
}

/// Removes all checkpoints but the newest `keep_last` and the best `keep_best`; returns what it removed.
fn prune(folder: &RunFolder, keep: &CheckpointConfig) -> Result<Vec<Saved>> {
    let (whole, mut unwanted): (Vec<Saved>, Vec<Saved>) = list(folder).into_iter().partition(|s| s.manifest().is_ok());
    let best = ranked(&whole).into_iter().take(keep.keep_best).collect::<Vec<_>>();
    unwanted.extend(whole.into_iter().skip(keep.keep_last).filter(|saved| !best.contains(saved)));
    for saved in &unwanted {
        fs::remove_dir_all(&saved.path).doing(Exit::Store, || format!("removing {}", saved.path.display()))?;
    }
    Ok(unwanted)
}
