//! One update by AdamW (Loshchilov and Hutter, 2019) in one pass over memory.

use super::{
    FAINTEST,
    simd::{Simd, kernel},
};

/// The numbers of one update, the same for all weights of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// What gradients are multiplied with first: below 1 where their norm is clipped.
    pub clip: f32,
    /// Decay of the first moment.
    pub beta1: f32,
    /// Decay of the second moment.
    pub beta2: f32,
    /// 1 / √(1 - beta2ᵗ)
    pub unbias2: f32,
    /// Added to the root of the second moment.
    pub eps: f32,
    /// lr / (1 - beta1ᵗ)
    pub step: f32,
    /// 1 - lr · weight decay
    pub keep: f32,
}

/// x, or 0 where it is fainter than [`FAINTEST`]; NaN for NaN.
#[inline(always)]
fn unless_faint<S: Simd>(s: S, x: S::V) -> S::V {
    s.where_positive(s.sub(s.splat(FAINTEST), s.abs(x)), s.splat(0.0), x)
}

kernel! {
    /// m = β₁m + (1-β₁)g, v = β₂v + (1-β₂)g², p = keep·p - step·m / (√v·unbias2 + eps), with g clipped. What fades without
    /// a gradient ends at 0.
    pub fn adamw(s, r: Rates, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        assert!(p.len() == g.len() && p.len() == m.len() && p.len() == v.len());
        let c = |x| s.splat(x);
        let parts = p.chunks_mut(S::LANES).zip(g.chunks(S::LANES)).zip(m.chunks_mut(S::LANES)).zip(v.chunks_mut(S::LANES));
        for (((p, g), m), v) in parts {
            let g_now = s.mul(s.load_part(g), c(r.clip));
            let m_now = s.mul_add(s.load_part(m), c(r.beta1), s.mul(g_now, c(1.0 - r.beta1)));
            let v_now = s.mul_add(s.load_part(v), c(r.beta2), s.mul(s.mul(g_now, g_now), c(1.0 - r.beta2)));
            let spread = s.mul_add(s.sqrt(v_now), c(r.unbias2), c(r.eps));
            let step = s.div(s.mul(m_now, c(r.step)), spread);
            s.store_part(unless_faint(s, s.sub(s.mul(s.load_part(p), c(r.keep)), step)), p);
            s.store_part(unless_faint(s, m_now), m);
            s.store_part(s.max(c(0.0), s.sub(v_now, c(FAINTEST))), v); // in this order a NaN comes through
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    #[test]
    fn what_fades_ends_at_zero_and_a_nan_stays() {
        let r = Rates { clip: 1.0, beta1: 0.5, beta2: 0.5, unbias2: 1.0, eps: 1e-8, step: 1e-3, keep: 0.5 };
        for level in Level::available() {
            let (mut p, g) = (random(1, 37), [0.0; 37]);
            let (mut m, mut v) = (random(2, 37), random(3, 37).iter().map(|x| x * x).collect::<Vec<f32>>());
            (p[5], m[6], v[7]) = (f32::NAN, f32::NAN, f32::NAN);
            for _ in 0..200 {
                adamw(level, r, &mut p, &g, &mut m, &mut v);
                assert!([&p, &m, &v].iter().all(|x| x.iter().all(|x| !x.is_subnormal())), "{level:?}");
            }
            for (i, all) in p.iter().zip(&m).zip(&v).enumerate() {
                let ((p, m), v) = all;
                assert_eq!(
                    [p.is_nan(), m.is_nan(), v.is_nan()],
                    [(5..8).contains(&i), i == 6, i == 7],
                    "{level:?} {i}"
                );
                assert!(i == 6 || *m == 0.0, "{level:?} {m}");
            }
        }
    }

    #[test]
    fn equals_the_formula() {
        let r = Rates { clip: 0.5, beta1: 0.9, beta2: 0.99, unbias2: 3.0, eps: 1e-8, step: 0.01, keep: 0.999 };
        for level in Level::available() {
            let (p0, g, m0) = (random(1, 37), random(2, 37), random(3, 37));
            let v0: Vec<f32> = random(4, 37).iter().map(|x| x * x).collect();
            let (mut p, mut m, mut v) = (p0.clone(), m0.clone(), v0.clone());
            adamw(level, r, &mut p, &g, &mut m, &mut v);
            for i in 0..37 {
                let clipped = 0.5 * g[i];
                let (m1, v1) = (0.9 * m0[i] + 0.1 * clipped, 0.99 * v0[i] + 0.01 * clipped * clipped);
                let p1 = 0.999 * p0[i] - 0.01 * m1 / (v1.sqrt() * 3.0 + 1e-8);
                assert!((m[i] - m1).abs() < 1e-6 && (v[i] - v1).abs() < 1e-6 && (p[i] - p1).abs() < 1e-5, "{level:?}");
            }
        }
    }
}
