//! Runs that are left out on purpose: what the journal says of them, and what lifts it.

use exp::{
    event::{CANCELLED, Note, Outcome, RunState},
    store::Store,
};

use crate::common::*;

fn skipped(why: &str) -> RunState {
    RunState::Skipped { why: why.into() }
}

#[test]
fn a_skipped_run_is_one_until_it_is_tried_after_all() {
    let (home, mut store, ids) = Home::with_runs(1);
    let id = &ids[0];
    let state = |store: &Store| store.run(id).unwrap().unwrap().state;
    let skip = |attempt| Note::Skipped { at: 1, attempt, why: "too large".into() };
    store.note(id, &skip(0)).unwrap();
    assert_eq!(state(&store), skipped("too large"));
    home.append(id, 1, &[started(1), finished(Outcome::Interrupted { step: 3 })]);
    store.sync().unwrap();
    assert_eq!(state(&store), RunState::Interrupted { step: 3 }, "somebody tried it all the same");
    store.note(id, &skip(1)).unwrap();
    assert_eq!(state(&store), skipped("too large"));

    let grown = dump(&home.root);
    drop(store);
    let mut store = Store::rebuild(&home.root).unwrap();
    assert_eq!((state(&store), dump(&home.root)), (skipped("too large"), grown), "the journal keeps it");
    home.append(id, 2, &[started(2), finished(Outcome::Done)]);
    store.sync().unwrap();
    assert_eq!(state(&store), RunState::Done);
    store.note(id, &skip(2)).unwrap();
    assert_eq!(state(&store), RunState::Done, "what is done is done");
}

#[test]
fn a_paused_run_is_one_until_it_is_gone_on_with() {
    let (home, mut store, ids) = Home::with_runs(1);
    let id = &ids[0];
    let row = |store: &Store| store.run(id).unwrap().unwrap();
    let paused = RunState::Paused { step: 40, why: "3rd of 9 at step 40: the best third goes on".into() };
    let pause = |attempt| Note::Paused { at: 1, attempt, step: 40, why: paused.why().unwrap().into() };
    home.append(id, 1, &[started(1), finished(Outcome::Interrupted { step: 40 })]);
    store.note(id, &pause(1)).unwrap();
    assert_eq!((row(&store).state, row(&store).step), (paused.clone(), 40));

    let grown = dump(&home.root);
    drop(store);
    let mut store = Store::rebuild(&home.root).unwrap();
    assert_eq!((row(&store).state, dump(&home.root)), (paused.clone(), grown), "the journal keeps it");
    home.append(id, 2, &[started(2), finished(Outcome::Interrupted { step: 50 })]);
    store.sync().unwrap();
    assert_eq!(row(&store).state, RunState::Interrupted { step: 50 }, "a later attempt lifts it");
    store.note(id, &pause(2)).unwrap();
    assert_eq!(row(&store).state, paused);
    home.append(id, 3, &[started(3), finished(Outcome::Done)]);
    store.note(id, &pause(3)).unwrap();
    assert_eq!(row(&store).state, RunState::Done, "what is done is done");
}

#[test]
fn a_run_that_was_cancelled_before_it_began_is_skipped_and_another_is_as_its_attempt_left_it() {
    let (home, mut store, ids) = Home::with_runs(2);
    home.append(&ids[1], 1, &[started(1), finished(Outcome::Interrupted { step: 9 })]);
    store.note(&ids[0], &Note::Cancelled { at: 1, attempt: 0 }).unwrap();
    store.note(&ids[1], &Note::Cancelled { at: 1, attempt: 1 }).unwrap();
    let states = |store: &Store| ids.iter().map(|id| store.run(id).unwrap().unwrap().state).collect::<Vec<_>>();
    assert_eq!(states(&store), [skipped(CANCELLED), RunState::Interrupted { step: 9 }]);
    drop(store);
    let mut store = Store::rebuild(&home.root).unwrap();
    assert_eq!(states(&store), [skipped(CANCELLED), RunState::Interrupted { step: 9 }]);
    home.append(&ids[0], 1, &[started(1)]);
    store.sync().unwrap();
    assert_eq!(states(&store)[0], RunState::Interrupted { step: 0 }, "a cancelled run may be begun again");
}
