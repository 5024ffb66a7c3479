//! How much each setting matters: the share of the variance of the loss that its main effect has, as in a functional ANOVA
//! of a full factorial (Hutter et al. 2014, without their model, since here the points are measured).

use super::{
    frame::Frame,
    numbers::{extent, mean},
    star::untied,
};

/// What the settings of a frame do to the loss.
pub struct Importance {
    /// Of each axis that is not walked together with one before, the greatest share first.
    pub effects: Vec<Effect>,
    /// What no single axis explains; `None` where the settings are no full product, so that shares do not add up.
    pub together: Option<f64>,
    /// The share of the variance between runs that lies between seeds of one setting.
    pub seeds: Option<f64>,
    /// Settings with a result.
    pub settings: usize,
}

/// The main effect of an axis.
pub struct Effect {
    /// Which axis.
    pub axis: usize,
    /// Of the variance of the settings' mean losses, the share that lies between the means at its values.
    pub share: f64,
    /// The lowest and the highest of these means.
    pub means: (f64, f64),
}

/// The share of a full grid that has to have results: of values that were drawn at random each would explain its own.
const LEAST: f64 = 0.5;

/// `None` where fewer than two axes, four settings or half of the grid have results, or all results are equal.
pub fn importance(frame: &Frame) -> Option<Importance> {
    let axes = untied(frame);
    let losses: Vec<(Vec<usize>, Vec<f64>)> = frame
        .settings()
        .into_iter()
        .map(|s| (s.at, s.runs.iter().filter_map(|run| frame.result(run).ok()).collect::<Vec<f64>>()))
        .filter(|(_, losses)| !losses.is_empty())
        .collect();
    let settings: Vec<(&[usize], f64)> = losses.iter().map(|(at, losses)| (at.as_slice(), mean(losses))).collect();
    let all: Vec<f64> = settings.iter().map(|s| s.1).collect();
    let product: f64 = axes.iter().map(|&a| frame.axes[a].values.len() as f64).product();
    if axes.len() < 2 || all.len() < 4 || (all.len() as f64) < LEAST * product {
        return None;
    }
    let (middle, whole) = (mean(&all), squares(&all));
    if whole <= 0.0 {
        return None;
    }
    let effect = |&axis: &usize| {
        let at = |value| settings.iter().filter(|s| s.0[axis] == value).map(|s| s.1).collect::<Vec<f64>>();
        let groups: Vec<Vec<f64>> =
            (0..frame.axes[axis].values.len()).map(at).filter(|group| !group.is_empty()).collect();
        let between: f64 = groups.iter().map(|g| g.len() as f64 * (mean(g) - middle).powi(2)).sum();
        let means: Vec<f64> = groups.iter().map(|group| mean(group)).collect();
        Effect { axis, share: between / whole, means: extent(&means) }
    };
    let mut effects: Vec<Effect> = axes.iter().map(effect).collect();
    effects.sort_by(|a, b| b.share.total_cmp(&a.share));
    let is_full = all.len() as f64 == product;
    let explained: f64 = effects.iter().map(|e| e.share).sum();
    let within: f64 = losses.iter().map(|(_, losses)| squares(losses)).sum();
    let runs: Vec<f64> = losses.iter().flat_map(|(_, losses)| losses.iter().copied()).collect();
    Some(Importance {
        effects,
        together: is_full.then_some((1.0 - explained).max(0.0)),
        seeds: (runs.len() > all.len()).then(|| within / squares(&runs)),
        settings: all.len(),
    })
}

/// The sum of squared deviations from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}
