//! From a spec to the points of its sweep: expanded, resolved, checked, in a stable order.

use std::{fmt::Display, path::Path};

use serde_json::Value;

use super::{
    RunConfig, check,
    config::ModelConfig,
    inherit::{self, Whole},
    layer::{Entry, Exclusion, Group, Layer, MANY, MOST, Setting, seed},
    leaf,
    source::{Fault, Result},
    which::Which,
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
    /// Every point, resolved and checked; equal ones stay. The grid's in order, the last axis walking fastest and seeds
    /// innermost; then those of `include`.
    pub points: Vec<RunConfig>,
    /// Points of the grid that `exclude` took out.
    pub excluded: usize,
    /// The spec's own text.
    pub text: String,
    doing: String,
    layer: Layer,
    origins: Vec<Origin>,
}

/// Where a point comes from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// The grid, by the number of the point in its order.
    Grid(usize),
    /// A point of `include`, repeated for each of `seeds` that it does not set itself.
    Included { entry: usize, seed: Option<usize> },
}

/// What sets each leaf of a point, by the leaf's index.
type Row<'a> = Vec<Option<&'a Setting>>;

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
        let setting = leaf::lookup(leaf).ok().and_then(|leaf| set_by(&row, leaf));
        let fault = Fault::new(setting.map(|setting| setting.place.clone()), why.to_string());
        fault.maybe_hint(hint.map(Into::into)).into_error(self.doing.clone())
    }

    /// Checks a point again with what the planner resolved in it: the device that `auto` stands for. Errors as [`load`].
    pub fn check(&self, point: usize, config: &RunConfig) -> BaseResult<()> {
        let Some(conflict) = check::conflict(config) else { return Ok(()) };
        Err(blame(&conflict, config, &self.row(point), &self.layer).into_error(self.doing.clone()))
    }

    /// A point of the sweep as it is where it begins with the weights of a network `theirs`: what of `model` the spec leaves
    /// out, preset included, is as it is there.
    pub fn begun_from(&self, point: usize, theirs: &ModelConfig) -> RunConfig {
        let row = self.row(point);
        let theirs = RunConfig { model: theirs.clone(), ..RunConfig::default() };
        let has_preset = leaf::lookup(leaf::PRESET).is_ok_and(|preset| row[preset].is_some());
        // Dropout has no weights, and how a run is trained does not follow from how another was.
        let is_shape =
            |leaf: &leaf::Leaf| leaf.group() == "model" && ![leaf::PRESET, "model.dropout"].contains(&leaf.path);
        let left_out = leaf::all().iter().enumerate().filter(|(_, leaf)| is_shape(leaf) && !has_preset);
        let inherited: Vec<_> = left_out.map(|(index, leaf)| (index, leaf.get(&theirs))).collect();
        let written = row.iter().flatten().map(|setting| (setting.leaf, &setting.value));
        leaf::resolve(inherited.iter().map(|(index, value)| (*index, value)).chain(written))
    }

    fn row(&self, point: usize) -> Row<'_> {
        self.origins.get(point).map_or_else(|| plain(&self.layer), |&origin| row(&self.layer, origin))
    }
}

fn expand(whole: Whole, doing: String, most: usize) -> Result<Sweep> {
    let Whole { experiment, layer, text } = whole;
    refuse_idle_axes(&layer)?;
    let mut origins = origins(&layer, most)?;
    let config = |&origin: &Origin| {
        let row = row(&layer, origin);
        leaf::resolve(row.iter().flatten().map(|setting| (setting.leaf, &setting.value)))
    };
    let mut points: Vec<RunConfig> = origins.iter().map(config).collect();
    let excluded = exclude(&layer, &mut origins, &mut points)?;
    // What begins with other weights has their network where it says nothing else: that is known to the planner.
    let whole = points.iter().zip(&origins).filter(|(point, _)| point.run.init_from.is_none());
    for (point, &origin) in whole {
        if let Some(conflict) = check::conflict(point) {
            return Err(blame(&conflict, point, &row(&layer, origin), &layer));
        }
    }
    Ok(Sweep { experiment, axes: axes(&layer), points, excluded, text, doing, layer, origins })
}

/// An axis over a leaf that does not count for the id would make one run of all its points.
fn refuse_idle_axes(layer: &Layer) -> Result<()> {
    let mut axes = layer.walks().flat_map(|group| &group.axes);
    let Some(axis) = axes.find(|axis| !axis.leaf().can_be_axis() && axis.values.len() > 1) else { return Ok(()) };
    let path = axis.leaf().path;
    Err(Fault::at(&axis.place, format!("`{path}` cannot be an axis: it does not decide what a run computes"))
        .hint("runs that differ in it alone are one run; compare its values with a `--root` for each"))
}

/// All points in order, before any is excluded.
fn origins(layer: &Layer, most: usize) -> Result<Vec<Origin>> {
    let size = layer.walks().map(|group| group.len() as u128).try_fold(1u128, u128::checked_mul).unwrap_or(u128::MAX);
    let seeds = layer.seeds.as_ref().map(Group::len);
    let included = included(layer);
    let repeats = included.iter().map(|entry| if entry.sets(seed()) { 1 } else { seeds.unwrap_or(1) });
    let total = size.saturating_add(repeats.sum::<usize>() as u128);
    if total > most as u128 {
        let longest = layer.walks().max_by_key(|group| group.len()).and_then(|group| group.axes.first());
        let place = longest.map(|axis| axis.place.clone());
        let hint = match total <= MOST as u128 {
            true => "shorten an axis; where so many are meant, `exp plan` and `exp run` take them with `--yes`",
            false => "shorten an axis, or write several specs",
        };
        return Err(Fault::new(place, format!("the sweep has {total} points, and {most} are the most")).hint(hint));
    }
    let mut origins: Vec<_> = (0..size as usize).map(Origin::Grid).collect();
    for (entry, point) in included.iter().enumerate() {
        match seeds.filter(|_| !point.sets(seed())) {
            Some(seeds) => origins.extend((0..seeds).map(|seed| Origin::Included { entry, seed: Some(seed) })),
            None => origins.push(Origin::Included { entry, seed: None }),
        }
    }
    Ok(origins)
}

/// Takes the excluded points of the grid out and returns how many they were.
fn exclude(layer: &Layer, origins: &mut Vec<Origin>, points: &mut Vec<RunConfig>) -> Result<usize> {
    let Some((place, entries)) = &layer.exclude else { return Ok(0) };
    let in_grid = origins.iter().take_while(|origin| matches!(origin, Origin::Grid(_))).count();
    let mut keep = vec![true; points.len()];
    for entry in entries {
        let mut found = false;
        for (point, keep) in points[..in_grid].iter().zip(&mut keep) {
            if entry.which.holds(point) {
                (found, *keep) = (true, false);
            }
        }
        if !found && !entry.overridden {
            return Err(excludes_nothing(entry, &points[..in_grid]));
        }
    }
    let excluded = keep.iter().filter(|keep| !**keep).count();
    if excluded == points.len() {
        return Err(Fault::at(place, format!("`exclude` leaves no point of {excluded}")));
    }
    let mut kept = keep.iter();
    origins.retain(|_| kept.next() == Some(&true));
    let mut kept = keep.iter();
    points.retain(|_| kept.next() == Some(&true));
    Ok(excluded)
}

/// A point of `exclude` that matches nothing is a slip: a value misspelt, or an axis that has changed since.
fn excludes_nothing(entry: &Exclusion, points: &[RunConfig]) -> Box<Fault> {
    let hint = "it would exclude nothing: correct it or take it out";
    let Which::Values(settings) = &entry.which else {
        return Fault::at(&entry.place, "this holds for no point of the grid").hint(hint);
    };
    match settings.iter().find(|setting| !points.iter().any(|point| setting.holds(point))) {
        Some(setting) => {
            let why = format!("no point of the grid has `{}` {}", setting.leaf().path, told(&setting.value));
            Fault::at(&setting.place, why).hint(hint)
        }
        None => Fault::at(&entry.place, "no point of the grid has all of these values").hint(hint),
    }
}

/// A conflict, with carets at what set its leaves: an axis' value first, since that is what makes this point differ.
fn blame(conflict: &check::Conflict, config: &RunConfig, row: &Row, layer: &Layer) -> Box<Fault> {
    let fixed = plain(layer);
    let swept = |setting: &Setting| fixed[setting.leaf].is_none_or(|plain| !std::ptr::eq(plain, setting));
    let named = conflict.leaves.iter().filter_map(|path| set_by(row, leaf::lookup(path).ok()?));
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

/// What gives a leaf its value: its own setting, or that of the preset.
fn set_by<'a>(row: &Row<'a>, leaf: usize) -> Option<&'a Setting> {
    let preset = || leaf::lookup(leaf::PRESET).ok().and_then(|preset| row[preset]);
    let is_filled = leaf::all()[leaf].group() == "model";
    row[leaf].or_else(|| preset().filter(|setting| is_filled && !setting.value.is_null()))
}

/// A value as it stands in a sentence.
fn told(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The paths of what varies.
fn axes(layer: &Layer) -> Vec<String> {
    let walked = layer.groups.iter().flat_map(|group| &group.axes).map(|axis| axis.leaf);
    let named = included(layer).iter().flat_map(|entry| &entry.settings).map(|setting| setting.leaf);
    let seeds = layer.seeds.iter().flat_map(|group| &group.axes).map(|axis| axis.leaf);
    let last: Vec<usize> = seeds.collect();
    let mut order: Vec<usize> = Vec::new();
    for leaf in walked.chain(named) {
        if !order.contains(&leaf) && !last.contains(&leaf) {
            order.push(leaf);
        }
    }
    order.into_iter().chain(last).map(|leaf| leaf::all()[leaf].path.to_owned()).collect()
}

fn included(layer: &Layer) -> &[Entry] {
    layer.include.as_deref().unwrap_or(&[])
}

/// What is set for every point alike.
fn plain(layer: &Layer) -> Row<'_> {
    let mut row = vec![None; leaf::all().len()];
    for setting in &layer.settings {
        row[setting.leaf] = Some(setting);
    }
    row
}

/// What is set for one point.
fn row(layer: &Layer, origin: Origin) -> Row<'_> {
    let mut row = plain(layer);
    match origin {
        Origin::Grid(mut number) => {
            for group in layer.walks().rev() {
                let index = number % group.len();
                number /= group.len();
                group.lay(index, &mut row);
            }
        }
        Origin::Included { entry, seed } => {
            if let (Some(seeds), Some(index)) = (&layer.seeds, seed) {
                seeds.lay(index, &mut row);
            }
            for setting in &included(layer)[entry].settings {
                row[setting.leaf] = Some(setting);
            }
        }
    }
    row
}
