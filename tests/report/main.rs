//! Reports from a real store: the files that a user finds, and that a copied store gives the same ones.

mod page;

use std::{fs, path::Path};

use exp::{
    base::{Exit, RunId, folders::Root},
    event::{Eval, Event, Expansion, Outcome, Ready, Started, Step},
    report::{self, Format},
    spec::{
        RunConfig,
        identity::{FORMAT, FrozenRun},
    },
    store::Store,
};

const PNG: &[Format] = &[Format::Png];

/// A run of the sweep.
fn frozen(layers: usize, seed: u64, steps: u64) -> FrozenRun {
    let id = RunId(*blake3::hash(format!("{layers}/{seed}").as_bytes()).as_bytes());
    let mut config = RunConfig::default();
    config.model.layers = layers;
    (config.train.seed, config.train.steps) = (seed, steps);
    FrozenRun { format: FORMAT, id, corpus_hash: "c0".into(), vocab_size: 65, config, imported: None }
}

/// What the worker of a run wrote, from a formula.
fn events(run: &FrozenRun) -> Vec<Event> {
    let (layers, seed) = (run.config.model.layers as f64, run.config.train.seed);
    let loss = |step: u64| 4.17 / (1.0 + step as f64 / 40.0).sqrt() + 1.0 / layers + 0.01 * seed as f64;
    let ready = Ready {
        engine: "tape".into(),
        params: 7,
        chars_per_token: 1.0,
        flops_per_token: 6e5 * layers,
        ..Ready::default()
    };
    let mut events = vec![
        Event::Started(Started { attempt: 1, device: "cpu".into(), threads: 2, ..Started::default() }),
        Event::Ready(ready),
    ];
    for step in 0..=run.config.train.steps {
        if step > 0 {
            events.push(Event::Step(Step {
                step,
                loss: loss(step),
                step_ms: 5.0 * layers,
                tokens_per_second: 1e5,
                ..Step::default()
            }));
        }
        if step % 100 == 0 {
            let val_loss = loss(step) + 0.1;
            events.push(Event::Eval(Eval { step, train_loss: loss(step), val_loss, ..Eval::default() }));
        }
    }
    events.push(Event::Finished { at: 9, outcome: Outcome::Done, peak_bytes: None });
    events
}

/// A root with the sweep of some depths and seeds under the name `sweep`; the first `trained` of its runs are done.
fn sweep(root: &Root, depths: &[usize], seeds: u64, steps: u64, trained: usize) -> Store {
    let runs: Vec<FrozenRun> = depths.iter().flat_map(|&l| (1..=seeds).map(move |s| frozen(l, s, steps))).collect();
    let axes = vec!["model.layers".to_owned(), "train.seed".to_owned()];
    let expansion = Expansion { at: 1, axes, members: runs.iter().map(|r| r.id).collect(), spec: String::new() };
    let mut store = Store::open(root).unwrap();
    store.register("sweep", &expansion, &runs).unwrap();
    for run in &runs[..trained] {
        let folder = root.run(&run.id);
        let lines: Vec<String> = events(run).iter().map(|e| serde_json::to_string(e).unwrap() + "\n").collect();
        fs::create_dir_all(folder.attempt(1)).unwrap();
        fs::write(folder.events(1), lines.concat()).unwrap();
        store.ingest(&run.id).unwrap();
    }
    store
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_copied_store_gives_the_same_files() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = sweep(&Root::new(here.path()), &[2, 4], 2, 200, 4);
    let files = report::build(&store, &["sweep"], PNG).unwrap();
    let names: Vec<&str> = files.iter().map(|f| f.0.as_str()).collect();
    let figures = ["learning_curves", "learning_curves_compute", "loss_vs_compute", "loss_vs_depth", "throughput"];
    for name in figures {
        assert!(
            ["csv", "png"].iter().all(|end| names.contains(&format!("{name}.{end}").as_str())),
            "{name}: {names:?}"
        );
    }
    assert!(["report.html", "summary.csv", "summary.md"].iter().all(|name| names.contains(name)), "{names:?}");
    drop(store);

    copy(here.path(), there.path());
    let copied = Store::open_existing(&Root::new(there.path())).unwrap().unwrap();
    assert!(report::build(&copied, &["sweep"], PNG).unwrap() == files, "a copied store tells another story");

    let page = text(&files, "summary.md");
    assert!(page.contains("on 2 CPU threads") && page.contains("| 4 | 2 | 7 |"), "{page}");
    for name in ["learning_curves.png", "loss_vs_depth.png", "throughput.png"] {
        assert!(page.contains(&format!("({name})")), "{name} is not on the page");
    }
}

#[test]
fn two_experiments_are_compared_in_one_frame_and_a_shared_run_is_in_both() {
    let home = tempfile::tempdir().unwrap();
    let root = Root::new(home.path());
    let mut store = sweep(&root, &[2, 4], 2, 100, 4);
    let runs: Vec<FrozenRun> = [frozen(4, 1, 100), frozen(4, 2, 100)].to_vec();
    let axes = vec!["train.seed".to_owned()];
    let expansion = Expansion { at: 2, axes, members: runs.iter().map(|r| r.id).collect(), spec: String::new() };
    store.register("deep", &expansion, &runs).unwrap();
    let files = report::build(&store, &["sweep", "deep"], PNG).unwrap();
    let (page, table) = (text(&files, "summary.md"), text(&files, "summary.csv"));
    assert!(page.starts_with("# sweep and deep\n"), "{page}");
    assert_eq!(table.lines().count(), 1 + 4 + 2, "{table}");
    assert!(table.starts_with("id,state,model.layers,experiment,train.seed,"), "{table}");
    assert!(table.lines().filter(|line| line.contains(",4,deep,")).count() == 2, "{table}");
    assert!(text(&files, "loss_vs_experiment.csv").contains(",point,deep,"));
}

#[test]
fn there_is_something_to_say_when_there_is_nothing_to_draw() {
    let home = tempfile::tempdir().unwrap();
    let store = sweep(&Root::new(home.path()), &[2, 4], 1, 100, 0);
    let error = report::build(&store, &["sweep"], PNG).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.to_string().contains("none of its runs has logged a loss yet"), "{error}");
    assert!(report::build(&store, &["swep"], PNG).unwrap_err().hint.unwrap().contains("sweep"));
}

/// A file of a report.
fn text(files: &[(String, Vec<u8>)], name: &str) -> String {
    let file = files.iter().find(|file| file.0 == name).unwrap_or_else(|| panic!("there is no {name}"));
    String::from_utf8(file.1.clone()).unwrap()
}

/// Where a picture has coloured pixels, from left to right, within a part of its width and height.
fn coloured(png: &[u8], x: [f64; 2], y: [f64; 2]) -> Vec<f64> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, height, channels) = (info.width as usize, info.height as usize, info.color_type.samples());
    let part = |[from, to]: [f64; 2], of: usize| (from * of as f64) as usize..(to * of as f64) as usize;
    let is_coloured = |x: usize, y: usize| {
        let pixel = &pixels[(y * width + x) * channels..][..3];
        pixel.iter().max().unwrap() - pixel.iter().min().unwrap() > 40
    };
    let columns = part(x, width).filter(|&x| part(y, height).any(|y| is_coloured(x, y)));
    columns.map(|x| x as f64 / width as f64).collect()
}

#[test]
fn a_spike_of_one_step_of_one_seed_among_many_points_is_in_the_picture() {
    const STEPS: u64 = 40_000; // more than are read point by point
    let home = tempfile::tempdir().unwrap();
    let root = Root::new(home.path());
    let mut store = sweep(&root, &[2], 2, STEPS, 0);
    for seed in 1..=2 {
        let run = frozen(2, seed, STEPS);
        let mut events = events(&run);
        for event in &mut events {
            match event {
                Event::Step(step) if (seed, step.step) == (2, STEPS / 2 - 1) => step.loss = 50.0,
                _ => {}
            }
        }
        let lines: Vec<String> = events.iter().map(|e| serde_json::to_string(e).unwrap() + "\n").collect();
        fs::create_dir_all(root.run(&run.id).attempt(1)).unwrap();
        fs::write(root.run(&run.id).events(1), lines.concat()).unwrap();
        store.ingest(&run.id).unwrap();
    }
    let files = report::build(&store, &["sweep"], PNG).unwrap();
    let (_, picture) = files.into_iter().find(|(name, _)| name == "learning_curves.png").unwrap();
    // Over steps, which is the left panel: so high up there is but the spike.
    let there = coloured(&picture, [0.0, 0.5], [0.25, 0.4]);
    let (left, right) = (there.first().unwrap(), there.last().unwrap());
    assert!(right - left < 0.01 && (0.2..0.35).contains(left), "{there:?}");
}
