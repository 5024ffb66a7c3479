//! One update of a matrix by Muon (Jordan et al., 2024, "Muon: An optimizer for hidden layers in neural networks"): the
//! matrix nearest to Nesterov's momentum whose singular values are all about 1, found by Newton–Schulz iterations, which
//! are matrix products alone.
//!
//! Its author's coefficients are chosen for a steep start, so that small singular values come up in few iterations; they
//! do not converge to 1 but stay between 0.68 and 1.13. In f32, where the author computes in bf16.
//!
//! An update's size is that of AdamW's: entries of an orthogonal (rows, cols) have a root mean square of 1/√max(rows,
//! cols), and AdamW's updates one of 0.2 to 0.4, so with a factor of 0.2·√max(rows, cols) both get on with the same
//! learning rate and weight decay (Liu et al., 2025, "Muon is Scalable for LLM Training", section 2.2).

use super::{
    Buffer, FAINTEST, Level,
    gemm::{Lhs, Rhs, Start, gemm},
    pointwise,
    simd::kernel,
};

/// a, b and c of an iteration: X becomes a·X + (b·A + c·A²)·X, where A = X·Xᵀ.
pub const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// How many iterations are taken.
pub const ITERATIONS: usize = 5;

/// What is added to the Frobenius norm that an update is divided by first, so that it never divides by 0.
pub const EPS: f64 = 1e-7;

/// What an orthogonalised update of that shape is multiplied with, beside the learning rate.
pub fn scale(rows: usize, cols: usize) -> f64 {
    0.2 * (rows.max(cols) as f64).sqrt()
}

/// The numbers of one update, the same for all matrices.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// What gradients are multiplied with first: below 1 where their norm is clipped.
    pub clip: f32,
    /// Decay of the momentum.
    pub momentum: f32,
    /// The learning rate.
    pub lr: f64,
    /// 1 - lr · weight decay
    pub keep: f32,
}

/// How many numbers the room for some matrices has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    long: usize,
    square: usize,
}

impl Size {
    /// Enough for each of those (rows, cols).
    pub fn of(shapes: impl IntoIterator<Item = [usize; 2]>) -> Self {
        shapes.into_iter().fold(Self::default(), |size, [rows, cols]| {
            let (long, short) = (rows.max(cols), rows.min(cols));
            Self { long: size.long.max(long * stride(short)), square: size.square.max(short * stride(short)) }
        })
    }
}

/// Room to update one matrix at a time. Matrices stand in it upright, with at least as many rows as columns: so both
/// products with them read rows, and none needs a transposed copy.
pub struct Scratch {
    x: Buffer,
    y: Buffer,
    gram: Buffer,
    polynomial: Buffer,
}

impl Scratch {
    /// Room of a size.
    pub fn new(size: Size) -> Self {
        let [long, square] = [size.long, size.square];
        Self {
            x: Buffer::zeros(long),
            y: Buffer::zeros(long),
            gram: Buffer::zeros(square),
            polynomial: Buffer::zeros(square),
        }
    }

    /// Bytes that it allocates.
    pub fn bytes(size: Size) -> usize {
        2 * Buffer::bytes(size.long) + 2 * Buffer::bytes(size.square)
    }
}

/// From one row to the next: an odd number of cache lines, so that the rows of a column do not fall into few cache sets.
fn stride(width: usize) -> usize {
    (width.div_ceil(16) | 1) * 16
}

/// Updates a matrix (rows, cols) of weights `p` and its momentum `m` with its gradient `g`:
/// m = μ·m + (1-μ)·g, p = keep·p - lr·scale·orthogonal(μ·m + (1-μ)·g), with g clipped. By one thread.
pub fn muon(
    level: Level,
    r: Rates,
    [rows, cols]: [usize; 2],
    p: &mut [f32],
    g: &[f32],
    m: &mut [f32],
    s: &mut Scratch,
) {
    let (long, short) = (rows.max(cols), rows.min(cols));
    let ld = stride(short);
    let lies = rows < cols;
    let norm = {
        let (u, width) = if lies { (&mut s.y, cols) } else { (&mut s.x, ld) };
        let mut squares = 0.0;
        for ((u, g), m) in u.chunks_mut(width).zip(g.chunks(cols)).zip(m.chunks_mut(cols)) {
            nesterov(level, r.clip, r.momentum, g, m, &mut u[..cols]);
            squares += pointwise::sum_of_squares(level, &u[..cols]);
        }
        squares.sqrt()
    };
    if lies {
        transpose(&s.y, cols, [rows, cols], &mut s.x, ld);
    }
    scale_all(level, (1.0 / (norm + EPS)) as f32, &mut s.x[..long * ld]);
    orthogonalize(level, [long, short], s);
    let step = -(r.lr * scale(rows, cols)) as f32;
    let (u, width) = if lies {
        transpose(&s.x, ld, [long, short], &mut s.y, cols);
        (&s.y, cols)
    } else {
        (&s.x, ld)
    };
    for (p, u) in p.chunks_mut(cols).zip(u.chunks(width)) {
        combine(level, step, &u[..cols], r.keep, p);
    }
}

/// Brings the singular values of X, (long, short) in `s.x`, which are at most 1, to about 1.
fn orthogonalize(level: Level, [long, short]: [usize; 2], s: &mut Scratch) {
    let (ld, [a, b, c]) = (stride(short), COEFFICIENTS.map(|c| c as f32));
    let square = [short, short, short];
    for _ in 0..ITERATIONS {
        let Scratch { x, y, gram, polynomial } = s;
        gemm(level, [short, short, long], Lhs::transposed(x, ld), Rhs::Rows(x, ld), Start::Zero, gram, ld);
        gemm(level, square, Lhs::rows(gram, ld), Rhs::Rows(gram, ld), Start::Zero, polynomial, ld);
        combine(level, b, &gram[..short * ld], c, &mut polynomial[..short * ld]);
        (0..short).for_each(|i| polynomial[i * ld + i] += a);
        gemm(level, [long, short, short], Lhs::rows(x, ld), Rhs::Rows(polynomial, ld), Start::Zero, y, ld);
        std::mem::swap(x, y);
    }
}

kernel! {
    /// m = μm + (1-μ)g, u = μm + (1-μ)g, with g clipped. A momentum that fades without a gradient ends at 0.
    fn nesterov(_s, clip: f32, momentum: f32, g: &[f32], m: &mut [f32], u: &mut [f32]) {
        for ((g, m), u) in g.iter().zip(m).zip(u) {
            let g = (1.0 - momentum) * (clip * g);
            let now = momentum * *m + g;
            *m = if now.abs() < FAINTEST { 0.0 } else { now };
            *u = momentum * *m + g;
        }
    }
}

kernel! {
    /// y = a·x + b·y
    fn combine(_s, a: f32, x: &[f32], b: f32, y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = a * x + b * *y);
    }
}

kernel! {
    /// x *= a
    fn scale_all(_s, a: f32, x: &mut [f32]) {
        x.iter_mut().for_each(|x| *x *= a);
    }
}

/// `to` (cols, rows) becomes the transpose of `from` (rows, cols), in squares that stay in the cache.
fn transpose(from: &[f32], ld: usize, [rows, cols]: [usize; 2], to: &mut [f32], ld_to: usize) {
    const SIDE: usize = 16;
    for i in (0..rows).step_by(SIDE) {
        for j in (0..cols).step_by(SIDE) {
            for j in j..cols.min(j + SIDE) {
                for i in i..rows.min(i + SIDE) {
                    to[j * ld_to + i] = from[i * ld + j];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::random;

    /// The formula as its author writes it, in f64: wide matrices, transposed where they are upright.
    fn plain([rows, cols]: [usize; 2], u: &[f64]) -> Vec<f64> {
        if rows > cols {
            let turned = |[rows, cols]: [usize; 2], x: &[f64]| -> Vec<f64> {
                (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect()
            };
            return turned([cols, rows], &plain([cols, rows], &turned([rows, cols], u)));
        }
        let product = |[m, n, k]: [usize; 3], x: &dyn Fn(usize, usize) -> f64, y: &dyn Fn(usize, usize) -> f64| {
            (0..m * n).map(|i| (0..k).map(|l| x(i / n, l) * y(l, i % n)).sum()).collect::<Vec<f64>>()
        };
        let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt() + EPS;
        let mut x: Vec<f64> = u.iter().map(|u| u / norm).collect();
        let [a, b, c] = COEFFICIENTS;
        for _ in 0..ITERATIONS {
            let gram = product([rows, rows, cols], &|i, k| x[i * cols + k], &|k, j| x[j * cols + k]);
            let square = product([rows; 3], &|i, k| gram[i * rows + k], &|k, j| gram[k * rows + j]);
            let poly: Vec<f64> = gram.iter().zip(square).map(|(g, s)| b * g + c * s).collect();
            let change = product([rows, cols, rows], &|i, k| poly[i * rows + k], &|k, j| x[k * cols + j]);
            x.iter_mut().zip(change).for_each(|(x, change)| *x = a * *x + change);
        }
        x
    }

    #[test]
    fn equals_the_formula_at_every_shape() {
        let shapes = [[1, 1], [1, 7], [7, 1], [5, 5], [33, 20], [20, 33], [64, 16], [48, 100]];
        for level in Level::available() {
            // One room for all, so that what a matrix leaves in it is seen to disturb no other.
            let mut scratch = Scratch::new(Size::of(shapes));
            for shape @ [rows, cols] in shapes {
                let (p0, g, m0) = (random(1, rows * cols), random(2, rows * cols), random(3, rows * cols));
                let (mut p, mut m) = (p0.clone(), m0.clone());
                let r = Rates { clip: 0.5, momentum: 0.9, lr: 0.01, keep: 0.99 };
                muon(level, r, shape, &mut p, &g, &mut m, &mut scratch);
                let m1: Vec<f64> = m0.iter().zip(&g).map(|(&m, &g)| 0.9 * f64::from(m) + 0.05 * f64::from(g)).collect();
                let u: Vec<f64> = m1.iter().zip(&g).map(|(m, &g)| 0.9 * m + 0.05 * f64::from(g)).collect();
                let x = plain(shape, &u);
                for i in 0..rows * cols {
                    let p1 = 0.99 * f64::from(p0[i]) - 0.01 * scale(rows, cols) * x[i];
                    assert!((f64::from(m[i]) - m1[i]).abs() < 1e-6, "{level:?} {shape:?}");
                    assert!((f64::from(p[i]) - p1).abs() < 2e-5, "{level:?} {shape:?}: {} {p1}", p[i]);
                }
            }
        }
    }

    #[test]
    fn no_gradient_is_no_step() {
        let mut scratch = Scratch::new(Size::of([[4, 6]]));
        let (mut p, mut m) = (vec![1.0; 24], vec![0.0; 24]);
        let r = Rates { clip: 1.0, momentum: 0.95, lr: 0.1, keep: 1.0 };
        muon(Level::SCALAR, r, [4, 6], &mut p, &[0.0; 24], &mut m, &mut scratch);
        assert!(p.iter().all(|&p| p == 1.0) && m.iter().all(|&m| m == 0.0));
    }
}
