//! Numbers that survive JSON and SQLite, and that people can read.
//!
//! JSON has no NaN and SQLite turns a bound NaN into NULL, so a value that is not finite is the string `"nan"`, `"inf"`
//! or `"-inf"` in every file and column. Use [`float`] with serde: `#[serde(with = "crate::base::num::float")]`.

/// `Some("nan" | "inf" | "-inf")` for what is not finite.
pub fn word(x: f64) -> Option<&'static str> {
    if x.is_nan() {
        Some("nan")
    } else if x == f64::INFINITY {
        Some("inf")
    } else if x == f64::NEG_INFINITY {
        Some("-inf")
    } else {
        None
    }
}

/// The inverse of [`word`].
pub fn from_word(s: &str) -> Option<f64> {
    match s {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A JSON number, or the word for what is not finite.
pub fn json(x: f64) -> serde_json::Value {
    match word(x) {
        Some(w) => w.into(),
        None => x.into(),
    }
}

/// A whole number in groups of three digits: `124,439,808`.
pub fn grouped(x: u64) -> String {
    let digits = x.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

/// Serde for an `f64` that may not be finite.
pub mod float {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    /// A number or a word.
    pub fn serialize<S: Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
        match super::word(*x) {
            Some(w) => w.serialize(s),
            None => x.serialize(s),
        }
    }

    /// A number or a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        let value = serde_json::Value::deserialize(d)?;
        value
            .as_f64()
            .or_else(|| value.as_str().and_then(super::from_word))
            .ok_or_else(|| D::Error::custom(format!("{value} is not a number, \"nan\", \"inf\" or \"-inf\"")))
    }
}

/// Serde for an optional `f64` that may not be finite; use with `#[serde(default)]`.
pub mod float_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Float(#[serde(with = "super::float")] f64);

    /// `null`, a number or a word.
    pub fn serialize<S: Serializer>(x: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
        x.map(Float).serialize(s)
    }

    /// `null`, a number or a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Float>::deserialize(d)?.map(|f| f.0))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, Debug)]
    struct Row {
        #[serde(with = "super::float")]
        a: f64,
        #[serde(with = "super::float_option", default)]
        b: Option<f64>,
    }

    #[test]
    fn what_is_not_finite_survives_json() {
        for x in [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.1 + 0.2, f64::MIN_POSITIVE] {
            let text = serde_json::to_string(&Row { a: x, b: Some(x) }).unwrap();
            let back: Row = serde_json::from_str(&text).unwrap();
            assert_eq!(back.a.to_bits(), x.to_bits(), "{text}");
            assert_eq!(back.b.unwrap().to_bits(), x.to_bits(), "{text}");
        }
        let back: Row = serde_json::from_str(r#"{"a": 1, "b": null}"#).unwrap();
        assert_eq!((back.a, back.b), (1.0, None));
        assert!(serde_json::from_str::<Row>(r#"{"a": "one"}"#).is_err());
    }
}
