//! A tokenizer from a `tokenizer.json` of Hugging Face's `tokenizers`.

use std::{
    collections::BTreeSet,
    fmt::Display,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use tokenizers::{Model, ModelWrapper, OffsetReferential, OffsetType, PreTokenizer, models::bpe::BPE};

use super::Tokenizer;
use crate::base::{Error, Exit, Result};

/// What to do where there is no tokenizer.
pub const HINT: &str = "name a `tokenizer.json` of Hugging Face's tokenizers with data.tokenizer_file";

/// The content of a `tokenizer.json`.
pub struct TokenizerFile {
    path: PathBuf,
    content: Vec<u8>,
    hash: String,
}

/// The spec shows the reason alone, so it names the file.
fn refused(path: &Path, why: impl Display) -> Error {
    Error::new(Exit::Spec, "opening a tokenizer", format!("the tokenizer {}: {why}", path.display())).hint(HINT)
}

impl TokenizerFile {
    /// Reads a file; whether it is a tokenizer is for [`parse`](Self::parse) to say.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => refused(path, "there is no such file"),
            kind => refused(path, error).io(kind),
        };
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(refused(path, "it is no file"));
        }
        let content = fs::read(path).map_err(unreadable)?;
        let hash = blake3::hash(&content).to_hex().to_string();
        Ok(Self { path: path.into(), content, hash })
    }

    /// blake3 of the content, in hex.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The content, which [`parse`](Self::parse) understands.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// The tokenizer that the file describes.
    pub fn parse(&self) -> Result<FromFile> {
        let refused = |why: String| refused(&self.path, why);
        let mut inner = tokenizers::Tokenizer::from_bytes(&self.content)
            .map_err(|why| refused(format!("it is no `tokenizer.json`: {why}")))?;
        // A corpus is one text without end, and all of it is plain text.
        inner.with_truncation(None).map_err(|why| refused(why.to_string()))?;
        inner.with_padding(None);
        inner.with_post_processor(None::<tokenizers::PostProcessorWrapper>);
        inner.set_encode_special_tokens(true);
        // Left-out merges vary what a model sees in training (BPE dropout, Provilkov et al., 2020): at random, where the
        // tokens of a text are to follow from the text.
        if let ModelWrapper::BPE(bpe) = inner.get_model()
            && bpe.dropout.is_some()
        {
            let mut whole = bpe.clone();
            whole.dropout = None;
            inner.with_model(whole);
        }
        match inner.get_vocab(true).into_values().max() {
            Some(highest) => Ok(FromFile { inner, path: self.path.clone(), vocab_size: highest as usize + 1 }),
            None => Err(refused("its vocabulary is empty".into())),
        }
    }
}

/// A tokenizer of that library. What one does at a place may depend on any other place of the text, so a text is encoded
/// whole, which takes some two hundred bytes of memory per byte.
pub struct FromFile {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    vocab_size: usize,
}

impl FromFile {
    /// The id of a token by its name, special or not.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    fn encoding(&self, text: &str) -> Result<tokenizers::Encoding> {
        let refused = |why: String| {
            refused(&self.path, why).hint("a tokenizer with an unknown token, or one of bytes, knows all text")
        };
        if let Some(unknown) = self.first_unknown(text).map_err(|why| refused(why.to_string()))? {
            return Err(refused(format!("it has no token for {unknown:?}, and no unknown token")));
        }
        self.inner.encode(text, false).map_err(|why| refused(why.to_string()))
    }

    /// A character that the library would leave out without a word, as its BPE does where there is no unknown token; other
    /// models refuse such a text. The text is only looked through where one of its characters alone is not known.
    fn first_unknown(&self, text: &str) -> tokenizers::Result<Option<char>> {
        let ModelWrapper::BPE(bpe) = self.inner.get_model() else { return Ok(None) };
        if bpe.get_unk_token().is_some() {
            return Ok(None);
        }
        let distinct: BTreeSet<char> = text.chars().collect();
        match self.first_dropped(bpe, &distinct.into_iter().collect::<String>())? {
            None => Ok(None),
            Some(_) => self.first_dropped(bpe, text),
        }
    }

    /// The first character of a text that comes to the model, and that the model does not know.
    fn first_dropped(&self, bpe: &BPE, text: &str) -> tokenizers::Result<Option<char>> {
        let mut pieces = self.inner.get_added_vocabulary().extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(splitter) = self.inner.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut pieces)?;
        }
        let for_the_model = pieces.get_splits(OffsetReferential::Normalized, OffsetType::None).into_iter();
        let mut seen: BTreeSet<char> = BTreeSet::new();
        for (piece, ..) in for_the_model.filter(|(_, _, added)| added.is_none()) {
            for c in piece.chars().filter(|c| seen.insert(*c)) {
                if !knows(bpe, c)? {
                    return Ok(Some(c));
                }
            }
        }
        Ok(None)
    }
}

/// Whether a model has a token for a character, at some place of a word.
fn knows(bpe: &BPE, c: char) -> tokenizers::Result<bool> {
    let first = bpe.continuing_subword_prefix.as_deref().unwrap_or_default();
    let last = bpe.end_of_word_suffix.as_deref().unwrap_or_default();
    let forms = [c.to_string(), format!("{first}{c}"), format!("{c}{last}"), format!("{first}{c}{last}")];
    Ok(forms.iter().any(|form| bpe.token_to_id(form).is_some()) || !bpe.tokenize(&forms[0])?.is_empty())
}

impl Tokenizer for FromFile {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.encoding(text)?.get_ids().to_vec())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        const BAD: &str = "\u{fffd}";
        let known = |token: &u32| self.inner.id_to_token(*token).is_some();
        let text = |run: &[u32]| match run {
            [first, ..] if known(first) => self.inner.decode(run, false).unwrap_or_else(|_| BAD.into()),
            unknown => BAD.repeat(unknown.len()),
        };
        tokens.chunk_by(|a, b| known(a) == known(b)).map(text).collect()
    }

    fn prefix_len(&self, text: &str, count: usize) -> Result<usize> {
        let encoding = self.encoding(text)?;
        let ends = encoding.get_offsets();
        Ok(match count {
            0 => 0,
            count if count >= ends.len() => text.len(),
            count => ends[count - 1].1,
        })
    }

    fn cut(&self, text: &str, _at: usize) -> usize {
        text.len()
    }

    fn alphabet(&self) -> Option<String> {
        None
    }
}
