//! What settings are called: here alone, so that legends, sentences and tables agree. Around a base they are named by what
//! differs from it, elsewhere by all that varies.

use super::{
    frame::{Axis, EXPERIMENT, Frame, Run},
    numbers,
};

/// The name of the setting that others lie around.
pub const BASE: &str = "base";

/// Letters of a name that still reads at a glance.
const LONG: usize = 40;

/// What a setting is called, by its place on each axis: `8 layers, lr 1e-3`; around a base `base`, `norm rmsnorm`,
/// `all 5 changes`.
pub fn name(frame: &Frame, at: &[usize]) -> String {
    let full = in_full(frame, at);
    let changed = changed(frame, at);
    match &frame.base {
        Some(base) if base == at => BASE.to_owned(),
        Some(_) if changed.len() > 2 && full.chars().count() > LONG => shortened(frame, at, &changed),
        _ => full,
    }
}

/// Every value that [`name`] stands for, with its axis.
fn in_full(frame: &Frame, at: &[usize]) -> String {
    joined(frame, at, changed(frame, at))
}

/// The axes that a setting is named by.
fn changed(frame: &Frame, at: &[usize]) -> Vec<usize> {
    let differs = |a: &usize| frame.base.as_ref().is_none_or(|base| base[*a] != at[*a]);
    (0..frame.axes.len()).filter(differs).collect()
}

fn joined(frame: &Frame, at: &[usize], axes: impl IntoIterator<Item = usize>) -> String {
    axes.into_iter().map(|a| setting(&frame.axes[a], at[a])).collect::<Vec<_>>().join(", ")
}

/// Many changes in few words: that it is all of them where each axis has but one, else words without their axes, where
/// no other axis has them.
fn shortened(frame: &Frame, at: &[usize], changed: &[usize]) -> String {
    let n = changed.len();
    if n == frame.axes.len() && frame.axes.iter().all(|axis| axis.values.len() == 2) {
        return format!("all {n} changes");
    }
    let word = |&a: &usize| {
        let axis = &frame.axes[a];
        let value = &axis.values[at[a]];
        let is_shared = frame.axes.iter().filter(|other| other.values.contains(value)).count() > 1;
        if value.is_string() && !is_shared { numbers::value(value) } else { setting(axis, at[a]) }
    };
    format!("{n} changes: {}", changed.iter().map(word).collect::<Vec<_>>().join(", "))
}

/// `Base: norm layernorm, position learned; all 5 changes: …`: what the names rest on. Empty where there is no base.
pub fn legend(frame: &Frame) -> String {
    let Some(base) = &frame.base else { return String::new() };
    let mut parts = vec![format!("Base: {}", joined(frame, base, 0..frame.axes.len()))];
    for setting in frame.settings() {
        let name = name(frame, &setting.at);
        if name.starts_with("all ") {
            parts.push(format!("{name}: {}", in_full(frame, &setting.at)));
        }
    }
    format!("{}.", parts.join("; "))
}

/// What a run is called by its settings: `2 layers, lr 3e-4, seed 1`.
pub fn place(frame: &Frame, run: &Run) -> String {
    let seed = (frame.seeds() > 1).then(|| format!("seed {}", run.row.config.train.seed));
    let parts = [Some(name(frame, &run.at)).filter(|n| !n.is_empty()), seed];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A value with its axis: `4 layers`, `lr 3e-4`.
pub fn setting(axis: &Axis, value: usize) -> String {
    let text = numbers::value(&axis.values[value]);
    if axis.path == EXPERIMENT {
        return text;
    }
    match (axis.path.as_str(), text.as_str()) {
        ("model.layers", "1") => "1 layer".to_owned(),
        ("model.layers" | "model.heads" | "train.steps", _) => format!("{text} {}", axis.name),
        _ => format!("{} {text}", axis.name),
    }
}
