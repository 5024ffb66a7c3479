//! `exp data ls`: what there is to train on.

use std::path::Path;

use serde_json::json;

use crate::{
    base::{Exit, Result, folders::Root},
    cli::run::shown,
    data::{
        Split,
        shelf::{self, Item},
    },
    ui::{
        self, format,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp data ls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How many characters of a name are shown.
const WIDTH: usize = 28;

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let items = shelf::items(&root.cache())?;
    if args.json {
        ui::print_json(&items.iter().map(as_json).collect());
    } else if items.is_empty() {
        ui::note(&format!("nothing under {} yet; a corpus comes there when a spec names it", shown(&root.cache())));
    } else {
        let columns = [words("corpus"), words("tokenizer")].into_iter();
        let columns = columns.chain(["tokens", "vocabulary", "size"].map(numbers)).chain(["hash", "where"].map(words));
        if items.iter().any(Item::is_cached) {
            ui::note(&format!("cached tokens lie in {}", shown(&root.cache().join("tokens"))));
        }
        ui::print(&table::render(&columns.collect::<Vec<_>>(), &items.iter().map(row).collect::<Vec<_>>()));
    }
    Ok(Exit::Done)
}

fn row(item: &Item) -> Vec<String> {
    let dash = || "–".to_owned();
    let info = item.info.as_ref();
    let of = |show: &dyn Fn(&crate::data::CorpusInfo) -> String| info.map_or_else(dash, show);
    vec![
        item.name.as_deref().map_or("not whole".into(), name),
        item.tokenizer.map_or_else(dash, |tokenizer| tokenizer.word().into()),
        of(&|info| format::grouped(info.tokens(Split::Whole))),
        of(&|info| format::grouped(info.vocab_size as u64)),
        format::bytes(item.bytes),
        item.hash.as_ref().map_or_else(dash, |hash| hash.chars().take(8).collect()),
        place(item),
    ]
}

/// A path from the current folder on where it lies below it; of a long one the end.
fn name(name: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let name = Path::new(name).strip_prefix(here).map_or(name.to_owned(), |below| below.display().to_string());
    match name.char_indices().rev().nth(WIDTH - 1) {
        Some((from, _)) if from > 0 => format!("…{}", &name[from..]),
        _ => name,
    }
}

/// Where it lies: the beginning of a folder's name in the cache, or where the name says.
fn place(item: &Item) -> String {
    match item.kind() {
        "cached" => item.path.file_name().unwrap_or_default().to_string_lossy().chars().take(8).collect(),
        "text" => "downloaded".into(),
        _ => "in place".into(),
    }
}

fn as_json(item: &Item) -> serde_json::Value {
    let info = item.info.as_ref();
    json!({
        "name": item.name,
        "kind": item.kind(),
        "tokenizer": item.tokenizer.map(|tokenizer| tokenizer.word()),
        "train_tokens": info.map(|info| info.train_tokens),
        "val_tokens": info.map(|info| info.val_tokens),
        "vocab_size": info.map(|info| info.vocab_size),
        "bytes": item.bytes,
        "hash": item.hash,
        "path": item.path.display().to_string(),
    })
}
