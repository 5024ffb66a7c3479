//! The training loop on a small corpus: what it logs, what it keeps, and that stops and resumes change no bit of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use exp::{
    base::{
        Error, Exit, Result, RunId,
        folders::{Root, RunFolder},
        lease::Fence,
        rng,
    },
    data,
    event::{Checkpointed, Eval, Event, Outcome, Ready, Sink, Step},
    spec::{
        RunConfig,
        config::{CorpusKind, EngineKind, Mlp, Norm, OnNan, Position},
        identity::{FORMAT, FrozenRun},
    },
    train::{self, Job, Stop, checkpoint},
};

/// A root with a corpus and one run in it.
struct Bench {
    _dir: tempfile::TempDir,
    root: Root,
    folder: RunFolder,
    frozen: FrozenRun,
    attempts: u32,
}

/// What an attempt does to the sink after so many events.
#[derive(Clone, Copy)]
enum Fate {
    Lives,
    IsStoppedAfter(usize),
    DiesAfter(usize),
    HasDamageAfter(usize),
}

/// Keeps events, and stops or kills the attempt.
struct Memory {
    fate: Fate,
    stop: Stop,
    events: Vec<(Event, bool)>,
    folder: RunFolder,
}

impl Sink for Memory {
    fn emit(&mut self, event: &Event, sync: bool) -> Result<()> {
        if let Event::Checkpointed(saved) = event {
            assert!(self.folder.path().join(&saved.folder).join("manifest.json").exists());
            let before = self.events.iter().rev().find(|(e, _)| !matches!(e, Event::Warning { .. }));
            assert!(before.unwrap().1, "what a checkpoint holds was logged durably before it appeared");
        }
        match self.fate {
            Fate::DiesAfter(n) if self.events.len() == n => return Err(Error::new(Exit::Store, "writing", "killed")),
            Fate::IsStoppedAfter(n) if self.events.len() == n => self.stop.request(),
            Fate::HasDamageAfter(n) if self.events.len() == n => {
                let newest = checkpoint::list(&self.folder)?[0].path.clone();
                fs::write(newest.join("model.safetensors"), b"cut short").unwrap();
            }
            _ => {}
        }
        self.events.push((event.clone(), sync));
        Ok(())
    }
}

/// A small run whose every feature is on.
fn config() -> RunConfig {
    let mut c = RunConfig::default();
    (c.model.layers, c.model.heads, c.model.kv_heads, c.model.context) = (1, 2, 1, 8);
    (c.model.d_model, c.model.d_ff, c.model.dropout) = (8, 16, 0.2);
    (c.train.steps, c.train.batch, c.train.grad_accum, c.train.warmup_steps) = (25, 3, 2, 4);
    (c.train.decay_steps, c.train.lr, c.train.min_lr) = (25, 1e-2, 1e-3);
    (c.eval.every, c.eval.batches, c.eval.batch) = (7, 2, 3);
    (c.checkpoint.every, c.checkpoint.keep_last, c.checkpoint.keep_best) = (5, 2, 1);
    c.data.corpus = CorpusKind::Text;
    c
}

impl Bench {
    fn new(mut config: RunConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let text: String = {
            let mut rng = rng::stream(1, "test/text");
            let mut letter = || b'a' + rng::below(&mut rng, 6).min(rng::below(&mut rng, 6)) as u8;
            (0..4000).map(|i| if i % 5 == 4 { ' ' } else { letter() as char }).collect()
        };
        let path = dir.path().join("corpus.txt");
        fs::write(&path, text).unwrap();
        config.data.path = Some(path.display().to_string());
        let id = RunId([7; 32]);
        let info = data::open(&config.data, &root.cache(), &|| false).unwrap().info().clone();
        let frozen = FrozenRun {
            format: FORMAT,
            id,
            corpus_hash: info.hash,
            vocab_size: info.vocab_size,
            config,
            imported: None,
        };
        Self { folder: root.run(&id), root, frozen, attempts: 0, _dir: dir }
    }

    fn attempt(&mut self, fate: Fate) -> (Result<Outcome>, Vec<Event>) {
        self.attempts += 1;
        let stop = Stop::default();
        let mut sink = Memory { fate, stop: stop.clone(), events: Vec::new(), folder: self.folder.clone() };
        let job = Job {
            checkpoint_bytes: None,
            root: &self.root,
            folder: &self.folder,
            frozen: &self.frozen,
            attempt: self.attempts,
            device: "cpu",
            threads: 1,
            peak_flops: Some(1e9),
            stop: &stop,
            fence: Fence::default(),
        };
        let outcome = train::run(&job, &mut sink);
        (outcome, sink.events.into_iter().map(|(event, _)| event).collect())
    }

    /// Attempts until one is done, the first ones with these fates; what counts of the log, by the rule that events
    /// after the step that a later attempt went on from are void.
    fn log(&mut self, fates: &[Fate]) -> Log {
        let mut log = Log::default();
        for fate in fates.iter().copied().chain([Fate::Lives]) {
            let (outcome, events) = self.attempt(fate);
            log.append(&events);
            match (outcome, fate) {
                (Ok(Outcome::Done), _) => return log,
                (Ok(Outcome::Interrupted { step }), Fate::IsStoppedAfter(_)) => {
                    assert!(step == 0 || checkpoint::latest_step(&self.folder).unwrap() == Some(step));
                }
                (Err(_), Fate::DiesAfter(_)) => {}
                (other, _) => panic!("{other:?}"),
            }
        }
        panic!("never done")
    }

    fn newest(&self) -> PathBuf {
        checkpoint::list(&self.folder).unwrap()[0].path.clone()
    }

    /// The bytes of the newest checkpoint's weights and moments.
    fn tensors(&self) -> [Vec<u8>; 2] {
        ["model.safetensors", "optimizer.safetensors"].map(|name| fs::read(self.newest().join(name)).unwrap())
    }
}

#[derive(Default)]
struct Log {
    ready: Vec<Ready>,
    steps: Vec<Step>,
    evals: Vec<Eval>,
    saved: Vec<Checkpointed>,
    warnings: Vec<String>,
}

impl Log {
    fn of(events: &[Event]) -> Self {
        let mut log = Self::default();
        log.append(events);
        log
    }

    fn append(&mut self, events: &[Event]) {
        for event in events {
            match event.clone() {
                Event::Ready(ready) => {
                    let counts = |step| step <= ready.from_step && ready.from_step > 0;
                    self.steps.retain(|s| counts(s.step));
                    self.evals.retain(|e| counts(e.step));
                    self.ready.push(ready);
                }
                Event::Step(step) => self.steps.push(step),
                Event::Eval(eval) => self.evals.push(eval),
                Event::Checkpointed(saved) => self.saved.push(saved),
                Event::Warning { message, .. } => self.warnings.push(message),
                Event::MovedAside { .. } | Event::Loading { .. } => {}
                other => panic!("the loop emits no {other:?}"),
            }
        }
    }

    /// All that must not depend on stops: each value by its bits.
    fn bits(&self) -> Vec<(u64, [u64; 3])> {
        let steps = self.steps.iter().map(|s| (s.step, [s.loss, s.lr, s.grad_norm]));
        let evals = self.evals.iter().map(|e| (e.step, [e.train_loss, e.val_loss, e.bits_per_char]));
        steps.chain(evals).map(|(step, values)| (step, values.map(f64::to_bits))).collect()
    }
}

#[test]
fn stops_and_deaths_at_any_moment_change_no_bit() {
    let with = |engine| {
        let mut config = config();
        config.run.engine = engine;
        config
    };
    let mut llama = with(EngineKind::Tape);
    (llama.model.norm, llama.model.position) = (Norm::RmsNorm, Position::Rope);
    (llama.model.mlp, llama.model.qk_norm, llama.model.bias) = (Mlp::SwiGlu, true, false);
    for config in [with(EngineKind::Tape), with(EngineKind::Cpu), llama] {
        let engine = config.run.engine;
        let mut straight = Bench::new(config.clone());
        let want = straight.log(&[]);
        assert_eq!(want.ready[0].engine, engine.word());
        assert_eq!(want.steps.iter().map(|s| s.step).collect::<Vec<_>>(), (1..=25).collect::<Vec<_>>());
        assert_eq!(want.evals.iter().map(|e| e.step).collect::<Vec<_>>(), [0, 7, 14, 21, 25]);
        let mut rng = rng::stream(2, "test/fates");
        for case in 0..6 {
            let mut draw = || match rng::below(&mut rng, 2) {
                0 => Fate::IsStoppedAfter(rng::below(&mut rng, 20) as usize),
                _ => Fate::DiesAfter(rng::below(&mut rng, 20) as usize),
            };
            let fates: Vec<Fate> = (0..6).map(|_| draw()).collect();
            let mut bench = Bench::new(config.clone());
            let half = bench.folder.checkpoints().join(".aside-step-9.attempt-0"); // of a worker that was killed there
            fs::create_dir_all(half).unwrap();
            let got = bench.log(&fates);
            assert_eq!(got.bits(), want.bits(), "case {case} of {engine:?}");
            assert_eq!(bench.tensors(), straight.tensors(), "case {case} of {engine:?}");
            assert!(got.warnings.is_empty(), "{:?}", got.warnings);
            let names = fs::read_dir(bench.folder.checkpoints()).unwrap().map(|e| e.unwrap().file_name());
            assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with(".aside")));
        }
    }
}

#[test]
fn a_stop_during_an_evaluation_keeps_the_step_and_evaluates_later() {
    let mut straight = Bench::new(config());
    let want = straight.log(&[]);
    let mut bench = Bench::new(config());
    // Ready, the evaluation after 0 updates, a checkpoint after 5 of 7 steps: the stop comes with the 7th step's event.
    let (outcome, events) = bench.attempt(Fate::IsStoppedAfter(9));
    assert_eq!(outcome.unwrap(), Outcome::Interrupted { step: 7 });
    let mut log = Log::of(&events);
    assert_eq!((log.steps.len(), log.evals.len(), log.saved.last().unwrap().step), (7, 1, 7));
    let (outcome, events) = bench.attempt(Fate::Lives);
    assert_eq!(outcome.unwrap(), Outcome::Done);
    log.append(&events);
    assert_eq!(log.bits(), want.bits());
    let (_, events) = bench.attempt(Fate::Lives);
    assert!(matches!(events[..], [Event::Loading { .. }, Event::Ready(_)]), "all is done already: {events:?}");
}

#[test]
fn every_step_says_what_the_design_asks_for() {
    let mut bench = Bench::new(config());
    let log = bench.log(&[]);
    let ready = &log.ready[0];
    assert_eq!((ready.from_step, ready.vocab_size, ready.peak_flops), (0, 7, Some(1e9)));
    assert!(ready.params > 0 && ready.flops_per_token > 6.0 * 7.0 * 8.0 && !ready.processor.is_empty());
    for step in &log.steps {
        assert_eq!(step.lr, train::schedule::lr_at(&bench.frozen.config.train, step.step));
        assert!(step.data_ms >= 0.0 && step.data_ms <= step.step_ms && step.memory_bytes > 1 << 20);
        let tokens = 3.0 * 2.0 * 8.0;
        assert!((step.tokens_per_second * step.step_ms / 1e3 - tokens).abs() < 1e-6);
        assert!((step.mfu.unwrap() - ready.flops_per_token * step.tokens_per_second / 1e9).abs() < 1e-9);
    }
    for eval in &log.evals {
        assert!((eval.bits_per_char - eval.val_loss / std::f64::consts::LN_2).abs() < 1e-12);
    }
    assert!((log.evals[0].val_loss - 7f64.ln()).abs() < 0.1);
    assert!(log.evals.last().unwrap().val_loss < log.evals[0].val_loss - 0.02, "it learns");
}

#[test]
fn the_newest_and_the_best_checkpoints_are_kept() {
    let mut bench = Bench::new(RunConfig {
        eval: exp::spec::config::EvalConfig { every: 5, ..config().eval },
        train: exp::spec::config::TrainConfig { lr: 0.3, min_lr: 0.3, weight_decay: 0.0, ..config().train },
        ..config()
    });
    let log = bench.log(&[]);
    let steps: Vec<u64> = log.saved.iter().map(|s| s.step).collect();
    assert_eq!(steps, [5, 10, 15, 20, 25]);
    let mut kept: Vec<String> = Vec::new();
    for saved in &log.saved {
        kept.push(saved.folder.clone());
        kept.retain(|folder| !saved.removed.contains(folder));
        let evaluated = log.evals.iter().filter(|e| e.step > 0 && e.step <= saved.step);
        let best = evaluated.min_by(|a, b| a.val_loss.total_cmp(&b.val_loss)).unwrap().step;
        assert!(kept.iter().any(|f| f.starts_with(&format!("checkpoints/step-{best}."))), "{kept:?} lacks {best}");
        assert!(kept.len() >= 2.min(saved.step as usize / 5) && kept.len() <= 3, "{kept:?}");
    }
    let mut on_disk: Vec<String> =
        checkpoint::list(&bench.folder).unwrap().iter().map(|s| format!("checkpoints/{}", s.name())).collect();
    on_disk.reverse();
    assert_eq!(on_disk, kept);
    let best = log.evals[1..].iter().min_by(|a, b| a.val_loss.total_cmp(&b.val_loss)).unwrap();
    if best.val_loss < log.evals[0].val_loss {
        assert_eq!(checkpoint::best(&bench.folder).unwrap().unwrap().step, best.step);
        assert!(log.saved.iter().find(|s| s.step == best.step).unwrap().best);
    }
    let pointer = |name| fs::read_to_string(bench.folder.checkpoints().join(name)).unwrap();
    assert_eq!(pointer("last"), "step-25.attempt-1\n");
    assert_eq!(pointer("best"), format!("step-{}.attempt-1\n", best.step));
}

/// Changes one bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_moved_aside_and_the_one_before_it_used() {
    let mut straight = Bench::new(config());
    let want = straight.log(&[]);
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("model.safetensors", flip),
        ("optimizer.safetensors", |path| fs::write(path, b"cut short").unwrap()),
        ("manifest.json", |path| fs::remove_file(path).unwrap()),
    ];
    for (file, damage) in damages {
        let mut bench = Bench::new(config());
        let (outcome, events) = bench.attempt(Fate::IsStoppedAfter(15));
        let mut log = Log::of(&events);
        assert_eq!(outcome.unwrap(), Outcome::Interrupted { step: 12 });
        damage(&bench.newest().join(file));
        let (outcome, events) = bench.attempt(Fate::Lives);
        assert_eq!(outcome.unwrap(), Outcome::Done);
        log.append(&events);
        assert!(log.warnings.len() == 1 && log.warnings[0].contains(file), "{:?}", log.warnings);
        assert!(log.warnings[0].contains("is now damaged-step-12.attempt-1: "), "{:?}", log.warnings);
        assert!(bench.folder.checkpoints().join("damaged-step-12.attempt-1").exists());
        assert_eq!(log.ready[1].from_step, 10);
        assert_eq!(log.bits(), want.bits());
        assert_eq!(bench.tensors(), straight.tensors());
    }
}

#[test]
fn a_checkpoint_that_cannot_be_read_stops_the_run_and_is_used_when_it_can() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(15)).0.unwrap();
    let (model, away) = (bench.newest().join("model.safetensors"), bench.folder.path().join("away"));
    fs::rename(&model, &away).unwrap();
    std::os::unix::fs::symlink(&model, &model).unwrap(); // reading it fails, and not because it is not there
    let error = bench.attempt(Fate::Lives).0.unwrap_err();
    assert!(error.doing.contains("step-12.attempt-1/model.safetensors"), "{error}");
    fs::rename(&away, &model).unwrap();
    let (outcome, events) = bench.attempt(Fate::Lives);
    assert_eq!((outcome.unwrap(), Log::of(&events).ready[0].from_step), (Outcome::Done, 12));
}

#[test]
fn checkpoints_that_cannot_be_listed_stop_the_run_and_void_nothing() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(15)).0.unwrap();
    let (all, away) = (bench.folder.checkpoints(), bench.folder.path().join("away"));
    fs::rename(&all, &away).unwrap();
    std::os::unix::fs::symlink(&all, &all).unwrap();
    let (outcome, events) = bench.attempt(Fate::Lives);
    let error = outcome.unwrap_err();
    assert!(error.doing.contains("listing ") && error.doing.ends_with("/checkpoints"), "{error}");
    assert!(events.iter().all(|e| !matches!(e, Event::Ready(_))), "it has not begun anew: {events:?}");
    fs::remove_file(&all).unwrap();
    fs::rename(&away, &all).unwrap();
    let (outcome, events) = bench.attempt(Fate::Lives);
    assert_eq!((outcome.unwrap(), Log::of(&events).ready[0].from_step), (Outcome::Done, 12));
}

#[test]
fn of_what_was_moved_aside_only_the_newest_is_kept() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(15)).0.unwrap();
    let all = bench.folder.checkpoints();
    for name in
        ["damaged-step-3.attempt-1", "bad-step-8.attempt-1", "damaged-step-2.attempt-1", "void-step-1.attempt-1"]
    {
        fs::create_dir(all.join(name)).unwrap();
    }
    let aside = || {
        let names = fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|n| !n.starts_with("step-") && n.contains("step-")).collect();
        names.sort();
        names
    };
    bench.attempt(Fate::DiesAfter(3)).0.unwrap_err();
    let void = "void-step-1.attempt-1";
    assert_eq!(aside(), ["bad-step-8.attempt-1", "damaged-step-3.attempt-1", void], "the newest two");

    let older = checkpoint::list(&bench.folder).unwrap()[1].clone();
    assert_eq!(older.step, 10);
    fs::write(older.path.join("model.safetensors"), b"cut short").unwrap();
    let stop = bench.attempt(Fate::IsStoppedAfter(6));
    let removed: Vec<String> = Log::of(&stop.1).saved.iter().flat_map(|saved| saved.removed.clone()).collect();
    let warned = Log::of(&stop.1).warnings.iter().any(|warning| warning.contains("damaged-step-10.attempt-1"));
    assert!(warned || removed.contains(&older.relative()), "{removed:?}");
    assert_eq!(aside(), ["bad-step-8.attempt-1", "damaged-step-10.attempt-1", void]);
}

#[test]
fn damage_met_while_training_is_moved_aside() {
    let mut bench = Bench::new(config());
    // Ready, an evaluation, five steps and a checkpoint; the next one looks at those before it.
    let (outcome, events) = bench.attempt(Fate::HasDamageAfter(9));
    assert_eq!(outcome.unwrap(), Outcome::Done);
    let removed = &Log::of(&events).saved[1].removed;
    assert_eq!(removed, &["checkpoints/step-5.attempt-1"], "it stands among the checkpoints no more");
    assert!(bench.folder.checkpoints().join("damaged-step-5.attempt-1").is_dir(), "nothing is deleted");
}

#[test]
fn a_damaged_checkpoint_is_no_longer_best() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(12)).0.unwrap();
    let pointer = |bench: &Bench| fs::read_to_string(bench.folder.checkpoints().join("best")).unwrap();
    let best = checkpoint::best(&bench.folder).unwrap().unwrap();
    assert_eq!(pointer(&bench), format!("{}\n", best.name()));
    flip(&best.path.join("model.safetensors"));
    let next = checkpoint::best(&bench.folder).unwrap().unwrap();
    assert_ne!(next, best, "who starts from it falls back");

    bench.attempt(Fate::DiesAfter(6)).0.unwrap_err();
    assert!(!best.path.exists() && pointer(&bench) == format!("{}\n", next.name()));
}

#[test]
fn a_checkpoint_beyond_the_step_that_a_later_attempt_went_on_from_is_never_loaded() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(15)).0.unwrap();
    let (newest, away) = (bench.newest(), bench.folder.path().join("away"));
    fs::rename(&newest, &away).unwrap();
    let (outcome, events) = bench.attempt(Fate::DiesAfter(2));
    assert_eq!((outcome.is_err(), Log::of(&events).ready[0].from_step), (true, 10));
    fs::create_dir_all(bench.folder.attempt(2)).unwrap();
    let lines: Vec<_> = events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect();
    fs::write(bench.folder.events(2), lines.concat()).unwrap();
    fs::rename(&away, &newest).unwrap(); // it can be read again
    let (outcome, events) = bench.attempt(Fate::Lives);
    let log = Log::of(&events);
    assert_eq!((outcome.unwrap(), log.ready[0].from_step), (Outcome::Done, 10));
    assert!(log.warnings[0].contains("attempt 2 went on from step 10"), "{:?}", log.warnings);
}

#[test]
fn a_checkpoint_of_another_run_is_refused_and_another_machine_is_said() {
    let mut bench = Bench::new(config());
    bench.attempt(Fate::IsStoppedAfter(12)).0.unwrap();
    let refused = |bench: &mut Bench| bench.attempt(Fate::Lives).0.unwrap_err();

    bench.frozen.config.train.lr = 0.5;
    let error = refused(&mut bench);
    assert!(error.why.contains("train.lr 0.01, and the run has 0.5"), "{error}");
    assert!(error.doing.contains("step-") && error.hint.is_some() && error.exit == Exit::Spec);
    bench.frozen.config = RunConfig { data: bench.frozen.config.data.clone(), ..config() };
    bench.frozen.config.checkpoint.every = 9; // changes no result

    let state = bench.newest().join("state.json");
    let edit = |from: &str, to: &str| {
        let text = fs::read_to_string(&state).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&state, text.replace(from, to)).unwrap();
        let manifest = state.with_file_name("manifest.json");
        let mut all: serde_json::Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        for file in all["files"].as_array_mut().unwrap().iter_mut().filter(|f| f["name"] == "state.json") {
            let bytes = fs::read(&state).unwrap();
            (file["bytes"], file["blake3"]) = (bytes.len().into(), blake3::hash(&bytes).to_hex().as_str().into());
        }
        fs::write(&manifest, all.to_string()).unwrap();
    };
    let hash = bench.frozen.corpus_hash.clone();
    edit(&hash, "another");
    assert!(refused(&mut bench).why.contains("another corpus"));
    edit("another", &hash);
    edit("\"format\": 1", "\"format\": 99");
    assert!(refused(&mut bench).why.contains("format is 99"));
    edit("\"format\": 99", "\"format\": 1");
    edit("\"processor\": \"", "\"processor\": \"Abacus ");
    let (outcome, events) = bench.attempt(Fate::Lives);
    assert_eq!(outcome.unwrap(), Outcome::Done);
    let warnings = Log::of(&events).warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("processor was Abacus"), "{warnings:?}");

    bench.frozen.corpus_hash = "0".repeat(64);
    assert!(refused(&mut bench).why.contains("text has changed"));
}

#[test]
fn what_is_not_finite_ends_the_run_or_is_never_best() {
    let mut wild = config();
    (wild.train.lr, wild.train.min_lr, wild.train.grad_clip, wild.train.warmup_steps) = (1e30, 1e30, 0.0, 0);
    let mut bench = Bench::new(wild.clone());
    let (outcome, events) = bench.attempt(Fate::Lives);
    let log = Log::of(&events);
    let last = log.steps.last().unwrap();
    assert!(!last.loss.is_finite() || !last.grad_norm.is_finite());
    let Outcome::Failed { why, retry: false } = outcome.unwrap() else { panic!("it fails for good") };
    let finite = |of: fn(&Step) -> f64| log.steps.iter().rev().find(|s| of(s).is_finite()).unwrap();
    let (loss, norm) = (finite(|s| s.loss), finite(|s| s.grad_norm));
    let words = match loss.step == norm.step {
        true => format!("loss {:.4} and gradient norm {:.4} in step {}", loss.loss, norm.grad_norm, loss.step),
        false => format!(
            "loss {:.4} in step {}, gradient norm {:.4} in step {}",
            loss.loss, loss.step, norm.grad_norm, norm.step
        ),
    };
    let val = log.evals.iter().rev().find(|e| e.val_loss.is_finite()).unwrap();
    let words = format!("last finite: {words}, validation loss {:.4} after step {}", val.val_loss, val.step);
    assert!(why.contains(&format!("of step {} is", last.step)) && why.ends_with(&words), "{why}; {words}");

    wild.train.on_nan = OnNan::Continue;
    let mut bench = Bench::new(wild);
    let log = bench.log(&[]);
    assert_eq!(log.steps.len(), 25);
    assert!(log.evals.last().unwrap().val_loss.is_nan());
    assert!(log.saved.iter().all(|s| !s.best));
    let state = checkpoint::list(&bench.folder).unwrap()[0].state().unwrap();
    assert_eq!(state.progress.best.unwrap().step, 0);
    assert!(state.progress.val_loss.unwrap().is_nan());
}

#[test]
fn no_steps_mean_an_evaluation_alone() {
    let mut none = config();
    none.train.steps = 0;
    let mut bench = Bench::new(none);
    let log = bench.log(&[]);
    assert_eq!((log.steps.len(), log.evals.len(), log.saved.len()), (0, 1, 1));

    // Killed after the checkpoint and before its event: the next attempt starts anew, so it evaluates anew.
    let mut bench = Bench::new(bench.frozen.config);
    let log = bench.log(&[Fate::DiesAfter(2)]);
    assert_eq!((log.ready[1].from_step, log.evals.len(), log.evals[0].step), (0, 1, 0));
}

#[test]
fn a_run_may_begin_with_the_best_weights_of_another() {
    // The scheduler freezes a run's config before anything else.
    let freeze = |bench: &Bench| {
        exp::base::files::write_json(&bench.root.run(&RunId([7; 32])).config(), &bench.frozen).unwrap();
    };
    let mut parent = Bench::new(config());
    freeze(&parent);
    let want = parent.log(&[]).evals.last().unwrap().val_loss;
    let first = |bench: &mut Bench| {
        bench.frozen.config.run.init_from = Some(RunId([7; 32]).to_string());
        bench.folder = bench.root.run(&RunId([8; 32]));
        bench.attempt(Fate::IsStoppedAfter(1))
    };
    let (outcome, events) = first(&mut parent);
    assert_eq!(outcome.unwrap(), Outcome::Interrupted { step: 1 });
    assert_eq!(Log::of(&events).evals[0].val_loss, want, "the parent ends with its best weights here");

    parent.frozen.config.model.d_ff = 24;
    parent.folder = parent.root.run(&RunId([9; 32]));
    let error = parent.attempt(Fate::Lives).0.unwrap_err().to_string();
    assert!(error.contains("init_from") && error.contains("mlp.c_fc"), "{error}");
    assert!(error.contains("shape [16], not [24]"), "{error}");

    let mut orphan = Bench::new(config());
    freeze(&orphan);
    let error = first(&mut orphan).0.unwrap_err();
    assert!(error.why.contains("no checkpoint"), "{error}");
}
