//! What a leaf takes: its type and range, how a scalar of the spec becomes a value of it, how messages and the schema
//! describe it. serde_yaml is used here alone, to read numbers.

use std::ops::{Bound, RangeBounds};

use serde_json::{Value, json};

use super::names::nearest;

/// The largest integer that everything that reads JSON reads exactly, 2^53 - 1.
pub const EXACT: u64 = (1 << 53) - 1;

/// The type and range of a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number, however it is written: `30`, `30.0`, `3e1`.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A finite number between two bounds.
    Number(Bound<f64>, Bound<f64>),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
    /// A file or folder, relative to the folder of the file that names it.
    Path,
    /// `auto`, `cpu`, `cuda`, `cuda:N` or `metal`.
    Device,
    /// A run, by its id or the beginning of it.
    RunId,
}

/// Why a scalar is no value of a kind.
#[derive(Debug, PartialEq)]
pub(super) struct Misfit {
    /// What it should have been: "an integer of at least 1".
    pub takes: String,
    /// What to write instead, where that is clear.
    pub hint: Option<String>,
}

impl Kind {
    /// The kind in words: "an integer of at least 1".
    pub fn describe(&self) -> String {
        match self {
            Self::Integer { min, .. } => format!("an integer of at least {min}"),
            Self::Number(low, high) => match (low, high) {
                (Bound::Excluded(low), Bound::Unbounded) => format!("a number above {low}"),
                (Bound::Included(low), Bound::Unbounded) => format!("a number of at least {low}"),
                _ => {
                    let open = if matches!(low, Bound::Excluded(_)) { '(' } else { '[' };
                    let close = if matches!(high, Bound::Excluded(_)) { ')' } else { ']' };
                    format!("a number in {open}{}, {}{close}", limit(low), limit(high))
                }
            },
            Self::Bool => "`true` or `false`".into(),
            Self::Words([only]) => format!("`{only}`"),
            Self::Words(words) => format!("one of {}", list(words)),
            Self::Text => "a text".into(),
            Self::Path => "a file or a folder".into(),
            Self::Device => "`auto`, `cpu`, `cuda`, `cuda:N` or `metal`".into(),
            Self::RunId => "a run's id, or its first hex digits".into(),
        }
    }

    /// The value that a scalar stands for. `plain` where it stands without quotes.
    pub(super) fn read(&self, text: &str, plain: bool) -> Result<Value, Misfit> {
        let value = match self {
            Self::Integer { min, max } => match number(text, plain).and_then(whole) {
                Some(n) if n > i128::from(*max) => {
                    return Err(Misfit { takes: format!("an integer of at most {max}"), hint: None });
                }
                Some(n) if n >= i128::from(*min) => Some(Value::from(n as u64)),
                _ => None,
            },
            Self::Number(low, high) => number(text, plain)
                .and_then(|n| n.as_f64())
                .filter(|x| x.is_finite() && (*low, *high).contains(x))
                .map(|x| Value::from(x + 0.0)), // -0.0 becomes 0.0, so that one value has one id
            Self::Bool => match text {
                "true" if plain => Some(true.into()),
                "false" if plain => Some(false.into()),
                _ => None,
            },
            Self::Words(words) => words.iter().find(|word| **word == text).map(|&word| word.into()),
            Self::Text | Self::Path => (!text.is_empty()).then(|| text.into()),
            Self::Device => device(text).map(Value::from),
            Self::RunId => {
                let fits = (4..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
                fits.then(|| text.to_ascii_lowercase().into())
            }
        };
        value.ok_or_else(|| Misfit { takes: self.describe(), hint: self.advice(text, plain) })
    }

    /// What somebody who wrote `text` probably wants.
    fn advice(&self, text: &str, plain: bool) -> Option<String> {
        let fits = |text: &str| self.read(text, true).is_ok();
        match self {
            Self::Integer { .. } | Self::Number(..) | Self::Bool if !plain => {
                fits(text).then(|| format!("without the quotes: `{text}`"))
            }
            Self::Integer { .. } => {
                let digits = text.replace(['_', ',', '\''], "");
                (digits != text && fits(&digits)).then(|| format!("without separators: `{digits}`"))
            }
            Self::Number(..) => {
                let point = text.replace(',', ".");
                (point != text && fits(&point)).then(|| format!("with a point: `{point}`"))
            }
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "y" | "1" => Some("did you mean `true`?".into()),
                "false" | "no" | "off" | "n" | "0" => Some("did you mean `false`?".into()),
                _ => None,
            },
            Self::Words(words) => nearest(text, words.iter().copied()).map(|word| format!("did you mean `{word}`?")),
            Self::Device => Some(device_advice(text)),
            Self::Text | Self::Path | Self::RunId => None,
        }
    }

    /// The kind as a JSON Schema, `null` (the default) included.
    pub(super) fn schema(&self) -> Value {
        match self {
            Self::Integer { min, max } => json!({"type": ["integer", "null"], "minimum": min, "maximum": max}),
            Self::Number(low, high) => {
                let mut schema = json!({"type": ["number", "null"]});
                for (bound, closed, open) in
                    [(low, "minimum", "exclusiveMinimum"), (high, "maximum", "exclusiveMaximum")]
                {
                    match bound {
                        Bound::Included(x) => schema[closed] = json!(x),
                        Bound::Excluded(x) => schema[open] = json!(x),
                        Bound::Unbounded => {}
                    }
                }
                schema
            }
            Self::Bool => json!({"type": ["boolean", "null"]}),
            Self::Words(words) => {
                let words = words.iter().map(|&word| Value::from(word)).chain([Value::Null]);
                json!({"enum": words.collect::<Vec<_>>()})
            }
            // What YAML takes for a number or a bool is a text all the same.
            Self::Text => json!({"type": ["string", "number", "boolean", "null"], "minLength": 1}),
            Self::Path => json!({"type": ["string", "null"], "minLength": 1}),
            Self::Device => json!({
                "anyOf": [{"enum": ["auto", "cpu", "cuda", "metal", null]}, {"type": "string", "pattern": "^cuda:[0-9]+$"}]
            }),
            // An id of decimal digits alone is a number to YAML.
            Self::RunId => json!({"type": ["string", "number", "null"], "pattern": "^[0-9a-fA-F]{4,64}$"}),
        }
    }
}

/// A plain scalar as a number, by serde_yaml's rules: `1e-4`, `30.0`, `0x1f`.
fn number(text: &str, plain: bool) -> Option<serde_yaml::Number> {
    if plain { text.parse().ok() } else { None }
}

/// The whole number that a number is, if it is one and is held exactly.
fn whole(n: serde_yaml::Number) -> Option<i128> {
    if let Some(n) = n.as_u64() {
        return Some(n.into());
    }
    if let Some(n) = n.as_i64() {
        return Some(n.into());
    }
    n.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 1e30).map(|x| x as i128)
}

/// The device that a word names, `cuda:07` as `cuda:7`.
fn device(text: &str) -> Option<String> {
    match text {
        "auto" | "cpu" | "cuda" | "metal" => Some(text.into()),
        _ => {
            let digits = text.strip_prefix("cuda:")?;
            let index: u32 = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
            Some(format!("cuda:{index}"))
        }
    }
}

fn device_advice(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "gpu" => "did you mean `cuda` (NVIDIA) or `metal` (Apple)? `auto` takes what is there".into(),
        "mps" => "did you mean `metal`?".into(),
        _ => match nearest(&lower, ["auto", "cpu", "cuda", "metal"]) {
            Some(word) => format!("did you mean `{word}`?"),
            None => "`exp devices` lists those of this machine".into(),
        },
    }
}

fn limit(bound: &Bound<f64>) -> String {
    match bound {
        Bound::Included(x) | Bound::Excluded(x) => x.to_string(),
        Bound::Unbounded => "∞".into(),
    }
}

/// Words in backticks: "`a`, `b` and `c`".
pub(super) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: Kind = Kind::Integer { min: 1, max: 1000 };
    const RATE: Kind = Kind::Number(Bound::Excluded(0.0), Bound::Unbounded);

    #[test]
    fn a_number_is_a_number_however_it_is_written() {
        for text in ["30", "30.0", "3e1", "3E1", "+30", "0x1e", "300e-1"] {
            assert_eq!(COUNT.read(text, true), Ok(json!(30)), "{text}");
        }
        for text in ["1e-4", "1E-4", "0.0001", "1.0e-4", ".0001", "+1e-4"] {
            assert_eq!(RATE.read(text, true), Ok(json!(0.0001)), "{text}");
        }
        assert_eq!(RATE.read("1", true), Ok(json!(1.0)));
        let zero = Kind::Number(Bound::Included(0.0), Bound::Excluded(1.0)).read("-0.0", true).unwrap();
        assert_eq!(zero.to_string(), "0.0");
        let seed = Kind::Integer { min: 0, max: EXACT };
        assert_eq!(seed.read("9007199254740991", true), Ok(json!(EXACT)));
        assert_eq!(seed.read("9007199254740993", true).unwrap_err().takes, "an integer of at most 9007199254740991");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for text in ["2.5", "0", "-3", "1001", "1e300", "ten", "", "07", "1_000", ".inf", ".nan", "1e-400", "true"] {
            assert!(COUNT.read(text, true).is_err(), "{text}");
        }
        for text in ["0", "-1", ".inf", "-.inf", ".nan", "inf", "nan", "1e400", "1e-400", "fast", "1e-3x"] {
            assert!(RATE.read(text, true).is_err(), "{text}");
        }
        for text in ["True", "yes", "on", "1", "null"] {
            assert!(Kind::Bool.read(text, true).is_err(), "{text}");
        }
        for text in ["gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "CPU", "cuda:99999999999"] {
            assert!(Kind::Device.read(text, true).is_err(), "{text}");
        }
        assert_eq!(Kind::Device.read("cuda:07", true), Ok(json!("cuda:7")));
        assert!(Kind::RunId.read("../x", true).is_err());
        assert_eq!(Kind::RunId.read("12E45", true), Ok(json!("12e45")));
    }

    #[test]
    fn advice_says_what_to_write() {
        let hint = |kind: Kind, text, plain| kind.read(text, plain).unwrap_err().hint.unwrap_or_default();
        assert_eq!(hint(COUNT, "1_000", true), "without separators: `1000`");
        assert_eq!(hint(COUNT, "30", false), "without the quotes: `30`");
        assert_eq!(hint(RATE, "0,001", true), "with a point: `0.001`");
        assert_eq!(hint(Kind::Bool, "Yes", true), "did you mean `true`?");
        assert_eq!(hint(Kind::Words(&["cosine", "linear"]), "cosin", true), "did you mean `cosine`?");
        assert!(hint(Kind::Device, "gpu", true).contains("`cuda`"));
        assert_eq!(hint(Kind::Device, "cude", true), "did you mean `cuda`?");
    }

    #[test]
    fn kinds_are_told_in_words() {
        use Bound::{Excluded, Included};
        assert_eq!(Kind::Number(Included(0.0), Excluded(1.0)).describe(), "a number in [0, 1)");
        assert_eq!(Kind::Number(Excluded(0.0), Included(0.5)).describe(), "a number in (0, 0.5]");
        assert_eq!(Kind::Words(&["a", "b", "c"]).describe(), "one of `a`, `b` and `c`");
    }
}
