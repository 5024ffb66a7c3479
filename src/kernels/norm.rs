//! LayerNorm (Ba et al., 2016) and RMSNorm (Zhang and Sennrich, 2019) of rows, and their backward passes. Both leave the
//! same for those: the normalised rows, and by what each was multiplied.

use super::simd::{Simd, kernel};

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

/// 1 / √(mean of x² + eps) over one row.
#[inline(always)]
pub(super) fn inverse_rms<S: Simd>(s: S, x: &[f32], eps: f32) -> f32 {
    let sum = sum_over(
        s,
        x.len(),
        #[inline(always)]
        |i, len| {
            let v = s.get(x, i, len);
            s.mul(v, v)
        },
    );
    1.0 / (sum / x.len() as f32 + eps).sqrt()
}

/// The mean of dy · weight · normal over one row: how far a gradient points along the row itself, where no norm lets it go.
#[inline(always)]
pub(super) fn mean_along<S: Simd>(s: S, dy: &[f32], weight: &[f32], normal: &[f32]) -> f32 {
    let sum = sum_over(
        s,
        dy.len(),
        #[inline(always)]
        |i, len| s.mul(s.mul(s.get(dy, i, len), s.get(weight, i, len)), s.get(normal, i, len)),
    );
    sum / dy.len() as f32
}

kernel! {
    /// y = (x - mean) / √(variance + eps) · weight + bias over each row of `width` numbers; all matrices are (rows, ld).
    /// `normal` takes (x - mean) / √… and `inverse` 1 / √… per row, for the backward pass.
    pub fn layer_norm(
        s,
        width: usize,
        ld: usize,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        eps: f32,
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
            *inverse = 1.0 / (variance + eps).sqrt();
            s.along(width, #[inline(always)] |i, len| {
                let v = s.mul(s.get(normal, i, len), s.splat(*inverse));
                s.put(v, normal, i, len);
                s.put(affine(s, v, weight, bias, i, len), y, i, len);
            });
        }
    }
}

kernel! {
    /// y = x / √(mean of x² + eps) · weight over each row of `width` numbers; all matrices are (rows, ld). `normal` takes
    /// x / √… and `inverse` 1 / √… per row, for the backward pass.
    pub fn rms_norm(
        s,
        width: usize,
        ld: usize,
        x: &[f32],
        weight: &[f32],
        eps: f32,
        normal: &mut [f32],
        inverse: &mut [f32],
        y: &mut [f32],
    ) {
        let rows = x.chunks(ld).zip(normal.chunks_mut(ld)).zip(y.chunks_mut(ld)).zip(inverse);
        for (((x, normal), y), inverse) in rows {
            *inverse = inverse_rms(s, &x[..width], eps);
            s.along(width, #[inline(always)] |i, len| {
                let v = s.mul(s.get(x, i, len), s.splat(*inverse));
                s.put(v, normal, i, len);
                s.put(s.mul(v, s.get(weight, i, len)), y, i, len);
            });
        }
    }
}

kernel! {
    /// y = normal · weight + bias again, from what [`layer_norm`] or [`rms_norm`] left.
    pub fn norm_again(
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
    /// Adds the gradient with respect to x to `dx`, given that of y and what [`rms_norm`] left.
    pub fn rms_norm_backward(
        s,
        width: usize,
        ld: usize,
        dy: &[f32],
        normal: &[f32],
        inverse: &[f32],
        weight: &[f32],
        dx: &mut [f32],
    ) {
        for (((dy, normal), dx), inverse) in dy.chunks(ld).zip(normal.chunks(ld)).zip(dx.chunks_mut(ld)).zip(inverse) {
            let along = s.splat(mean_along(s, &dy[..width], weight, normal));
            s.along(width, #[inline(always)] |i, len| {
                let v = s.mul(s.get(dy, i, len), s.get(weight, i, len));
                let v = s.sub(v, s.mul(s.get(normal, i, len), along));
                s.put(s.mul_add(v, s.splat(*inverse), s.get(dx, i, len)), dx, i, len);
            });
        }
    }
}

kernel! {
    /// Adds the gradients with respect to weight and bias of either norm, summed row by row.
    pub fn weights_backward(
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

    const EPS: f32 = 0.01; // large enough to be seen

    /// Either norm of one row by its formula.
    fn reference(centred: bool, x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let mean = if centred { x.iter().sum::<f64>() / n } else { 0.0 };
        let std = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n + f64::from(EPS)).sqrt();
        x.iter().zip(w).zip(b).map(|((x, w), b)| (x - mean) / std * w + b).collect()
    }

    /// Forward against the formula, backward against central differences of it, in f64.
    fn equals_the_formula_and_its_derivative(centred: bool) {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        for level in Level::available() {
            for width in [1, 5, 16, 40] {
                let (ld, rows) = (width + 3, 3);
                let (x, w) = (random(1, ld * rows), random(2, width));
                let b = if centred { random(3, width) } else { vec![0.0; width] };
                let (mut normal, mut inverse) = (vec![0.0; ld * rows], vec![0.0; rows]);
                let (mut y, mut again) = (vec![0.0; ld * rows], vec![0.0; ld * rows]);
                let (dy, mut dx) = (random(4, ld * rows), vec![1.0; ld * rows]);
                if centred {
                    layer_norm(level, width, ld, &x, &w, Some(&b), EPS, &mut normal, &mut inverse, &mut y);
                    layer_norm_backward(level, width, ld, &dy, &normal, &inverse, &w, &mut dx);
                } else {
                    rms_norm(level, width, ld, &x, &w, EPS, &mut normal, &mut inverse, &mut y);
                    rms_norm_backward(level, width, ld, &dy, &normal, &inverse, &w, &mut dx);
                }
                norm_again(level, width, ld, &normal, &w, centred.then_some(&b), &mut again);
                assert_eq!(y, again);
                let (mut dw, mut db) = (vec![0.0; width], vec![0.0; width]);
                weights_backward(level, ld, &dy, &normal, &mut dw, Some(&mut db));
                let (w64, b64) = (wide(&w), wide(&b));
                let loss = |x: &[f64], w: &[f64], b: &[f64], row: usize| -> f64 {
                    reference(centred, x, w, b).iter().zip(&dy[row * ld..]).map(|(y, d)| y * f64::from(*d)).sum()
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
                    for (j, want) in reference(centred, &x64, &w64, &b64).into_iter().enumerate() {
                        assert!((f64::from(y[row * ld + j]) - want).abs() < 1e-5);
                        let want = 1.0 + slope(&|e| loss(&nudged(&x64, j, e), &w64, &b64, row));
                        let got = f64::from(dx[row * ld + j]);
                        assert!((got - want).abs() < 1e-4 * (1.0 + want.abs()), "{level:?} {width} {j}: {got} {want}");
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

    #[test]
    fn a_layer_norm_is_its_formula_and_derivative() {
        equals_the_formula_and_its_derivative(true);
    }

    #[test]
    fn an_rms_norm_is_its_formula_and_derivative() {
        equals_the_formula_and_its_derivative(false);
    }
}
