//! The store as its users see it: from events in folders to rows, whatever is interrupted, damaged or done at once.

mod common;
mod damage;
mod model;
mod parts;
mod processes;
mod recent;
mod runs;
mod skips;
