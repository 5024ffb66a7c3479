//! How sweeps in real processes end other than by being done: cancelled, stopped at the first failure, on a broken device,
//! for want of memory.

mod cancel;
mod common;
mod failures;
#[path = "../lab/mod.rs"]
mod lab;
mod memory;
