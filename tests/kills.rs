//! Fifty deaths in one run, half of them while a checkpoint is being written: what comes out is a straight run's, to the
//! bit.

mod lab;

use std::{fs, thread::sleep, time::Duration};

use exp::{
    base::{folders::RunFolder, rng},
    event::{Event, RunState},
    train::checkpoint,
};
use lab::{Lab, assert_same, events, steps, until, worker};
use rustix::process::{Signal, kill_process};

/// Wide enough for a checkpoint to take milliseconds, and longer than fifty workers come.
const SPEC: &str = "
model: {layers: 1, heads: 4, d_model: 192, context: 8}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 240, batch: 1}
eval: {every: 100, batches: 1, batch: 2}
checkpoint: {every: 4}
run: {device: cpu, retries: 0}
";

const KILLS: u64 = 50;

/// Whether something in the folder of checkpoints is not whole: it is being written, or removed.
fn is_aside(folder: &RunFolder) -> bool {
    let names = fs::read_dir(folder.checkpoints()).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(".aside-step-"))
}

fn newest_whole(folder: &RunFolder) -> u64 {
    let all = checkpoint::list(folder).unwrap();
    all.iter().find(|saved| saved.verify().is_ok()).map_or(0, |saved| saved.step)
}

#[test]
fn fifty_kills_change_no_bit() {
    let (straight, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (straight, lab) = (Lab::at(straight.path()), Lab::at(killed.path()));
    assert_eq!(straight.run(SPEC).0, Some(0));

    // The moments follow from a seed, as far as the machine lets them.
    let mut rng = rng::stream(50, "test/kills");
    let mut draw = |n: u64| rng::below(&mut rng, n);
    let (mut asides, mut attempt) = (0, 0);
    for kill in 0..KILLS {
        let before = lab.folders().first().map_or(0, newest_whole);
        let scheduler = lab.start(SPEC);
        attempt += 1;
        let folder = until("the run has a folder", || {
            lab.folders().into_iter().find(|folder| folder.attempts().unwrap().last() == Some(&attempt))
        });
        let pid = until("its worker has begun", || worker(&folder, attempt));
        let last = draw(10) as usize;
        if kill % 2 == 0 {
            until("it is ready", || {
                events(&folder, attempt).iter().any(|e| matches!(e, Event::Ready(_))).then_some(())
            });
            until("a checkpoint is being written", || is_aside(&folder).then_some(()));
            sleep(Duration::from_micros(draw(3000)));
        } else {
            until("it has come far enough", || (steps(&folder, attempt) >= last).then_some(()));
            sleep(Duration::from_micros(draw(3000)));
        }
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(scheduler.exit(), Some(4), "after kill {kill}");
        asides += usize::from(is_aside(&folder));
        let ready = events(&folder, attempt).iter().find_map(|event| match event {
            Event::Ready(ready) => Some(ready.from_step),
            _ => None,
        });
        assert!(ready.is_none_or(|from| from == before), "attempt {attempt}: from {ready:?}, not from {before}");
    }
    assert!(asides >= 20, "{asides} kills left a folder aside");

    let (exit, said) = lab.run(SPEC);
    assert_eq!(exit, Some(0), "{said}");
    let rows = lab.rows();
    assert_eq!((rows.len(), &rows[0].state, u64::from(rows[0].attempts)), (1, &RunState::Done, KILLS + 1));
    let curves = lab.curves();
    let losses: Vec<u64> = curves[&rows[0].id]["train/loss"].iter().map(|(step, _)| *step).collect();
    assert_eq!(losses, (1..=240).collect::<Vec<u64>>(), "one value per step");
    assert_same(&curves, &straight.curves(), "after fifty kills");
    assert!(!is_aside(&lab.folder()), "what was left aside is gone");
}
