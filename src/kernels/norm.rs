//! LayerNorm (Ba et al., 2016) and its backward pass.

use super::simd::{Simd, kernel};

/// Added to the variance, as in PyTorch.
const EPS: f32 = 1e-5;

/// Σ f(i, len) over the vectors of a row.
#[inline(always)]
fn sum_over<S: Simd>(s: S, width: usize, mut f: impl FnMut(usize, usize) -> S::V) -> f32 {
    let mut total = s.splat(0.0);
    s.along(
        width,
        #[inline(always)]
        |i, len| total = s.add(total, f(i, len)),
    );
    s.sum(total)
}

kernel! {
    /// y = (x - mean) / std · weight + bias over each row of `width` numbers; all matrices are (rows, ld).
    /// `normal` takes (x - mean) / std and `inverse` 1 / std per row, for the backward pass.
    pub fn layer_norm(
        s,
        width: usize,
        ld: usize,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        normal: &mut [f32],
        inverse: &mut [f32],
        y: &mut [f32],
    ) {
        let n = 1.0 / width as f32;
        let rows = x.chunks(ld).zip(normal.chunks_mut(ld)).zip(y.chunks_mut(ld)).zip(inverse);
        for (((x, normal), y), inverse) in rows {
            let mean = n * sum_over(s, width, #[inline(always)] |i, len| s.get(x, i, len));
            // The centred numbers stand in `normal` meanwhile; beyond the row's end they are 0, not -mean.
            let variance = n * sum_over(s, width, #[inline(always)] |i, len| {
                let centred = s.sub(s.get(x, i, len), s.splat(mean));
                s.put(centred, normal, i, len);
                let centred = if len < S::LANES { s.get(normal, i, len) } else { centred };
                s.mul(centred, centred)
            });
            *inverse = 1.0 / (variance + EPS).sqrt();
            s.along(width, #[inline(always)] |i, len| {
                let v = s.mul(s.get(normal, i, len), s.splat(*inverse));
                s.put(v, normal, i, len);
                s.put(affine(s, v, weight, bias, i, len), y, i, len);
            });
        }
    }
}

kernel! {
    /// y = normal · weight + bias again, from what [`layer_norm`] left.
    pub fn layer_norm_again(
        s,
        width: usize,
        ld: usize,
        normal: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) {
        for (normal, y) in normal.chunks(ld).zip(y.chunks_mut(ld)) {
            s.along(width, #[inline(always)] |i, len| s.put(affine(s, s.get(normal, i, len), weight, bias, i, len), y, i, len));
        }
    }
}

/// v · weight + bias at columns `i` and on.
#[inline(always)]
fn affine<S: Simd>(s: S, v: S::V, weight: &[f32], bias: Option<&[f32]>, i: usize, len: usize) -> S::V {
    let bias = bias.map_or(s.splat(0.0), |b| s.get(b, i, len));
    s.mul_add(v, s.get(weight, i, len), bias)
}

kernel! {
    /// Adds the gradient with respect to x to `dx`, given that of y and what [`layer_norm`] left.
    pub fn layer_norm_backward(
        s,
        width: usize,
        ld: usize,
        dy: &[f32],
        normal: &[f32],
        inverse: &[f32],
        weight: &[f32],
        dx: &mut [f32],
    ) {
        let n = 1.0 / width as f32;
        for (((dy, normal), dx), inverse) in dy.chunks(ld).zip(normal.chunks(ld)).zip(dx.chunks_mut(ld)).zip(inverse) {
            let (mut mean, mut along) = (s.splat(0.0), s.splat(0.0));
            s.along(width, #[inline(always)] |i, len| {
                let v = s.mul(s.get(dy, i, len), s.get(weight, i, len));
                mean = s.add(mean, v);
                along = s.mul_add(v, s.get(normal, i, len), along);
            });
            let (mean, along) = (s.splat(n * s.sum(mean)), s.splat(n * s.sum(along)));
            s.along(width, #[inline(always)] |i, len| {
                let v = s.sub(s.mul(s.get(dy, i, len), s.get(weight, i, len)), mean);
                let v = s.sub(v, s.mul(s.get(normal, i, len), along));
                s.put(s.mul_add(v, s.splat(*inverse), s.get(dx, i, len)), dx, i, len);
            });
        }
    }
}

kernel! {
    /// Adds the gradients with respect to weight and bias, summed row by row.
    pub fn layer_norm_weights_backward(
        s,
        ld: usize,
        dy: &[f32],
        normal: &[f32],
        dweight: &mut [f32],
        dbias: Option<&mut [f32]>,
    ) {
        let (width, mut dbias) = (dweight.len(), dbias);
        for (dy, normal) in dy.chunks(ld).zip(normal.chunks(ld)) {
            s.along(width, #[inline(always)] |i, len| {
                let v = s.get(dy, i, len);
                s.put(s.mul_add(v, s.get(normal, i, len), s.get(dweight, i, len)), dweight, i, len);
                if let Some(dbias) = dbias.as_deref_mut() {
                    s.put(s.add(v, s.get(dbias, i, len)), dbias, i, len);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    fn reference(x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let std = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n + f64::from(EPS)).sqrt();
        x.iter().zip(w).zip(b).map(|((x, w), b)| (x - mean) / std * w + b).collect()
    }

    /// Forward against the formula, backward against central differences of it, in f64.
    #[test]
    fn equals_the_formula_and_its_derivative() {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        for level in Level::available() {
            for width in [1, 5, 16, 40] {
                let (ld, rows) = (width + 3, 3);
                let (x, w, b) = (random(1, ld * rows), random(2, width), random(3, width));
                let (mut normal, mut inverse) = (vec![0.0; ld * rows], vec![0.0; rows]);
                let (mut y, mut again) = (vec![0.0; ld * rows], vec![0.0; ld * rows]);
                layer_norm(level, width, ld, &x, &w, Some(&b), &mut normal, &mut inverse, &mut y);
                layer_norm_again(level, width, ld, &normal, &w, Some(&b), &mut again);
                assert_eq!(y, again);
                let (dy, mut dx) = (random(4, ld * rows), vec![1.0; ld * rows]);
                layer_norm_backward(level, width, ld, &dy, &normal, &inverse, &w, &mut dx);
                let (mut dw, mut db) = (vec![0.0; width], vec![0.0; width]);
                layer_norm_weights_backward(level, ld, &dy, &normal, &mut dw, Some(&mut db));
                let (w64, b64) = (wide(&w), wide(&b));
                let loss = |x: &[f64], w: &[f64], b: &[f64], row: usize| -> f64 {
                    reference(x, w, b).iter().zip(&dy[row * ld..]).map(|(y, d)| y * f64::from(*d)).sum()
                };
                let slope = |f: &dyn Fn(f64) -> f64| (f(1e-5) - f(-1e-5)) / 2e-5;
                let (mut dw64, mut db64) = (vec![0.0; width], vec![0.0; width]);
                for row in 0..rows {
                    let x64 = wide(&x[row * ld..row * ld + width]);
                    let nudged = |v: &[f64], j: usize, by: f64| {
                        let mut v = v.to_vec();
                        v[j] += by;
                        v
                    };
                    for (j, want) in reference(&x64, &w64, &b64).into_iter().enumerate() {
                        assert!((f64::from(y[row * ld + j]) - want).abs() < 1e-5);
                        let want = 1.0 + slope(&|e| loss(&nudged(&x64, j, e), &w64, &b64, row));
                        let got = f64::from(dx[row * ld + j]);
                        assert!((got - want).abs() < 1e-3 * (1.0 + want.abs()), "{level:?} {width} {j}: {got} {want}");
                        dw64[j] += slope(&|e| loss(&x64, &nudged(&w64, j, e), &b64, row));
                        db64[j] += slope(&|e| loss(&x64, &w64, &nudged(&b64, j, e), row));
                    }
                }
                for j in 0..width {
                    assert!((f64::from(dw[j]) - dw64[j]).abs() < 1e-3, "{level:?} {width}");
                    assert!((f64::from(db[j]) - db64[j]).abs() < 1e-3, "{level:?} {width}");
                }
            }
        }
    }
}
