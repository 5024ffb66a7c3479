//! `generalisation`: how far the validation loss lies above the training loss over steps, with the step at which the
//! validation loss was lowest.

use super::{
    super::{
        curves::{Curves, Spread},
        figure::{Axis, Figure, Ink, Line, Reference, Scale, Series},
        frame::Frame,
    },
    Plot, lines,
    over::share_range,
};

/// The generalisation gap.
pub struct Generalisation;

fn of<'b>(curves: &'b Curves) -> &'b [Spread] {
    curves.gap()
}

/// The gap where the mean validation loss is lowest.
pub fn at_best(curves: &Curves) -> Option<Spread> {
    let best = curves.val().iter().filter(|s| s.mean.is_finite()).min_by(|a, b| a.mean.total_cmp(&b.mean))?;
    curves.gap().iter().find(|s| s.step == best.step).copied()
}

impl Plot for Generalisation {
    fn name(&self) -> &str {
        "generalisation"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let curves = lines::with(frame, of);
        if curves.is_empty() {
            return None;
        }
        let y = Axis::new(format!("validation loss − training loss ({})", frame.unit.words()), Scale::Linear);
        let (mut panels, no_room) = lines::panels(frame, &curves, of, &y, Line::Thin, |panel, line, curves| {
            // Where runs pause, the lowest so far says nothing of overfitting.
            let Some(best) = at_best(curves).filter(|_| !curves.paused) else { return };
            let mut mark = Series::new("", Ink::Color(line.color), Line::None, true);
            mark.name = format!("{}, best validation loss", line.label).trim_start_matches(", ").to_owned();
            mark.points = vec![(best.step as f64, best.mean)];
            panel.series.push(mark);
        });
        for panel in &mut panels {
            panel.series.push(Series::new("step of the best validation loss", Ink::Neutral, Line::None, true));
            panel.references.push(Reference { label: "no gap".to_owned(), y: 0.0 });
        }
        share_range(&mut panels);
        let note = "Both losses are of windows that stay the same over training, each split's own. Marker: the step at \
                    which the mean validation loss is lowest; a gap that grows beyond it is overfitting.";
        Some(lines::figure(frame, "Generalisation gap over steps", panels, &curves, vec![note.to_owned()], no_room))
    }
}
