//! Pictures that have but a curve a setting over steps: what all of them need, their panels, and how they are read.

use super::{
    super::{
        curves::{Curves, Spread},
        figure::{Axis, Figure, Ink, Line, Panel, Scale, Series},
        frame::Frame,
        names,
    },
    facets::{FacetLine, facets},
    notes,
    over::share_range,
};

/// The settings that have such a curve of at least two values.
pub fn with<'a>(frame: &'a Frame, of: for<'b> fn(&'b Curves<'a>) -> &'b [Spread]) -> Vec<Curves<'a>> {
    let all = frame.settings().into_iter().filter_map(|setting| Curves::of(frame, &setting));
    all.filter(|curves| of(curves).iter().filter(|s| s.mean.is_finite()).count() > 1).collect()
}

/// The panels, and how many settings found no room in them. `add`: what else belongs to a line.
pub fn panels<'a>(
    frame: &Frame,
    curves: &[Curves<'a>],
    of: for<'b> fn(&'b Curves<'a>) -> &'b [Spread],
    y: &Axis,
    line: Line,
    mut add: impl FnMut(&mut Panel, &FacetLine, &Curves<'a>),
) -> (Vec<Panel>, usize) {
    let keys: Vec<_> = curves.iter().map(|c| c.at.clone()).collect();
    let lowest = |c: &Curves| c.val().iter().map(|s| s.mean).fold(f64::INFINITY, f64::min);
    let worth: Vec<f64> = curves.iter().map(lowest).collect();
    let axes: Vec<usize> = (0..frame.axes.len()).collect();
    let (facets, no_room) = facets(frame, &axes, &keys, &worth);
    let mut panels = Vec::new();
    for facet in &facets {
        let mut panel = Panel::new(Axis::new("steps", Scale::Linear), y.clone());
        panel.title = facet.title.clone();
        for place in &facet.lines {
            let found = &curves[place.line];
            let mut series = Series::new(&place.label, Ink::Color(place.color), line, line == Line::Strong);
            series.points = of(found).iter().map(|s| (s.step as f64, s.mean)).collect();
            if found.runs.len() > 1 {
                series.band = of(found).iter().map(|s| (s.step as f64, s.lo, s.hi)).collect();
            }
            panel.series.push(series);
            add(&mut panel, place, found);
        }
        panels.push(panel);
    }
    share_range(&mut panels);
    let last = panels.iter().flat_map(|p| p.xs().collect::<Vec<_>>()).fold(0.0, f64::max);
    panels.iter_mut().for_each(|p| p.x.range = Some((0.0, last * 1.015)));
    (panels, no_room)
}

/// The figure of these panels.
pub fn figure(
    frame: &Frame,
    title: &str,
    panels: Vec<Panel>,
    curves: &[Curves],
    notes: Vec<String>,
    no_room: usize,
) -> Figure {
    let (least, most) = (curves.iter().map(|c| c.runs.len()).min(), curves.iter().map(|c| c.runs.len()).max());
    let reading = match (least.unwrap_or(1), most.unwrap_or(1)) {
        (_, 1) => "Each line is one run.".to_owned(),
        (a, b) if a == b => format!("Lines: means over seeds (n = {a}); band: lowest to highest seed."),
        (a, b) => format!("Lines: means over seeds (n = {a} to {b}); band: lowest to highest seed."),
    };
    let paused = match curves.iter().any(|c| c.paused) {
        true => "Where no run of a setting is done, its line ends where its runs pause.".to_owned(),
        false => String::new(),
    };
    let first = [format!("{} {reading}", notes::experiment(frame)), names::legend(frame), paused];
    let notes = first.into_iter().chain(notes).chain([notes::no_room(no_room)]).filter(|n| !n.is_empty());
    Figure { title: title.to_owned(), rows: super::arrange(panels), forest: None, notes: notes.collect() }
}
