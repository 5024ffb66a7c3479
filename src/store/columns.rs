//! Between Rust's types and SQLite's columns.

use rusqlite::{
    Row, RowIndex,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::base::{RunId, num};

/// SQLite's integers have a sign. Offsets and steps never come near the limit; what is beyond stays beyond all others.
pub fn int(x: u64) -> i64 {
    i64::try_from(x).unwrap_or(i64::MAX)
}

/// A column that [`int`] wrote.
pub fn unsigned(row: &Row, column: impl RowIndex) -> rusqlite::Result<u64> {
    Ok(unsigned_option(row, column)?.unwrap_or(0))
}

/// A column that [`int`] wrote, or NULL.
pub fn unsigned_option(row: &Row, column: impl RowIndex) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|x| x.max(0) as u64))
}

/// A number that may not be finite: a REAL or a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float(pub f64);

impl ToSql for Float {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(num::word(self.0).map_or_else(|| self.0.into(), ToSqlOutput::from))
    }
}

impl FromSql for Float {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Text(word) => std::str::from_utf8(word).ok().and_then(num::from_word).map(Self),
            number => f64::column_result(number).ok().map(Self),
        }
        .ok_or(FromSqlError::InvalidType)
    }
}

/// What a JSON column holds.
pub fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// A JSON column.
pub fn from_json<T: DeserializeOwned>(row: &Row, column: impl RowIndex) -> rusqlite::Result<T> {
    let position = column.idx(row.as_ref())?;
    serde_json::from_str(row.get_ref(position)?.as_str()?).map_err(|e| unreadable(position, e))
}

/// A JSON column that may be NULL.
pub fn from_json_option<T: DeserializeOwned>(row: &Row, column: impl RowIndex) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => from_json(row, column).map(Some),
    }
}

/// The column `id`.
pub fn id(row: &Row) -> rusqlite::Result<RunId> {
    run_id(row, "id")
}

/// A column that has a run's id.
pub fn run_id(row: &Row, column: impl RowIndex) -> rusqlite::Result<RunId> {
    let position = column.idx(row.as_ref())?;
    row.get_ref(position)?.as_str()?.parse::<RunId>().map_err(|e| unreadable(position, e))
}

fn unreadable(position: usize, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(position, Type::Text, why.into())
}
