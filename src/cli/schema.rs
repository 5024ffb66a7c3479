//! `exp schema`: the JSON Schema of a spec, for editors.

use crate::{
    base::{Exit, Result},
    spec, ui,
};

/// Runs the command.
pub fn run() -> Result<Exit> {
    ui::print_json(&spec::schema());
    Ok(Exit::Done)
}
