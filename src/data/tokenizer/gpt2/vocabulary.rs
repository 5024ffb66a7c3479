//! GPT-2's tokens by their bytes, and how the bytes of a word are merged to tokens: the pair that makes the token with the
//! lowest id first, as tiktoken does it.

use std::{cmp::Reverse, collections::BinaryHeap, sync::LazyLock};

use rustc_hash::FxHashMap;
use tiktoken_rs::r50k_base_singleton;

use super::VOCAB;

/// Words from this length on, in bytes, are merged in n·log n steps, and not in n², which are fewer below it.
const LONG: usize = 100;

/// How many words a cache holds before it begins anew.
const CACHED: usize = 1 << 16;

/// The tokens.
pub struct Vocabulary {
    /// The bytes of each.
    pub tokens: Vec<Vec<u8>>,
    /// Their ids, by [`key`] where they are short enough.
    short: FxHashMap<u128, u32>,
    long: FxHashMap<Vec<u8>, u32>,
    /// Whether two bytes, the first times 256 plus the second, follow each other in some token.
    pairs: Vec<bool>,
    /// The length of the longest, in bytes.
    longest: usize,
}

/// The one that there is, unpacked once per process.
pub static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
    let bpe = r50k_base_singleton();
    // The ids have no gap; a test goes through them.
    let tokens: Vec<Vec<u8>> = (0..VOCAB).map(|id| bpe.decode_bytes(&[id]).unwrap_or_default()).collect();
    let (mut short, mut long) = (FxHashMap::default(), FxHashMap::default());
    for (token, id) in tokens.iter().zip(0..super::GPT2_EOT) {
        match key(token) {
            Some(key) => short.insert(key, id),
            None => long.insert(token.clone(), id),
        };
    }
    let mut pairs = vec![false; 1 << 16];
    for pair in tokens.iter().flat_map(|bytes| bytes.windows(2)) {
        pairs[pair_of(pair[0], pair[1])] = true;
    }
    let longest = tokens.iter().map(Vec::len).max().unwrap_or(0);
    Vocabulary { tokens, short, long, pairs, longest }
});

fn pair_of(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// A few bytes and their number in one; `None` where they are too many.
fn key(bytes: &[u8]) -> Option<u128> {
    let mut key = [0; 16];
    key[15] = bytes.len() as u8;
    key[..15].get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u128::from_le_bytes(key))
}

/// The tokens of words that were seen before, for one thread at a time.
#[derive(Default)]
pub struct Cache {
    /// Where in `tokens` those of a word stand.
    words: FxHashMap<u128, (usize, usize)>,
    tokens: Vec<u32>,
    /// Of the word that is merged: where its parts begin, and what each makes with the one after it.
    parts: Vec<(usize, u32)>,
}

/// The id of a pair that makes no token.
const NONE: u32 = u32::MAX;

impl Vocabulary {
    /// Whether two bytes follow each other in some token.
    pub fn has_pair(&self, first: u8, second: u8) -> bool {
        self.pairs[pair_of(first, second)]
    }

    fn id(&self, bytes: &[u8]) -> Option<u32> {
        match key(bytes) {
            Some(key) => self.short.get(&key),
            None if bytes.len() > self.longest => None,
            None => self.long.get(bytes),
        }
        .copied()
    }

    /// Adds the tokens of a word.
    pub fn encode(&self, word: &str, cache: &mut Cache, out: &mut Vec<u32>) {
        let bytes = word.as_bytes();
        let Some(key) = key(bytes) else {
            match self.long.get(bytes) {
                Some(id) => out.push(*id),
                None if bytes.len() < LONG => self.merge(bytes, &mut cache.parts, out),
                None => self.merge_long(bytes, out),
            }
            return;
        };
        if let Some(id) = self.short.get(&key) {
            out.push(*id);
        } else if let Some(&(start, end)) = cache.words.get(&key) {
            out.extend_from_slice(&cache.tokens[start..end]);
        } else {
            if cache.words.len() >= CACHED {
                cache.words.clear();
                cache.tokens.clear();
            }
            let (from, start) = (out.len(), cache.tokens.len());
            self.merge(bytes, &mut cache.parts, out);
            cache.tokens.extend_from_slice(&out[from..]);
            cache.words.insert(key, (start, cache.tokens.len()));
        }
    }

    /// Adds the tokens of a word that is none itself.
    fn merge(&self, word: &[u8], parts: &mut Vec<(usize, u32)>, out: &mut Vec<u32>) {
        let pair = |start: usize, end: usize| self.id(&word[start..end]).unwrap_or(NONE);
        parts.clear();
        parts.extend((0..word.len() - 1).map(|at| (at, pair(at, at + 2))));
        parts.extend([(word.len() - 1, NONE), (word.len(), NONE)]);
        loop {
            let lowest = parts.iter().enumerate().min_by_key(|(_, (_, id))| *id);
            let Some((at, &(_, id))) = lowest.filter(|(_, (_, id))| *id != NONE) else { break };
            debug_assert!(id < VOCAB);
            parts.remove(at + 1);
            // Of the part that was made and of the one before it, with the part after each.
            for at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
                parts[at].1 = parts.get(at + 2).map_or(NONE, |after| pair(parts[at].0, after.0));
            }
        }
        out.extend(parts.windows(2).filter_map(|part| self.id(&word[part[0].0..part[1].0])));
    }

    /// The same for one of many bytes: the pairs wait in a heap, and parts know their neighbours.
    fn merge_long(&self, word: &[u8], out: &mut Vec<u32>) {
        // Where the part ends that begins at a byte, and where the one before it begins; a part that was merged away has
        // no end.
        let mut ends: Vec<u32> = (1..=word.len() as u32).collect();
        let mut before: Vec<u32> = (0..word.len() as u32).map(|at| at.saturating_sub(1)).collect();
        let mut heap = BinaryHeap::with_capacity(word.len());
        let end_of_next = |ends: &[u32], at: usize| ends.get(ends[at] as usize).copied();
        let pair = |heap: &mut BinaryHeap<_>, ends: &[u32], at: usize| {
            let Some(end) = end_of_next(ends, at) else { return };
            // The lowest id first, and of equal ones the leftmost. The end tells whether it is still the same pair.
            heap.extend(self.id(&word[at..end as usize]).map(|id| Reverse((id, at as u32, end))));
        };
        (0..word.len()).for_each(|at| pair(&mut heap, &ends, at));
        while let Some(Reverse((_, at, end))) = heap.pop() {
            let at = at as usize;
            if ends[at] == 0 || end_of_next(&ends, at) != Some(end) {
                continue;
            }
            let next = ends[at] as usize;
            ends[next] = 0;
            ends[at] = end;
            if let Some(next) = before.get_mut(end as usize) {
                *next = at as u32;
            }
            pair(&mut heap, &ends, at);
            if at > 0 {
                pair(&mut heap, &ends, before[at] as usize);
            }
        }
        let mut at = 0;
        while at < word.len() {
            let end = ends[at] as usize;
            out.extend(self.id(&word[at..end]));
            at = end;
        }
    }
}
