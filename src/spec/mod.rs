//! The spec language: from a YAML file to resolved, checked points of a grid. Knows neither candle nor SQL nor the
//! terminal.

pub mod config;
pub mod identity;

pub use config::RunConfig;
