//! `exp export RUN --format hf DIR`: a run's model for other programs.

use std::path::PathBuf;

use super::{needed_store, run::shown};
use crate::{
    base::{Exit, Result, files, folders::Root},
    data::tokenizer,
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
    let Trained { frozen, step, layout, weights } = Trained::load(&folder, args.checkpoint)?;
    let kept = tokenizer::kept_file(root, &folder)?;
    let model = export::Model {
        config: &frozen.config.model,
        vocab: frozen.vocab_size,
        layout: &layout,
        weights: &weights,
        end_of_text: (frozen.config.data.tokenizer == TokenizerKind::Gpt2).then_some(GPT2_END),
    };
    let more: Vec<(&str, Vec<u8>)> = match kept {
        Some(path) => vec![("tokenizer.json", files::read(&path)?)],
        None => Vec::new(),
    };
    let more: Vec<(&str, &[u8])> = more.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let architecture = export::write(&args.to, &model, &more)?;
    let size = format::count(layout.len() as f64);
    ui::note(&format!("{}: {} with {size} parameters, after step {step}", shown(&args.to), architecture.name()));
    Ok(Exit::Done)
}

/// GPT-2's `<|endoftext|>`.
const GPT2_END: u32 = 50_256;
