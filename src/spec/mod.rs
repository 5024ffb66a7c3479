//! The spec language: from a YAML file to resolved, checked points of a grid. Knows neither candle nor SQL nor the
//! terminal.
//!
//! ```text
//! file ─tree─► Node ─layer─► Layer ─inherit─► Layer ─sweep─► Sweep of RunConfig ─identity─► RunId
//!        spans       leaf table     base, --set      expand, resolve, check
//! ```
//!
//! A leaf is named by its path (`train.lr`), within its group (`train: {lr: …}`), or by its last word (`lr`), at the top
//! level and in `grid`, `zip`, `exclude`, `include` and `--set` alike. Where groups share a last word, it means the leaf
//! of [`leaf::FIRST_GROUPS`] (`batch` is `train.batch`); where none of these has it, it is ambiguous and an error
//! (`every`). `null` gives a leaf its default back.

pub mod config;
pub mod identity;
pub mod leaf;

mod check;
mod inherit;
mod kind;
mod layer;
mod names;
mod schema;
mod source;
mod sweep;
mod syntax;
mod tree;

pub use config::RunConfig;
pub use kind::Kind;
pub use schema::schema;
pub use sweep::{Sweep, load};
