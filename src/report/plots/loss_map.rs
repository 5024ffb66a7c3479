//! `loss_map`: the best validation loss over two numeric settings that form a grid, learning rate and batch first, as a map
//! whose cells are written out.

use std::collections::BTreeMap;

use super::{
    super::{
        figure::{Axis, Cell, Figure, Fill, Panel, Scale},
        frame::{self, Frame, Run},
        names::setting,
        numbers,
        star::untied,
    },
    Plot, notes,
    over::title,
};

/// Maps that a picture can hold.
const MAX_MAPS: usize = 4;
/// Values of an axis that can be read.
const MAX_VALUES: usize = 16;

/// The loss over pairs of axes.
pub struct LossMap;

impl Plot for LossMap {
    fn name(&self) -> &str {
        "loss_map"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let pairs = pairs(frame);
        let maps: Vec<Vec<Place>> = pairs.iter().map(|&(x, y)| places(frame, x, y)).collect();
        let all: Vec<f64> =
            maps.iter().flatten().filter(|p| !p.losses.is_empty()).map(|p| numbers::mean(&p.losses)).collect();
        if all.len() < 4 {
            return None;
        }
        let (lo, hi) = numbers::extent(&all);
        // The lowest is the darkest: what is sought stands out.
        let share = |loss: f64| if hi > lo { (hi - loss) / (hi - lo) } else { 0.5 };
        let ramp = format!("validation loss from {} (light) to {} (dark)", numbers::loss(hi), numbers::loss(lo));
        let panels: Vec<Panel> = pairs
            .iter()
            .zip(&maps)
            .map(|(&(x, y), places)| {
                let mut panel = Panel::new(map_axis(&frame.axes[x]), map_axis(&frame.axes[y]));
                panel.ramp = Some(ramp.clone());
                panel.cells = places.iter().map(|place| cell(place, share)).collect();
                panel
            })
            .collect();
        let others = pairs.len() > 1 || pairs.iter().any(|&(x, y)| held(frame, x, y).next().is_some());
        let best = match others {
            true => " Of the other settings each cell has those with the lowest mean loss, which is written below it.",
            false => "",
        };
        let written = match frame.seeds() {
            1 => "One seed: each cell is one run.",
            _ => "Written: mean over seeds ± standard deviation, and the number of runs.",
        };
        let notes = [
            format!("{} {written}{best} Losses in {}.", notes::experiment(frame), frame.unit.words()),
            notes::left_out(frame).replace(" and marked ×", ""),
        ];
        Some(Figure {
            title: match pairs[..] {
                [(x, y)] => {
                    format!("Best validation loss over {} and {}", title(&frame.axes[x]).0, title(&frame.axes[y]).0)
                }
                _ => "Best validation loss over pairs of settings".to_owned(),
            },
            rows: super::arrange(panels),
            forest: None,
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}

/// The axis of a map: its values evenly apart.
pub fn map_axis(axis: &frame::Axis) -> Axis {
    let words = axis.values.iter().map(numbers::value).collect();
    let (name, unit) = title(axis);
    let label = unit.map_or_else(|| name.to_owned(), |unit| format!("{name} ({unit})"));
    Axis::new(label, Scale::Words(words))
}

/// The pairs of numeric axes, of which each value of one was tried with each of the other.
fn pairs(frame: &Frame) -> Vec<(usize, usize)> {
    let rank = |a: &usize| match frame.axes[*a].path.as_str() {
        "train.lr" => 0,
        "train.batch" => 1,
        _ => 2 + a,
    };
    let is_shown = |a: &usize| frame.axes[*a].numbers().is_some() && frame.axes[*a].values.len() <= MAX_VALUES;
    let mut axes: Vec<usize> = untied(frame).into_iter().filter(is_shown).collect();
    axes.sort_by_key(rank);
    let all = axes.iter().enumerate().flat_map(|(i, &x)| axes[i + 1..].iter().map(move |&y| (x, y)));
    let is_grid = |(x, y): &(usize, usize)| {
        frame.group(&[*x, *y]).len() == frame.axes[*x].values.len() * frame.axes[*y].values.len()
    };
    all.filter(is_grid).take(MAX_MAPS).collect()
}

/// The axes that a map does not show.
fn held(frame: &Frame, x: usize, y: usize) -> impl Iterator<Item = usize> {
    (0..frame.axes.len()).filter(move |&a| a != x && a != y && !frame.is_tied(a, x) && !frame.is_tied(a, y))
}

/// A cell's best setting.
struct Place {
    x: usize,
    y: usize,
    losses: Vec<f64>,
    /// The values of the other axes.
    with: String,
}

fn places(frame: &Frame, x: usize, y: usize) -> Vec<Place> {
    let others: Vec<usize> = held(frame, x, y).collect();
    let best = |(at, runs): (Vec<usize>, Vec<&Run>)| {
        let mut settings: BTreeMap<Vec<usize>, Vec<f64>> = BTreeMap::new();
        for run in runs {
            let key = others.iter().map(|&a| run.at[a]).collect();
            settings.entry(key).or_default().extend(frame.result(run).ok());
        }
        let found = settings.into_iter().filter(|(_, losses)| !losses.is_empty());
        let lowest = found.min_by(|a, b| numbers::mean(&a.1).total_cmp(&numbers::mean(&b.1)));
        let (key, losses) = lowest.unwrap_or_default();
        let with = others.iter().zip(&key).map(|(&a, &value)| setting(&frame.axes[a], value)).collect::<Vec<_>>();
        Place { x: at[0], y: at[1], losses, with: with.join(", ") }
    };
    frame.group(&[x, y]).into_iter().map(best).collect()
}

fn cell(place: &Place, share: impl Fn(f64) -> f64) -> Cell {
    let Place { x, y, losses, with } = place;
    let (fill, lines, value) = match losses.len() {
        0 => (Fill::Share(f64::NAN), vec!["no result".to_owned()], None),
        n => {
            let mean = numbers::mean(losses);
            let spread = numbers::deviation(losses).map(|d| format!("±{d:.*}, n={n}", numbers::places(d).min(4)));
            let digits = numbers::deviation(losses).map_or(4, numbers::places);
            let lines = [Some(format!("{mean:.digits$}")), spread, Some(with.clone()).filter(|w| !w.is_empty())];
            (Fill::Share(share(mean)), lines.into_iter().flatten().collect(), Some(mean))
        }
    };
    Cell { x: *x, y: *y, fill, lines, value }
}
