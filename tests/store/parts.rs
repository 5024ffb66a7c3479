//! More runs than one thread asks for at a time.

use std::{
    fs,
    time::{Duration, UNIX_EPOCH},
};

use exp::{event::Outcome, store::Store};

use crate::common::*;

/// Three parts, the last of which is small.
const RUNS: u64 = 520;

#[test]
fn many_runs_come_in_the_order_of_their_grid() {
    let (home, store, ids) = Home::with_runs(RUNS);
    let listed = |rows: Vec<exp::store::RunRow>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(listed(store.runs(Some("sweep")).unwrap()), ids);
    assert_eq!(store.members("sweep").unwrap(), ids);
    let seeds = store.each(&ids, |store, id| Ok(store.run(id)?.unwrap().config.train.seed)).unwrap();
    assert_eq!(seeds, (0..RUNS).collect::<Vec<_>>());

    let some: Vec<_> = (0..RUNS).rev().step_by(2).map(frozen).collect();
    let mut store = store;
    store.register("half", &expansion(&some), &some).unwrap();
    let want: Vec<_> = some.iter().map(|run| run.id).collect();
    assert_eq!(listed(store.runs(Some("half")).unwrap()), want);
    let ours = Duration::from_secs(1_700_000_000);
    for (at, id) in (0..).zip(&ids) {
        let later = if at % 2 == 0 { Duration::from_millis(5 * at) } else { Duration::from_millis(60_000 + at) };
        let config = fs::File::options().append(true).open(home.root.run(id).config()).unwrap();
        config.set_modified(UNIX_EPOCH + ours + later).unwrap();
        store.take_anew(id).unwrap();
    }
    let (even, odd): (Vec<u64>, Vec<u64>) = (0..RUNS).partition(|seed| seed % 2 == 0);
    let seeds: Vec<u64> = store.runs(None).unwrap().iter().map(|row| row.config.train.seed).collect();
    assert_eq!(seeds, [odd, even].concat(), "what became known together stays together");
}

#[test]
fn what_is_new_in_one_of_many_folders_is_taken_in_and_what_is_gone_forgotten() {
    let (home, mut store, ids) = Home::with_runs(RUNS);
    let places = [0, 255, 256, 257, 511, 512, ids.len() - 1];
    for at in places {
        home.append(&ids[at], 1, &[started(1), ready(0), step(1, 2.0), finished(Outcome::Done)]);
    }
    let gone = [3, 254, 510];
    for at in gone {
        fs::remove_dir_all(home.root.run(&ids[at]).path()).unwrap();
    }
    store.sync().unwrap();
    let rows = store.runs(None).unwrap();
    assert_eq!(rows.len(), ids.len() - gone.len());
    assert!(gone.iter().all(|at| rows.iter().all(|row| row.id != ids[*at])));
    let begun: Vec<_> = rows.iter().filter(|row| row.attempts == 1).map(|row| row.id).collect();
    assert_eq!(begun, places.map(|at| ids[at]));
}

#[test]
fn at_one_moment_nothing_changes_however_many_runs_are_asked_for() {
    let (home, store, ids) = Home::with_runs(RUNS);
    store
        .at_one_moment(|| {
            let attempts = || store.runs(None).map(|rows| rows.iter().map(|row| row.attempts).sum::<u32>());
            assert_eq!(attempts()?, 0);
            home.append(&ids[300], 1, &[started(1)]);
            let mut other = Store::open(&home.root)?;
            other.ingest(&ids[300])?;
            assert_eq!(other.run(&ids[300])?.unwrap().attempts, 1);
            assert_eq!(attempts()?, 0, "the moment has passed");
            Ok(())
        })
        .unwrap();
}

#[test]
fn an_index_that_was_replaced_is_not_mixed_with_the_new_one() {
    let (home, store, ids) = Home::with_runs(RUNS);
    for id in &ids[..300] {
        fs::remove_dir_all(home.root.run(id).path()).unwrap();
    }
    let rebuilt = Store::rebuild(&home.root).unwrap();
    assert_eq!(rebuilt.runs(None).unwrap().len(), ids.len() - 300);
    assert_eq!(store.runs(None).unwrap().len(), ids.len(), "its own index has them all");
}

#[test]
fn an_index_that_is_made_is_whole_before_anybody_sees_it() {
    let (home, store, ids) = Home::with_runs(RUNS);
    home.append(&ids[400], 1, &[started(1), ready(0)]);
    drop(store);
    fs::remove_file(home.root.database()).unwrap();
    let store = Store::open(&home.root).unwrap();
    let rows = store.runs(Some("sweep")).unwrap(); // nothing was brought up to date
    assert_eq!((rows.len(), rows[400].attempts), (ids.len(), 1));
}
