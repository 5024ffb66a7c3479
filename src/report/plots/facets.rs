//! At most eight lines a panel: more become panels by one of their axes, or panels of neighbours.

use std::collections::BTreeMap;

use super::super::{
    figure::MAX_LINES,
    frame::{Axis, Frame},
    numbers,
};

/// Panels that one picture can hold.
const MAX_PANELS: usize = 6;

/// What one panel shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Facet {
    /// What tells it from the others; empty where there is one alone.
    pub title: String,
    /// Its lines, by their index among all lines.
    pub lines: Vec<FacetLine>,
}

/// A line of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct FacetLine {
    /// Its index among all lines.
    pub line: usize,
    /// What tells it from the other lines of the panel.
    pub label: String,
    /// Its colour.
    pub color: usize,
}

/// Spreads lines over panels. `keys`: of each line its values of `axes`, as indices, in order. `worth`: the lower, the
/// sooner a line is shown where there are too many for one picture. Also answers how many were left out.
pub fn facets(frame: &Frame, axes: &[usize], keys: &[Vec<usize>], worth: &[f64]) -> (Vec<Facet>, usize) {
    let mut shown: Vec<usize> = (0..keys.len()).collect();
    if shown.len() > MAX_LINES * MAX_PANELS {
        shown.sort_by(|&a, &b| worth[a].total_cmp(&worth[b]));
        shown.truncate(MAX_LINES * MAX_PANELS);
        shown.sort_unstable();
    }
    let left_out = keys.len() - shown.len();
    let label = |line: usize, skip: Option<usize>| -> String {
        let parts = axes.iter().zip(&keys[line]).enumerate().filter(|(i, _)| Some(*i) != skip);
        parts.map(|(_, (&a, &v))| setting(&frame.axes[a], v)).collect::<Vec<_>>().join(", ")
    };
    if shown.len() > MAX_LINES
        && let Some(split) = best_split(keys, &shown)
    {
        return (by_axis(frame, axes, keys, &shown, split, label), left_out);
    }
    let panels = shown.len().div_ceil(MAX_LINES).max(1);
    let facets = (0..panels)
        .map(|p| &shown[p * shown.len() / panels..(p + 1) * shown.len() / panels])
        .map(|lines| Facet {
            title: String::new(),
            lines: lines
                .iter()
                .enumerate()
                .map(|(color, &line)| FacetLine { line, label: label(line, None), color })
                .collect(),
        })
        .collect();
    (facets, left_out)
}

/// The position in the keys of the axis that makes the fewest panels that hold their lines.
fn best_split(keys: &[Vec<usize>], shown: &[usize]) -> Option<usize> {
    let axes = keys.first().map_or(0, Vec::len);
    let fitting = (0..axes).filter_map(|i| {
        let mut lines: BTreeMap<usize, usize> = BTreeMap::new();
        shown.iter().for_each(|&line| *lines.entry(keys[line][i]).or_default() += 1);
        let fits = axes > 1 && lines.len() <= MAX_PANELS && lines.values().all(|&n| n <= MAX_LINES);
        fits.then_some((lines.len(), i))
    });
    fitting.min().map(|(_, i)| i)
}

/// One panel for each value of the axis at `split`; lines that differ in it alone have one colour.
fn by_axis(
    frame: &Frame,
    axes: &[usize],
    keys: &[Vec<usize>],
    shown: &[usize],
    split: usize,
    label: impl Fn(usize, Option<usize>) -> String,
) -> Vec<Facet> {
    let mut colors: Vec<String> = Vec::new();
    let mut panels: BTreeMap<usize, Vec<FacetLine>> = BTreeMap::new();
    for &line in shown {
        let label = label(line, Some(split));
        let color = colors.iter().position(|c| *c == label).unwrap_or_else(|| {
            colors.push(label.clone());
            colors.len() - 1
        });
        panels.entry(keys[line][split]).or_default().push(FacetLine { line, label, color });
    }
    let axis = &frame.axes[axes[split]];
    panels.into_iter().map(|(value, lines)| Facet { title: setting(axis, value), lines }).collect()
}

/// A value with its axis: `4 layers`, `lr 3e-4`.
pub fn setting(axis: &Axis, value: usize) -> String {
    let text = numbers::value(&axis.values[value]);
    match (axis.path.as_str(), text.as_str()) {
        ("model.layers", "1") => "1 layer".to_owned(),
        ("model.layers" | "model.heads" | "train.steps", _) => format!("{text} {}", axis.name),
        _ => format!("{} {text}", axis.name),
    }
}
