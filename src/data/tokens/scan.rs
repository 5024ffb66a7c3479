//! Goes once through a file of tokens: which ids occur how often, and the hash of the file.

use rayon::prelude::*;

use super::file::{Tokens, ids};
use crate::base::{Error, Exit, Result, progress::Progress};

/// How many bytes are looked at between two looks at what people want, a multiple of every width.
const BLOCK: usize = 32 << 20;

/// How many bytes a thread takes at a time, a multiple of every width.
const CHUNK: usize = 1 << 20;

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
/// [`Exit::Spec`] where an id is not, [`Exit::Interrupted`] where somebody asks to stop.
pub fn scan(
    tokens: &Tokens,
    below: usize,
    progress: &Progress,
    (done, of): (u64, u64),
    is_asked: &dyn Fn() -> bool,
) -> Result<Scan> {
    let doing = || format!("looking through the tokens {}", tokens.path().display());
    // Behind the vocabulary, those beyond it.
    let (mut hasher, mut counts) = (blake3::Hasher::new(), vec![0; below + 1]);
    for (n, block) in tokens.bytes().chunks(BLOCK).enumerate() {
        if is_asked() {
            return Err(Error::new(Exit::Interrupted, doing(), "asked to stop"));
        }
        progress.at(done + (n * BLOCK) as u64, of);
        hasher.update_rayon(block);
        let none = || vec![0; below + 1];
        let counted = block.par_chunks(CHUNK).fold(none, |mut counts, chunk| {
            ids(chunk, tokens.width()).for_each(|id| counts[(id as usize).min(below)] += 1);
            counts
        });
        add(
            &mut counts,
            &counted.reduce(none, |mut a, b| {
                add(&mut a, &b);
                a
            }),
        );
        if counts[below] > 0 {
            return Err(Error::new(Exit::Spec, doing(), beyond(tokens, below, n * BLOCK)));
        }
    }
    counts.truncate(below);
    Ok(Scan { hash: hasher.finalize().to_hex().to_string(), counts })
}

/// Says where the first id beyond the vocabulary stands, which is at byte `from` or later.
fn beyond(tokens: &Tokens, below: usize, from: usize) -> String {
    let (at, id) = ids(&tokens.bytes()[from..], tokens.width())
        .enumerate()
        .find(|(_, id)| *id as usize >= below)
        .unwrap_or_default();
    let byte = from + at * tokens.width();
    format!("at byte {byte} it has the id {id}, and the vocabulary has {below} tokens, 0 to {}", below - 1)
}

fn add(a: &mut [u64], b: &[u64]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
}
