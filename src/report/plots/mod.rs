//! The plots: each turns a frame into a figure, or into nothing where the data does not support it. One file each; a new
//! one gets its line in [`all`].

mod ablation;
mod facets;
mod learning_curves;
mod loss_vs;
mod notes;
mod over;
mod throughput;

pub use over::title;

use super::{
    figure::{Figure, Panel},
    frame::Frame,
};

/// Turns stored rows into a picture.
pub trait Plot {
    /// The name of its file, without the extension.
    fn name(&self) -> &str;

    /// The figure; `None` where the frame has nothing to show in it.
    fn figure(&self, frame: &Frame) -> Option<Figure>;
}

/// Every plot that a report of this frame may have, in the order in which the report shows them.
pub fn all(frame: &Frame) -> Vec<Box<dyn Plot>> {
    let (curves, throughput) = (Box::new(learning_curves::LearningCurves), Box::new(throughput::Throughput));
    if frame.base.is_some() {
        // Each axis has but a point or two beside the base, so that one picture holds what one for each axis would.
        return vec![Box::new(ablation::Ablation), curves, throughput];
    }
    let depth = frame.axis("model.layers").map(|a| loss_vs::LossVs::new(frame, a));
    let others = (0..frame.axes.len()).filter(|&a| frame.axes[a].path != "model.layers");
    let first = depth.into_iter().map(|p| Box::new(p) as Box<dyn Plot>);
    first
        .chain([curves as Box<dyn Plot>, throughput])
        .chain(others.map(|a| Box::new(loss_vs::LossVs::new(frame, a)) as Box<dyn Plot>))
        .collect()
}

/// Rows of panels: two side by side, three where there are more than four.
fn arrange(panels: Vec<Panel>) -> Vec<Vec<Panel>> {
    let columns = if panels.len() > 4 { 3 } else { 2 };
    panels.chunks(columns).map(<[Panel]>::to_vec).collect()
}
