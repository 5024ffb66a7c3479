//! Reports over frames made by hand.

use std::path::PathBuf;

use super::{draw, frame::Frame, plots, sample::*};

/// Set to a folder to look at the pictures that these tests draw.
fn show(name: &str, file: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("EXP_REPORT_SAMPLES") {
        let folder = PathBuf::from(folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), bytes).unwrap();
    }
}

fn draw_all(name: &str, frame: &Frame) {
    for plot in plots::all(frame) {
        if let Some(figure) = plot.figure(frame) {
            show(name, &format!("{}.png", plot.name()), &draw::png(&figure).unwrap());
        }
    }
}

#[test]
fn samples() {
    draw_all("depths", &depths());
    draw_all("one", &grid("one", &[], 1, &[]));
}
