//! Whether two means differ by more than seeds make: Welch's t, which lets the two scatter differently.

use std::f64::consts::FRAC_PI_2;

use super::numbers::{deviation, mean};

/// The difference of two means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The first mean minus the second.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; `None` where one of the two has a single value, so that its
    /// scatter is not known.
    pub half: Option<f64>,
}

impl Difference {
    /// Whether chance makes such a difference in less than 5 % of cases; `None` where that is not known.
    pub fn is_beyond_chance(self) -> Option<bool> {
        self.half.map(|half| self.mean.abs() > half)
    }
}

/// The mean of `a` minus that of `b`; `None` where one of them is empty.
pub fn difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let half = || {
        let variance = |v: &[f64]| Some(deviation(v)?.powi(2) / v.len() as f64);
        let (va, vb) = (variance(a)?, variance(b)?);
        if va + vb == 0.0 {
            return Some(0.0);
        }
        let share = |v: f64, n: usize| v * v / (n - 1) as f64;
        let freedom = (va + vb).powi(2) / (share(va, a.len()) + share(vb, b.len()));
        Some(critical_t(freedom) * (va + vb).sqrt())
    };
    Some(Difference { mean: mean(a) - mean(b), half: half() })
}

/// The 97.5 % quantile of Student's t, whose degrees of freedom ν need not be whole. For t = √ν / tan φ the density is that
/// of sin(φ)^(ν-1) between 0 and π.
fn critical_t(freedom: f64) -> f64 {
    // Welch's are never below 1, and with more than these the quantile is the normal distribution's to 1 in 1000.
    const MOST: f64 = 1000.0;
    let freedom = freedom.clamp(1.0, MOST);
    let angle = |u: f64| FRAC_PI_2 * u.powi(3); // a power has no slope at 0, and its integral over u hardly a kink
    let density = |u: f64| angle(u).sin().powf(freedom - 1.0) * u.powi(2);
    let below = |u: f64| {
        const PARTS: u32 = 500; // of Simpson's rule
        let weight = |i: u32| if i == 0 || i == PARTS { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
        let step = u / f64::from(PARTS);
        (0..=PARTS).map(|i| weight(i) * density(f64::from(i) * step)).sum::<f64>() * step / 3.0
    };
    let wanted = 0.05 * below(1.0); // 0.025 of the whole, which is twice that up to π/2
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        *(if below(middle) < wanted { &mut low } else { &mut high }) = middle;
    }
    freedom.sqrt() / angle(low).tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_means_with_scatter_are_left_open() {
        let judged = |a: &[f64], b: &[f64]| difference(a, b).and_then(Difference::is_beyond_chance);
        assert_eq!(judged(&[1.60, 1.62, 1.64], &[1.63, 1.65, 1.61]), Some(false));
        assert_eq!(judged(&[1.60, 1.61, 1.62], &[1.70, 1.71, 1.72]), Some(true));
        assert_eq!(judged(&[1.5, 1.5], &[1.5, 1.5]), Some(false));
        assert_eq!(judged(&[1.60], &[1.70, 1.71]), None);
        assert_eq!(difference(&[], &[1.0]), None);
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // Equal variances of 1e-4 with three values each: four degrees of freedom, t = 2.776445.
        let found = difference(&[1.60, 1.61, 1.62], &[1.70, 1.71, 1.72]).unwrap();
        assert!((found.mean + 0.1).abs() < 1e-12);
        assert!((found.half.unwrap() - 2.776445 * (2e-4f64 / 3.0).sqrt()).abs() < 1e-7);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Those of whole degrees stand in every textbook; the others are of t's own density, integrated.
        let known = [
            (1.0, 12.7062),
            (1.18, 8.92854),
            (1.5, 6.01666),
            (2.0, 4.30265),
            (3.0, 3.18245),
            (10.0, 2.22814),
            (30.0, 2.04227),
        ];
        for (freedom, want) in known {
            assert!((critical_t(freedom) / want - 1.0).abs() < 1e-4, "{freedom}: {}", critical_t(freedom));
        }
        assert!((critical_t(1e9) - 1.962).abs() < 1e-3);
    }

    /// By whole degrees of freedom, rounded down, these would be left open.
    #[test]
    fn two_seeds_that_scatter_unalike_can_tell_settings_apart() {
        let found = difference(&[1.9860, 1.9976], &[1.7370, 1.7758]).unwrap();
        assert_eq!(found.is_beyond_chance(), Some(true), "{found:?}");
    }
}
