//! Half lines, bad files, lost files, indexes of other versions and none at all.

use std::{fs, path::Path};

use exp::{
    base::{Exit, folders::Root},
    event::{Note, Outcome, RunState},
    store::Store,
};
use rusqlite::Connection;

use crate::common::*;

#[test]
fn half_a_line_waits_and_a_bad_one_is_passed_over() {
    let (home, mut store, ids) = Home::with_runs(1);
    let id = &ids[0];
    let (first, second) = (line(&step(1, 1.0)), line(&step(2, 2.0)));
    home.append(id, 1, &[started(1), ready(0)]);
    home.append_text(id, 1, &first);
    home.append_text(id, 1, &second[..20]);
    store.ingest(id).unwrap();
    assert_eq!(store.metrics(id).unwrap()["train/loss"], [(1, 1.0)]);
    home.append_text(id, 1, &second[20..]);
    let at = fs::metadata(home.root.run(id).events(1)).unwrap().len();
    home.append_text(id, 1, "{\"event\":\"step\",\"step\":\n\u{0}\u{0}\n\n{\"event\":\"tea\"}\n");
    home.append(id, 1, &[step(3, 3.0)]);
    store.ingest(id).unwrap();
    assert_eq!(store.metrics(id).unwrap()["train/loss"], [(1, 1.0), (2, 2.0), (3, 3.0)]);
    let damage = store.damage().unwrap();
    assert_eq!(damage.len(), 3);
    assert_eq!(
        (damage[0].file.as_str(), damage[0].offset),
        (home.root.relative(&home.root.run(id).events(1)).as_str(), at)
    );
    let warnings = &store.attempts(id).unwrap()[0].warnings;
    assert!(warnings[0].contains(&format!("attempt-1/events.jsonl, byte {at}: ")), "{warnings:?}");
    assert!(warnings[2].contains("unknown variant `tea`"), "{warnings:?}");
    store.sync().unwrap();
    assert_eq!(store.damage().unwrap(), damage, "said once");
}

#[test]
fn a_journal_that_ends_in_half_a_line_goes_on() {
    let (home, mut store, ids) = Home::with_runs(1);
    let journal = home.root.run(&ids[0]).journal();
    fs::write(&journal, "{\"note\":\"gave").unwrap();
    store.note(&ids[0], &Note::GaveUp { at: 1, attempt: 1, why: "it died".into() }).unwrap();
    assert_eq!(store.run(&ids[0]).unwrap().unwrap().state, RunState::Failed { why: "it died".into() });
    assert_eq!(store.damage().unwrap()[0].file, home.root.relative(&journal));

    let journal = home.root.experiment_journal("sweep");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text + "{\"at\":").unwrap();
    store.register("sweep", &expansion(&[frozen(8)]), &[frozen(8)]).unwrap();
    assert_eq!(store.members("sweep").unwrap(), [frozen(8).id]);
}

#[test]
fn one_bad_folder_stops_no_other() {
    let (home, mut store, ids) = Home::with_runs(3);
    let whole = fs::read(home.root.run(&ids[0]).config()).unwrap();
    fs::write(home.root.run(&ids[0]).config(), "{").unwrap();
    store.sync().unwrap();
    assert_eq!(store.runs(None).unwrap().len(), 3, "what was taken in stays");
    drop(store);
    let stranger = Root::new(home.root.path()).runs().join("0123456789abcdef");
    fs::create_dir_all(&stranger).unwrap();
    fs::copy(home.root.run(&ids[1]).config(), stranger.join("config.json")).unwrap();
    fs::create_dir_all(home.root.runs().join("fedcba9876543210")).unwrap(); // made, not filled yet
    let mut store = Store::rebuild(&home.root).unwrap();
    assert_eq!(store.runs(None).unwrap().len(), 2);
    let damage = store.damage().unwrap();
    assert_eq!(damage.len(), 2, "{damage:?}");
    assert!(
        damage.iter().any(|d| d.file == "runs/0123456789abcdef/config.json" && d.why.contains("belongs elsewhere"))
    );

    fs::write(home.root.run(&ids[0]).config(), whole).unwrap();
    fs::remove_dir_all(&stranger).unwrap();
    store.sync().unwrap();
    assert_eq!((store.runs(None).unwrap().len(), store.damage().unwrap()), (3, vec![]));
}

#[test]
fn a_file_that_lost_its_end_is_read_again() {
    let (home, mut store, ids) = Home::with_runs(1);
    let events = home.root.run(&ids[0]).events(1);
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0)]);
    let whole = fs::read(&events).unwrap();
    home.append(&ids[0], 1, &[step(2, 1.0), step(3, 1.0)]);
    store.ingest(&ids[0]).unwrap();
    fs::write(&events, whole).unwrap(); // as after a power cut
    store.sync().unwrap();
    assert_eq!(store.metrics(&ids[0]).unwrap()["train/loss"], [(1, 1.0)]);
    assert_eq!(store.runs(Some("sweep")).unwrap().len(), 1);

    fs::remove_dir_all(home.root.run(&ids[0]).attempt(1)).unwrap();
    store.ingest(&ids[0]).unwrap();
    assert_eq!(store.run(&ids[0]).unwrap().unwrap().state, RunState::Queued);
}

#[test]
fn a_file_that_could_not_be_read_is_read_when_it_can() {
    let (home, mut store, ids) = Home::with_runs(1);
    let events = home.root.run(&ids[0]).events(1);
    fs::create_dir_all(&events).unwrap();
    store.sync().unwrap();
    store.sync().unwrap();
    assert_eq!(store.damage().unwrap().len(), 1);
    fs::remove_dir(&events).unwrap();
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0)]);
    store.sync().unwrap();
    assert_eq!((store.damage().unwrap(), store.curve(&ids[0], "lr").unwrap().len()), (vec![], 1));
}

/// Puts a symbolic link to itself in the place of a folder: as root, no mode keeps one from listing it, this does.
fn loop_in_place_of(folder: &Path) -> impl FnOnce() + use<> {
    let away = folder.with_extension("away");
    fs::rename(folder, &away).unwrap();
    std::os::unix::fs::symlink(folder, folder).unwrap();
    let folder = folder.to_owned();
    move || {
        fs::remove_file(&folder).unwrap();
        fs::rename(away, folder).unwrap();
    }
}

#[test]
fn what_cannot_be_listed_is_not_forgotten() {
    let (home, mut store, ids) = Home::with_runs(2);
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0)]);
    store.sync().unwrap();
    let before = dump(&home.root);
    for folder in [home.root.runs(), home.root.experiments()] {
        // The index is open already: it is the listing alone that fails.
        let index = fs::read(home.root.database()).unwrap();
        let put_back = loop_in_place_of(&folder);
        let error = store.sync().unwrap_err();
        assert!(error.exit == Exit::Store && error.doing == format!("listing {}", folder.display()), "{error}");
        put_back();
        assert_eq!(fs::read(home.root.database()).unwrap(), index);
    }
    assert_eq!(dump(&home.root), before);

    let put_back = loop_in_place_of(home.root.run(&ids[0]).path());
    store.sync().unwrap();
    assert_eq!(store.metrics(&ids[0]).unwrap()["train/loss"], [(1, 1.0)], "the run stays");
    let damage = store.damage().unwrap();
    assert!(damage.iter().any(|d| d.file == home.root.relative(home.root.run(&ids[0]).path())), "{damage:?}");
    put_back();
    store.sync().unwrap();
    assert_eq!((store.damage().unwrap(), dump(&home.root)), (vec![], before));
}

#[test]
fn what_has_no_folder_is_forgotten_but_a_copied_index_is_not() {
    let (home, mut store, ids) = Home::with_runs(3);
    store.register("other", &expansion(&[frozen(7)]), &[frozen(7)]).unwrap();
    fs::remove_dir_all(home.root.run(&ids[1]).path()).unwrap();
    fs::remove_dir_all(home.root.experiment("other")).unwrap();
    store.sync().unwrap();
    let seeds: Vec<_> = store.runs(Some("sweep")).unwrap().iter().map(|r| r.config.train.seed).collect();
    assert_eq!(seeds, [0, 2]);
    assert_eq!((store.run(&ids[1]).unwrap().is_none(), store.experiments().unwrap().len()), (true, 1));
    drop(store);

    let copy = Home::new();
    fs::create_dir_all(copy.root.runs()).unwrap();
    fs::copy(home.root.database(), copy.root.database()).unwrap();
    let mut copied = Store::open_existing(&copy.root).unwrap().unwrap();
    copied.sync().unwrap();
    assert_eq!(copied.runs(None).unwrap().len(), 3);
}

#[test]
fn a_lost_index_comes_back_from_the_folders() {
    let (home, mut store, ids) = Home::with_runs(3);
    for id in &ids {
        home.append(id, 1, &[started(1), ready(0), eval(0, 2.0), step(1, f64::NAN), finished(Outcome::Done)]);
    }
    store.note(&ids[0], &Note::GaveUp { at: 1, attempt: 2, why: "it died".into() }).unwrap();
    store.sync().unwrap();
    drop(store);
    let before = dump(&home.root);
    assert!(before.contains("\"nan\"") || before.contains("[110, 97, 110]"), "{before}");

    fs::remove_file(home.root.database()).unwrap();
    assert!(Store::open_existing(&home.root).unwrap().is_none());
    let mut store = Store::open(&home.root).unwrap();
    store.sync().unwrap();
    drop(store);
    assert_eq!(dump(&home.root), before);

    fs::write(home.root.database(), "damaged").unwrap();
    drop(Store::rebuild(&home.root).unwrap());
    assert_eq!(dump(&home.root), before);
    let names: Vec<_> = fs::read_dir(home.root.runs()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".aside")), "{names:?}");
}

#[test]
fn who_has_the_index_open_goes_on_after_a_rebuild() {
    let (home, mut store, ids) = Home::with_runs(2);
    let rebuilt = Store::rebuild(&home.root).unwrap();
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0)]);
    store.ingest(&ids[0]).unwrap();
    assert_eq!(rebuilt.curve(&ids[0], "lr").unwrap().len(), 1, "it writes to the new index");
}

#[test]
fn what_is_no_index_of_ours_is_refused_and_left_alone() {
    let garbage = [vec![b'x'; 5000], b"SQLite format 3\0 and then nonsense".repeat(300)];
    for content in garbage {
        let home = Home::new();
        fs::create_dir_all(home.root.runs()).unwrap();
        fs::write(home.root.database(), &content).unwrap();
        let opened = [Store::open(&home.root).map(drop), Store::open_existing(&home.root).map(drop)];
        for error in opened.map(Result::unwrap_err) {
            assert_eq!(error.exit, Exit::Store);
            assert!(error.to_string().contains("exp.db") && error.hint.unwrap().contains("exp store rebuild"));
        }
        assert_eq!(fs::read(home.root.database()).unwrap(), content);
    }

    let home = Home::new();
    fs::create_dir_all(home.root.runs()).unwrap();
    Connection::open(home.root.database()).unwrap().execute_batch("CREATE TABLE recipes (tea)").unwrap();
    let before = fs::read(home.root.database()).unwrap();
    let error = Store::open(&home.root).unwrap_err();
    assert!(error.why.contains("something else"), "{error}");
    assert_eq!(fs::read(home.root.database()).unwrap(), before);
}

#[test]
fn an_index_cut_short_is_an_error_with_a_hint() {
    let (home, store, _) = Home::with_runs(200);
    drop(store);
    let content = fs::read(home.root.database()).unwrap();
    fs::write(home.root.database(), &content[..8192]).unwrap();
    let error = Store::open(&home.root).and_then(|store| store.runs(None)).unwrap_err();
    assert_eq!(error.exit, Exit::Store);
    assert!(error.hint.unwrap().contains("exp store rebuild"));
    assert_eq!(Store::rebuild(&home.root).unwrap().runs(None).unwrap().len(), 200);
}

/// `version-1.sql` is what the first released index held; it stays as it is for ever.
#[test]
fn an_index_of_version_1_opens_and_says_what_it_said() {
    let home = Home::new();
    fs::create_dir_all(home.root.runs()).unwrap();
    Connection::open(home.root.database()).unwrap().execute_batch(include_str!("version-1.sql")).unwrap();
    let mut store = Store::open(&home.root).unwrap();
    store.sync().unwrap();
    let rows = store.runs(Some("sweep")).unwrap();
    let states: Vec<_> = rows.iter().map(|row| row.state.clone()).collect();
    assert_eq!(states, [RunState::Done, RunState::Failed { why: "killed by signal 9".into() }]);
    assert_eq!((rows[0].step, rows[0].best, rows[0].tokens_per_second), (3, Some((3, 3.25)), Some(1003.0)));
    let losses = store.curve(&rows[0].id, "train/loss").unwrap();
    assert_eq!(losses.iter().map(|p| (p.step, p.attempt)).collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 2)]);
    assert!(losses[1].value.is_nan());
    assert_eq!(store.attempts(&rows[0].id).unwrap()[1].warnings[0], "it's slow");
    assert_eq!(store.artifacts(&rows[0].id).unwrap().len(), 2);
}

#[test]
fn an_index_of_version_1_is_migrated_and_keeps_every_row() {
    let home = Home::new();
    fs::create_dir_all(home.root.runs()).unwrap();
    let old = Connection::open(home.root.database()).unwrap();
    old.execute_batch(include_str!("version-1.sql")).unwrap();
    const TABLES: [&str; 9] =
        ["runs", "leaves", "attempts", "metric_names", "metrics", "warnings", "artifacts", "experiments", "members"];
    let rows = |index: &Connection| -> Vec<Vec<String>> {
        let columns = |table: &str| -> Vec<String> {
            let sql = format!(
                "SELECT name FROM pragma_table_info('{table}')
                 WHERE name NOT LIKE 'skipped%' AND name NOT LIKE 'paused%' AND name <> 'journal'"
            );
            index.prepare(&sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let of = |table: &str| {
            let columns = columns(table);
            let mut statement = index.prepare(&format!("SELECT {} FROM {table}", columns.join(", "))).unwrap();
            let text = |row: &rusqlite::Row| (0..columns.len()).map(|n| format!("{:?}|", row.get_ref(n))).collect();
            statement.query_map([], |row| Ok(text(row))).unwrap().map(Result::unwrap).collect::<Vec<String>>()
        };
        TABLES.iter().map(|table| of(table)).collect()
    };
    let version = |index: &Connection| index.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap();
    let (before, was) = (rows(&old), version(&old));
    assert!(before[0].len() == 2 && before.iter().filter(|rows| rows.is_empty()).count() < 2, "it holds something");
    drop(old);
    drop(Store::open(&home.root).unwrap());
    let index = Connection::open(home.root.database()).unwrap();
    assert_eq!((was, version(&index)), (1, newest()));
    assert_eq!(rows(&index), before, "journals alone are read again");
    let sql = "SELECT count(*) FROM runs WHERE skipped IS NOT NULL OR paused IS NOT NULL";
    let left = index.query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(left, Ok(0), "nothing that was there is skipped or pauses");
}

/// The version of an index that is made now.
fn newest() -> i64 {
    let (home, _, _) = Home::with_runs(1);
    let index = Connection::open(home.root.database()).unwrap();
    index.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_newer_index_is_refused_with_both_versions() {
    let (home, store, _) = Home::with_runs(1);
    drop(store);
    Connection::open(home.root.database()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(home.root.database()).unwrap();
    for error in [Store::open(&home.root).unwrap_err(), Store::open_existing(&home.root).unwrap_err()] {
        assert_eq!(error.exit, Exit::Store);
        assert!(error.why.contains("version 99") && error.why.contains(&format!("up to {}", newest())), "{error}");
    }
    assert_eq!(fs::read(home.root.database()).unwrap(), before);
}

/// To read a pipe is to wait for somebody who writes.
#[test]
fn a_pipe_in_place_of_a_file_is_damage_and_nobody_waits_for_it() {
    let (home, store, ids) = Home::with_runs(3);
    drop(store);
    home.append(&ids[1], 1, &[started(1)]);
    let folder = |at: usize| home.root.run(&ids[at]);
    let pipes = [folder(0).config(), folder(1).events(1), folder(2).journal()];
    for pipe in &pipes {
        let _ = fs::remove_file(pipe);
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let store = Store::rebuild(&home.root).unwrap();
    let damaged: Vec<_> = store.damage().unwrap().into_iter().map(|damage| (damage.file, damage.why)).collect();
    // A pipe is never longer than what was read of it: what it would say of a run is not there.
    let config = (home.root.relative(&pipes[0]), "it is no regular file".to_owned());
    assert!(damaged.contains(&config), "{damaged:?}");
    assert_eq!(store.runs(None).unwrap().len(), 2);
}
