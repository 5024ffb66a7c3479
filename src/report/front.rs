//! What training compute buys: each setting's loss against the FLOPs that its training took, and the settings that no
//! other beats at less compute.

use super::{
    frame::{Frame, Setting},
    numbers::mean,
};

/// Settings whose compute differs by less than this share cost the same.
const SAME: f64 = 0.01;

/// A setting that is done.
pub struct Bought<'a> {
    /// Which.
    pub setting: Setting<'a>,
    /// The FLOPs that the training of one of its runs takes.
    pub flops: f64,
    /// The best validation loss of each of its runs.
    pub losses: Vec<f64>,
    /// Whether none has a lower mean loss at as little compute.
    pub on_front: bool,
}

/// All settings that are done, by their compute; empty where compute is not known, or is the same for all.
pub fn bought(frame: &Frame) -> Vec<Bought<'_>> {
    let one = |setting: Setting<'_>| -> Option<(Vec<f64>, f64)> {
        let done: Vec<_> = setting.runs.iter().filter_map(|run| Some((run, frame.result(run).ok()?))).collect();
        let flops = done.first()?.0.flops(done.first()?.0.row.config.train.steps)?;
        Some((done.iter().map(|d| d.1).collect(), flops))
    };
    let mut all: Vec<Bought> = frame
        .settings()
        .into_iter()
        .filter_map(|setting| {
            let (losses, flops) = one(setting.clone())?;
            Some(Bought { setting, flops, losses, on_front: false })
        })
        .collect();
    all.sort_by(|a, b| a.flops.total_cmp(&b.flops).then(mean(&a.losses).total_cmp(&mean(&b.losses))));
    let differs = all.first().zip(all.last()).is_some_and(|(a, b)| a.flops > 0.0 && b.flops > a.flops * (1.0 + SAME));
    if !differs {
        return Vec::new();
    }
    let mut lowest = f64::INFINITY;
    for bought in &mut all {
        bought.on_front = mean(&bought.losses) < lowest;
        lowest = lowest.min(mean(&bought.losses));
    }
    all
}
