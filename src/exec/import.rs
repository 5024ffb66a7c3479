//! Imports: weights that somebody else trained become a run that is done, with one attempt and one checkpoint, so that
//! whatever knows runs knows them too. The run's folder is written aside and appears whole.

use std::{fs, process};

use super::{device, events::EventLog};
use crate::{
    base::{
        Context, Error, Exit, Result,
        aside::Aside,
        checkpoints::{self, Fault},
        clock, files,
        folders::{Root, RunFolder},
        lease::Fence,
        machine::Identity,
        provenance::Provenance,
    },
    cost::Cost,
    data::tokenizer::{self, Tokenizer},
    engine::Part,
    event::{Event, IMPORT, Outcome, Ready, Sink, Started},
    model::import::Import,
    spec::{
        RunConfig,
        config::{ModelConfig, TokenizerKind},
        identity::{FORMAT, FrozenRun, Imported, import_id},
    },
    train::checkpoint::{self, Keep, Numbers, Origin, Progress, State},
};

/// The number of the one attempt.
const ATTEMPT: u32 = 1;

/// What a model's tokens mean.
pub struct Tokens {
    /// What the tokenizer is made from.
    pub source: tokenizer::Source,
    /// The tokenizer.
    pub tokenizer: Box<dyn Tokenizer>,
    /// The file that it was read from.
    pub file: Option<String>,
}

/// What became of an import.
pub struct Done {
    /// The run.
    pub frozen: FrozenRun,
    /// Whether it was there before.
    pub was_there: bool,
    /// Weights that are not finite.
    pub not_finite: usize,
}

/// Makes a run of imported weights, unless the same were imported before. `source` is how the person named them. Nothing
/// of the index is touched.
///
/// # Errors
/// [`Exit::Spec`] where the weights do not fit into memory, [`Exit::Store`] where the run's folder cannot be written, or where
/// the run is there and damaged.
pub fn import(root: &Root, import: &Import, source: &str, tokens: Option<&Tokens>) -> Result<Done> {
    let memory = device::cpu_memory().map_or(u64::MAX, |(total, _)| total);
    let bytes = 4 * import.layout.len() as u64;
    if bytes > memory {
        let why = format!("its {} parameters take {bytes} bytes, and this machine has {memory}", import.layout.len());
        return Err(Error::new(Exit::Spec, format!("importing {}", import.path.display()), why));
    }
    let (hash, not_finite) = content(import);
    let config = config(&import.model, tokens);
    let meaning = tokens.map_or("none".into(), |tokens| {
        format!("{} {}", tokens.source.key(), tokens.tokenizer.alphabet().unwrap_or_default())
    });
    let id = import_id(&config, import.vocab, &hash, &meaning);
    let imported = Imported { format: import.format.word().into(), source: source.into(), blake3: hash };
    let frozen = FrozenRun {
        format: FORMAT,
        id,
        corpus_hash: String::new(), // nobody knows what it was trained on
        vocab_size: import.vocab,
        config,
        imported: Some(imported),
    };
    let place = root.run(&id);
    let was_there = is_there(&place, &frozen)? || !write(root, &place, import, &frozen, tokens)?;
    Ok(Done { frozen, was_there, not_finite })
}

/// The hash of all numbers, and how many weights are not finite.
fn content(import: &Import) -> (String, usize) {
    const PIECE: usize = 1 << 14;
    let (mut hasher, mut not_finite) = (blake3::Hasher::new(), 0);
    let parts = [Part::Params, Part::Moment1, Part::Moment2];
    for (part, values) in parts.into_iter().filter_map(|part| Some((part, read(import, part)?))) {
        for values in values.chunks(PIECE) {
            hasher.update(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
            if part == Part::Params {
                not_finite += values.iter().filter(|value| !value.is_finite()).count();
            }
        }
    }
    (hasher.finalize().to_hex().to_string(), not_finite)
}

fn read(import: &Import, part: Part) -> Option<Vec<f32>> {
    match part {
        Part::Params => Some(import.weights()),
        Part::Moment1 => import.moment(0),
        Part::Moment2 => import.moment(1),
        Part::Grads => None,
    }
}

/// The config of a run that is done before it begins.
fn config(model: &ModelConfig, tokens: Option<&Tokens>) -> RunConfig {
    let mut config = RunConfig { model: model.clone(), ..RunConfig::default() };
    let train = &mut config.train;
    (train.steps, train.warmup_steps, train.decay_steps) = (0, 0, 1);
    config.run.device = "cpu".into();
    config.data.tokenizer = tokens.map_or(TokenizerKind::Char, |tokens| tokens.source.kind());
    config.data.tokenizer_file = tokens.and_then(|tokens| tokens.file.clone());
    config
}

/// Whether the same weights were imported before.
fn is_there(place: &RunFolder, frozen: &FrozenRun) -> Result<bool> {
    if !place.config().exists() {
        return Ok(false);
    }
    let doing = || format!("importing into {}", place.path().display());
    let there = FrozenRun::read(&place.config())?;
    if there.id != frozen.id {
        return Err(Error::new(Exit::Store, doing(), format!("that folder belongs to the run {}", there.id))
            .hint("both ids start with the same 16 digits; move the folder away to import this model"));
    }
    let damaged = |why: &str| {
        Error::new(Exit::Store, doing(), format!("the run is there, but its checkpoint is {why}"))
            .hint("move the folder away to import the model again")
    };
    let saved = checkpoints::list(place)?.into_iter().next().ok_or_else(|| damaged("gone"))?;
    match saved.verify() {
        Ok(()) => Ok(true),
        Err(Fault::Damaged(error)) => Err(damaged(&format!("damaged: {}: {}", error.doing, error.why))),
        Err(fault) => Err(fault.into()),
    }
}

/// Writes the run's folder; `false` where another process was faster.
fn write(root: &Root, place: &RunFolder, import: &Import, frozen: &FrozenRun, tokens: Option<&Tokens>) -> Result<bool> {
    let doing = || format!("importing into {}", place.path().display());
    let aside = Aside::new(&root.runs()).doing(Exit::Store, doing)?;
    let folder = RunFolder::new(aside.path());
    fill(root, &folder, import, frozen, tokens)?;
    match aside.put_in_place(place.path()) {
        Err(_) if is_there(place, frozen)? => Ok(false),
        put => put.map(|()| true).doing(Exit::Store, doing),
    }
}

fn fill(root: &Root, folder: &RunFolder, import: &Import, frozen: &FrozenRun, tokens: Option<&Tokens>) -> Result<()> {
    files::write_json(&folder.config(), frozen)?;
    if let Some(Tokens { source, tokenizer, .. }) = tokens {
        tokenizer::keep(source, tokenizer.alphabet(), root, folder)?;
    }
    let attempt = folder.attempt(ATTEMPT);
    fs::create_dir(&attempt).doing(Exit::Store, || format!("making {}", attempt.display()))?;
    let nobody = &mut |_: &Event| ();
    let mut events = EventLog::create(folder.events(ATTEMPT), Fence::default(), nobody)?;
    events.emit(&Event::Started(started()), false)?;
    events.emit(&Event::Ready(ready(import, frozen)), false)?;
    let origin = Origin {
        config: frozen.config.clone(),
        corpus_hash: frozen.corpus_hash.clone(),
        engine: IMPORT.into(),
        simd: String::new(),
        processor: String::new(),
        version: env!("CARGO_PKG_VERSION").into(),
        binary: String::new(),
    };
    let state = State::new(Progress::default(), origin);
    let numbers = Numbers::Elsewhere {
        layout: &import.layout,
        read: &|part| read(import, part),
        has_moments: import.has_moments(),
    };
    let saved =
        checkpoint::save(folder, ATTEMPT, numbers, &state, Keep::of(&frozen.config.checkpoint, None), &|| Ok(()))?;
    events.emit(&Event::Checkpointed(saved), false)?;
    events.emit(&Event::Finished { at: clock::now(), outcome: Outcome::Done, peak_bytes: None }, true)?;
    files::sync_folder(&attempt).doing(Exit::Store, || format!("writing {}", attempt.display()))
}

fn started() -> Started {
    let me = Identity::me();
    Started {
        at: clock::now(),
        attempt: ATTEMPT,
        pid: process::id(),
        host: me.host,
        device: "cpu".into(),
        threads: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        boot: me.boot,
        process_started: me.started,
        provenance: Some(Provenance::here().clone().into()),
    }
}

fn ready(import: &Import, frozen: &FrozenRun) -> Ready {
    Ready {
        at: clock::now(),
        engine: IMPORT.into(),
        params: import.layout.len() as u64,
        flops_per_token: Cost::of(&frozen.config, frozen.vocab_size).flops_per_token,
        vocab_size: frozen.vocab_size,
        chars_per_token: f64::NAN, // no text was tokenized
        ..Ready::default()
    }
}
