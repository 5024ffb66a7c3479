//! Tags: what people call runs. A tag is a line of the run's journal; the index follows from it.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Transaction, params_from_iter};

use super::{Store, columns::id, ingest};
use crate::{
    base::{Result, RunId, clock},
    event::Note,
};

/// What a tag may be, for hints.
pub const RULE: &str =
    "a tag has 1 to 200 characters, no comma and no control character, and neither begins nor ends with a blank";

/// The most characters of a tag.
const LONGEST: usize = 200;

/// What is wrong with a tag, by [`RULE`].
///
/// # Errors
/// That, in words.
pub fn check(tag: &str) -> Result<(), &'static str> {
    let wrong = [
        (tag.is_empty(), "it is empty"),
        (tag.chars().count() > LONGEST, "it is too long"),
        (tag.contains(','), "it has a comma"),
        (tag.contains(char::is_control), "it has a control character"),
        (tag.trim() != tag, "it begins or ends with a blank"),
    ];
    wrong.into_iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, why)| Err(why))
}

/// What is done with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Runs get it.
    Add,
    /// Runs have it no more.
    Remove,
}

impl Store {
    /// Gives runs tags, or takes them away; what of it was to be done is written into their journals, each with its run.
    /// Says of each tag which runs were changed: the others had it already, or did not have it.
    ///
    /// # Errors
    /// [`Exit::Store`](crate::base::Exit::Store) where a journal or the index cannot be written. Tags that break [`RULE`]
    /// are for the caller to refuse.
    pub fn tag(&mut self, runs: &[RunId], tags: &[String], change: Change) -> Result<Vec<Vec<RunId>>> {
        let had = self.read(|index| of(index, "", &[]))?;
        let has = |run: &RunId, tag: &String| had.get(run).is_some_and(|tags| tags.contains(tag));
        let mut changed = Vec::new();
        for tag in tags {
            let to_do = runs.iter().copied().filter(|run| has(run, tag) == (change == Change::Remove));
            let to_do: Vec<RunId> = to_do.collect();
            for run in &to_do {
                let (at, tag) = (clock::now(), tag.clone());
                self.write_down(
                    run,
                    &if change == Change::Add { Note::Tagged { at, tag } } else { Note::Untagged { at, tag } },
                )?;
            }
            changed.push(to_do);
        }
        let root = self.root.clone();
        let folders: HashSet<RunId> = changed.iter().flatten().copied().collect();
        if !folders.is_empty() {
            self.write(|index| folders.iter().try_for_each(|run| ingest::take_run(index, &root, &root.run(run))))?;
        }
        Ok(changed)
    }
}

/// A run is called something.
pub fn put(index: &Transaction, run: i64, tag: &str) -> rusqlite::Result<()> {
    index.execute("INSERT OR IGNORE INTO tags (run, tag) VALUES (?1, ?2)", (run, tag)).map(drop)
}

/// A run is called something no more.
pub fn take(index: &Transaction, run: i64, tag: &str) -> rusqlite::Result<()> {
    index.execute("DELETE FROM tags WHERE run = ?1 AND tag = ?2", (run, tag)).map(drop)
}

/// The tags of the runs that a query chose, in alphabetical order.
pub fn of(index: &Connection, which: &str, parameters: &[String]) -> rusqlite::Result<HashMap<RunId, Vec<String>>> {
    let mut statement = index
        .prepare_cached(&format!("SELECT runs.id, tags.tag FROM tags JOIN runs USING (run) {which} ORDER BY tag"))?;
    let mut rows = statement.query(params_from_iter(parameters))?;
    let mut tags: HashMap<RunId, Vec<String>> = HashMap::new();
    while let Some(row) = rows.next()? {
        tags.entry(id(row)?).or_default().push(row.get("tag")?);
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_tags_are_fine_and_those_that_lists_cannot_show_are_not() {
        for tag in ["good", "🙂", "100 % \"it's\"", "-x", "a\\b", &"é".repeat(200)] {
            assert_eq!(check(tag), Ok(()), "{tag}");
        }
        for tag in ["", " a", "a\u{a0}", "a,b", "a\nb", "a\tb", "\u{1b}[31m", &"é".repeat(201)] {
            assert!(check(tag).is_err(), "{tag:?}");
        }
    }
}
