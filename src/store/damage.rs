//! What could not be read of the folders: kept in the index and shown, so that one bad line or file stops nothing else.

use std::path::Path;

use rusqlite::Transaction;
use serde::de::DeserializeOwned;

use super::{
    Store,
    columns::{int, unsigned},
    lines::Lines,
    rows::Damage,
};
use crate::base::{Result, folders::Root};

impl Store {
    /// What the index could not take in of the folders, sorted by file.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn damage(&self) -> Result<Vec<Damage>> {
        self.read(|index| {
            index
                .prepare_cached("SELECT file, offset, why FROM damage ORDER BY file, offset")?
                .query_map([], |row| {
                    Ok(Damage { file: row.get("file")?, offset: unsigned(row, "offset")?, why: row.get("why")? })
                })?
                .collect()
        })
    }
}

/// Notes that a line of a file, or the whole of it, cannot be read.
pub fn damaged(index: &Transaction, file: &str, offset: u64, why: &str) -> rusqlite::Result<()> {
    index.execute(
        "INSERT INTO damage (file, offset, why) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET why = excluded.why WHERE excluded.why <> damage.why",
        (file, int(offset), why),
    )?;
    Ok(())
}

/// Forgets what was noted of a file, or of all files of a folder.
pub fn repaired(index: &Transaction, path: &str) -> rusqlite::Result<()> {
    // '0' follows '/': this is every path that starts with the folder and a slash.
    index.execute("DELETE FROM damage WHERE file = ?1 OR (file > ?1 || '/' AND file < ?1 || '0')", [path])?;
    Ok(())
}

/// Hands every whole line from `offset` on to `take`, with the byte at which it starts. A line that is no `T` is noted as
/// damage and passed over. Returns the offset to go on from.
pub fn each_line<T: DeserializeOwned>(
    index: &Transaction,
    root: &Root,
    path: &Path,
    offset: u64,
    mut take: impl FnMut(u64, T) -> rusqlite::Result<()>,
) -> rusqlite::Result<u64> {
    let file = root.relative(path);
    let mut lines = match Lines::open(path, offset) {
        Ok(lines) => lines,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(offset),
        Err(e) => return damaged(index, &file, offset, &e.to_string()).map(|()| offset),
    };
    index.execute("DELETE FROM damage WHERE file = ?1 AND offset >= ?2", (&file, int(offset)))?;
    loop {
        match lines.next() {
            Ok(None) => return Ok(lines.offset()),
            Ok(Some((_, b""))) => {}
            Ok(Some((start, line))) => match serde_json::from_slice(line) {
                Ok(value) => take(start, value)?,
                Err(e) => damaged(index, &file, start, &e.to_string())?,
            },
            Err(e) => {
                damaged(index, &file, lines.offset(), &e.to_string())?;
                return Ok(lines.offset());
            }
        }
    }
}
