//! The plots: each turns a frame into a figure, or into nothing where the data does not support it. One file each; a new
//! one gets its line in [`all`].

mod ablation;
mod compute;
mod facets;
mod failures;
pub mod generalisation;
mod grad_norm;
mod importance;
mod learning_curves;
mod lines;
mod loss_map;
mod loss_vs;
mod notes;
mod over;
mod reach;
mod step_time;
mod throughput;

pub use failures::End;
pub use over::title;
pub use step_time::unit;

use super::{
    figure::{Figure, Panel},
    frame::Frame,
};

/// Turns stored rows into a picture.
pub trait Plot: Sync {
    /// The name of its file, without the extension.
    fn name(&self) -> &str;

    /// The figure; `None` where the frame has nothing to show in it.
    fn figure(&self, frame: &Frame) -> Option<Figure>;
}

/// Every plot that a report of this frame may have, in the order in which the report shows them.
pub fn all(frame: &Frame) -> Vec<Box<dyn Plot>> {
    let mut all: Vec<Box<dyn Plot>> = Vec::new();
    if frame.base.is_some() {
        // Each axis has but a point or two beside the base, so that one picture holds what one for each axis would.
        all.push(Box::new(ablation::Ablation));
    }
    let loss_vs = |axis: usize| Box::new(loss_vs::LossVs::new(frame, axis)) as Box<dyn Plot>;
    let axes = || (0..frame.axes.len()).filter(|_| frame.base.is_none());
    let is_depth = |a: &usize| frame.axes[*a].path == "model.layers";
    all.extend(axes().filter(is_depth).map(loss_vs));
    all.push(Box::new(learning_curves::LearningCurves::Time));
    all.push(Box::new(throughput::Throughput));
    all.push(Box::new(step_time::StepTime));
    all.extend(axes().filter(|a| !is_depth(a)).map(loss_vs));
    all.push(Box::new(loss_map::LossMap));
    all.push(Box::new(importance::ImportancePlot));
    all.push(Box::new(compute::Compute));
    all.push(Box::new(learning_curves::LearningCurves::Compute));
    all.push(Box::new(generalisation::Generalisation));
    all.push(Box::new(grad_norm::GradNorm));
    all.push(Box::new(failures::Failures));
    all
}

/// Rows of panels: two side by side, three where there are more than four.
fn arrange(panels: Vec<Panel>) -> Vec<Vec<Panel>> {
    let columns = if panels.len() > 4 { 3 } else { 2 };
    panels.chunks(columns).map(<[Panel]>::to_vec).collect()
}
