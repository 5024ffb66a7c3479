//! Reports over frames made by hand.

mod drawn;
mod figures;
mod page;
pub(super) mod pictures;
mod star;
mod sweeps;
mod throughput;

use serde_json::{Value, json};

use super::{
    Format,
    figure::{Figure, Forest, Panel, Series},
    frame::Frame,
    numbers, plots,
    sample::*,
};
use crate::{event::RunState, spec::config::Optimizer};

const PNG: &[Format] = &[Format::Png];

/// Frames of every shape that a report must survive, with a name each.
fn frames() -> Vec<(&'static str, Frame)> {
    let layers = || ("model.layers", values(&[2, 4, 8]));
    let rates = || ("train.lr", values(&[3e-4, 1e-3, 3e-3]));
    let twenty = || ("train.lr", (0..20).map(|i| json!(1e-4 * 10f64.powf(f64::from(i) / 9.5))).collect::<Vec<Value>>());
    let path = |end: &&str| json!(format!("/data/{}/{end}.txt", "x".repeat(90)));
    let paths = || ("data.path", ["a", "b", "c"].iter().map(path).collect::<Vec<Value>>());
    let long_name = "long_name_".repeat(10);
    vec![
        ("depths", depths()),
        ("one", grid("one", &[], 1, &[])),
        ("one_seed", grid("one_seed", &[layers()], 1, &[])),
        ("layers_lr", grid("layers_lr", &[layers(), rates()], 3, &[])),
        ("three_axes", grid("three_axes", &[layers(), rates(), ("train.batch", values(&[6, 12, 24]))], 2, &[])),
        ("map", grid("map", &[rates(), ("train.batch", values(&[6, 12, 24]))], 3, &[])),
        ("twenty_lr", grid("twenty_lr", &[twenty()], 2, &[])),
        ("layers_twenty_lr", grid("layers_twenty_lr", &[layers(), twenty()], 1, &[])),
        ("device", grid("device", &[layers(), ("run.device", values(&["cpu", "cuda:0"]))], 2, &[])),
        ("bias", grid("bias", &[layers(), ("model.bias", values(&[true, false]))], 3, &[])),
        ("optimizers", optimizers()),
        ("dropout", grid("dropout", &[("model.dropout", values(&[0.0, 0.001, 0.01, 0.1]))], 3, &[])),
        ("long_values", grid(&long_name, &[layers(), paths()], 2, &[("data.corpus", json!("text"))])),
        ("broken", broken()),
        ("unfinished", edited(depths(), |i, run| cut(run, 40 * i as u64, RunState::Interrupted { step: 0 }))),
        ("spike", spike()),
        ("zip", zip()),
        ("star", star::found()),
        ("star_one_seed", star(1)),
        (
            "star_of_two",
            around("two", vec![vec![], vec![("model.bias", json!(false))], vec![("train.lr", json!(3e-3))]], 2),
        ),
        ("star_of_many", star_of_many()),
        ("no_steps", grid("no_steps", &[layers()], 2, &[("train.steps", json!(0))])),
    ]
}

/// Some runs failed, some have not finished, some have not started.
fn broken() -> Frame {
    let axes = [("model.layers", values(&[2, 4, 8])), ("train.lr", values(&[1e-3, 3e-3, 1e-1]))];
    edited(grid("broken", &axes, 3, &[]), |i, run| match i {
        1 => cut(run, 240, RunState::Running { slot: "cpu".into(), since: 0 }),
        4 => cut(run, 0, RunState::Queued),
        9..=11 => cut(run, 300, RunState::Interrupted { step: 300 }),
        _ if i % 9 > 5 => {
            cut(run, 170, failed("the loss is nan at step 171"));
            let late = run.train.iter_mut().filter(|p| p.step > 150);
            late.for_each(|p| p.value *= 1.0 + (p.step - 150) as f64 / 40.0);
            run.train.last_mut().unwrap().value = f64::NAN;
        }
        _ => {}
    })
}

/// A long run with one step that stands out.
fn spike() -> Frame {
    spike_at(6_553)
}

fn spike_at(step: usize) -> Frame {
    let base = [("train.steps", json!(10_000)), ("eval.every", json!(100))];
    edited(grid("spike", &[], 1, &base), |_, run| run.train[step].value = 3.9)
}

/// Two axes that are walked together.
fn zip() -> Frame {
    let point = |(layers, width, seed): (u32, u32, u32)| {
        run(&[("model.layers", json!(layers)), ("model.d_model", json!(width)), ("train.seed", json!(seed))])
    };
    let points = [(2, 64, 1), (2, 64, 2), (4, 128, 1), (4, 128, 2), (8, 256, 1), (8, 256, 2)];
    let swept = ["model.layers".to_owned(), "model.d_model".to_owned()];
    Frame::new("zip", &swept, points.into_iter().map(point).collect())
}

/// Axes of words; a step of Muon takes twice as long.
fn optimizers() -> Frame {
    let positions = ("model.position", values(&["learned", "rope", "sinusoidal", "none"]));
    let axes = [positions, ("train.optimizer", values(&["adamw", "muon"]))];
    edited(grid("optimizers", &axes, 2, &[]), |_, run| {
        if run.row.config.train.optimizer == Optimizer::Muon {
            run.step_ms.iter_mut().for_each(|p| p.value *= 2.0);
        }
    })
}

/// The figure of one plot.
fn figure(frame: &Frame, name: &str) -> Figure {
    let all = plots::all(frame);
    all.iter().find(|p| p.name() == name).unwrap().figure(frame).unwrap()
}

/// Every figure of a frame by name.
fn figures(frame: &Frame) -> Vec<(String, Figure)> {
    plots::all(frame).iter().filter_map(|p| Some((p.name().to_owned(), p.figure(frame)?))).collect()
}

fn panels(figure: &Figure) -> Vec<&Panel> {
    figure.rows.iter().flatten().collect()
}

fn series<'a>(panel: &'a Panel, label: &str) -> &'a Series {
    panel.series.iter().find(|s| s.label == label).unwrap_or_else(|| panic!("no series {label:?}"))
}

/// A base and what differs from it: each switch alone, then all of them; `seeds` each.
fn star(seeds: u64) -> Frame {
    let switches = [
        ("model.norm", json!("rmsnorm")),
        ("model.position", json!("rope")),
        ("model.mlp", json!("swiglu")),
        ("model.kv_heads", json!(2)),
        ("model.bias", json!(false)),
    ];
    let points = [vec![]].into_iter().chain(switches.iter().map(|s| vec![s.clone()])).chain([switches.to_vec()]);
    around("star", points.collect(), seeds)
}

/// Points that each set some leaves of a base.
fn around(name: &str, points: Vec<Vec<(&str, Value)>>, seeds: u64) -> Frame {
    let base = ("model.kv_heads", json!(4));
    let point = |p: &Vec<(&str, Value)>, seed: u64| {
        let leaves = [vec![base.clone()], p.clone(), vec![("train.seed", json!(seed))]].concat();
        run(&leaves)
    };
    let runs = points.iter().flat_map(|p| (1..=seeds).map(move |s| point(p, s))).collect();
    let mut swept: Vec<String> = points.concat().iter().map(|(path, _)| (*path).to_owned()).collect();
    let mut seen = Vec::new();
    swept.retain(|path| {
        !seen.contains(path) && {
            seen.push(path.clone());
            true
        }
    });
    Frame::new(name, &swept, runs)
}

/// More settings than one picture holds, one of them with a long name.
fn star_of_many() -> Frame {
    let path = json!(format!("/data/{}/corpus.txt", "x".repeat(90)));
    let rates = (0..24).map(|i| vec![("train.lr", json!(1.1e-4 * f64::from(i + 1)))]);
    let others = [vec![("model.bias", json!(false))], vec![("data.path", path)], vec![]];
    around("many", rates.chain(others).collect(), 2)
}

/// The forest of a figure.
fn forest(figure: &Figure) -> &Forest {
    figure.forest.as_ref().expect("no forest")
}
