//! An RMSNorm of each head of queries and keys, as in Qwen3 (Dehghani et al., 2023, had LayerNorm there): in place, with
//! one scale for all heads of queries and one for those of keys.
//!
//! In each row the heads of queries lie side by side, then those of keys; what follows them is left alone.

use super::{
    norm::{inverse_rms, mean_along},
    simd::kernel,
};

kernel! {
    /// x / √(mean of x² + eps) · weight in place, for as many `heads` of queries and keys in each row of `x`, `ld` apart.
    /// `normal`, rows `ld_normal` apart, takes x / √…, and `inverse` 1 / √… head by head, for the backward pass.
    pub fn norm_heads(
        s,
        heads: [usize; 2],
        weights: [&[f32]; 2],
        eps: f32,
        ld: usize,
        x: &mut [f32],
        ld_normal: usize,
        normal: &mut [f32],
        inverse: &mut [f32],
    ) {
        let (all, width) = (heads[0] + heads[1], weights[0].len());
        let rows = x.chunks_mut(ld).zip(normal.chunks_mut(ld_normal)).zip(inverse.chunks_exact_mut(all));
        for ((x, normal), inverse) in rows {
            let parts = x.chunks_exact_mut(width).zip(normal.chunks_exact_mut(width)).zip(inverse);
            for (head, ((x, normal), inverse)) in parts.enumerate() {
                let weight = weights[usize::from(head >= heads[0])];
                *inverse = inverse_rms(s, x, eps);
                s.along(width, #[inline(always)] |i, len| {
                    let v = s.mul(s.get(x, i, len), s.splat(*inverse));
                    s.put(v, normal, i, len);
                    s.put(s.mul(v, s.get(weight, i, len)), x, i, len);
                });
            }
        }
    }
}

kernel! {
    /// Takes the gradient of what [`norm_heads`] made, in `d`, to that of what it was given, in place.
    pub fn norm_heads_backward(
        s,
        heads: [usize; 2],
        weights: [&[f32]; 2],
        ld: usize,
        d: &mut [f32],
        ld_normal: usize,
        normal: &[f32],
        inverse: &[f32],
    ) {
        let (all, width) = (heads[0] + heads[1], weights[0].len());
        for ((d, normal), inverse) in d.chunks_mut(ld).zip(normal.chunks(ld_normal)).zip(inverse.chunks_exact(all)) {
            let parts = d.chunks_exact_mut(width).zip(normal.chunks_exact(width)).zip(inverse);
            for (head, ((d, normal), inverse)) in parts.enumerate() {
                let weight = weights[usize::from(head >= heads[0])];
                let along = s.splat(mean_along(s, d, weight, normal));
                s.along(width, #[inline(always)] |i, len| {
                    let v = s.mul(s.get(d, i, len), s.get(weight, i, len));
                    let v = s.sub(v, s.mul(s.get(normal, i, len), along));
                    s.put(s.mul(v, s.splat(*inverse)), d, i, len);
                });
            }
        }
    }
}

kernel! {
    /// Adds the gradients of the weights, summed row by row and head by head, given that of what [`norm_heads`] made.
    pub fn norm_heads_weights_backward(
        s,
        heads: [usize; 2],
        ld: usize,
        d: &[f32],
        ld_normal: usize,
        normal: &[f32],
        dweights: [&mut [f32]; 2],
    ) {
        let (all, width) = (heads[0] + heads[1], dweights[0].len());
        for (d, normal) in d.chunks(ld).zip(normal.chunks(ld_normal)) {
            let parts = d.chunks_exact(width).zip(normal.chunks_exact(width)).take(all);
            for (head, (d, normal)) in parts.enumerate() {
                let sum = &mut *dweights[usize::from(head >= heads[0])];
                s.along(width, #[inline(always)] |i, len| {
                    s.put(s.mul_add(s.get(d, i, len), s.get(normal, i, len), s.get(sum, i, len)), sum, i, len);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    const EPS: f32 = 0.01; // large enough to be seen

    /// One head by the formula, in f64.
    fn reference(x: &[f64], w: &[f64]) -> Vec<f64> {
        let rms = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + f64::from(EPS)).sqrt();
        x.iter().zip(w).map(|(x, w)| x / rms * w).collect()
    }

    /// Forward against the formula, backward against central differences of it.
    #[test]
    fn equals_the_formula_and_its_derivative() {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        for level in Level::available() {
            for (width, heads) in [(1, [1, 1]), (5, [4, 2]), (16, [2, 1]), (20, [1, 1]), (32, [3, 3])] {
                let (rows, all) = (3, heads[0] + heads[1]);
                let (ld, ld_normal) = (all * width + 7, all * width + 2); // what follows is shorter and longer than a head
                let (before, w) = (random(1, rows * ld), [random(2, width), random(3, width)]);
                let weights = [&w[0][..], &w[1][..]];
                let (mut x, mut normal, mut inverse) =
                    (before.clone(), vec![0.0; rows * ld_normal], vec![0.0; rows * all]);
                norm_heads(level, heads, weights, EPS, ld, &mut x, ld_normal, &mut normal, &mut inverse);
                let upstream = random(4, rows * ld);
                let (mut d, mut dw) = (upstream.clone(), [vec![1.0; width], vec![2.0; width]]);
                let [dq, dk] = &mut dw;
                norm_heads_weights_backward(level, heads, ld, &d, ld_normal, &normal, [dq, dk]);
                norm_heads_backward(level, heads, weights, ld, &mut d, ld_normal, &normal, &inverse);

                let mut dw64 = [vec![1.0; width], vec![2.0; width]];
                for (row, head) in (0..rows).flat_map(|row| (0..all).map(move |head| (row, head))) {
                    let (at, kind) = (row * ld + head * width, usize::from(head >= heads[0]));
                    let (x64, w64) = (wide(&before[at..at + width]), wide(&w[kind]));
                    let loss = |x: &[f64], w: &[f64]| -> f64 {
                        reference(x, w).iter().zip(&upstream[at..]).map(|(y, d)| y * f64::from(*d)).sum()
                    };
                    let slope = |f: &dyn Fn(f64) -> f64| (f(1e-5) - f(-1e-5)) / 2e-5;
                    let nudged = |v: &[f64], j: usize, by: f64| {
                        let mut v = v.to_vec();
                        v[j] += by;
                        v
                    };
                    for (j, want) in reference(&x64, &w64).into_iter().enumerate() {
                        assert!((f64::from(x[at + j]) - want).abs() < 1e-5, "{level:?} {width} {head}");
                        let (got, want) = (f64::from(d[at + j]), slope(&|e| loss(&nudged(&x64, j, e), &w64)));
                        assert!((got - want).abs() < 1e-4 * (1.0 + want.abs()), "{level:?} {width}: {got} {want}");
                        dw64[kind][j] += slope(&|e| loss(&x64, &nudged(&w64, j, e)));
                    }
                }
                for (got, want) in dw.iter().flatten().zip(dw64.iter().flatten()) {
                    assert!((f64::from(*got) - want).abs() < 1e-4, "{level:?} {width}: {got} {want}");
                }
                for row in 0..rows {
                    let rest = row * ld + all * width..(row + 1) * ld;
                    assert_eq!((&x[rest.clone()], &d[rest.clone()]), (&before[rest.clone()], &upstream[rest]));
                }
            }
        }
    }
}
