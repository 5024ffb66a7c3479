//! Disks that are full, and disks that became read-only: what is lost is time, and every error says which file it was.
//! Needs root, to mount a small file system of its own.

mod lab;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use exp::{
    event::{Event, Outcome, RunState},
    train::checkpoint,
};
use lab::{Lab, answer, assert_same, events, steps, until};

/// A tiny model and one of which two checkpoints fill the disk.
const SPEC: &str = "
model: {layers: 1, heads: 2, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 60, batch: 2}
eval: {every: 30, batches: 1, batch: 2}
checkpoint: {every: 20}
run: {device: cpu}
grid: {d_model: [16, 180]}
";

/// A file system in memory, mounted until it is dropped.
struct Disk {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Disk {
    /// `None`, which is said, where this process may not mount.
    fn new(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::create_dir(&path).unwrap();
        let options = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: needs root");
            return None;
        }
        Some(Self { path, _dir: dir })
    }

    fn remount(&self, options: &str) {
        let mount = || Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.path).status();
        until("it is remounted", || mount().unwrap().success().then_some(()));
    }

    /// Takes all room.
    fn fill(&self) -> PathBuf {
        static FILLERS: AtomicU64 = AtomicU64::new(0);
        let path = self.path.join(format!("filler-{}", FILLERS.fetch_add(1, Ordering::Relaxed)));
        let mut filler = fs::File::create(&path).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// Everything that is not whole under a folder.
fn asides(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with(".aside-") {
            found.push(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(asides(&entry.path()));
        }
    }
    found
}

#[test]
fn a_full_disk_fails_the_run_that_fills_it_and_no_other() {
    let Some(disk) = Disk::new(12) else { return };
    let lab = Lab::at(&disk.path);
    let (exit, said) = lab.run(SPEC);
    assert_eq!(exit, Some(4), "{said}");

    let rows = lab.rows();
    let of = |width: u64| rows.iter().find(|row| row.config.model.d_model as u64 == width).unwrap();
    let (tiny, large) = (of(16), of(180));
    assert_eq!(tiny.state, RunState::Done);
    let folder = lab.root.run(&large.id);
    let RunState::Failed { why } = &large.state else { panic!("{:?}", large.state) };
    let path = folder.checkpoints().join("step-60.attempt-1");
    assert!(why.contains("No space left") && why.contains(path.to_str().unwrap()), "{why}");
    assert!(why.contains(" MB are free") && why.contains("free some space") && said.contains(why), "{why}: {said}");
    assert_eq!(large.attempts, 1, "another try would fail as well");
    let kept = checkpoint::list(&folder).unwrap();
    assert_eq!(kept.iter().map(|saved| saved.step).collect::<Vec<_>>(), [40, 20]);
    kept.iter().for_each(|saved| saved.verify().unwrap());
    assert!(asides(&disk.path).is_empty(), "{:?}", asides(&disk.path));

    let index = rusqlite::Connection::open(lab.root.database()).unwrap();
    let check: String = index.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    drop(index);
    let listed = lab.exp(&["ls"]).output().unwrap();
    assert_eq!(listed.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&listed.stdout).contains("failed: "));

    disk.remount("size=64m");
    let (exit, said) = lab.run(SPEC);
    assert_eq!(exit, Some(0), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let straight = Lab::at(dir.path());
    assert_eq!(straight.run(SPEC).0, Some(0));
    assert_same(&lab.curves(), &straight.curves(), "after a full disk");
}

#[test]
fn an_attempt_at_a_disk_without_any_room_still_says_why_it_ended() {
    let Some(disk) = Disk::new(12) else { return };
    let lab = Lab::at(&disk.path);
    let spec = SPEC.replace("grid: {d_model: [16, 180]}", "").replace("context", "d_model: 16, context");
    let spec = spec.replace("steps: 60", "steps: 1000000").replace("every: 20", "every: 1000000");
    let sweep = lab.start(&spec);
    let folder = until("it has begun", || lab.folders().into_iter().next());
    until("it trains", || (steps(&folder, 1) > 5).then_some(()));
    let fillers: Vec<PathBuf> = (0..3).map(|_| disk.fill()).collect();
    let ended = |events: Vec<Event>| match events.last() {
        Some(Event::Finished { outcome, .. }) => Some(outcome.clone()),
        _ => None,
    };
    let Outcome::Failed { why, retry: false } = until("it ends", || ended(events(&folder, 1))) else {
        panic!("another try would fail as well")
    };
    assert!(why.contains("No space left") && why.contains("attempt-1/events.jsonl"), "{why}");
    fillers.iter().for_each(|filler| fs::remove_file(filler).unwrap());
    assert!(matches!(sweep.exit(), Some(4 | 5)), "5 where the index was full as well");
    assert!(matches!(&lab.rows()[0].state, RunState::Failed { why } if why.contains("No space left")));
}

#[test]
fn a_disk_that_is_full_for_a_moment_costs_nothing() {
    let Some(disk) = Disk::new(12) else { return };
    let lab = Lab::at(&disk.path);
    let spec = SPEC.replace("grid: {d_model: [16, 180]}", "").replace("context", "d_model: 16, context");
    let spec = spec.replace("steps: 60", "steps: 3000").replace("every: 20", "every: 3000");
    let mut command = lab.command(&spec);
    let sweep = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let folder = until("it has begun", || lab.folders().into_iter().next());
    until("it trains", || (steps(&folder, 1) > 5).then_some(()));
    let filler = disk.fill();
    let mut before = steps(&folder, 1);
    until("it waits", || {
        std::thread::sleep(std::time::Duration::from_millis(700)); // longer than the index lags behind
        let now = steps(&folder, 1);
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    fs::remove_file(filler).unwrap();
    let output = sweep.wait_with_output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let (exit, said) = answer(output);
    assert!(said.contains("no space left") && said.contains("the runs go on, their folders keep everything"), "{said}");
    assert_eq!(exit, Some(0), "what the index missed meanwhile, it has in the end: {said}");
    assert!(table.contains("3000/3000") && table.contains("done"), "{table}");
    assert_eq!((lab.rows()[0].attempts, &lab.rows()[0].state), (1, &RunState::Done));
}

#[test]
fn on_a_read_only_disk_what_reads_works_and_what_writes_says_where() {
    let Some(disk) = Disk::new(30) else { return };
    let lab = Lab::at(&disk.path);
    let spec = SPEC.replace("[16, 180]", "[16, 32]");
    assert_eq!(lab.run(&spec).0, Some(0));
    let sweep = lab.command(&spec.replace("steps: 60", "steps: 100000")).stderr(Stdio::null()).spawn().unwrap();
    let sweep = lab::Started(sweep);
    let longer = until("the longer runs train", || lab.folders().into_iter().find(|f| !is_done(f) && steps(f, 1) > 30));
    sweep.signal(rustix::process::Signal::INT);
    assert_eq!(sweep.exit(), Some(130));
    let before = answer(lab.exp(&["ls", "--json"]).output().unwrap());
    assert_eq!(before.0, Some(0));

    disk.remount("ro");
    let listed = lab.exp(&["ls"]).output().unwrap();
    let table = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.status.code(), Some(0), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(table.contains("done") && table.contains("interrupted"), "{table}");
    let spec_path = disk.path.join("spec.yaml");
    for command in [vec!["run", spec_path.to_str().unwrap()], vec!["report", "spec"], vec!["resume", &longer.name()]] {
        let (exit, said) = answer(lab.exp(&command).output().unwrap());
        assert_eq!(exit, Some(5), "{command:?}: {said}");
        assert!(said.contains("ead-only") && said.contains(disk.path.to_str().unwrap()), "{command:?}: {said}");
    }
    disk.remount("rw");
    assert!(asides(&disk.path).is_empty(), "{:?}", asides(&disk.path));
}

fn is_done(folder: &exp::base::folders::RunFolder) -> bool {
    events(folder, 1).iter().any(|event| matches!(event, Event::Finished { .. }))
}
