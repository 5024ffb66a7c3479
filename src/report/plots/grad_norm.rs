//! `grad_norm`: the norm of all gradients over steps, before clipping, a line for each setting.

use super::{
    super::{
        curves::{Curves, Spread},
        figure::{Axis, Figure, Line, Reference, Scale},
        frame::Frame,
        numbers,
    },
    Plot, lines,
    over::share_range,
};

/// Norms this many times apart are drawn on a logarithmic scale.
const RATIO_FOR_LOG: f64 = 15.0;

/// The norm of gradients.
pub struct GradNorm;

fn of<'b>(curves: &'b Curves) -> &'b [Spread] {
    curves.grad_norm()
}

impl Plot for GradNorm {
    fn name(&self) -> &str {
        "grad_norm"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let curves = lines::with(frame, of);
        let all: Vec<f64> = curves.iter().flat_map(of).map(|s| s.mean).filter(|v| *v > 0.0 && v.is_finite()).collect();
        if all.is_empty() {
            return None;
        }
        let (lo, hi) = numbers::extent(&all);
        let y = match hi > RATIO_FOR_LOG * lo {
            true => Axis::new("gradient norm (log scale)", Scale::Log),
            false => Axis::new("gradient norm", Scale::Linear),
        };
        let (mut panels, no_room) = lines::panels(frame, &curves, of, &y, Line::Thin, |_, _, _| {});
        let mut clips: Vec<f64> = frame.runs.iter().map(|run| run.row.config.train.grad_clip).collect();
        clips.dedup();
        let note = match clips[..] {
            [0.0] => "Nothing is clipped.",
            [clip] if (0.5 * lo..2.0 * hi).contains(&clip) => {
                let level = Reference { label: format!("clipped to {}", numbers::number(clip)), y: clip };
                panels.iter_mut().for_each(|panel| panel.references.push(level.clone()));
                share_range(&mut panels);
                ""
            }
            [clip] => &format!("Gradients are clipped to {}, beyond the picture.", numbers::number(clip)),
            _ => "",
        };
        let notes =
            vec![format!("Before clipping, each step as it was: nothing is smoothed. {note}").trim().to_owned()];
        Some(lines::figure(frame, "Gradient norm over steps", panels, &curves, notes, no_room))
    }
}
