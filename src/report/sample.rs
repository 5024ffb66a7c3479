//! Frames made by hand, for tests: runs whose curves follow a formula with a little seeded noise.

use serde_json::Value;

use super::frame::{Frame, Run};
use crate::{
    base::{RunId, rng},
    event::{Ready, RunState, Started},
    spec::RunConfig,
    store::{AttemptRow, Point, RunRow},
};

/// A run that is done, with the given leaves set; its curves follow from them.
pub fn run(leaves: &[(&str, Value)]) -> Run {
    let mut all = serde_json::to_value(RunConfig::default()).unwrap();
    for (path, value) in leaves {
        let (group, leaf) = path.split_once('.').unwrap();
        all[group][leaf] = value.clone();
    }
    let config: RunConfig = serde_json::from_value(all).unwrap();
    // Of what is given alone: its noise stays as it is when runs get another setting.
    let id = RunId(*blake3::hash(serde_json::to_string(leaves).unwrap().as_bytes()).as_bytes());
    let ready = Ready {
        engine: "cpu".into(),
        processor: "Example CPU 9000".into(),
        params: 200_000 * config.model.layers as u64,
        flops_per_token: 1_200_000.0 * config.model.layers as f64,
        vocab_size: 65,
        chars_per_token: 1.0,
        corpus_bits_per_char: Some(1.9),
        ..Ready::default()
    };
    let device = config.run.device.replace("auto", "cpu");
    let started = Started { attempt: 1, device, threads: 1, ..Started::default() };
    let attempt = AttemptRow {
        started,
        ready: Some(ready.clone()),
        ended: Some(0),
        outcome: "done".into(),
        warnings: Vec::new(),
    };
    let row = RunRow {
        id,
        experiments: vec!["sample".into()],
        config,
        state: RunState::Done,
        step: 0,
        best: None,
        last_val_loss: None,
        tokens_per_second: None,
        attempts: 1,
        ready: Some(ready),
        tags: Vec::new(),
        created: 0,
    };
    let mut run = Run::new(row, id.short());
    run.attempts.push(attempt);
    train(&mut run);
    run
}

/// Gives a run the curves of all its steps.
pub fn train(run: &mut Run) {
    let c = &run.row.config;
    let mut noise = rng::stream(c.train.seed, &format!("sample/{}", run.name));
    let mut normal = |std: f64| {
        let mut x = [0.0f32; 2];
        rng::fill_normal(&mut noise, std, &mut x);
        f64::from(x[0])
    };
    let layers = c.model.layers as f64;
    let off = (c.train.lr / 2e-3).log10(); // the best learning rate is 2e-3
    let end = 1.62 - 0.11 * layers.ln() + 0.09 * off * off + 0.02 * (12.0 / c.train.batch as f64).ln() + normal(0.008);
    let pace = 60.0 * (c.train.lr / 1e-3).powf(-0.3);
    let loss = |step: u64| end + (4.17 - end) / (1.0 + step as f64 / pace).powf(1.1);
    let faster = if c.run.device.starts_with("cuda") { 9.0 } else { 1.0 };
    let ms = (2.0 + 5.5 * layers) * (c.train.batch as f64 / 12.0).powf(0.9) / faster;
    let point = |step, value| Point { step, value, attempt: 1 };
    run.train = (1..=c.train.steps).map(|s| point(s, loss(s) - 0.02 + normal(0.06))).collect();
    run.step_ms = (1..=c.train.steps).map(|s| point(s, ms * (1.0 + normal(0.03).abs()))).collect();
    run.val = (0..=c.train.steps)
        .filter(|s| s % c.eval.every == 0 || *s == c.train.steps)
        .map(|s| point(s, loss(s) + normal(0.006)))
        .collect();
    run.eval_train = run.val.iter().map(|p| Point { value: p.value - 0.03 * (p.step as f64 / 500.0), ..*p }).collect();
    run.grad_norm = run
        .train
        .iter()
        .map(|p| Point { value: 0.4 + 3.0 / (1.0 + p.step as f64 / 20.0) + normal(0.05).abs(), ..*p })
        .collect();
    run.row.step = c.train.steps;
    settle(run);
}

/// Makes the row say what the curves say.
pub fn settle(run: &mut Run) {
    let finite = run.val.iter().filter(|p| p.value.is_finite());
    run.row.best = finite.min_by(|a, b| a.value.total_cmp(&b.value)).map(|p| (p.step, p.value));
    run.row.last_val_loss = run.val.last().map(|p| p.value);
    let seconds = run.step_ms.iter().map(|p| p.value).sum::<f64>() / 1000.0;
    let tokens = run.row.config.tokens_per_step() as f64 * run.step_ms.len() as f64;
    run.row.tokens_per_second = (seconds > 0.0).then(|| tokens / seconds);
}

/// Cuts a run off after `step` and gives it another state.
pub fn cut(run: &mut Run, step: u64, state: RunState) {
    let curves = [&mut run.val, &mut run.train, &mut run.eval_train, &mut run.grad_norm, &mut run.step_ms];
    for curve in curves {
        curve.retain(|p| p.step <= step && state != RunState::Queued);
    }
    run.row.step = step;
    run.row.state = state;
    settle(run);
    if run.row.state == RunState::Queued {
        run.row.ready = None;
    }
}

/// The product of axes, as the spec's `grid` makes it, over a base.
pub fn grid(name: &str, axes: &[(&str, Vec<Value>)], seeds: u64, base: &[(&str, Value)]) -> Frame {
    let mut points: Vec<Vec<(&str, Value)>> = vec![base.to_vec()];
    let seeds: Vec<Value> = (1..=seeds).map(Value::from).collect();
    for (path, values) in axes.iter().chain([&("train.seed", seeds)]) {
        points = points
            .iter()
            .flat_map(|p| values.iter().map(move |v| [p.clone(), vec![(*path, v.clone())]].concat()))
            .collect();
    }
    let swept: Vec<String> = axes.iter().map(|a| a.0.to_owned()).collect();
    Frame::new(name, &swept, points.iter().map(|p| run(p)).collect())
}

/// Values of an axis.
pub fn values<T: Into<Value> + Clone>(values: &[T]) -> Vec<Value> {
    values.iter().cloned().map(Into::into).collect()
}

/// 2, 4 and 8 layers with three seeds each.
pub fn depths() -> Frame {
    grid("depth_sweep", &[("model.layers", values(&[2, 4, 8]))], 3, &[])
}

/// The frame with some of its runs changed.
pub fn edited(frame: Frame, mut edit: impl FnMut(usize, &mut Run)) -> Frame {
    let swept: Vec<String> = frame.axes.iter().map(|a| a.path.clone()).collect();
    let mut runs = frame.runs;
    runs.iter_mut().enumerate().for_each(|(i, run)| edit(i, run));
    Frame::new(&frame.experiment, &swept, runs)
}

/// A state.
pub fn failed(why: &str) -> RunState {
    RunState::Failed { why: why.into() }
}
