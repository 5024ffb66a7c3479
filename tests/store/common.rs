//! A root in a temporary folder, written to as workers and schedulers do, and the index as text to compare.

use std::{fs, io::Write};

use exp::{
    base::{
        RunId,
        folders::{Root, RunFolder},
    },
    event::{Checkpointed, Eval, Event, Expansion, FileRef, Outcome, Ready, Started, Step},
    spec::{
        RunConfig,
        identity::{FORMAT, FrozenRun},
    },
    store::Store,
};
use rusqlite::{Connection, OpenFlags};

/// A root that goes away with this value.
pub struct Home {
    _dir: tempfile::TempDir,
    pub root: Root,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path().join("my runs; 100% #1? 'é' 😀"));
        Self { _dir: dir, root }
    }

    /// Its index, with one experiment of `n` runs.
    pub fn with_runs(n: u64) -> (Self, Store, Vec<RunId>) {
        let home = Self::new();
        let mut store = Store::open(&home.root).unwrap();
        let runs: Vec<FrozenRun> = (0..n).map(frozen).collect();
        store.register("sweep", &expansion(&runs), &runs).unwrap();
        (home, store, runs.iter().map(|run| run.id).collect())
    }

    pub fn append(&self, id: &RunId, attempt: u32, events: &[Event]) {
        self.append_text(id, attempt, &events.iter().map(line).collect::<String>());
    }

    pub fn append_text(&self, id: &RunId, attempt: u32, text: &str) {
        append(&self.root.run(id), attempt, text);
    }
}

pub fn append(folder: &RunFolder, attempt: u32, text: &str) {
    fs::create_dir_all(folder.attempt(attempt)).unwrap();
    let mut file = fs::File::options().create(true).append(true).open(folder.events(attempt)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The `seed`-th run; ids differ from their first digit on.
pub fn frozen(seed: u64) -> FrozenRun {
    let id = RunId(*blake3::hash(&seed.to_le_bytes()).as_bytes());
    let mut config = RunConfig::default();
    config.train.seed = seed;
    FrozenRun { format: FORMAT, id, corpus_hash: "c0".into(), vocab_size: 65, config, imported: None }
}

pub fn expansion(runs: &[FrozenRun]) -> Expansion {
    let axes = vec!["train.seed".to_owned()];
    Expansion { at: 1_000, axes, members: runs.iter().map(|run| run.id).collect(), spec: "seeds: 3".into() }
}

pub fn line(event: &Event) -> String {
    serde_json::to_string(event).unwrap() + "\n"
}

pub fn started(attempt: u32) -> Event {
    Event::Started(Started { at: 10 * i64::from(attempt), attempt, device: "cpu".into(), ..Started::default() })
}

pub fn ready(from_step: u64) -> Event {
    Event::Ready(Ready { from_step, engine: "tape".into(), params: 7, ..Ready::default() })
}

pub fn step(step: u64, loss: f64) -> Event {
    let tokens_per_second = 1000.0 + step as f64;
    Event::Step(Step { step, loss, lr: 1e-3, grad_norm: 2.0, step_ms: 5.0, tokens_per_second, ..Step::default() })
}

pub fn eval(step: u64, val_loss: f64) -> Event {
    Event::Eval(Eval { step, train_loss: val_loss - 0.1, val_loss, bits_per_char: val_loss / 0.7, eval_ms: 1.0 })
}

pub fn checkpointed(step: u64, attempt: u32, removed: &[&str]) -> Event {
    let file = |name: &str| FileRef { name: name.into(), bytes: 100 + step, blake3: format!("{step:064}") };
    Event::Checkpointed(Checkpointed {
        at: 5,
        step,
        folder: format!("checkpoints/step-{step}.attempt-{attempt}"),
        files: vec![file("model.safetensors"), file("state.json")],
        best: false,
        removed: removed.iter().map(|&r| r.to_owned()).collect(),
    })
}

pub fn finished(outcome: Outcome) -> Event {
    Event::Finished { at: 99, outcome, peak_bytes: None }
}

/// All that the index says, without the numbers that it gives to runs, metrics and experiments.
pub fn dump(root: &Root) -> String {
    let index = Connection::open_with_flags(root.database(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    [
        "SELECT id, created, config, journal, attempts, last_attempt, ready_attempt, step, best_step, best_val_loss,
                last_val_loss, tokens_per_second, skipped, skipped_attempt
         FROM runs ORDER BY id",
        "SELECT id, leaves.path, leaves.value FROM leaves JOIN runs USING (run) ORDER BY id, path",
        "SELECT id, attempt, events, started, ready, from_step, ended, outcome, gave_up
         FROM attempts JOIN runs USING (run) ORDER BY id, attempt",
        "SELECT id, name, points.step, attempt, value FROM points JOIN runs USING (run) ORDER BY id, name, points.step",
        "SELECT id, attempt, offset, message FROM warnings JOIN runs USING (run) ORDER BY id, attempt, offset",
        "SELECT id, path, kind, artifacts.step, bytes, blake3 FROM artifacts JOIN runs USING (run) ORDER BY id, path",
        "SELECT id, tag FROM tags JOIN runs USING (run) ORDER BY id, tag",
        "SELECT name, journal, at, axes FROM experiments ORDER BY name",
        "SELECT name, position, id FROM members JOIN experiments USING (experiment) ORDER BY name, position",
        "SELECT file, offset, why FROM damage ORDER BY file, offset",
    ]
    .iter()
    .map(|sql| table(&index, sql))
    .collect()
}

fn table(index: &Connection, sql: &str) -> String {
    let mut statement = index.prepare(sql).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut text = format!("-- {sql}\n");
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<_> = (0..columns).map(|i| format!("{:?}", row.get_ref(i).unwrap())).collect();
        text += &format!("{}\n", values.join(" | "));
    }
    text
}
