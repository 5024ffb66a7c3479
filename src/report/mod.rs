//! Reports: pictures and tables of an experiment, drawn from stored rows alone, so that a copied store gives the same
//! bytes anywhere. Knows nothing of training, models or scheduling.
//!
//! ```text
//! Store ─load─► Frame ─plots─► Figure ─layout, draw─► PNG or SVG; report.html
//!                     │              └─data─────────► CSV of what is drawn
//!                     └─summary, csv─────────────────► summary.md, summary.csv
//! ```

pub mod attention;
pub mod csv;
mod curves;
mod data;
mod decimate;
mod draw;
mod figure;
mod findings;
mod fit;
mod forest;
mod frame;
mod front;
mod html;
mod importance;
mod insights;
mod layout;
mod load;
mod markdown;
mod markup;
mod names;
mod numbers;
mod pace;
mod palette;
mod pen;
mod plots;
mod raster;
mod scale;
mod star;
mod summary;
mod svg;
mod text;
mod texts;
mod thin;
mod welch;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use figure::Figure;
use frame::Frame;

use crate::{
    base::{Error, Exit, Result, parallel::each},
    event::IMPORT,
    store::Store,
};

/// What pictures are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Strokes, for print and for pages.
    Svg,
}

impl Format {
    fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Svg => "svg",
        }
    }

    fn draw(self, figure: &Figure) -> Result<Vec<u8>> {
        match self {
            Self::Png => raster::png(figure),
            Self::Svg => Ok(svg::svg(figure).into_bytes()),
        }
    }
}

/// The files of the report on an experiment, or on several that are compared, by name, sorted, with pictures in these
/// formats, of which `summary.md` shows the first; the same bytes each time.
///
/// # Errors
/// [`Exit::Usage`] where the experiment is not known or none of its runs has logged anything; where the index cannot be
/// read.
pub fn build(store: &Store, experiments: &[&str], formats: &[Format]) -> Result<Files> {
    files(&load::frame(store, experiments)?, formats)
}

/// As [`build`], from a frame.
fn files(frame: &Frame, formats: &[Format]) -> Result<Files> {
    if !frame.runs.iter().any(frame::Run::has_data) {
        return Err(nothing(frame));
    }
    let plots = plots::all(frame);
    let shown = each(&plots, |plot| Some((plot.name().to_owned(), plot.figure(frame)?)));
    let figures: Vec<(String, Figure)> = shown.into_iter().flatten().collect();
    let sections = each(&figures, |(name, figure)| html::section(name, figure));
    let drawn =
        each(&figures, |(name, figure)| drawn(name, figure, formats)).into_iter().collect::<Result<Vec<_>>>()?;
    let ending = formats.first().map_or("png", |format| format.ending());
    let mut files = vec![
        ("report.html".to_owned(), html::page(frame, &figures, &sections).into_bytes()),
        ("summary.csv".to_owned(), csv::csv(frame).into_bytes()),
        ("summary.md".to_owned(), summary::page(frame, &figures, ending).into_bytes()),
    ];
    files.extend(drawn.into_iter().flatten());
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// Files by name.
type Files = Vec<(String, Vec<u8>)>;

/// The pictures and the data of a figure.
fn drawn(name: &str, figure: &Figure, formats: &[Format]) -> Result<Files> {
    let data = Ok((format!("{name}.csv"), data::csv(figure).into_bytes()));
    let pictures = formats.iter().map(|format| Ok((format!("{name}.{}", format.ending()), format.draw(figure)?)));
    std::iter::once(data).chain(pictures).collect()
}

/// Whether a file of an experiment's report is a manifest, or a picture or a table as reports had them before there were
/// manifests. What is neither that nor in the manifest is a person's own.
pub fn is_own(name: &str) -> bool {
    let is_picture = name.starts_with("loss_vs_")
        || ["ablation.", "learning_curves.", "throughput."].iter().any(|p| name.starts_with(p));
    ["summary.csv", "summary.md", "manifest.json"].contains(&name) || (is_picture && name.ends_with(".png"))
}

fn is_import(run: &frame::Run) -> bool {
    run.row.ready.as_ref().is_some_and(|ready| ready.engine == IMPORT)
}

/// Says that there is nothing to report, and why.
fn nothing(frame: &Frame) -> Error {
    let doing = format!("reporting on experiment {}", frame.experiment);
    let first_reason = frame.runs.iter().find_map(|r| Some((&r.name, r.row.state.why()?)));
    let error = |why: String| Error::new(Exit::Usage, doing, why);
    match first_reason {
        Some((run, why)) => error(format!("none of its runs has logged a loss; run {run} failed: {why}"))
            .hint(format!("`exp logs {run}` shows what it printed")),
        None if frame.runs.iter().any(is_import) => error("none of its runs has logged a loss".to_owned())
            .hint("imported weights have none: `run.init_from` in a spec fine-tunes them"),
        None => error("none of its runs has logged a loss yet".to_owned()).hint("`exp run` its spec first"),
    }
}
