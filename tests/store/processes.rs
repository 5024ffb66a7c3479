//! Many processes and threads on one index, some of them killed, some of them rude.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Child, Command, Stdio},
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use exp::{
    base::{Exit, folders::Root},
    event::{Note, Outcome},
    store::Store,
};
use rusqlite::Connection;

use crate::common::*;

const ROLE: &str = "EXP_STORE_TEST_ROLE";
const ROOT: &str = "EXP_STORE_TEST_ROOT";

/// Not a test of its own: what the processes do that the tests start.
#[test]
fn another_process() {
    let (Ok(role), Ok(root)) = (std::env::var(ROLE), std::env::var(ROOT)) else { return };
    let root = Root::new(root);
    match role.as_str() {
        "look" => look(&root),
        "read" => read(&root),
        role => match role.strip_prefix("train ") {
            Some(number) => train(&root, number.parse().unwrap()),
            None => work(&root, role.parse().unwrap()),
        },
    }
}

fn spawn(role: &str, root: &Root) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["processes::another_process", "--exact", "--nocapture"]).stdin(Stdio::null());
    command.env(ROLE, role).env(ROOT, root.path());
    command
}

/// Registers runs of its own and one that all share, trains its own step by step, and looks around.
fn work(root: &Root, number: u64) {
    let mut store = Store::open(root).unwrap();
    let runs = [frozen(0), frozen(number * 10 + 1), frozen(number * 10 + 2)];
    store.register(&format!("sweep {number}"), &expansion(&runs), &runs).unwrap();
    store.register("shared", &expansion(&runs[..1]), &runs[..1]).unwrap();
    for run in &runs[1..] {
        let folder = root.run(&run.id);
        append(&folder, 1, &[started(1), ready(0)].iter().map(line).collect::<String>());
        for k in 1..=40 {
            append(&folder, 1, &line(&step(k, k as f64)));
            store.ingest(&run.id).unwrap();
        }
        append(&folder, 1, &line(&finished(Outcome::Done)));
        store.note(&run.id, &Note::GaveUp { at: 1, attempt: 1, why: "it did not".into() }).unwrap();
        assert_eq!(store.runs(Some(&format!("sweep {number}"))).unwrap().len(), 3);
    }
    store.sync().unwrap();
}

/// Trains a run that is registered, and has each step taken in.
fn train(root: &Root, number: u64) {
    let (id, mut store) = (frozen(number).id, Store::open(root).unwrap());
    append(&root.run(&id), 1, &[started(1), ready(0)].iter().map(line).collect::<String>());
    for k in 1..=60 {
        append(&root.run(&id), 1, &line(&step(k, 1.0)));
        store.ingest(&id).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
}

/// Lists the runs over and over.
fn look(root: &Root) {
    for _ in 0..100 {
        if let Some(mut store) = Store::open_existing(root).unwrap() {
            store.sync().unwrap();
            store.runs(None).unwrap();
        }
    }
}

/// Asks for everything where nothing can be written.
fn read(root: &Root) {
    let id = &frozen(0).id;
    let mut store = Store::open_existing(root).unwrap().unwrap();
    store.sync().unwrap();
    store.ingest(id).unwrap();
    assert_eq!(store.runs(Some("sweep")).unwrap().iter().map(|r| r.state.word()).collect::<Vec<_>>(), STATES);
    assert_eq!((store.metrics(id).unwrap()["train/loss"].len(), store.attempts(id).unwrap().len()), (1, 1));
    assert_eq!(store.artifacts(id).unwrap().len(), 2);
    for error in
        [Store::open(root).err(), Store::rebuild(root).err(), store.register("sweep", &expansion(&[]), &[]).err()]
    {
        assert_eq!(error.unwrap().exit, Exit::Store);
    }
}

const STATES: [&str; 3] = ["done", "queued", "queued"];

fn succeeded(children: Vec<Child>) {
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn start(role: &str, root: &Root) -> Child {
    spawn(role, root).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn eight_processes_make_and_fill_one_index_while_others_look() {
    let home = Home::new();
    let mut children: Vec<_> = (1..=8).map(|number| start(&number.to_string(), &home.root)).collect();
    children.extend((0..2).map(|_| start("look", &home.root)));
    succeeded(children);

    let store = Store::open_existing(&home.root).unwrap().unwrap();
    assert_eq!((store.runs(None).unwrap().len(), store.experiments().unwrap().len()), (17, 9));
    for number in 1..=8 {
        for run in [frozen(number * 10 + 1), frozen(number * 10 + 2)] {
            assert_eq!(store.curve(&run.id, "train/loss").unwrap().len(), 40, "nothing is lost");
        }
    }
    drop(store);
    let grown = dump(&home.root);
    drop(Store::rebuild(&home.root).unwrap());
    assert_eq!(grown, dump(&home.root));
}

#[test]
fn the_first_to_open_an_index_lose_nothing_to_each_other() {
    for _ in 0..20 {
        let home = Home::new();
        let start = Barrier::new(8);
        thread::scope(|s| {
            for number in 0..8 {
                let (home, start) = (&home, &start);
                s.spawn(move || {
                    start.wait();
                    let mut store = Store::open(&home.root).unwrap();
                    store
                        .register(&format!("sweep {number}"), &expansion(&[frozen(number)]), &[frozen(number)])
                        .unwrap();
                });
            }
        });
        let store = Store::open(&home.root).unwrap();
        assert_eq!((store.runs(None).unwrap().len(), store.experiments().unwrap().len()), (8, 8));
    }
}

#[test]
fn a_killed_writer_leaves_a_whole_index() {
    let home = Home::new();
    for round in 1..=12u64 {
        let mut child = start(&round.to_string(), &home.root);
        thread::sleep(Duration::from_millis(7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut store = Store::open(&home.root).unwrap();
        store.sync().unwrap();
        drop(store);
        let index = Connection::open(home.root.database()).unwrap();
        let check: String = index.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        drop(index);
        let grown = dump(&home.root);
        drop(Store::rebuild(&home.root).unwrap());
        assert_eq!(grown, dump(&home.root));
    }
}

#[test]
fn an_exclusive_lock_held_elsewhere_is_waited_for() {
    let (home, store, ids) = Home::with_runs(3);
    drop(store);
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0)]);
    let (locked, wait) = mpsc::channel();
    thread::scope(|s| {
        s.spawn(|| {
            let rude = Connection::open(home.root.database()).unwrap();
            rude.execute_batch("BEGIN EXCLUSIVE; UPDATE runs SET step = 5; DELETE FROM members").unwrap();
            locked.send(()).unwrap();
            thread::sleep(Duration::from_secs(3));
            rude.execute_batch("ROLLBACK").unwrap();
        });
        wait.recv().unwrap();
        for _ in 0..2 {
            s.spawn(|| look(&home.root));
        }
        let mut store = Store::open(&home.root).unwrap();
        assert_eq!(store.runs(Some("sweep")).unwrap().len(), 3, "readers do not wait");
        store.ingest(&ids[0]).unwrap();
        store.register("sweep", &expansion(&[frozen(1)]), &[frozen(1)]).unwrap();
        assert_eq!(store.runs(Some("sweep")).unwrap().len(), 1);
        assert_eq!(store.curve(&ids[0], "lr").unwrap().len(), 1);
    });
}

#[test]
fn an_index_is_rebuilt_while_others_write_to_it() {
    let (home, mut store, ids) = Home::with_runs(4);
    let children: Vec<_> = (0..4).map(|number| start(&format!("train {number}"), &home.root)).collect();
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..40 {
                store.sync().unwrap();
                store.runs(None).unwrap();
            }
        });
        for _ in 0..6 {
            Store::rebuild(&home.root).unwrap().runs(None).unwrap();
        }
    });
    succeeded(children);
    store.sync().unwrap();
    for id in &ids {
        assert_eq!(store.curve(id, "train/loss").unwrap().len(), 60);
    }
    drop(store);
    let grown = dump(&home.root);
    drop(Store::rebuild(&home.root).unwrap());
    assert_eq!(grown, dump(&home.root));
}

/// Root may write everywhere, so that a read-only folder needs another user.
#[test]
fn a_read_only_folder_can_be_read() {
    let (home, mut store, ids) = Home::with_runs(3);
    home.append(&ids[0], 1, &[started(1), ready(0), step(1, 1.0), finished(Outcome::Done)]);
    fs::write(home.root.run(&ids[1]).lock(), "").unwrap();
    store.sync().unwrap();
    fs::set_permissions(home.root.path().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    let set = |mode: u32| {
        for path in [home.root.path(), &home.root.runs()] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let look = |what: &str| {
        set(0o555);
        let mut command = spawn("read", &home.root);
        if rustix::process::getuid().is_root() {
            command.uid(65534).gid(65534);
        }
        let output = command.output();
        set(0o755);
        match output {
            Ok(output) => assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stdout)),
            Err(e) => eprintln!("skipped: this program cannot be started by another user ({e})"),
        }
    };
    look("while a writer has it open");
    drop(store);
    look("when all have closed it");
}
