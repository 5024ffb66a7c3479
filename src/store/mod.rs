//! The SQLite index over the folders of runs. The folders are the truth: whatever the index says follows from them and
//! can be made again ([`Store::rebuild`]).
//!
//! - `schema`: versions, migrations, making an index and putting it in place
//! - `register`, `sync`, `rebuild`, `ingest`, `attempt`, `experiments`, `reports`: the write side, from the folders into
//!   the index
//! - `query`, `history`, `state`: the read side; `scan`: in bulk; `parts`: by several threads; `recent`: what is new; `sql`:
//!   what people ask themselves
//! - `verify`: whether all is as it was written
//! - `tags`: what people call runs; `remove`: takes runs and experiments away; `running`: which `exp run` are at work
//! - `lines`, `damage`: whole lines of files that others append to, and what is none
//!
//! Many processes of one machine use one index. It is in WAL mode, so that readers and the writer do not wait for each
//! other. Whatever writes does so in `BEGIN IMMEDIATE`, since a transaction that starts as a reader and turns into a
//! writer fails with "locked" however long it is willing to wait; and it stores how far it read a file in the
//! transaction that stores what it read there. A lock file keeps those who open the index from those who put another
//! in its place, so that none takes one file's log for the other's.
//!
//! A commit does not wait for the disk: what a power cut takes from the index stands in the folders.

mod attempt;
mod columns;
mod damage;
mod experiments;
mod history;
mod ingest;
mod lines;
mod parts;
mod query;
mod rebuild;
mod recent;
mod register;
pub mod remove;
mod reports;
pub mod rows;
pub mod running;
mod scan;
mod schema;
mod sql;
mod state;
mod sync;
pub mod tags;
mod verify;

use std::{
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::base::{
    Error, Exit, Result,
    files::{self, Lock},
    folders::Root,
    wait::Wait,
};

pub use query::Named;
pub use recent::Recent;
pub use rows::{Artifact, AttemptRow, Damage, ExperimentRow, Point, RunRow, Summary};
pub use sql::Answer;
pub use verify::{Verified, What};

/// How long to wait for others that write. They take milliseconds, so this ends only where somebody sits on a lock.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lock of those who open the index or put another in its place.
///
/// # Errors
/// [`Exit::Store`] where its holder does not get on: it cannot be told what it has done to the index.
fn alone(root: &Root) -> Result<Lock> {
    let path = root.database_lock();
    let wait = Wait { what: "opens or replaces the index", patience: PATIENCE, is_asked: &|| false };
    wait.take(&path)?.ok_or_else(|| {
        let why = format!("it has not let go within {} s", PATIENCE.as_secs());
        let doing = format!("waiting for {}", wait.holder(&path));
        Error::new(Exit::Store, doing, why)
            .hint("let that process go on, or end it: the index follows from the folders")
    })
}

/// The index of one root, open.
#[derive(Debug)]
pub struct Store {
    root: Root,
    path: PathBuf,
    connection: Connection,
    /// Which file `connection` has open, whatever stands at `path` by now.
    inode: u64,
    read_only: bool,
    /// How long to wait for another process that writes.
    patience: Duration,
}

impl Store {
    /// Opens the root's index, makes it where there is none, migrates it where it is old.
    ///
    /// # Errors
    /// [`Exit::Store`] where the file is of a newer version, is no index or cannot be read; it is left as it is.
    pub fn open(root: &Root) -> Result<Self> {
        sweep(root);
        Self::open_unswept(root)
    }

    /// The same, but what killed processes left aside stays where it is.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_unswept(root: &Root) -> Result<Self> {
        let lock = alone(root)?;
        if !root.database().exists() {
            rebuild::put_whole_one_in_place(root, &lock)?;
        }
        Self::connect(root, root.database())
    }

    /// Opens the root's index; `None` where there is none yet. Where the folder cannot be written to, the store is for
    /// reading only: [`Store::sync`] and [`Store::ingest`] then do nothing.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(root: &Root) -> Result<Option<Self>> {
        match root.database() {
            path if !path.exists() => Ok(None),
            path if writable(&path) && writable(&root.runs()) => Self::open(root).map(Some),
            path => Self::connect_read_only(root, path).map(Some),
        }
    }

    fn connect(root: &Root, path: PathBuf) -> Result<Self> {
        let mut store = Self::as_it_is(root, path, false, PATIENCE)?;
        schema::migrate(&mut store.connection, schema::MIGRATIONS).map_err(|why| refused(&store.path, why))?;
        Ok(store)
    }

    fn connect_read_only(root: &Root, path: PathBuf) -> Result<Self> {
        const TRIES: u32 = 10;
        let connect = || -> Result<Self> {
            let store = Self::as_it_is(root, path.clone(), true, PATIENCE)?;
            schema::check(&store.connection, schema::MIGRATIONS).map_err(|why| refused(&store.path, why))?;
            Ok(store)
        };
        for _ in 1..TRIES {
            match connect() {
                // Somebody who may write closed the index after we had seen its log.
                Err(error) if error.io == Some(ErrorKind::ReadOnlyFilesystem) => sleep(Duration::from_millis(20)),
                connected => return connected,
            }
        }
        connect()
    }

    fn as_it_is(root: &Root, path: PathBuf, read_only: bool, patience: Duration) -> Result<Self> {
        let (flags, name) = match read_only {
            true => (OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI, schema::immutable_uri(&path)),
            false => (OpenFlags::SQLITE_OPEN_READ_WRITE, schema::plain_name(&path)),
        };
        let open = || {
            let connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
            connection.busy_timeout(patience)?;
            connection.set_prepared_statement_cache_capacity(64);
            connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL")?;
            Ok(connection)
        };
        let connection = open().map_err(|e| failed("opening", &path, e))?;
        let inode = inode(&path).unwrap_or_default();
        Ok(Self { root: root.clone(), path, connection, inode, read_only, patience })
    }

    /// How long to wait for another process that writes the index; by default a minute.
    ///
    /// # Errors
    /// [`Exit::Store`] where SQLite refuses.
    pub fn set_patience(&mut self, patience: Duration) -> Result<()> {
        self.patience = patience;
        self.connection.busy_timeout(patience).map_err(|e| failed("opening", &self.path, e))
    }

    /// Asks the index.
    fn read<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        ask(&self.connection).map_err(|e| failed("reading", &self.path, e))
    }

    /// Changes the index: all of `change` or nothing of it.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction) -> rusqlite::Result<T>) -> Result<T> {
        if self.read_only {
            return Err(Error::new(Exit::Store, format!("writing {}", self.path.display()), "it is read-only here"));
        }
        if inode(&self.path) != Some(self.inode) {
            // Somebody rebuilt the index while we had the old one open.
            *self = Self::open(&self.root)?;
        }
        let write = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        };
        write().map_err(|e| failed("writing", &self.path, e))
    }
}

/// Removes what killed processes left aside. Not in the folders of runs, of which there are many: there a worker does so
/// when it starts.
fn sweep(root: &Root) {
    files::sweep(&root.runs(), files::DAY);
    files::sweep(&root.cache(), files::DAY);
    files::sweep(&root.experiments(), files::DAY);
    for report in std::fs::read_dir(root.reports()).into_iter().flatten().flatten() {
        files::sweep(&report.path(), files::DAY);
    }
}

fn inode(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|m| m.ino())
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// What SQLite says, in terms of what a person can do about it.
fn failed(doing: &str, path: &Path, error: rusqlite::Error) -> Error {
    let doing = format!("{doing} {}", path.display());
    match error.sqlite_error_code() {
        _ if is_damage(&error) => {
            Error::new(Exit::Store, doing, format!("the file is damaged or no index of runs ({error})"))
                .hint("`exp store rebuild` makes the index again from the folders of the runs")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let hint = "an `exp` that was stopped while it wrote, or another program that has the index open, has to go on or end";
            Error::new(Exit::Store, doing, "another process keeps it locked").io(ErrorKind::WouldBlock).hint(hint)
        }
        // Where it cannot even make the files that it keeps beside the index, SQLite names no reason.
        Some(code @ (ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
            if code == ErrorCode::DiskFull || files::is_full(path) =>
        {
            Error::new(Exit::Store, doing, "no space left on the device")
                .io(ErrorKind::StorageFull)
                .hint("free some: all else of runs/ is whole")
        }
        Some(ErrorCode::ReadOnly) => Error::new(Exit::Store, doing, error).io(ErrorKind::ReadOnlyFilesystem),
        _ => Error::new(Exit::Store, doing, error),
    }
}

/// Whether an error says that the file is not what was written: SQLite sees it in its own pages and in keys that do not fit
/// together, we in what a column holds.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::ConstraintViolation))
        || matches!(
            error,
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
        )
}

fn refused(path: &Path, why: schema::Refusal) -> Error {
    match why {
        schema::Refusal::Sql(error) => failed("opening", path, error),
        schema::Refusal::Foreign => {
            Error::new(Exit::Store, format!("opening {}", path.display()), "it is a database of something else")
                .hint("move it away; exp keeps its index under this name")
        }
        schema::Refusal::Newer { found, known } => {
            let why = format!("it has version {found}, this exp knows versions up to {known}");
            Error::new(Exit::Store, format!("opening {}", path.display()), why)
                .hint("use the exp that wrote it, or a newer one")
        }
    }
}
