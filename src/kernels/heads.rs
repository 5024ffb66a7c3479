//! What queries and keys go through before they meet, in place: an RMSNorm of each head, as in Qwen3 (Dehghani et al., 2023,
//! had LayerNorm there), with one scale for all heads of queries and one for those of keys; and rotary positions (Su et
//! al., 2021).
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

/// Which way heads are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By their position's angles.
    On,
    /// By the negative ones: that undoes it, and takes the gradient of what was rotated to that of what it was.
    Back,
}

kernel! {
    /// Rotates the first `heads` of `width` numbers in each row of `x`, `ld` apart. The numbers at j and j + width/2 are a
    /// pair, as in HF's Llama. `tables` are the cosines and sines of the angles, (context, width/2) each. The rows are the
    /// positions `first` and on up to the context's end, and then from 0 again.
    pub fn rotate(
        s,
        tables: [&[f32]; 2],
        width: usize,
        first: usize,
        context: usize,
        heads: usize,
        ld: usize,
        x: &mut [f32],
        way: Way,
    ) {
        let (half, sign) = (width / 2, s.splat(if way == Way::Back { -1.0 } else { 1.0 }));
        for (row, x) in x.chunks_mut(ld).enumerate() {
            let at = (first + row) % context * half;
            let [cos, sin] = tables.map(#[inline(always)] |t| &t[at..at + half]);
            for head in x[..heads * width].chunks_exact_mut(width) {
                let (a, b) = head.split_at_mut(half);
                s.along(half, #[inline(always)] |i, len| {
                    let (c, d) = (s.get(cos, i, len), s.mul(sign, s.get(sin, i, len)));
                    let (x, y) = (s.get(a, i, len), s.get(b, i, len));
                    s.put(s.sub(s.mul(x, c), s.mul(y, d)), a, i, len);
                    s.put(s.add(s.mul(y, c), s.mul(x, d)), b, i, len);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    /// Cosines and sines of p · 500^(-2j/width).
    fn angles(context: usize, width: usize) -> [Vec<f32>; 2] {
        let half = width / 2;
        let angle = |i: usize| (i / half) as f64 * f64::powf(500.0, -2.0 * (i % half) as f64 / width as f64);
        [f64::cos, f64::sin].map(|f: fn(f64) -> f64| (0..context * half).map(|i| f(angle(i)) as f32).collect())
    }

    /// Against the formula of each pair: x·cos + rotate_half(x)·sin.
    #[test]
    fn a_rotation_is_its_formula_and_back_undoes_it() {
        for level in Level::available() {
            for (width, heads, context) in [(2, 1, 3), (6, 2, 5), (32, 3, 4), (36, 1, 9), (64, 2, 2)] {
                let (rows, first, half, ld) = (2 * context, 1, width / 2, heads * width + 3);
                let [cos, sin] = angles(context, width);
                let before = random(1, rows * ld);
                let mut x = before.clone();
                let turn = |x: &mut [f32], way| rotate(level, [&cos, &sin], width, first, context, heads, ld, x, way);
                turn(&mut x, Way::On);
                for (i, got) in x.iter().enumerate() {
                    let (row, column) = (i / ld, i % ld);
                    if column >= heads * width {
                        assert_eq!(*got, before[i], "wrote beside the heads");
                        continue;
                    }
                    let (p, j) = ((first + row) % context, column % half);
                    let angle = p as f64 * f64::powf(500.0, -2.0 * j as f64 / width as f64);
                    let other = if column % width < half { -before[i + half] } else { before[i - half] };
                    let want = f64::from(before[i]) * angle.cos() + f64::from(other) * angle.sin();
                    assert!((f64::from(*got) - want).abs() < 1e-6, "{level:?} {width}: {got}, not {want}");
                }
                turn(&mut x, Way::Back);
                assert!(x.iter().zip(&before).all(|(x, y)| (x - y).abs() < 1e-6), "{level:?} {width}");
            }
        }
    }

    /// The product with what is rotated back is that of what is rotated with what is not: so gradients go back.
    #[test]
    fn back_takes_a_gradient_to_the_input() {
        for level in Level::available() {
            let (width, context) = (20, 7);
            let [cos, sin] = angles(context, width);
            let (x, d) = (random(1, context * width), random(2, context * width));
            let rotated = |x: &[f32], way| {
                let mut x = x.to_vec();
                rotate(level, [&cos, &sin], width, 0, context, 1, width, &mut x, way);
                x
            };
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let (a, b) = (dot(&rotated(&x, Way::On), &d), dot(&x, &rotated(&d, Way::Back)));
            assert!((a - b).abs() < 1e-5, "{level:?} {a} {b}");
        }
    }

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
