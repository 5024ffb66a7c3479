//! Lines of CSV, as RFC 4180 has them.

use std::borrow::Cow;

/// A line of these cells, with its end.
pub fn line(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| quoted(&cell).into_owned()).collect::<Vec<_>>().join(",") + "\n"
}

/// A cell, in quotes where it would not be read back as it is without.
pub fn quoted(cell: &str) -> Cow<'_, str> {
    let is_plain = !cell.contains([',', '"', '\n', '\r']);
    if is_plain { cell.into() } else { format!("\"{}\"", cell.replace('"', "\"\"")).into() }
}
