//! How well a run's model predicts a text: its own corpus or another, read by the tokens that the model was trained on.

use super::{
    Trained, Which,
    eval::{self, GoOn, Mean},
    tokenizer_of,
};
use crate::{
    base::{
        Error, Exit, Result,
        folders::{Root, RunFolder},
    },
    data::{
        self, CorpusInfo, Dataset, Split,
        tokenizer::{self, Source},
    },
    engine::{self, Batch, Engine, Part},
    spec::{
        config::{DataConfig, Dtype},
        identity::Imported,
    },
};

/// What to measure.
pub struct Request {
    /// Which of the run's checkpoints.
    pub which: Which,
    /// The text; the run's own where there is none.
    pub text: Option<DataConfig>,
    /// Which part of it.
    pub split: Split,
    /// Which windows of that.
    pub windows: Windows,
    /// Windows computed at once; `eval.batch` where nothing is said.
    pub batch: Option<usize>,
    /// CPU threads to compute with.
    pub threads: usize,
}

/// Which windows of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Those of every evaluation while the run was trained: `eval.batches` × `eval.batch`. Their loss is the stored one
    /// to the bit, where the engine is the same.
    AsTrained,
    /// So many of the same, in their order.
    First(usize),
    /// All that the split consists of, each token once: see [`eval::walk`].
    All,
}

/// How well a model predicts a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Updates that made the weights.
    pub step: u64,
    /// `playbook`, `shakespeare`, or the path of the text.
    pub corpus: String,
    /// blake3 of the text; of text and tokenizer where that is a file.
    pub corpus_hash: String,
    /// Characters per token of the split.
    pub chars_per_token: f64,
    /// The loss, and over how much.
    pub mean: Mean,
    /// Tokens of the split; the first of them has nothing before it that it could be predicted from.
    pub of: u64,
    /// `cpu` or `tape`.
    pub engine: &'static str,
}

impl Score {
    /// e to the loss: among how many equally likely tokens the model chooses as it were.
    pub fn perplexity(&self) -> f64 {
        self.mean.loss.exp()
    }

    /// The loss in bits per character.
    pub fn bits_per_char(&self) -> f64 {
        eval::bits_per_char(self.mean.loss, self.chars_per_token)
    }
}

/// A model, a text, and what to measure.
pub struct Scorer {
    trained: Trained,
    data: Dataset,
    engine: Box<dyn Engine>,
    split: Split,
    windows: Windows,
    /// Windows computed at once.
    rows: usize,
}

impl Scorer {
    /// Loads model and text.
    ///
    /// # Errors
    /// [`Exit::Usage`] where there is no such checkpoint, and where a text that the request names is not there, is too
    /// short, or has what the run's tokenizer has no token for; [`Exit::Spec`] where the run's own corpus is at fault;
    /// [`Exit::Store`] where the run's files cannot be read.
    pub fn open(root: &Root, run: &RunFolder, request: &Request) -> Result<Self> {
        let trained = Trained::load(run, request.which)?;
        let mut config = trained.frozen.config.clone();
        config.train.dtype = Dtype::F32; // what a CPU computes in, whatever the run was trained in
        let data = match &request.text {
            None => own(root, run, &trained)?,
            Some(text) => other(root, run, &trained, text)?,
        };
        check_length(&trained, data.info(), request)?;
        let mut engine = engine::build(&config, trained.frozen.vocab_size, "cpu", request.threads)?;
        engine.write(Part::Params, &trained.weights)?;
        // No more at once than there are: a batch is allocated whole.
        let most = match request.windows {
            Windows::First(windows) => windows,
            _ => usize::MAX,
        };
        let rows = request.batch.unwrap_or(config.eval.batch).min(most);
        Ok(Self { trained, data, engine, split: request.split, windows: request.windows, rows })
    }

    /// Measures. `None` where it was asked not to go on.
    ///
    /// # Errors
    /// Where the engine cannot compute.
    pub fn score(&mut self, go_on: GoOn) -> Result<Option<Score>> {
        let Self { trained, data, engine, split, windows, rows } = self;
        let (split, rows, eval, context) =
            (*split, *rows, &trained.frozen.config.eval, trained.frozen.config.model.context);
        let mut fixed = |windows| {
            let mut batch = Batch::zeros(rows, context);
            eval::fixed(&mut **engine, data, split, windows, &mut batch, go_on)
        };
        let mean = match *windows {
            Windows::AsTrained => fixed(eval.batches * eval.batch)?,
            Windows::First(windows) => fixed(windows)?,
            Windows::All => eval::walk(&mut **engine, data, split, (rows, context), go_on)?,
        };
        let info = data.info();
        Ok(mean.map(|mean| Score {
            step: trained.step,
            corpus: info.name.clone(),
            corpus_hash: info.hash.clone(),
            chars_per_token: info.chars_per_token_of(split),
            mean,
            of: info.tokens(split),
            engine: engine.name(),
        }))
    }
}

/// A text that the command line names is at fault there, and not in a spec.
fn of_the_command_line(error: Error) -> Error {
    match error.exit {
        Exit::Spec => Error { exit: Exit::Usage, ..error },
        _ => error,
    }
}

/// That the split holds what is asked for: a window, or for a walk a token and another one after it.
fn check_length(trained: &Trained, info: &CorpusInfo, request: &Request) -> Result<()> {
    let context = trained.frozen.config.model.context as u64;
    let need = if request.windows == Windows::All { 2 } else { context + 1 };
    let tokens = info.tokens(request.split);
    if tokens >= need {
        return Ok(());
    }
    let doing = format!("evaluating run {} on {}", trained.frozen.id.short(), info.name);
    let part = match request.split {
        Split::Whole => "the whole text".to_owned(),
        split => format!("the {} split", split.word()),
    };
    let plural = if tokens == 1 { "" } else { "s" };
    let why = format!("{part} has {tokens} token{plural}, and {need} are needed");
    let hint = match (tokens, request.split) {
        (2.., _) => "`--all` evaluates on what there is",
        (_, Split::Whole) => "a token is predicted from those before it: name a longer text",
        _ => "`--split whole` takes all of the text",
    };
    let exit = if request.text.is_some() { Exit::Usage } else { Exit::Spec };
    Err(Error::new(exit, doing, why).hint(hint))
}

/// The corpus that the run was trained on.
fn own(root: &Root, run: &RunFolder, trained: &Trained) -> Result<Dataset> {
    let frozen = &trained.frozen;
    let doing = || format!("opening the corpus that run {} was trained on", frozen.id.short());
    let hint = "`--text FILE` evaluates the run on another text, by the tokens that it knows";
    if let Some(imported) = &frozen.imported {
        let why = "its weights were imported, and on what they were trained is not known";
        // Without a tokenizer no text can be read either.
        let hint = if tokenizer::kept_source(root, run)?.is_some() { hint.into() } else { with_a_tokenizer(imported) };
        return Err(Error::new(Exit::Usage, doing(), why).hint(hint));
    }
    let data = data::open(&frozen.config.data, &root.cache(), &|| false).map_err(|e| e.within(doing()).hint(hint))?;
    let info = data.info();
    if info.hash != frozen.corpus_hash || info.vocab_size != frozen.vocab_size {
        let why = format!("{} is not what it was when the run was planned", info.name);
        return Err(Error::new(Exit::Spec, doing(), why).hint(hint));
    }
    Ok(data)
}

/// Another text, by the run's tokens.
fn other(root: &Root, run: &RunFolder, trained: &Trained, text: &DataConfig) -> Result<Dataset> {
    let source = source(root, run, trained)?;
    let doing = || format!("reading a text by the tokens of run {}", trained.frozen.id.short());
    let data = data::open_with(text, source, &root.cache(), &|| false);
    let data = data.map_err(|e| of_the_command_line(e.within(doing())))?;
    let (has, knows) = (data.info().vocab_size, trained.frozen.vocab_size);
    if has > knows {
        let why = format!("the run's tokenizer has {has} tokens, and its model knows {knows}");
        return Err(Error::new(Exit::Store, doing(), why));
    }
    Ok(data)
}

/// What a run's tokenizer is made from, whatever text it is for.
///
/// # Errors
/// As [`tokenizer_of`], and where it is not known.
fn source(root: &Root, run: &RunFolder, trained: &Trained) -> Result<Source> {
    tokenizer_of(root, run, &trained.frozen)?; // it is kept from then on
    tokenizer::kept_source(root, run)?.ok_or_else(|| {
        let doing = format!("looking for the tokenizer of run {}", trained.frozen.id.short());
        if let Some(imported) = &trained.frozen.imported {
            return Error::new(Exit::Usage, doing, "it was imported without one").hint(with_a_tokenizer(imported));
        }
        Error::new(Exit::Spec, doing, "none is kept with it, and its corpus is not what it was trained on")
            .hint("put the corpus back where it was: it says what the run's tokens are")
    })
}

/// What to do about weights whose tokens mean nothing yet.
fn with_a_tokenizer(imported: &Imported) -> String {
    let source = &imported.source;
    format!(
        "import them again and say what their tokens mean: `exp import {source} --tokenizer gpt2`, `--tokenizer-file \
         FILE`, or `--text FILE` for the characters of a text; then evaluate that run with `--text`"
    )
}
