//! `exp eval RUN`: how well a run's model predicts its own corpus or another text.

use serde_json::{Map, Value, json};

use super::needed_store;
use crate::{
    base::{Exit, Result, RunId, folders::Root, num, progress::Progress},
    data::Split,
    exec::{device, worker::limit_threads},
    sched::signals::Signals,
    spec::{self, RunConfig, config::CorpusKind, identity::FrozenRun},
    train::{
        Which,
        score::{Request, Score, Scorer, Windows},
    },
    ui::{self, format},
};

/// Arguments of `exp eval`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// Which weights: best, last, or the number of a step
    #[arg(long, value_name = "best|last|N", default_value = "best")]
    checkpoint: Which,

    /// Another text, a file or folder
    #[arg(long, value_name = "PATH")]
    text: Option<String>,

    /// Another corpus by its settings: --set corpus=playbook, --set corpus_seed=2
    #[arg(long, value_name = "LEAF=VALUE")]
    set: Vec<String>,

    /// The part to measure on [default: val of the run's own corpus, the whole of another text]
    #[arg(long, value_enum)]
    split: Option<Part>,

    /// N windows drawn from it, the first of them those of the run's evaluations
    #[arg(long, value_name = "N", conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,

    /// Each of its tokens once [default but for val and train of the run's own corpus]
    #[arg(long)]
    all: bool,

    /// Windows to compute at once [default: the run's eval.batch]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: Option<u32>,

    /// CPU threads to compute with [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--set` takes.
const FREE: [&str; 5] = ["data.corpus", "data.path", "data.val_fraction", "data.corpus_seed", "data.corpus_chars"];

/// A part of a text. With a help text for each of them clap would spread every option over several lines.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    Val,
    Train,
    Whole,
}

impl From<Part> for Split {
    fn from(part: Part) -> Self {
        match part {
            Part::Val => Self::Val,
            Part::Train => Self::Train,
            Part::Whole => Self::Whole,
        }
    }
}

impl Args {
    /// What to measure, and the settings of the text in words.
    fn request(&self, run: &FrozenRun) -> Result<(Request, Text)> {
        let config = self.amended(run)?;
        let (is_own, split) = (self.is_own(run, &config), self.part(run, &config));
        let windows = match self.windows {
            Some(windows) => Windows::First(windows as usize),
            None if self.all || !is_own || split == Split::Whole => Windows::All,
            None => Windows::AsTrained,
        };
        let is_prepared = config.data.corpus == CorpusKind::Tokens;
        let changed = self.changed(run, &config);
        let text = Text { changed, val_fraction: config.data.val_fraction, is_prepared, split };
        let request = Request {
            which: self.checkpoint,
            text: (!is_own).then_some(config.data),
            split,
            windows,
            batch: self.batch.map(|n| n as usize),
            // More than there are cores would only wait for each other.
            threads: self.threads.map_or(usize::MAX, usize::from).min(device::cores()),
        };
        Ok((request, text))
    }

    /// The run's config with the text that is named, if one is.
    fn amended(&self, run: &FrozenRun) -> Result<RunConfig> {
        // A path may hold what means something in YAML: as JSON it does not.
        let text = |path: &String| ["corpus=text".to_owned(), format!("data.path={}", json!(path))];
        let text: Vec<String> = self.text.iter().flat_map(text).collect();
        let named = spec::amend(&run.config, &text, &|_, _| None)?;
        spec::amend(&named, &self.set, &|amended, leaf| self.refused(run, amended, leaf))
    }

    /// Why a leaf cannot be set, where it cannot: it is none of the text's, or has no effect on it.
    fn refused(&self, run: &FrozenRun, amended: &RunConfig, leaf: &str) -> Option<String> {
        let is_generated = amended.data.corpus == CorpusKind::Playbook;
        match leaf {
            _ if !FREE.contains(&leaf) => Some(format!(
                "`{leaf}` cannot be set here: a run's model and its tokens are what they are; only the text can be another"
            )),
            "data.corpus" | "data.path" if self.text.is_some() => Some(format!("`--text` sets `{leaf}` already")),
            "data.corpus_seed" | "data.corpus_chars" if !is_generated => {
                let word = amended.data.corpus.word();
                Some(format!("`{leaf}` has no effect on the corpus `{word}`: it is for `playbook`"))
            }
            "data.val_fraction" if amended.data.corpus == CorpusKind::Tokens => {
                Some(format!("`{leaf}` has no effect on prepared tokens: they lie in two files"))
            }
            "data.val_fraction" if self.part(run, amended) == Split::Whole => Some(format!(
                "`{leaf}` has no effect on the whole of a text; `--split val` and `--split train` take a part of it"
            )),
            _ => None,
        }
    }

    /// Whether it is the run's own corpus that is measured on. Of imported weights it is not known, and a text by `--text`
    /// is what it is, whatever the run was trained on.
    fn is_own(&self, run: &FrozenRun, config: &RunConfig) -> bool {
        let is_named = self.text.is_some() || (run.imported.is_some() && !self.set.is_empty());
        !is_named && config.data == run.config.data
    }

    fn part(&self, run: &FrozenRun, config: &RunConfig) -> Split {
        let usual = if self.is_own(run, config) { Split::Val } else { Split::Whole };
        self.split.map_or(usual, Split::from)
    }

    /// The settings of the text, but for its name, that are not the run's.
    fn changed(&self, run: &FrozenRun, config: &RunConfig) -> Map<String, Value> {
        let (before, after) = (run.config.leaves(), config.leaves());
        let is_shown = |path: &str| FREE[2..].contains(&path);
        after.into_iter().filter(|(path, value)| is_shown(path) && before.get(path) != Some(value)).collect()
    }
}

/// Which text is measured on, beside its name.
struct Text {
    /// Settings that are not the run's.
    changed: Map<String, Value>,
    val_fraction: f64,
    /// Whether its tokens lie in two files.
    is_prepared: bool,
    split: Split,
}

impl Text {
    /// `playbook with data.corpus_seed = 2, the whole of it`.
    fn described(&self, name: &str) -> String {
        let settings = self.changed.iter().map(|(path, value)| format!("{} = {}", path, format::value(value)));
        let with = match settings.collect::<Vec<_>>() {
            none if none.is_empty() => String::new(),
            settings => format!(" with {}", settings.join(", ")),
        };
        let percent = |share: f64| (1000.0 * share).round() / 10.0;
        let part = match self.split {
            Split::Whole => "the whole of it".to_owned(),
            split if self.is_prepared => format!("{split}.bin of it", split = split.word()),
            Split::Val => format!("val split, the last {} % of it", percent(self.val_fraction)),
            Split::Train => format!("train split, the first {} % of it", percent(1.0 - self.val_fraction)),
        };
        format!("{name}{with}, {part}")
    }
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    let folder = root.run(&row.id);
    let (request, text) = args.request(&FrozenRun::read(&folder.config())?)?;
    limit_threads(request.threads)?;
    let mut scorer = Scorer::open(root, &folder, &request)?;
    let mut signals = Signals::listen()?; // until here, Ctrl-C does what it always does
    let bar = Progress::of(&format!("evaluating {}", row.id.short()));
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
        ui::print_json(&json(&row.id, &text, &score));
    } else {
        ui::print(&table(&row.id, &text, request.windows, &score));
    }
    Ok(Exit::Done)
}

fn json(run: &RunId, text: &Text, score: &Score) -> Value {
    json!({
        "run": run,
        "step": score.step,
        "corpus": score.corpus,
        "corpus_hash": score.corpus_hash,
        "set": text.changed,
        "split": text.split.word(),
        "split_tokens": score.of,
        "loss": num::json(score.mean.loss),
        "perplexity": num::json(score.perplexity()),
        "bits_per_char": num::json(score.bits_per_char()),
        "chars_per_token": score.chars_per_token,
        "tokens": score.mean.tokens,
        "windows": score.mean.windows,
        "engine": score.engine,
    })
}

fn table(run: &RunId, text: &Text, windows: Windows, score: &Score) -> String {
    let (mean, of) = (score.mean, format::grouped(score.of));
    let (predicted, in_windows) = (format::grouped(mean.tokens), format::plural(mean.windows as usize, "window"));
    let tokens = match windows {
        Windows::All => format!("{predicted} of {of} predicted, each once, in {in_windows}"),
        _ => format!("{predicted} predicted, in {in_windows} drawn from {of}"),
    };
    [
        ("run", format!("{} after step {}", run.short(), score.step)),
        ("text", text.described(&score.corpus)),
        ("loss", format!("{} nats per token", format::loss(Some(mean.loss)))),
        ("perplexity", format::loss(Some(score.perplexity()))),
        ("bits per char", format::loss(Some(score.bits_per_char()))),
        ("tokens", tokens),
        ("engine", score.engine.to_owned()),
    ]
    .map(|(name, value)| format!("{name:<15}{value}\n"))
    .concat()
}
