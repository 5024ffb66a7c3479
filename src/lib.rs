//! `exp` runs declarative experiments on small and medium transformers: one YAML file says what to train and what to
//! sweep; `exp` expands it into a grid of runs, schedules them on the devices at hand, keeps every metric and checkpoint,
//! and draws what was learned. This page is the map of the code.
//!
//! # Who may use whom
//!
//! Everyone may use `base`, `event`, `spec::config` and `spec::identity`. Beyond them a module uses only what its line
//! names; the test `tests/architecture.rs` reads this drawing and every `use crate::` line, and fails where they differ.
//!
//! ```text
//! cli    ► ui, report, export, sched, exec, train, model, data, cost, spec, store     one file per command, thin
//! ui     ►                                          the only place that prints
//! report ► store                                    never train, model or sched: a copied store can be redrawn
//! export ► store, spec                              tables and event files for other programs, of a copied store too
//! sched  ► exec, train, store, spec, data, cost     plan, queue (a pure state machine), dispatch (the one loop)
//! exec   ► train, engine, model, data, cost         the executors, the worker, devices and slots; imports
//! train  ► engine, model, data, cost                the loop, schedule, evaluation, checkpoints
//! engine ► model, kernels, data, cost               tape (candle's autograd, any device), cpu (explicit layers)
//! model  ►                                          parameters: names, shapes, initialisation, files in and out
//! kernels►                                          plain functions on slices
//! cost   ► model, kernels                           parameters, FLOPs, bytes from a config alone
//! data   ►                                          corpora, tokenizers, the token cache, the loader; prepared tokens
//! store  ►                                          the SQLite index: schema, write side, query side
//! spec   ►                                          the YAML language: leaves, tree, grid, run ids, schema; expressions
//! event  ►                                          what happened to a run: the link between worker, store and screen
//! base   ►                                          errors and exit codes, files, folders, streams, clock, ids
//! ```
//!
//! External crates keep to their layer: candle in `model`, `engine` and `exec::device`; nvml-wrapper in `exec::device`;
//! rusqlite in `store`; plotters in `report`; pulldown-cmark in `report::html`; parquet and crc in `export`; indicatif
//! and unicode-width in `ui`, ratatui in `ui::watch`; clap in `cli`; saphyr-parser and serde_yaml in `spec`; tiktoken-rs and
//! tokenizers in `data::tokenizer`; zstd in `data::prepare`; ureq in `data::fetch`, the only place that knows a network.
//!
//! # How data flows, one way
//!
//! ```text
//! YAML ─spec─► [RunConfig] ─sched::plan─► Plan ─sched::dispatch─► job + slot ─exec─► worker process
//! worker: RunConfig ► data ► engine ► train ─► Event, one JSON line each, in runs/<id>/attempt-K/events.jsonl
//! dispatch: (Event, Exit, Signal, Cancel, Tick) ─► queue.step(), pure ─► actions ─► store, screen, start and stop
//! runs/exp.db ─store─► rows ─► Frame ─plots─► Figure ─draw─► PNG, SVG, HTML; written whole under reports/<experiment>/
//! ```
//!
//! # Who owns which file on disk
//!
//! [`base::folders`] names what lies in a root and in the user's cache folder, which [`data::shakespeare`] alone writes. A
//! worker alone writes `attempt-K/`, `checkpoints/`, `samples/` and `tokenizer.json` of its run, or `exp import` before
//! anybody sees the run; of a run that nobody trains, [`sched::budget`] removes checkpoints beyond their bytes, and `exp gc`
//! what was moved aside. The scheduler writes `config.json`, the journals, to which `exp cancel` and `exp tag`
//! append, and by [`exec::slots`] who is on which device; [`store`] writes `exp.db`, and [`store::remove`] takes away whole
//! runs and experiments; [`data`] writes the token cache, what it has seen of prepared tokens and the tokenizers' files, and
//! [`mod@data::prepare`] the folder that it is told to, all of whose names its `state` has; [`exec::device`] writes the
//! measured peaks; `cli::report` and `cli::attention` what [`report`] draws; [`mod@export`] and [`model::export`] the folder
//! that they are told to.
//!
//! # Where to start
//!
//! | for a new | begin in |
//! |---|---|
//! | setting, and so a new axis | [`spec::leaf`] (the one table), [`spec::config`] |
//! | way to give the values of an axis | `spec/values.rs`, `spec/draw.rs` |
//! | switch of the model | [`spec::config`], [`model::Layout`], [`cost`], `engine/{tape,cpu,decode}`; `tests/switches.rs` |
//! | format of weights, in or out | [`model::import`], [`model::export`] |
//! | known model (preset) | `spec/preset.rs` |
//! | optimizer | [`spec::config`], [`kernels`], [`engine`]; `tests/optimizers.rs` |
//! | rule that stops what loses | [`spec::search`], `sched/prune.rs` |
//! | kind of plot | `report/plots/`, one file each |
//! | executor | [`exec`] |
//! | corpus or tokenizer | [`data`]; one that is downloaded, [`data::shakespeare`] |
//! | column of lists, name in conditions | `cli/columns.rs`; function of conditions, [`spec::expr`] |
//! | format of tables for other programs | `export/`, one file each |
//! | view for SQL | the next file of `store/migrations/` |
//! | command | [`cli`], one file each |
//! | metric | [`event`], `store` |
//! | part of the live view | `cli/watch/` gathers, `ui/watch/` draws |
//!
//! # Invariants
//!
//! - The folder is the truth, the database an index: deleting `runs/exp.db` loses nothing (`exp store rebuild`).
//! - A run's result follows from its [`spec::RunConfig`] and its corpus alone: never from threads, jobs, stops or resumes.
//! - `spec` and `event` know neither candle nor SQL nor the terminal; `report` knows only the store.
//! - Every file that matters is whole or absent: written aside, fsynced, renamed.
//! - Who writes into a run's folder asks before each write whether the run is still its own ([`base::lease`]); a run that
//!   was taken over is written by its new worker alone.
//! - A recorded process is signalled only where it is known to be that process ([`base::machine::Identity`]).
//! - A GPU goes by its UUID from slot to worker; `cuda:N` is what people call it ([`exec::device`]).
//! - A core is given to one run at a time, and a device's memory to as many as fit into it beside what other programs
//!   hold, until both the scheduler and the worker that held it are gone, or their run was taken over ([`exec::slots`]).
//! - What cannot be listed or read is never taken for what is not there.
//! - An error keeps what the system answered: what waits for a person (a full disk, a missing right) is not tried again.
//! - What is to be removed is said first, then removed: whoever reads what was said never misses a file. A run vanishes at
//!   once, and no single look at a lease is enough to remove anything.
//! - One value per step: events after the step that a later attempt resumed from are void.
//! - Which runs of a sweep pause follows from what is stored of all of them, but that a run which is trained is judged once
//!   at each rung; what a run computes follows from none of that.
//! - A bad point of a grid is found before the first run starts.
//! - What is not finite is the word `"nan"`, `"inf"` or `"-inf"` wherever it is stored, and is never best.

#![warn(missing_docs)]

pub mod base;
pub mod cli;
pub mod cost;
pub mod data;
pub mod engine;
pub mod event;
pub mod exec;
pub mod export;
pub mod kernels;
pub mod model;
pub mod report;
pub mod sched;
pub mod spec;
pub mod store;
pub mod train;
pub mod ui;
