//! Takes in what the manifests of reports name.

use std::{collections::HashMap, io::ErrorKind, os::unix::fs::MetadataExt, path::Path};

use rusqlite::{Connection, Transaction};

use super::{
    columns::json,
    damage::{damaged, repaired},
};
use crate::base::{
    folders::Root,
    manifest::{Fault, FileRef, MANIFEST, Manifest},
};

/// What is known of reports: by experiment, which manifest was taken in.
pub fn known(index: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = index.prepare_cached("SELECT experiment, stamp FROM reports")?;
    statement.query_map([], |row| Ok((row.get("experiment")?, row.get("stamp")?)))?.collect()
}

/// Which manifest stands in a folder.
pub enum Stamp {
    /// One of that time and size.
    Of(String),
    /// None.
    Absent,
    /// That cannot be told: what is known of it stays.
    Unknown,
}

impl Stamp {
    /// Of the folder of a report.
    pub fn of(folder: &Path) -> Self {
        match folder.join(MANIFEST).metadata() {
            Ok(file) => Self::Of(format!("{}.{:09} {}", file.mtime(), file.mtime_nsec(), file.len())),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Self::Absent,
            Err(_) => Self::Unknown,
        }
    }
}

/// Takes in the manifest of a report.
pub fn take(index: &Transaction, root: &Root, experiment: &str, stamp: &str) -> rusqlite::Result<()> {
    let folder = root.report(experiment);
    let place = root.relative(&folder.join(MANIFEST));
    let files: Vec<FileRef> = match Manifest::read(&folder) {
        Ok(manifest) => {
            repaired(index, &place)?;
            manifest.files
        }
        // It may be readable the next time.
        Err(Fault::Unreadable(error)) => return damaged(index, &place, 0, &error.why),
        Err(Fault::Damaged(error)) => {
            damaged(index, &place, 0, &error.why)?;
            Vec::new()
        }
    };
    let row = (experiment, stamp, json(&files)?);
    index.execute("INSERT OR REPLACE INTO reports (experiment, stamp, files) VALUES (?1, ?2, ?3)", row)?;
    Ok(())
}

/// Removes what is known of a report.
pub fn forget(index: &Transaction, root: &Root, experiment: &str) -> rusqlite::Result<()> {
    index.execute("DELETE FROM reports WHERE experiment = ?1", [experiment])?;
    repaired(index, &root.relative(&root.report(experiment)))
}
