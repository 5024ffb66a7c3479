//! What the loader fills and an engine computes on.

/// Token windows and what follows them, both (B, T), row by row. `y[b, t]` is the token after `x[b, t]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Input tokens, (B, T).
    pub x: Vec<u32>,
    /// Target tokens, (B, T).
    pub y: Vec<u32>,
    /// B.
    pub batch: usize,
    /// T.
    pub context: usize,
}

impl Batch {
    /// Room for `batch` windows of `context` tokens.
    pub fn zeros(batch: usize, context: usize) -> Self {
        Self { x: vec![0; batch * context], y: vec![0; batch * context], batch, context }
    }
}
