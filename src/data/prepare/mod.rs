//! Texts become a folder of tokens: `train.bin`, `val.bin` and `meta.json`, which `corpus: tokens` and nanoGPT read.
//!
//! ```text
//! input      files and folders ► the bytes of their texts, decompressed
//! documents  ► documents: a text, or a line of JSON
//! pieces     ► pieces of about 1 MiB, cut where tokens do not change
//! pass       reads in one thread, works in many, hands over in order
//! work       what is done in a pass: characters are collected, texts tokenized, the split is found
//! state      what is known of the work between two commands, and the folder that is made
//! ```
//!
//! Nothing is ever held whole but a JSON line, so memory is bounded whatever there is to read. The bytes that come out
//! follow from the texts and the options alone: never from threads, nor from where the work was interrupted or killed.

mod documents;
mod input;
mod pass;
mod pieces;
mod state;
mod work;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

pub use self::pieces::Separator;
use self::{
    input::{Inputs, is_lines},
    state::{Job, Out, Phase, Record, State},
    work::Work,
};
use crate::{
    base::{Error, Exit, Result, lease, wait::Wait},
    data::tokenizer::{GPT2_EOT, Source},
};

/// What is wanted.
pub struct Request {
    /// Files, and folders of files, in the order of their texts.
    pub paths: Vec<PathBuf>,
    /// The folder to make.
    pub out: PathBuf,
    /// What tokens are.
    pub source: Source,
    /// The field of JSON lines that has the text.
    pub field: Option<String>,
    /// The share of tokens, at the end, that validates.
    pub val_fraction: f64,
    /// What stands between documents; where nothing is said, GPT-2's end of a text, and a line's end for all others.
    pub separator: Option<Separator>,
    /// The token of [`Source::File`] that is put between documents.
    pub eot: Option<String>,
    /// Threads that tokenize.
    pub threads: usize,
    /// How often what is done is made durable.
    pub save_every: Duration,
    /// Whether a folder may be written over.
    pub force: bool,
}

/// Who is asked and told meanwhile.
pub struct Hooks<'a> {
    /// Whether somebody asks to stop.
    pub is_asked: &'a dyn Fn() -> bool,
    /// Hears what a person should know.
    pub say: &'a dyn Fn(&str),
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Files that were read.
    pub files: u64,
    /// Their bytes.
    pub input_bytes: u64,
    /// Documents with text.
    pub documents: u64,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// Tokens of `train.bin`.
    pub train_tokens: u64,
    /// Tokens of `val.bin`.
    pub val_tokens: u64,
    /// Characters that the tokens of `train.bin` stand for.
    pub train_chars: u64,
    /// Characters that the tokens of `val.bin` stand for.
    pub val_chars: u64,
    /// Distinct tokens of the tokenizer.
    pub vocab_size: usize,
    /// Bytes of a token.
    pub token_bytes: u64,
    /// How long it took, all commands together.
    pub seconds: f64,
}

/// How the work ended.
pub enum Outcome {
    /// The folder is whole.
    Done(Prepared),
    /// It was whole before, made of the same.
    WasDone(Prepared),
    /// Somebody asked to stop; the same request goes on.
    Interrupted,
}

/// Makes a folder of tokens, or goes on with one.
///
/// # Errors
/// [`Exit::Usage`] where the request makes no sense or the folder holds something else, [`Exit::Spec`] where a text or the
/// tokenizer's file is at fault, [`Exit::Store`] where the folder cannot be written. What was done until then is kept.
pub fn run(request: &Request, hooks: &Hooks) -> Result<Outcome> {
    let out = Out(request.out.clone());
    may_write(&out, request.force)?;
    if let Source::File(file) = &request.source {
        file.parse()?; // before anything is written
    }
    let separation = request.separation()?;
    let inputs = Inputs::find(&request.paths, &request.out)?;
    check_lines(&inputs.files, request.field.as_deref())?;
    let lock = out.lock();
    let wait = Wait { what: "prepares tokens", patience: 2 * lease::period(), is_asked: hooks.is_asked };
    let Some(lock) = (match wait.take(&lock) {
        Err(e) if e.exit == Exit::Interrupted => return Ok(Outcome::Interrupted),
        taken => taken?,
    }) else {
        return Err(Error::new(Exit::Store, format!("waiting for {}", wait.holder(&lock)), "it does not get on"));
    };

    let (field, key) = (request.field.clone(), request.source.key());
    let job = Job::new(&inputs.files, key, field, separation, request.val_fraction)?;
    if out.is_whole()? && !request.force {
        return match out.record()? {
            Some(Record { job: done, prepared }) if done == job => {
                was_done(&out, &job, &prepared, hooks).map(|()| Outcome::WasDone(prepared))
            }
            record => Err(is_other(&out, record.and_then(|record| job.difference(&record.job)))),
        };
    }
    inputs.notes.iter().for_each(|note| (hooks.say)(note));
    let state = begin_or_go_on(&out, &job, request, hooks)?;
    let mut work = Work::new(request, hooks, (&job, inputs.files.as_slice()), &out, state, &lock)?;
    match work.run()? {
        Some(prepared) => Ok(Outcome::Done(prepared)),
        None => Ok(Outcome::Interrupted),
    }
}

impl Request {
    /// What stands between documents, and its token.
    fn separation(&self) -> Result<(Separator, Option<u32>)> {
        let refused = |why: String| Error::new(Exit::Usage, "preparing tokens", why);
        let usual = match (&self.source, &self.eot) {
            (Source::Gpt2, _) | (_, Some(_)) => Separator::Eot,
            _ => Separator::Newline,
        };
        let separator = self.separator.unwrap_or(usual);
        if let Some(token) = &self.eot {
            let Source::File(file) = &self.source else {
                return Err(refused("--eot is for the tokenizer `file`".into()));
            };
            if separator != Separator::Eot {
                return Err(refused("--eot names what stands between documents, and --separator another thing".into()));
            }
            let unknown = || {
                refused(format!("the tokenizer has no token {token:?}"))
                    .hint("`added_tokens` in the tokenizer's file are those that no text becomes")
            };
            return Ok((separator, Some(file.parse()?.id(token).ok_or_else(unknown)?)));
        }
        match &self.source {
            _ if separator != Separator::Eot => Ok((separator, None)),
            Source::Gpt2 => Ok((separator, Some(GPT2_EOT))),
            Source::File(_) => Err(refused("which token ends a text is not known of the tokenizer `file`".into())
                .hint("--eot TOKEN names it, as in --eot '<|endoftext|>'")),
            source => {
                let kind = source.kind().word();
                Err(refused(format!("the tokenizer `{kind}` has no token that ends a text"))
                    .hint("--separator newline and --separator none go with it"))
            }
        }
    }
}

/// Refuses a folder that holds what this has no use for.
fn may_write(out: &Out, force: bool) -> Result<()> {
    let doing = || format!("preparing tokens into {}", out.0.display());
    if out.0.exists() && !out.0.is_dir() {
        return Err(Error::new(Exit::Usage, doing(), "it is no folder"));
    }
    match out.stranger(false)? {
        Some(name) if !force => {
            Err(Error::new(Exit::Usage, doing(), format!("the folder holds something else: {name}"))
                .hint("name another with --out; --force writes beside it"))
        }
        _ => Ok(()),
    }
}

/// The folder is whole and stays so.
fn is_other(out: &Out, difference: Option<String>) -> Error {
    let why = match difference {
        Some(difference) => format!("it holds tokens of another text or other options: {difference}"),
        None => "it holds tokens that `exp data prepare` did not make".into(),
    };
    Error::new(Exit::Usage, format!("preparing tokens into {}", out.0.display()), why)
        .hint("name another folder with --out, or write over it with --force")
}

/// The folder is whole, and was made of the same. What lies aside may be the rest of that, or what `--force` began since.
fn was_done(out: &Out, job: &Job, prepared: &Prepared, hooks: &Hooks) -> Result<()> {
    if !out.has(prepared)? {
        return Err(is_other(out, Some("train.bin or val.bin is not as long as it was made".into())));
    }
    let kept = match out.begun() {
        Ok(begun) => begun.and_then(|begun| job.difference(&begun)),
        Err(unreadable) => Some(unreadable.to_string()),
    };
    match kept {
        None => out.clear(),
        Some(difference) => {
            let aside = out.aside();
            let what = format!("{} holds work that --force began and that is not done", aside.display());
            (hooks.say)(&format!("{what}; it is kept for the command that began it: {difference}"));
            Ok(())
        }
    }
}

/// JSON lines need a field, and a field needs JSON lines.
fn check_lines(files: &[PathBuf], field: Option<&str>) -> Result<()> {
    let lines = files.iter().find(|path| is_lines(path));
    let (path, why, hint) = match (lines, field) {
        (Some(path), None) => (
            path.as_path(),
            "its lines are JSON, and which field of them has the text is not known",
            "--field NAME names it, as in --field text",
        ),
        (None, Some(_)) => (
            Path::new("JSON lines"),
            "--field is for them, and no file's name says that it has some",
            "such names end with .jsonl or .ndjson, and .gz or .zst behind it",
        ),
        _ => return Ok(()),
    };
    Err(Error::new(Exit::Usage, format!("reading {}", path.display()), why).hint(hint))
}

/// Where the work begins: where it was interrupted, if it is the same work.
fn begin_or_go_on(out: &Out, job: &Job, request: &Request, hooks: &Hooks) -> Result<State> {
    let earlier = out.begun().and_then(|earlier| match earlier.map(|earlier| job.difference(&earlier)) {
        None => Ok((None, None)),
        Some(None) => Ok((out.state_of(job)?, None)),
        Some(difference) => Ok((None, difference)),
    });
    let difference = match earlier {
        Ok((Some(state), _)) => {
            let of: u64 = job.inputs().iter().map(|input| input.bytes).sum();
            let percent = 100.0 * state.read as f64 / of.max(1) as f64;
            (hooks.say)(&match state.phase {
                Phase::Alphabet => "going on where it was interrupted: collecting characters".into(),
                Phase::Tokens => format!("going on where it was interrupted, at {percent:.0} %"),
                Phase::Split => "going on where it was interrupted: all is tokenized".into(),
            });
            return Ok(state);
        }
        Ok((None, difference)) => difference,
        // What no one can go on with; what only cannot be read is another matter.
        Err(e) if request.force && e.io.is_none() => Some(e.to_string()),
        Err(e) => return Err(e),
    };
    if !out.is_whole()? && !request.force && out.stranger(true)?.is_some() {
        return Err(is_other(out, difference));
    }
    if let Some(difference) = difference {
        (hooks.say)(&format!("what was begun here is begun anew: {difference}"));
    }
    out.begin(job)?;
    let phase = if matches!(request.source, Source::Char) { Phase::Alphabet } else { Phase::Tokens };
    Ok(State::new(phase))
}
