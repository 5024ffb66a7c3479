//! From values to pixels: which scale a set of values asks for, where ticks stand and what they say.

use super::{figure::Scale, numbers};

/// Values that span this many decades are drawn on a logarithmic scale.
const DECADES_FOR_LOG: f64 = 1.5;

/// The scale that the values of a swept setting ask for, ascending: logarithmic where they are positive and either span
/// [`DECADES_FOR_LOG`] or form a geometric sequence; evenly spaced where a zero stands beside values that would;
/// otherwise linear.
pub fn for_values(values: &[f64]) -> Scale {
    let positive: Vec<f64> = values.iter().copied().filter(|&v| v > 0.0).collect();
    if positive.len() < 2 || positive.len() + 1 < values.len() || values[0] < 0.0 {
        return Scale::Linear;
    }
    let decades = (positive[positive.len() - 1] / positive[0]).log10();
    match (positive.len() == values.len(), decades >= DECADES_FOR_LOG) {
        (true, wide) if wide || is_geometric(values) => Scale::Log,
        (false, true) => Scale::Ordinal(values.iter().map(|&v| numbers::number(v)).collect()),
        _ => Scale::Linear,
    }
}

/// Whether neighbours have about the same ratio (1, 3, 10, 30 does) without also having the same difference.
fn is_geometric(values: &[f64]) -> bool {
    let pairs = || values.windows(2).map(|w| (w[1] - w[0], w[1] / w[0]));
    let differences: Vec<f64> = pairs().map(|p| p.0).collect();
    let ratios: Vec<f64> = pairs().map(|p| p.1).collect();
    let even = |v: &[f64], tolerance: f64| {
        let (lo, hi) = numbers::extent(v);
        hi <= lo * tolerance
    };
    values.len() > 2 && even(&ratios, 1.2) && !even(&differences, 1.0 + 1e-6)
}

/// A range that holds all finite values with a little room at both ends. `None` where there is no value.
pub fn range(values: impl Iterator<Item = f64>, log: bool, room: f64) -> Option<(f64, f64)> {
    let finite: Vec<f64> = values.filter(|v| v.is_finite() && (!log || *v > 0.0)).collect();
    if finite.is_empty() {
        return None;
    }
    let (lo, hi) = numbers::extent(&finite);
    if log {
        let margin = ((hi / lo).ln() * room).max(0.05);
        return Some((lo * (-margin).exp(), hi * margin.exp()));
    }
    let margin = if hi > lo { (hi - lo) * room } else { (lo.abs() * 0.05).max(1e-3) };
    Some((lo - margin, hi + margin))
}

/// Maps a range of values to pixels.
#[derive(Clone, Debug)]
pub struct Ruler {
    log: bool,
    range: (f64, f64),
    pixels: (f64, f64),
}

impl Ruler {
    /// `range.0` falls on `pixels.0`, `range.1` on `pixels.1`.
    pub fn new(scale: &Scale, range: (f64, f64), pixels: (f64, f64)) -> Self {
        Self { log: *scale == Scale::Log, range, pixels }
    }

    /// The values that fall on its ends, and whether equal ratios are equally long.
    pub fn range(&self) -> ((f64, f64), bool) {
        (self.range, self.log)
    }

    /// Where a value falls; outside of the pixels where it is outside of the range, NaN where it has no place.
    pub fn at(&self, value: f64) -> f64 {
        let f = |v: f64| if self.log { v.ln() } else { v };
        let (lo, hi) = (f(self.range.0), f(self.range.1));
        self.pixels.0 + (f(value) - lo) / (hi - lo) * (self.pixels.1 - self.pixels.0)
    }
}

/// Ticks for a range, about `count` of them, with their labels.
pub fn ticks(scale: &Scale, (lo, hi): (f64, f64), count: usize) -> Vec<(f64, String)> {
    match scale {
        Scale::Ordinal(words) | Scale::Words(words) => {
            words.iter().enumerate().map(|(i, word)| (i as f64, word.clone())).collect()
        }
        Scale::Linear => linear_ticks(lo, hi, count),
        Scale::Log => {
            let dense = log_ticks(lo, hi, &[1, 2, 5]);
            let sparse = log_ticks(lo, hi, &[1]);
            match (dense.len(), sparse.len()) {
                (0..3, _) => linear_ticks(lo, hi, count),
                (_, 0..3) => dense,
                (n, _) if n <= count => dense,
                _ => sparse,
            }
        }
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(lo: f64, hi: f64, count: usize) -> Vec<(f64, String)> {
    let rough = (hi - lo) / count.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return Vec::new();
    }
    let power = rough.log10().floor() as i32;
    let unit = 10f64.powi(power);
    let (factor, power) = match rough / unit {
        r if r < 1.5 => (1.0, power),
        r if r < 3.2 => (2.0, power),
        r if r < 7.1 => (5.0, power),
        _ => (1.0, power + 1),
    };
    let step = factor * 10f64.powi(power);
    let (first, last) = ((lo / step - 1e-9).ceil() as i64, (hi / step + 1e-9).floor() as i64);
    (first..=last).map(|i| i as f64 * step).map(|v| (v, fixed(v, power))).collect()
}

/// `v` with the decimals that a step of 10^`power` needs.
fn fixed(v: f64, power: i32) -> String {
    if power < -4 && v != 0.0 {
        return format!("{v:.1e}");
    }
    let exact: f64 = format!("{v:.*}", (-power).max(0) as usize).parse().unwrap_or(v);
    match power {
        ..0 => format!("{exact:.*}", -power as usize),
        _ => numbers::number(exact),
    }
}

fn log_ticks(lo: f64, hi: f64, factors: &[u32]) -> Vec<(f64, String)> {
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    (first..=last)
        .flat_map(|power| factors.iter().filter_map(move |f| format!("{f}e{power}").parse::<f64>().ok()))
        .filter(|v| (lo * (1.0 - 1e-9)..=hi * (1.0 + 1e-9)).contains(v))
        .map(|v| (v, numbers::number(v)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: Vec<(f64, String)>) -> Vec<String> {
        ticks.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn values_choose_their_scale() {
        let linear = [vec![2.0, 4.0, 6.0], vec![1.0, 2.0], vec![1.0, 2.0, 3.0], vec![0.0, 0.1, 0.2], vec![-1.0, 5.0]];
        for values in linear {
            assert_eq!(for_values(&values), Scale::Linear, "{values:?}");
        }
        for values in [vec![2.0, 4.0, 8.0], vec![1e-4, 3e-4, 1e-3, 3e-3], vec![1e-4, 1e-2], vec![1.0, 5.0, 40.0]] {
            assert_eq!(for_values(&values), Scale::Log, "{values:?}");
        }
        let with_zero = for_values(&[0.0, 1e-3, 1e-2, 0.1]);
        assert_eq!(with_zero, Scale::Ordinal(["0", "1e-3", "0.01", "0.1"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn ticks_are_multiples_of_one_two_or_five() {
        assert_eq!(labels(ticks(&Scale::Linear, (1.47, 2.52), 5)), ["1.6", "1.8", "2.0", "2.2", "2.4"]);
        assert_eq!(labels(ticks(&Scale::Linear, (0.0, 500.0), 5)), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(labels(ticks(&Scale::Linear, (-0.1, 0.3), 4)), ["-0.1", "0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels(ticks(&Scale::Linear, (0.0, 42_000.0), 2)), ["0", "20,000", "40,000"]);
        assert_eq!(labels(ticks(&Scale::Log, (9e-5, 2e-2), 4)), ["1e-4", "1e-3", "0.01"]);
        assert_eq!(labels(ticks(&Scale::Log, (9e-4, 2.1e-2), 8)), ["1e-3", "2e-3", "5e-3", "0.01", "0.02"]);
        assert_eq!(labels(ticks(&Scale::Log, (1.4, 4.3), 4)), ["2", "3", "4"]);
    }

    #[test]
    fn a_ruler_maps_the_ends_and_the_middle() {
        let log = Ruler::new(&Scale::Log, (1.0, 100.0), (0.0, 200.0));
        assert_eq!((log.at(1.0), log.at(10.0), log.at(100.0)), (0.0, 100.0, 200.0));
        let down = Ruler::new(&Scale::Linear, (0.0, 10.0), (500.0, 0.0));
        assert_eq!((down.at(0.0), down.at(2.5), down.at(f64::NAN).is_nan()), (500.0, 375.0, true));
    }

    #[test]
    fn a_range_survives_one_value_and_none() {
        assert_eq!(range([f64::NAN].into_iter(), false, 0.1), None);
        let (lo, hi) = range([2.0].into_iter(), false, 0.1).unwrap();
        assert!(lo < 2.0 && hi > 2.0);
        assert_eq!(range([0.0, 1.0, f64::INFINITY].into_iter(), false, 0.1), Some((-0.1, 1.1)));
    }
}
