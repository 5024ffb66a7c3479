//! Writes checkpoints, and removes those that are not to be kept.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write,
    path::Path,
};

use serde::Serialize;

use super::{BAD, DAMAGED, MODEL, MOMENTS, OPTIMIZER, STATE, Saved, State, VOID, list, ranked};
use crate::{
    base::{
        Context, Error, Exit, Result,
        checkpoints::{MANIFEST, Manifest},
        clock::{self, Millis},
        files,
        folders::RunFolder,
    },
    engine::{Engine, Part},
    event::{Checkpointed, FileRef},
    model::{Layout, safetensors},
    spec::{RunConfig, config::CheckpointConfig},
};

/// How many checkpoints that are of no use any more are kept, for people who want to know why.
const KEPT_ASIDE: usize = 2;

/// Room for a state, in bytes, where the disk is asked.
const STATE_ROOM: usize = 64 << 10;

/// Where the numbers of a checkpoint come from.
#[derive(Clone, Copy)]
pub enum Numbers<'a> {
    /// From what trains.
    Engine(&'a dyn Engine),
    /// From elsewhere. Each is read when it is written, so that no more than one file's are held at a time.
    Elsewhere {
        /// Names and shapes.
        layout: &'a Layout,
        /// A part as one flat vector in the layout's order; `None` where there is none of it. Without moments the
        /// checkpoint has no optimizer's file.
        read: &'a dyn Fn(Part) -> Option<Vec<f32>>,
        /// Whether the optimizer's moments are there.
        has_moments: bool,
    },
}

impl<'a> Numbers<'a> {
    fn layout(self) -> &'a Layout {
        match self {
            Self::Engine(engine) => engine.layout(),
            Self::Elsewhere { layout, .. } => layout,
        }
    }

    fn read(self, part: Part) -> Result<Option<Vec<f32>>> {
        match self {
            Self::Engine(engine) => engine.read(part).map(Some),
            Self::Elsewhere { read, .. } => Ok(read(part)),
        }
    }

    /// One file's bytes; `None` where there is nothing to stand in it.
    fn file(self, parts: &[(&str, Part)]) -> Result<Option<Vec<u8>>> {
        let mut vectors = Vec::new();
        for &(prefix, part) in parts {
            let Some(values) = self.read(part)? else { return Ok(None) };
            vectors.push((prefix, values));
        }
        let views: Vec<_> = vectors.iter().map(|(prefix, values)| (*prefix, values.as_slice())).collect();
        safetensors::to_bytes(self.layout(), &views).map(Some)
    }
}

/// How many checkpoints of a run are kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Of the newest.
    pub last: usize,
    /// Of those with the lowest validation loss.
    pub best: usize,
    /// Bytes that all of them may take; the newest is kept whatever it takes.
    pub bytes: Option<u64>,
}

impl Keep {
    /// How many checkpoints a run needs at least: the newest, which it goes on from, and the best.
    pub fn least(config: &CheckpointConfig) -> u64 {
        1 + config.keep_best.min(1) as u64
    }

    /// As a config says, within so many bytes.
    pub fn of(config: &CheckpointConfig, bytes: Option<u64>) -> Self {
        Self { last: config.keep_last, best: config.keep_best, bytes }
    }
}

/// Writes a checkpoint and moves the pointers. What was logged up to this step must be durable before. `may_write` is asked
/// before each change to the run's folder, and what it says ends the rest. What is to be kept no longer stands in the
/// answer; once that is said, [`remove_said`] removes it: so whoever reads what was said never misses a checkpoint.
pub fn save(
    folder: &RunFolder,
    attempt: u32,
    numbers: Numbers,
    state: &State,
    keep: Keep,
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
    let written = room(folder, &path, numbers)
        .and_then(|()| write(&aside, numbers, state, may_write))
        .and_then(|files| may_write().map(|()| files))
        .and_then(|files| rename(files).doing(Exit::Store, || format!("writing the checkpoint {}", path.display())));
    let files = written.inspect_err(|_| {
        if may_write().is_ok() {
            let _ = fs::remove_dir_all(&aside); // what is wrong with the disk is said already
        }
    })?;
    let gone = [damaged(folder)?, surplus(folder, keep)?].concat();
    may_write()?;
    point(folder, &gone)?;
    let removed = gone.iter().map(Saved::relative).collect();
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

/// Bytes that a checkpoint takes at most, of a state of `state` bytes: the numbers, what a safetensors file says of each
/// tensor, state and manifest.
fn bytes(layout: &Layout, has_moments: bool, state: usize) -> u64 {
    const TENSOR: usize = 140; // type, shape and place in JSON, and the prefix of a moment's name
    const BESIDES: u64 = 4 << 10; // the manifest, and what rounds up a header
    let vectors = if has_moments { 3 } else { 1 };
    let said: usize = layout.params().iter().map(|param| param.name.len() + TENSOR).sum();
    vectors * (size_of::<f32>() * layout.len() + said) as u64 + state as u64 + BESIDES
}

/// Bytes that a checkpoint of a run takes at most.
pub fn most_bytes(config: &RunConfig, vocab_size: usize) -> u64 {
    const ORIGIN: usize = 4 << 10; // what a state says beside the config
    let config_bytes = serde_json::to_vec_pretty(config).map_or(0, |text| 2 * text.len()); // indented once more
    bytes(&Layout::of(&config.model, vocab_size), true, config_bytes + ORIGIN)
}

/// Errors where the disk has no room for another checkpoint: to find that out by filling it would take the last room from
/// everybody else.
fn room(folder: &RunFolder, path: &Path, numbers: Numbers) -> Result<()> {
    let has_moments = !matches!(numbers, Numbers::Elsewhere { has_moments: false, .. });
    let need = bytes(numbers.layout(), has_moments, STATE_ROOM);
    // What cannot be asked is found out by writing.
    let Ok(disk) = rustix::fs::statvfs(folder.path()) else { return Ok(()) };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if disk.f_blocks == 0 || free >= need {
        return Ok(());
    }
    let full = std::io::Error::from(rustix::io::Errno::NOSPC);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let why = format!("{full}: it needs {:.1} MB, and {:.1} MB are free", megabytes(need), megabytes(free));
    Err(Error::new(Exit::Store, format!("writing the checkpoint {}", path.display()), why).io(full.kind()))
}

/// Removes what a killed attempt left half written. The worker that trains the run writes here alone; in the run's own
/// folder others may be at it.
pub fn clean(folder: &RunFolder) {
    files::sweep(&folder.checkpoints(), Millis::MIN);
    files::sweep(folder.path(), files::DAY);
}

/// Writes all files of a checkpoint into a new folder, the manifest last; each is durable on return.
fn write(aside: &Path, numbers: Numbers, state: &State, may_write: &dyn Fn() -> Result<()>) -> Result<Vec<FileRef>> {
    may_write()?;
    files::make_folder(aside).doing(Exit::Store, || format!("making {}", aside.display()))?;
    let mut files = Vec::new();
    let moments = [(MOMENTS[0], Part::Moment1), (MOMENTS[1], Part::Moment2)];
    for (name, parts) in [(MODEL, &[("", Part::Params)][..]), (OPTIMIZER, &moments)] {
        if let Some(bytes) = numbers.file(parts)? {
            files.push(put(aside, name, &bytes, may_write)?);
        }
    }
    files.push(put(aside, STATE, &json(state)?, may_write)?);
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
    Ok(FileRef::of(name, bytes))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).doing(Exit::Unexpected, || "writing the state of a checkpoint".into())
}

/// Makes the pointers name the newest checkpoint and the best, of all but `gone`.
pub fn point(folder: &RunFolder, gone: &[Saved]) -> Result<()> {
    let mut all = list(folder)?;
    all.retain(|saved| !gone.contains(saved));
    for (pointer, saved) in [("last", all.first()), ("best", ranked(&all).first().or(all.first()))] {
        if let Some(saved) = saved {
            files::write_atomic(&folder.checkpoints().join(pointer), format!("{}\n", saved.name()).as_bytes())?;
        }
    }
    Ok(())
}

/// The checkpoints that are not what was written.
fn damaged(folder: &RunFolder) -> Result<Vec<Saved>> {
    Ok(list(folder)?.into_iter().filter(Saved::is_damaged).collect())
}

/// The checkpoints that are not to be kept: all but the newest `last` and the best `best`, and of these the least wanted
/// that go beyond `bytes`. Most wanted is the newest, which the run goes on from; then the best, which is what it is for;
/// then the others in turns. One that cannot be read now is left alone.
pub fn surplus(folder: &RunFolder, keep: Keep) -> Result<Vec<Saved>> {
    let whole: Vec<Saved> = list(folder)?.into_iter().filter(|saved| saved.manifest().is_ok()).collect();
    let best = ranked(&whole);
    let mut wanted: Vec<&Saved> = Vec::new();
    for rank in 0..keep.last.max(keep.best) {
        let newest = whole.get(rank).filter(|_| rank < keep.last);
        let best = best.get(rank).filter(|_| rank < keep.best);
        for saved in newest.into_iter().chain(best) {
            if !wanted.contains(&saved) {
                wanted.push(saved);
            }
        }
    }
    let mut bytes = 0;
    let fits = |saved: &&&Saved| {
        bytes += saved.bytes();
        keep.bytes.is_none_or(|most| bytes <= most)
    };
    let kept = wanted.iter().take_while(fits).count().max(1);
    Ok(whole.iter().filter(|saved| !wanted.iter().take(kept).any(|wanted| wanted == saved)).cloned().collect())
}

/// Removes checkpoints of which it was said that they are no longer kept; damaged ones are moved aside.
pub fn remove_said(folder: &RunFolder, said: &[String], keep: Keep, may_write: &dyn Fn() -> Result<()>) -> Result<()> {
    for path in said.iter().map(|relative| folder.path().join(relative)).filter(|path| path.exists()) {
        may_write()?;
        match Saved::at(path.clone()).filter(Saved::is_damaged) {
            Some(damaged) => drop(damaged.move_aside(DAMAGED)?),
            None => remove(folder, &path)?,
        }
    }
    may_write()?;
    tidy(folder, keep)
}

/// Removes checkpoints that were moved aside: all where their bytes are limited, else all but the newest of the damaged and
/// bad, since a file system that damages one damages more, and they must not fill it.
pub fn tidy(folder: &RunFolder, keep: Keep) -> Result<()> {
    let (kinds, kept): (&[&str], usize) = match keep.bytes {
        Some(_) => (&[DAMAGED, BAD, VOID], 0),
        None => (&[DAMAGED, BAD], KEPT_ASIDE),
    };
    let all = folder.checkpoints();
    let was = |name: &OsString| {
        let name = name.to_str()?;
        let checkpoint = kinds.iter().find_map(|why| name.strip_prefix(why)?.strip_prefix('-'))?;
        Saved::at(all.join(checkpoint)).map(|saved| ((saved.attempt, saved.step), all.join(name)))
    };
    let mut aside: Vec<_> = files::names(&all)?.iter().filter_map(was).collect();
    aside.sort_by(|(a, _), (b, _)| b.cmp(a));
    aside.iter().skip(kept).try_for_each(|(_, path)| remove(folder, path))
}

/// Removes a checkpoint. It vanishes at once, so that no half of one is ever met.
fn remove(folder: &RunFolder, path: &Path) -> Result<()> {
    let mut name = OsString::from(files::ASIDE);
    name.push(path.file_name().unwrap_or_default());
    let aside = folder.checkpoints().join(name);
    let remove = || fs::rename(path, &aside).and_then(|()| fs::remove_dir_all(&aside));
    remove().doing(Exit::Store, || format!("removing {}", path.display()))
}
