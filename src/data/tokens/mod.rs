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
mod meta;
mod scan;
mod seen;

use std::path::{Path, PathBuf};

use self::seen::Moment;
pub use self::{
    file::Tokens,
    meta::{META, Meta},
};
use super::{
    CorpusInfo,
    dataset::Prepared,
    name_only_in_val,
    tokenizer::{Source, Tokenizer, TokenizerFile},
};
use crate::{
    base::{Error, Exit, Result, progress::Progress},
    spec::config::{DataConfig, TokenizerKind},
};

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
    let meaning = Meaning::of(&folder, config)?;
    let files = ["train.bin", "val.bin"].map(|name| folder.join(name));
    both_are_there(&folder, &files)?;
    let tokens = [Tokens::map(&files[0], meaning.token_bytes)?, Tokens::map(&files[1], meaning.token_bytes)?];
    let key = format!("{} {} {}", meaning.source.key(), meaning.vocab_size, folder.display());
    let info = match seen::find(cache, &key, &files) {
        Some(info) => info,
        None => {
            let moment = Moment::now(&files);
            let info = meaning.describe(&folder, &tokens, is_asked)?;
            moment.map_or(Ok(()), |moment| seen::keep(cache, &key, &files, moment, &info))?;
            info
        }
    };
    let source = match meaning.source {
        Source::Ids => Source::Numbers(info.vocab_size),
        source => source,
    };
    wanted.map_or(Ok(()), |wanted| agree(&folder, &source, &wanted))?;
    let alphabet = source.build("")?.alphabet();
    Ok(Prepared { files, token_bytes: meaning.token_bytes, info, source, alphabet })
}

fn both_are_there(folder: &Path, files: &[PathBuf; 2]) -> Result<()> {
    let why = match files.each_ref().map(|file| file.is_file()) {
        [true, true] => return Ok(()),
        [true, false] => "it has train.bin and no val.bin",
        [false, true] => "it has val.bin and no train.bin",
        [false, false] => "it has neither train.bin nor val.bin",
    };
    Err(Error::new(Exit::Spec, opening(folder), why).hint("`exp data prepare` makes both from texts"))
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
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        Err(e) => e.to_string(),
    };
    Err(Error::new(Exit::Spec, opening(&folder), why))
}

/// What the ids of a folder mean.
struct Meaning {
    vocab_size: usize,
    token_bytes: u64,
    source: Source,
    tokenizer: Box<dyn Tokenizer>,
    /// The file of the tokenizer, where the folder names one.
    tokenizer_file: Option<PathBuf>,
    /// Characters that the two files stand for, where the folder says so.
    chars: Option<[u64; 2]>,
    notes: Vec<String>,
}

impl Meaning {
    /// What the folder says, or else the config.
    fn of(folder: &Path, config: &DataConfig) -> Result<Self> {
        let refused = |why: String| Error::new(Exit::Spec, opening(folder), why);
        let asked = config.tokenizer;
        let Some(meta) = Meta::read(folder)? else {
            let source = match asked {
                TokenizerKind::Char => {
                    return Err(refused(
                        "nothing says what its tokens are: it has neither meta.json nor meta.pkl".into(),
                    )
                    .hint(
                        "`tokenizer: gpt2` is what nanoGPT's folders without one have; `ids` takes tokens for numbers",
                    ));
                }
                _ => Source::of(config)?,
            };
            let tokenizer = source.build("")?;
            let vocab_size = match source {
                Source::Ids => 1 << 16, // what two bytes hold: the highest that occurs is not known yet
                _ => tokenizer.vocab_size(),
            };
            let (tokenizer_file, chars, notes) = (None, None, Vec::new());
            return Ok(Self { vocab_size, token_bytes: 2, source, tokenizer, tokenizer_file, chars, notes });
        };
        let (mut tokenizer_file, mut notes) = (None, Vec::new());
        let source = match (meta.tokenizer, asked) {
            (Some(kind), TokenizerKind::Char) => kind,
            (Some(kind), asked) if kind == asked => kind,
            (Some(kind), asked) => {
                let (kind, asked) = (kind.word(), asked.word());
                return Err(refused(format!("its tokens are those of `{kind}`, and data.tokenizer is `{asked}`"))
                    .hint(format!("`tokenizer: {kind}`, or nothing: the folder says what its tokens are")));
            }
            (None, TokenizerKind::Char) => TokenizerKind::Ids,
            (None, asked) => asked,
        };
        let source = match (source, meta.alphabet) {
            (TokenizerKind::Char, Some(alphabet)) => Source::Alphabet(alphabet),
            (TokenizerKind::Char, None) => {
                return Err(refused(format!("{META} says that its tokens are characters, and not which: `alphabet`")));
            }
            (TokenizerKind::File, _) if meta.tokenizer.is_some() => {
                let path = folder.join(meta.tokenizer_file.as_deref().unwrap_or("tokenizer.json"));
                let source = Source::File(TokenizerFile::read(&path)?);
                tokenizer_file = Some(path);
                source
            }
            (TokenizerKind::Ids, _) => Source::Numbers(meta.vocab_size),
            (TokenizerKind::Byte | TokenizerKind::Gpt2 | TokenizerKind::File, _) => {
                Source::of(&DataConfig { tokenizer: source, ..config.clone() })?
            }
        };
        let tokenizer = source.build("").map_err(|e| e.within(opening(folder)))?;
        let (known, vocab_size) = (tokenizer.vocab_size(), meta.vocab_size);
        if known > vocab_size {
            let of = source.kind().word();
            return Err(refused(format!("it has a vocabulary of {vocab_size}, and `{of}` has {known} tokens")));
        }
        if known < vocab_size {
            notes.push(format!("its vocabulary has {vocab_size} ids, of which the tokenizer has a text for {known}"));
        }
        let chars = meta.train_chars.zip(meta.val_chars).map(|(train, val)| [train, val]);
        let token_bytes = meta.token_bytes.unwrap_or(2);
        Ok(Self { vocab_size, token_bytes, source, tokenizer, tokenizer_file, chars, notes })
    }

    /// Goes through the tokens.
    fn describe(&self, folder: &Path, tokens: &[Tokens; 2], is_asked: &dyn Fn() -> bool) -> Result<CorpusInfo> {
        let progress = Progress::of(&format!("reading {}", folder.display()));
        let [train_bytes, val_bytes] = [0, 1].map(|i| tokens[i].bytes().len() as u64);
        let of = train_bytes + val_bytes;
        let train = scan::scan(&tokens[0], self.vocab_size, &progress, (0, of), is_asked)?;
        let val = scan::scan(&tokens[1], self.vocab_size, &progress, (train_bytes, of), is_asked)?;
        let [train_chars, val_chars] = self.chars.unwrap_or_else(|| {
            [&train, &val].map(|scan| (0..).zip(&scan.counts).map(|(id, n)| n * self.tokenizer.chars_of(id)).sum())
        });
        let mut vocab_size = self.vocab_size;
        if let Source::Ids = self.source {
            let mut counts = train.counts.iter().zip(&val.counts);
            vocab_size = counts.rposition(|(a, b)| a + b > 0).map_or(1, |highest| highest + 1);
        }
        let (hashes, source) = (format!("train {}\nval {}", train.hash, val.hash), self.source.key());
        let all = format!("exp tokens, format {FORMAT}\n{hashes}\nvocab_size {vocab_size}\ntokenizer {source}\n");
        let mut notes = self.notes.clone();
        notes.extend(self.only_in_val(&train.counts, &val.counts));
        let val_tokens = tokens[1].len() as u64;
        Ok(CorpusInfo {
            name: folder.display().to_string(),
            hash: blake3::hash(all.as_bytes()).to_hex().to_string(),
            chars: train_chars + val_chars,
            vocab_size,
            train_tokens: tokens[0].len() as u64,
            val_tokens,
            chars_per_token: val_chars as f64 / val_tokens.max(1) as f64,
            bits_per_char: None,
            notes,
        })
    }

    /// Names the characters that only the validation split has. Of longer tokens there are always some.
    fn only_in_val(&self, train: &[u64], val: &[u64]) -> Option<String> {
        let Source::Alphabet(alphabet) = &self.source else { return None };
        let missing = alphabet.chars().zip(train.iter().zip(val)).filter(|(_, (train, val))| **train == 0 && **val > 0);
        name_only_in_val(&missing.map(|(c, _)| c).collect())
    }
}
