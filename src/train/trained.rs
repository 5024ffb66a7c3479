//! A run's model as one of its checkpoints holds it, for whoever wants to use it: to sample, to evaluate, to export.

use std::str::FromStr;

use super::checkpoint::{self, Saved};
use crate::{
    base::{
        Error, Exit, Result,
        folders::{Root, RunFolder},
    },
    data::{
        self,
        tokenizer::{self, Tokenizer},
    },
    model::Layout,
    spec::identity::FrozenRun,
};

/// One of a run's checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// That with the lowest validation loss, else the newest.
    #[default]
    Best,
    /// The newest.
    Last,
    /// That after so many updates.
    Step(u64),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "best" => Ok(Self::Best),
            "last" => Ok(Self::Last),
            step => step.parse().map(Self::Step).map_err(|_| "`best`, `last` or the number of a step".into()),
        }
    }
}

/// A model and its weights.
pub struct Trained {
    /// What it is.
    pub frozen: FrozenRun,
    /// Updates that made the weights.
    pub step: u64,
    /// Where each parameter lies in the weights.
    pub layout: Layout,
    /// All parameters.
    pub weights: Vec<f32>,
}

impl Trained {
    /// The weights of one of a run's checkpoints, once its files are verified. A damaged one is passed over where another
    /// will do.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is no such checkpoint, with those that there are; [`Exit::Store`] where it cannot be
    /// read.
    pub fn load(run: &RunFolder, which: Which) -> Result<Self> {
        let frozen = FrozenRun::read(&run.config())?;
        let saved = find(run, which)?.ok_or_else(|| none_such(run, &frozen, which))?;
        let layout = Layout::of(&frozen.config.model, frozen.vocab_size);
        let weights = saved.weights(&layout)?;
        Ok(Self { step: saved.step, frozen, layout, weights })
    }
}

/// What the tokens of a run mean; `None` where that is not known, as of weights that came without a tokenizer. A run that
/// an older version of exp trained has its tokenizer from its corpus, and keeps it from then on.
///
/// # Errors
/// Where what is kept cannot be read, or the corpus of such an older run cannot be opened.
pub fn tokenizer_of(root: &Root, run: &RunFolder, frozen: &FrozenRun) -> Result<Option<Box<dyn Tokenizer>>> {
    if let Some(tokenizer) = tokenizer::kept(root, run)? {
        return Ok(Some(tokenizer));
    }
    if frozen.imported.is_some() {
        return Ok(None);
    }
    let doing = || format!("looking for the tokenizer of run {}", frozen.id.short());
    let data = data::open(&frozen.config.data, &root.cache(), &|| false).map_err(|error| error.within(doing()))?;
    if data.info().hash != frozen.corpus_hash {
        return Ok(None);
    }
    data.keep_tokenizer(root, run)?;
    tokenizer::kept(root, run)
}

fn find(run: &RunFolder, which: Which) -> Result<Option<Saved>> {
    Ok(match which {
        Which::Best => checkpoint::best(run)?,
        Which::Last => checkpoint::list(run)?.into_iter().find(|saved| !saved.is_damaged()),
        Which::Step(step) => checkpoint::list(run)?.into_iter().find(|saved| saved.step == step),
    })
}

fn none_such(run: &RunFolder, frozen: &FrozenRun, which: Which) -> Error {
    let mut steps: Vec<u64> = checkpoint::list(run).unwrap_or_default().iter().map(|saved| saved.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
    let what = match which {
        Which::Step(step) => format!("it has no checkpoint after step {step}"),
        Which::Best | Which::Last => "it has no whole checkpoint".into(),
    };
    let error = Error::new(Exit::Usage, format!("loading the model of run {}", frozen.id.short()), what);
    match &steps[..] {
        [] => error.hint("a run writes its first checkpoint after `checkpoint.every` updates"),
        steps => error.hint(format!(
            "there are checkpoints after steps {}; how many are kept is for `checkpoint` in the spec to say",
            steps.join(", ")
        )),
    }
}
