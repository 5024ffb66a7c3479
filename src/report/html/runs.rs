//! The table of all runs: each value with all its digits for sorting, and as people read it.

use std::fmt::Write as _;

use super::super::{
    frame::{Frame, Run},
    markup::escaped,
    numbers,
};

/// One row a run, in the order of the grid.
pub fn table(frame: &Frame) -> String {
    let has_seeds = frame.seeds() > 1;
    let mut heads: Vec<String> = vec!["run".into()];
    heads.extend(frame.axes.iter().map(|axis| axis.name.clone()));
    heads.extend(has_seeds.then(|| "seed".into()));
    let unit = frame.unit.words();
    heads.extend(["state", "step"].map(str::to_owned));
    heads.push(format!("best val loss ({unit})"));
    heads.extend(["at step", "last val loss", "parameters", "tokens/s", "ms/step", "attempts"].map(str::to_owned));
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
    let rows: String = frame.runs.iter().map(|run| row(frame, run, has_seeds)).collect();
    format!("<div class=\"scroll\"><table><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n")
}

fn row(frame: &Frame, run: &Run, has_seeds: bool) -> String {
    let r = &run.row;
    let mut out = format!("<tr><td><code title=\"{}\">{}</code></td>", r.id, escaped(&run.name));
    for (axis, &at) in frame.axes.iter().zip(&run.at) {
        let value = &axis.values[at];
        cell(&mut out, value.as_f64(), &numbers::value(value));
    }
    if has_seeds {
        cell(&mut out, Some(r.config.train.seed as f64), &r.config.train.seed.to_string());
    }
    let why = r.state.why().map_or_else(String::new, |why| format!(" title=\"{}\"", escaped(why)));
    let _ = write!(out, "<td{why}>{}</td>", r.state.word());
    let mut put = |x: Option<f64>, say: fn(f64) -> String| cell(&mut out, x, &x.map_or_else(|| "–".to_owned(), say));
    put(Some(r.step as f64), numbers::number);
    put(r.best.map(|b| frame.loss(run, b.1)), numbers::loss);
    put(r.best.map(|b| b.0 as f64), numbers::number);
    put(r.last_val_loss.map(|loss| frame.loss(run, loss)), numbers::loss);
    put(r.ready.as_ref().map(|ready| ready.params as f64), |n| numbers::count(n as u64));
    put(run.tokens_per_second(), numbers::rounded);
    put(run.step_time, numbers::rounded);
    put(Some(f64::from(r.attempts)), numbers::number);
    out + "</tr>\n"
}

/// A cell. `x`: what it is sorted by, where it is a number.
fn cell(out: &mut String, x: Option<f64>, text: &str) {
    let by = x.filter(|x| x.is_finite()).map_or_else(String::new, |x| format!(" data-by=\"{x}\""));
    let _ = write!(out, "<td{by}>{}</td>", escaped(text));
}
