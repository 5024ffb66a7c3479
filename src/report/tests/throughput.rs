//! What the picture of speed draws apart, and what it pools.

use serde_json::json;

use super::{super::figure::MAX_LINES, *};

fn labels(panel: &Panel) -> Vec<&str> {
    panel.series.iter().map(|s| s.label.as_str()).collect()
}

#[test]
fn only_seeds_are_pooled_where_the_lines_fit() {
    let figure = figure(&optimizers(), "throughput");
    let [over_positions, over_optimizers] = panels(&figure)[..] else { panic!("not two panels") };
    assert_eq!(labels(over_positions), ["optimizer adamw", "optimizer muon"]);
    assert_eq!(labels(over_optimizers)[1], "position rope");
    for (_, lo, hi) in over_positions.series.iter().flat_map(|s| &s.band) {
        assert!(hi / lo < 1.1, "no point spans both optimizers: {lo} to {hi}");
    }
    assert!(figure.notes[0].contains("Point: median over seeds (n = 2)"), "{:?}", figure.notes);
    assert!(figure.notes[0].contains("bar: slowest to fastest run"), "{:?}", figure.notes);
    assert!(figure.notes.iter().all(|n| !n.contains("ooled")), "{:?}", figure.notes);
}

#[test]
fn a_setting_that_should_cost_no_time_has_lines_all_the_same() {
    let frame = grid("s", &[("model.layers", values(&[2, 4])), ("train.lr", values(&[1e-3, 1e-2]))], 2, &[]);
    let figure = figure(&frame, "throughput");
    assert_eq!(labels(panels(&figure)[0]), ["lr 1e-3", "lr 0.01"]);
}

#[test]
fn with_too_many_lines_what_makes_no_difference_is_pooled_by_name() {
    let all = frames();
    let figure = figure(&all.iter().find(|f| f.0 == "three_axes").unwrap().1, "throughput");
    let [over_layers, over_batch] = panels(&figure)[..] else { panic!("not two panels") };
    assert_eq!(figure.rows.len(), 1);
    assert_eq!(labels(over_layers), ["batch 6", "batch 12", "batch 24"]);
    assert_eq!((over_batch.series[0].label.as_str(), over_batch.series[0].dots.len()), ("2 layers", 3 * 6));
    assert_eq!(over_layers.y.range, over_batch.y.range);
    assert!(figure.notes[0].contains("Point: median over runs (n = 6)"), "{:?}", figure.notes);
    let pooled = "Pooled, since it makes no difference to speed beyond noise: lr.";
    assert!(figure.notes.iter().any(|n| n == pooled), "{:?}", figure.notes);
}

#[test]
fn what_makes_a_difference_becomes_panels_and_is_never_pooled() {
    let axes = [
        ("model.layers", values(&[2, 4])),
        ("train.weight_decay", values(&[0.0, 0.1, 0.2])),
        ("train.grad_clip", values(&[0.5, 1.0])),
        ("train.lr", values(&[1e-3, 3e-3, 1e-2])),
    ];
    let slow_where = |pace: &dyn Fn(f64) -> f64| {
        edited(grid("s", &axes, 1, &[]), |_, run| {
            let pace = pace(run.row.config.train.weight_decay);
            run.step_ms.iter_mut().for_each(|p| p.value *= pace);
        })
    };
    let figure_of = |frame: &Frame| figure(frame, "throughput");
    let slower = figure_of(&slow_where(&|decay| 1.0 + 2.0 * decay));
    assert_eq!(labels(panels(&slower)[0]), ["weight_decay 0", "weight_decay 0.1", "weight_decay 0.2"]);
    let pooled = "Pooled, since they make no difference to speed beyond noise: grad_clip, lr.";
    assert!(slower.notes.iter().any(|n| n == pooled), "{:?}", slower.notes);
    assert_eq!(labels(panels(&figure_of(&slow_where(&|_| 1.0)))[0]), [""], "nothing makes a difference");

    let widths = ("model.d_model", values(&[32, 64, 96, 128, 160]));
    let contexts = ("model.context", values(&[16, 32]));
    let frame = edited(grid("s", &[axes[0].clone(), widths, contexts], 1, &[]), |_, run| {
        let width = run.row.config.model.d_model as f64;
        run.step_ms.iter_mut().for_each(|p| p.value *= width);
    });
    let many = figure_of(&frame);
    let titles: Vec<&str> = panels(&many).iter().map(|p| p.title.as_str()).collect();
    assert_eq!(titles, ["context 16", "context 32"]);
    assert!(panels(&many).iter().all(|p| p.series.len() == 5 && p.series.len() <= MAX_LINES));
}

#[test]
fn a_noisy_machine_hides_small_differences_only() {
    let axes =
        [("model.layers", values(&[2, 4])), ("train.lr", (1..=10).map(|i| json!(1e-3 * f64::from(i))).collect())];
    let noisy = |of_value: f64| {
        edited(grid("s", &axes, 3, &[]), |_, run| {
            let lr_step = (run.row.config.train.lr * 1e3).round() as i32;
            let of_seed = 1.0 + 0.1 * run.row.config.train.seed as f64;
            let pace = of_seed * if lr_step % 2 == 0 { of_value } else { 1.0 };
            run.step_ms.iter_mut().for_each(|p| p.value *= pace);
        })
    };
    let is_pooled = |frame: &Frame| figure(frame, "throughput").notes.iter().any(|n| n.starts_with("Pooled"));
    assert!(is_pooled(&noisy(1.1)), "seeds scatter by as much");
    assert!(!is_pooled(&noisy(2.0)), "seeds do not scatter by a factor of 2");
}
