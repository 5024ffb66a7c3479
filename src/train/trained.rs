//! A run's model as one of its checkpoints holds it, for whoever wants to use it: to sample, to evaluate, to export.

use std::str::FromStr;

use super::checkpoint::{self, Saved};
use crate::{
    base::{
        Error, Exit, Result,
        checkpoints::Fault,
        folders::{Root, RunFolder},
        wait,
    },
    data::{
        self,
        tokenizer::{self, Tokenizer},
    },
    event::FileRef,
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
    /// The file that they stand in, its name relative to the run's folder.
    pub file: FileRef,
    /// Why they are not those that were meant, where others had to do.
    pub doubt: Option<String>,
}

impl Trained {
    /// The weights of one of a run's checkpoints, once its files are verified. Where the best or the newest is damaged, or
    /// is not kept, another will do, which is said.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is no such checkpoint, with those that there are; [`Exit::Store`] where it cannot be
    /// read.
    pub fn load(run: &RunFolder, which: Which) -> Result<Self> {
        let frozen = FrozenRun::read(&run.config())?;
        let (saved, doubt) = find(run, &frozen, which)?.ok_or_else(|| none_such(run, &frozen, which))?;
        let doubt = doubt.map(|why| format!("{why}: this is the one after step {}", saved.step));
        doubt.iter().for_each(|why| wait::say(&format!("run {}: {why}", frozen.id.short())));
        let layout = Layout::of(&frozen.config.model, frozen.vocab_size);
        let (weights, file) = saved.weights(&layout)?;
        let file = FileRef { name: format!("{}/{}", saved.relative(), file.name), ..file };
        Ok(Self { step: saved.step, frozen, layout, weights, file, doubt })
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
    // For the next time, when the corpus may be gone. Where nothing can be written, it serves as well.
    let _ = data.keep_tokenizer(root, run);
    Ok(Some(data.into_tokenizer()))
}

/// The newest, or best, of those meant that is whole; and why it is not the one that was meant, where another was.
fn find(run: &RunFolder, frozen: &FrozenRun, which: Which) -> Result<Option<(Saved, Option<String>)>> {
    let all = checkpoint::list(run)?;
    let newest = all.first().cloned();
    let candidates = match which {
        Which::Best => checkpoint::best_first(&all),
        Which::Last => all,
        Which::Step(step) => all.into_iter().filter(|saved| saved.step == step).collect(),
    };
    let mut passed_over = None;
    for saved in candidates {
        match saved.verify() {
            Err(Fault::Damaged(_)) => {
                passed_over.get_or_insert(saved.step);
            }
            Err(fault) => return Err(fault.into()),
            Ok(()) => {
                let damaged = passed_over.filter(|_| !matches!(which, Which::Step(_)));
                let damaged = damaged.map(|step| format!("its checkpoint after step {step} is damaged"));
                let gone = match newest.filter(|_| which == Which::Best) {
                    Some(newest) => best_gone(&newest, &saved, frozen)?,
                    None => None,
                };
                let gone = gone.map(|step| format!("its best checkpoint, after step {step}, is not kept"));
                return Ok(Some((saved, damaged.or(gone))));
            }
        }
    }
    Ok(None)
}

/// The step of a better checkpoint than the best that is there, where one was written.
fn best_gone(newest: &Saved, best: &Saved, frozen: &FrozenRun) -> Result<Option<u64>> {
    // What a damaged one says of itself is not to be had; then the one that is used says what it knows.
    let progress = newest.state().or_else(|_| best.state())?.progress;
    let every = frozen.config.checkpoint.every;
    let was_saved = |step: u64| step > 0 && (step.is_multiple_of(every) || step == frozen.config.train.steps);
    Ok(progress.best.map(|best| best.step).filter(|&step| step != best.step && was_saved(step)))
}

fn none_such(run: &RunFolder, frozen: &FrozenRun, which: Which) -> Error {
    let doing = format!("loading the model of run {}", frozen.id.short());
    let all = checkpoint::list(run).unwrap_or_default();
    let is_meant = |saved: &&Saved| !matches!(which, Which::Step(step) if step != saved.step);
    if let Some(damaged) = all.iter().find(is_meant) {
        let what = match which {
            Which::Step(step) => format!("its checkpoint after step {step} is damaged"),
            Which::Best | Which::Last => "all of its checkpoints are damaged".into(),
        };
        let why = damaged.verify().err().map_or_else(String::new, |fault| format!(": {}", Error::from(fault)));
        let advice = match frozen.imported {
            Some(_) => format!("move {} away and import the weights again", run.path().display()),
            None => "put them back from a copy, or train the run again".into(),
        };
        return Error::new(Exit::Store, doing, format!("{what}{why}")).hint(advice);
    }
    let mut steps: Vec<u64> = all.iter().map(|saved| saved.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
    match (which, &steps[..]) {
        (Which::Step(step), [_, ..]) => {
            let hint = format!(
                "{} {}; how many are kept is for `checkpoint` in the spec to say",
                if steps.len() == 1 { "there is a checkpoint after step" } else { "there are checkpoints after steps" },
                steps.join(", ")
            );
            Error::new(Exit::Usage, doing, format!("it has no checkpoint after step {step}")).hint(hint)
        }
        _ => Error::new(Exit::Usage, doing, "it has no checkpoint")
            .hint("a run writes its first one after `checkpoint.every` updates"),
    }
}
