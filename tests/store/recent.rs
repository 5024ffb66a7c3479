//! Where something happens: by when specs were run, by what attempts said, and by who holds a run now.

use exp::{
    base::files::Lock,
    event::{Event, Expansion, Outcome, Started},
    store::Recent,
};

use crate::common::*;

#[test]
fn what_happened_lately_is_recent_and_so_is_what_still_runs_whenever_it_began() {
    // Its spec was run at 1000; attempts begin at 10 times their number, and what ends does so at 99.
    let (home, mut store, ids) = Home::with_runs(3);
    let recent = |store: &exp::store::Store, since| store.recent(since).unwrap();
    let sweep = || Recent { experiments: vec!["sweep".into()], others: vec![] };
    assert_eq!((recent(&store, 1000), recent(&store, 1001)), (sweep(), Recent::default()));

    home.append(&ids[0], 1, &[started(1), step(1, 4.0)]);
    store.sync().unwrap();
    assert_eq!(recent(&store, 1001), Recent::default(), "it was killed, for all that can be told");
    let held = Lock::try_take(&home.root.run(&ids[0]).lock()).unwrap().unwrap();
    assert_eq!(recent(&store, 1001), sweep());
    drop(held);

    // A later spec has none of its runs any more; an earlier one ends lately.
    let other = [frozen(7)];
    store.register("sweep", &Expansion { at: 500, ..expansion(&other) }, &other).unwrap();
    let late = Started { at: 2_000, attempt: 1, ..Started::default() };
    home.append(&ids[1], 1, &[Event::Started(late), finished(Outcome::Done)]);
    store.sync().unwrap();
    assert_eq!(recent(&store, 1001), Recent { experiments: vec![], others: vec![ids[1]] });
    assert_eq!(recent(&store, 400).experiments, ["sweep"]);
}

#[test]
fn ends_are_those_of_latest_attempts_and_of_a_curve_what_is_new_is_read() {
    let (home, mut store, ids) = Home::with_runs(2);
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 4.0), step(2, f64::NAN), step(3, 2.0)]);
    home.append(&ids[0], 1, &[finished(Outcome::Interrupted { step: 3 })]);
    store.sync().unwrap();
    assert_eq!(store.ends("sweep").unwrap().into_iter().collect::<Vec<_>>(), [(ids[0], 99)]);
    let after = |step| {
        let mut points = Vec::new();
        store.each_point_after(&ids[0], "train/loss", step, &mut |p| points.push((p.step, p.value.to_bits()))).unwrap();
        points
    };
    let points = [(1, 4.0f64), (2, f64::NAN), (3, 2.0)].map(|(step, loss)| (step, loss.to_bits()));
    assert_eq!((after(0), after(1), after(3)), (points.to_vec(), points[1..].to_vec(), vec![]));
    home.append(&ids[0], 2, &[started(2)]);
    store.sync().unwrap();
    assert!(store.ends("sweep").unwrap().is_empty(), "it is tried again");
}
