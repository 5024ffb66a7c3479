//! The training loop.

pub mod schedule;
