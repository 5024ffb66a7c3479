//! The spec language: from a YAML file to resolved, checked points of a grid. Knows neither candle nor SQL nor the
//! terminal.
//!
//! ```text
//! file ─tree─► Node ─layer─► Layer ─inherit─► Layer ─sweep─► Sweep of RunConfig ─identity─► RunId
//!        spans  values, blocks    base, --set   draw, points, derive, check
//! ```
//!
//! The language, where YAML and the leaf table do not say it already:
//!
//! - A leaf is named by its path (`train.lr`), within its group (`train: {lr: …}`), or by its last word (`lr`), at the
//!   top level and in `grid`, `zip`, `exclude`, `include` and `--set` alike. Where groups share a last word, it means the
//!   leaf of [`leaf::FIRST_GROUPS`] (`batch` is `train.batch`); where none of these has it, it is ambiguous and an error
//!   (`every`). A leaf is set once in a file, and swept once.
//! - `null` gives a leaf its default back, in an axis too.
//! - `model.preset` fills the leaves of `model` that nothing else sets: not the file, a base, an axis or `--set`.
//! - An axis overrules the plain value of its leaf. Axes are walked in the order of the file, the last one fastest. Its
//!   values are a list, or `{range: [1, 9, 2]}`, `{linspace: [0, 0.3, 4]}`, `{logspace: [1e-4, 1e-2, 5]}`; or they are
//!   drawn, `samples` times: `{uniform: [0, 0.3]}`, `{log_uniform: [1e-4, 1e-2]}`, `{choice: [32, 64]}`. All random axes are
//!   walked together, inside the others, so that each point of these has the same samples.
//! - A block gives axes and settings to those points of the grid for which its `when` holds, asked before any block and any
//!   derivation. Its axes are walked inside those of the grid. One that holds for no point is an error, as it is of
//!   `exclude`.
//! - `derive` gives leaves what their arithmetic comes to for a point, after axes and blocks, in the order in which they
//!   name one another. What is derived is set nowhere else. `train.tokens` and `train.flops` stand for `train.steps`, which
//!   follow from them; they are no leaves. Those that `train.flops` comes to are known to the planner alone.
//! - `seeds: 3` is an innermost axis of `train.seed` over 1, 2 and 3, and stands beside no other value of that leaf.
//! - `exclude` takes points of the grid out by the values that they resolve to, or by a [condition](expr) over them. An
//!   entry that matches no point is an error, unless the command line or an inheriting spec sets a leaf that it names.
//!   `include` adds points after that: the plain values with those of the entry, for every one of `seeds`. A leaf that only
//!   `include` names counts as an axis of the sweep, since it varies.
//! - What a spec says replaces what its `base` says, and `--set` replaces both, the last one on top: a leaf the leaf or
//!   the axis, an axis the axis (in `grid` or `zip`) and the plain value, `exclude`, `include`, `blocks` and `seeds` as
//!   wholes; a leaf that is set takes a derivation's place, and its part in the blocks of a base. The name of the
//!   experiment is not inherited.
//! - Paths are relative to the folder of the file that names them, those of `--set` to the current folder; in a
//!   [`RunConfig`] they are whole, so that a run can be resumed from anywhere.
//! - `search` says how runs that fall behind are stopped ([`search`]). It replaces that of a base as a whole, as
//!   `--set 'search={…}'` does, and `search: null` takes it away.

pub mod config;
pub mod expr;
pub mod identity;
pub mod leaf;
pub mod search;

mod amend;
mod blocks;
mod check;
mod derive;
mod draw;
mod inherit;
mod kind;
mod layer;
mod names;
mod points;
mod preset;
mod schema;
mod source;
mod sweep;
mod syntax;
mod tree;
mod values;
mod which;

pub use amend::amend;
pub use config::RunConfig;
pub use kind::Kind;
pub use layer::name_fault;
pub use names::nearest;
pub use schema::schema;
pub use sweep::{Sweep, from_settings, load, load_large};
