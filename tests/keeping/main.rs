//! What people keep of their runs, and what they call it: tags, removing, freeing room.

mod common;
mod freeing;
#[path = "../lab/mod.rs"]
mod lab;
mod removing;
mod tags;
