//! The live view of runs: a scene, which is plain data, drawn into cells, and a loop that owns the terminal.
//!
//! - `scene`: what is shown; whoever calls fills it in
//! - `curve`: a loss in few numbers, and as blocks and dots
//! - `view`: what a person looks at, and what keys do to that
//! - `draw`, `rows`, `panels`, `cells`: a scene and a view as cells; the same for every terminal, and so for tests
//! - `terminal`: takes the terminal, gives it back however it is left, and waits for keys, signals and news

mod cells;
pub mod curve;
mod draw;
mod panels;
mod rows;
mod scene;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

pub use draw::plain;
pub use scene::{Detail, Device, Group, Run, Scene};
pub use terminal::{columns, live, said_instead, yield_terminal};
pub use view::{Look, News, Order};
