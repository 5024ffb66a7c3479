//! Reports: pictures and tables of an experiment, drawn from stored rows alone, so that a copied store gives the same
//! bytes anywhere. Knows nothing of training, models or scheduling.
//!
//! ```text
//! Store ─load─► Frame ─plots─► Figure ─layout, draw─► PNG
//!                     └─summary──────────────────────► summary.md, summary.csv
//! ```

pub mod figure;
pub mod frame;

mod curves;
mod decimate;
mod draw;
mod layout;
mod numbers;
mod pace;
mod palette;
mod pen;
mod plots;
mod scale;
mod text;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;
