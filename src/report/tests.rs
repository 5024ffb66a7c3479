//! Reports over frames made by hand.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{files, frame::Frame, sample::*};
use crate::event::RunState;

/// Set to a folder to look at the pictures that these tests draw.
fn show(name: &str, file: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("EXP_REPORT_SAMPLES") {
        let folder = PathBuf::from(folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), bytes).unwrap();
    }
}

fn failed(why: &str) -> RunState {
    RunState::Failed { why: why.into() }
}

/// Frames of every shape that a report must survive, with a name each.
fn frames() -> Vec<(&'static str, Frame)> {
    let layers = ("model.layers", values(&[2, 4, 8]));
    let rates: Vec<Value> = (0..20).map(|i| json!(1e-4 * 10f64.powf(f64::from(i) / 9.5))).collect();
    let long: Vec<Value> =
        ["a", "b", "c"].iter().map(|end| json!(format!("/data/{}/{end}.txt", "x".repeat(90)))).collect();
    let mut frames = vec![
        ("depths", depths()),
        ("one", grid("one", &[], 1, &[])),
        ("one_seed", grid("one_seed", &[layers.clone()], 1, &[])),
        ("layers_lr", grid("layers_lr", &[layers.clone(), ("train.lr", values(&[3e-4, 1e-3, 3e-3]))], 3, &[])),
        (
            "three_axes",
            grid(
                "three_axes",
                &[layers.clone(), ("train.lr", values(&[3e-4, 1e-3, 3e-3])), ("train.batch", values(&[6, 12, 24]))],
                2,
                &[],
            ),
        ),
        ("twenty_lr", grid("twenty_lr", &[("train.lr", rates.clone())], 2, &[])),
        ("layers_twenty_lr", grid("layers_twenty_lr", &[layers.clone(), ("train.lr", rates)], 1, &[])),
        ("device", grid("device", &[layers.clone(), ("run.device", values(&["cpu", "cuda:0"]))], 2, &[])),
        ("bias", grid("bias", &[layers.clone(), ("model.bias", values(&[true, false]))], 3, &[])),
        ("dropout", grid("dropout", &[("model.dropout", values(&[0.0, 0.001, 0.01, 0.1]))], 3, &[])),
        (
            "long_values",
            grid(
                &"long_name_".repeat(10),
                &[layers.clone(), ("data.path", long)],
                2,
                &[("data.corpus", json!("text"))],
            ),
        ),
    ];
    frames.push(("broken", {
        let mut frame = grid("broken", &[layers.clone(), ("train.lr", values(&[1e-3, 3e-3, 1e-1]))], 3, &[]);
        for (i, run) in frame.runs.iter_mut().enumerate() {
            match i {
                1 => cut(run, 240, RunState::Running { slot: "cpu".into(), since: 0 }),
                4 => cut(run, 0, RunState::Queued),
                9..=11 => cut(run, 300, RunState::Interrupted { step: 300 }),
                _ if i % 9 > 5 => {
                    cut(run, 170, failed("the loss is nan at step 171"));
                    run.train
                        .iter_mut()
                        .filter(|p| p.step > 150)
                        .for_each(|p| p.value *= 1.0 + (p.step - 150) as f64 / 40.0);
                    run.train.last_mut().unwrap().value = f64::NAN;
                }
                _ => {}
            }
        }
        frame
    }));
    frames.push(("spike", {
        let base = [("train.steps", json!(10_000)), ("eval.every", json!(100))];
        let mut frame = grid("spike", &[], 1, &base);
        frame.runs[0].train[6_543].value = 3.9;
        frame
    }));
    frames
}

#[test]
fn samples() {
    for (name, frame) in frames() {
        for (file, bytes) in files(&frame).unwrap() {
            show(name, &file, &bytes);
        }
    }
}
