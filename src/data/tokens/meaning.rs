//! What the ids of a folder mean, by what the folder says and what the config asks; and what is known of its tokens then.

use std::path::{Path, PathBuf};

use super::{FORMAT, META, Meta, Tokens, opening, scan, seen::Known};
use crate::{
    base::{Error, Exit, Result, progress::Progress},
    data::{
        CorpusInfo, name_only_in_val,
        tokenizer::{Source, Tokenizer, TokenizerFile},
    },
    spec::config::{DataConfig, TokenizerKind},
};

/// What the ids of a folder mean.
pub struct Meaning {
    /// One more than the highest id that may occur.
    pub vocab_size: usize,
    /// Bytes per token: 2 or 4.
    pub token_bytes: u64,
    /// What the tokenizer is made from. [`Source::Ids`] where how many ids there are follows from the tokens.
    pub source: Source,
    tokenizer: Box<dyn Tokenizer>,
    /// The file of the tokenizer, where the folder names one.
    pub tokenizer_file: Option<PathBuf>,
    /// The hashes of the two files, where the folder says them.
    blake3: Option<[String; 2]>,
    /// Characters that the two files stand for, where the folder says so.
    chars: Option<[u64; 2]>,
    notes: Vec<String>,
}

impl Meaning {
    /// What the folder says, or else the config.
    ///
    /// # Errors
    /// [`Exit::Spec`] where neither does, or both do and disagree.
    pub fn of(folder: &Path, config: &DataConfig) -> Result<Self> {
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
            let (tokenizer_file, blake3, chars, notes) = (None, None, None, Vec::new());
            return Ok(Self { vocab_size, token_bytes: 2, source, tokenizer, tokenizer_file, blake3, chars, notes });
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
        let blake3 = meta.blake3;
        Ok(Self { vocab_size, token_bytes, source, tokenizer, tokenizer_file, blake3, chars, notes })
    }

    /// Goes through the tokens, and says what is known of them then.
    ///
    /// # Errors
    /// [`Exit::Spec`] where an id is beyond the vocabulary, [`Exit::Interrupted`] where somebody asks to stop.
    pub fn describe(&self, folder: &Path, tokens: &[Tokens; 2], is_asked: &dyn Fn() -> bool) -> Result<Known> {
        let progress = Progress::of(&format!("reading {}", folder.display()));
        let [train_bytes, val_bytes] = [0, 1].map(|i| tokens[i].bytes());
        let of = train_bytes + val_bytes;
        let train = scan::scan(&tokens[0], self.vocab_size, &progress, (0, of), is_asked)?;
        let val = scan::scan(&tokens[1], self.vocab_size, &progress, (train_bytes, of), is_asked)?;
        for (file, (scan, expected)) in tokens.iter().zip([&train, &val].into_iter().zip(self.blake3.iter().flatten()))
        {
            if scan.hash != *expected {
                let why = format!("{} is not what {META} says: it has another hash", file.path().display());
                return Err(Error::new(Exit::Spec, opening(folder), why)
                    .hint("it was damaged or changed since; make or copy it again"));
            }
        }
        let [train_chars, val_chars] = match (self.chars, &self.source) {
            (Some(chars), _) => self.believable(folder, chars, tokens)?,
            // What a token of a file stands for may depend on those beside it.
            (None, Source::File(_)) => tokens.each_ref().map(|tokens| tokens.chars(&*self.tokenizer)),
            (None, _) => {
                [&train, &val].map(|scan| (0..).zip(&scan.counts).map(|(id, n)| n * self.tokenizer.chars_of(id)).sum())
            }
        };
        let mut vocab_size = self.vocab_size;
        if let Source::Ids = self.source {
            let mut counts = train.counts.iter().zip(&val.counts);
            vocab_size = counts.rposition(|(a, b)| a + b > 0).map_or(1, |highest| highest + 1);
        }
        let (hashes, source) = (format!("train {}\nval {}", train.hash, val.hash), self.source.key());
        let all = format!("exp tokens, format {FORMAT}\n{hashes}\nvocab_size {vocab_size}\ntokenizer {source}\n");
        let mut notes = self.notes.clone();
        notes.extend(self.only_in_val(&train.counts, &val.counts));
        let val_tokens = tokens[1].count() as u64;
        let info = CorpusInfo {
            name: folder.display().to_string(),
            hash: blake3::hash(all.as_bytes()).to_hex().to_string(),
            chars: train_chars + val_chars,
            vocab_size,
            train_tokens: tokens[0].count() as u64,
            val_tokens,
            chars_per_token: val_chars as f64 / val_tokens.max(1) as f64,
            bits_per_char: None,
            notes,
        };
        Ok((info, [train.hash, val.hash]))
    }

    /// The numbers of characters that the folder tells, where its tokens can stand for so many: they decide what a loss per
    /// token is per character, and no hash tells them.
    fn believable(&self, folder: &Path, chars: [u64; 2], tokens: &[Tokens; 2]) -> Result<[u64; 2]> {
        const MOST: u64 = 1 << 16; // characters of one token
        for ((name, chars), tokens) in ["train", "val"].into_iter().zip(chars).zip(tokens) {
            let count = tokens.count() as u64;
            if (chars == 0) != (count == 0) || chars > count.saturating_mul(MOST) {
                let file = folder.join(META);
                let why = format!("{}: its `{name}_chars` is {chars}, for {count} tokens", file.display());
                return Err(Error::new(Exit::Spec, opening(folder), why).hint("leave it out: it is counted then"));
            }
        }
        Ok(chars)
    }

    /// Names the characters that only the validation split has. Of longer tokens there are always some.
    fn only_in_val(&self, train: &[u64], val: &[u64]) -> Option<String> {
        let Source::Alphabet(alphabet) = &self.source else { return None };
        let missing = alphabet.chars().zip(train.iter().zip(val)).filter(|(_, (train, val))| **train == 0 && **val > 0);
        name_only_in_val(&missing.map(|(c, _)| c).collect())
    }
}
