//! Checks the points of a spec one by one against the devices, the corpora and the runs at hand, and names them. What a
//! point has in common with those before it is looked at once: a sweep may have a million points.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Display,
};

use super::{
    misfit::misfit,
    plan::{PlannedRun, reason},
};
use crate::{
    base::{Error, Exit, Result, RunId, folders::Root},
    cost::Cost,
    data::{self, CorpusInfo},
    event::RunState,
    exec::device::{self, kind},
    spec::{
        RunConfig, Sweep,
        config::{DataConfig, ModelConfig},
        expr::{Expr, Leaves},
        identity::{self, FORMAT, FrozenRun},
        leaf,
    },
    store::{Artifact, Store},
    train::generate,
};

/// The most updates that `train.steps` takes.
const MAX_STEPS: f64 = 1e12;

/// Checks points one by one, each device and each corpus once.
pub(super) struct Planner<'a> {
    sweep: &'a Sweep,
    root: &'a Root,
    store: Option<&'a Store>,
    /// Which points are planned.
    only: Option<&'a Expr>,
    known: Known<'a>,
    devices: HashMap<String, String>,
    /// What data the points have, and what came of it: the latest last, which is looked at first.
    corpora: Vec<Corpus>,
    /// What the last points of other shapes cost, with the configs and vocabularies that it follows from; the latest last.
    costs: VecDeque<(RunConfig, usize, Cost)>,
    /// The corpora with the prompts that their tokenizers can read.
    prompts: HashSet<String>,
    /// The machine's memory in bytes, where it is known.
    memory: Option<u64>,
}

/// What comes of the data of some points.
struct Corpus {
    /// As the spec has it.
    asked: DataConfig,
    /// As it is with what the corpus says of itself.
    resolved: DataConfig,
    info: CorpusInfo,
}

impl<'a> Planner<'a> {
    /// A planner of the points for which `only` holds.
    pub fn new(sweep: &'a Sweep, root: &'a Root, store: Option<&'a Store>, only: Option<&'a Expr>) -> Result<Self> {
        Ok(Self {
            sweep,
            root,
            store,
            only,
            known: Known::of(store, sweep.points.len())?,
            devices: HashMap::new(),
            corpora: Vec::new(),
            costs: VecDeque::new(),
            prompts: HashSet::new(),
            memory: device::list().first().and_then(|cpu| cpu.memory_total),
        })
    }
}

impl Planner<'_> {
    /// The id of a point, and all that is to be known of it where it is asked for.
    pub fn point(&mut self, point: usize, mut config: RunConfig) -> Result<(RunId, Option<PlannedRun>)> {
        let ancestor = config.run.init_from.as_ref().map(|run| self.ancestor(point, run)).transpose()?;
        let theirs = ancestor.as_ref().map(|ancestor| &ancestor.config.model);
        if theirs.is_some() {
            config = self.sweep.resolved(point, theirs, None)?;
        }
        if let Some(flops) = self.sweep.flops(point) {
            let steps = self.steps(point, &config, flops)?;
            config = self.sweep.resolved(point, theirs, Some(steps))?;
        }
        if let Some(ancestor) = &ancestor {
            config.run.init_from = Some(ancestor.id.to_string());
        }
        if config.run.device == "auto" {
            config.run.device = self.device(point, &config)?;
        }
        let is_asked = self.only.is_none_or(|only| only.holds(&|leaf| Leaves::value(leaf, &config)));
        if is_asked {
            config.run.device = self.device(point, &config)?; // what is left out need not be at hand
            self.sweep.check(point, &config)?;
        }
        let corpus = self.corpus(point, &config)?;
        config.data.clone_from(&corpus.resolved);
        let corpus = corpus.info.clone();
        let id = identity::run_id(&config, Some(&corpus.hash));
        if !is_asked {
            return Ok((id, None));
        }
        self.suits(point, &config, &corpus)?;
        self.prompt(point, &config)?;
        if let Some(ancestor) = &ancestor {
            self.fits_weights(point, ancestor, &config.model, corpus.vocab_size)?;
        }
        let frozen = FrozenRun {
            format: FORMAT,
            id,
            corpus_hash: corpus.hash.clone(),
            vocab_size: corpus.vocab_size,
            config,
            imported: None,
        };
        let cost = self.cost(&frozen.config, corpus.vocab_size);
        self.fits(point, &frozen.config, &cost)?;
        let reason = reason(self.known.state(&id)?);
        Ok((id, Some(PlannedRun { reason, cost, corpus, checkpoint_bytes: None, frozen })))
    }

    /// The updates that reach so many floating-point operations.
    fn steps(&mut self, point: usize, config: &RunConfig, flops: f64) -> Result<u64> {
        let vocab = self.corpus(point, config)?.info.vocab_size;
        let per_step = self.cost(config, vocab).flops_per_token * config.tokens_per_step() as f64;
        let steps = (flops / per_step).ceil().max(1.0);
        if steps > MAX_STEPS {
            let why = format!("these are {steps:.0e} updates, and {MAX_STEPS:.0e} are the most");
            return Err(self.error(point, "train.flops", why, None));
        }
        Ok(steps as u64)
    }

    /// What a run costs. Most leaves, such as the learning rate and the seed, have no part in it.
    fn cost(&mut self, config: &RunConfig, vocab: usize) -> Cost {
        let is_alike = |a: &RunConfig, b: &RunConfig| {
            let of_train = |c: &RunConfig| {
                (c.train.steps, c.train.batch, c.train.grad_accum, c.train.optimizer, c.train.dtype, c.eval.batch)
            };
            a.model == b.model && of_train(a) == of_train(b) && a.engine() == b.engine()
        };
        let known = self.costs.iter().rev().find(|(before, tokens, _)| *tokens == vocab && is_alike(before, config));
        if let Some((_, _, cost)) = known {
            return *cost;
        }
        let cost = Cost::of(config, vocab);
        if self.costs.len() == 64 {
            self.costs.pop_front();
        }
        self.costs.push_back((config.clone(), vocab, cost));
        cost
    }

    /// Refuses what the CPU's memory could never hold, before an allocation that fails does. GPUs are asked by the run.
    fn fits(&self, point: usize, config: &RunConfig, cost: &Cost) -> Result<()> {
        let memory = self.memory.filter(|_| config.run.device == "cpu").unwrap_or(u64::MAX);
        if cost.bytes <= memory {
            return Ok(());
        }
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let (need, have) = (gigabytes(cost.bytes), gigabytes(memory));
        let why = format!("a run of this size needs some {need:.1} GB of memory, and there are {have:.1} GB here");
        let fixed = RunConfig::default();
        let sizes = ["model.d_model", "model.layers", "model.d_ff", "model.context", "train.batch"];
        let unusual = |path: &&str| leaf::find(path).is_some_and(|l| l.get(config) != l.default_in(config, &fixed));
        let path = sizes.into_iter().find(unusual).unwrap_or("model.d_model");
        Err(self.error(point, path, why, Some("`exp plan` says what smaller sizes need")))
    }

    /// What the config's device means here. An index stays only where the spec names one, so that any device of the kind
    /// will do.
    fn device(&mut self, point: usize, config: &RunConfig) -> Result<String> {
        let asked = &config.run.device;
        let found = match self.devices.get(asked) {
            Some(found) => found.clone(),
            None => device::resolve(asked).map_err(|error| self.error_of(point, "run.device", &error))?,
        };
        self.devices.insert(asked.clone(), found.clone());
        Ok(if asked.contains(':') { found } else { kind(&found).to_owned() })
    }

    /// The config's data with what its corpus says of itself, and that corpus, tokenized.
    fn corpus(&mut self, point: usize, config: &RunConfig) -> Result<&Corpus> {
        let known = match self.corpora.iter().rposition(|corpus| corpus.asked == config.data) {
            Some(known) => known,
            None => {
                let asked = config.data.clone();
                let resolved = data::resolved(&asked).map_err(|e| self.error_of(point, "data.path", &whole(e)))?;
                let leaf = if asked.path.is_some() { "data.path" } else { "data.corpus" };
                let info = data::prepare(&resolved, &self.root.cache());
                let info = info.map_err(|error| self.error_of(point, leaf, &whole(error)))?;
                self.corpora.push(Corpus { asked, resolved, info });
                self.corpora.len() - 1
            }
        };
        Ok(&self.corpora[known])
    }

    /// Whether a corpus is long enough for the config's context.
    fn suits(&self, point: usize, config: &RunConfig, corpus: &CorpusInfo) -> Result<()> {
        let Err(why) = corpus.check_context(config.model.context) else { return Ok(()) };
        let hint = match corpus.train_tokens.min(corpus.val_tokens).saturating_sub(1) {
            0 => "use more text".to_owned(),
            longest => format!("use a context of at most {longest}, or more text"),
        };
        Err(self.error(point, "model.context", why, Some(&hint)))
    }

    /// Whether the prompt of texts can be read by the config's tokenizer.
    fn prompt(&mut self, point: usize, config: &RunConfig) -> Result<()> {
        let Some(prompt) = &config.sample.prompt else { return Ok(()) };
        let key = format!("{:?} {prompt}", config.data);
        if self.prompts.insert(key) {
            let data = data::open(&config.data, &self.root.cache(), &|| false)?;
            generate::prompt(data.tokenizer(), Some(prompt))
                .map_err(|error| self.error_of(point, "sample.prompt", &error))?;
        }
        Ok(())
    }

    /// The run that `run.init_from` names: done, since the best weights of one that is not depend on when one asks.
    fn ancestor(&self, point: usize, prefix: &str) -> Result<FrozenRun> {
        let leaf = "run.init_from";
        let Some(store) = self.store else {
            return Err(self.error(point, leaf, format!("there is no run {prefix:?}: none is stored yet"), None));
        };
        let found = store.find(prefix).map_err(|error| self.error_of(point, leaf, &error))?;
        let id = found.id.short();
        if found.state != RunState::Done {
            let why = format!("the run {id} is {}, and only one that is done can be started from", found.state.word());
            return Err(self.error(point, leaf, why, Some(&format!("finish it first: exp resume {id}"))));
        }
        let has_weights = |artifact: &Artifact| ["checkpoint", "import"].contains(&artifact.kind.as_str());
        if !store.artifacts(&found.id)?.iter().any(has_weights) {
            return Err(self.error(point, leaf, format!("the run {id} has no checkpoint to start from"), None));
        }
        FrozenRun::read(&self.root.run(&found.id).config())
    }

    /// Refuses a run of a network of `model` and `vocab_size` that cannot begin with the weights of another.
    fn fits_weights(&self, point: usize, theirs: &FrozenRun, model: &ModelConfig, vocab_size: usize) -> Result<()> {
        let found = misfit((&theirs.config.model, theirs.vocab_size), (model, vocab_size));
        let Some((what, has, needs, hint)) = found else { return Ok(()) };
        let id = theirs.id.short();
        let why = format!("the weights of run {id} do not fit: it has {what} {has}, and this run {needs}");
        Err(self.error(point, "run.init_from", why, hint.as_deref()))
    }

    fn error(&self, point: usize, leaf: &str, why: impl Display, hint: Option<&str>) -> Error {
        self.sweep.error_at(point, leaf, why, hint)
    }

    /// An error met while checking a leaf, at the leaf's place in the spec; one that is not the spec's fault as it is.
    fn error_of(&self, point: usize, leaf: &str, error: &Error) -> Error {
        match error.exit {
            Exit::Spec | Exit::Usage => self.error(point, leaf, &error.why, error.hint.as_deref()),
            _ => error.clone(),
        }
    }
}

/// The error with what was being done in its reason: of the files of a corpus it names which.
fn whole(error: Error) -> Error {
    Error { why: error.to_string(), ..error }
}

/// What the index knows of the runs of a plan.
enum Known<'a> {
    /// Each is asked for.
    One(Option<&'a Store>),
    /// All were read at once, as is quicker for many.
    All(HashMap<RunId, RunState>),
}

impl<'a> Known<'a> {
    /// From so many runs on all are read at once.
    const MANY: usize = 100;

    fn of(store: Option<&'a Store>, points: usize) -> Result<Self> {
        match store.filter(|_| points >= Self::MANY) {
            Some(store) => Ok(Self::All(store.runs(None)?.into_iter().map(|row| (row.id, row.state)).collect())),
            None => Ok(Self::One(store)),
        }
    }

    fn state(&self, id: &RunId) -> Result<Option<RunState>> {
        match self {
            Self::One(store) => Ok(store.map_or(Ok(None), |store| store.run(id))?.map(|row| row.state)),
            Self::All(states) => Ok(states.get(id).cloned()),
        }
    }
}
