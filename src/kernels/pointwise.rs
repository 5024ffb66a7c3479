//! What is done number by number: exponentials, what an MLP does between its matrices, dropout, sums of rows and columns.
//!
//! An MLP's forward pass leaves the slopes that make its backward pass a multiplication.

use super::simd::{Simd, kernel};
use crate::base::rng::DropoutMask;

/// 2⁻⁶⁴
const LEAST: f32 = 1.0 / (1u128 << 64) as f32;

/// 2ˣ - 2⁻⁶⁴, which is 2ˣ from x = -39 on to 2e-7 relative, for x up to 127; 0 where it would be negative, and NaN for NaN.
/// The whole part of x is found by
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
    s.max(s.splat(0.0), s.mul_add(p, s.pow2(n), s.splat(-LEAST)))
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

/// The logistic function σ(x) and its slope, to 3e-7 of either: of exp(-|x|), which never overflows.
#[inline(always)]
fn sigmoid_of<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let e = exp2(s, s.mul(s.abs(x), s.splat(-std::f32::consts::LOG2_E)));
    let above = s.div(s.splat(1.0), s.add(s.splat(1.0), e)); // σ(|x|)
    let below = s.mul(e, above); // σ(-|x|)
    (s.where_positive(x, above, below), s.mul(above, below))
}

/// x·σ(2z) and its slope, where z = √(2/π)·(x + 0.044715·x³): GELU by tanh, since 1 + tanh(z) is 2σ(2z).
#[inline(always)]
fn gelu_tanh_of<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    const LINEAR: f32 = 1.595_769; // 2·√(2/π)
    const CUBIC: f32 = LINEAR * 0.044_715;
    // Beyond ±10 σ is 0 or 1 to rounding; x³ would overflow somewhere. In this order a NaN comes through.
    let near = s.max(s.splat(-10.0), s.min(s.splat(10.0), x));
    let square = s.mul(near, near);
    let z2 = s.mul(near, s.mul_add(square, s.splat(CUBIC), s.splat(LINEAR)));
    let (sigma, slope) = sigmoid_of(s, z2);
    let dz2 = s.mul_add(square, s.splat(3.0 * CUBIC), s.splat(LINEAR));
    (s.mul(x, sigma), s.mul_add(s.mul(near, dz2), slope, sigma))
}

/// x·σ(x), that is SiLU, and its slope.
#[inline(always)]
fn silu_of<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let (sigma, slope) = sigmoid_of(s, x);
    (s.mul(x, sigma), s.mul_add(x, slope, sigma))
}

/// Replaces x by f(x).0; `slope` takes f(x).1.
#[inline(always)]
fn map_with_slope<S: Simd>(s: S, x: &mut [f32], slope: &mut [f32], f: impl Fn(S::V) -> (S::V, S::V)) {
    assert_eq!(x.len(), slope.len());
    let (mut xs, mut slopes) = (x.chunks_exact_mut(S::LANES), slope.chunks_exact_mut(S::LANES));
    for (x, slope) in xs.by_ref().zip(slopes.by_ref()) {
        let (y, dy) = f(s.load(x));
        s.store(y, x);
        s.store(dy, slope);
    }
    let (x, slope) = (xs.into_remainder(), slopes.into_remainder());
    let (y, dy) = f(s.load_part(x));
    s.store_part(y, x);
    s.store_part(dy, slope);
}

/// Replaces x by f(x).0.
#[inline(always)]
fn map<S: Simd>(s: S, x: &mut [f32], f: impl Fn(S::V) -> (S::V, S::V)) {
    let mut xs = x.chunks_exact_mut(S::LANES);
    for x in xs.by_ref() {
        s.store(f(s.load(x)).0, x);
    }
    let rest = xs.into_remainder();
    s.store_part(f(s.load_part(rest)).0, rest);
}

kernel! {
    /// GELU in place; `slope` takes its derivative, for the backward pass.
    pub fn gelu_with_slope(s, x: &mut [f32], slope: &mut [f32]) {
        map_with_slope(s, x, slope, #[inline(always)] |x| gelu_of(s, x));
    }
}

kernel! {
    /// GELU in place.
    pub fn gelu(s, x: &mut [f32]) {
        map(s, x, #[inline(always)] |x| gelu_of(s, x));
    }
}

kernel! {
    /// GELU by tanh in place; `slope` takes its derivative, for the backward pass.
    pub fn gelu_tanh_with_slope(s, x: &mut [f32], slope: &mut [f32]) {
        map_with_slope(s, x, slope, #[inline(always)] |x| gelu_tanh_of(s, x));
    }
}

kernel! {
    /// GELU by tanh in place.
    pub fn gelu_tanh(s, x: &mut [f32]) {
        map(s, x, #[inline(always)] |x| gelu_tanh_of(s, x));
    }
}

kernel! {
    /// The square of relu in place (So et al., 2021). Its slope follows from the result.
    pub fn relu2(s, x: &mut [f32]) {
        map(s, x, #[inline(always)] |x| {
            let above = s.max(s.splat(0.0), x); // in this order a NaN comes through
            (s.mul(above, above), above)
        });
    }
}

kernel! {
    /// dy *= the slope of relu², 2·relu(x), which is 2·√y.
    pub fn relu2_backward(_s, y: &[f32], dy: &mut [f32]) {
        dy.iter_mut().zip(y).for_each(|(dy, y)| *dy *= 2.0 * y.sqrt());
    }
}

kernel! {
    /// SwiGLU (Shazeer, 2020): up = silu(gate) · up. For the backward pass, `gate` takes the slope towards `up`, which is
    /// silu(gate), and `slope` that towards `gate`.
    pub fn swiglu_with_slopes(s, up: &mut [f32], gate: &mut [f32], slope: &mut [f32]) {
        assert!(up.len() == gate.len() && up.len() == slope.len());
        let chunks = up.chunks_mut(S::LANES).zip(gate.chunks_mut(S::LANES)).zip(slope.chunks_mut(S::LANES));
        for ((up, gate), slope) in chunks {
            let len = up.len();
            let x = s.get(up, 0, len);
            let (silu, dsilu) = silu_of(s, s.get(gate, 0, len));
            s.put(s.mul(silu, x), up, 0, len);
            s.put(silu, gate, 0, len);
            s.put(s.mul(dsilu, x), slope, 0, len);
        }
    }
}

kernel! {
    /// SwiGLU: up = silu(gate) · up.
    pub fn swiglu(s, up: &mut [f32], gate: &[f32]) {
        assert_eq!(up.len(), gate.len());
        for (up, gate) in up.chunks_mut(S::LANES).zip(gate.chunks(S::LANES)) {
            let len = up.len();
            s.put(s.mul(silu_of(s, s.get(gate, 0, len)).0, s.get(up, 0, len)), up, 0, len);
        }
    }
}

kernel! {
    /// From the gradient of SwiGLU's output in `d` and the slopes that [`swiglu_with_slopes`] left to those of its inputs:
    /// towards `up` in place of `d`, towards the gate in place of its slope.
    pub fn swiglu_backward(_s, d: &mut [f32], towards_up: &[f32], towards_gate: &mut [f32]) {
        for ((d, up), gate) in d.iter_mut().zip(towards_up).zip(towards_gate) {
            *gate *= *d;
            *d *= up;
        }
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
                let allowed = 3e-7 * want + f64::from(LEAST);
                assert!((f64::from(*y) - want).abs() <= allowed, "{level:?} 2^{x} = {y}");
            }
            let mut ends = [f32::NAN, f32::NEG_INFINITY, 0.0];
            exp2_all(level, &mut ends);
            assert!(ends[0].is_nan() && ends[1] == 0.0 && ends[2] == 1.0, "{level:?} {ends:?}");
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

    /// Central differences of `f`.
    fn slope_of(f: impl Fn(f64) -> f64, x: f64) -> f64 {
        (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    }

    /// Numbers from -12 to 12, and an odd count of them.
    fn numbers() -> Vec<f32> {
        (-203..204).map(|i| i as f32 / 17.0).collect()
    }

    fn silu(x: f64) -> f64 {
        x / (1.0 + (-x).exp())
    }

    #[test]
    fn gelu_by_tanh_and_its_slope_are_close() {
        let gelu = |x: f64| 0.5 * x * (1.0 + (std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        for level in Level::available() {
            let (x, mut y, mut alone) = (numbers(), numbers(), numbers());
            let mut slope = vec![0.0; y.len()];
            gelu_tanh_with_slope(level, &mut y, &mut slope);
            gelu_tanh(level, &mut alone);
            assert_eq!(y, alone);
            for ((&x, &y), &slope) in x.iter().zip(&y).zip(&slope) {
                let x = f64::from(x);
                assert!((f64::from(y) - gelu(x)).abs() < 1e-6 * (1.0 + x.abs()), "{level:?} gelu({x}) = {y}");
                assert!((f64::from(slope) - slope_of(gelu, x)).abs() < 2e-6, "{level:?} slope({x}) = {slope}");
            }
        }
    }

    #[test]
    fn relu_squared_and_its_slope_are_the_formulas() {
        for level in Level::available() {
            let (x, mut y, mut d) = (numbers(), numbers(), vec![3.0; numbers().len()]);
            relu2(level, &mut y);
            relu2_backward(level, &y, &mut d);
            for ((x, y), d) in x.iter().zip(&y).zip(&d) {
                let above = x.max(0.0);
                assert_eq!((*y, *d), (above * above, 6.0 * above), "{level:?} {x}");
            }
        }
    }

    #[test]
    fn swiglu_and_its_slopes_are_close() {
        for level in Level::available() {
            let gates = numbers();
            let ups: Vec<f32> = random(1, gates.len());
            let (mut up, mut gate, mut slope, mut alone) =
                (ups.clone(), gates.clone(), vec![0.0; gates.len()], ups.clone());
            swiglu(level, &mut alone, &gates);
            swiglu_with_slopes(level, &mut up, &mut gate, &mut slope);
            assert_eq!(up, alone);
            let mut d = random(2, gates.len());
            let upstream = d.clone();
            swiglu_backward(level, &mut d, &gate, &mut slope);
            for i in 0..gates.len() {
                let [x, g, dy] = [ups[i], gates[i], upstream[i]].map(f64::from);
                for (what, got, want) in [
                    ("output", up[i], silu(g) * x),
                    ("towards up", d[i], dy * silu(g)),
                    ("towards gate", slope[i], dy * x * slope_of(silu, g)),
                ] {
                    assert!(
                        (f64::from(got) - want).abs() < 1e-5 * (0.1 + want.abs()),
                        "{level:?} {what}: {got}, not {want}"
                    );
                }
            }
        }
    }

    /// A run that diverges has to show it.
    #[test]
    fn what_is_not_finite_stays_so_and_nothing_else_becomes_so() {
        for level in Level::available() {
            for function in [gelu, gelu_tanh, relu2] {
                let mut x = [f32::NAN, 1e12, -1e12, 1e-30, -1e-30, 0.0, 100.0, -100.0, f32::NAN];
                function(level, &mut x);
                assert!(x[0].is_nan() && x[8].is_nan(), "{level:?} {x:?}");
                assert!(x[1..8].iter().all(|x| x.is_finite()), "{level:?} {x:?}");
            }
            let gates = [f32::NAN, 1e12, -1e12, 0.0, 100.0, -100.0, 1.0];
            let (mut up, mut gate, mut slope) = ([1.0; 7], gates, [0.0; 7]);
            swiglu_with_slopes(level, &mut up, &mut gate, &mut slope);
            for numbers in [up, gate, slope] {
                assert!(numbers[0].is_nan() && numbers[1..].iter().all(|x| x.is_finite()), "{level:?} {numbers:?}");
            }
            let mut slope = [0.0; 7];
            gelu_tanh_with_slope(level, &mut gates.clone(), &mut slope);
            assert!(slope[0].is_nan() && slope[1..].iter().all(|x| x.is_finite()), "{level:?} {slope:?}");
        }
    }

    /// They would make every product of theirs a hundred times as slow.
    #[test]
    fn what_falls_off_ends_in_zeros_without_subnormal_numbers() {
        for level in Level::available() {
            let x: Vec<f32> = (-150_000..0).map(|i| i as f32 / 1000.0).collect();
            let mut exponentials = x.clone();
            exp2_all(level, &mut exponentials);
            let mut found = vec![("2^x", exponentials)];
            for (name, function) in [("gelu", gelu as fn(Level, &mut [f32])), ("gelu by tanh", gelu_tanh)] {
                let mut y = x.clone();
                function(level, &mut y);
                found.push((name, y));
            }
            for (name, function) in [
                ("slope of gelu", gelu_with_slope as fn(Level, &mut [f32], &mut [f32])),
                ("by tanh", gelu_tanh_with_slope),
            ] {
                let mut slope = vec![0.0; x.len()];
                function(level, &mut x.clone(), &mut slope);
                found.push((name, slope));
            }
            let (mut up, mut gate, mut slope) = (vec![1.0; x.len()], x.clone(), vec![0.0; x.len()]);
            swiglu_with_slopes(level, &mut up, &mut gate, &mut slope);
            found.extend([("swiglu", up), ("silu", gate), ("slope of silu", slope)]);
            for (name, y) in found {
                let subnormal = x.iter().zip(&y).find(|(_, y)| y.is_subnormal());
                assert_eq!(subnormal, None, "{level:?} {name}");
                assert!(name.contains("tanh") || y[0] == 0.0, "{level:?} {name} at {}: {}", x[0], y[0]);
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
