//! Whether two means differ by more than seeds make: Welch's t, which lets the two scatter differently.

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

/// The 97.5 % quantile of Student's t, for whole degrees of freedom, rounded down.
fn critical_t(freedom: f64) -> f64 {
    const T: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    match freedom as usize {
        n @ 1..=10 => T[n - 1],
        11..=20 => 2.2,
        21.. => 2.09,
        0 => T[0],
    }
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
        // Equal variances of 1e-4 with three values each: four degrees of freedom, t = 2.78.
        let found = difference(&[1.60, 1.61, 1.62], &[1.70, 1.71, 1.72]).unwrap();
        assert!((found.mean + 0.1).abs() < 1e-12);
        assert!((found.half.unwrap() - 2.78 * (2e-4f64 / 3.0).sqrt()).abs() < 1e-9);
    }
}
