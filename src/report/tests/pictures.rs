//! Pictures: where things stand, and what the bytes hold.

use std::path::PathBuf;

use super::{
    super::{
        files,
        layout::{Layout, layout},
        pen::{Align, Label},
        raster,
    },
    *,
};

/// The box (left, top, right, bottom) that a label fills, from the capitals' height to the descenders.
pub fn bounds(label: &Label) -> (f64, f64, f64, f64) {
    let w = label.width();
    let start = match label.align {
        Align::Start => 0.0,
        Align::Middle => -w / 2.0,
        Align::End => -w,
    };
    let (up, down) = (label.size * 0.76, label.size * 0.24);
    let (x, y) = label.spot;
    if label.upward {
        (x - up, y - start - w, x + down, y - start)
    } else {
        (x + start, y - up, x + start + w, y + down)
    }
}

pub fn overlap(a: (f64, f64, f64, f64), b: (f64, f64, f64, f64)) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

fn check(plan: &Layout, name: &str) {
    let boxes: Vec<_> = plan.labels.iter().map(|l| (bounds(l), &l.text)).collect();
    for (i, (a, text)) in boxes.iter().enumerate() {
        let inside = a.0 >= 0.0 && a.1 >= 0.0 && a.2 <= plan.size.0 && a.3 <= plan.size.1;
        assert!(inside, "{name}: {text:?} is cut off: {a:?} in {:?}", plan.size);
        for (b, other) in &boxes[i + 1..] {
            assert!(!overlap(*a, *b), "{name}: {text:?} and {other:?} overlap");
        }
        let fields = plan.panels.iter().map(|p| p.field).chain(plan.forest.iter().map(|f| f.field));
        for field in fields {
            assert!(!overlap(*a, field), "{name}: {text:?} covers data");
        }
    }
    if let Some(forest) = &plan.forest {
        let (left, top, right, bottom) = forest.field;
        assert!(right - left > 350.0 && bottom - top > 150.0, "{name}: the field is too small");
    }
    for (i, a) in plan.panels.iter().enumerate() {
        assert!(a.field.2 - a.field.0 > 250.0 && a.field.3 - a.field.1 > 250.0, "{name}: a panel is too small");
        assert!(plan.panels[i + 1..].iter().all(|b| !overlap(a.field, b.field)), "{name}: panels overlap");
    }
}

#[test]
fn no_label_is_cut_off_covers_data_or_another_label() {
    for (name, frame) in frames() {
        for (file, figure) in figures(&frame) {
            check(&layout(&figure), &format!("{name}/{file}"));
        }
    }
}

/// Width, height and pixels.
pub fn decoded(bytes: &[u8]) -> (usize, usize, Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width as usize, info.height as usize, pixels.as_chunks::<3>().0.to_vec())
}

#[test]
fn every_report_draws_and_none_of_its_pictures_is_blank() {
    for (name, frame) in frames() {
        for (file, bytes) in files(&frame, PNG).unwrap() {
            show(name, &file, &bytes);
            if !file.ends_with(".png") {
                continue;
            }
            let (width, height, pixels) = decoded(&bytes);
            assert!(width == 1600 && (480..4000).contains(&height), "{name}/{file}: {width} x {height}");
            assert_eq!(pixels.len(), width * height);
            let is_colored = |p: &&[u8; 3]| p.iter().max().unwrap() - p.iter().min().unwrap() > 60;
            let colored = pixels.iter().filter(is_colored).count();
            let dark = pixels.iter().filter(|p| p.iter().all(|&c| c < 100)).count();
            // Where seeds make every difference, a forest is grey.
            let is_grey = file == "ablation.png" && name != "star";
            assert!((colored > 300 || is_grey) && dark > 2000, "{name}/{file}: {colored} coloured, {dark} dark pixels");
        }
    }
}

/// Writes a file below the folder that `EXP_REPORT_SAMPLES` names, where it is set: to look at what is drawn here.
pub fn show(name: &str, file: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("EXP_REPORT_SAMPLES") {
        let folder = PathBuf::from(folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), bytes).unwrap();
    }
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    assert!(files(&broken(), PNG).unwrap() == files(&broken(), PNG).unwrap());
}

#[test]
fn a_spike_of_one_step_in_ten_thousand_is_seen() {
    let picture = |frame: &Frame| decoded(&raster::png(&figure(frame, "learning_curves")).unwrap());
    let (with, without) = (picture(&spike()), picture(&spike_at(3_007)));
    assert_eq!((with.0, with.1), (without.0, without.1));
    let differs = with.2.iter().zip(&without.2).enumerate().filter(|(_, (a, b))| a != b);
    let rows: std::collections::BTreeSet<usize> = differs.map(|(i, _)| i / with.0).collect();
    assert!(rows.len() > 250, "the spike is {} pixels high", rows.len());
}
