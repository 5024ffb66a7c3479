//! Parameters: names, shapes, initialisation. What is computed with them stands in [`crate::engine`].

mod layout;
pub use layout::{Layout, Param};
