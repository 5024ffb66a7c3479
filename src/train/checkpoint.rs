//! Checkpoints: folders `checkpoints/step-N.attempt-K/` that are whole or absent.
//!
//! Each holds the weights, the optimizer's moments, a state and a manifest with the sizes and hashes of these, written
//! last. It is written aside, every file fsynced, then renamed. Random streams and the data cursor are functions of the
//! seed and the step, so nothing of them is needed to go on exactly. `last` and `best` are files that hold the name of a
//! folder, for people and their scripts; what is read here goes by the folders themselves.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    base::{
        Context, Error, Exit, Result,
        checkpoints::{Fault, MANIFEST, Manifest},
        clock::{self, Millis},
        files,
        folders::RunFolder,
        num,
    },
    engine::{Engine, Part},
    event::{Checkpointed, Event, FileRef},
    model::{Layout, safetensors},
    spec::{RunConfig, config::CheckpointConfig},
};

pub use crate::base::checkpoints::{Saved, latest_step, list};

/// The version of what a checkpoint's folder holds.
const FORMAT: u32 = 1;

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

/// The checkpoint with the lowest validation loss, else the newest; a damaged one is passed over. Errors where one cannot
/// be read.
pub fn best(folder: &RunFolder) -> Result<Option<Saved>> {
    let all = list(folder);
    for saved in ranked(&all).iter().chain(&all) {
        match saved.verify() {
            Err(Fault::Damaged(_)) => {}
            verified => return Ok(verified.map(|()| Some(saved.clone()))?),
        }
    }
    Ok(None)
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
            return Err(Error::new(Exit::Store, doing(), why).hint("use the version of exp that wrote it"));
        }
        serde_json::from_value(state).doing(Exit::Store, doing)
    }

    /// Its weights as one flat vector, once its files are verified. Errors name the tensor that does not fit.
    pub fn weights(&self, layout: &Layout) -> Result<Vec<f32>> {
        self.verify()?;
        Ok(safetensors::read(&self.path.join(MODEL), layout, &[""])?.remove(0))
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

/// Puts the newest whole checkpoint into the engine and returns how far it had come; `None` where the run starts anew.
/// One that holds no step is nothing to go on from: a run that starts anew evaluates anew.
///
/// Damaged ones are moved aside, so that they are neither gone on from, nor best, nor kept for ever; `warn` hears of
/// them, and of whatever may change bits of what follows. Errors where the newest cannot be read, since to go on from an
/// older one would lose steps for good; and where it is of another config, corpus or format, since that would mix two
/// runs.
pub fn load(
    folder: &RunFolder,
    engine: &mut dyn Engine,
    origin: &Origin,
    warn: &mut dyn FnMut(String) -> Result<()>,
) -> Result<Option<Progress>> {
    let Some(saved) = newest(folder, warn)?.filter(|saved| saved.step > 0) else { return Ok(None) };
    let state = saved.state()?;
    if let Err(why) = fits(&state.origin, origin) {
        return Err(Error::new(Exit::Store, format!("resuming from {}", saved.path.display()), why)
            .hint("move the checkpoints of this run away to train it anew"));
    }
    saved.restore(engine)?;
    for difference in state.origin.differences(origin) {
        warn(format!("{difference}: what follows may differ in its last bits from a straight run"))?;
    }
    Ok(Some(state.progress))
}

/// The newest whole checkpoint, once all that are void or damaged are out of the way.
fn newest(folder: &RunFolder, warn: &mut dyn FnMut(String) -> Result<()>) -> Result<Option<Saved>> {
    let resumes = resumes(folder)?;
    let mut newest = None;
    for saved in list(folder) {
        let voids = |&&(attempt, from): &&(u32, u64)| attempt > saved.attempt && (saved.step > from || from == 0);
        if let Some((attempt, from)) = resumes.iter().find(voids) {
            let name = saved.move_aside("void")?;
            let why = format!("attempt {attempt} went on from step {from}");
            warn(format!("the checkpoint {} is void, since {why}; it is now {name}", saved.name()))?;
            continue;
        }
        match saved.verify() {
            Err(Fault::Damaged(error)) => {
                let name = saved.move_aside("damaged")?;
                warn(format!("passed over a damaged checkpoint, which is now {name}: {error}"))?;
            }
            // An older one that cannot be read now is not needed now.
            verified if newest.is_none() => newest = Some(verified.map(|()| saved)?),
            _ => {}
        }
    }
    if let Err(error) = point(folder) {
        warn(error.to_string())?; // pointers are for people: what is gone on from was found without them
    }
    Ok(newest)
}

/// The attempts that came to train, and the steps that they went on from. What earlier attempts did beyond is void.
fn resumes(folder: &RunFolder) -> Result<Vec<(u32, u64)>> {
    let from_step = |events: &Path| -> std::io::Result<Option<u64>> {
        for line in BufReader::new(File::open(events)?).split(b'\n') {
            if let Ok(Event::Ready(ready)) = serde_json::from_slice(&line?) {
                return Ok(Some(ready.from_step));
            }
        }
        Ok(None)
    };
    let mut resumes = Vec::new();
    for attempt in folder.attempts() {
        let events = folder.events(attempt);
        match from_step(&events) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            read => {
                let from_step = read.doing(Exit::Store, || format!("reading {}", events.display()))?;
                resumes.extend(from_step.map(|step| (attempt, step)));
            }
        }
    }
    Ok(resumes)
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
/// must be durable before. `may_write` is asked before each change to the run's folder, and what it says ends the rest.
pub fn save(
    folder: &RunFolder,
    attempt: u32,
    engine: &dyn Engine,
    state: &State,
    keep: &CheckpointConfig,
    may_write: &dyn Fn() -> Result<()>,
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
    let written = write(&aside, engine, state, may_write)
        .and_then(|files| may_write().map(|()| files))
        .and_then(|files| rename(files).doing(Exit::Store, || format!("writing the checkpoint {}", path.display())));
    let files = written.inspect_err(|_| {
        if may_write().is_ok() {
            let _ = fs::remove_dir_all(&aside); // what is wrong with the disk is said already
        }
    })?;
    let removed = prune(folder, keep, may_write)?.iter().map(Saved::relative).collect();
    may_write()?;
    point(folder)?;
    let best = progress.evaluated && progress.best.is_some_and(|best| best.step == progress.step);
    Ok(Checkpointed {
        at: clock::now(),
        step: progress.step,
        folder: format!("checkpoints/{name}"),
        files,
        best,
        removed,
    })
}

/// Removes what a killed attempt left half written. The worker that trains the run writes here alone; in the run's own
/// folder others may be at it.
pub fn clean(folder: &RunFolder) {
    files::sweep(&folder.checkpoints(), Millis::MIN);
    files::sweep(folder.path(), files::DAY);
}

/// Writes all files of a checkpoint into a new folder, the manifest last; each is durable on return.
fn write(aside: &Path, engine: &dyn Engine, state: &State, may_write: &dyn Fn() -> Result<()>) -> Result<Vec<FileRef>> {
    may_write()?;
    files::make_folder(aside).doing(Exit::Store, || format!("making {}", aside.display()))?;
    let tensors = |parts: &[(&str, Part)]| -> Result<Vec<u8>> {
        let values =
            parts.iter().map(|&(prefix, part)| Ok((prefix, engine.read(part)?))).collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = values.iter().map(|(prefix, values)| (*prefix, values.as_slice())).collect();
        safetensors::to_bytes(engine.layout(), &views)
    };
    let files = vec![
        put(aside, MODEL, &tensors(&[("", Part::Params)])?, may_write)?,
        put(aside, OPTIMIZER, &tensors(&[(MOMENTS[0], Part::Moment1), (MOMENTS[1], Part::Moment2)])?, may_write)?,
        put(aside, STATE, &json(state)?, may_write)?,
    ];
    put(aside, MANIFEST, &json(&Manifest { files: files.clone() })?, may_write)?;
    files::sync_folder(aside).doing(Exit::Store, || format!("writing {}", aside.display()))?;
    Ok(files)
}

/// How much of a file is written between one question whether it may be, and the next.
const PIECE: usize = 64 << 20;

/// Writes one file, durably.
fn put(folder: &Path, name: &str, bytes: &[u8], may_write: &dyn Fn() -> Result<()>) -> Result<FileRef> {
    let path = folder.join(name);
    let doing = || format!("writing {}", path.display());
    may_write()?;
    let mut file = File::create(&path).doing(Exit::Store, doing)?;
    for piece in bytes.chunks(PIECE) {
        may_write()?;
        file.write_all(piece).doing(Exit::Store, doing)?;
        if bytes.len() > PIECE {
            file.sync_data().doing(Exit::Store, doing)?; // so that a slow disk is seen to get on
        }
    }
    file.sync_all().doing(Exit::Store, doing)?;
    Ok(FileRef { name: name.into(), bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() })
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).doing(Exit::Unexpected, || "writing the state of a checkpoint".into())
}

/// Makes the pointers name the newest checkpoint and the best.
fn point(folder: &RunFolder) -> Result<()> {
    let all = list(folder);
    for (pointer, saved) in [("last", all.first()), ("best", ranked(&all).first().or(all.first()))] {
        if let Some(saved) = saved {
            files::write_atomic(&folder.checkpoints().join(pointer), format!("{}\n", saved.name()).as_bytes())?;
        }
    }
    Ok(())
}

/// Removes all checkpoints but the newest `keep_last` and the best `keep_best`; returns what it removed. Each vanishes at
/// once, so that no half of one is ever met. One that cannot be read now is left alone.
fn prune(folder: &RunFolder, keep: &CheckpointConfig, may_write: &dyn Fn() -> Result<()>) -> Result<Vec<Saved>> {
    let (mut unwanted, rest): (Vec<Saved>, Vec<Saved>) = list(folder).into_iter().partition(Saved::is_damaged);
    let whole: Vec<Saved> = rest.into_iter().filter(|s| s.manifest().is_ok()).collect();
    let best = ranked(&whole).into_iter().take(keep.keep_best).collect::<Vec<_>>();
    unwanted.extend(whole.into_iter().skip(keep.keep_last).filter(|saved| !best.contains(saved)));
    for saved in &unwanted {
        may_write()?;
        let aside = folder.checkpoints().join(format!(".aside-{}", saved.name()));
        let remove = || fs::rename(&saved.path, &aside).and_then(|()| fs::remove_dir_all(&aside));
        remove().doing(Exit::Store, || format!("removing {}", saved.path.display()))?;
    }
    Ok(unwanted)
}
