//! A model that writes: one forward pass over a prompt, then one position a token with a cache of keys and values.
//!
//! It runs on the CPU whatever trained the weights, and knows every switch of the model. At one position a token nothing
//! but reading the weights takes time, so each matrix is kept packed, once, as [`crate::kernels::decode`] reads it best: in
//! lines from one end to the other. The head, which is a third of a small GPT-2, is computed for the last position only.
//! Threads share products from a size on where that pays; a small model is faster on one.
//!
//! - here: the decoder, and what it may be asked
//! - `weights`: matrices in panels
//! - `cache`: keys and values of the positions so far
//! - `forward`: some positions through the network
//!
//! On two cores of an Emerald Rapids, in f32, in turns with `generate` of Hugging Face's transformers and PyTorch 2.15: 0.21 ms
//! a token against 2.9 with 4 layers of width 128 (200 tokens, a vocabulary of 65), and 25 against 32 with 12 layers of width
//! 768 (a vocabulary of 50,257), where 494 MB of weights are read for each. `benches/vs_torch` has it.

mod bandwidth;
mod cache;
mod forward;
mod weights;

pub use bandwidth::memory_bandwidth;
use rayon::{ThreadPool, ThreadPoolBuilder};

use self::{cache::Cache, forward::Acts, weights::Weights};
use super::check_tokens;
use crate::{
    base::{Context, Exit, Result},
    kernels::Level,
    model::Layout,
    spec::config::{ModelConfig, Position},
};

/// Positions that go through the network at once.
const CHUNK: usize = 96;

/// Numbers of a matrix from which threads share its product with one row: less is read in the time that they take to
/// meet.
const SHARED: usize = 1 << 18;

/// A model, and what it remembers of the tokens that it was fed.
pub struct Decoder {
    net: Net,
    cache: Cache,
    acts: Acts,
    pool: Option<ThreadPool>,
    /// Tokens fed so far.
    len: usize,
}

/// What the network is, apart from what it remembers.
struct Net {
    model: ModelConfig,
    level: Level,
    weights: Weights,
    vocab: usize,
    /// Threads that share large products.
    threads: usize,
}

impl Decoder {
    /// A decoder of a model over `vocab` tokens, whose parameters lie in `weights` as [`Layout::of`] says, with room to
    /// remember `capacity` positions, or a whole context where that is less.
    ///
    /// # Errors
    /// Where `EXP_SIMD` names a level that the machine lacks, or threads cannot be started. Panics where there are fewer
    /// weights than the layout has.
    pub fn new(model: &ModelConfig, vocab: usize, weights: &[f32], capacity: usize, threads: usize) -> Result<Self> {
        let level = Level::detect()?;
        let weights = Weights::of(&Layout::of(model, vocab), model, weights, level);
        let threads = if weights.largest() >= SHARED { threads.max(1) } else { 1 };
        let doing = || "starting the decoder's threads".to_owned();
        let start = || ThreadPoolBuilder::new().num_threads(threads).build().doing(Exit::Unexpected, doing);
        let cache = Cache::new(model, capacity.clamp(1, model.context));
        Ok(Self {
            acts: Acts::new(model, vocab, cache.capacity()),
            cache,
            pool: (threads > 1).then(start).transpose()?,
            net: Net { model: model.clone(), level, weights, vocab, threads },
            len: 0,
        })
    }

    /// Takes more tokens and gives the logits (V) of what follows the last of them.
    ///
    /// # Errors
    /// Where a token is outside the vocabulary, there are none, or more than there is [room](Self::room) for.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<&[f32]> {
        let most = self.room().unwrap_or(tokens.len());
        check_tokens(tokens, 1, most, self.net.vocab)?;
        let mut rest = tokens;
        while !rest.is_empty() {
            // Where the oldest positions make way for new ones, one at a time: each still needs what it replaces next.
            let at_once = if self.len + rest.len() <= self.cache.capacity() { CHUNK } else { 1 };
            let (now, after) = rest.split_at(at_once.min(rest.len()));
            let Self { net, cache, acts, pool, len } = self;
            let mut run = || net.forward(now, *len, after.is_empty(), cache, acts);
            match pool {
                Some(pool) => pool.install(run),
                None => run(),
            }
            self.len += now.len();
            rest = after;
        }
        Ok(self.acts.logits())
    }

    /// Tokens fed so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was fed yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more tokens fit; `None` where there is no end: with RoPE, and without positions, what attention sees are
    /// distances, so the oldest position makes way for the newest.
    pub fn room(&self) -> Option<usize> {
        let has_end = match self.net.model.position {
            Position::Learned | Position::Sinusoidal => true,
            Position::Rope | Position::None => false,
        };
        has_end.then(|| self.cache.capacity() - self.len)
    }

    /// Positions that it remembers at most.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Forgets all but the first `len` tokens. `false`, and all is forgotten, where they have made way for others.
    pub fn rewind(&mut self, len: usize) -> bool {
        let is_there = self.len <= self.cache.capacity();
        self.len = if is_there { len.min(self.len) } else { 0 };
        is_there
    }

    /// Threads that it computes with: one where more would only wait for each other.
    pub fn threads(&self) -> usize {
        self.net.threads
    }

    /// Bytes that a token adds to the cache.
    pub fn cache_bytes_per_token(&self) -> usize {
        let m = &self.net.model;
        2 * size_of::<f32>() * m.layers * m.kv_heads * (m.d_model / m.heads)
    }

    /// Bytes of weights that are read for each token.
    pub fn weight_bytes(&self) -> usize {
        self.net.weights.bytes_per_token()
    }
}
