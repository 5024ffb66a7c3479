//! The training loop: one run from its frozen config to its last step, by nanoGPT's rules. It knows no tensor and no
//! file but its checkpoints; what happens it says as events.

pub mod attention;
pub mod checkpoint;
pub mod eval;
pub mod generate;
pub mod schedule;
pub mod score;
mod trained;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

pub use trained::{Trained, Which, tokenizer_of};

use checkpoint::{At, Keep, Norm, Numbers, Origin, Progress, State};
use generate::{Sampling, Writer};

use crate::{
    base::{
        Context, Error, Exit, Result, RunId, clock, files,
        folders::{Root, RunFolder},
        lease::Fence,
        machine,
        provenance::Provenance,
    },
    cost::Cost,
    data::{self, Dataset, tokenizer},
    engine::{self, Batch, Engine, Part, Place, Update},
    event::{Event, FileRef, Outcome, Ready, Sampled, Sink, Step, Use, Used},
    spec::identity::FrozenRun,
    spec::{
        RunConfig,
        config::{Dtype, OnNan, TokenizerKind},
    },
};

/// A request to stop that any thread may make and the loop looks for between updates; and how the loop gets on, for those
/// who wait for it to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    asked: AtomicBool,
    progress: AtomicU64,
}

impl Stop {
    /// Asks for a checkpoint and an end.
    pub fn request(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked; to be called by the loop, which shows by it that it gets on.
    pub fn requested(&self) -> bool {
        self.stir();
        self.is_asked()
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Shows that the loop gets on.
    pub fn stir(&self) {
        self.0.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the loop has shown that it gets on.
    pub fn progress(&self) -> u64 {
        self.0.progress.load(Ordering::Relaxed)
    }
}

/// One attempt at a run.
pub struct Job<'a> {
    /// Where the token cache and other runs lie.
    pub root: &'a Root,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// What to train.
    pub frozen: &'a FrozenRun,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// `cpu`, `cuda:N` with CUDA's own N in this process, or `metal`.
    pub device: &'a str,
    /// CPU threads to compute with.
    pub threads: usize,
    /// The matmul peak of the slot in FLOP/s, where it was measured.
    pub peak_flops: Option<f64>,
    /// Asks for an end.
    pub stop: &'a Stop,
    /// Bytes that the run's checkpoints may take, where that is limited.
    pub checkpoint_bytes: Option<u64>,
    /// Asked before every write into the run's folder, which may be another worker's by then.
    pub fence: Fence,
}

impl Job<'_> {
    /// What is kept of the run's checkpoints.
    fn keep(&self) -> Keep {
        Keep::of(&self.frozen.config.checkpoint, self.checkpoint_bytes)
    }

    /// Whether the run is still ours to write.
    fn may_write(&self) -> Result<()> {
        self.stop.stir();
        self.fence.check()
    }
}

/// Trains a run from its newest checkpoint, or from the start, to its last step, or until it is asked to stop. Emits all
/// events but the attempt's first and last.
pub fn run(job: &Job, sink: &mut dyn Sink) -> Result<Outcome> {
    let mut trainer = Trainer::start(job, sink)?;
    loop {
        if let Some(outcome) = trainer.evaluate_if_due()? {
            return Ok(outcome);
        }
        trainer.sample_if_due()?;
        trainer.save_if_due()?;
        if trainer.progress.step == trainer.config.train.steps && !trainer.eval_is_due() {
            return Ok(Outcome::Done);
        }
        if trainer.stopping {
            return Ok(Outcome::Interrupted { step: trainer.progress.step });
        }
        if let Some(outcome) = trainer.step()? {
            return Ok(outcome);
        }
    }
}

/// All that a run needs while it trains.
struct Trainer<'a> {
    job: &'a Job<'a>,
    sink: &'a mut dyn Sink,
    config: &'a RunConfig,
    data: Dataset,
    engine: Box<dyn Engine>,
    origin: Origin,
    batch: Batch,
    flops_per_token: f64,
    progress: Progress,
    /// What the newest checkpoint holds: updates, and whether they are evaluated.
    saved: Option<(u64, bool)>,
    /// Whether a stop was asked for; looked up once after each update, before that update is logged.
    stopping: bool,
}

impl<'a> Trainer<'a> {
    /// Opens the corpus, builds the engine, and takes up the newest checkpoint, else the weights of `run.init_from`.
    fn start(job: &'a Job, sink: &'a mut dyn Sink) -> Result<Self> {
        let config = &job.frozen.config;
        let data = data::open(&config.data, &job.root.cache(), &|| job.stop.requested())?;
        let info = data.info();
        let doing = || format!("opening the corpus {} of run {}", info.name, job.frozen.id.short());
        if info.hash != job.frozen.corpus_hash || info.vocab_size != job.frozen.vocab_size {
            let reads_file = config.data.tokenizer == TokenizerKind::File;
            let what = if reads_file { "its text or its tokenizer's file" } else { "its text" };
            return Err(Error::new(Exit::Spec, doing(), format!("{what} has changed since the run was planned"))
                .hint("run the spec again: with other data it is another run"));
        }
        info.check_context(config.model.context).doing(Exit::Spec, doing)?;
        let mut engine = engine::build(config, info.vocab_size, job.device, job.threads)?;
        let origin = Origin {
            config: config.clone(),
            corpus_hash: info.hash.clone(),
            engine: engine.name().into(),
            simd: engine.simd(),
            processor: engine.processor(),
            version: env!("CARGO_PKG_VERSION").into(),
            binary: Provenance::here().program.clone(), // to hash it takes longer than to start
        };
        job.may_write()?;
        data.keep_tokenizer(job.root, job.folder)?;
        checkpoint::clean(job.folder);
        let loaded = checkpoint::load(job.folder, job.keep(), &mut *engine, &origin, sink)?;
        let mut used = data.used(job.root, job.folder);
        if let (None, Some(parent)) = (&loaded, &config.run.init_from) {
            let (id, weights, file) = weights_of(job.root, parent, &*engine)?;
            used.push(Used { kind: Use::Weights, file });
            engine.write(Part::Params, &weights)?;
            if tokenizer::differ(&job.root.run(&id), job.folder)? {
                let message = format!("the weights come from run {}, whose tokens mean something else", id.short());
                sink.emit(&Event::Warning { at: clock::now(), message }, false)?;
            }
        }
        let saved = loaded.as_ref().map(|progress| (progress.step, progress.evaluated));
        let trainer = Self {
            batch: Batch::zeros(config.train.batch, config.model.context),
            flops_per_token: Cost::of(config, info.vocab_size).flops_per_token,
            progress: loaded.unwrap_or_default(),
            stopping: job.stop.requested(),
            job,
            sink,
            config,
            data,
            engine,
            origin,
            saved,
        };
        trainer.sink.emit(&Event::Ready(trainer.ready(used)), true)?;
        Ok(trainer)
    }

    fn ready(&self, used: Vec<Used>) -> Ready {
        let info = self.data.info();
        Ready {
            at: clock::now(),
            from_step: self.progress.step,
            engine: self.origin.engine.clone(),
            simd: self.origin.simd.clone(),
            processor: self.origin.processor.clone(),
            params: self.engine.layout().len() as u64,
            flops_per_token: self.flops_per_token,
            peak_flops: self.job.peak_flops,
            vocab_size: info.vocab_size,
            corpus_hash: info.hash.clone(),
            chars_per_token: info.chars_per_token,
            corpus_bits_per_char: info.bits_per_char,
            used,
        }
    }

    /// Whether the step that was reached is one that is evaluated, and that is not done yet.
    fn eval_is_due(&self) -> bool {
        let step = self.progress.step;
        !self.progress.evaluated && (step.is_multiple_of(self.config.eval.every) || step == self.config.train.steps)
    }

    /// Whether the step that was reached is one that is kept, and that is not done yet.
    fn save_is_due(&self) -> bool {
        let Progress { step, evaluated, .. } = self.progress;
        let regular = step > 0 && step.is_multiple_of(self.config.checkpoint.every);
        let asked = self.stopping && step > 0;
        (regular || asked || step == self.config.train.steps) && self.saved != Some((step, evaluated))
    }

    /// One optimizer update over `grad_accum` micro-batches. Ends the run where loss or gradient are not finite.
    fn step(&mut self) -> Result<Option<Outcome>> {
        let train = &self.config.train;
        let step = self.progress.step + 1;
        let begin = Instant::now();
        let (mut loss, mut data_ms) = (0.0, 0.0);
        for micro in 0..train.grad_accum as u32 {
            let begin = Instant::now();
            self.data.fill_train(train.seed, step, micro, &mut self.batch);
            data_ms += ms(begin);
            self.job.stop.stir();
            loss += self.engine.accumulate(&self.batch, Place { step, micro }, train.grad_accum)?;
        }
        let loss = loss / train.grad_accum as f64;
        let lr = schedule::lr_at(train, step);
        let grad_norm = self.engine.update(train, Update { step, lr })?;
        let step_ms = ms(begin);
        let tokens_per_second = self.config.tokens_per_step() as f64 / step_ms * 1e3;
        let mfu = self.job.peak_flops.map(|peak| self.flops_per_token * tokens_per_second / peak);
        let memory_bytes = machine::resident_bytes();
        let windows = self.progress.windows + (train.batch * train.grad_accum) as u64;
        self.progress = Progress { step, evaluated: false, val_loss: None, windows, ..self.progress };
        self.stopping = self.job.stop.requested();
        let event = Step { step, loss, lr, grad_norm, step_ms, data_ms, tokens_per_second, mfu, memory_bytes };
        // Durable where a checkpoint may follow: what it holds must be logged before it appears.
        let sync = self.eval_is_due() || self.save_is_due();
        self.sink.emit(&Event::Step(event), sync)?;
        if loss.is_finite() {
            self.progress.last_finite = Some(At { step, loss });
        }
        if grad_norm.is_finite() {
            self.progress.last_norm = Some(Norm { step, norm: grad_norm });
        }
        Ok(self.fail_unless_finite(&[("loss of", loss), ("gradient norm of", grad_norm)]))
    }

    /// Evaluates where it is due. Ends the run where a loss is not finite.
    fn evaluate_if_due(&mut self) -> Result<Option<Outcome>> {
        if !self.eval_is_due() {
            return Ok(None);
        }
        let step = self.progress.step;
        let Some(eval) = eval::evaluate(&mut *self.engine, &self.data, self.config, step, self.job.stop)? else {
            self.stopping = true;
            return Ok(None);
        };
        let (train_loss, val_loss) = (eval.train_loss, eval.val_loss);
        self.sink.emit(&Event::Eval(eval), true)?;
        self.progress.evaluated = true;
        self.progress.val_loss = Some(val_loss);
        if val_loss.is_finite() {
            self.progress.last_val = Some(At { step, loss: val_loss });
        }
        if val_loss.is_finite() && self.progress.best.is_none_or(|best| val_loss < best.loss) {
            self.progress.best = Some(At { step, loss: val_loss });
        }
        Ok(self
            .fail_unless_finite(&[("training windows' loss after", train_loss), ("validation loss after", val_loss)]))
    }

    /// Lets the model write where that is asked for, before what follows is saved: a text is written once.
    fn sample_if_due(&mut self) -> Result<()> {
        let (config, step) = (&self.config.sample, self.progress.step);
        if !config.is_due(step, self.config.train.steps) || self.stopping || self.progress.sampled == Some(step) {
            return Ok(());
        }
        let tokenizer = self.data.tokenizer();
        // `None` where a stop was asked for meanwhile: the text is then written after the run was resumed.
        let text = || -> Result<Option<String>> {
            let prompt = generate::prompt(tokenizer, config.prompt.as_deref())?;
            let (model, vocab, most) = (&self.config.model, tokenizer.vocab_size(), prompt.len() + config.tokens);
            let weights = self.engine.read(Part::Params)?;
            let mut writer = Writer::new(model, vocab, &weights, most, self.job.threads)?;
            drop(weights);
            writer.begin(&prompt)?;
            let sampling = Sampling { temperature: config.temperature, ..Sampling::default() };
            let mut rng = generate::stream(self.config.train.seed, 0);
            for _ in 0..config.tokens {
                if self.job.stop.requested() {
                    return Ok(None);
                }
                writer.next(&sampling, &mut rng)?;
            }
            Ok(Some(tokenizer.decode(writer.tokens())))
        };
        match text() {
            Ok(None) => {
                self.stopping = true;
                return Ok(());
            }
            Ok(Some(text)) => {
                self.job.may_write()?;
                let path = self.job.folder.sample(step, self.job.attempt);
                files::write_atomic(&path, text.as_bytes())?;
                let blake3 = blake3::hash(text.as_bytes()).to_hex().to_string();
                let file = FileRef { name: self.job.folder.relative(&path), bytes: text.len() as u64, blake3 };
                self.sink.emit(&Event::Sampled(Sampled { at: clock::now(), step, file }), false)?;
            }
            // A model that diverged cannot write; that is no reason to end where `train.on_nan` has it go on.
            Err(error) => {
                let message = format!("no text after step {step}: {error}");
                self.sink.emit(&Event::Warning { at: clock::now(), message }, false)?;
            }
        }
        self.progress.sampled = Some(step);
        Ok(())
    }

    fn save_if_due(&mut self) -> Result<()> {
        if !self.save_is_due() {
            return Ok(());
        }
        let state = State::new(self.progress.clone(), self.origin.clone());
        let keep = self.job.keep();
        let may_write = || self.job.may_write();
        let numbers = Numbers::Engine(&*self.engine);
        let saved = checkpoint::save(self.job.folder, self.job.attempt, numbers, &state, keep, &may_write)?;
        self.saved = Some((self.progress.step, self.progress.evaluated));
        let event = Event::Checkpointed(saved.clone());
        self.sink.emit(&event, true)?;
        checkpoint::remove_said(self.job.folder, &saved.removed, keep, &may_write)
    }

    /// With `on_nan: stop`, how the run ends where one of these values of the step that was reached is not finite.
    fn fail_unless_finite(&self, values: &[(&str, f64)]) -> Option<Outcome> {
        let (what, value) = values.iter().find(|(_, value)| !value.is_finite())?;
        let last = last_finite(&self.progress);
        let hint = if self.config.train.dtype == Dtype::F16 { "; f16 overflows where bf16 does not" } else { "" };
        let why = format!("the {what} step {} is {value}; {last}{hint}", self.progress.step);
        (self.config.train.on_nan == OnNan::Stop).then_some(Outcome::Failed { why, retry: false })
    }
}

/// `last finite: loss 3.21 and gradient norm 1.4 in step 170, validation loss 3.30 after step 150`: where a run that
/// diverged last was well.
fn last_finite(progress: &Progress) -> String {
    let loss = |at: At| match at.loss < 1e6 {
        true => format!("loss {:.4}", at.loss),
        false => format!("loss {:.2e}", at.loss),
    };
    let norm = |at: Norm| match at.norm < 1e6 {
        true => format!("gradient norm {:.4}", at.norm),
        false => format!("gradient norm {:.2e}", at.norm),
    };
    let mut parts = match (progress.last_finite, progress.last_norm) {
        (Some(l), Some(n)) if l.step == n.step => vec![format!("{} and {} in step {}", loss(l), norm(n), l.step)],
        (l, n) => {
            let loss = l.map(|at| format!("{} in step {}", loss(at), at.step));
            loss.into_iter().chain(n.map(|at| format!("{} in step {}", norm(at), at.step))).collect()
        }
    };
    parts.extend(progress.last_val.map(|at| format!("validation {} after step {}", loss(at), at.step)));
    match parts.is_empty() {
        true => "no loss has been finite".into(),
        false => format!("last finite: {}", parts.join(", ")),
    }
}

/// The weights of another run's best checkpoint, of whose positions the first are taken where this context is smaller; and
/// the file that they stand in.
fn weights_of(root: &Root, run: &str, engine: &dyn Engine) -> Result<(RunId, Vec<f32>, FileRef)> {
    let doing = format!("taking initial weights from run {run} (run.init_from)");
    let id: RunId = run.parse().map_err(|why: String| Error::new(Exit::Spec, &doing, why))?;
    let folder = root.run(&id);
    let parent = Trained::load(&folder, Which::Best).map_err(|e| match e.exit {
        Exit::Usage => Error { exit: Exit::Spec, ..e.within(&doing) }, // it has no checkpoint
        _ => e.within(&doing),
    })?;
    if let Some(why) = parent.doubt {
        // The same id stands for the same weights.
        return Err(Error::new(Exit::Spec, doing, why)
            .hint("put its checkpoint back from a copy, or remove the run with `exp rm` and train it again"));
    }
    let name = root.relative(&folder.path().join(&parent.file.name));
    let file = FileRef { name, ..parent.file };
    let weights = match parent.layout == *engine.layout() {
        true => Ok(parent.weights),
        false => engine.layout().cut(&parent.layout, &parent.weights),
    };
    Ok((id, weights.map_err(|why| Error::new(Exit::Spec, doing, why))?, file))
}

fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}
