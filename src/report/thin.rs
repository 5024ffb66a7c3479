//! Curves of very many points in few, so that what a report needs of memory does not follow their number. Below [`MOST`]
//! points nothing is left out.
//!
//! Of each of [`BINS`] stretches of steps the first, lowest, highest and last value are kept, and the first that is no
//! finite number: what a line through all points would show in a picture that is not as wide as that. So a spike of a
//! single step stays. Runs that are averaged keep the steps that any of them keeps, so that their mean is exact there.

use std::collections::BTreeSet;

use crate::store::Point;

/// So many points a curve has before any is left out.
pub const MOST: u64 = 20_000;

/// Stretches that a longer curve is divided into: more than a picture has pixels across.
const BINS: u64 = 4_000;

/// Picks the steps of a curve, whose points come in ascending steps, that show its shape.
pub struct Steps {
    width: u64,
    kept: BTreeSet<u64>,
    bin: Option<Bin>,
}

/// What is to be kept of the stretch that is being read.
struct Bin {
    number: u64,
    first: u64,
    last: u64,
    low: Option<(f64, u64)>,
    high: Option<(f64, u64)>,
    broken: Option<u64>,
}

impl Steps {
    /// Of curves that go to step `last`.
    pub fn of(last: u64) -> Self {
        Self { width: last.div_ceil(BINS).max(1), kept: BTreeSet::new(), bin: None }
    }

    /// The next point of a curve. A step below the one before begins another curve.
    pub fn see(&mut self, Point { step, value, .. }: Point) {
        let number = step / self.width;
        if self.bin.as_ref().is_none_or(|bin| bin.number != number || step < bin.last) {
            self.close();
            self.bin = Some(Bin { number, first: step, last: step, low: None, high: None, broken: None });
        }
        let Some(bin) = &mut self.bin else { return };
        bin.last = step;
        if !value.is_finite() {
            bin.broken.get_or_insert(step);
        } else {
            bin.low = bin.low.filter(|(low, _)| *low <= value).or(Some((value, step)));
            bin.high = bin.high.filter(|(high, _)| *high >= value).or(Some((value, step)));
        }
    }

    fn close(&mut self) {
        let Some(Bin { first, last, low, high, broken, .. }) = self.bin.take() else { return };
        let extremes = [low, high].into_iter().flatten().map(|(_, step)| step);
        self.kept.extend(extremes.chain([first, last]).chain(broken));
    }

    /// The steps that are kept.
    pub fn kept(mut self) -> BTreeSet<u64> {
        self.close();
        self.kept
    }
}

/// The n of which every n-th of `count` values is to be kept so that no more than [`MOST`] are left: for medians.
pub fn stride(count: u64) -> u64 {
    count.div_ceil(MOST).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(curves: &[Vec<f64>]) -> BTreeSet<u64> {
        let mut steps = Steps::of(curves[0].len() as u64);
        for curve in curves {
            for (step, &value) in (1..).zip(curve) {
                steps.see(Point { step, value, attempt: 1 });
            }
        }
        steps.kept()
    }

    #[test]
    fn of_a_million_points_a_spike_of_a_single_step_stays() {
        let mut curve: Vec<f64> = (0..1_000_000).map(|i| f64::from(i % 97) / 1e3).collect();
        (curve[499_999], curve[123_456], curve[777_776]) = (50.0, -50.0, f64::NAN);
        let kept = kept(&[curve]);
        assert!(kept.len() as u64 <= 5 * (BINS + 1), "{}", kept.len());
        for step in [1, 500_000, 123_457, 777_777, 1_000_000] {
            assert!(kept.contains(&step), "{step}");
        }
    }

    #[test]
    fn what_one_of_several_curves_keeps_all_keep() {
        let flat = vec![1.0; 100_000];
        let mut spiked = flat.clone();
        spiked[54_320] = 9.0;
        assert!(!kept(std::slice::from_ref(&flat)).contains(&54_321));
        assert!(kept(&[flat, spiked]).contains(&54_321));
    }
}
