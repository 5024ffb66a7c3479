//! The matrix product C = A · B + start, and the packing of its right-hand side.
//!
//! Each element of C is the same sum in the same order whatever the tile it falls into, so splitting the rows or the
//! columns of a product among threads, or rows among micro-batches, changes no bit of it.
//!
//! Why not the `gemm` crate: it packs both sides anew at each call, splits k by the cache sizes it finds, and cannot be
//! held to one SIMD level. Here the weights are packed once for many calls, strided operands are read where they are
//! (leading dimensions of an odd number of cache lines keep their rows in different cache sets), and the causal half of
//! attention's products is never computed.
//!
//! Measured on one core of a Zen 4, whose peak is 117 GFLOP/s (one 512-bit FMA a cycle): with everything in the cache all
//! shapes of a small GPT run at 115 to 117. With operands in the third-level cache, as in a training step, asking for the
//! lines of C at the beginning of a tile and adding C at its end took the forward products from 105 to 112 and those of
//! the weights' gradients from 98 to 108; asking for the next panel of B meanwhile took the slowest, whose B is the
//! MLP's inner activations, from 102 to 113. Transposing blocks in registers made packing four times as fast. What is not
//! needed: packing A, or packing B where its rows are read as they lie (both within 1 % of packed).

use super::simd::{Simd, kernel};

/// The left-hand side: element (i, k) is at `i · row + k · col`.
#[derive(Clone, Copy)]
pub struct Lhs<'a> {
    /// Its numbers.
    pub data: &'a [f32],
    /// From one row to the next.
    pub row: usize,
    /// From one column to the next.
    pub col: usize,
}

impl<'a> Lhs<'a> {
    /// A row-major matrix.
    pub fn rows(data: &'a [f32], ld: usize) -> Self {
        Self { data, row: ld, col: 1 }
    }

    /// The transpose of a row-major matrix.
    pub fn transposed(data: &'a [f32], ld: usize) -> Self {
        Self { data, row: 1, col: ld }
    }
}

/// The right-hand side, (k, n).
#[derive(Clone, Copy)]
pub enum Rhs<'a> {
    /// Row-major with a leading dimension.
    Rows(&'a [f32], usize),
    /// Packed: panels of [`Level::panel`](super::Level::panel) columns, each (k, panel), the last one zero-padded.
    Panels(&'a [f32]),
}

/// What is added to the sums.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    /// Nothing: C is overwritten.
    Zero,
    /// One number per column.
    Bias(&'a [f32]),
    /// What C holds.
    C,
    /// What C holds and one number per column.
    CAndBias(&'a [f32]),
}

/// Numbers in a packed right-hand side of `k` rows and `n` columns with panels of `panel` columns.
pub fn packed_len(k: usize, n: usize, panel: usize) -> usize {
    n.next_multiple_of(panel) * k
}

/// Rows of A that are walked against one panel of B before the next: with `DEPTH` columns they fit the second-level cache.
const HEIGHT: usize = 128;
/// Columns of A, and rows of a panel of B, that are walked at once.
const DEPTH: usize = 512;

kernel! {
    /// C (m, n) = A (m, k) · B (k, n) + start. C is row-major with leading dimension `ldc`.
    /// Panics where an operand is too short for its shape.
    pub fn gemm(
        s,
        shape: [usize; 3],
        a: Lhs,
        b: Rhs,
        start: Start,
        c: &mut [f32],
        ldc: usize,
    ) {
        let [m, n, k] = shape;
        if m == 0 || n == 0 {
            return;
        }
        check(shape, a, b, start, c.len(), ldc, 2 * S::LANES);
        let mut first = 0;
        while first < k || first == 0 {
            let depth = DEPTH.min(k - first);
            let start = if first == 0 { start } else { Start::C };
            for top in (0..m).step_by(HEIGHT) {
                let rows = HEIGHT.min(m - top);
                for (index, left) in (0..n).step_by(2 * S::LANES).enumerate() {
                    let columns = (n - left).min(2 * S::LANES);
                    // SAFETY: `check` has seen that all three operands hold the whole shape, of which this is a part.
                    unsafe {
                        let a = Strided { at: a.data.as_ptr().add(top * a.row + first * a.col), row: a.row, col: a.col };
                        let panel = 2 * S::LANES;
                        let b = match b {
                            Rhs::Rows(data, ld) => {
                                Panel { at: data.as_ptr().add(first * ld + left), ld, next: panel }
                            }
                            Rhs::Panels(data) => {
                                let at = data.as_ptr().add((index * k + first) * panel);
                                Panel { at, ld: panel, next: k * panel }
                            }
                        };
                        let bias = match start {
                            Start::Bias(bias) => Start::Bias(&bias[left..]),
                            Start::CAndBias(bias) => Start::CAndBias(&bias[left..]),
                            other => other,
                        };
                        column(s, [rows, columns, depth], a, b, bias, c.as_mut_ptr().add(top * ldc + left), ldc);
                    }
                }
            }
            first += depth.max(1);
        }
    }
}

fn check([m, n, k]: [usize; 3], a: Lhs, b: Rhs, start: Start, c: usize, ldc: usize, panel: usize) {
    assert!(ldc >= n && c >= (m - 1) * ldc + n, "C is too short");
    assert!(k == 0 || a.data.len() > (m - 1) * a.row + (k - 1) * a.col, "A is too short");
    match b {
        Rhs::Rows(data, ld) => assert!(k == 0 || ld >= n && data.len() >= (k - 1) * ld + n, "B is too short"),
        Rhs::Panels(data) => assert!(data.len() >= packed_len(k, n, panel), "packed B is too short"),
    }
    if let Start::Bias(bias) | Start::CAndBias(bias) = start {
        assert!(bias.len() >= n, "the bias is too short");
    }
}

/// A part of A.
#[derive(Clone, Copy)]
struct Strided {
    at: *const f32,
    row: usize,
    col: usize,
}

/// A panel of B: where it begins, from one row to the next, and from here to the next panel.
#[derive(Clone, Copy)]
struct Panel {
    at: *const f32,
    ld: usize,
    next: usize,
}

/// One panel's width of C, tile by tile.
///
/// # Safety
/// The operands must hold the shape.
#[inline(always)]
unsafe fn column<S: Simd>(
    s: S,
    [rows, columns, depth]: [usize; 3],
    a: Strided,
    b: Panel,
    start: Start,
    c: *mut f32,
    ldc: usize,
) {
    let tail = columns % S::LANES;
    let mut i = 0;
    while i < rows {
        // SAFETY: rows i and those of the tile are below `rows`, so within what the caller promised.
        unsafe {
            let at = Strided { at: a.at.add(i * a.row), ..a };
            let c = c.add(i * ldc);
            i += match (columns > S::LANES, tail == 0) {
                (true, true) => tile_of::<S, 2, false>(s, rows - i, depth, at, b, start, c, ldc, tail),
                (true, false) => tile_of::<S, 2, true>(s, rows - i, depth, at, b, start, c, ldc, tail),
                (false, true) => tile_of::<S, 1, false>(s, rows - i, depth, at, b, start, c, ldc, tail),
                (false, false) => tile_of::<S, 1, true>(s, rows - i, depth, at, b, start, c, ldc, tail),
            };
        }
    }
}

/// The tallest tile that fits `rows`; returns its height.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile_of<S: Simd, const N: usize, const TAIL: bool>(
    s: S,
    rows: usize,
    depth: usize,
    a: Strided,
    b: Panel,
    start: Start,
    c: *mut f32,
    ldc: usize,
    tail: usize,
) -> usize {
    // SAFETY: the height is at most `rows`.
    unsafe {
        match rows {
            8.. if S::ROWS == 8 => tile::<S, 8, N, TAIL>(s, depth, a, b, start, c, ldc, tail),
            4.. => tile::<S, 4, N, TAIL>(s, depth, a, b, start, c, ldc, tail),
            2.. => tile::<S, 2, N, TAIL>(s, depth, a, b, start, c, ldc, tail),
            _ => tile::<S, 1, N, TAIL>(s, depth, a, b, start, c, ldc, tail),
        }
    }
}

/// The inner loop: M rows and N vectors of C stay in registers over all of `depth`. With `TAIL` the last vector has only
/// `tail` lanes. Returns M.
///
/// # Safety
/// A must hold (M, depth), B (depth, columns) and C (M, columns) at their strides.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn tile<S: Simd, const M: usize, const N: usize, const TAIL: bool>(
    s: S,
    depth: usize,
    a: Strided,
    b: Panel,
    start: Start,
    c: *mut f32,
    ldc: usize,
    tail: usize,
) -> usize {
    // SAFETY: all offsets stay within the shapes of the contract above; partial vectors go through slices of `tail`.
    unsafe {
        let load = |from: *const f32, j: usize| {
            if TAIL && j == N - 1 {
                s.load_part(std::slice::from_raw_parts(from.add(j * S::LANES), tail))
            } else {
                s.load_at(from.add(j * S::LANES))
            }
        };
        // C is needed last: its lines are on their way meanwhile.
        for i in 0..M {
            (0..N).for_each(|j| s.prefetch(c.wrapping_add(i * ldc + j * S::LANES)));
        }
        let mut sums = [[s.splat(0.0); N]; M];
        let (mut at_a, mut at_b) = (a.at, b.at);
        for _ in 0..depth {
            let row: [S::V; N] = std::array::from_fn(|j| load(at_b, j));
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = s.splat(*at_a.add(i * a.row));
                sums.iter_mut().zip(row).for_each(|(sum, y)| *sum = s.mul_add(x, y, *sum));
            }
            at_a = at_a.wrapping_add(a.col);
            (0..N).for_each(|j| s.prefetch(at_b.wrapping_add(b.next + j * S::LANES)));
            at_b = at_b.wrapping_add(b.ld);
        }
        let bias = match start {
            Start::Bias(bias) | Start::CAndBias(bias) => std::array::from_fn(|j| load(bias.as_ptr(), j)),
            Start::Zero | Start::C => [s.splat(0.0); N],
        };
        let add_c = matches!(start, Start::C | Start::CAndBias(_));
        for (i, sums) in sums.into_iter().enumerate() {
            for (j, sum) in sums.into_iter().enumerate() {
                let to = c.add(i * ldc + j * S::LANES);
                let sum = s.add(sum, bias[j]);
                let sum = if add_c { s.add(load(c.add(i * ldc), j), sum) } else { sum };
                if TAIL && j == N - 1 {
                    s.store_part(sum, std::slice::from_raw_parts_mut(to, tail));
                } else {
                    s.store_at(sum, to);
                }
            }
        }
    }
    M
}

kernel! {
    /// Packs the transpose of `w` (n, k), row-major with leading dimension `ld`, into panels: what [`gemm()`] needs for
    /// x · wᵀ. Panel p holds rows p · panel and on of `w`; `packed` may be some of the panels, from `from` on.
    pub fn pack_transposed(s, w: &[f32], ld: usize, shape: [usize; 2], packed: &mut [f32], from: usize) {
        let ([k, n], panel) = (shape, 2 * S::LANES);
        for (p, out) in packed.chunks_exact_mut(k * panel).enumerate() {
            let first = (from + p) * panel;
            let width = panel.min(n.saturating_sub(first));
            if width < panel {
                out.fill(0.0);
            }
            for j in (0..width).step_by(S::LANES) {
                for i in (0..k).step_by(S::LANES) {
                    let (w, out) = (&w[(first + j) * ld + i..], &mut out[i * panel + j..]);
                    if width - j >= S::LANES && k - i >= S::LANES {
                        s.transpose(w, ld, out, panel);
                    } else {
                        transpose_part([(k - i).min(S::LANES), (width - j).min(S::LANES)], w, ld, out, panel);
                    }
                }
            }
        }
    }
}

/// `to[i · ld_to + j] = from[j · ld + i]` for fewer rows or columns than a vector has lanes.
fn transpose_part([k, n]: [usize; 2], from: &[f32], ld: usize, to: &mut [f32], ld_to: usize) {
    for j in 0..n {
        for i in 0..k {
            to[i * ld_to + j] = from[j * ld + i];
        }
    }
}

/// Packs `w` (k, n), row-major with leading dimension `ld`, into panels; `packed` may be some of the panels, from `from`
/// on. Row by row, so that memory is read in long stretches.
pub fn pack_rows(w: &[f32], ld: usize, [k, n]: [usize; 2], panel: usize, packed: &mut [f32], from: usize) {
    let first = from * panel;
    let width = n.saturating_sub(first).min(packed.len() / k.max(1));
    for i in 0..k {
        for (p, numbers) in w[i * ld + first..][..width].chunks(panel).enumerate() {
            let to = &mut packed[(p * k + i) * panel..][..panel];
            to[..numbers.len()].copy_from_slice(numbers);
            to[numbers.len()..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    /// Against a plain sum in f64, for shapes around every edge of the tiles, both layouts of A and of B, all starts.
    #[test]
    fn equals_the_plain_sum_at_every_edge() {
        for level in Level::available() {
            for (m, n, k) in
                [(1, 1, 1), (8, 32, 7), (9, 33, 3), (15, 16, 20), (3, 70, 600), (140, 5, 2), (7, 48, 1100), (4, 4, 0)]
            {
                for variant in 0..16 {
                    let (transposed, packed, start) = (variant % 2 == 1, variant / 2 % 2 == 1, variant / 4);
                    let (lda, ldb, ldc) = (if transposed { m } else { k } + 3, n + 5, n + 2);
                    let a = random(1, lda * if transposed { k } else { m });
                    let (b, bias) = (random(2, ldb * k), random(3, n));
                    let mut c = random(4, ldc * m);
                    let lhs = if transposed { Lhs::transposed(&a, lda) } else { Lhs::rows(&a, lda) };
                    let at = |i: usize, l: usize| a[i * lhs.row + l * lhs.col];
                    let before = c.clone();
                    let mut panels = vec![7.0; packed_len(k, n, level.panel())];
                    if k > 0 {
                        pack_rows(&b, ldb, [k, n], level.panel(), &mut panels, 0);
                    }
                    let rhs = if packed { Rhs::Panels(&panels) } else { Rhs::Rows(&b, ldb) };
                    let from = [Start::Zero, Start::Bias(&bias), Start::C, Start::CAndBias(&bias)][start];
                    gemm(level, [m, n, k], lhs, rhs, from, &mut c, ldc);
                    for i in 0..m {
                        for j in 0..ldc {
                            let got = f64::from(c[i * ldc + j]);
                            if j >= n {
                                assert_eq!(c[i * ldc + j], before[i * ldc + j], "wrote beside C");
                                continue;
                            }
                            let first = [0.0, bias[j], before[i * ldc + j], before[i * ldc + j] + bias[j]][start];
                            let want: f64 = f64::from(first)
                                + (0..k).map(|l| f64::from(at(i, l)) * f64::from(b[l * ldb + j])).sum::<f64>();
                            assert!((got - want).abs() < 1e-4, "{level:?} {m} {n} {k} {variant}: {got} {want}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_of_the_rows_has_the_same_bits_as_the_whole() {
        for level in Level::available() {
            let (m, n, k) = (37, 40, 700);
            let (a, b) = (random(1, m * k), random(2, k * n));
            let run = |rows: std::ops::Range<usize>| {
                let mut c = vec![0.0; rows.len() * n];
                let shape = [rows.len(), n, k];
                gemm(level, shape, Lhs::rows(&a[rows.start * k..], k), Rhs::Rows(&b, n), Start::Zero, &mut c, n);
                c
            };
            let whole = run(0..m);
            for cut in [1, 5, 8, 19] {
                assert_eq!(whole, [run(0..cut), run(cut..m)].concat(), "{level:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn packing_by_parts_equals_packing_at_once() {
        for level in Level::available() {
            let (k, n, panel) = (21, 70, level.panel());
            let w = random(5, n * k);
            let t: Vec<f32> = (0..k * n).map(|i| w[i % n * k + i / n]).collect(); // (k, n)
            let (mut a, mut b) = (vec![1.0; packed_len(k, n, panel)], vec![2.0; packed_len(k, n, panel)]);
            pack_transposed(level, &w, k, [k, n], &mut a, 0);
            pack_rows(&t, n, [k, n], panel, &mut b, 0);
            assert_eq!(a, b);
            let mut parts = vec![3.0; a.len()];
            let (one, two) = parts.split_at_mut(k * panel);
            pack_transposed(level, &w, k, [k, n], one, 0);
            pack_transposed(level, &w, k, [k, n], two, 1);
            assert_eq!(a, parts);
        }
    }
}
