//! What the live view shows, as plain data: it knows neither where that comes from nor how it looks.

use std::sync::Arc;

use super::curve::Curve;
use crate::{
    base::{RunId, clock::Millis},
    event::RunState,
};

/// All that is shown at one moment.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// When that was.
    pub at: Millis,
    /// Runs by experiment, the one to look at first before the others.
    pub groups: Vec<Group>,
    /// What there is to compute on.
    pub devices: Vec<Device>,
    /// More of the run that is selected.
    pub detail: Option<Detail>,
    /// What is to be known of the scene itself, such as that it is an old one.
    pub notes: Vec<String>,
    /// How many hex digits tell the runs apart.
    pub digits: usize,
    /// What stands in the place of runs where there are none.
    pub empty: String,
}

/// The runs of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The experiment; empty for runs that belong to none.
    pub name: String,
    /// Whether an `exp run` of it is at work, which will begin what is queued.
    pub is_at_work: bool,
    /// What the settings are called that tell its runs apart.
    pub settings: Vec<String>,
    /// How much of the work is done, from 0 to 1.
    pub share: f64,
    /// Seconds since its spec was run; of one that is over, until its last run ended.
    pub elapsed: Option<f64>,
    /// Seconds until all is done, about.
    pub left: Option<f64>,
    /// Its runs in the order of the grid.
    pub runs: Vec<Run>,
}

impl Group {
    /// The settings of one of its runs: `layers=8 seed=2`.
    pub fn named(&self, run: &Run) -> String {
        let pairs = self.settings.iter().zip(&run.settings);
        pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which.
    pub id: RunId,
    /// Where it stands.
    pub state: RunState,
    /// Its values of the group's settings.
    pub settings: Vec<String>,
    /// Updates done.
    pub step: u64,
    /// Updates in all.
    pub steps: u64,
    /// The loss of the last update; may not be finite.
    pub train_loss: Option<f64>,
    /// The lowest validation loss.
    pub best: Option<f64>,
    /// Tokens a second.
    pub speed: Option<f64>,
    /// Seconds until it is done, about.
    pub left: Option<f64>,
    /// Its training loss so far, where somebody looks at it.
    pub curve: Option<Arc<Curve>>,
}

/// What is shown of the selected run alone.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Which run.
    pub id: RunId,
    /// What there is to say of it, the most important first.
    pub lines: Vec<String>,
    /// Its validation losses by step.
    pub validation: Vec<(u64, f64)>,
}

/// A device, and who is there.
#[derive(Clone, Debug, Default)]
pub struct Device {
    /// `cpu`, `cuda:0`.
    pub name: String,
    /// The model name of the processor.
    pub model: String,
    /// Cores that may be used; CPU only.
    pub cores: Option<usize>,
    /// How many threads want to compute, of whichever program, on average over the last minute; CPU only.
    pub load: Option<f64>,
    /// Bytes of its memory, and how many of them are free.
    pub memory: Option<(u64, u64)>,
    /// The runs that are there, each by its short id and its experiment.
    pub runs: Vec<String>,
}
