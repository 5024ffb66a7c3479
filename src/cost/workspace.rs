//! The CPU engine's memory, and how it cuts up a step: functions of the config (and, for what threads need each, of
//! their number), so that a plan can state them and the engine allocates exactly that.
//!
//! A step over B sequences is cut twice, as [`Cut`] says for models of each size. Into parts, whose gradients are summed
//! apart and then added in a fixed order, so that as many threads work without waiting for each other. And each part into
//! micro-batches of some positions, so that activations stay near the cache. Neither depends on threads, so these change
//! no bit of a result.
//!
//! For 6 layers of width 384, context 256 and batch 8 on two threads, each step in turn with the other way's: two parts
//! with packed weights took 0.92 of the time of one that packs weights as they are used, 256 instead of 512 positions a
//! micro-batch 0.94 of that, letting a thread whose part is done help the other 0.98 of that. Memory grew from 0.185 to
//! 0.242 of PyTorch's.

use crate::{
    kernels::{
        Buffer,
        attention::Scratch,
        muon::{self, Size},
        pack::packed_len,
    },
    model::{Layout, hidden_matrices},
    spec::{
        RunConfig,
        config::{Mlp, ModelConfig, Optimizer, Position},
    },
};

/// How the steps of models of a size are cut up.
struct Cut {
    /// Parts of a batch, each with a gradient of its own.
    parts: usize,
    /// Positions of a micro-batch, unless one sequence has more.
    rows: usize,
    /// Whether all weights are kept packed, rather than packed as they are used.
    packed: bool,
    /// Whether threads share each operation. Those of a small model are too short for that.
    shared: bool,
}

impl Cut {
    /// What a model of so many parameters can afford: a gradient is as large as all weights, and so are packed ones.
    fn of(params: usize) -> Self {
        match params {
            ..=4_000_000 => Self { parts: 4, rows: 512, packed: true, shared: false },
            4_000_001..=32_000_000 => Self { parts: 2, rows: 256, packed: true, shared: true },
            _ => Self { parts: 1, rows: 512, packed: false, shared: true },
        }
    }
}

/// Logits that are held at once.
const LOGITS: usize = 1 << 22;
/// Numbers of a large weight that a thread packs at once: half of a second-level cache of 2 MiB.
const PACKED: usize = 1 << 18;
/// Columns of the widest panel of any SIMD level.
const PANEL: usize = 32;

/// How a step is cut up, and the lengths of all buffers in f32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Parts of a batch with gradients of their own.
    pub parts: usize,
    /// Sets of activations: one for each thread that works on a part.
    pub workers: usize,
    /// Threads within one worker's operations.
    pub helpers: usize,
    /// Positions of a micro-batch.
    pub rows: usize,
    /// Positions whose logits are held at once.
    pub head_rows: usize,
    /// Numbers of all parameters.
    pub params: usize,
    /// All packed weights; 0 where they are packed as they are used.
    pub packed: usize,
    /// A part of a weight that a helper packs as it is used; 0 where all are kept packed.
    pub pack: usize,
    /// What helpers compute head by head before it is put together; 0 where a worker has none.
    pub by_head: usize,
    /// Threads that Muon updates a matrix each with; 0 with another optimizer.
    pub muons: usize,
    /// Room for one of those.
    pub muon: Size,
    /// Bytes of everything.
    pub bytes: u64,
}

/// From one row of a matrix of activations to the next: whole cache lines, an odd number of them, so that the rows of a
/// column do not fall into few sets of the cache.
pub fn stride(width: usize) -> usize {
    (width.div_ceil(16) | 1) * 16
}

/// Query, key and value columns of a model.
pub fn qkv_width(m: &ModelConfig) -> usize {
    m.d_model + 2 * (m.d_model / m.heads * m.kv_heads)
}

/// Query and key columns of a model, which come first.
pub fn qk_width(m: &ModelConfig) -> usize {
    m.d_model / m.heads * (m.heads + m.kv_heads)
}

impl Workspace {
    /// The workspace of a run over `vocab` tokens that may compute with `threads`.
    pub fn of(config: &RunConfig, vocab: usize, threads: usize) -> Self {
        let m = &config.model;
        let layout = Layout::of(m, vocab);
        let (params, threads) = (layout.len(), threads.max(1));
        let cut = Cut::of(params);
        let parts = config.train.batch.clamp(1, cut.parts);
        let (workers, helpers) = (threads.min(parts), if cut.shared { threads } else { 1 });
        let longest = config.train.batch.div_ceil(parts).max(1); // sequences of the largest part
        let rows = (cut.rows / m.context).clamp(1, longest) * m.context;
        let head_rows = (LOGITS / stride(vocab)).clamp(8, rows.max(8));
        let weights = linears(m, vocab);
        let all_packed: usize = weights.iter().map(|&[outputs, inputs]| packed_len(inputs, outputs, PANEL)).sum();
        let longest_sum = weights.iter().map(|&[_, inputs]| inputs).max().unwrap_or(0);
        let (packed, pack) =
            if cut.packed { (all_packed, 0) } else { (0, PACKED.max(packed_len(longest_sum, PANEL, PANEL))) };
        let by_head = if helpers > 1 { rows * qkv_width(m) } else { 0 };
        let hidden = if config.train.optimizer == Optimizer::Muon { hidden_matrices(&layout, m) } else { Vec::new() };
        let (muons, muon) = (threads.min(hidden.len()), Size::of(hidden.iter().map(|h| [h.rows, h.cols])));
        let mut space =
            Self { parts, workers, helpers, rows, head_rows, params, packed, pack, by_head, muons, muon, bytes: 0 };
        space.bytes = space.count(m, vocab) as u64;
        space
    }

    fn count(&self, m: &ModelConfig, vocab: usize) -> usize {
        let matrix = |width: usize| Buffer::bytes(self.rows * stride(width));
        let column = Buffer::bytes(self.rows);
        let (d, qkv) = (m.d_model, qkv_width(m));
        let norm = matrix(d) + column;
        let per_head = |heads: usize| Buffer::bytes(self.rows * heads);
        let head_norms = if m.qk_norm { matrix(qk_width(m)) + per_head(m.heads + m.kv_heads) } else { 0 };
        // The MLP's output, and its slopes towards what it is given.
        let mlp = match m.mlp {
            Mlp::Relu2 => 1,
            Mlp::Gelu | Mlp::GeluTanh => 2,
            Mlp::SwiGlu => 3,
        };
        let layer = 2 * norm + matrix(qkv) + head_norms + matrix(d) + per_head(m.heads) + mlp * matrix(m.d_ff);
        let passing = 4 * matrix(d) + matrix(qkv) + matrix(m.d_ff) + Buffer::bytes(self.by_head) + column;
        let logits = Buffer::bytes(self.head_rows * stride(vocab));
        let rooms = self.helpers * (Scratch::bytes(d / m.heads, m.context) + Buffer::bytes(self.pack));
        let worker = m.layers * layer + norm + passing + logits + rooms;
        let positions = match m.position {
            Position::Sinusoidal => Buffer::bytes(m.context * d),
            Position::Rope => 2 * Buffer::bytes(m.context * (d / m.heads / 2)),
            Position::Learned | Position::None => 0,
        };
        let whole = (3 + self.parts) * Buffer::bytes(self.params) + Buffer::bytes(self.packed) + positions;
        self.workers * worker + whole + self.muons * muon::Scratch::bytes(self.muon)
    }
}

/// Outputs and inputs of each matrix that activations are multiplied with.
fn linears(m: &ModelConfig, vocab: usize) -> Vec<[usize; 2]> {
    let (d, f) = (m.d_model, m.d_ff);
    let gate = (m.mlp == Mlp::SwiGlu).then_some([f, d]);
    let layer = || [[qkv_width(m), d], [d, d], [f, d], [d, f]].into_iter().chain(gate);
    (0..m.layers).flat_map(|_| layer()).chain([[vocab, d]]).collect()
}
