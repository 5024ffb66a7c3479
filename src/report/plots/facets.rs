//! At most eight lines a panel: more become panels by some of their axes, or panels of neighbours.

use std::collections::BTreeMap;

use super::super::{
    figure::MAX_LINES,
    frame::Frame,
    names::{self, setting},
};

/// Panels that one picture can hold where an axis tells them apart.
const MAX_PANELS: usize = 9;
/// Panels of neighbours, each with its own legend, that one picture can hold.
const MAX_CHUNKS: usize = 3;

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
    // Settings around a base have names of their own, and no axis along which to part them.
    let is_star = frame.base.is_some() && axes.len() == frame.axes.len();
    let is_split = shown.len() > MAX_LINES && !is_star;
    let split = if is_split { best_split(frame, axes, keys, &shown) } else { None };
    if split.is_none() && shown.len() > MAX_LINES * MAX_CHUNKS {
        shown.sort_by(|&a, &b| worth[a].total_cmp(&worth[b]));
        shown.truncate(MAX_LINES * MAX_CHUNKS);
        shown.sort_unstable();
    }
    let groups: Vec<Vec<usize>> = match &split {
        Some(split) => by_values(keys, &shown, split).into_values().collect(),
        None => chunks(&shown),
    };
    let words = |line: usize, of_title: bool| -> String {
        if is_star {
            return if of_title { String::new() } else { names::name(frame, &keys[line]) };
        }
        let is_title = |i: &usize| split.as_ref().is_some_and(|s| s.contains(i));
        let parts = (0..axes.len()).filter(|i| is_title(i) == of_title);
        parts.map(|i| setting(&frame.axes[axes[i]], keys[line][i])).collect::<Vec<_>>().join(", ")
    };
    let mut colors: Vec<String> = Vec::new(); // lines of different panels that have the same words have the same colour
    let mut color = |place: usize, label: &str| match &split {
        None => place,
        Some(_) => colors.iter().position(|c| c == label).unwrap_or_else(|| {
            colors.push(label.to_owned());
            colors.len() - 1
        }),
    };
    let facets = groups.iter().map(|lines| {
        let line = |(place, &line): (usize, &usize)| {
            let label = words(line, false);
            FacetLine { line, color: color(place, &label), label }
        };
        let title = lines.first().map(|&line| words(line, true)).unwrap_or_default();
        Facet { title, lines: lines.iter().enumerate().map(line).collect() }
    });
    (facets.collect(), keys.len() - shown.len())
}

/// Neighbours in groups of about one size.
fn chunks(shown: &[usize]) -> Vec<Vec<usize>> {
    let n = shown.len().div_ceil(MAX_LINES).max(1);
    (0..n).map(|i| shown[i * shown.len() / n..(i + 1) * shown.len() / n].to_vec()).collect()
}

/// Lines by their values at some positions of their keys.
fn by_values(keys: &[Vec<usize>], shown: &[usize], split: &[usize]) -> BTreeMap<Vec<usize>, Vec<usize>> {
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for &line in shown {
        groups.entry(split.iter().map(|&i| keys[line][i]).collect()).or_default().push(line);
    }
    groups
}

/// The positions of the axes that make the fewest panels that hold their lines; depth rather stays within a panel.
fn best_split(frame: &Frame, axes: &[usize], keys: &[Vec<usize>], shown: &[usize]) -> Option<Vec<usize>> {
    let all = 1u32 << axes.len().min(10);
    let subsets = (1..all - 1).map(|set| (0..axes.len()).filter(|i| set >> i & 1 == 1).collect::<Vec<usize>>());
    let fitting = subsets.filter_map(|split| {
        let groups = by_values(keys, shown, &split);
        let fits = groups.len() <= MAX_PANELS && groups.values().all(|lines| lines.len() <= MAX_LINES);
        let depth = split.iter().any(|&i| frame.axes[axes[i]].path == "model.layers");
        fits.then_some((groups.len(), depth, split))
    });
    fitting.min().map(|(_, _, split)| split)
}
