//! Takes in the journals of experiments: what each spec expanded to when it was last run.

use rusqlite::{Connection, OptionalExtension, Transaction, named_params};

use super::{
    columns::{int, json, unsigned},
    damage::{each_line, repaired},
    lines::{News, news},
};
use crate::{base::folders::Root, event::Expansion};

/// The names of all experiments that the index knows, and the bytes taken in of their journals.
pub fn known(index: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    index
        .prepare_cached("SELECT name, journal FROM experiments ORDER BY name")?
        .query_map([], |row| Ok((row.get("name")?, unsigned(row, "journal")?)))?
        .collect()
}

/// Takes in what the journal of an experiment has new.
pub fn take(index: &Transaction, root: &Root, name: &str) -> rusqlite::Result<()> {
    let path = root.experiment_journal(name);
    if news(&path, offset(index, name)?) == News::Shrunk {
        forget(index, root, name)?;
    }
    index.execute("INSERT OR IGNORE INTO experiments (name) VALUES (?1)", [name])?;
    let mut last: Option<Expansion> = None;
    let offset = each_line(index, root, &path, offset(index, name)?, |_, expansion| {
        last = Some(expansion);
        Ok(())
    })?;
    index.execute("UPDATE experiments SET journal = ?2 WHERE name = ?1", (name, int(offset)))?;
    last.map_or(Ok(()), |expansion| replace(index, name, &expansion))
}

/// Removes an experiment.
pub fn forget(index: &Transaction, root: &Root, name: &str) -> rusqlite::Result<()> {
    index.execute("DELETE FROM experiments WHERE name = ?1", [name])?;
    repaired(index, &root.relative(&root.experiment(name)))
}

fn offset(index: &Transaction, name: &str) -> rusqlite::Result<u64> {
    let taken_in = "SELECT journal FROM experiments WHERE name = ?1";
    Ok(index.query_row(taken_in, [name], |row| unsigned(row, "journal")).optional()?.unwrap_or(0))
}

fn replace(index: &Transaction, name: &str, expansion: &Expansion) -> rusqlite::Result<()> {
    let experiment: i64 = index.query_row(
        "UPDATE experiments SET at = :at, axes = :axes WHERE name = :name RETURNING experiment",
        named_params! { ":name": name, ":at": expansion.at, ":axes": json(&expansion.axes)? },
        |row| row.get(0),
    )?;
    index.execute("DELETE FROM members WHERE experiment = ?1", [experiment])?;
    let mut insert = index.prepare_cached("INSERT INTO members (experiment, position, id) VALUES (?1, ?2, ?3)")?;
    for (position, id) in (0i64..).zip(&expansion.members) {
        insert.execute((experiment, position, id.to_string()))?;
    }
    Ok(())
}
