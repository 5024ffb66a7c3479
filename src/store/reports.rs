//! Takes in what the manifests of reports name.

use std::{collections::HashMap, os::unix::fs::MetadataExt, path::Path};

use rusqlite::{Connection, Transaction};

use super::{
    Store,
    columns::json,
    damage::{damaged, repaired},
    history::artifact,
    rows::Artifact,
};
use crate::base::{
    Error, Result,
    folders::Root,
    manifest::{FileRef, MANIFEST, Manifest},
};

impl Store {
    /// The files of all reports.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where the index cannot be read.
    pub fn reported(&self) -> Result<Vec<Artifact>> {
        self.read(|index| {
            index
                .prepare_cached("SELECT * FROM artifact WHERE kind = 'report' ORDER BY path")?
                .query_map([], artifact)?
                .collect()
        })
    }
}

/// What is known of reports: by experiment, which manifest was taken in.
pub fn known(index: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut statement = index.prepare_cached("SELECT experiment, stamp FROM reports")?;
    statement.query_map([], |row| Ok((row.get("experiment")?, row.get("stamp")?)))?.collect()
}

/// Which manifest stands in a folder; `None` where there is none.
pub fn stamp(folder: &Path) -> Option<String> {
    let manifest = folder.join(MANIFEST).metadata().ok()?;
    Some(format!("{}.{:09} {}", manifest.mtime(), manifest.mtime_nsec(), manifest.len()))
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
        Err(fault) => {
            damaged(index, &place, 0, &Error::from(fault).why)?;
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
