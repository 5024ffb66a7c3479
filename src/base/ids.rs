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
        let hash = blake3::Hash::from_hex(s).map_err(|e| format!("{s:?} is no run id of 64 hex digits: {e}"))?;
        Ok(Self(*hash.as_bytes()))
    }
}

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
