//! Cached tokens in memory, and the windows that batches are made of.
//!
//! A batch is a pure function of its arguments: nothing of the loader needs to be saved to resume a run exactly.

use std::{collections::BTreeSet, mem, path::Path};

use rand_chacha::rand_core::RngCore;

use super::{
    Batch, CorpusInfo, Split,
    tokenizer::{self, Source, Tokenizer},
    tokens::Tokens,
};
use crate::{
    base::{
        Result,
        folders::{Root, RunFolder},
        rng,
    },
    event::{FileRef, Use, Used},
    spec::config::TokenizerKind,
};

/// The seed of the evaluation windows, the same for every run.
const EVAL_SEED: u64 = 0;

/// The tokens of a corpus, and what is known of them.
pub struct Prepared {
    /// Of the training and of the validation split.
    pub tokens: [Tokens; 2],
    /// What is known of the corpus.
    pub info: CorpusInfo,
    /// What its tokenizer is made from.
    pub source: Source,
    /// What the tokenizer is restored from, beside the source.
    pub alphabet: Option<String>,
    /// blake3 of the two files of tokens, in hex, where they are known.
    pub hashes: Option<[String; 2]>,
}

/// A tokenized corpus, mapped into memory.
pub struct Dataset {
    info: CorpusInfo,
    source: Source,
    tokenizer: Box<dyn Tokenizer>,
    /// Of the training and of the validation split.
    tokens: [Tokens; 2],
    hashes: Option<[String; 2]>,
}

impl Dataset {
    pub(super) fn open(Prepared { tokens, info, source, alphabet, hashes }: Prepared) -> Result<Self> {
        let tokenizer = source.restore(alphabet.as_deref())?;
        Ok(Self { info, source, tokenizer, tokens, hashes })
    }

    /// What is known of the corpus.
    pub fn info(&self) -> &CorpusInfo {
        &self.info
    }

    /// Keeps the tokenizer with a run, for those who want to read what the run's model writes.
    pub fn keep_tokenizer(&self, root: &Root, run: &RunFolder) -> Result<()> {
        tokenizer::keep(&self.source, self.tokenizer.alphabet(), root, run)
    }

    /// The files that whoever trains on it uses, once its tokenizer is [kept](Self::keep_tokenizer) with the run.
    pub fn used(&self, root: &Root, run: &RunFolder) -> Vec<Used> {
        let file =
            |path: &Path, bytes, blake3: &String| FileRef { name: root.relative(path), bytes, blake3: blake3.clone() };
        let hashed = self.tokens.iter().zip(self.hashes.iter().flatten());
        let tokens = hashed.map(|(tokens, blake3)| file(tokens.path(), tokens.bytes(), blake3));
        let mut used: Vec<Used> = tokens.map(|file| Used { kind: Use::Corpus, file }).collect();
        if let Ok(content) = std::fs::read(run.tokenizer()) {
            used.push(Used { kind: Use::Tokenizer, file: FileRef::of(root.relative(&run.tokenizer()), &content) });
        }
        if let Source::File(known) = &self.source {
            let (path, bytes) = (root.tokenizer(known.hash()), known.content().len() as u64);
            used.push(Used { kind: Use::Tokenizer, file: file(&path, bytes, &known.hash().to_owned()) });
        }
        used
    }

    /// Fills the micro-batch `micro` (from 0) of update `step` (from 1) with windows of the training split that begin
    /// anywhere, all places alike, as nanoGPT's `get_batch` draws them. Panics where the split is too short, which
    /// [`CorpusInfo::check_context`] tells beforehand.
    pub fn fill_train(&self, seed: u64, step: u64, micro: u32, batch: &mut Batch) {
        let mut rng = rng::stream(seed, &format!("data/{step}/{micro}"));
        for row in 0..batch.batch {
            fill_window(self.split(Split::Train), &mut rng, row, batch);
        }
    }

    /// Fills the `index`-th (from 0) evaluation batch of a split. The n-th window of an evaluation depends on the corpus,
    /// the context and n alone, not on the run or on how windows are grouped into batches, so that losses compare over a
    /// sweep. Panics as [`fill_train`](Self::fill_train).
    pub fn fill_eval(&self, split: Split, index: usize, batch: &mut Batch) {
        let (name, tokens) = (split.word(), self.split(split));
        for row in 0..batch.batch {
            let window = index * batch.batch + row;
            let mut rng = rng::stream(EVAL_SEED, &format!("eval/{}/{name}/{window}", self.info.hash));
            fill_window(tokens, &mut rng, row, batch);
        }
    }

    /// Fills a batch with windows that follow each other without a gap or an overlap, the first of which begins at token
    /// `start` of a split: every token from the one after `start` on is a target once. Panics where the split ends before
    /// the batch does: it takes `start` + B·T + 1 tokens.
    pub fn fill_walk(&self, split: Split, start: usize, batch: &mut Batch) {
        let tokens = self.split(split);
        copy(tokens, start, &mut batch.x);
        copy(tokens, start + 1, &mut batch.y);
    }

    /// The tokens of a split, piece by piece.
    fn split(&self, split: Split) -> &[Tokens] {
        match split {
            Split::Train => &self.tokens[..1],
            Split::Val => &self.tokens[1..],
            Split::Whole => &self.tokens,
        }
    }

    /// The files of the training and of the validation split, and how many bytes a token takes there.
    pub fn files(&self) -> ([&Path; 2], usize) {
        (self.tokens.each_ref().map(Tokens::path), self.tokens[0].width())
    }

    /// The text of the first `count` tokens, or of as many as there are.
    pub fn beginning(&self, count: usize) -> String {
        let mut tokens = vec![0; count.min(self.info.tokens(Split::Whole) as usize)];
        copy(&self.tokens, 0, &mut tokens);
        self.tokenizer.decode(&tokens)
    }

    /// The characters that occur in the text of the tokens, found by decoding all of them; `at` hears how many are done.
    pub fn characters(&self, at: &mut dyn FnMut(u64)) -> BTreeSet<char> {
        const PIECE: usize = 1 << 16;
        const OVERLAP: usize = 16; // more than a character has
        const CUT: char = char::REPLACEMENT_CHARACTER;
        let (mut found, mut done) = (BTreeSet::new(), 0);
        let mut tokens = Vec::with_capacity(PIECE);
        for split in &self.tokens {
            for start in (0..split.count()).step_by(PIECE) {
                at(done);
                // A piece may begin and end within a character; then the piece before it has it whole, or this one.
                let from = start.saturating_sub(OVERLAP);
                tokens.resize((PIECE + OVERLAP).min(split.count() - from), 0);
                split.copy(from, &mut tokens);
                found.extend(self.tokenizer.decode(&tokens).trim_matches(CUT).chars());
                done += PIECE as u64;
            }
        }
        found
    }

    /// The word for the tokenizer in a spec.
    pub fn tokenizer_kind(&self) -> TokenizerKind {
        self.source.kind()
    }

    /// What turns text into tokens and back, alone.
    pub fn into_tokenizer(self) -> Box<dyn Tokenizer> {
        self.tokenizer
    }

    /// What turns text into tokens and back.
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        &*self.tokenizer
    }
}

/// Draws a window of what the pieces are together, and copies it and what follows its tokens to a row of the batch.
fn fill_window(pieces: &[Tokens], rng: &mut impl RngCore, row: usize, batch: &mut Batch) {
    let context = batch.context;
    let tokens: usize = pieces.iter().map(Tokens::count).sum();
    let start = rng::below(rng, tokens.saturating_sub(context) as u64) as usize;
    let row = row * context..(row + 1) * context;
    copy(pieces, start, &mut batch.x[row.clone()]);
    copy(pieces, start + 1, &mut batch.y[row]);
}

/// Copies from token `start` on of what the pieces are together. Panics where they end before `out` is full.
fn copy(pieces: &[Tokens], mut start: usize, mut out: &mut [u32]) {
    for piece in pieces {
        let skipped = start.min(piece.count());
        let here = (piece.count() - skipped).min(out.len());
        let (filled, rest) = mem::take(&mut out).split_at_mut(here);
        piece.copy(skipped, filled);
        (start, out) = (start - skipped, rest);
    }
    assert!(out.is_empty(), "the split ends before the batch does");
}
