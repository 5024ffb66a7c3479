//! Token ids that somebody has prepared: nanoGPT's `train.bin` and `val.bin`.

mod meta;

pub use meta::{META, Meta};
