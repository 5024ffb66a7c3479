//! `exp data prepare PATH…`: texts become a folder of tokens.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::{
    base::{Error, Exit, Result},
    data::{
        prepare::{self, Hooks, Outcome, Prepared, Request, Separator},
        tokenizer::{Source, TokenizerFile},
    },
    exec::device,
    sched::signals::Signals,
    spec::config::TokenizerKind,
    ui::{self, format},
};

/// Arguments of `exp data prepare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and folders of files: UTF-8 text or JSON lines (.jsonl, .ndjson), plain, gzip or zstd
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// The folder to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// What a token is: char, byte, gpt2, file [default: gpt2, or file with --tokenizer-file]
    #[arg(long, value_name = "WORD", value_parser = PossibleValuesParser::new(["char", "byte", "gpt2", "file"]), hide_possible_values = true)]
    tokenizer: Option<String>,

    /// The tokenizer.json of `--tokenizer file`
    #[arg(long, value_name = "FILE")]
    tokenizer_file: Option<PathBuf>,

    /// The field of JSON lines that has the text; each line is a document
    #[arg(long, value_name = "NAME")]
    field: Option<String>,

    /// The share of the tokens, at their end, that validates
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    val_fraction: f64,

    /// What stands between documents: eot, GPT-2's token 50256 or that of --eot; newline, a line's end where the document
    /// before has none; none [default: eot for gpt2, else newline]
    #[arg(long, value_enum, value_name = "WORD", hide_possible_values = true)]
    separator: Option<Between>,

    /// A token of the tokenizer.json that stands between documents, as in --eot '<|endoftext|>'
    #[arg(long, value_name = "TOKEN")]
    eot: Option<String>,

    /// CPU threads that tokenize; what comes out is the same for any number [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Seconds between the moments when what is done is made safe against a crash
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds, hide = true)]
    save_every: f64,

    /// Make DIR anew where it is whole, and write beside what else it holds
    #[arg(long)]
    force: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--separator` takes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Between {
    Newline,
    Eot,
    None,
}

impl From<Between> for Separator {
    fn from(between: Between) -> Self {
        match between {
            Between::Newline => Self::Newline,
            Between::Eot => Self::Eot,
            Between::None => Self::None,
        }
    }
}

fn number(text: &str, is_valid: impl Fn(f64) -> bool) -> Option<f64> {
    text.parse().ok().filter(|x| is_valid(*x))
}

fn share(text: &str) -> Result<f64, String> {
    number(text, |x| x > 0.0 && x <= 0.5).ok_or_else(|| "a number above 0, at most 0.5".into())
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..1e6).contains(&x)).ok_or_else(|| "a number of seconds".into())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let request = args.request()?;
    let signals = RefCell::new(Signals::listen()?);
    let is_asked = || {
        let mut signals = signals.borrow_mut();
        signals.arrived();
        signals.total() > 0
    };
    let (prepared, was_done) = match prepare::run(&request, &Hooks { is_asked: &is_asked, say: &ui::note })? {
        Outcome::Done(prepared) => (prepared, false),
        Outcome::WasDone(prepared) => (prepared, true),
        Outcome::Interrupted => {
            ui::note("interrupted; what was done is kept, and the same command goes on from there");
            return Ok(Exit::Interrupted);
        }
    };
    let out = args.out.display().to_string();
    if args.json {
        ui::print_json(&shape(&out, &prepared, was_done));
        return Ok(Exit::Done);
    }
    if was_done {
        ui::note(&format!("{out} holds these tokens already: nothing was done"));
    }
    ui::print(&table(&prepared));
    ui::note(&format!("`--set corpus=tokens --set {}` trains on it", setting(&out)));
    let short = [("train on", prepared.train_tokens), ("validate", prepared.val_tokens)];
    for (what, tokens) in short.into_iter().filter(|(_, tokens)| *tokens < 2) {
        ui::note(&format!("warning: {} is too little to {what}", format::plural(tokens as usize, "token")));
    }
    Ok(Exit::Done)
}

impl Args {
    fn request(&self) -> Result<Request> {
        let usage = |why: &str| Error::new(Exit::Usage, "preparing tokens", why);
        let usual = if self.tokenizer_file.is_some() { TokenizerKind::File } else { TokenizerKind::Gpt2 };
        let named = self.tokenizer.as_deref().map(|word| serde_json::from_value(word.into()));
        let kind = named.transpose().map_err(|e| usage(&e.to_string()))?.unwrap_or(usual);
        let source = match (kind, &self.tokenizer_file) {
            (TokenizerKind::File, Some(path)) => Source::File(TokenizerFile::read(path)?),
            (TokenizerKind::File, None) => {
                return Err(usage("the tokenizer `file` needs a file").hint("`--tokenizer-file FILE` names it"));
            }
            (TokenizerKind::Ids, _) => {
                return Err(usage("numbers are read where they stand, and need not be prepared")
                    .hint("`corpus: text` with `tokenizer: ids` reads a text of numbers"));
            }
            (_, Some(_)) => return Err(usage("--tokenizer-file is for the tokenizer `file`")),
            (TokenizerKind::Char, None) => Source::Char,
            (TokenizerKind::Byte, None) => Source::Byte,
            (TokenizerKind::Gpt2, None) => Source::Gpt2,
        };
        Ok(Request {
            paths: self.paths.clone(),
            out: self.out.clone(),
            source,
            field: self.field.clone(),
            val_fraction: self.val_fraction,
            separator: self.separator.map(Separator::from),
            eot: self.eot.clone(),
            threads: self.threads.map_or_else(device::cores, usize::from),
            save_every: Duration::from_secs_f64(self.save_every),
            force: self.force,
        })
    }
}

/// The path as a setting that a shell and the spec language both take as it is.
fn setting(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    let is_word = path.starts_with(|c: char| c.is_alphabetic() || "/.".contains(c)) && !WORDS.contains(&path);
    if path.chars().all(is_plain) && is_word {
        return format!("data.path={path}");
    }
    format!("'data.path={}'", json!(path).to_string().replace('\'', r"'\''"))
}

/// What YAML takes for something else than a text.
const WORDS: [&str; 5] = ["null", "true", "false", ".nan", ".inf"];

fn megabytes_per_second(prepared: &Prepared) -> f64 {
    prepared.text_bytes as f64 / 1e6 / prepared.seconds.max(1e-9)
}

fn chars_per_token(prepared: &Prepared) -> f64 {
    let tokens = prepared.train_tokens + prepared.val_tokens;
    (prepared.train_chars + prepared.val_chars) as f64 / tokens.max(1) as f64
}

fn shape(out: &str, prepared: &Prepared, was_done: bool) -> Value {
    json!({
        "folder": out,
        "was_done": was_done,
        "files": prepared.files,
        "input_bytes": prepared.input_bytes,
        "documents": prepared.documents,
        "text_bytes": prepared.text_bytes,
        "train_tokens": prepared.train_tokens,
        "val_tokens": prepared.val_tokens,
        "train_chars": prepared.train_chars,
        "val_chars": prepared.val_chars,
        "chars_per_token": chars_per_token(prepared),
        "vocab_size": prepared.vocab_size,
        "token_bytes": prepared.token_bytes,
        "seconds": prepared.seconds,
        "megabytes_per_second": megabytes_per_second(prepared),
    })
}

fn table(prepared: &Prepared) -> String {
    let (train, val) = (prepared.train_tokens, prepared.val_tokens);
    let (files, documents) = (prepared.files as usize, prepared.documents as usize);
    let speed = megabytes_per_second(prepared);
    [
        ("tokens", format!("{} for training, {} for validation", format::grouped(train), format::grouped(val))),
        ("vocabulary", format!("{}, {} bytes each", format::grouped(prepared.vocab_size as u64), prepared.token_bytes)),
        ("chars per token", format!("{:.3}", chars_per_token(prepared))),
        (
            "text",
            format!(
                "{} in {} of {}",
                format::decimal_bytes(prepared.text_bytes),
                format::plural(documents, "document"),
                format::plural(files, "file")
            ),
        ),
        ("time", format!("{:.1} s, {speed:.1} MB/s", prepared.seconds)),
    ]
    .map(|(name, value)| format!("{name:<17}{value}\n"))
    .concat()
}
