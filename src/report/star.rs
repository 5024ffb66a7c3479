//! Experiments whose settings lie around one of them, as in an ablation that throws one switch at a time: which setting
//! is the base, and how far each other is from it. Products, whose settings have no middle, have none of this.

use super::{
    frame::{Frame, Setting},
    numbers::{mean, places},
    welch::{Difference, difference},
};

/// Of the settings beside the base at least this share differs from it along one axis alone. Less, and it is a part of
/// a product (one with a few points left out, or drawn at random), which pictures over its axes show better.
const SINGLE: f64 = 0.6;

/// A setting and what came of it.
pub struct Change<'a> {
    /// Which.
    pub setting: Setting<'a>,
    /// How many axes it differs from the base in; 0 for the base.
    pub axes: usize,
    /// The results of its runs that are done.
    pub losses: Vec<f64>,
    /// Its mean loss minus the base's; `None` for the base, and where one of the two has no result.
    pub from_base: Option<Difference>,
}

/// The setting that the others lie around: the one that has, for every axis, the value that most settings have. `None`
/// where there is none, and where the settings are a product.
pub fn base(frame: &Frame) -> Option<Vec<usize>> {
    let settings: Vec<Vec<usize>> = frame.settings().into_iter().map(|s| s.at).collect();
    let axes = untied(frame);
    let product = axes.iter().map(|&a| frame.axes[a].values.len() as f64).product::<f64>();
    if settings.len() < 3 || settings.len() as f64 >= product {
        return None;
    }
    let base = (0..frame.axes.len()).map(|a| most_common(frame, a, &settings)).collect::<Option<Vec<usize>>>()?;
    let distance = |at: &Vec<usize>| axes.iter().filter(|&&a| at[a] != base[a]).count();
    let singles = settings.iter().filter(|at| distance(at) == 1).count();
    let is_star = settings.contains(&base) && singles as f64 >= SINGLE * (settings.len() - 1) as f64;
    is_star.then_some(base)
}

/// The value of an axis that more settings have than any other.
fn most_common(frame: &Frame, axis: usize, settings: &[Vec<usize>]) -> Option<usize> {
    let count = |value: usize| settings.iter().filter(|at| at[axis] == value).count();
    let mut counts: Vec<(usize, usize)> = (0..frame.axes[axis].values.len()).map(|v| (count(v), v)).collect();
    counts.sort_unstable();
    match counts[..] {
        [.., second, first] if first.0 > second.0 => Some(first.1),
        _ => None,
    }
}

/// The axes, of those that are walked together the first alone.
pub fn untied(frame: &Frame) -> Vec<usize> {
    let follows = |a: usize| (0..a).any(|b| frame.is_tied(a, b) && frame.is_tied(b, a));
    (0..frame.axes.len()).filter(|&a| !follows(a)).collect()
}

/// The settings of an experiment that has a base: it first, then the others from the lowest loss to the highest, and
/// last those without a result.
pub fn changes(frame: &Frame) -> Option<Vec<Change<'_>>> {
    let base = frame.base.as_ref()?;
    let axes = untied(frame);
    let losses = |s: &Setting| -> Vec<f64> { s.runs.iter().filter_map(|r| frame.result(r).ok()).collect() };
    let settings = frame.settings();
    let of_base = settings.iter().find(|s| s.at == *base).map(losses).unwrap_or_default();
    let mut all: Vec<Change> = settings
        .into_iter()
        .map(|setting| {
            let losses = losses(&setting);
            let from_base = (setting.at != *base).then(|| difference(&losses, &of_base)).flatten();
            Change { axes: axes.iter().filter(|&&a| setting.at[a] != base[a]).count(), setting, losses, from_base }
        })
        .collect();
    let rank = |c: &Change| if c.losses.is_empty() { f64::INFINITY } else { mean(&c.losses) };
    all.sort_by(|a, b| (a.axes > 0).cmp(&(b.axes > 0)).then(rank(a).total_cmp(&rank(b))));
    Some(all)
}

/// The decimals that differences from the base are told with: enough for the narrowest of their intervals.
pub fn digits(changes: &[Change]) -> usize {
    let halves = changes.iter().filter_map(|c| c.from_base?.half).filter(|&half| half > 0.0);
    places(halves.fold(f64::INFINITY, f64::min))
}

/// `−0.528 ± 0.027`; `+0.0004` where the scatter is not known. What rounds to zero has no sign.
pub fn signed(difference: Difference, digits: usize) -> String {
    let sign = match difference.mean {
        d if d.abs() < 0.5 * 0.1f64.powi(digits as i32) => "",
        d if d < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{}", unsigned(difference, digits))
}

/// `0.528 ± 0.027`.
pub fn unsigned(difference: Difference, digits: usize) -> String {
    let size = difference.mean.abs();
    difference.half.map_or_else(|| format!("{size:.digits$}"), |half| format!("{size:.digits$} ± {half:.digits$}"))
}
