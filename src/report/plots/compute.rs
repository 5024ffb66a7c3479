//! `loss_vs_compute`: the loss of each setting against the FLOPs that it was trained with, on the way and in the end, and
//! the Pareto front: the settings that none beats with less.

use super::{
    super::{
        curves::Curves,
        figure::{Axis, Figure, Ink, Line, MAX_LINES, Panel, Scale, Series},
        frame::Frame,
        front::{Bought, bought},
        names, numbers,
    },
    Plot, notes,
    reach::Reach,
};

/// Settings of the front that a note names.
const MAX_NAMED: usize = 6;

/// Loss over compute.
pub struct Compute;

impl Plot for Compute {
    fn name(&self) -> &str {
        "loss_vs_compute"
    }

    fn figure(&self, frame: &Frame) -> Option<Figure> {
        let all = bought(frame);
        if all.len() < 2 {
            return None;
        }
        let unit = frame.unit.words();
        let x = Axis::new("training compute (FLOPs, log scale)", Scale::Log);
        let mut panel = Panel::new(x, Axis::new(format!("validation loss ({unit})"), Scale::Linear));
        let has_lines = all.len() <= MAX_LINES;
        if has_lines {
            all.iter().enumerate().for_each(|(i, b)| way(frame, &mut panel, b, i));
        } else {
            let mut ends = Series::new(format!("the {} settings", all.len()), Ink::Color(0), Line::None, true);
            all.iter().for_each(|b| end(&mut ends, b));
            ends.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            panel.series.push(ends);
        }
        let mut front = Series::new("Pareto front", Ink::Neutral, Line::Strong, false);
        let kept: Vec<&Bought> = all.iter().filter(|b| b.on_front).collect();
        front.points = kept.iter().map(|b| (b.flops, numbers::mean(&b.losses))).collect();
        panel.series.push(front);
        let cost = notes::own_cost(frame, std::slice::from_mut(&mut panel));
        let n: Vec<f64> = all.iter().map(|b| b.losses.len() as f64).collect();
        let reading = match numbers::extent(&n) {
            (_, 1.0) => "Marker: the best validation loss of a run".to_owned(),
            (lo, hi) if lo == hi => {
                format!("Marker: mean best validation loss over seeds (n = {lo}); dots and whisker: single runs")
            }
            (lo, hi) => format!(
                "Marker: mean best validation loss over seeds (n = {lo} to {hi}); dots and whisker: single runs"
            ),
        };
        let way = match has_lines {
            true => {
                ", at the compute of the whole training. Line: evaluations on the way, whose loss is above that of a \
                     training planned to end there, where the learning rate had still to fall."
            }
            false => ", at the compute of the whole training.",
        };
        let named: Vec<String> = kept.iter().take(MAX_NAMED).map(|b| names::name(frame, &b.setting.at)).collect();
        let more = if kept.len() > MAX_NAMED { format!(" and {} more", kept.len() - MAX_NAMED) } else { String::new() };
        let notes = [
            format!("{} {reading}{way}", notes::experiment(frame)),
            format!("On the front, which no other setting beats at as little compute: {}{more}.", named.join("; ")),
            Reach::FLOPS.to_owned(),
            names::legend(frame),
            cost,
            notes::left_out(frame).replace(" and marked ×", ""),
        ];
        Some(Figure {
            title: "Validation loss over training compute".into(),
            rows: vec![vec![panel]],
            forest: None,
            notes: notes.into_iter().filter(|n| !n.is_empty()).collect(),
        })
    }
}

/// A setting's evaluations on the way, and its end.
fn way(frame: &Frame, panel: &mut Panel, bought: &Bought, color: usize) {
    let name = names::name(frame, &bought.setting.at);
    if let Some(curves) = Curves::of(frame, &bought.setting) {
        let mut series = Series::new("", Ink::Color(color), Line::Thin, false);
        series.name = format!("{name}, on the way");
        let spent = |step: u64| curves.runs[0].flops(step);
        let points = curves.val().iter().filter(|s| s.step > 0);
        series.points = points.filter_map(|s| Some((spent(s.step)?, s.mean))).collect();
        panel.series.push(series);
    }
    let mut last = Series::new(name, Ink::Color(color), Line::None, true);
    end(&mut last, bought);
    panel.series.push(last);
}

/// Adds the end of a setting's training.
fn end(series: &mut Series, bought: &Bought) {
    series.points.push((bought.flops, numbers::mean(&bought.losses)));
    if bought.losses.len() > 1 {
        let (lo, hi) = numbers::extent(&bought.losses);
        series.band.push((bought.flops, lo, hi));
        series.dots.extend(bought.losses.iter().map(|&loss| (bought.flops, loss)));
    }
}
