//! The most memory of its device that this process had.

use super::kind;
use crate::base::machine;

/// The most bytes of the device's memory that this process had at once, for all that it did on it; `None` where that
/// cannot be told.
pub fn peak_bytes(device: &str) -> Option<u64> {
    match kind(device) {
        "cpu" => machine::peak_resident_bytes(),
        _ => None,
    }
}
