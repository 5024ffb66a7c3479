//! `exp export`: runs and their metrics for other programs, and a run's model (`--format hf`).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{columns::Columns, needed_store, run::shown};
use crate::{
    base::{Error, Exit, Result, folders::Root},
    data::tokenizer::{self, GPT2_EOT},
    export,
    model::export as weights,
    spec::{config::TokenizerKind, expr::Expr},
    store::{Named, RunRow, Store},
    train::{Trained, Which},
    ui::{self, format},
};

/// Arguments of `exp export`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "exp export [OPTIONS] --format <FORMAT> <RUN|EXPERIMENT>... <DIR>")]
pub struct Args {
    /// Runs, by any unique prefixes of their ids, or experiments; then the folder to write, which must be new or empty
    #[arg(value_name = "RUN|EXPERIMENT, DIR", required = true)]
    names: Vec<OsString>,

    /// What is written
    #[arg(long, value_enum)]
    format: Format,

    /// Only runs of which this holds: 'layers >= 4 and best_val_loss < 1.7'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    filter: Option<String>,

    /// Replace what an earlier export wrote into the folder
    #[arg(long)]
    force: bool,

    /// For hf: which weights, the best (if nothing is said), the last, or those after so many updates
    #[arg(long, value_name = "best|last|N")]
    checkpoint: Option<Which>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// runs.csv and metrics.csv: a row for each run, a row for each value of a metric
    Csv,
    /// The same as runs.jsonl and metrics.jsonl, an object a line
    Jsonl,
    /// The same as runs.parquet and metrics.parquet
    Parquet,
    /// Event files for TensorBoard, a folder for each run
    Tensorboard,
    /// The model of one run, as Hugging Face's transformers loads it: GPT-2 or Llama
    Hf,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let (to, names) = arguments(args)?;
    let format = match args.format {
        Format::Csv => export::Format::Csv,
        Format::Jsonl => export::Format::Jsonl,
        Format::Parquet => export::Format::Parquet,
        Format::Tensorboard => export::Format::TensorBoard,
        Format::Hf => return hf(root, &names, &to, args),
    };
    if args.checkpoint.is_some() {
        return Err(unfit("--checkpoint", "it goes with `--format hf`: the other formats have no weights"));
    }
    let filter = args.filter.as_ref().map(|text| Expr::condition(text, &Columns)).transpose()?;
    let store = needed_store(root)?;
    let (chosen, written) = store.at_one_moment(|| {
        let mut rows = chosen(&store, &names)?;
        rows.retain(|row| filter.as_ref().is_none_or(|f| f.holds(&|index| Columns::value(index, row))));
        if rows.is_empty() {
            return Err(Error::new(Exit::Usage, "choosing what to export", "there is no such run"));
        }
        Ok((rows.len(), export::write(&store, &rows, format, &to, args.force)?))
    })?;
    let points = format::grouped(written.points);
    ui::note(&format!("{}: {}, {points} values of metrics", shown(&to), format::plural(written.runs, "run")));
    if written.runs < chosen {
        let left = format::plural(chosen - written.runs, "run");
        ui::note(&format!("{left} never began, and so left out"));
    }
    Ok(Exit::Done)
}

/// The folder, which comes last, and the names before it.
fn arguments(args: &Args) -> Result<(PathBuf, Vec<&str>)> {
    let Some((to, names)) = args.names.split_last().filter(|(_, names)| !names.is_empty()) else {
        let hint = "exp export depth_sweep --format csv my-folder/";
        return Err(unfit("the arguments", "name what to export, and after it the folder to write").hint(hint));
    };
    let why = "no run and no experiment has a name that is not Unicode";
    let names = names.iter().map(|name| name.to_str().ok_or_else(|| unfit("the arguments", why)));
    Ok((to.into(), names.collect::<Result<_>>()?))
}

/// The runs that the names stand for, each once.
fn chosen(store: &Store, names: &[&str]) -> Result<Vec<RunRow>> {
    let mut rows: Vec<RunRow> = Vec::new();
    for name in names {
        for row in store.runs_named(name)? {
            if rows.iter().all(|other| other.id != row.id) {
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn unfit(what: &str, why: &str) -> Error {
    Error::new(Exit::Usage, format!("reading {what}"), why)
}

fn hf(root: &Root, names: &[&str], to: &Path, args: &Args) -> Result<Exit> {
    for (option, is_set) in [("--filter", args.filter.is_some()), ("--force", args.force)] {
        if is_set {
            return Err(unfit(option, "it is for tables and event files: `--format hf` writes the model of one run"));
        }
    }
    let store = needed_store(root)?;
    let [name] = names else {
        return Err(unfit("the arguments", "`--format hf` writes the model of one run into one folder"));
    };
    let row = match store.named(name)? {
        Named::Run(row) => row,
        Named::Experiment(_) => {
            let why = format!("`--format hf` writes the model of one run, and {name} is an experiment");
            let hint = format!("that of the best: exp export $(exp best {name}) --format hf {}", to.display());
            return Err(unfit("the arguments", &why).hint(hint));
        }
    };
    let doing = || format!("exporting the run {}", row.id.short());
    let folder = root.run(&row.id);
    weights::Architecture::of(&row.config.model).map_err(|e| e.within(doing()))?; // before all weights are read
    let Trained { frozen, step, layout, weights: values, .. } =
        Trained::load(&folder, args.checkpoint.unwrap_or_default())?;
    let tokens = tokenizer::kept_source(root, &folder)?;
    let tokens_for_hf = tokens.as_ref().and_then(tokenizer::Source::to_hf);
    let model = weights::Model {
        config: &frozen.config.model,
        vocab: frozen.vocab_size,
        layout: &layout,
        weights: &values,
        end_of_text: (frozen.config.data.tokenizer == TokenizerKind::Gpt2).then_some(GPT2_EOT),
    };
    let more: Vec<(&str, &[u8])> = tokens_for_hf.iter().map(|file| ("tokenizer.json", file.as_slice())).collect();
    let architecture = weights::write(to, &model, &more)?;
    let size = format::count(layout.len() as f64);
    ui::note(&format!("{}: {} with {size} parameters, after step {step}", shown(to), architecture.name()));
    match values.iter().filter(|weight| !weight.is_finite()).count() {
        0 => {}
        count => ui::note(&format!("warning: {count} of its weights are not finite")),
    }
    match (tokens_for_hf, tokens) {
        (Some(_), _) => {}
        (None, Some(_)) => ui::note("its tokens are those of transformers' own tokenizer `gpt2`"),
        (None, None) => ui::note("what its tokens mean is not known, so there is no tokenizer.json"),
    }
    Ok(Exit::Done)
}
