//! Parameters: names, shapes, initialisation, files; other programs' files in ([`import`]) and out ([`export`]). What is
//! computed with them stands in [`crate::engine`].

pub mod export;
mod hidden;
pub mod import;
mod init;
mod layout;
mod mapping;
pub mod safetensors;

pub use hidden::{Hidden, hidden_matrices};
pub use init::init;
pub use layout::{Layout, POSITIONS, Param};
