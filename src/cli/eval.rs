//! `exp eval RUN`: how well a run's model predicts its own corpus or another text.

use std::num::NonZeroUsize;

use serde_json::{Value, json};

use super::needed_store;
use crate::{
    base::{Exit, Result, RunId, folders::Root, num},
    data::Split,
    exec::{device, worker::limit_threads},
    sched::signals::Signals,
    spec::{self, RunConfig, config::DataConfig},
    train::{
        Which,
        score::{Request, Score, Scorer, Windows},
    },
    ui::{self, format, progress::Progress},
};

/// Arguments of `exp eval`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// Which weights: best, last, or the number of a step
    #[arg(long, value_name = "best|last|N", default_value = "best")]
    checkpoint: Which,

    /// Another text, a file or folder; --set corpus=text --set data.path=PATH for short
    #[arg(long, value_name = "PATH")]
    text: Option<String>,

    /// Another corpus by its settings: --set corpus=playbook, --set corpus_seed=2, --set val_fraction=0.5
    #[arg(long, value_name = "LEAF=VALUE")]
    set: Vec<String>,

    /// The part of the text to measure on
    #[arg(long, value_enum, default_value_t = Part::Val)]
    split: Part,

    /// Only the first N of the evaluation windows, or more than the run used [default: the run's own number]
    #[arg(long, value_name = "N", conflicts_with = "all")]
    windows: Option<NonZeroUsize>,

    /// The whole split, each token once
    #[arg(long)]
    all: bool,

    /// Windows to compute at once [default: the run's eval.batch]
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroUsize>,

    /// CPU threads to compute with [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--set` takes.
const FREE: [&str; 5] = ["data.corpus", "data.path", "data.val_fraction", "data.corpus_seed", "data.corpus_chars"];

/// A part of a text.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    /// What validates
    Val,
    /// What is trained on
    Train,
}

impl Args {
    fn request(&self, config: &RunConfig) -> Result<Request> {
        let windows = match self.windows {
            _ if self.all => Windows::All,
            Some(windows) => Windows::First(windows.get()),
            None => Windows::AsTrained,
        };
        Ok(Request {
            which: self.checkpoint,
            text: self.data(config)?,
            split: match self.split {
                Part::Val => Split::Val,
                Part::Train => Split::Train,
            },
            windows,
            batch: self.batch.map(NonZeroUsize::get),
            threads: self.threads.map_or_else(device::cores, NonZeroUsize::get),
        })
    }

    /// The text that is named, if one is.
    fn data(&self, config: &RunConfig) -> Result<Option<DataConfig>> {
        if self.set.is_empty() && self.text.is_none() {
            return Ok(None);
        }
        let why = "a run's model and its tokens are what they are; only the text can be another";
        // A path may hold what means something in YAML: as JSON it does not.
        let text = |path: &String| ["corpus=text".to_owned(), format!("data.path={}", json!(path))];
        let set: Vec<String> = self.text.iter().flat_map(text).chain(self.set.iter().cloned()).collect();
        Ok(Some(spec::amend(config, &set, &FREE, why)?.data))
    }
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    let request = args.request(&row.config)?;
    limit_threads(request.threads)?;
    let mut scorer = Scorer::open(root, &root.run(&row.id), &request)?;
    let mut signals = Signals::listen()?; // until here, Ctrl-C does what it always does
    let bar = Progress::new(format!("evaluating {}", row.id.short()));
    let scored = scorer.score(&mut |done, of| {
        bar.at(done, of);
        signals.arrived() == 0
    })?;
    drop(bar);
    let Some(score) = scored else {
        ui::note("interrupted");
        return Ok(Exit::Interrupted);
    };
    if args.json {
        ui::print_json(&json(&row.id, request.split, &score));
    } else {
        ui::print(&table(&row.id, request.split, &score));
    }
    Ok(Exit::Done)
}

fn json(run: &RunId, split: Split, score: &Score) -> Value {
    json!({
        "run": run,
        "step": score.step,
        "corpus": score.corpus,
        "corpus_hash": score.corpus_hash,
        "split": split.word(),
        "loss": num::json(score.mean.loss),
        "perplexity": num::json(score.perplexity()),
        "bits_per_char": num::json(score.bits_per_char()),
        "chars_per_token": score.chars_per_token,
        "tokens": score.mean.tokens,
        "windows": score.mean.windows,
        "engine": score.engine,
    })
}

fn table(run: &RunId, split: Split, score: &Score) -> String {
    let mean = score.mean;
    [
        ("run", format!("{} after step {}", run.short(), score.step)),
        ("text", format!("{}, {} split", score.corpus, split.word())),
        ("loss", format!("{} nats per token", format::loss(Some(mean.loss)))),
        ("perplexity", format::loss(Some(score.perplexity()))),
        ("bits per char", format::loss(Some(score.bits_per_char()))),
        ("tokens", format!("{} in {}", mean.tokens, format::plural(mean.windows as usize, "window"))),
        ("engine", score.engine.to_owned()),
    ]
    .map(|(name, value)| format!("{name:<15}{value}\n"))
    .concat()
}
