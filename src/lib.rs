//! `exp` runs declarative experiments on small and medium transformers.

pub mod base;
pub mod cli;
pub mod cost;
pub mod data;
pub mod engine;
pub mod event;
pub mod exec;
pub mod kernels;
pub mod model;
pub mod report;
pub mod sched;
pub mod spec;
pub mod store;
pub mod train;
pub mod ui;
