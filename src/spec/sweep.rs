//! From a spec to the points of its sweep: expanded, resolved, checked, in a stable order.

use std::{fmt::Display, path::Path};

use serde_json::Value;

use super::{
    RunConfig,
    blocks::{self, Block},
    check,
    config::ModelConfig,
    derive::{self, FLOPS, Known, Order, steps},
    draw,
    inherit::{self, Whole},
    layer::{Layer, MANY, MOST, Setting},
    leaf,
    points::{self, Origin, Row, plain, row},
    search::Search,
    source::{Fault, Result},
};
use crate::base::{Error, Result as BaseResult};

/// What a spec expands to.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The experiment's name: the spec's, or its file's without the ending.
    pub experiment: String,
    /// Paths of the swept leaves in the spec's order, those that only `include` varies after the axes, and `train.seed`
    /// last where it comes from `seeds`.
    pub axes: Vec<String>,
    /// Every point, resolved and checked; equal ones stay. The grid's in order, the last axis walking fastest, then random
    /// axes, then those of blocks, seeds innermost; then the points of `include`. Where [`Sweep::flops`] says how long one
    /// is trained, its steps are still to be [resolved](Sweep::resolved).
    pub points: Vec<RunConfig>,
    /// Points of the grid that `exclude` took out.
    pub excluded: usize,
    /// How runs are stopped that fall behind, where they are.
    pub search: Option<Search>,
    /// The spec's own text.
    pub text: String,
    doing: String,
    layer: Layer,
    order: Order,
    origins: Vec<Origin>,
}

/// Reads the spec at `path`, lays each of `set` (`lr=3e-4`, `layers=[2,4]`) over it, expands it and checks every point.
/// Errors with [`crate::base::Exit::Spec`], file, line and a caret; with `Usage` where one of `set` has no `=`.
pub fn load(path: &Path, set: &[String]) -> BaseResult<Sweep> {
    load_up_to(MANY, path, set)
}

/// As [`load`], for somebody who says that a sweep of more than 100,000 points is meant. More than 1,000,000 are refused
/// all the same.
pub fn load_large(path: &Path, set: &[String]) -> BaseResult<Sweep> {
    load_up_to(MOST, path, set)
}

fn load_up_to(most: usize, path: &Path, set: &[String]) -> BaseResult<Sweep> {
    let doing = format!("reading the spec {}", path.display());
    let sweep = inherit::read(path, set).and_then(|whole| expand(whole, doing.clone(), most));
    sweep.map_err(|fault| fault.into_error(doing))
}

/// The sweep of a spec that says nothing with each of `set` over it. Errors as [`load`].
pub fn from_settings(set: &[String]) -> BaseResult<Sweep> {
    let doing = String::from("reading the settings");
    let sweep = inherit::read_settings(set).and_then(|whole| expand(whole, doing.clone(), MANY));
    sweep.map_err(|fault| fault.into_error(doing))
}

impl Sweep {
    /// An error about a leaf of a point, with a caret at what set it: an axis' value, a setting, a `--set`; without one
    /// where the leaf has its default. For what only the planner knows: a corpus too short, a device that is not here.
    pub fn error_at(&self, point: usize, leaf: &str, why: impl Display, hint: Option<&str>) -> Error {
        let row = self.row(point);
        let setting = leaf::lookup(leaf).ok().and_then(|leaf| set_by(&self.layer, &row, leaf));
        let fault = Fault::new(setting.map(|setting| setting.place.clone()), why.to_string());
        fault.maybe_hint(hint.map(Into::into)).into_error(self.doing.clone())
    }

    /// Checks a point again with what the planner resolved in it: the device that `auto` stands for. Errors as [`load`].
    pub fn check(&self, point: usize, config: &RunConfig) -> BaseResult<()> {
        let Some(conflict) = check::conflict(config) else { return Ok(()) };
        Err(blame(&conflict, config, &self.row(point), &self.layer).into_error(self.doing.clone()))
    }

    /// A point of the sweep with what only the planner knows. Where it begins with the weights of a network `theirs`, what of
    /// `model` the spec leaves out, preset included, is as it is there; `steps` are what [`Sweep::flops`] come to. Errors as
    /// [`load`].
    pub fn resolved(&self, point: usize, theirs: Option<&ModelConfig>, steps: Option<u64>) -> BaseResult<RunConfig> {
        let row = self.row(point);
        let theirs = theirs.map(|theirs| RunConfig { model: theirs.clone(), ..RunConfig::default() });
        let has_preset = leaf::lookup(leaf::PRESET).is_ok_and(|preset| row[preset].is_some());
        // Dropout has no weights, and how a run is trained does not follow from how another was.
        let is_shape =
            |leaf: &leaf::Leaf| leaf.group() == "model" && ![leaf::PRESET, "model.dropout"].contains(&leaf.path);
        let left_out = leaf::all().iter().enumerate().filter(|(_, leaf)| is_shape(leaf) && !has_preset);
        let theirs = theirs.iter().flat_map(|theirs| left_out.clone().map(|(index, leaf)| (index, leaf.get(theirs))));
        let left_out: Vec<_> = theirs.collect();
        let known = Known { left_out: &left_out, steps };
        self.order.resolve(&self.layer, &row, known).map_err(|fault| fault.into_error(self.doing.clone()))
    }

    /// The floating-point operations that a point is to spend, where it is said by them how long it is trained: its steps
    /// wait for the vocabulary of its corpus.
    pub fn flops(&self, point: usize) -> Option<f64> {
        if !self.layer.has_budget(FLOPS) || self.order.derives(steps()) {
            return None;
        }
        self.row(point)[leaf::all().len() + FLOPS].and_then(|setting| setting.value.as_f64())
    }

    fn row(&self, point: usize) -> Row<'_> {
        self.origins.get(point).map_or_else(|| plain(&self.layer), |&origin| row(&self.layer, origin))
    }
}

fn expand(whole: Whole, doing: String, most: usize) -> Result<Sweep> {
    let Whole { experiment, mut layer, text } = whole;
    draw::draw(&mut layer)?;
    refuse_idle_axes(&layer)?;
    blocks::refuse_seeds(&layer)?;
    derive::refuse_given(&layer)?;
    let order = Order::of(&layer)?;
    let mut origins = points::origins(&layer, most)?;
    let config = |&origin: &Origin| {
        let row = row(&layer, origin);
        order.resolve(&layer, &row, Known::default()).or_else(|fault| {
            // What cannot be may be excluded by what it is without it.
            let bare = leaf::resolve(row.iter().flatten().map(|setting| (setting.leaf, &setting.value)));
            let excluded = layer
                .exclude
                .iter()
                .flat_map(|(_, entries)| entries)
                .any(|entry| !derive::are_derived(&layer, &entry.which.leaves()) && entry.which.holds(&bare));
            if excluded && !origin.is_included() { Ok(bare) } else { Err(fault) }
        })
    };
    let mut points: Vec<RunConfig> = origins.iter().map(config).collect::<Result<_>>()?;
    let excluded = points::exclude(&layer, &mut origins, &mut points)?;
    // What begins with other weights has their network where it says nothing else: that is known to the planner.
    let whole = points.iter().zip(&origins).filter(|(point, _)| point.run.init_from.is_none());
    for (point, &origin) in whole {
        if let Some(conflict) = check::conflict(point) {
            return Err(blame(&conflict, point, &row(&layer, origin), &layer));
        }
    }
    let search = layer.search.as_ref().map(|wish| wish.suits(&points).map(|()| wish.search.clone()));
    let search = search.transpose()?.flatten();
    Ok(Sweep { experiment, axes: axes(&layer), points, excluded, search, text, doing, layer, order, origins })
}

/// An axis over a leaf that does not count for the id would make one run of all its points.
fn refuse_idle_axes(layer: &Layer) -> Result<()> {
    let Some(axis) = layer.axes().find(|axis| !axis.leaf().can_be_axis() && axis.values.len() > 1) else {
        return Ok(());
    };
    let path = axis.leaf().path;
    Err(Fault::at(&axis.place, format!("`{path}` cannot be an axis: it does not decide what a run computes"))
        .hint("runs that differ in it alone are one run; compare its values with a `--root` for each"))
}

/// A conflict, with carets at what set its leaves: an axis' value first, since that is what makes this point differ.
fn blame(conflict: &check::Conflict, config: &RunConfig, row: &Row, layer: &Layer) -> Box<Fault> {
    let fixed = plain(layer);
    let swept = |setting: &Setting| fixed[setting.leaf].is_none_or(|plain| !std::ptr::eq(plain, setting));
    let named = conflict.leaves.iter().filter_map(|path| set_by(layer, row, leaf::lookup(path).ok()?));
    let (first, rest): (Vec<_>, Vec<_>) = named.partition(|setting| swept(setting));
    let settings: Vec<&Setting> = first.into_iter().chain(rest).collect();
    let fault = Fault::new(settings.first().map(|setting| setting.place.clone()), conflict.why.clone());
    let fault = match settings.iter().find(|setting| !std::ptr::eq(**setting, settings[0])) {
        Some(other) => {
            fault.also(&other.place, format!("`{}` is {}", other.leaf().path, told(&other.leaf().get(config))))
        }
        None => fault,
    };
    fault.maybe_hint(conflict.hint.clone())
}

/// What gives a leaf its value: its own setting, its derivation, or the preset's.
fn set_by<'a>(layer: &'a Layer, row: &Row<'a>, leaf: usize) -> Option<&'a Setting> {
    let derived = || layer.derive.iter().map(|derivation| &derivation.leaf).find(|setting| setting.leaf == leaf);
    let budget = || derive::lengths().find_map(|length| row[length]).filter(|_| leaf == steps());
    let preset = || leaf::lookup(leaf::PRESET).ok().and_then(|preset| row[preset]);
    let is_filled = leaf::at(leaf).group() == "model";
    let filled = || preset().filter(|setting| is_filled && !setting.value.is_null());
    row[leaf].or_else(derived).or_else(budget).or_else(filled)
}

/// A value as it stands in a sentence.
pub(super) fn told(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The paths of what varies; of budgets, what they come to.
fn axes(layer: &Layer) -> Vec<String> {
    let walked = layer.groups.iter().flat_map(|group| &group.axes).map(|axis| axis.leaf);
    let in_blocks = layer.blocks().iter().flat_map(Block::gives).map(|(leaf, _)| leaf);
    let named = layer.included().iter().flat_map(|entry| &entry.settings).map(|setting| setting.leaf);
    let last: Vec<usize> = layer.seeds.iter().flat_map(|group| &group.axes).map(|axis| axis.leaf).collect();
    let mut order: Vec<usize> = Vec::new();
    for leaf in walked.chain(in_blocks).chain(named) {
        let leaf = if leaf < leaf::all().len() { leaf } else { steps() };
        if !order.contains(&leaf) && !last.contains(&leaf) {
            order.push(leaf);
        }
    }
    order.into_iter().chain(last).map(|leaf| leaf::at(leaf).path.to_owned()).collect()
}
