//! The identity of a run: 32 bytes, whole in JSON, 16 hex digits as a folder's name, a shortest unique prefix on screen.
//! How the bytes follow from a config stands in [`crate::spec::identity`].

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What names a run: a blake3 hash of everything that decides its result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub [u8; 32]);

impl RunId {
    /// The name of the run's folder under `runs/`: the first 16 hex digits.
    pub fn folder(&self) -> String {
        self.to_string()[..16].to_owned()
    }

    /// What a table shows where nothing tells how short a prefix may be: the first 8 hex digits.
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({})", self.short())
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        // Without a branch a digit: an index of many runs has these by the ten thousand.
        let (pairs, rest) = s.as_bytes().as_chunks::<2>();
        let (mut id, mut all) = ([0; 32], 0);
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            let (high, low) = (DIGITS[usize::from(*high)], DIGITS[usize::from(*low)]);
            all |= high | low;
            *byte = high << 4 | low & 0xf;
        }
        match pairs.len() == id.len() && rest.is_empty() && all <= 0xf {
            true => Ok(Self(id)),
            false => Err(format!("{s:?} is no run id of 64 hex digits")),
        }
    }
}

/// What each ASCII character stands for as a hex digit; 255 where it is none.
const DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_64_hex_digits() {
        let id = RunId(std::array::from_fn(|at| (at * 37) as u8));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        let whole = id.to_string();
        for bad in ["", &whole[1..], &whole[2..], &format!("{whole}0"), &format!("{whole}00"), &whole.replace('7', "g")]
        {
            assert!(bad.parse::<RunId>().is_err(), "{bad:?}");
        }
    }
}
