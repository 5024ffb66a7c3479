//! Which points a sweep has: where each comes from, what sets its leaves, and which of them `exclude` takes out.

use std::collections::HashSet;

use super::{
    RunConfig, blocks, derive,
    layer::{Exclusion, Group, Layer, MOST, Setting, put, seed},
    leaf,
    source::{Fault, Result},
    sweep::told,
    which::Which,
};

/// Where a point comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The grid: the number of the point in its order without blocks and seeds, which blocks hold for it (by bits), the
    /// number of the point among those that they make of it, and that of the seed.
    Grid { number: u32, blocks: u32, step: u32, seed: u32 },
    /// A point of `include`, repeated for each of `seeds` that it does not set itself.
    Included { entry: u32, seed: Option<u32> },
}

impl Origin {
    pub fn is_included(self) -> bool {
        matches!(self, Self::Included { .. })
    }
}

/// What sets each leaf of a point, by the leaf's index.
pub(super) type Row<'a> = Vec<Option<&'a Setting>>;

/// All points in order, before any is excluded.
pub(super) fn origins(layer: &Layer, most: usize) -> Result<Vec<Origin>> {
    let included = layer.included();
    let seeds = layer.seeds.as_ref().map(Group::len);
    let repeats = included.iter().map(|entry| if entry.sets(seed()) { 1 } else { seeds.unwrap_or(1) });
    let included_points = repeats.sum::<usize>() as u128;
    let product = |groups: &[Group]| {
        groups.iter().map(|group| group.len() as u128).try_fold(1u128, u128::checked_mul).unwrap_or(u128::MAX)
    };
    let (grid, per_point) = (product(&layer.groups), seeds.unwrap_or(1) as u128);
    bounded(layer, grid.saturating_mul(per_point).saturating_add(included_points), most)?;

    let holding = holding(layer, grid as usize)?;
    let made = |blocks: &u32| held(*blocks).map(|number| layer.blocks()[number].len()).product::<u128>();
    let total = holding.iter().map(made).fold(0u128, u128::saturating_add);
    bounded(layer, total.saturating_mul(per_point).saturating_add(included_points), most)?;

    let mut origins = Vec::new();
    for (number, &blocks) in (0u32..).zip(&holding) {
        for step in 0..made(&blocks) as u32 {
            origins.extend((0..per_point as u32).map(|seed| Origin::Grid { number, blocks, step, seed }));
        }
    }
    for (entry, point) in (0u32..).zip(included) {
        match seeds.filter(|_| !point.sets(seed())) {
            Some(seeds) => origins.extend((0..seeds as u32).map(|seed| Origin::Included { entry, seed: Some(seed) })),
            None => origins.push(Origin::Included { entry, seed: None }),
        }
    }
    Ok(origins)
}

fn bounded(layer: &Layer, total: u128, most: usize) -> Result<()> {
    if total <= most as u128 {
        return Ok(());
    }
    let longest = layer.axes().max_by_key(|axis| axis.values.len());
    let hint = match total <= MOST as u128 {
        true => "shorten an axis; where so many are meant, `exp plan` and `exp run` take them with `--yes`",
        false => "shorten an axis, or write several specs",
    };
    let place = longest.map(|axis| axis.place.clone());
    Err(Fault::new(place, format!("the sweep has {total} points, and {most} are the most")).hint(hint))
}

/// Which blocks hold for each of so many points of the grid.
fn holding(layer: &Layer, points: usize) -> Result<Vec<u32>> {
    if layer.blocks().is_empty() {
        return Ok(vec![0; points]);
    }
    for block in layer.blocks() {
        derive::refuse_derived(layer, &block.which.leaves(), &block.when)?;
    }
    let mut seen = HashSet::new();
    let hold = |number: usize| -> Result<u32> {
        let mut row = plain(layer);
        lay(layer, number, &mut row);
        let config = leaf::resolve(row.iter().flatten().map(|setting| (setting.leaf, &setting.value)));
        let blocks = layer.blocks().iter().enumerate().filter(|(_, block)| block.which.holds(&config));
        let blocks = blocks.fold(0u32, |bits, (number, _)| bits | 1 << number);
        if seen.insert(blocks) {
            blocks::refuse_both(layer, &held(blocks).collect::<Vec<_>>())?;
        }
        Ok(blocks)
    };
    let holding: Vec<u32> = (0..points).map(hold).collect::<Result<_>>()?;
    let any = holding.iter().fold(0, |any, blocks| any | blocks);
    let idle = layer.blocks().iter().enumerate().find(|(number, block)| any >> number & 1 == 0 && !block.overridden);
    match idle {
        Some((_, block)) => Err(Fault::at(&block.when, "this block holds for no point of the grid")
            .hint("it would change nothing: correct it or take it out")),
        None => Ok(holding),
    }
}

/// The numbers of the blocks whose bits are set.
fn held(blocks: u32) -> impl DoubleEndedIterator<Item = usize> {
    (0..blocks::MAX_BLOCKS).filter(move |number| blocks >> number & 1 == 1)
}

/// Sets what the grid has at a number, and returns the number of the sample among random ones.
fn lay<'a>(layer: &'a Layer, mut number: usize, row: &mut Row<'a>) -> usize {
    let samples = layer.groups.last().filter(|_| layer.is_sampled).map_or(1, Group::len);
    let sample = number % samples;
    for group in layer.groups.iter().rev() {
        group.lay(number % group.len(), row);
        number /= group.len();
    }
    sample
}

/// What is set for every point alike.
pub(super) fn plain(layer: &Layer) -> Row<'_> {
    let mut row = vec![None; leaf::COUNT];
    for setting in &layer.settings {
        row[setting.leaf] = Some(setting);
    }
    row
}

/// What is set for one point.
pub(super) fn row(layer: &Layer, origin: Origin) -> Row<'_> {
    let mut row = plain(layer);
    match origin {
        Origin::Grid { number, blocks, step, seed } => {
            let sample = lay(layer, number as usize, &mut row);
            let mut step = step as usize;
            for number in held(blocks).rev() {
                step = layer.blocks()[number].lay(step, sample, &mut row);
            }
            if let Some(seeds) = &layer.seeds {
                seeds.lay(seed as usize, &mut row);
            }
        }
        Origin::Included { entry, seed } => {
            if let (Some(seeds), Some(seed)) = (&layer.seeds, seed) {
                seeds.lay(seed as usize, &mut row);
            }
            layer.included()[entry as usize].settings.iter().for_each(|setting| put(&mut row, setting));
        }
    }
    row
}

/// Takes the excluded points of the grid out and returns how many they were.
pub(super) fn exclude(layer: &Layer, origins: &mut Vec<Origin>, points: &mut Vec<RunConfig>) -> Result<usize> {
    let Some((place, entries)) = &layer.exclude else { return Ok(0) };
    let in_grid = origins.iter().take_while(|origin| !origin.is_included()).count();
    let mut keep = vec![true; points.len()];
    for entry in entries {
        derive::refuse_unknown(layer, &entry.which.leaves(), &entry.place)?;
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
