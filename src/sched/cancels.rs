//! Requests to cancel runs, as other processes append them to the runs' journals.

use std::collections::BTreeMap;

use crate::{
    base::{RunId, folders::Root, tail::Tail},
    event::Note,
};

/// Watches the journals of some runs.
#[derive(Debug)]
pub struct Cancels {
    journals: BTreeMap<RunId, Tail>,
}

impl Cancels {
    /// What is asked for from now on: who ran a spec after a cancel wants what was cancelled.
    pub fn watch(root: &Root, runs: impl Iterator<Item = RunId>) -> Self {
        Self { journals: runs.map(|run| (run, Tail::from_end(root.run(&run).journal()))).collect() }
    }

    /// Whether somebody asked since the last call that this run be stopped.
    pub fn arrived(&mut self, run: &RunId) -> bool {
        let lines = self.journals.get_mut(run).map(Tail::lines).unwrap_or_default();
        lines.iter().any(|line| matches!(serde_json::from_str(line), Ok(Note::Cancelled { .. })))
    }
}
