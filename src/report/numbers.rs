//! Numbers as people read them, the same in pictures, tables and sentences; and the few statistics that reports use.

use serde_json::Value;

use crate::base::RunId;

/// The mean of values that are not empty.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample (over n - 1), from two values on.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let (n, mean) = (values.len(), mean(values));
    (n > 1).then(|| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64).sqrt())
}

/// The median of values that are not empty: of an even number the mean of the middle two.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = if is_even { below.iter().copied().max_by(f64::total_cmp) } else { None };
    (lower.unwrap_or(upper) + upper) / 2.0
}

/// The lowest and the highest of values that are not empty.
pub fn extent(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)))
}

/// A setting's value, to six digits: `8`, `3e-4`, `12,000`, `nan`.
pub fn number(x: f64) -> String {
    let x = format!("{x:.5e}").parse().unwrap_or(x);
    let size = f64::abs(x);
    match crate::base::num::word(x) {
        Some(word) => word.to_owned(),
        None if size != 0.0 && !(0.01..1e9).contains(&size) => format!("{x:e}"),
        None => grouped(&format!("{x}")),
    }
}

/// `x` with three significant digits and no exponent where it is neither tiny nor huge: `23.7`, `1,240`, `0.0123`.
pub fn rounded(x: f64) -> String {
    if x == 0.0 || !x.is_finite() || !(1e-4..1e9).contains(&x.abs()) {
        return number(x);
    }
    let digits = (2 - x.abs().log10().floor() as i32).max(0);
    grouped(&format!("{x:.*}", digits as usize))
}

/// A loss: `1.5943`.
pub fn loss(x: f64) -> String {
    crate::base::num::word(x).map_or_else(|| format!("{x:.4}"), str::to_owned)
}

/// A mean with its spread, where there is one: `1.594 ± 0.012`. The spread has two significant digits, within reason.
pub fn with_spread(values: &[f64]) -> String {
    match deviation(values) {
        None => loss(mean(values)),
        Some(spread) => {
            let digits = places(spread);
            format!("{:.digits$} ± {spread:.digits$}", mean(values))
        }
    }
}

/// The decimals that give a spread two significant digits, within reason.
pub fn places(spread: f64) -> usize {
    if spread > 0.0 && spread.is_finite() { (1 - spread.log10().floor() as i32).clamp(2, 4) as usize } else { 4 }
}

/// A count of parameters: `804,096` below a million, then `1.58 M`.
pub fn count(n: u64) -> String {
    let x = n as f64;
    match n {
        0..1_000_000 => grouped(&n.to_string()),
        1_000_000..1_000_000_000 => format!("{} M", rounded(x / 1e6)),
        _ => format!("{} B", rounded(x / 1e9)),
    }
}

/// A leaf's value as a spec writes it, but a run's whole id, which nobody reads, by its first digits.
pub fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.parse::<RunId>().map_or_else(|_| text.clone(), |id| id.short()),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
        Value::Number(n) => grouped(&n.to_string()),
        other => other.to_string(),
    }
}

/// `n` things: `1 run`, `3 runs`.
pub fn several(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// Commas between thousands from five digits on, as tables of the field have them.
fn grouped(plain: &str) -> String {
    let (sign, rest) = plain.strip_prefix('-').map_or(("", plain), |r| ("-", r));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    fraction.map_or(out.clone(), |f| format!("{out}.{f}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_the_field_writes_them() {
        let cases =
            [(8.0, "8"), (3e-4, "3e-4"), (0.1, "0.1"), (0.01, "0.01"), (0.00112883791, "1.12884e-3"), (0.0, "0")];
        for (x, text) in cases.into_iter().chain([(12000.0, "12,000"), (1000.0, "1000"), (f64::NAN, "nan")]) {
            assert_eq!(number(x), text);
        }
        assert_eq!([rounded(23.72), rounded(1240.4), rounded(123_456.0)], ["23.7", "1240", "123,456"]);
        assert_eq!([count(804_096), count(1_580_000), count(124_439_808)], ["804,096", "1.58 M", "124 M"]);
    }

    #[test]
    fn a_whole_run_id_is_told_by_its_first_digits() {
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(value(&id.as_str().into()), "01234567");
        for text in [&id[..63], &id[..8], &"x".repeat(64), "rope"] {
            assert_eq!(value(&text.into()), text);
        }
    }

    #[test]
    fn a_spread_stands_beside_a_mean_of_two_and_more() {
        assert_eq!(with_spread(&[1.5, 1.6]), "1.550 ± 0.071");
        assert_eq!(with_spread(&[1.5]), "1.5000");
        assert_eq!(with_spread(&[1.5, 1.5]), "1.5000 ± 0.0000");
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (2.0, 2.5));
    }
}
