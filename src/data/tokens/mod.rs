//! Token ids that somebody has prepared: a folder with nanoGPT's `train.bin` and `val.bin`.
//!
//! ```text
//! train.bin, val.bin    ids, little-endian, two bytes each (four where meta.json says so)
//! meta.json, meta.pkl   what they mean, if it is there: [`meta`]
//! ```
//!
//! They are mapped where they lie and never copied. What is known of them, the hash that a run's id goes by among it, takes
//! going through all of them; it is kept in the cache for as long as size, times and inodes of the files stay the same.

mod file;
mod meaning;
mod meta;
mod scan;
mod seen;

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

pub use self::{
    file::Tokens,
    meta::{META, Meta},
    seen::{Seen, all as all_seen},
};
use self::{meaning::Meaning, seen::Moment};
use super::{dataset::Prepared, tokenizer::Source};
use crate::{
    base::{Error, Exit, Result},
    spec::config::DataConfig,
};

/// What a folder has while it is prepared.
pub const PREPARING: &str = ".aside-prepare";

/// The version of the rule by which a folder's hash follows from it.
const FORMAT: u32 = 1;

/// The tokens of a folder, and what is known of them. `wanted` is what its tokens have to mean, where that is not for the
/// folder to say.
///
/// # Errors
/// [`Exit::Spec`] where a file lacks, ends within a token or has an id beyond the vocabulary; where nothing says what
/// tokens mean, or two things do that disagree. [`Exit::Store`] where the cache cannot be written, [`Exit::Interrupted`]
/// where `is_asked` says that somebody asks to stop.
pub fn look_up(
    config: &DataConfig,
    wanted: Option<Source>,
    cache: &Path,
    is_asked: &dyn Fn() -> bool,
) -> Result<Prepared> {
    let folder = folder(config)?;
    let files = files(&folder)?;
    let meaning = Meaning::of(&folder, config)?;
    let moment = Moment::now(&files);
    let tokens = map(&files, meaning.token_bytes)?;
    let key = format!("{} {} {}", meaning.source.key(), meaning.vocab_size, folder.display());
    let (info, hashes) = match seen::find(cache, &key, &files) {
        Some(known) => known,
        None => {
            let known = meaning.describe(&folder, &tokens, is_asked)?;
            match moment.filter(|moment| moment.lasts(&files)) {
                Some(moment) => moment.keep(cache, &key, config, &known)?,
                None => return Err(Error::new(Exit::Spec, opening(&folder), "its files changed while they were read")),
            }
            known
        }
    };
    let source = match meaning.source {
        Source::Ids => Source::Numbers(info.vocab_size),
        source => source,
    };
    wanted.map_or(Ok(()), |wanted| agree(&folder, &source, &wanted))?;
    let alphabet = source.build("")?.alphabet();
    Ok(Prepared { tokens, info, source, alphabet, hashes: Some(hashes) })
}

/// The two files in memory. What is wrong with them is their owner's matter.
fn map([train, val]: &[PathBuf; 2], token_bytes: u64) -> Result<[Tokens; 2]> {
    let map = |file: &Path| Tokens::map(file, token_bytes).map_err(|error| Error { exit: Exit::Spec, ..error });
    Ok([map(train)?, map(val)?])
}

/// The two files of a folder.
fn files(folder: &Path) -> Result<[PathBuf; 2]> {
    let files = ["train.bin", "val.bin"].map(|name| folder.join(name));
    let [train, val] = files.each_ref().map(|file| is_file(file));
    let why = match [train?, val?] {
        [true, true] => return Ok(files),
        [true, false] => "it has train.bin and no val.bin",
        [false, true] => "it has val.bin and no train.bin",
        [false, false] if folder.join(PREPARING).exists() => {
            return Err(Error::new(Exit::Spec, opening(folder), "`exp data prepare` was interrupted there")
                .hint("the same command goes on"));
        }
        [false, false] => "it has neither train.bin nor val.bin",
    };
    Err(Error::new(Exit::Spec, opening(folder), why).hint("`exp data prepare` makes both from texts"))
}

/// Whether there is a file. What is there and no file, or cannot be looked at, is an error.
fn is_file(path: &Path) -> Result<bool> {
    let doing = || format!("opening the tokens {}", path.display());
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(Error::new(Exit::Spec, doing(), "it is no regular file")),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::new(Exit::Spec, doing(), e)),
    }
}

/// Whether tokens mean what they have to mean.
fn agree(folder: &Path, theirs: &Source, wanted: &Source) -> Result<()> {
    let is_same = match (theirs, wanted) {
        (Source::Numbers(theirs), Source::Numbers(wanted)) => theirs <= wanted,
        _ => theirs.key() == wanted.key(),
    };
    if is_same {
        return Ok(());
    }
    let why = match (theirs.kind().word(), wanted.kind().word()) {
        (theirs, wanted) if theirs == wanted => format!("its tokens are those of another tokenizer `{wanted}`"),
        (theirs, wanted) => format!("its tokens are those of `{theirs}`, and those of `{wanted}` are wanted"),
    };
    let hint = "a model reads only the tokens that it was trained on";
    Err(Error::new(Exit::Spec, opening(folder), why).hint(hint))
}

/// The config with the tokenizer that its folder names.
///
/// # Errors
/// As [`look_up`], as far as they can be found without going through the tokens.
pub fn resolved(config: &DataConfig) -> Result<DataConfig> {
    let folder = folder(config)?;
    files(&folder)?;
    let meaning = Meaning::of(&folder, config)?;
    let file = meaning.tokenizer_file.or_else(|| config.tokenizer_file.as_ref().map(PathBuf::from));
    Ok(DataConfig {
        tokenizer: meaning.source.kind(),
        tokenizer_file: file.map(|path| path.display().to_string()),
        ..config.clone()
    })
}

fn opening(folder: &Path) -> String {
    format!("opening the tokens in {}", folder.display())
}

fn folder(config: &DataConfig) -> Result<PathBuf> {
    let path = config.path.as_deref().ok_or_else(|| {
        Error::new(Exit::Spec, "opening the corpus tokens", "data.path is not set")
            .hint("name the folder of train.bin and val.bin with data.path")
    })?;
    let folder = PathBuf::from(path);
    let why = match folder.metadata() {
        Ok(found) if found.is_dir() => return Ok(folder),
        Ok(_) => "it is no folder; the corpus `tokens` is a folder with train.bin and val.bin".into(),
        Err(e) if e.kind() == ErrorKind::NotFound => "there is no such folder".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(Error::new(Exit::Spec, opening(&folder), why))
}
