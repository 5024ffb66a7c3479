//! The token cache: `tokens/<key>/` under the cache folder.
//!
//! ```text
//! tokens/<key>/train.bin     token ids, little-endian; u16 where the vocabulary fits, else u32: nanoGPT's format
//! tokens/<key>/val.bin       the same
//! tokens/<key>/info.json     what is known of them, sizes included
//! tokens/.aside-<key>        the folder until it is whole
//! tokens/<key>.lock          held by whoever makes the folder
//! ```
//!
//! The key is a hash of all that the tokens follow from. A folder is made aside and renamed when it is whole; one whose
//! files have not the sizes that its `info.json` tells is made again. So the lock only saves work: who has waited for long
//! for one that does not get on makes the same tokens again, and whoever comes second leaves the first's.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{
    CorpusInfo,
    corpus::{self, Corpus, Text},
    oddities,
    tokenizer::{Source, Tokenizer},
};
use crate::{
    base::{
        Context, Error, Exit, Result,
        files::{self, Lock},
        lease,
        progress::Progress,
        wait::Wait,
    },
    spec::config::{DataConfig, TokenizerKind},
};

/// The version of the format and of the rules that tokens follow from; part of the key.
const FORMAT: u32 = 1;

/// How much text is tokenized at a time, in bytes, where the tokenizer lets a text be cut.
const PIECE: usize = 1 << 20;

/// A whole folder of the cache.
pub struct Cached {
    /// Where it lies.
    pub folder: PathBuf,
    /// Its `info.json`.
    pub stored: Stored,
    /// What its tokenizer is restored from, beside the alphabet.
    pub source: Source,
}

/// `info.json`.
#[derive(Serialize, Deserialize)]
pub struct Stored {
    format: u32,
    /// Bytes per token: 2 or 4.
    pub token_bytes: u64,
    /// What a token is.
    pub tokenizer: TokenizerKind,
    /// What the tokenizer is restored from.
    pub alphabet: Option<String>,
    /// What is known of the corpus.
    pub info: CorpusInfo,
}

impl Stored {
    /// The files of tokens and their sizes in bytes.
    fn sizes(&self) -> [(&'static str, u64); 2] {
        [("train.bin", self.info.train_tokens * self.token_bytes), ("val.bin", self.info.val_tokens * self.token_bytes)]
    }
}

/// The cached tokens of what a config names; made where they are not there or damaged. `source` stands for the tokenizer
/// that the config names.
pub fn find_or_make(
    config: &DataConfig,
    source: Option<Source>,
    cache: &Path,
    is_asked: &dyn Fn() -> bool,
) -> Result<Cached> {
    let corpus = corpus::of(config)?;
    let source = source.map_or_else(|| Source::of(config), Ok)?;
    let key = corpus.key()?;
    let (folder, lock) = places(config, &key, &source.key(), cache);
    let mut stored = match load(&folder) {
        Some(stored) => stored,
        None => {
            corpus.fetch(is_asked)?;
            let what = format!("tokenizes the corpus {}", corpus.name());
            let lock = Wait { what: &what, patience: 2 * lease::period(), is_asked }.take(&lock)?;
            match load(&folder) {
                Some(stored) => stored,
                None => make(&*corpus, &key, config, &source, &folder, lock.as_ref())?,
            }
        }
    };
    stored.info.name = corpus.name(); // two paths may have one text
    stored.info.notes.extend(corpus.notes());
    Ok(Cached { folder, stored, source })
}

/// Shows those who wait that the work goes on. Where it cannot be shown, they do it as well.
fn stir(lock: Option<&Lock>) {
    let _ = lock.map(Lock::touch);
}

/// The folder for a corpus and a tokenizer of those keys, and its lock.
fn places(config: &DataConfig, corpus: &str, tokenizer: &str, cache: &Path) -> (PathBuf, PathBuf) {
    let fraction = config.val_fraction;
    let all = format!("format {FORMAT}\ncorpus {corpus}\ntokenizer {tokenizer}\nval_fraction {fraction}");
    let key = &blake3::hash(all.as_bytes()).to_hex()[..32];
    let tokens = cache.join("tokens");
    (tokens.join(key), tokens.join(format!("{key}.lock")))
}

/// What stands in a folder, where it is whole.
fn load(folder: &Path) -> Option<Stored> {
    let stored: Stored = files::read_json(&folder.join("info.json")).ok()?;
    let whole = |(name, size)| fs::metadata(folder.join(name)).is_ok_and(|file| file.len() == size);
    (stored.format == FORMAT && stored.sizes().into_iter().all(whole)).then_some(stored)
}

/// A folder that is removed unless it gets another name. Who has the lock clears what a killed one left there.
fn aside(folder: &Path, has_lock: bool) -> io::Result<TempDir> {
    let mut name = OsString::from(files::ASIDE);
    name.push(folder.file_name().unwrap_or_default());
    let tokens = files::folder_of(folder);
    files::sweep(tokens, files::DAY);
    let left_over = tokens.join(&name);
    if has_lock && left_over.exists() {
        fs::remove_dir_all(left_over)?;
    }
    let all_may_read = fs::Permissions::from_mode(0o755); // temporary folders are private by default
    let mut builder = tempfile::Builder::new();
    builder.prefix(&name).rand_bytes(if has_lock { 0 } else { 8 }).permissions(all_may_read);
    builder.tempdir_in(tokens)
}

/// Tokenizes a corpus into a folder; those who wait for the lock see it get on.
fn make(
    corpus: &dyn Corpus,
    key: &str,
    config: &DataConfig,
    source: &Source,
    folder: &Path,
    lock: Option<&Lock>,
) -> Result<Stored> {
    let text = corpus.read()?;
    if corpus.key()? != key {
        return Err(Error::new(Exit::Spec, format!("reading {}", corpus.name()), "it changed while it was read"));
    }
    let tokenizer = source.build(&text.text)?;
    let token_bytes = if tokenizer.vocab_size() <= 1 << 16 { 2 } else { 4 };
    let doing = || format!("writing the token cache {}", folder.display());
    stir(lock);
    let aside = aside(folder, lock.is_some()).doing(Exit::Store, doing)?;
    let aside = aside.path();
    let progress = Progress::of(&format!("tokenizing {}", corpus.name()));
    let ends = write_tokens(&text.text, &*tokenizer, token_bytes, &aside.join("train.bin"), lock, &progress)?;
    drop(progress);
    let total = ends.last().map_or(0, |end| end.tokens);
    let train_tokens = (total as f64 * (1.0 - config.val_fraction)) as u64; // nanoGPT's rounding
    move_tail(aside, train_tokens * token_bytes).doing(Exit::Store, doing)?;
    let val_from = text_offset(&text.text, &*tokenizer, &ends, train_tokens)?;
    let hash = source.identify(blake3::hash(text.text.as_bytes()).to_hex().to_string());
    let info = describe(corpus, hash, &text, &*tokenizer, (train_tokens, total - train_tokens), val_from);
    let (tokenizer, alphabet) = (source.kind(), tokenizer.alphabet());
    let stored = Stored { format: FORMAT, token_bytes, tokenizer, alphabet, info };
    files::write_json(&aside.join("info.json"), &stored)?;
    put_in_place(aside, folder).doing(Exit::Store, doing)?;
    Ok(stored)
}

/// Gives a whole folder its name, unless somebody else made the same meanwhile.
fn put_in_place(aside: &Path, folder: &Path) -> io::Result<()> {
    if load(folder).is_some() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?; // a damaged one
    }
    match fs::rename(aside, folder) {
        Err(_) if load(folder).is_some() => Ok(()),
        renamed => renamed.and_then(|()| files::sync_folder(files::folder_of(folder))),
    }
}

/// Where a piece of text ends: in bytes of the text, and in tokens.
#[derive(Clone, Copy, Default)]
struct End {
    text: usize,
    tokens: u64,
}

/// Writes the tokens of a text, piece by piece, and tells where the pieces ended.
fn write_tokens(
    text: &str,
    tokenizer: &dyn Tokenizer,
    token_bytes: u64,
    path: &Path,
    lock: Option<&Lock>,
    progress: &Progress,
) -> Result<Vec<End>> {
    let doing = || format!("writing {}", path.display());
    let mut file = BufWriter::new(File::create(path).doing(Exit::Store, doing)?);
    let (mut end, mut ends) = (End::default(), Vec::new());
    while end.text < text.len() {
        stir(lock);
        progress.at(end.text as u64, text.len() as u64);
        let from = end.text;
        end.text = tokenizer.cut(text, from + PIECE);
        let tokens = tokenizer.encode(&text[from..end.text])?;
        end.tokens += tokens.len() as u64;
        ends.push(end);
        let write = |&token: &u32| file.write_all(&token.to_le_bytes()[..token_bytes as usize]);
        tokens.iter().try_for_each(write).doing(Exit::Store, doing)?;
    }
    file.flush().doing(Exit::Store, doing)?;
    Ok(ends)
}

/// Moves what follows the first `keep` bytes of `train.bin` to `val.bin`, and makes both durable.
fn move_tail(folder: &Path, keep: u64) -> std::io::Result<()> {
    let mut train = File::options().read(true).write(true).open(folder.join("train.bin"))?;
    let mut val = File::create(folder.join("val.bin"))?;
    train.seek(SeekFrom::Start(keep))?;
    std::io::copy(&mut train, &mut val)?;
    train.set_len(keep)?;
    train.sync_all()?;
    val.sync_all()
}

/// Where in the text a token begins, in bytes; the end of the character where it begins within one.
fn text_offset(text: &str, tokenizer: &dyn Tokenizer, ends: &[End], token: u64) -> Result<usize> {
    let piece = ends.partition_point(|end| end.tokens < token);
    let start = piece.checked_sub(1).map_or(End::default(), |before| ends[before]);
    let end = ends.get(piece).map_or(text.len(), |end| end.text);
    let within = tokenizer.prefix_len(&text[start.text..end], (token - start.tokens) as usize)?;
    Ok(text.ceil_char_boundary(start.text + within))
}

/// What is known of a corpus whose validation split begins at byte `val_from`.
fn describe(
    corpus: &dyn Corpus,
    hash: String,
    Text { text, costs }: &Text,
    tokenizer: &dyn Tokenizer,
    (train_tokens, val_tokens): (u64, u64),
    val_from: usize,
) -> CorpusInfo {
    let val_chars = text[val_from..].chars().count();
    CorpusInfo {
        name: corpus.name(),
        hash,
        chars: text.chars().count() as u64,
        vocab_size: tokenizer.vocab_size(),
        train_tokens,
        val_tokens,
        chars_per_token: val_chars as f64 / val_tokens.max(1) as f64,
        bits_per_char: costs.as_ref().map(|costs| costs.since(val_from) / val_chars.max(1) as f64),
        notes: only_in_val(text, val_from).into_iter().chain(oddities::of(text)).collect(),
    }
}

/// Names the characters that the text has from `val_from` on but not before.
fn only_in_val(text: &str, val_from: usize) -> Option<String> {
    let (train, val) = text.split_at(val_from);
    let mut known = vec![false; char::MAX as usize + 1];
    train.chars().for_each(|c| known[c as usize] = true);
    let new: BTreeSet<char> = val.chars().filter(|&c| !known[c as usize]).collect();
    let shown: Vec<String> = new.iter().take(10).map(|c| format!("{c:?}")).collect();
    let more = if new.len() > shown.len() { ", ..." } else { "" };
    match new.len() {
        0 => None,
        1 => Some(format!("1 character occurs only in the validation split: {}", shown[0])),
        n => Some(format!("{n} characters occur only in the validation split: {}{more}", shown.join(", "))),
    }
}
