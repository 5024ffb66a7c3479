//! `loss_vs_depth` and `loss_vs_<axis>`: the best validation loss over one axis, a line for each setting of the others.

use super::{
    super::{
        figure::{Axis, Figure, Panel, Scale},
        frame::Frame,
        numbers,
    },
    Plot, notes,
    over::{Over, share_range, title},
};

/// The best validation loss over one axis of a frame.
pub struct LossVs {
    axis: usize,
    name: String,
}

impl LossVs {
    /// Over the `axis`-th axis of `frame`.
    pub fn new(frame: &Frame, axis: usize) -> Self {
        let name = match frame.axes[axis].path.as_str() {
            "model.layers" => "depth",
            _ => &frame.axes[axis].name,
        };
        Self { axis, name: format!("loss_vs_{name}") }
    }
}

impl Plot for LossVs {
    fn name(&self) -> &str {
        &self.name
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let (tied, others): (Vec<usize>, Vec<usize>) =
            (0..frame.axes.len()).filter(|&a| a != self.axis).partition(|&a| frame.is_tied(a, self.axis));
        let value = |run: &_| frame.result(run).ok();
        let over = Over { frame, x: self.axis, others, value: &value, center: numbers::mean, mark_any: true };
        let y = Axis::new(format!("best validation loss ({})", frame.unit.words()), Scale::Linear);
        let mut chart = over.chart(&y);
        if chart.places < 2 {
            return None;
        }
        let cost = notes::own_cost(frame, &mut chart.panels);
        share_range(&mut chart.panels);
        let axis = &frame.axes[self.axis];
        let notes = vec![
            format!("{} {}", notes::experiment(frame), reading(&chart.panels, &chart.n, chart.pooled)),
            tied.iter()
                .map(|&a| format!("{} and {} change together.", axis.name, frame.axes[a].name))
                .collect::<Vec<_>>()
                .join(" "),
            cost,
            notes::left_out(frame),
            notes::no_room(chart.left_out),
        ];
        Some(Figure {
            title: format!("Best validation loss over {}", title(axis).0),
            rows: super::arrange(chart.panels),
            forest: None,
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}

/// How points, bands and dots are to be read.
fn reading(panels: &[Panel], n: &str, pooled: bool) -> String {
    if !pooled {
        return "One seed: each point is one run.".to_owned();
    }
    let words = panels.iter().any(|p| matches!(p.x.scale, Scale::Words(_)));
    let band = if words { "bar" } else { "band" };
    format!("Point: mean over seeds ({n}); {band}: lowest to highest seed; dots: single runs.")
}
