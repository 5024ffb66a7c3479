//! Causal self-attention of one sequence and one head of keys and values, forward and backward, after FlashAttention
//! (Dao et al., 2022): the weights are never kept; the backward pass makes them again from the scores and one number
//! per row. Strips of rows stop at the diagonal, so that the masked half is hardly computed.
//!
//! Measured for one head of width 32 over 256 positions: 56 µs forward and 111 µs backward on one core of a Zen 4 (75
//! and 94 of 117 GFLOP/s), 53 and 89 µs of an Emerald Rapids (of 168). Strips of 24 rows are two whole tiles of AVX-512;
//! of 12 they took up to 4 % longer at 1024 positions, of 16 7 %, of 48 14 to 20 % at all lengths.

use super::{
    Buffer, Level,
    gemm::{Lhs, Rhs, Start, gemm},
    pack::{pack_transposed, packed_len},
    pointwise::exp2,
    simd::kernel,
};
use crate::base::rng::DropoutMask;

/// Rows of a strip. Its last columns reach at most this far beyond the diagonal.
const STRIP: usize = 24;
/// Rows whose weights are held at once in the backward pass, a multiple of [`STRIP`]: with 256 of them the weights and
/// their slopes crowd the second-level cache, and a context of 256 takes 4 % longer.
const BLOCK: usize = 120;

/// What one call works on.
#[derive(Clone, Copy)]
pub struct Heads {
    /// T: positions.
    pub context: usize,
    /// W: numbers per head.
    pub width: usize,
    /// Query heads that share these keys and values.
    pub group: usize,
    /// Leading dimension of queries, keys and values, which lie side by side in a row.
    pub ld: usize,
    /// Leading dimension of the output and its gradient, in which the heads of the group lie side by side.
    pub ldo: usize,
    /// What the dropout of the weights follows from, if any: the mask, and the index of the first head's first weight.
    /// Weights are numbered (H, T, T) from there.
    pub dropout: Option<(DropoutMask, u32)>,
}

/// Room for one call.
pub struct Scratch {
    keys: Buffer,
    values: Buffer,
    weights: Buffer,
    slopes: Buffer,
}

/// Numbers in each of the buffers of a [`Scratch`] for heads of `width` and up to `context` positions.
fn scratch_lens(width: usize, context: usize) -> [usize; 4] {
    let packed = packed_len(width, context, 32);
    let block = BLOCK.min(context.next_multiple_of(STRIP)) * row_len(context);
    [packed, packed, block, block]
}

/// From one row of weights to the next: an odd number of cache lines, so that a column does not fall into few sets.
fn row_len(context: usize) -> usize {
    (context.div_ceil(16) | 1) * 16
}

impl Scratch {
    /// Room for heads of `width` and up to `context` positions.
    pub fn new(width: usize, context: usize) -> Self {
        let [keys, values, weights, slopes] = scratch_lens(width, context).map(Buffer::zeros);
        Self { keys, values, weights, slopes }
    }

    /// Bytes that [`Scratch::new`] allocates.
    pub fn bytes(width: usize, context: usize) -> usize {
        scratch_lens(width, context).into_iter().map(Buffer::bytes).sum()
    }
}

impl Heads {
    /// What scores are multiplied with.
    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// The same for exponentials of base 2.
    fn scale2(&self) -> f32 {
        std::f32::consts::LOG2_E * self.scale()
    }

    /// The mask of one query head, and the index of its first weight.
    fn mask(&self, head: usize) -> Option<(DropoutMask, u32)> {
        let weights = (self.context * self.context) as u32;
        self.dropout.map(|(mask, first)| (mask, first.wrapping_add(weights.wrapping_mul(head as u32))))
    }

    /// Strips of rows `from..to`: first row, rows, and columns up to the end of the diagonal.
    fn strips(from: usize, to: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        (from..to).step_by(STRIP).map(move |row| (row, STRIP.min(to - row), (row + STRIP).min(to)))
    }
}

/// Where the gradients of queries, keys and values go: rows that begin at `at` in rows of `ld`.
pub struct Gradient<'a> {
    /// The rows.
    pub data: &'a mut [f32],
    /// From one row to the next.
    pub ld: usize,
    /// Where the group's queries, its keys and its values begin in a row.
    pub at: [usize; 3],
}

/// O = softmax(scale · Q·Kᵀ)·V for each query head of the group. All operands begin at their head's first number;
/// `logsum` (group, T) takes log₂ Σ exp of each row of scores.
pub fn forward(
    level: Level,
    h: Heads,
    [q, k, v]: [&[f32]; 3],
    out: &mut [f32],
    logsum: &mut [f32],
    room: &mut Scratch,
) {
    let (t, w, ld) = (h.context, h.width, row_len(h.context));
    let keys = &mut room.keys[..packed_len(w, t, level.panel())];
    pack_transposed(level, k, h.ld, [w, t], keys, 0);
    for head in 0..h.group {
        let (q, logsum) = (&q[head * w..], &mut logsum[head * t..][..t]);
        for (row, rows, columns) in Heads::strips(0, t) {
            let p = &mut room.weights[..rows * ld];
            let shape = [rows, columns, w];
            gemm(level, shape, Lhs::rows(&q[row * h.ld..], h.ld), Rhs::Panels(keys), Start::Zero, p, ld);
            let mut inverse = [0.0; STRIP];
            softmax(level, h.scale2(), row, columns, p, ld, &mut logsum[row..row + rows], &mut inverse);
            if let Some(mask) = h.mask(head) {
                drop_weights(level, mask, t, row, columns, p, ld);
            }
            let o = &mut out[row * h.ldo + head * w..];
            gemm(level, [rows, w, columns], Lhs::rows(p, ld), Rhs::Rows(v, h.ld), Start::Zero, o, h.ldo);
            scale_rows(level, w, h.ldo, &inverse[..rows], o);
        }
    }
}

/// The gradients of queries, keys and values, which are overwritten. `out` and `logsum` are those of [`forward`], `dout`
/// is the gradient of `out`; all operands begin at their head's first number.
pub fn backward(
    level: Level,
    h: Heads,
    [q, k, v]: [&[f32]; 3],
    [out, dout]: [&[f32]; 2],
    logsum: &[f32],
    Gradient { data: d, ld: ldd, at: [q_at, k_at, v_at] }: Gradient,
    room: &mut Scratch,
) {
    let (t, w, ld, ldo) = (h.context, h.width, row_len(h.context), h.ldo);
    let packed = packed_len(w, t, level.panel());
    let (keys, values) = (&mut room.keys[..packed], &mut room.values[..packed]);
    pack_transposed(level, k, h.ld, [w, t], keys, 0);
    pack_transposed(level, v, h.ld, [w, t], values, 0);
    for head in 0..h.group {
        let (q, logsum) = (&q[head * w..], &logsum[head * t..][..t]);
        let (out, dout) = (&out[head * w..], &dout[head * w..]);
        for top in (0..t).step_by(BLOCK) {
            let bottom = (top + BLOCK).min(t);
            for (row, rows, columns) in Heads::strips(top, bottom) {
                let p = &mut room.weights[(row - top) * ld..][..rows * ld];
                let s = &mut room.slopes[(row - top) * ld..][..rows * ld];
                let shape = [rows, columns, w];
                gemm(level, shape, Lhs::rows(&q[row * h.ld..], h.ld), Rhs::Panels(keys), Start::Zero, p, ld);
                gemm(level, shape, Lhs::rows(&dout[row * ldo..], ldo), Rhs::Panels(values), Start::Zero, s, ld);
                let mut delta = [0.0; STRIP];
                dots(level, w, ldo, &out[row * ldo..], &dout[row * ldo..], &mut delta[..rows]);
                let logsum = &logsum[row..row + rows];
                softmax_backward(
                    level,
                    [h.scale(), h.scale2()],
                    row,
                    columns,
                    t,
                    h.mask(head),
                    p,
                    s,
                    ld,
                    logsum,
                    &delta,
                );
                let dq = &mut d[row * ldd + q_at + head * w..];
                gemm(level, [rows, w, columns], Lhs::rows(s, ld), Rhs::Rows(k, h.ld), Start::Zero, dq, ldd);
            }
            // Columns of the block, which are rows of the gradients of keys and values.
            for (column, columns, _) in Heads::strips(0, bottom) {
                let first = top.max(column); // weights above the diagonal are 0
                let start = if head == 0 && first == column { Start::Zero } else { Start::C };
                let (at, shape) = ((first - top) * ld + column, [columns, w, bottom - first]);
                let dk = &mut d[column * ldd + k_at..];
                let lhs = Lhs::transposed(&room.slopes[at..], ld);
                gemm(level, shape, lhs, Rhs::Rows(&q[first * h.ld..], h.ld), start, dk, ldd);
                let dv = &mut d[column * ldd + v_at..];
                let lhs = Lhs::transposed(&room.weights[at..], ld);
                gemm(level, shape, lhs, Rhs::Rows(&dout[first * ldo..], ldo), start, dv, ldd);
            }
        }
    }
}

kernel! {
    /// Multiplies the first `width` numbers of each row with that row's factor.
    fn scale_rows(s, width: usize, ld: usize, factors: &[f32], x: &mut [f32]) {
        for (row, factor) in x.chunks_mut(ld).zip(factors) {
            s.along(width, #[inline(always)] |i, len| s.put(s.mul(s.get(row, i, len), s.splat(*factor)), row, i, len));
        }
    }
}

kernel! {
    /// The dot product of the first `width` numbers of each pair of rows.
    fn dots(s, width: usize, ld: usize, x: &[f32], y: &[f32], dots: &mut [f32]) {
        for ((x, y), dot) in x.chunks(ld).zip(y.chunks(ld)).zip(dots) {
            let mut sum = s.splat(0.0);
            s.along(width, #[inline(always)] |i, len| sum = s.mul_add(s.get(x, i, len), s.get(y, i, len), sum));
            *dot = s.sum(sum);
        }
    }
}

kernel! {
    /// Replaces the scores of a strip whose first row is `first` by 2^(scale · (score - the row's largest)), those right of
    /// the diagonal by 0. `inverse` takes 1 / Σ of each row, `logsum` log₂ Σ 2^(scale · score).
    fn softmax(
        s,
        scale: f32,
        first: usize,
        columns: usize,
        scores: &mut [f32],
        ld: usize,
        logsum: &mut [f32],
        inverse: &mut [f32],
    ) {
        let whole = columns.next_multiple_of(S::LANES);
        for (i, row) in scores.chunks_mut(ld).enumerate() {
            let row = &mut row[..whole];
            row[first + i + 1..].fill(f32::NEG_INFINITY);
            let top = row.chunks_exact(S::LANES).fold(s.splat(f32::NEG_INFINITY), |m, x| s.max(m, s.load(x)));
            let top = scale * s.largest(top);
            let mut sum = s.splat(0.0);
            for x in row.chunks_exact_mut(S::LANES) {
                let e = exp2(s, s.mul_add(s.load(x), s.splat(scale), s.splat(-top)));
                sum = s.add(sum, e);
                s.store(e, x);
            }
            row[first + i + 1..].fill(0.0);
            let sum = s.sum(sum);
            inverse[i] = 1.0 / sum;
            logsum[i] = top + sum.log2();
        }
    }
}

kernel! {
    /// Drops weights of a strip whose first row is `first`; `mask` comes with the index of weight (0, 0).
    fn drop_weights(
        _s,
        mask: (DropoutMask, u32),
        context: usize,
        first: usize,
        columns: usize,
        weights: &mut [f32],
        ld: usize,
    ) {
        for (i, row) in weights.chunks_mut(ld).enumerate() {
            let index = mask.1.wrapping_add(((first + i) * context) as u32);
            row[..columns].iter_mut().enumerate().for_each(|(j, x)| *x *= mask.0.factor(index.wrapping_add(j as u32)));
        }
    }
}

kernel! {
    /// From scores and the slopes of the dropped weights to the dropped weights and the slopes of the scores before
    /// scaling and masking, for a strip whose first row is `first`: p = 2^(scale2 · score - logsum), with factor f of the
    /// mask, `scores` becomes p·f and `slopes` scale · p · (f · slope - delta).
    fn softmax_backward(
        s,
        scales: [f32; 2],
        first: usize,
        columns: usize,
        context: usize,
        mask: Option<(DropoutMask, u32)>,
        scores: &mut [f32],
        slopes: &mut [f32],
        ld: usize,
        logsum: &[f32],
        delta: &[f32],
    ) {
        let ([scale, scale2], whole) = (scales, columns.next_multiple_of(S::LANES));
        for (i, (p_row, s_row)) in scores.chunks_mut(ld).zip(slopes.chunks_mut(ld)).enumerate() {
            let (p_row, s_row) = (&mut p_row[..whole], &mut s_row[..whole]);
            let (shift, delta) = (s.splat(-logsum[i]), s.splat(delta[i]));
            let index = mask.map_or(0, |m| m.1.wrapping_add(((first + i) * context) as u32));
            let rows = p_row.chunks_exact_mut(S::LANES).zip(s_row.chunks_exact_mut(S::LANES));
            for (j, (p_part, s_part)) in rows.enumerate() {
                let p = exp2(s, s.mul_add(s.load(p_part), s.splat(scale2), shift));
                let factor = match mask {
                    None => s.splat(1.0),
                    Some((mask, _)) => {
                        let mut factors = [0.0; 16];
                        let index = index.wrapping_add((j * S::LANES) as u32);
                        (0..S::LANES).for_each(|l| factors[l] = mask.factor(index.wrapping_add(l as u32)));
                        s.load(&factors)
                    }
                };
                let slope = s.sub(s.mul(factor, s.load(s_part)), delta);
                s.store(s.mul(s.mul(p, s.splat(scale)), slope), s_part);
                s.store(s.mul(p, factor), p_part);
            }
            p_row[first + i + 1..].fill(0.0);
            s_row[first + i + 1..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::random;

    /// Σ dout · O in f64 by the definition, for one sequence; q, k and v are rows of `ld`.
    fn reference(h: Heads, x: &[f64], dout: &[f32]) -> (Vec<f64>, f64) {
        let (t, w, g) = (h.context, h.width, h.group);
        let mut out = vec![0.0; t * h.ldo];
        for head in 0..g {
            for i in 0..t {
                let score = |j: usize| {
                    let dot: f64 = (0..w).map(|l| x[i * h.ld + head * w + l] * x[j * h.ld + g * w + l]).sum();
                    dot / (w as f64).sqrt()
                };
                let sum: f64 = (0..=i).map(|j| score(j).exp()).sum();
                for j in 0..=i {
                    let factor = h
                        .mask(head)
                        .map_or(1.0, |(m, first)| f64::from(m.factor(first.wrapping_add((i * t + j) as u32))));
                    let p = score(j).exp() / sum * factor;
                    (0..w).for_each(|l| out[i * h.ldo + head * w + l] += p * x[j * h.ld + (g + 1) * w + l]);
                }
            }
        }
        let loss = out.iter().zip(dout).map(|(o, d)| o * f64::from(*d)).sum();
        (out, loss)
    }

    /// Forward against the definition, backward against central differences of it.
    #[test]
    fn equals_the_definition_and_its_derivative() {
        let dropout = Some((DropoutMask::new(0.3, 1, 0, 1, 1, 0), u32::MAX - 20));
        for level in Level::available() {
            for (t, w, group, dropout) in [(1, 3, 1, None), (5, 4, 2, dropout), (19, 8, 1, None), (33, 16, 1, dropout)]
            {
                let h = Heads { context: t, width: w, group, ld: (group + 2) * w + 3, ldo: group * w + 1, dropout };
                let x = random(1, t * h.ld);
                let dout = random(2, t * h.ldo);
                let (mut out, mut logsum) = (vec![0.0; t * h.ldo], vec![0.0; group * t]);
                let mut room = Scratch::new(w, t + 5);
                let qkv = [&x[..], &x[group * w..], &x[(group + 1) * w..]];
                forward(level, h, qkv, &mut out, &mut logsum, &mut room);
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                for (got, want) in out.iter().zip(reference(h, &wide, &dout).0) {
                    assert!((f64::from(*got) - want).abs() < 1e-5, "{level:?} {t} {w}: {got} {want}");
                }
                let ldd = (group + 2) * w;
                let mut d = vec![9.0; t * ldd];
                let into = Gradient { data: &mut d, ld: ldd, at: [0, group * w, (group + 1) * w] };
                backward(level, h, qkv, [&out, &dout], &logsum, into, &mut room);
                for i in 0..t {
                    for l in 0..ldd {
                        let nudged = |by: f64| {
                            let mut x = wide.clone();
                            x[i * h.ld + l] += by;
                            reference(h, &x, &dout).1
                        };
                        let want = (nudged(1e-5) - nudged(-1e-5)) / 2e-5;
                        let got = f64::from(d[i * ldd + l]);
                        assert!((got - want).abs() < 1e-4, "{level:?} {t} {w} {i} {l}: {got} {want}");
                    }
                }
            }
        }
    }

    /// More positions than a block holds, against the same numbers computed at another SIMD level or one head at a time.
    #[test]
    fn long_contexts_cross_blocks() {
        let (t, w) = (600, 4);
        let h = Heads { context: t, width: w, group: 1, ld: 3 * w, ldo: w, dropout: None };
        let (x, dout) = (random(1, t * h.ld), random(2, t * w));
        let results: Vec<_> = Level::available()
            .into_iter()
            .map(|level| {
                let (mut out, mut logsum, mut d) = (vec![0.0; t * w], vec![0.0; t], vec![9.0; t * 3 * w]);
                let qkv = [&x[..], &x[w..], &x[2 * w..]];
                let mut room = Scratch::new(w, t);
                forward(level, h, qkv, &mut out, &mut logsum, &mut room);
                let into = Gradient { data: &mut d, ld: 3 * w, at: [0, w, 2 * w] };
                backward(level, h, qkv, [&out, &dout], &logsum, into, &mut room);
                (out, d)
            })
            .collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let want = reference(h, &wide, &dout).0;
        for (out, d) in &results {
            assert!(out.iter().zip(&want).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5));
            assert!(d.iter().zip(&results[0].1).all(|(a, b)| (a - b).abs() < 1e-4));
        }
        for at in [0, 5, 300 * 12 + 4, 599 * 12 + 8, 255 * 12 + 6, 256 * 12 + 6] {
            let nudged = |by: f64| {
                let mut x = wide.clone();
                x[at] += by;
                reference(h, &x, &dout).1
            };
            let want = (nudged(1e-5) - nudged(-1e-5)) / 2e-5;
            assert!((f64::from(results[0].1[at]) - want).abs() < 1e-4, "{at}");
        }
    }
}
