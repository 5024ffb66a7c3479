//! Versions of the index: numbered SQL files, applied in order. A file that was ever released never changes; what is to
//! be different goes into the next one.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use rusqlite::{Connection, TransactionBehavior};

/// The n-th entry turns version n into version n + 1; version 0 is an empty file.
pub const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
];

/// Why a file cannot serve as the index.
#[derive(Debug)]
pub enum Refusal {
    /// It was written by a newer `exp`.
    Newer {
        /// Its version.
        found: usize,
        /// The newest version that this program knows.
        known: usize,
    },
    /// It is a database, but not ours.
    Foreign,
    /// SQLite cannot read it.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Brings the index to the newest version, in one transaction.
pub fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), Refusal> {
    if check(connection, migrations)? == migrations.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = check(&transaction, migrations)?; // again: another process may have been faster
    for migration in &migrations[found..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", migrations.len() as i64)?;
    Ok(transaction.commit()?)
}

/// The index's version, where this program can read it.
pub fn check(connection: &Connection, migrations: &[&str]) -> Result<usize, Refusal> {
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match found as usize {
        found if found > migrations.len() => Err(Refusal::Newer { found, known: migrations.len() }),
        0 if tables > 0 => Err(Refusal::Foreign),
        found => Ok(found),
    }
}

/// The name under which SQLite opens a file of a folder that cannot be written to.
///
/// A database in WAL mode needs files beside it, even for reading, unless it is promised that nobody changes it. That
/// promise cannot be given where a log stands beside it: then somebody has it open, or died, and what the log holds is
/// part of the content.
pub fn immutable_uri(path: &Path) -> OsString {
    let log = beside(path, "-wal");
    let live = log.metadata().is_ok_and(|m| m.len() > 0);
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02X}").bytes()),
            other => uri.push(other),
        }
    }
    if !live {
        uri.extend(b"?immutable=1");
    }
    OsString::from_vec(uri)
}

/// The name under which SQLite opens a file and nothing else: one that begins like a URI it would take for one.
pub fn plain_name(path: &Path) -> OsString {
    match path.as_os_str().as_bytes().starts_with(b"file:") {
        true => Path::new(".").join(path).into(),
        false => path.into(),
    }
}

/// The path of a file that SQLite keeps beside the database.
pub fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROW: &str = "ALTER TABLE tea ADD COLUMN grams INTEGER; UPDATE tea SET grams = 5";
    const FAIL: &str = "DELETE FROM tea; SELECT * FROM coffee";

    fn version_1() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &["CREATE TABLE tea (name TEXT)"]).unwrap();
        connection.execute_batch("INSERT INTO tea VALUES ('assam')").unwrap();
        connection
    }

    fn count(connection: &Connection, what: &str) -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM tea WHERE {what}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_old_index_is_migrated_and_keeps_what_it_holds() {
        let mut connection = version_1();
        let migrations = ["CREATE TABLE tea (name TEXT)", GROW, "INSERT INTO tea VALUES ('sencha', 3)"];
        migrate(&mut connection, &migrations).unwrap();
        migrate(&mut connection, &migrations).unwrap();
        assert_eq!(check(&connection, &migrations).unwrap(), 3);
        assert_eq!((count(&connection, "grams = 5"), count(&connection, "true")), (1, 2));
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = version_1();
        let migrations = ["CREATE TABLE tea (name TEXT)", GROW, FAIL];
        assert!(matches!(migrate(&mut connection, &migrations), Err(Refusal::Sql(_))));
        assert_eq!(check(&connection, &migrations).unwrap(), 1);
        assert_eq!(count(&connection, "name = 'assam'"), 1);
        assert!(connection.prepare("SELECT grams FROM tea").is_err());
    }

    #[test]
    fn names_of_files_that_cannot_be_written() {
        assert_eq!(immutable_uri(Path::new("/a b/50%#?é/exp.db")), "file:/a b/50%25%23%3Fé/exp.db?immutable=1");
        assert_eq!(plain_name(Path::new("file:a?b/exp.db")), "./file:a?b/exp.db");
        assert_eq!(plain_name(Path::new("a file:/exp.db")), "a file:/exp.db");
    }
}
