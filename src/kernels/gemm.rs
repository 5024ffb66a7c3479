//! The matrix product C = A · B + start.
//!
//! Each element of C is the same sum in the same order whatever the tile it falls into, so splitting the rows or the
//! columns of a product among threads, or rows among micro-batches, changes no bit of it.
//!
//! Why not the `gemm` crate: it packs both sides anew at each call, splits k by the cache sizes it finds, and cannot be
//! held to one SIMD level. Here the weights are packed once for many calls, strided operands are read where they are
//! (leading dimensions of an odd number of cache lines keep their rows in different cache sets), and the causal half of
//! attention's products is never computed.
//!
//! Measured on one core of an Emerald Rapids (two 512-bit FMAs a cycle, 168 GFLOP/s at its clock) at the shapes of 6
//! layers of width 384, in GFLOP/s forward, to the input and to the weights: 147, 138, 94 with tiles of 8 by 32; 158,
//! 148, 103 with tiles of 12 by 32, which leave the registers that four vectors need; 157, 152, 144 with operands copied
//! in parts that fit the caches where they are used often enough, by the first tile that reads them. Columns of A lie a
//! row apart, each in a line of its own, and so do rows of B, which for widths of 512 or 768 even fall into few sets of
//! the cache.
//!
//! On a Zen 4, whose peak is 117 (one FMA a cycle), asking for the lines of C at the beginning of a tile and adding C at
//! its end took forward products from 105 to 112. Transposing blocks in registers made packing four times as fast.
//!
//! What did not help on the Emerald Rapids: asking for the next panel of B from within a tile (2 to 7 % slower, for it
//! drives the panel in use from the cache), huge pages (within 4 %), parts 256 deep instead of 384 (145 instead of 155
//! forward), copying panels of B in a pass of its own (3 to 5 % slower where B is small).

use std::mem::MaybeUninit;

use super::{
    Columns, Level,
    pack::packed_len,
    simd::{Simd, kernel},
};

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

/// Rows of A that are walked against one panel of B before the next: with [`DEPTH`] columns they fit the second-level
/// cache. A multiple of every level's [`Simd::ROWS`].
pub const HEIGHT: usize = 120;
/// Columns of A, and rows of a panel of B, that are walked at once: a panel of AVX-512 then has 48 KiB, as some
/// first-level caches. A product in parts of so many, each added to the ones before, has the bits of the whole.
pub const DEPTH: usize = 384;
/// Rows of a panel of B that are asked for ahead while it is copied.
const AHEAD: usize = 24;
/// Rows of A for which a panel of B is worth copying.
const ROWS_TO_COPY: usize = 48;
/// Panels of B for which a part of A is worth copying.
const PANELS_TO_COPY: usize = 4;

/// C (m, n) = A (m, k) · B (k, n) + start. C is row-major with leading dimension `ldc`.
/// Panics where an operand is too short for its shape.
pub fn gemm(level: Level, [m, n, k]: [usize; 3], a: Lhs, b: Rhs, start: Start, c: &mut [f32], ldc: usize) {
    gemm_columns(level, k, a, b, start, Columns::new(c, [m, n], ldc));
}

/// [`gemm()`] into some columns of a matrix; B has as many, and `k` rows.
pub fn gemm_columns(level: Level, k: usize, a: Lhs, b: Rhs, start: Start, c: Columns) {
    let [m, n] = c.shape();
    if m == 0 || n == 0 {
        return;
    }
    check([m, n, k], a, b, start, level.panel());
    let copies = Copies {
        of_a: a.row == 1 && a.col != 1 && n >= PANELS_TO_COPY * level.panel(),
        of_b: matches!(b, Rhs::Rows(..)) && m >= ROWS_TO_COPY,
    };
    if copies.of_a || copies.of_b {
        copying(level, k, a, b, start, c, copies);
    } else {
        reading(level, k, a, b, start, c);
    }
}

kernel! {
    /// The operands are read where they lie: small products, such as attention's, do without touching a new stack.
    fn reading(s, k: usize, a: Lhs, b: Rhs, start: Start, c: Columns) {
        blocks(s, k, a, b, start, c, None);
    }
}

kernel! {
    /// Parts of the operands are copied so that tiles read memory without gaps.
    fn copying(s, k: usize, a: Lhs, b: Rhs, start: Start, c: Columns, copies: Copies) {
        let mut room = Room { strips: [MaybeUninit::uninit(); _], panel: [MaybeUninit::uninit(); _] };
        blocks(s, k, a, b, start, c, Some((copies, &mut room)));
    }
}

/// Which operands are copied.
#[derive(Clone, Copy)]
struct Copies {
    of_a: bool,
    of_b: bool,
}

/// Where to: on the stack, and written before it is read.
#[repr(align(64))]
struct Room {
    /// (rows / ROWS, depth, ROWS)
    strips: [MaybeUninit<f32>; HEIGHT * DEPTH],
    /// (depth, 2 · LANES) at the widest level.
    panel: [MaybeUninit<f32>; DEPTH * 32],
}

#[inline(always)]
fn blocks<S: Simd>(
    s: S,
    k: usize,
    a: Lhs,
    b: Rhs,
    start: Start,
    mut c: Columns,
    mut copies: Option<(Copies, &mut Room)>,
) {
    let ([m, n], (c, ldc)) = (c.shape(), c.raw());
    let panel = 2 * S::LANES;
    let mut first = 0;
    while first < k || first == 0 {
        let depth = DEPTH.min(k - first);
        let start = if first == 0 { start } else { Start::C };
        for top in (0..m).step_by(HEIGHT) {
            let rows = HEIGHT.min(m - top);
            // SAFETY: `check` and `Columns` have seen that all three operands hold the whole shape, of which this is a part.
            unsafe {
                let at = a.data.as_ptr().add(top * a.row + first * a.col);
                let mut a = Strided { at, row: a.row, col: a.col, strip: S::ROWS * a.row };
                if let Some((Copies { of_a: true, .. }, room)) = &mut copies {
                    a = copy_strips::<S>(a, [rows, depth], room.strips.as_mut_ptr().cast());
                }
                for (index, left) in (0..n).step_by(panel).enumerate() {
                    let columns = (n - left).min(panel);
                    let b = match b {
                        Rhs::Rows(data, ld) => Panel { at: data.as_ptr().add(first * ld + left), ld },
                        Rhs::Panels(data) => Panel { at: data.as_ptr().add((index * k + first) * panel), ld: panel },
                    };
                    let copy = match &mut copies {
                        Some((Copies { of_b: true, .. }, room)) => room.panel.as_mut_ptr().cast(),
                        _ => std::ptr::null_mut(),
                    };
                    let bias = match start {
                        Start::Bias(bias) => Start::Bias(&bias[left..]),
                        Start::CAndBias(bias) => Start::CAndBias(&bias[left..]),
                        other => other,
                    };
                    column(s, [rows, columns, depth], a, b, copy, bias, c.add(top * ldc + left), ldc);
                }
            }
        }
        first += depth.max(1);
    }
}

fn check([m, n, k]: [usize; 3], a: Lhs, b: Rhs, start: Start, panel: usize) {
    assert!(k == 0 || a.data.len() > (m - 1) * a.row + (k - 1) * a.col, "A is too short");
    match b {
        Rhs::Rows(data, ld) => assert!(k == 0 || ld >= n && data.len() >= (k - 1) * ld + n, "B is too short"),
        Rhs::Panels(data) => assert!(data.len() >= packed_len(k, n, panel), "packed B is too short"),
    }
    if let Start::Bias(bias) | Start::CAndBias(bias) = start {
        assert!(bias.len() >= n, "the bias is too short");
    }
}

/// A part of A. Rows of a strip of [`Simd::ROWS`] are `row` apart, strips `strip`.
#[derive(Clone, Copy)]
struct Strided {
    at: *const f32,
    row: usize,
    col: usize,
    strip: usize,
}

/// A panel of B: where it begins, and from one row to the next.
#[derive(Clone, Copy)]
struct Panel {
    at: *const f32,
    ld: usize,
}

/// Copies a part of A whose rows lie side by side into strips of (depth, ROWS), column by column, so that memory is read
/// in long stretches.
///
/// # Safety
/// A must hold (rows, depth), and `to` as many numbers, of rows up to a multiple of ROWS.
#[inline(always)]
unsafe fn copy_strips<S: Simd>(a: Strided, [rows, depth]: [usize; 2], to: *mut f32) -> Strided {
    for k in 0..depth {
        for (strip, i) in (0..rows).step_by(S::ROWS).enumerate() {
            // SAFETY: as many numbers as A has from row i on, into the strip's place for them.
            unsafe {
                let (from, to) = (a.at.add(k * a.col + i), to.add((strip * depth + k) * S::ROWS));
                if rows - i >= S::ROWS {
                    to.copy_from_nonoverlapping(from, S::ROWS);
                } else {
                    to.copy_from_nonoverlapping(from, rows - i);
                }
            }
        }
    }
    Strided { at: to, row: 1, col: S::ROWS, strip: S::ROWS * depth }
}

/// One panel's width of C, tile by tile. Where `copy` is not null, the first tile leaves the panel there without gaps,
/// and the others read it.
///
/// # Safety
/// The operands must hold the shape, and `copy`, if any, (depth, 2 · LANES).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn column<S: Simd>(
    s: S,
    [rows, columns, depth]: [usize; 3],
    a: Strided,
    mut b: Panel,
    copy: *mut f32,
    start: Start,
    c: *mut f32,
    ldc: usize,
) {
    let tail = columns % S::LANES;
    let mut i = 0;
    while i < rows {
        // SAFETY: rows i and those of the tile are below `rows`, so within what the caller promised. A tile begins a
        // strip or follows a smaller one in the last.
        unsafe {
            let at = Tile {
                depth,
                a: Strided { at: a.at.add(i / S::ROWS * a.strip + i % S::ROWS * a.row), ..a },
                b,
                copy: if i == 0 { copy } else { std::ptr::null_mut() },
                start,
                c: c.add(i * ldc),
                ldc,
                tail,
            };
            i += match (columns > S::LANES, tail == 0) {
                (true, true) => at.of::<S, 2, false>(s, rows - i),
                (true, false) => at.of::<S, 2, true>(s, rows - i),
                (false, true) => at.of::<S, 1, false>(s, rows - i),
                (false, false) => at.of::<S, 1, true>(s, rows - i),
            };
        }
        if !copy.is_null() {
            b = Panel { at: copy, ld: 2 * S::LANES };
        }
    }
}

/// The operands of a tile of C.
#[derive(Clone, Copy)]
struct Tile<'a> {
    depth: usize,
    a: Strided,
    b: Panel,
    /// Where the panel of B is copied to, if not null.
    copy: *mut f32,
    start: Start<'a>,
    c: *mut f32,
    ldc: usize,
    /// Lanes of the last vector of a row, where not all.
    tail: usize,
}

impl Tile<'_> {
    /// The tallest tile that fits `rows`; returns its height.
    ///
    /// # Safety
    /// As [`Tile::compute`], for as many rows.
    #[inline(always)]
    unsafe fn of<S: Simd, const N: usize, const TAIL: bool>(self, s: S, rows: usize) -> usize {
        // SAFETY: the height is at most `rows`.
        unsafe {
            match (rows, S::ROWS, self.copy.is_null()) {
                (12.., 12, true) => self.compute::<S, 12, N, TAIL, false>(s),
                (12.., 12, false) => self.compute::<S, 12, N, TAIL, true>(s),
                (8.., 12, _) => self.compute::<S, 8, N, TAIL, false>(s),
                (6.., 6, true) => self.compute::<S, 6, N, TAIL, false>(s),
                (6.., 6, false) => self.compute::<S, 6, N, TAIL, true>(s),
                (4.., _, true) => self.compute::<S, 4, N, TAIL, false>(s),
                (4.., _, false) => self.compute::<S, 4, N, TAIL, true>(s),
                (2.., ..) => self.compute::<S, 2, N, TAIL, false>(s),
                _ => self.compute::<S, 1, N, TAIL, false>(s),
            }
        }
    }

    /// The j-th vector of a row of B, C or the bias.
    ///
    /// # Safety
    /// The row must have it: of `tail` lanes where it is the last of N and there is a tail.
    #[inline(always)]
    unsafe fn load<S: Simd, const N: usize, const TAIL: bool>(self, s: S, row: *const f32, j: usize) -> S::V {
        // SAFETY: as the caller promised.
        unsafe {
            if TAIL && j == N - 1 {
                s.load_part(std::slice::from_raw_parts(row.add(j * S::LANES), self.tail))
            } else {
                s.load_at(row.add(j * S::LANES))
            }
        }
    }

    /// The inner loop: M rows and N vectors of C stay in registers over all of `depth`. With `TAIL` the last vector has
    /// only `tail` lanes, with `COPY` the panel of B is copied. Returns M.
    ///
    /// # Safety
    /// A must hold (M, depth), B (depth, columns) and C (M, columns) at their strides, the copy (depth, 2 · LANES).
    #[inline(always)]
    unsafe fn compute<S: Simd, const M: usize, const N: usize, const TAIL: bool, const COPY: bool>(
        self,
        s: S,
    ) -> usize {
        let Self { depth, a, b, mut copy, start, c, ldc, tail } = self;
        // SAFETY: all offsets stay within the shapes of the contract above.
        unsafe {
            // C is needed last: its lines are on their way meanwhile.
            for i in 0..M {
                for j in 0..N {
                    s.prefetch(c.wrapping_add(i * ldc + j * S::LANES));
                }
            }
            let mut sums = [[s.splat(0.0); N]; M];
            let (mut at_a, mut at_b) = (a.at, b.at);
            for _ in 0..depth {
                let mut row = [s.splat(0.0); N];
                for (j, y) in row.iter_mut().enumerate() {
                    *y = self.load::<S, N, TAIL>(s, at_b, j);
                }
                if COPY {
                    for (j, y) in row.into_iter().enumerate() {
                        s.store_at(y, copy.add(j * S::LANES));
                        s.prefetch(at_b.wrapping_add(AHEAD * b.ld + j * S::LANES));
                    }
                    copy = copy.wrapping_add(2 * S::LANES);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = s.splat(*at_a.add(i * a.row));
                    for (sum, y) in sums.iter_mut().zip(row) {
                        *sum = s.mul_add(x, y, *sum);
                    }
                }
                at_a = at_a.wrapping_add(a.col);
                at_b = at_b.wrapping_add(b.ld);
            }
            let bias = match start {
                Start::Bias(bias) | Start::CAndBias(bias) => std::array::from_fn(
                    #[inline(always)]
                    |j| self.load::<S, N, TAIL>(s, bias.as_ptr(), j),
                ),
                Start::Zero | Start::C => [s.splat(0.0); N],
            };
            let add_c = matches!(start, Start::C | Start::CAndBias(_));
            for (i, sums) in sums.into_iter().enumerate() {
                for (j, sum) in sums.into_iter().enumerate() {
                    let to = c.add(i * ldc + j * S::LANES);
                    let sum = s.add(sum, bias[j]);
                    let sum = if add_c { s.add(self.load::<S, N, TAIL>(s, c.add(i * ldc), j), sum) } else { sum };
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{pack::pack_rows, tests::random};

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
}
