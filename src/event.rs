//! What happened to a run: the only link between the worker that trains it, the store that keeps it and the screen that
//! shows it. One JSON line each in `attempt-K/events.jsonl`; additions only, since old files are read for ever.

use serde::{Deserialize, Serialize};

pub use crate::base::manifest::FileRef;
use crate::base::{Result, RunId, clock::Millis, machine::Identity, num, provenance::Provenance};

/// One line of an attempt's `events.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line of an attempt, written before anything is loaded.
    Started(Started),
    /// A checkpoint is about to be read. Where no `Ready` follows, it could not be gone on from.
    Loading {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// The name of its folder.
        checkpoint: String,
    },
    /// Checkpoints were moved aside, since they are of no use: damaged, void, or failed to load too often.
    MovedAside {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// Their folders, relative to the run's.
        checkpoints: Vec<String>,
    },
    /// What is known once data and engine are ready; precedes every `Step` and `Eval`.
    Ready(Ready),
    /// One optimizer update, the `step`-th of the run (1 to `train.steps`).
    Step(Step),
    /// An evaluation after `step` updates.
    Eval(Eval),
    /// A checkpoint was renamed into place; everything before this line is durable.
    Checkpointed(Checkpointed),
    /// The model wrote a text.
    Sampled(Sampled),
    /// Something a person should know that stops nothing.
    Warning {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// What, in a sentence.
        message: String,
    },
    /// The last line of an attempt that ended by itself; a killed one has none.
    Finished {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// How it ended.
        outcome: Outcome,
        /// The most bytes of its device's memory that the worker had at once, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_bytes: Option<u64>,
    },
}

/// What the last line of an attempt's `events.jsonl` has beside its event, where the file was written without a fault: blake3
/// of all bytes before that line, in hex. By it later damage shows.
pub const SEAL: &str = "blake3";

/// Who runs an attempt, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// When, in ms since the Unix epoch.
    pub at: Millis,
    /// 1 for the first attempt at a run.
    pub attempt: u32,
    /// The worker's process id on `host`.
    pub pid: u32,
    /// The worker's host name.
    pub host: String,
    /// `cpu`, `cuda:0`, `metal`.
    pub device: String,
    /// CPU threads that the run computes with.
    pub threads: usize,
    /// The version of `exp`.
    pub version: String,
    /// The kernel's name for the time since `host` was started; empty where it is not known.
    #[serde(default)]
    pub boot: String,
    /// When the worker's process was started, in the kernel's ticks since `host` was; 0 where it is not known.
    #[serde(default)]
    pub process_started: u64,
    /// By what command, program and state of the working folder. Older versions did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Box<Provenance>>,
}

impl Started {
    /// The worker's process, told apart from others that have its number by now.
    pub fn identity(&self) -> Identity {
        Identity { host: self.host.clone(), boot: self.boot.clone(), pid: self.pid, started: self.process_started }
    }
}

/// What stands in the place of an engine's name where the weights were imported.
pub const IMPORT: &str = "import";

/// What an attempt found when data and engine were ready.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// When, in ms since the Unix epoch.
    pub at: Millis,
    /// The step of the checkpoint that the attempt continues from; 0 where it starts anew. Events of earlier attempts
    /// after this step are void.
    pub from_step: u64,
    /// `tape` or `cpu`; [`IMPORT`] where nothing is computed.
    pub engine: String,
    /// The SIMD level of its kernels.
    pub simd: String,
    /// The model name of the CPU or GPU.
    pub processor: String,
    /// Trained numbers, position table included.
    pub params: u64,
    /// Floating-point operations per trained token, forward and backward (see [`crate::cost`]).
    #[serde(with = "num::float")]
    pub flops_per_token: f64,
    /// The measured matmul peak of the slot in FLOP/s; what MFU is a fraction of.
    #[serde(with = "num::float_option", default)]
    pub peak_flops: Option<f64>,
    /// Distinct tokens.
    pub vocab_size: usize,
    /// blake3 of the corpus's text.
    pub corpus_hash: String,
    /// Characters per validation token: loss in nats per token becomes bits per character with it.
    #[serde(with = "num::float")]
    pub chars_per_token: f64,
    /// The corpus's cost under its own grammar in bits per character, where known.
    #[serde(with = "num::float_option", default)]
    pub corpus_bits_per_char: Option<f64>,
    /// The files that it uses and did not make. Older versions did not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<Used>,
}

/// A file that a run uses and did not make, kept once however many do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// As what.
    pub kind: Use,
    /// The file, its name relative to the root; whole where it lies elsewhere.
    pub file: FileRef,
}

/// What a run uses a file as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Tokens to train on.
    Corpus,
    /// What tokens mean.
    Tokenizer,
    /// Weights to begin with.
    Weights,
}

impl Use {
    /// The kind of the artifact.
    pub fn word(self) -> &'static str {
        match self {
            Self::Corpus => "corpus",
            Self::Tokenizer => "tokenizer",
            Self::Weights => "weights",
        }
    }
}

/// The metrics of one optimizer update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The number of this update, from 1.
    pub step: u64,
    /// Mean cross-entropy over this step's own tokens before the update, in nats.
    #[serde(with = "num::float")]
    pub loss: f64,
    /// The learning rate of this update.
    #[serde(with = "num::float")]
    pub lr: f64,
    /// The global norm of the gradient before clipping.
    #[serde(with = "num::float")]
    pub grad_norm: f64,
    /// Wall time of all of the step, in ms.
    #[serde(with = "num::float")]
    pub step_ms: f64,
    /// Of that, the wall time spent on loading data, in ms.
    #[serde(with = "num::float")]
    pub data_ms: f64,
    /// Trained tokens per second of `step_ms`.
    #[serde(with = "num::float")]
    pub tokens_per_second: f64,
    /// Model FLOPs utilization: achieved over peak FLOP/s.
    #[serde(with = "num::float_option", default)]
    pub mfu: Option<f64>,
    /// Resident memory of the worker, in bytes.
    pub memory_bytes: u64,
}

/// Losses over the fixed evaluation windows, without dropout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Eval {
    /// Updates done before this evaluation.
    pub step: u64,
    /// Mean cross-entropy over windows of the training split, in nats per token.
    #[serde(with = "num::float")]
    pub train_loss: f64,
    /// Mean cross-entropy over windows of the validation split, in nats per token.
    #[serde(with = "num::float")]
    pub val_loss: f64,
    /// `val_loss` in bits per character.
    #[serde(with = "num::float")]
    pub bits_per_char: f64,
    /// Wall time of the evaluation, in ms.
    #[serde(with = "num::float")]
    pub eval_ms: f64,
}

/// A checkpoint that is whole on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpointed {
    /// When, in ms since the Unix epoch.
    pub at: Millis,
    /// Updates that it holds.
    pub step: u64,
    /// Its folder, relative to the run's folder.
    pub folder: String,
    /// Its files.
    pub files: Vec<FileRef>,
    /// Whether it has the lowest validation loss so far.
    pub best: bool,
    /// Folders, relative to the run's, that were removed to keep to `checkpoint.keep_last` and `.keep_best`.
    pub removed: Vec<String>,
}

/// A text that the model wrote, whole on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// When, in ms since the Unix epoch.
    pub at: Millis,
    /// Updates done before.
    pub step: u64,
    /// The file of the prompt and what follows it, relative to the run's folder.
    pub file: FileRef,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// All steps are done and evaluated.
    Done,
    /// It cannot go on, and why. `retry` where another try might go better (a crash, not a NaN).
    Failed {
        /// Why, in a sentence.
        why: String,
        /// Whether another attempt makes sense.
        retry: bool,
    },
    /// Asked to stop; checkpointed after `step` updates.
    Interrupted {
        /// Updates done.
        step: u64,
    },
}

/// Who listens to a run.
pub trait Sink {
    /// Takes one event. `sync` asks that it and all before it be durable on return.
    fn emit(&mut self, event: &Event, sync: bool) -> Result<()>;
}

/// Where a run stands. The data stands in the variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Not started yet.
    Queued,
    /// A worker holds it.
    Running {
        /// `cpu`, `cuda:0`.
        slot: String,
        /// When its attempt started, in ms since the Unix epoch.
        since: Millis,
    },
    /// All steps done.
    Done,
    /// Gave up.
    Failed {
        /// Why.
        why: String,
    },
    /// Stopped; continues from its last checkpoint.
    Interrupted {
        /// Updates done.
        step: u64,
    },
    /// It fell behind the others of its sweep; continues from its last checkpoint where it is lifted.
    Paused {
        /// Updates done.
        step: u64,
        /// How it stood: `3rd of 9 at step 120: the best third goes on`.
        why: String,
    },
    /// Never started, on purpose.
    Skipped {
        /// Why.
        why: String,
    },
}

impl RunState {
    /// The word in tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running { .. } => "running",
            Self::Done => "done",
            Self::Failed { .. } => "failed",
            Self::Interrupted { .. } => "interrupted",
            Self::Paused { .. } => "paused",
            Self::Skipped { .. } => "skipped",
        }
    }

    /// Why it failed, was paused or was skipped.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Failed { why } | Self::Paused { why, .. } | Self::Skipped { why } => Some(why),
            _ => None,
        }
    }
}

/// One line of a run's `journal.jsonl`: what the scheduler or a command says of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// The worker of this attempt died without a word, or was stopped because it had used up its time; no other attempt
    /// follows. It counts more than a stop that the attempt's events tell of.
    GaveUp {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// The attempt that died.
        attempt: u32,
        /// How it died.
        why: String,
    },
    /// Nobody shall start the run, unless asked for it by force. A later attempt lifts this.
    Skipped {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// The run's last attempt then; 0 where there was none.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// The run fell behind the others of its sweep. It is gone on with where the sweep's rule lifts it, or by who asks for
    /// it by name or by a spec without such a rule; a later attempt lifts this.
    Paused {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// The attempt that was stopped; the run's last one then.
        attempt: u32,
        /// The updates that it goes on from.
        step: u64,
        /// How it stood among the others.
        why: String,
    },
    /// A person asks whoever trains the run, or is about to, to stop. One that has not begun counts as skipped because of
    /// [`CANCELLED`] until somebody begins it.
    Cancelled {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// The run's last attempt then; 0 where there was none.
        attempt: u32,
    },
    /// Checkpoints were removed, to keep to what the experiment may take of the disk.
    Removed {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// Their folders, relative to the run's.
        checkpoints: Vec<String>,
    },
    /// A person calls the run this.
    Tagged {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// What it is called.
        tag: String,
    },
    /// A person calls it this no more.
    Untagged {
        /// When, in ms since the Unix epoch.
        at: Millis,
        /// What it was called.
        tag: String,
    },
}

/// What the reason of a failure begins with where memory did not suffice. Another try would need as much.
pub const OUT_OF_MEMORY: &str = "out of memory";

/// Whether a run failed because memory did not suffice.
pub fn is_out_of_memory(why: &str) -> bool {
    why.starts_with(OUT_OF_MEMORY)
}

/// Why a run is skipped that was cancelled before it began. Who runs its spec again wants it.
pub const CANCELLED: &str = "cancelled";

/// One line of an experiment's `journal.jsonl`: what its spec expanded to when it was run. The last line counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expansion {
    /// When, in ms since the Unix epoch.
    pub at: Millis,
    /// The paths of the swept leaves, in the spec's order.
    pub axes: Vec<String>,
    /// The runs, in the grid's order.
    pub members: Vec<RunId>,
    /// The spec's text.
    pub spec: String,
}

/// What the scheduler tells whoever watches a sweep.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A worker was started on a slot.
    Started {
        /// Which run.
        run: RunId,
        /// Which attempt.
        attempt: u32,
        /// `cpu`, `cuda:0`.
        slot: String,
        /// CPU threads that it computes with.
        threads: usize,
    },
    /// Its worker said something. Steps are thinned out to what a screen can show.
    Event {
        /// Which run.
        run: RunId,
        /// What.
        event: Event,
    },
    /// Its worker is gone; what becomes of it follows.
    Left {
        /// Which run.
        run: RunId,
    },
    /// It needs no worker of ours any more.
    Ended {
        /// Which run.
        run: RunId,
        /// How.
        state: RunState,
    },
    /// Another process trains it; we wait for that.
    Elsewhere {
        /// Which run.
        run: RunId,
    },
    /// Something to tell the person: a retry, a stop request that is under way.
    Message(String),
    /// Time passed; redraw what moves.
    Tick,
}

/// Watches a sweep.
pub trait Observer {
    /// Takes notice; must not block.
    fn see(&mut self, progress: &Progress);
}
