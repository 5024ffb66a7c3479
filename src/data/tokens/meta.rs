//! What the numbers in a folder of tokens mean: `meta.json`, or nanoGPT's `meta.pkl`.
//!
//! ```text
//! vocab_size       one more than the highest id that may occur; all that has to stand there
//! tokenizer        char, byte, gpt2 or file; where it lacks, tokens are numbers and nothing more
//! alphabet         of char: the characters, the first of which has id 0
//! tokenizer_file   of file: a tokenizer.json, from the folder
//! token_bytes      2 (what lacks says 2) or 4
//! train_chars      characters that the tokens of train.bin stand for
//! val_chars        the same of val.bin
//! blake3           of train.bin and of val.bin, in hex; files that differ from it are refused
//! source           what they were made of, for people
//! itos             instead of an alphabet, as nanoGPT has it: the text of each id
//! ```
//!
//! nanoGPT's `meta.pkl` has `vocab_size` and `itos` of these.

use std::{collections::BTreeMap, fmt::Display, fs, io::ErrorKind, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    base::{Error, Exit, Result, files, pickle},
    spec::config::TokenizerKind,
};

/// The name of the file.
pub const META: &str = "meta.json";

/// What nanoGPT calls it.
const PICKLE: &str = "meta.pkl";

/// The largest file that is read, in bytes.
const BIGGEST: u64 = 64 << 20;

/// The largest vocabulary that is believed.
const LARGEST: usize = 1 << 24;

/// `meta.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// One more than the highest id that may occur.
    pub vocab_size: usize,
    /// What a token is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerKind>,
    /// The characters of `char`, in the order of their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
    /// The `tokenizer.json` of `file`, from the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_file: Option<String>,
    /// Bytes per token: 2 or 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_bytes: Option<u64>,
    /// Characters that the tokens of `train.bin` stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_chars: Option<u64>,
    /// The same of `val.bin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_chars: Option<u64>,
    /// blake3 of `train.bin` and of `val.bin`, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<[String; 2]>,
    /// What they were made of, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<String>,
}

/// What a file holds; `None` where there is none. One that cannot be read is not one that is not there, and what is no
/// regular file, or a very large one, might never end.
fn content(path: &Path) -> Result<Option<Vec<u8>>> {
    // The spec shows the reason alone, so it names the file.
    let refused = |why: &dyn Display| Error::new(Exit::Spec, "opening tokens", format!("{}: {why}", path.display()));
    match path.symlink_metadata() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|e| refused(&e))?,
    };
    let found = path.metadata().map_err(|e| refused(&e))?; // of a link's target
    if !found.is_file() {
        return Err(refused(&"it is no regular file"));
    }
    if found.len() > BIGGEST {
        return Err(refused(&format!("it has {} bytes, and {BIGGEST} are the most", found.len())));
    }
    fs::read(path).map(Some).map_err(|e| refused(&e))
}

/// What is read beside [`Meta`], or instead of some of it.
#[derive(Deserialize)]
struct AsNanoGpt {
    #[serde(default)]
    itos: Option<Itos>,
}

/// The text of each id.
#[derive(Deserialize)]
#[serde(untagged)]
enum Itos {
    List(Vec<String>),
    Map(BTreeMap<String, String>),
}

impl Meta {
    /// What a folder says; `None` where it has neither file. Errors name the file, and are [`Exit::Spec`] where it is not
    /// what it should be.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let [json, pickle] = [META, PICKLE].map(|name| folder.join(name));
        let (path, read) = match (content(&json)?, content(&pickle)?) {
            (Some(content), _) => (json, Self::from_json(&content)),
            (None, Some(content)) => (pickle, Self::from_pickle(&content)),
            (None, None) => return Ok(None),
        };
        let checked = read.and_then(|meta| meta.fault().map_or(Ok(meta), Err));
        checked.map(Some).map_err(|why| {
            Error::new(Exit::Spec, "opening tokens", format!("{}: {why}", path.display()))
                .hint("it says what the tokens beside it mean, at least {\"vocab_size\": 65}")
        })
    }

    fn from_json(content: &[u8]) -> Result<Self, String> {
        let says = |e: serde_json::Error| e.to_string();
        if !content.trim_ascii_start().starts_with(b"{") {
            return Err("it is no JSON object".into());
        }
        let mut meta: Self = serde_json::from_slice(content).map_err(says)?;
        let ids: Vec<(u64, String)> = match serde_json::from_slice::<AsNanoGpt>(content).map_err(says)?.itos {
            None => return Ok(meta),
            Some(Itos::List(texts)) => (0..).zip(texts).collect(),
            Some(Itos::Map(texts)) => {
                let number = |id: &str| id.parse().map_err(|_| format!("`itos` has {id:?} where an id should be"));
                texts.into_iter().map(|(id, text)| Ok((number(&id)?, text))).collect::<Result<_, String>>()?
            }
        };
        if meta.tokenizer.is_none() {
            meta.take_texts(ids);
        }
        Ok(meta)
    }

    fn from_pickle(content: &[u8]) -> Result<Self, String> {
        let tree = pickle::Tree::read(content)?;
        let get = |name: &str| tree.get(tree.root(), name);
        let size = get("vocab_size").and_then(|id| tree.int(id)).and_then(|n| usize::try_from(n).ok());
        let mut meta = Self::of(size.ok_or("it has no `vocab_size`")?);
        if let Some(entries) = get("itos").and_then(|itos| tree.entries(itos)) {
            let pair = |(id, text)| Some((u64::try_from(tree.int(id)?).ok()?, tree.text(text)?.to_owned()));
            let ids = entries.iter().copied().map(pair).collect::<Option<_>>();
            meta.take_texts(ids.ok_or("its `itos` is not texts by their ids")?);
        }
        Ok(meta)
    }

    /// So many ids, and nothing more.
    fn of(vocab_size: usize) -> Self {
        Self {
            vocab_size,
            tokenizer: None,
            alphabet: None,
            tokenizer_file: None,
            token_bytes: None,
            train_chars: None,
            val_chars: None,
            blake3: None,
            source: Vec::new(),
        }
    }

    /// Texts of ids make an alphabet where each is one character and none is left out. Others tell nothing: how a text
    /// would be cut into them is not known.
    fn take_texts(&mut self, mut ids: Vec<(u64, String)>) {
        ids.sort();
        let single = |text: &str| (text.chars().count() == 1).then(|| text.to_owned());
        let chars = ids.iter().zip(0..).map(|((id, text), at)| single(text).filter(|_| *id == at));
        if let Some(alphabet) = chars.collect() {
            (self.tokenizer, self.alphabet) = (Some(TokenizerKind::Char), Some(alphabet));
        }
    }

    fn fault(&self) -> Option<String> {
        if !(1..=LARGEST).contains(&self.vocab_size) {
            return Some(format!("its `vocab_size` is {}, and must be 1 to {LARGEST}", self.vocab_size));
        }
        if self.alphabet.as_ref().is_some_and(String::is_empty) {
            return Some("its `alphabet` has no character".into());
        }
        let width = self.token_bytes.unwrap_or(2);
        if width != 2 && width != 4 {
            return Some(format!("its `token_bytes` is {width}, and must be 2 or 4"));
        }
        None
    }

    /// Writes the file into a folder, atomically.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit) where it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        files::write_json(&folder.join(META), self)
    }
}
