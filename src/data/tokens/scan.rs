//! Goes once through a file of tokens: which ids occur how often, and the hash of the file.

use std::io::Read;

use rayon::prelude::*;

use super::file::{Tokens, ids};
use crate::base::{Context, Error, Exit, Result, progress::Progress};

/// How many bytes are looked at between two looks at what people want, a multiple of every width.
const BLOCK: usize = 8 << 20;

/// How many bytes a thread takes at a time, a multiple of every width.
const CHUNK: usize = 1 << 20;

/// The largest vocabulary of which each thread counts for itself.
const SMALL: usize = 1 << 17;

/// What is known of a file after it.
pub struct Scan {
    /// blake3 of the file, in hex.
    pub hash: String,
    /// How often each id of the vocabulary occurs.
    pub counts: Vec<u64>,
}

/// Goes through a file whose ids are below `below`. `done` of all `of` bytes were seen before it.
///
/// # Errors
/// [`Exit::Spec`] where an id is not or the file cannot be read, [`Exit::Interrupted`] where somebody asks to stop.
pub fn scan(
    tokens: &Tokens,
    below: usize,
    progress: &Progress,
    (done, of): (u64, u64),
    is_asked: &dyn Fn() -> bool,
) -> Result<Scan> {
    let doing = || format!("looking through the tokens {}", tokens.path().display());
    let (mut reader, mut block) = (tokens.read(), Vec::new());
    let (mut hasher, mut at) = (blake3::Hasher::new(), 0);
    let mut counts = vec![0; below + 1]; // behind the vocabulary, those beyond it
    loop {
        if is_asked() {
            return Err(Error::new(Exit::Interrupted, doing(), "asked to stop"));
        }
        progress.at(done + at, of);
        block.clear();
        reader.by_ref().take(BLOCK as u64).read_to_end(&mut block).doing(Exit::Spec, doing)?;
        if block.is_empty() {
            break;
        }
        hasher.update_rayon(&block);
        count(&block, tokens.width(), &mut counts);
        if counts[below] > 0 {
            return Err(Error::new(Exit::Spec, doing(), beyond(&block, at, tokens.width(), below)));
        }
        at += block.len() as u64;
    }
    if at != tokens.bytes() {
        return Err(Error::new(Exit::Spec, doing(), "it became shorter while it was read"));
    }
    counts.truncate(below);
    Ok(Scan { hash: hasher.finalize().to_hex().to_string(), counts })
}

/// Adds how often each id occurs; those that have no place in `counts`, to its last.
fn count(block: &[u8], width: usize, counts: &mut [u64]) {
    let last = counts.len() - 1;
    let tally =
        |chunk: &[u8], counts: &mut [u64]| ids(chunk, width).for_each(|id| counts[(id as usize).min(last)] += 1);
    if last > SMALL {
        return tally(block, counts);
    }
    let none = || vec![0; last + 1];
    let counted = block.par_chunks(CHUNK).fold(none, |mut counts, chunk| {
        tally(chunk, &mut counts);
        counts
    });
    let sum = counted.reduce(none, |mut a, b| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    });
    counts.iter_mut().zip(sum).for_each(|(a, b)| *a += b);
}

/// Says where the first id beyond the vocabulary stands, in a block that begins at byte `from`.
fn beyond(block: &[u8], from: u64, width: usize, below: usize) -> String {
    let mut found = ids(block, width).enumerate().filter(|(_, id)| *id as usize >= below);
    let (at, id) = found.next().unwrap_or_default();
    let byte = from + (at * width) as u64;
    format!("at byte {byte} it has the id {id}, and the vocabulary has {below} tokens, 0 to {}", below - 1)
}
