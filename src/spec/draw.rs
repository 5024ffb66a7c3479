//! Random search: axes whose values are drawn, `samples` of each.
//!
//! Each axis has a [stream](crate::base::rng) of its own, keyed by `sample_seed` and its leaf, so its values are the same on
//! every machine, whatever other axes there are, and more samples go on where fewer ended. All random axes are walked
//! together: the n-th sample is the n-th value of each.

use serde_json::Value;

use super::{
    kind::Kind,
    layer::{Axis, Group, Layer, Setting},
    leaf,
    source::{Fault, Place, Result},
    values::digits,
};
use crate::base::rng;

/// How the values of an axis are drawn.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    /// Where that stands.
    pub place: Place,
    pub law: Law,
}

#[derive(Clone, Debug)]
pub(super) enum Law {
    /// Each between two ends is as likely as any other; of integers both ends included.
    Uniform(f64, f64),
    /// The same of the logarithm.
    LogUniform(f64, f64),
    /// Each of these is as likely as any other. There is one at least.
    Choice(Vec<Value>),
}

impl Draw {
    /// The first `count` values of a leaf.
    fn values(&self, leaf: usize, count: usize, seed: u64) -> Vec<Setting> {
        let path = leaf::at(leaf).path;
        let whole = matches!(leaf::at(leaf).kind, Kind::Integer { .. });
        let mut stream = rng::stream(seed, &format!("sample/{path}"));
        let number = |x: f64| if whole { Value::from(x as u64) } else { Value::from(x) };
        let mut value = || match &self.law {
            Law::Uniform(low, high) if whole => number(low + rng::below(&mut stream, (high - low) as u64 + 1) as f64),
            Law::Uniform(low, high) => number(rounded(low + (high - low) * rng::unit(&mut stream), *low, *high)),
            Law::LogUniform(low, high) => {
                let x = (low.ln() + (high.ln() - low.ln()) * rng::unit(&mut stream)).exp();
                number(if whole { x.round().clamp(*low, *high) } else { rounded(x, *low, *high) })
            }
            Law::Choice(of) => of[rng::below(&mut stream, of.len() as u64) as usize].clone(),
        };
        (0..count).map(|_| Setting { leaf, value: value(), place: self.place.clone() }).collect()
    }
}

/// Six digits, by which the last bits of a machine's logarithm are gone; within the ends all the same.
fn rounded(x: f64, low: f64, high: f64) -> f64 {
    digits(x, 6).clamp(low, high)
}

/// Draws the values of all random axes of a whole spec. Those of the grid become its innermost group, those of a block a
/// group of it that is walked together with that.
pub(super) fn draw(layer: &mut Layer) -> Result<()> {
    let is_random = |axis: &Axis| axis.draw.is_some();
    let axes = || layer.groups.iter().chain(layer.blocks().iter().flat_map(|block| &block.groups));
    let random = axes().flat_map(|group| &group.axes).find(|axis| is_random(axis));
    let samples = layer.samples.as_ref().and_then(|(samples, place)| Some(((*samples)?, place)));
    let (count, seed) = match (samples, random) {
        (Some((count, _)), Some(_)) => (count, layer.sample_seed.as_ref().map_or(1, |(seed, _)| *seed)),
        (None, Some(axis)) => {
            let why = format!("`{}` is drawn at random, and `samples` does not say how often", axis.leaf().path);
            return Err(Fault::at(&axis.place, why).hint("`samples: 20` at the top level of the spec"));
        }
        (Some((_, place)), None) => {
            return Err(Fault::at(place, "`samples` draws nothing: no axis is random").hint(
                "a random axis: `grid: {lr: {log_uniform: [1e-4, 1e-2]}}`; `--set samples=null` where one was replaced",
            ));
        }
        (None, None) => {
            let Some((_, place)) = &layer.sample_seed else { return Ok(()) };
            return Err(Fault::at(place, "`sample_seed` without `samples` draws nothing"));
        }
    };
    let taken = |groups: &mut Vec<Group>| {
        let mut axes = Vec::new();
        groups.retain_mut(|group| {
            axes.extend(group.axes.extract_if(.., |axis| axis.draw.is_some()));
            !group.axes.is_empty()
        });
        for axis in &mut axes {
            axis.values = axis.draw.as_ref().map(|draw| draw.values(axis.leaf, count, seed)).unwrap_or_default();
        }
        (!axes.is_empty()).then_some(Group { axes })
    };
    let group = taken(&mut layer.groups);
    layer.is_sampled = group.is_some();
    layer.groups.extend(group);
    for block in layer.blocks.iter_mut().flatten() {
        match taken(&mut block.groups) {
            group if layer.is_sampled => block.drawn = group,
            group => block.groups.extend(group),
        }
    }
    Ok(())
}
