//! `importance`: which setting the loss depends on most, one row each.

use super::{
    super::{
        figure::{Axis, Category, Figure, Forest, Ink, Scale},
        frame::Frame,
        importance::{Importance, importance},
        numbers,
    },
    Plot, notes,
    over::title,
};

/// The importance of each axis.
pub struct ImportancePlot;

impl Plot for ImportancePlot {
    fn name(&self) -> &str {
        "importance"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        if frame.base.is_some() {
            return None; // the ablation tells what each change does
        }
        let Importance { effects, together, seeds, settings } = importance(frame)?;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let row = |label: String, share: f64, ink: Ink, range: String| Category {
            label,
            ink,
            center: 100.0 * share,
            bar: Some((0.0, 100.0 * share)),
            dots: Vec::new(),
            cells: vec![percent(share), range],
            is_head: false,
        };
        let name = |axis: usize| {
            let tied = (0..frame.axes.len()).filter(|&a| a != axis && frame.is_tied(a, axis) && frame.is_tied(axis, a));
            let tied: String = tied.map(|a| format!(" with {}", frame.axes[a].name)).collect();
            format!("{}{tied}", title(&frame.axes[axis]).0)
        };
        let mut rows: Vec<Category> = effects
            .iter()
            .map(|e| {
                row(
                    name(e.axis),
                    e.share,
                    Ink::Color(0),
                    format!("{} to {}", numbers::loss(e.means.0), numbers::loss(e.means.1)),
                )
            })
            .collect();
        if let Some(share) = together {
            rows.push(row("together beyond that".into(), share, Ink::Neutral, String::new()));
        }
        let forest = Forest {
            x: Axis { range: Some((0.0, 102.0)), ..Axis::new("share of the variance of the loss (%)", Scale::Linear) },
            level: None,
            columns: vec!["share".into(), "mean loss at its values".into()],
            rows,
            legend: Vec::new(),
        };
        let method = match together {
            Some(_) => format!(
                "Main effects of a full factorial (ANOVA over the {settings} settings' mean losses): the share of the \
                 variance that lies between the means at an axis's values; the rest is what axes do together."
            ),
            None => format!(
                "The {settings} settings with a result are no full grid, so that axes share what they explain and shares \
                 need not add up: each is the variance between the means at an axis's values, over the whole (ANOVA, one \
                 axis at a time)."
            ),
        };
        let noise = seeds.map_or_else(
            || "One seed: chance is part of every share.".to_owned(),
            |share| format!("Of the variance between single runs, seeds make {}.", percent(share)),
        );
        let notes = [
            format!("{} {method}", notes::experiment(frame)),
            noise,
            notes::left_out(frame).replace(" and marked ×", ""),
        ];
        Some(Figure {
            title: "How much of the loss's variance each setting makes".into(),
            rows: Vec::new(),
            forest: Some(forest),
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}
