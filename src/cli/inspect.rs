//! `exp inspect SPEC|RUN|PRESET`: the arithmetic of a model from its settings alone. Builds and trains nothing; of a spec it
//! prepares the corpus, as `exp plan` does, since the number of tokens follows from that.

mod text;

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
};

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use super::current_store;
use crate::{
    base::{Error, Exit, Result, folders::Root},
    cost::{Bytes, Cost, Parts, Passes, Training},
    data,
    exec::device,
    spec::{
        self, RunConfig, Sweep,
        config::{Dtype, ModelConfig, Preset},
        identity::FrozenRun,
        leaf,
    },
    ui,
};

/// Arguments of `exp inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A spec, a run by any unique prefix of its id, or a preset: gpt2, gpt2-medium, gpt2-large, gpt2-xl, llama
    #[arg(value_name = "SPEC|RUN|PRESET")]
    what: String,

    /// Set a leaf, or replace an axis: --set layers=8, --set 'mlp=[gelu, swiglu]'
    #[arg(long, value_name = "LEAF=VALUE")]
    set: Vec<String>,

    /// Sequences of a batch: --set train.batch=N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,

    /// Tokens of a sequence: --set model.context=T
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,

    /// Distinct tokens [default: of the corpus's tokenizer, of the run, or of the preset]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    vocab: Option<u32>,

    /// What activations, logits and the cache are kept in [default: train.dtype]
    #[arg(long, value_name = "DTYPE", value_parser = PossibleValuesParser::new(Dtype::WORDS))]
    dtype: Option<String>,

    /// Tokens of a prompt [default: half of the context]
    #[arg(long, value_name = "N")]
    prompt_tokens: Option<u32>,

    /// Tokens that are generated after it [default: the rest of the context, or half of one where nothing is left]
    #[arg(long, value_name = "M")]
    new_tokens: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One model and all that is worked out of it.
struct Subject {
    /// The experiment, the run or the preset.
    name: String,
    config: RunConfig,
    vocab: usize,
    parts: Parts,
    cost: Cost,
    bytes: Bytes,
    prompt: u64,
    new: u64,
    passes: Passes,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let found = find(root, args)?;
    let subjects = distinct(root, args, &found)?;
    if args.json {
        ui::print_json(&subjects.iter().map(as_json).collect());
    } else if let [one] = &subjects[..] {
        ui::print(&text::whole(one));
    } else {
        ui::print(&text::compared(&subjects, &found.sweep.axes));
        ui::note("`--set` with one value for each axis shows one of them in full, `--json` all");
    }
    Ok(Exit::Done)
}

/// What the command was given.
struct Found {
    name: String,
    sweep: Sweep,
    /// Distinct tokens, where they do not follow from the corpus of a spec.
    vocab: Option<usize>,
    /// Whether they are those of each point's preset.
    is_preset: bool,
}

fn find(root: &Root, args: &Args) -> Result<Found> {
    let what = args.what.as_str();
    let is_path =
        |what: &str| what.contains(std::path::MAIN_SEPARATOR) || what.ends_with(".yaml") || what.ends_with(".yml");
    if Path::new(what).is_file() || is_path(what) {
        let sweep = spec::load(Path::new(what), &settings(args, Vec::new()))?;
        return Ok(Found { name: sweep.experiment.clone(), sweep, vocab: None, is_preset: false });
    }
    if let Ok(preset) = serde_json::from_value::<Preset>(what.into()) {
        let sweep = spec::from_settings(&settings(args, vec![format!("{}={what}", leaf::PRESET)]))?;
        return Ok(Found { name: what.to_owned(), sweep, vocab: Some(preset.vocab()), is_preset: true });
    }
    let store = current_store(root)?;
    let prefix = what.to_ascii_lowercase();
    let runs = store.as_ref().map_or(Ok(Vec::new()), |store| store.runs(None))?;
    let is_run = !prefix.is_empty() && runs.iter().any(|run| run.id.to_string().starts_with(&prefix));
    let is_experiment = store.as_ref().is_some_and(|store| store.experiment(what).is_ok());
    let Some(store) = store.filter(|_| is_run) else { return Err(nothing_of_that_name(what, is_experiment)) };
    let id = store.find(what)?.id;
    let frozen = FrozenRun::read(&root.run(&id).config())?;
    let sweep = spec::from_settings(&settings(args, leaf::settings(&frozen.config)))?;
    Ok(Found { name: format!("run {}", id.short()), sweep, vocab: Some(frozen.vocab_size), is_preset: false })
}

/// What is set, with the command line's words last.
fn settings(args: &Args, mut set: Vec<String>) -> Vec<String> {
    set.extend(args.set.iter().cloned());
    set.extend(args.batch.map(|n| format!("train.batch={n}")));
    set.extend(args.context.map(|t| format!("model.context={t}")));
    set
}

fn nothing_of_that_name(what: &str, is_experiment: bool) -> Error {
    let hint = match spec::nearest(what, Preset::WORDS.iter().copied()) {
        _ if is_experiment => format!("`{what}` is an experiment: `exp ls {what}` lists its runs"),
        Some(near) => format!("did you mean the preset `{near}`?"),
        None => format!("presets are {}; `exp ls` lists the runs", Preset::WORDS.join(", ")),
    };
    Error::new(Exit::Usage, format!("inspecting {what:?}"), "it is no file, no preset and no run").hint(hint)
}

/// The points of a sweep that differ in what is shown, in its order.
fn distinct(root: &Root, args: &Args, found: &Found) -> Result<Vec<Subject>> {
    let (mut devices, mut vocabularies) = (HashMap::new(), HashMap::new());
    let mut subjects: Vec<Subject> = Vec::new();
    for (point, config) in found.sweep.points.iter().enumerate() {
        let mut config = match &config.run.init_from {
            Some(run) => found.sweep.resolved(point, Some(&ancestor(root, run)?), None)?,
            None => config.clone(),
        };
        if let Some(Ok(dtype)) = args.dtype.as_ref().map(|word| serde_json::from_value(word.as_str().into())) {
            config.train.dtype = dtype;
        }
        // Which engine would train it is told where its device is here.
        let asked = config.run.device.clone();
        let device = devices.entry(asked).or_insert_with_key(|asked| device::resolve(asked).unwrap_or(asked.clone()));
        config.run.device = device.clone();
        let of_preset = config.model.preset.filter(|_| found.is_preset).map(Preset::vocab);
        let vocab = match args.vocab.map(|n| n as usize).or(of_preset).or(found.vocab) {
            Some(vocab) => vocab,
            None => match vocabularies.entry(format!("{:?}", config.data)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => *new.insert(vocabulary(root, &config)?),
            },
        };
        let shown =
            |config: &RunConfig| (config.model.clone(), config.train.batch, config.train.dtype, config.engine());
        if !subjects.iter().any(|s| shown(&s.config) == shown(&config) && s.vocab == vocab) {
            subjects.push(Subject::of(&found.name, config, vocab, args));
        }
    }
    Ok(subjects)
}

/// The network whose weights a point begins with.
fn ancestor(root: &Root, run: &str) -> Result<ModelConfig> {
    let id = super::needed_store(root)?.find(run)?.id;
    Ok(FrozenRun::read(&root.run(&id).config())?.config.model)
}

fn vocabulary(root: &Root, config: &RunConfig) -> Result<usize> {
    let prepared = data::prepare(&config.data, &root.cache());
    prepared.map(|corpus| corpus.vocab_size).map_err(|e| match e.hint {
        Some(_) => e,
        None => e.hint("without its corpus, `--vocab N` says how many tokens there are"),
    })
}

impl Subject {
    fn of(name: &str, config: RunConfig, vocab: usize, args: &Args) -> Self {
        let context = config.model.context as u64;
        let half = (context / 2).max(1);
        let prompt = args.prompt_tokens.map_or(half, u64::from);
        let rest = context.checked_sub(prompt).filter(|&rest| rest > 0);
        let new = args.new_tokens.map_or(rest.unwrap_or(half), u64::from);
        Self {
            name: name.to_owned(),
            parts: Parts::of(&config.model, vocab),
            cost: Cost::of(&config, vocab),
            bytes: Bytes::of(&config, vocab),
            passes: Passes::of(prompt, new),
            prompt,
            new,
            vocab,
            config,
        }
    }
}

fn training(of: &Training) -> Value {
    json!({
        "engine": of.engine.word(),
        "gradient_sums": of.gradient_sums,
        "activations": of.activations,
        "training": of.total,
    })
}

fn as_json(s: &Subject) -> Value {
    let (parts, layer, bytes) = (&s.parts, &s.parts.layer, &s.bytes);
    json!({
        "name": s.name,
        "config": s.config.leaves(),
        "engine": s.config.engine().word(),
        "vocab_size": s.vocab,
        "params": {
            "total": parts.total(),
            "embedding": parts.embedding(),
            "tokens": parts.tokens,
            "positions": parts.positions,
            "layers": parts.in_layers(),
            "layer": {
                "total": layer.total(),
                "attention": layer.attention(),
                "query": layer.query,
                "key": layer.key,
                "value": layer.value,
                "output": layer.output,
                "feed_forward": layer.feed_forward,
                "norms": layer.norms,
            },
            "final_norm": parts.final_norm,
            "head": parts.head,
        },
        "flops_per_token": {"forward": s.cost.forward_flops_per_token(), "training": s.cost.flops_per_token},
        "bytes": {
            "weights": bytes.weights,
            "weights_in_dtype": bytes.weights_in_dtype,
            "gradients": bytes.gradients,
            "optimizer": bytes.optimizer,
            "gradient_sums": bytes.engine.gradient_sums,
            "activations": bytes.engine.activations,
            "logits": bytes.logits,
            "cache_per_token": bytes.cache_per_token,
            "cache_per_sequence": bytes.cache_per_sequence,
            "cache": bytes.cache,
            "training": bytes.engine.total,
            "with_tape": bytes.tape.as_ref().map(training),
        },
        "positions": {
            "prompt": s.prompt,
            "new": s.new,
            "with_cache": s.passes.with_cache,
            "without_cache": s.passes.without_cache,
        },
    })
}
