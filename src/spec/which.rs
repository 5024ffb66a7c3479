//! Which points of a sweep are meant: by values that they have, or by a condition.

use super::{
    RunConfig,
    expr::{self, Expr, Leaves},
    layer::Setting,
    source::{Place, Result},
};

/// What points are chosen by.
#[derive(Clone, Debug)]
pub(super) enum Which {
    /// Those that resolve to all of these: `{layers: 8, lr: 1e-2}`.
    Values(Vec<Setting>),
    /// Those for which it holds: `layers == 8 and lr > 1e-3`.
    Condition(Expr),
}

impl Which {
    /// Reads a condition that stands at a place.
    pub fn condition(text: &str, place: &Place) -> Result<Self> {
        Ok(Self::Condition(Expr::of_spec(text, place, &Leaves, expr::Kind::Bool)?))
    }

    /// Whether a point is among them.
    pub fn holds(&self, config: &RunConfig) -> bool {
        match self {
            Self::Values(settings) => settings.iter().all(|setting| setting.holds(config)),
            Self::Condition(condition) => condition.holds(&|leaf| Leaves::value(leaf, config)),
        }
    }

    /// The indices of the leaves that it looks at.
    pub fn leaves(&self) -> Vec<usize> {
        match self {
            Self::Values(settings) => settings.iter().map(|setting| setting.leaf).collect(),
            Self::Condition(condition) => condition.fields(),
        }
    }
}
