//! What is kept of checkpoints while runs train: never more than was asked for, and one that is being written.

mod lab;

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use exp::{base::checkpoints, event::RunState};
use lab::{Lab, until};

/// Five runs that save twenty times each.
const SPEC: &str = "
experiment: keep
model: {layers: 1, heads: 2, d_model: 64, context: 16}
data: {corpus: playbook, corpus_chars: 20000}
train: {steps: 100, batch: 2, warmup_steps: 0}
eval: {every: 10, batches: 1, batch: 2}
run: {device: cpu}
";

/// Bytes of all files below a folder, as far as they are there.
fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(file) if file.is_dir() => bytes(&entry.path()),
            Ok(file) => file.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The names of what stands in a run's folder of checkpoints, but for pointers and what is being written.
fn kept(lab: &Lab) -> Vec<Vec<String>> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().into_string().unwrap()).filter(|name| name.starts_with("step-")).collect()
    };
    lab.folders().iter().map(|folder| names(&folder.checkpoints())).collect()
}

/// What was seen on the disk at worst while a spec was run.
struct Worst {
    /// Bytes of the checkpoints of all runs.
    bytes: u64,
    /// Checkpoints of one run.
    count: usize,
}

fn watch(lab: &Lab, spec: &str) -> Worst {
    let mut started = lab.start(spec);
    let mut worst = Worst { bytes: 0, count: 0 };
    let begun = Instant::now();
    loop {
        let over = started.0.try_wait().unwrap().is_some();
        let all: u64 = lab.folders().iter().map(|folder| bytes(&folder.checkpoints())).sum();
        worst.bytes = worst.bytes.max(all);
        worst.count = worst.count.max(kept(lab).iter().map(Vec::len).max().unwrap_or(0));
        if over {
            return worst;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "it does not end");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn five_runs_of_twenty_saves_never_hold_more_than_they_say_and_one_in_flight_each() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let own = "checkpoint: {every: 5, keep_last: 2, keep_best: 1}\nseeds: 5\n";
    let worst = watch(&lab, &format!("{SPEC}{own}"));
    assert!(worst.count <= 2 + 1 + 1, "{} at once", worst.count);
    assert!(lab.rows().iter().all(|row| row.state == RunState::Done));
    for names in kept(&lab) {
        assert!((2..=3).contains(&names.len()), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("step-100.")), "the newest is kept: {names:?}");
    }
    // The index knows those that are there, and no others.
    for (row, folder) in lab.rows().iter().zip(lab.rows().iter().map(|row| lab.root.run(&row.id))) {
        let told = lab.store().artifacts(&row.id).unwrap();
        let told = told.iter().filter(|file| file.path.ends_with("/model.safetensors")).count();
        assert_eq!(told, checkpoints::list(&folder).unwrap().len());
    }
}

#[test]
fn an_experiment_keeps_to_its_bytes_whatever_its_runs_would_keep() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    // One run says how much a checkpoint takes.
    assert_eq!(lab.run(&format!("{SPEC}checkpoint: {{every: 100}}\n")).0, Some(0));
    let one = bytes(&checkpoints::list(&lab.folder()).unwrap()[0].path);
    let estimated = one + (20 << 10); // what a state and the names of tensors may take counts for the limit
    let most = 5 * 2 * estimated;
    let many = format!(
        "checkpoint: {{every: 5, keep_last: 9, keep_best: 9, max_bytes: {most}}}\ngrid: {{lr: [2e-3, 3e-3, 4e-3, 5e-3, 6e-3]}}\n"
    );
    let worst = watch(&lab, &format!("{SPEC}{many}"));
    let first = checkpoints::list(&lab.folder()).unwrap().len() as u64; // of the run that is in no experiment any more
    assert!(worst.bytes <= most + 5 * (one + 4096) + first * one, "{} of {most}, {one} each", worst.bytes);
    assert!(lab.store().runs(Some("keep")).unwrap().iter().all(|row| row.state == RunState::Done));
    let members: Vec<_> = lab.store().runs(Some("keep")).unwrap().iter().map(|row| lab.root.run(&row.id)).collect();
    let after: Vec<_> = members.iter().map(|folder| checkpoints::list(folder).unwrap()).collect();
    assert!(after.iter().all(|saved| saved.len() == 2), "each has its part: {after:?}");
    let all: u64 = members.iter().map(|folder| bytes(&folder.checkpoints())).sum();
    assert!(all <= most + 5 * 4096, "{all} of {most}");

    // A spec that allows less takes effect on what is there, and the index and the pointers hear of it. The best stays.
    let less = 5 * estimated;
    let few = many.replace(&most.to_string(), &less.to_string()).replace("keep_best: 9", "keep_best: 0");
    let (code, said) = lab.run(&format!("{SPEC}{few}"));
    assert!(code == Some(0) && said.contains("5 checkpoints removed, to keep to `checkpoint.max_bytes`"), "{said}");
    for folder in &members {
        let saved = checkpoints::list(folder).unwrap();
        let [only] = &saved[..] else { panic!("{saved:?}") };
        for pointer in ["best", "last"] {
            assert_eq!(fs::read_to_string(folder.checkpoints().join(pointer)).unwrap().trim(), only.name());
        }
    }
    for row in lab.store().runs(Some("keep")).unwrap() {
        let told = lab.store().artifacts(&row.id).unwrap();
        assert_eq!(told.iter().filter(|file| file.path.ends_with("/model.safetensors")).count(), 1);
    }
    // A run whose best checkpoint was given up says so, and nobody begins with others unsaid.
    let given_up = members.iter().find(|folder| {
        let row = lab.store().find(&folder.name()).unwrap();
        row.best.unwrap().0 != 100
    });
    if let Some(folder) = given_up {
        let sampled = lab::answer(lab.exp(&["sample", &folder.name(), "--tokens", "3"]).output().unwrap());
        assert!(
            sampled.0 == Some(0) && sampled.1.contains("is not kept: this is the one after step 100"),
            "{sampled:?}"
        );
    }
}

#[test]
fn what_could_not_keep_a_checkpoint_each_is_refused_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    let (code, said) = lab.run(&format!("{SPEC}checkpoint: {{max_bytes: 100000}}\nseeds: 5\n"));
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("max_bytes: 100000") && said.contains("and the best of each of its 5 runs takes up to"),
        "{said}"
    );
    assert!(lab.folders().is_empty());

    // What the hint allows is enough.
    let allowed = said.split("hint: allow ").nth(1).and_then(|rest| rest.split(',').next()).expect(&said);
    let spec = dir.path().join("allowed.yaml");
    fs::write(&spec, format!("{SPEC}checkpoint: {{max_bytes: {allowed}}}\nseeds: 5\n")).unwrap();
    let (code, _, said) = lab.answers(&["plan", spec.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_checkpoint_whose_loss_is_no_number_is_never_best() {
    let dir = tempfile::tempdir().unwrap();
    let lab = Lab::at(dir.path());
    // With the learning rate the decay rises, from less than it takes until each step multiplies the weights: the first
    // steps are well, and every loss after some more is NaN.
    let spec = format!(
        "{SPEC}checkpoint: {{every: 10, keep_last: 1, keep_best: 1}}\n\
         grid: {{lr: [1e-2], weight_decay: [1200], on_nan: [continue], grad_clip: [0], warmup_steps: [100]}}\n"
    )
    .replace(", warmup_steps: 0", "");
    lab.run(&spec);
    let folder = lab.folder();
    let best = fs::read_to_string(folder.checkpoints().join("best")).unwrap();
    let last = until("the run is over", || lab.rows().pop().filter(|row| row.state == RunState::Done));
    assert!(last.last_val_loss.is_some_and(|loss| !loss.is_finite()), "{:?}", last.last_val_loss);
    let all: Vec<String> = checkpoints::list(&folder).unwrap().iter().map(checkpoints::Saved::name).collect();
    let (step, _) = last.best.unwrap();
    assert!(step > 0 && step < 100 && best.starts_with(&format!("step-{step}.")) && all.len() == 2, "{best} {all:?}");
}
