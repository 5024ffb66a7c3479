//! `exp export RUN --format hf DIR`: a run's model for other programs.

use std::path::PathBuf;

use super::{needed_store, run::shown};
use crate::{
    base::{Exit, Result, folders::Root},
    data::tokenizer::{self, GPT2_EOT},
    model::export,
    spec::config::TokenizerKind,
    train::{Trained, Which},
    ui::{self, format},
};

/// Arguments of `exp export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run: any unique prefix of its id
    run: String,

    /// What is written
    #[arg(long, value_enum)]
    format: Format,

    /// The folder to write, which must be new or empty
    #[arg(value_name = "DIR")]
    to: PathBuf,

    /// Which weights: best, last, or those after so many updates
    #[arg(long, value_name = "best|last|N", default_value = "best")]
    checkpoint: Which,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// A folder that Hugging Face's transformers loads, as GPT-2 or as Llama
    Hf,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let row = needed_store(root)?.find(&args.run)?;
    match args.format {
        Format::Hf => hf(root, &row, args),
    }
}

fn hf(root: &Root, row: &crate::store::RunRow, args: &Args) -> Result<Exit> {
    let doing = || format!("exporting the run {}", row.id.short());
    let folder = root.run(&row.id);
    export::Architecture::of(&row.config.model).map_err(|e| e.within(doing()))?; // before all weights are read
    let Trained { frozen, step, layout, weights, .. } = Trained::load(&folder, args.checkpoint)?;
    let tokens = tokenizer::kept_source(root, &folder)?;
    let tokens_for_hf = tokens.as_ref().and_then(tokenizer::Source::to_hf);
    let model = export::Model {
        config: &frozen.config.model,
        vocab: frozen.vocab_size,
        layout: &layout,
        weights: &weights,
        end_of_text: (frozen.config.data.tokenizer == TokenizerKind::Gpt2).then_some(GPT2_EOT),
    };
    let more: Vec<(&str, &[u8])> = tokens_for_hf.iter().map(|file| ("tokenizer.json", file.as_slice())).collect();
    let architecture = export::write(&args.to, &model, &more)?;
    let size = format::count(layout.len() as f64);
    ui::note(&format!("{}: {} with {size} parameters, after step {step}", shown(&args.to), architecture.name()));
    match weights.iter().filter(|weight| !weight.is_finite()).count() {
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
