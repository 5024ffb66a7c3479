//! Parameters: names, shapes, initialisation, files. What is computed with them stands in [`crate::engine`].

mod hidden;
mod init;
mod layout;
pub mod safetensors;

pub use hidden::{Hidden, hidden_matrices};
pub use init::init;
pub use layout::{Layout, Param};
