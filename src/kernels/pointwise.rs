//! What is done number by number: exponentials, GELU with its slope, dropout, sums of rows and columns.

use super::simd::{Simd, kernel};
use crate::base::rng::DropoutMask;

/// 2ˣ to 2e-7 relative for x up to 127; below -126 its value there, and NaN for NaN. The whole part of x is found by
/// adding and taking away a number so large that its last bit is a one's; for the rest, in [-½, ½], stands a polynomial
/// of degree 5 that is exact at 0 and elsewhere within 1.1e-7. Of base 2, since a factor log₂e before it mostly costs nothing.
#[inline(always)]
pub(super) fn exp2<S: Simd>(s: S, x: S::V) -> S::V {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2²³
    let x = s.max(s.splat(-126.0), x); // in this order a NaN comes through
    let n = s.sub(s.add(x, s.splat(ROUND)), s.splat(ROUND));
    let r = s.sub(x, n);
    let p = s.mul_add(s.splat(1.330_060_7e-3), r, s.splat(9.669_691e-3));
    let p = s.mul_add(p, r, s.splat(5.550_558_5e-2));
    let p = s.mul_add(p, r, s.splat(2.402_228_3e-1));
    let p = s.mul_add(p, r, s.splat(std::f32::consts::LN_2));
    let p = s.mul_add(p, r, s.splat(1.0));
    s.mul(p, s.pow2(n))
}

/// x·Φ(x) and its slope Φ(x) + x·φ(x), to 4e-7: Φ by Abramowitz and Stegun 7.1.26, which shares exp(-x²/2) with φ.
#[inline(always)]
fn gelu_of<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let c = |v| s.splat(v);
    let bell = exp2(s, s.mul(s.mul(x, x), c(-0.5 * std::f32::consts::LOG2_E)));
    let t = s.div(c(1.0), s.mul_add(s.abs(x), c(0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2), c(1.0)));
    let p = s.mul_add(c(1.061_405_4), t, c(-1.453_152));
    let p = s.mul_add(p, t, c(1.421_413_8));
    let p = s.mul_add(p, t, c(-0.284_496_72));
    let p = s.mul_add(p, t, c(0.254_829_6));
    let tail = s.mul(s.mul(s.mul(p, t), c(0.5)), bell); // Φ(-|x|)
    let phi = s.where_positive(x, s.sub(c(1.0), tail), tail);
    (s.mul(x, phi), s.mul_add(s.mul(x, bell), c(0.398_942_3), phi))
}

kernel! {
    /// GELU in place; `slope` takes its derivative, for the backward pass.
    pub fn gelu_with_slope(s, x: &mut [f32], slope: &mut [f32]) {
        assert_eq!(x.len(), slope.len());
        let (mut xs, mut slopes) = (x.chunks_exact_mut(S::LANES), slope.chunks_exact_mut(S::LANES));
        for (x, slope) in xs.by_ref().zip(slopes.by_ref()) {
            let (y, dy) = gelu_of(s, s.load(x));
            s.store(y, x);
            s.store(dy, slope);
        }
        let (y, dy) = gelu_of(s, s.load_part(xs.into_remainder()));
        let done = x.len() / S::LANES * S::LANES;
        s.store_part(y, &mut x[done..]);
        s.store_part(dy, slopes.into_remainder());
    }
}

kernel! {
    /// GELU in place.
    pub fn gelu(s, x: &mut [f32]) {
        let mut xs = x.chunks_exact_mut(S::LANES);
        for x in xs.by_ref() {
            s.store(gelu_of(s, s.load(x)).0, x);
        }
        let rest = xs.into_remainder();
        s.store_part(gelu_of(s, s.load_part(rest)).0, rest);
    }
}

kernel! {
    /// y += x
    pub fn add(_s, x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    }
}

kernel! {
    /// y *= x
    pub fn multiply(_s, x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y *= x);
    }
}

kernel! {
    /// y = x · mask, whose first element is that of `index`.
    pub fn drop(_s, mask: DropoutMask, index: u32, x: &[f32], y: &mut [f32]) {
        for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
            *y = x * mask.factor(index.wrapping_add(i as u32));
        }
    }
}

kernel! {
    /// x *= mask, whose first element is that of `index`.
    pub fn drop_in_place(_s, mask: DropoutMask, index: u32, x: &mut [f32]) {
        x.iter_mut().enumerate().for_each(|(i, x)| *x *= mask.factor(index.wrapping_add(i as u32)));
    }
}

kernel! {
    /// y += x · mask, whose first element is that of `index`.
    pub fn add_dropped(_s, mask: DropoutMask, index: u32, x: &[f32], y: &mut [f32]) {
        for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
            *y += x * mask.factor(index.wrapping_add(i as u32));
        }
    }
}

kernel! {
    /// Adds each of the rows of `x` (any, ld), from its first column on, to `sums`, row by row.
    pub fn add_rows(_s, x: &[f32], ld: usize, sums: &mut [f32]) {
        for row in x.chunks(ld) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
}

kernel! {
    /// Σx², in f32 over short stretches, those in f64.
    pub fn sum_of_squares(s, x: &[f32]) -> f64 {
        let mut total = 0.0;
        for stretch in x.chunks(64 * S::LANES) {
            let mut sums = [s.splat(0.0); 4];
            for (i, x) in stretch.chunks(S::LANES).enumerate() {
                let v = s.load_part(x);
                sums[i % 4] = s.mul_add(v, v, sums[i % 4]);
            }
            total += f64::from(s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]))));
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Level, tests::random};

    kernel! {
        fn exp2_all(s, x: &mut [f32]) {
            for x in x.chunks_mut(S::LANES) {
                s.store_part(exp2(s, s.load_part(x)), x);
            }
        }
    }

    #[test]
    fn exp2_is_close_over_its_whole_range_and_keeps_nan() {
        for level in Level::available() {
            let x: Vec<f32> = (-126_000..127_000).map(|i| i as f32 / 1000.0).collect();
            let mut y = x.clone();
            exp2_all(level, &mut y);
            for (x, y) in x.iter().zip(&y) {
                let want = f64::from(*x).exp2();
                assert!((f64::from(*y) / want - 1.0).abs() < 3e-7, "{level:?} 2^{x} = {y}");
            }
            let mut ends = [f32::NAN, f32::NEG_INFINITY, 0.0];
            exp2_all(level, &mut ends);
            assert!(ends[0].is_nan() && ends[1] < 2e-38 && ends[2] == 1.0, "{level:?} {ends:?}");
        }
    }

    /// Φ by Simpson's rule from -12, in f64.
    fn phi(x: f64) -> f64 {
        let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let (n, low) = (4000, -12.0);
        let h = (x - low) / f64::from(n);
        let sum: f64 = (0..=n)
            .map(|i| {
                density(low + h * f64::from(i))
                    * if i == 0 || i == n {
                        1.0
                    } else if i % 2 == 1 {
                        4.0
                    } else {
                        2.0
                    }
            })
            .sum();
        sum * h / 3.0
    }

    #[test]
    fn gelu_and_its_slope_are_close() {
        for level in Level::available() {
            let mut y: Vec<f32> = (-119..120).map(|i| i as f32 / 20.0).collect();
            let (x, mut slope, mut alone) = (y.clone(), vec![0.0; y.len()], y.clone());
            gelu_with_slope(level, &mut y, &mut slope);
            gelu(level, &mut alone);
            assert_eq!(y, alone);
            for ((&x, &y), &slope) in x.iter().zip(&y).zip(&slope) {
                let x = f64::from(x);
                let want = (x * phi(x), phi(x) + x * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt());
                assert!((f64::from(y) - want.0).abs() < 1e-6, "{level:?} gelu({x}) = {y}, not {}", want.0);
                assert!((f64::from(slope) - want.1).abs() < 1e-6, "{level:?} slope({x}) = {slope}, not {}", want.1);
            }
        }
    }

    #[test]
    fn dropout_follows_the_mask_element_by_element() {
        let mask = DropoutMask::new(0.3, 7, 1, 2, 3, 0);
        for level in Level::available() {
            let (x, mut y, mut z) = (random(1, 100), vec![9.0; 100], vec![1.0; 100]);
            drop(level, mask, 50, &x, &mut y);
            add_dropped(level, mask, u32::MAX, &x, &mut z);
            for i in 0..100u32 {
                let x = x[i as usize];
                assert_eq!(y[i as usize], x * mask.factor(50 + i));
                assert_eq!(z[i as usize], 1.0 + x * mask.factor(u32::MAX.wrapping_add(i)));
            }
        }
    }

    #[test]
    fn sums_are_the_plain_ones() {
        for level in Level::available() {
            let x = random(1, 2000);
            let want: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
            assert!((sum_of_squares(level, &x) / want - 1.0).abs() < 1e-6);
            let mut sums = vec![1.0; 7];
            add_rows(level, &x, 20, &mut sums);
            for (j, sum) in sums.iter().enumerate() {
                let want: f32 = 1.0 + (0..100).map(|i| x[i * 20 + j]).sum::<f32>();
                assert!((sum - want).abs() < 1e-4);
            }
        }
    }
}
