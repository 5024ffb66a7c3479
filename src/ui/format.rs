//! Numbers and settings as people read them.

use serde_json::Value;

use crate::base::RunId;
pub use crate::base::num::grouped;

/// Four digits and a letter: `124.4 M`, `6.71 M`, `950`.
pub fn count(x: f64) -> String {
    scaled(x, 1000.0, &["", " k", " M", " G", " T", " P", " E"])
}

/// Bytes in powers of 1024: `91.2 MiB`.
pub fn bytes(x: u64) -> String {
    scaled(x as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB"])
}

/// Bytes in powers of 1000, as papers and data sheets have them: `2.10 GB`.
pub fn decimal_bytes(x: u64) -> String {
    scaled(x as f64, 1000.0, &[" B", " kB", " MB", " GB", " TB", " PB"])
}

fn scaled(x: f64, base: f64, units: &[&str]) -> String {
    let mut value = x;
    let mut unit = 0;
    // 999.95 would be shown as 1000.0: it takes the next unit.
    while value.abs() >= base - 0.05 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = match value.abs() {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        a if a >= 99.95 => 1,
        a if a >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{}", units[unit])
}

/// `42 s`, `3 m 05 s`, `2 h 10 m`, `3 d 4 h`.
pub fn duration(seconds: f64) -> String {
    let s = seconds.round().max(0.0) as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} m {:02} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {:02} m", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// `1 run`, `2 runs`.
pub fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The first line of a text, cut to `width` characters.
pub fn short(text: &str, width: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// A loss to four decimals; a dash where there is none, the word where it is not finite.
pub fn loss(x: Option<f64>) -> String {
    match x {
        None => "–".into(),
        Some(x) => crate::base::num::word(x).map_or_else(|| format!("{x:.4}"), Into::into),
    }
}

/// Five significant digits, for metrics of any size.
pub fn significant(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => loss(Some(x)),
        0.0 => "0".into(),
        a if (1e-3..1e5).contains(&a) => format!("{x:.*}", (4 - a.log10().floor() as i32).max(0) as usize),
        _ => format!("{x:.4e}"),
    }
}

/// A setting's value as a spec would write it, but a run's whole id, which nobody reads, by its first digits.
pub fn value(v: &Value) -> String {
    match v {
        Value::String(s) => s.parse::<RunId>().map_or_else(|_| s.clone(), |id| id.short()),
        Value::Null => "–".into(),
        Value::Number(n) => match n.as_f64() {
            Some(x) if n.is_f64() && x != 0.0 && !(1e-3..1e6).contains(&x.abs()) => format!("{x:e}"),
            _ => n.to_string(),
        },
        other => other.to_string(),
    }
}

/// What the columns of these leaves are called: the last word of their path, the whole path where two share that word or
/// another column, one of `taken`, is called so.
pub fn headings<'a, P: AsRef<str>>(paths: &'a [P], taken: &[&str]) -> Vec<&'a str> {
    let word = |path: &'a P| path.as_ref().rsplit('.').next().unwrap_or(path.as_ref());
    let is_alone = |name: &str| paths.iter().filter(|path| word(path) == name).count() == 1 && !taken.contains(&name);
    paths.iter().map(|path| Some(word(path)).filter(|name| is_alone(name)).unwrap_or(path.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_keep_their_digits_in_check() {
        for (x, text) in [
            (0.0, "0"),
            (950.0, "950"),
            (1000.0, "1.00 k"),
            (999_999.0, "1.00 M"),
            (124_439_808.0, "124.4 M"),
            (6_709_760.0, "6.71 M"),
            (12_345.0, "12.3 k"),
            (3.2e15, "3.20 P"),
        ] {
            assert_eq!(count(x), text);
        }
        assert_eq!((bytes(512), bytes(95_630_000)), ("512 B".into(), "91.2 MiB".into()));
        assert_eq!([950, 131_072, 2_101_346_304].map(decimal_bytes), ["950 B", "131.1 kB", "2.10 GB"]);
        assert_eq!([7, 1000, 12_345, 124_439_808].map(grouped), ["7", "1,000", "12,345", "124,439,808"]);
    }

    #[test]
    fn durations_and_values_read_well() {
        let shown = [0.4, 59.4, 61.0, 3600.0, 90_000.0].map(duration);
        assert_eq!(shown, ["0 s", "59 s", "1 m 01 s", "1 h 00 m", "1 d 1 h"]);
        let shown = [1e-4.into(), 0.001.into(), 0.5.into(), 12.into(), "cpu".into(), true.into()].map(|v| value(&v));
        assert_eq!(shown, ["1e-4", "0.001", "0.5", "12", "cpu", "true"]);
        let id = "0123456789abcdef".repeat(4);
        assert_eq!([&id[..], &id[1..]].map(|v| value(&v.into())), ["01234567", &id[1..]], "a whole run id");
        assert_eq!((plural(1, "run"), plural(0, "run")), ("1 run".into(), "0 runs".into()));
        assert_eq!((short("é: too long\nmore", 6), short("fits", 6)), ("é: too…".into(), "fits".into()));
        assert_eq!([Some(1.23456), None, Some(f64::NAN)].map(loss), ["1.2346", "–", "nan"]);
    }

    #[test]
    fn no_two_columns_have_the_same_heading() {
        let paths = ["train.lr", "train.batch", "eval.batch", "sample.tokens"];
        assert_eq!(headings(&paths, &["run", "tokens"]), ["lr", "train.batch", "eval.batch", "sample.tokens"]);
    }
}
