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
    dataset::Prepared,
    name_only_in_val, oddities,
    tokenizer::{Source, Tokenizer},
    tokens::Tokens,
};
use crate::{
    base::{
        Context, Error, Exit, Result,
        clock::Millis,
        files::{self, Lock},
        lease,
        progress::Progress,
        wait::{self, Wait},
    },
    spec::config::{DataConfig, TokenizerKind},
};

/// The version of the format and of the rules that tokens follow from; part of the key.
const FORMAT: u32 = 1;

/// The digits of a folder's name.
const KEY: usize = 32;

/// Up to how many bytes tokens are hashed whenever they are used.
const SMALL: u64 = 256 << 20;

/// How much text is tokenized at a time, in bytes, where the tokenizer lets a text be cut.
const PIECE: usize = 1 << 20;

/// `info.json`.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// Bytes per token: 2 or 4.
    token_bytes: u64,
    /// What a token is.
    tokenizer: TokenizerKind,
    /// What the tokenizer is restored from.
    alphabet: Option<String>,
    /// What is known of the corpus.
    info: CorpusInfo,
    /// blake3 of the files of tokens, in hex. Older versions did not keep them.
    #[serde(default)]
    blake3: Option<[String; 2]>,
}

impl Stored {
    fn prepared(self, folder: &Path, source: Source) -> Result<Prepared> {
        let Self { token_bytes, alphabet, info, blake3: hashes, .. } = self;
        let [train, val] = ["train.bin", "val.bin"].map(|name| Tokens::map(&folder.join(name), token_bytes));
        Ok(Prepared { tokens: [train?, val?], info, source, alphabet, hashes })
    }

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
) -> Result<Prepared> {
    let corpus = corpus::of(config)?;
    let source = source.map_or_else(|| Source::of(config), Ok)?;
    let key = corpus.key()?;
    let (folder, lock) = places(config, &key, &source.key(), cache);
    let mut stored = match sound(&folder)? {
        Some(stored) => stored,
        None => {
            corpus.fetch(is_asked)?;
            let what = format!("tokenizes the corpus {}", corpus.name());
            let lock = Wait { what: &what, patience: 2 * lease::period(), is_asked }.take(&lock)?;
            match sound(&folder)? {
                Some(stored) => stored,
                None => make(&*corpus, &key, config, &source, &folder, lock.as_ref())?,
            }
        }
    };
    stored.info.name = corpus.name(); // two paths may have one text
    stored.info.notes.extend(corpus.notes());
    stored.prepared(&folder, source)
}

/// A folder of the cache, as those see it who look after data.
pub struct Kept {
    folder: PathBuf,
    /// `None` where it is not whole; an error where that cannot be told.
    stored: Result<Option<Stored>>,
}

/// What lies in the cache.
///
/// # Errors
/// [`Exit::Store`] where it cannot be listed.
pub fn all(cache: &Path) -> Result<Vec<Kept>> {
    let tokens = cache.join("tokens");
    let names = files::names(&tokens)?.into_iter();
    let named = names.filter(|name| !name.as_encoded_bytes().starts_with(b"."));
    let folders = named.map(|name| tokens.join(name)).filter(|path| path.is_dir());
    let mut kept: Vec<Kept> = folders.map(|folder| Kept { stored: load(&folder), folder }).collect();
    kept.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(kept)
}

impl Kept {
    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is known of its corpus, and its tokenizer; `None` where it is not whole, or [unreadable](Self::unreadable).
    pub fn info(&self) -> Option<(&CorpusInfo, TokenizerKind)> {
        self.whole().map(|stored| (&stored.info, stored.tokenizer))
    }

    /// Why it cannot be told what it holds, where it cannot: somebody may need it all the same.
    pub fn unreadable(&self) -> Option<&Error> {
        self.stored.as_ref().err()
    }

    fn whole(&self) -> Option<&Stored> {
        self.stored.as_ref().ok()?.as_ref()
    }

    /// The tokens; as numbers, where the file of their tokenizer is not known. `None` where it is not whole.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be read.
    pub fn prepared(self) -> Result<Option<Prepared>> {
        let Some(stored) = self.stored? else { return Ok(None) };
        let source = match (stored.tokenizer, &stored.alphabet) {
            (TokenizerKind::Char, Some(alphabet)) => Source::Alphabet(alphabet.clone()),
            (TokenizerKind::Byte, _) => Source::Byte,
            (TokenizerKind::Gpt2, _) => Source::Gpt2,
            (TokenizerKind::Char | TokenizerKind::File | TokenizerKind::Ids, _) => {
                Source::Numbers(stored.info.vocab_size)
            }
        };
        stored.prepared(&self.folder, source).map(Some)
    }

    /// What is wrong with it, found by reading all of it.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be read.
    pub fn faults(&self) -> Result<Vec<String>> {
        let stored = match &self.stored {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(vec!["its files are not all there, or not as long as they were".into()]),
            Err(error) => return Ok(vec![error.to_string()]),
        };
        let Some(hashes) = &stored.blake3 else { return Ok(Vec::new()) };
        let mut faults = Vec::new();
        for ((name, _), expected) in stored.sizes().into_iter().zip(hashes) {
            if files::hash(&self.folder.join(name))? != *expected {
                faults.push(format!("{name} is not what was written"));
            }
        }
        Ok(faults)
    }

    /// Removes it, unless somebody is making or removing it now: then `false`. Who has it open reads on.
    ///
    /// # Errors
    /// [`Exit::Store`] where it cannot be removed.
    pub fn remove(&self) -> Result<bool> {
        let path = lock_of(&self.folder);
        let Some(_alone) = Lock::try_take(&path)? else { return Ok(false) };
        let removed = files::remove(&self.folder);
        // Only now, while it is ours: who waits for it finds that it does not stand, and makes another.
        let both = removed.and(files::remove(&path));
        both.doing(Exit::Store, || format!("removing the cached tokens {}", self.folder.display()))?;
        Ok(true)
    }

    /// Whether its files can be told from others of their length.
    pub fn has_hashes(&self) -> bool {
        self.whole().is_some_and(|stored| stored.blake3.is_some())
    }
}

/// What of making tokens was left aside at least `age` ms ago, and is not being made now.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told.
pub fn left_aside(cache: &Path, age: Millis) -> Result<Vec<PathBuf>> {
    let tokens = cache.join("tokens");
    let mut left = Vec::new();
    for path in files::left_aside(&tokens, age) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key: String = name.trim_start_matches(files::ASIDE).chars().take(KEY).collect();
        if !Lock::is_held(&lock_of(&tokens.join(key)))? {
            left.push(path);
        }
    }
    Ok(left)
}

/// Shows those who wait that the work goes on. Where it cannot be shown, they do it as well.
fn stir(lock: Option<&Lock>) {
    let _ = lock.map(Lock::touch);
}

/// The folder for a corpus and a tokenizer of those keys, and its lock.
fn places(config: &DataConfig, corpus: &str, tokenizer: &str, cache: &Path) -> (PathBuf, PathBuf) {
    let fraction = config.val_fraction;
    let all = format!("format {FORMAT}\ncorpus {corpus}\ntokenizer {tokenizer}\nval_fraction {fraction}");
    let folder = cache.join("tokens").join(&blake3::hash(all.as_bytes()).to_hex()[..KEY]);
    let lock = lock_of(&folder);
    (folder, lock)
}

/// The lock of whoever makes a folder.
fn lock_of(folder: &Path) -> PathBuf {
    folder.with_extension("lock")
}

/// What stands in a folder; `None` where it is not whole, as one is whose `info.json` is no JSON of this format.
///
/// # Errors
/// [`Exit::Store`] where that cannot be told: it cannot be read, or another version of `exp` wrote it.
fn load(folder: &Path) -> Result<Option<Stored>> {
    let path = folder.join("info.json");
    let doing = || format!("reading {}", path.display());
    let text = match fs::read(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.doing(Exit::Store, doing)?,
    };
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(&text) else { return Ok(None) };
    if let Some(format) = json["format"].as_u64().filter(|format| *format != u64::from(FORMAT)) {
        let why = format!("its format is {format}, and this version of exp knows format {FORMAT}");
        return Err(Error::new(Exit::Store, doing(), why).hint("the version of exp that wrote it can use it"));
    }
    let Ok(stored) = serde_json::from_value::<Stored>(json) else { return Ok(None) };
    for (name, bytes) in stored.sizes() {
        let file = folder.join(name);
        match fs::metadata(&file) {
            Ok(there) if there.len() == bytes => {}
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(e).doing(Exit::Store, || format!("looking at {}", file.display()));
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(stored))
}

/// The same, where its files are what was written as well. Of large ones only the lengths are looked at: `exp data verify`
/// reads those.
fn sound(folder: &Path) -> Result<Option<Stored>> {
    let Some(stored) = load(folder)? else { return Ok(None) };
    let bytes: u64 = stored.sizes().iter().map(|(_, bytes)| bytes).sum();
    if let Some(hashes) = stored.blake3.as_ref().filter(|_| bytes <= SMALL) {
        for ((name, _), expected) in stored.sizes().into_iter().zip(hashes) {
            if files::hash(&folder.join(name))? != *expected {
                wait::say(&format!("{} is not what was written: it is made again", folder.display()));
                return Ok(None);
            }
        }
    }
    Ok(Some(stored))
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
    let blake3 = Some([files::hash(&aside.join("train.bin"))?, files::hash(&aside.join("val.bin"))?]);
    let stored = Stored { format: FORMAT, token_bytes, tokenizer, alphabet, info, blake3 };
    files::write_json(&aside.join("info.json"), &stored)?;
    put_in_place(aside, folder)?;
    Ok(stored)
}

/// Gives a whole folder its name, unless somebody else made the same meanwhile.
fn put_in_place(aside: &Path, folder: &Path) -> Result<()> {
    if sound(folder)?.is_some() {
        return Ok(());
    }
    let put = || {
        files::sweep_away(folder)?; // a damaged one
        fs::rename(aside, folder)
    };
    match put() {
        Err(_) if load(folder)?.is_some() => Ok(()),
        put => put
            .and_then(|()| files::sync_folder(files::folder_of(folder)))
            .doing(Exit::Store, || format!("writing the token cache {}", folder.display())),
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
        let rest = &text[end.text..];
        let piece = &rest[..tokenizer.cut(rest, PIECE)];
        end.text += piece.len();
        let tokens = tokenizer.encode(piece)?;
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
        notes: name_only_in_val(&only_in_val(text, val_from)).into_iter().chain(oddities::of(text)).collect(),
    }
}

/// The characters that the text has from `val_from` on but not before.
fn only_in_val(text: &str, val_from: usize) -> BTreeSet<char> {
    let (train, val) = text.split_at(val_from);
    let mut known = vec![false; char::MAX as usize + 1];
    train.chars().for_each(|c| known[c as usize] = true);
    val.chars().filter(|&c| !known[c as usize]).collect()
}
