//! Questions about many runs, which several threads ask at once: of a part of them each, by the numbers that the index
//! gives to runs, or by their places in an experiment.

use std::{
    ops::RangeInclusive,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, Params};

use super::Store;
use crate::base::{Result, parallel};

/// Numbers that follow one another, both ends included.
pub type Part = RangeInclusive<i64>;

/// All runs in one part.
pub const EVERY: Part = i64::MIN..=i64::MAX;

/// All runs, by their numbers.
pub fn parts(index: &Connection) -> rusqlite::Result<Vec<Part>> {
    cut(index, "SELECT min(run), max(run) FROM runs", [])
}

/// The places of an experiment's runs in its grid.
pub fn places(index: &Connection, experiment: &str) -> rusqlite::Result<Vec<Part>> {
    let ends = "SELECT min(position), max(position) FROM members JOIN experiments USING (experiment) WHERE name = ?1";
    cut(index, ends, [experiment])
}

/// Parts of a size at which it costs little to ask for one, and no thread is left with much when the others are done. They
/// leave no number out.
fn cut(index: &Connection, ends: &str, parameters: impl Params) -> rusqlite::Result<Vec<Part>> {
    const SIZE: i64 = 256;
    const MOST: i64 = 4096;
    let ends: (Option<i64>, Option<i64>) = index.query_row(ends, parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (Some(first), Some(last)) = ends else { return Ok(vec![EVERY]) };
    let size = SIZE.max(last.saturating_sub(first) / MOST);
    let starts: Vec<i64> = (first..=last).step_by(size as usize).skip(1).collect();
    let starts_of = [i64::MIN].into_iter().chain(starts.iter().copied());
    let ends_of = starts.iter().map(|start| start - 1).chain([i64::MAX]);
    Ok(starts_of.zip(ends_of).map(|(start, end)| start..=end).collect())
}

impl Store {
    /// What `ask` answers to each of `items`, in their order: by as many threads as there are cores, each of which has a
    /// connection of its own. By this thread alone [at one moment](Store::at_one_moment), which no other connection sees.
    ///
    /// # Errors
    /// The first of `ask`.
    pub fn each<T: Sync, U: Send>(&self, items: &[T], ask: impl Fn(&Self, &T) -> Result<U> + Sync) -> Result<Vec<U>> {
        if items.len() > 1
            && self.connection.is_autocommit()
            && let Some(answers) = self.each_at_once(items, &ask)
        {
            return answers.into_iter().collect();
        }
        items.iter().map(|item| ask(self, item)).collect()
    }

    /// What `ask` answers to each of `parts` as of one moment: where somebody writes while they are asked for, they may not
    /// fit together, and all are asked for once more at once.
    ///
    /// # Errors
    /// Those of `ask`; where the index cannot be read.
    pub(super) fn in_parts<U: Send>(
        &self,
        parts: &[Part],
        ask: impl Fn(&Self, &Part) -> Result<Vec<U>> + Sync,
    ) -> Result<Vec<U>> {
        // It differs once another connection has written.
        let version = || self.read(|index| index.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)));
        let before = version()?;
        let answers = self.each(parts, &ask)?;
        if parts.len() > 1 && version()? != before {
            return ask(self, &EVERY);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// `None` where there is no connection to be had, or only one to another index that was put in the place of this one:
    /// what the two answer might not fit together.
    fn each_at_once<T: Sync, U: Send>(
        &self,
        items: &[T],
        ask: &(impl Fn(&Self, &T) -> Result<U> + Sync),
    ) -> Option<Vec<Result<U>>> {
        let Self { root, path, inode, read_only, patience, .. } = self;
        let open = || {
            let twin = Self::as_it_is(root, path.clone(), *read_only, *patience).ok()?;
            (twin.inode == *inode).then_some(twin)
        };
        let idle = Mutex::new(Vec::new());
        let idle = || idle.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = |item: &T| {
            let known = idle().pop(); // a statement of its own: others are not to wait for one that opens
            let twin = known.or_else(open)?;
            let answer = ask(&twin, item);
            idle().push(twin);
            Some(answer)
        };
        parallel::each(items, answer).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::folders::Root;

    #[test]
    fn what_is_written_meanwhile_is_in_all_parts_or_in_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let store = Store::open(&root).unwrap();
        let insert = "INSERT INTO runs (run, id, created, config) VALUES (?1, ?1, 0, '')";
        for run in 1..=600 {
            store.connection.execute(insert, [run]).unwrap();
        }
        let numbers = |store: &Store, part: &Part| {
            store.read(|index| {
                let mut runs = index.prepare("SELECT run FROM runs WHERE run BETWEEN ?1 AND ?2 ORDER BY run")?;
                runs.query_map([part.start(), part.end()], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
            })
        };
        let parts = store.read(parts).unwrap();
        assert_eq!(parts.len(), 3);
        assert_eq!(store.in_parts(&parts, numbers).unwrap(), (1..=600).collect::<Vec<_>>());

        let (asked, moved) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let answers = store.in_parts(&parts, |store, part| {
            let answer = numbers(store, part);
            // Once: to ask for all at once begins there too.
            if *part.start() == i64::MIN && moved.fetch_add(1, Ordering::SeqCst) == 0 {
                let other = Store::open(&root)?;
                other.connection.execute("UPDATE runs SET run = 900 WHERE run = 1", []).unwrap();
            }
            asked.fetch_add(1, Ordering::SeqCst);
            answer
        });
        assert_eq!(answers.unwrap(), (2..=600).chain([900]).collect::<Vec<_>>());
        assert_eq!(asked.load(Ordering::SeqCst), 4, "three parts, and all at once");
    }

    #[test]
    fn parts_leave_no_number_out_and_have_none_twice() {
        for numbers in [&[][..], &[7], &[1, 256], &[1, 257], &[-300, 5, 600, 601], &[1, i64::MAX], &[i64::MIN, 3]] {
            let index = Connection::open_in_memory().unwrap();
            index.execute_batch("CREATE TABLE runs (run INTEGER PRIMARY KEY)").unwrap();
            for number in numbers {
                index.execute("INSERT INTO runs VALUES (?1)", [number]).unwrap();
            }
            let parts = parts(&index).unwrap();
            assert_eq!(*parts[0].start(), i64::MIN, "{numbers:?}");
            assert_eq!(*parts[parts.len() - 1].end(), i64::MAX, "{numbers:?}");
            assert!(parts.windows(2).all(|two| *two[0].end() + 1 == *two[1].start()), "{numbers:?}: {parts:?}");
            assert!(parts.iter().all(|part| part.start() <= part.end()) && parts.len() <= 4100, "{numbers:?}");
            let inner = parts.iter().filter(|part| *part.start() > i64::MIN && *part.end() < i64::MAX);
            assert!(
                parts.len() > 1000 || inner.into_iter().all(|part| part.end() - part.start() == 255),
                "{numbers:?}"
            );
        }
    }
}
