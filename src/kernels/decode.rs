//! What one position at a time needs: the product of a row with a matrix, attention to cached keys and values, a norm that
//! leaves nothing for a backward pass.
//!
//! All of it is bound by reading memory. A packed matrix and the keys (W, positions) are read in whole lines from one end
//! to the other, and no vector is summed across its lanes but in a norm and once a head.

use super::{pointwise::exp2, simd::kernel};

kernel! {
    /// y += x·B for one row x of k numbers, and B (k, n) in panels as [`super::pack`] packs them.
    pub fn add_product(s, x: &[f32], panels: &[f32], y: &mut [f32]) {
        let width = 2 * S::LANES;
        for (panel, y) in panels.chunks_exact(x.len() * width).zip(y.chunks_mut(width)) {
            // Eight sums that do not wait for each other.
            let mut sums = [[s.splat(0.0); 2]; 4];
            let (mut rows, mut xs) = (panel.chunks_exact(4 * width), x.chunks_exact(4));
            for (rows, xs) in rows.by_ref().zip(xs.by_ref()) {
                for ((sum, row), x) in sums.iter_mut().zip(rows.chunks_exact(width)).zip(xs) {
                    let x = s.splat(*x);
                    sum[0] = s.mul_add(x, s.load(row), sum[0]);
                    sum[1] = s.mul_add(x, s.load(&row[S::LANES..]), sum[1]);
                }
            }
            for (row, x) in rows.remainder().chunks_exact(width).zip(xs.remainder()) {
                let x = s.splat(*x);
                sums[0][0] = s.mul_add(x, s.load(row), sums[0][0]);
                sums[0][1] = s.mul_add(x, s.load(&row[S::LANES..]), sums[0][1]);
            }
            for (half, y) in y.chunks_mut(S::LANES).enumerate() {
                let sum = s.add(s.add(sums[0][half], sums[1][half]), s.add(sums[2][half], sums[3][half]));
                s.store_part(s.add(s.load_part(y), sum), y);
            }
        }
    }
}

kernel! {
    /// `scores[j]` = scale · q·k for each of the first `scores.len()` keys; `keys` is (W, ld): a key is a column.
    pub fn scores(s, scale: f32, q: &[f32], keys: &[f32], ld: usize, scores: &mut [f32]) {
        let block = 4 * S::LANES;
        for (b, out) in scores.chunks_mut(block).enumerate() {
            let mut sums = [s.splat(0.0); 4];
            for (q, keys) in q.iter().zip(keys.chunks(ld)) {
                let q = s.splat(scale * q);
                let part = &keys[b * block..(b * block + out.len())];
                if out.len() == block {
                    for (sum, key) in sums.iter_mut().zip(part.chunks_exact(S::LANES)) {
                        *sum = s.mul_add(q, s.load(key), *sum);
                    }
                } else {
                    for (sum, key) in sums.iter_mut().zip(part.chunks(S::LANES)) {
                        *sum = s.mul_add(q, s.load_part(key), *sum);
                    }
                }
            }
            for (sum, out) in sums.into_iter().zip(out.chunks_mut(S::LANES)) {
                s.store_part(sum, out);
            }
        }
    }
}

kernel! {
    /// Replaces scores by exp(score - the largest) and returns 1 / Σ of these.
    pub fn exponentials(s, x: &mut [f32]) -> f32 {
        let top = x.iter().fold(f32::NEG_INFINITY, |top, &x| if x > top { x } else { top });
        let (scale, shift) = (s.splat(std::f32::consts::LOG2_E), s.splat(-top * std::f32::consts::LOG2_E));
        let mut sum = s.splat(0.0);
        let mut xs = x.chunks_exact_mut(S::LANES);
        for x in xs.by_ref() {
            let e = exp2(s, s.mul_add(s.load(x), scale, shift));
            s.store(e, x);
            sum = s.add(sum, e);
        }
        let rest = xs.into_remainder();
        let e = exp2(s, s.mul_add(s.load_part(rest), scale, shift));
        s.store_part(e, rest);
        1.0 / (s.sum(sum) + rest.iter().sum::<f32>())
    }
}

kernel! {
    /// out = scale · Σ `weights[j]` · row j of `values`, whose rows are as wide as `out`.
    pub fn gather(s, scale: f32, weights: &[f32], values: &[f32], out: &mut [f32]) {
        let (width, at_once) = (out.len(), 2 * S::LANES);
        for (c, out) in out.chunks_mut(at_once).enumerate() {
            let mut sums = [[s.splat(0.0); 2]; 4];
            for (rows, weights) in values.chunks(4 * width).zip(weights.chunks(4)) {
                for ((row, weight), sum) in rows.chunks(width).zip(weights).zip(&mut sums) {
                    let (row, weight) = (&row[c * at_once..][..out.len()], s.splat(*weight));
                    let first = out.len().min(S::LANES);
                    sum[0] = s.mul_add(weight, s.get(row, 0, first), sum[0]);
                    if out.len() > S::LANES {
                        sum[1] = s.mul_add(weight, s.get(row, S::LANES, out.len() - S::LANES), sum[1]);
                    }
                }
            }
            for (half, out) in out.chunks_mut(S::LANES).enumerate() {
                let sum = s.add(s.add(sums[0][half], sums[1][half]), s.add(sums[2][half], sums[3][half]));
                s.store_part(s.mul(sum, s.splat(scale)), out);
            }
        }
    }
}

kernel! {
    /// y = (x - mean) / √(variance + `eps`) · weight + bias for one row. Not `centred`, the mean counts as 0: an RMSNorm.
    pub fn normalise(s, eps: f32, centred: bool, x: &[f32], weight: &[f32], bias: Option<&[f32]>, y: &mut [f32]) {
        let n = 1.0 / x.len() as f32;
        let mut sum = s.splat(0.0);
        if centred {
            for x in x.chunks(S::LANES) {
                sum = s.add(sum, s.load_part(x));
            }
        }
        let mean = n * s.sum(sum);
        let mut squares = s.splat(0.0);
        for (x, y) in x.chunks(S::LANES).zip(y.chunks_mut(S::LANES)) {
            s.store_part(s.sub(s.load_part(x), s.splat(mean)), y);
            let away = s.load_part(y); // beyond the row's end 0, not -mean
            squares = s.mul_add(away, away, squares);
        }
        let inverse = s.splat(1.0 / (n * s.sum(squares) + eps).sqrt());
        for (y, weight) in y.chunks_mut(S::LANES).zip(weight.chunks(S::LANES)) {
            s.store_part(s.mul(s.mul(s.load_part(y), inverse), s.load_part(weight)), y);
        }
        if let Some(bias) = bias {
            y.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{
        Level,
        pack::{pack_transposed, packed_len},
        tests::random,
    };

    fn wide(x: &[f32]) -> Vec<f64> {
        x.iter().map(|&x| f64::from(x)).collect()
    }

    fn dot(x: &[f64], y: impl Iterator<Item = f64>) -> f64 {
        x.iter().zip(y).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn a_row_times_a_packed_matrix_is_the_plain_product() {
        for level in Level::available() {
            for (k, n) in [(1, 1), (5, 70), (128, 64), (131, 33)] {
                let (x, w, mut y) = (random(1, k), random(2, n * k), random(3, n));
                let mut panels = vec![9.0; packed_len(k, n, level.panel())];
                pack_transposed(level, &w, k, [k, n], &mut panels, 0);
                let before = y.clone();
                add_product(level, &x, &panels, &mut y);
                for (j, got) in y.iter().enumerate() {
                    let want = f64::from(before[j]) + dot(&wide(&x), wide(&w[j * k..(j + 1) * k]).into_iter());
                    assert!((f64::from(*got) - want).abs() < 1e-4, "{level:?} {k} {n} {j}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn attention_to_a_cache_is_the_definition() {
        for level in Level::available() {
            for (width, count, ld) in [(1, 1, 16), (5, 3, 16), (32, 70, 96), (40, 129, 144), (64, 64, 64)] {
                let (q, keys, values) = (random(1, width), random(2, width * ld), random(3, count * width));
                let mut weights = vec![9.0; count];
                scores(level, 0.3, &q, &keys, ld, &mut weights);
                let (q64, k64, v64) = (wide(&q), wide(&keys), wide(&values));
                let want: Vec<f64> = (0..count).map(|j| 0.3 * dot(&q64, (0..width).map(|i| k64[i * ld + j]))).collect();
                assert!(weights.iter().zip(&want).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5), "{level:?}");
                let inverse = exponentials(level, &mut weights);
                let mut out = vec![9.0; width];
                gather(level, inverse, &weights, &values, &mut out);
                let total: f64 = want.iter().map(|x| x.exp()).sum();
                for (i, got) in out.iter().enumerate() {
                    let want = (0..count).map(|j| want[j].exp() / total * v64[j * width + i]).sum::<f64>();
                    assert!((f64::from(*got) - want).abs() < 1e-5, "{level:?} {width} {count} {i}: {got} {want}");
                }
            }
        }
    }

    #[test]
    fn norms_are_their_formulas() {
        for level in Level::available() {
            for width in [1, 7, 16, 50] {
                let (x, weight, bias) = (random(1, width), random(2, width), random(3, width));
                for (centred, bias) in [(true, Some(&bias[..])), (true, None), (false, None)] {
                    let mut y = vec![9.0; width];
                    normalise(level, 1e-3, centred, &x, &weight, bias, &mut y);
                    let x = wide(&x);
                    let mean = if centred { x.iter().sum::<f64>() / width as f64 } else { 0.0 };
                    let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                    for (i, got) in y.iter().enumerate() {
                        let bias = bias.map_or(0.0, |b| f64::from(b[i]));
                        let want = (x[i] - mean) / (square + f64::from(1e-3f32)).sqrt() * f64::from(weight[i]) + bias;
                        assert!((f64::from(*got) - want).abs() < 1e-5, "{level:?} {width} {i}: {got} {want}");
                    }
                }
            }
        }
    }
}
