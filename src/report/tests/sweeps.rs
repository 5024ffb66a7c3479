//! Pictures of what a sweep costs, what matters in it and where it breaks, as data.

use super::{
    super::{figure::*, findings, frame::EXPERIMENT, importance::importance},
    *,
};

fn names(frame: &Frame) -> Vec<String> {
    figures(frame).into_iter().map(|f| f.0).collect()
}

fn rates_and_batches(seeds: u64) -> Frame {
    let axes = [("train.lr", values(&[3e-4, 1e-3, 3e-3])), ("train.batch", values(&[6, 12, 24]))];
    grid("map", &axes, seeds, &[])
}

#[test]
fn the_front_has_what_no_setting_beats_at_as_little_compute() {
    let frame = grid("s", &[("model.layers", values(&[2, 4, 8]))], 2, &[]);
    let frame = edited(frame, |i, run| {
        run.val.last_mut().unwrap().value = [1.5, 1.6, 1.3][i / 2];
        settle(run);
    });
    let figure = figure(&frame, "loss_vs_compute");
    let panel = panels(&figure)[0];
    let front = series(panel, "Pareto front");
    // 12 windows of 64 tokens over 500 steps, at 1.2 million FLOPs a token and layer.
    let flops = |layers: f64| 1.2e6 * layers * (500 * 12 * 64) as f64;
    assert_eq!(front.points, [(flops(2.0), 1.5), (flops(8.0), 1.3)], "4 layers are beaten by 2");
    assert_eq!(series(panel, "4 layers").points, [(flops(4.0), 1.6)]);
    assert!(figure.notes.iter().any(|n| n.contains("2 layers; 8 layers.")), "{:?}", figure.notes);
    let way = panel.series.iter().find(|s| s.name == "8 layers, on the way").unwrap();
    assert_eq!(way.points.len(), 5, "all evaluations but the first, before which nothing was spent");
}

#[test]
fn compute_that_is_the_same_for_all_is_no_picture() {
    let frame = grid("s", &[("train.lr", values(&[1e-3, 3e-3]))], 2, &[]);
    assert!(!names(&frame).contains(&"loss_vs_compute".to_owned()), "{:?}", names(&frame));
}

#[test]
fn curves_run_over_tokens_and_flops_too() {
    let figure = figure(&depths(), "learning_curves_compute");
    let [tokens, flops] = panels(&figure)[..] else { panic!("not two panels") };
    assert_eq!((tokens.x.label.as_str(), flops.x.label.as_str()), ("tokens (thousands)", "training compute (TFLOPs)"));
    let last = |panel: &Panel, label| series(panel, label).points.last().unwrap().0;
    assert!((last(tokens, "8 layers") - 384.0).abs() < 1e-9);
    assert!((last(flops, "8 layers") - 384e3 * 9.6e6 / 1e12).abs() < 1e-9);
    assert!((last(flops, "8 layers") / last(flops, "2 layers") - 4.0).abs() < 1e-9);
}

#[test]
fn the_line_of_step_times_tells_what_a_layer_costs() {
    let figure = figure(&depths(), "step_time");
    let panel = panels(&figure)[0];
    // The sample's step takes 5.5 ms a layer, and the noise of its median about 2 %.
    let slope: f64 = panel.title.split_whitespace().next().unwrap().parse().unwrap();
    assert!(panel.title.ends_with("ms per layer") && (5.3..5.9).contains(&slope), "{}", panel.title);
    let line = panel.series.iter().find(|s| s.line == Line::Faint).unwrap();
    assert!((line.points[0].0, line.points.last().unwrap().0) == (2.0, 8.0));
    let two = grid("s", &[("model.layers", values(&[2, 4]))], 1, &[]);
    let of_two = super::figure(&two, "step_time");
    assert!(
        panels(&of_two)[0].series.iter().all(|s| s.line != Line::Faint),
        "two points have a line that says nothing"
    );
}

#[test]
fn two_numeric_settings_make_a_map_with_the_best_darkest() {
    let frame = rates_and_batches(3);
    let figure = figure(&frame, "loss_map");
    let [panel] = panels(&figure)[..] else { panic!("not one map") };
    assert_eq!((panel.x.label.as_str(), panel.y.label.as_str()), ("learning rate", "batch (sequences)"));
    assert_eq!(panel.cells.len(), 9);
    let by_value = |a: &&Cell, b: &&Cell| a.value.unwrap().total_cmp(&b.value.unwrap());
    let best = panel.cells.iter().min_by(by_value).unwrap();
    assert_eq!((best.fill, best.lines[1].ends_with("n=3")), (Fill::Share(1.0), true), "{:?}", best.lines);
    let worst = panel.cells.iter().max_by(by_value).unwrap();
    assert_eq!(worst.fill, Fill::Share(0.0));
    let missing = edited(frame, |i, run| {
        if i < 3 {
            cut(run, 9, failed("no"))
        }
    });
    let map = super::figure(&missing, "loss_map");
    let cells = &panels(&map)[0].cells;
    assert_eq!(cells.iter().filter(|c| c.value.is_none() && c.lines == ["no result"]).count(), 1);
}

#[test]
fn settings_that_form_no_grid_make_no_map() {
    assert!(!names(&zip()).contains(&"loss_map".to_owned()));
    let words =
        grid("s", &[("model.norm", values(&["layernorm", "rmsnorm"])), ("train.lr", values(&[1e-3, 2e-3]))], 2, &[]);
    assert!(!names(&words).contains(&"loss_map".to_owned()));
}

#[test]
fn a_map_of_two_of_three_settings_tells_the_third() {
    let axes = [
        ("model.norm", values(&["layernorm", "rmsnorm"])),
        ("train.lr", values(&[1e-3, 2e-3])),
        ("train.batch", values(&[6, 12])),
    ];
    let figure = figure(&grid("s", &axes, 1, &[]), "loss_map");
    let cell = &panels(&figure)[0].cells[0];
    assert!(cell.lines.last().unwrap().starts_with("norm "), "{:?}", cell.lines);
    assert!(figure.notes[0].contains("lowest mean loss"), "{:?}", figure.notes);
}

#[test]
fn importance_is_the_share_of_variance_of_main_effects() {
    // The loss is 1 + 0.3·(layers 4) + 0.1·(batch 24), without interaction: variances of 0.15² and 0.05².
    let axes = [("model.layers", values(&[2, 4])), ("train.batch", values(&[12, 24]))];
    let frame = edited(grid("s", &axes, 1, &[]), |i, run| {
        run.val.iter_mut().for_each(|p| p.value = 1.0 + 0.3 * (i / 2) as f64 + 0.1 * (i % 2) as f64);
        settle(run);
    });
    let found = importance(&frame).unwrap();
    let shares: Vec<f64> = found.effects.iter().map(|e| e.share).collect();
    assert!((shares[0] - 0.9).abs() < 1e-9 && (shares[1] - 0.1).abs() < 1e-9, "{shares:?}");
    assert!(found.together.unwrap() < 1e-9 && found.seeds.is_none());
    let figure = figure(&frame, "importance");
    let labels: Vec<&str> = forest(&figure).rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["layers", "batch", "together beyond that"]);
    assert!(figure.notes[0].contains("full factorial"), "{:?}", figure.notes);
}

#[test]
fn importance_says_where_there_is_no_full_grid() {
    let frame = edited(rates_and_batches(2), |i, run| {
        if i < 2 {
            cut(run, 9, failed("no"))
        }
    });
    assert_eq!(importance(&frame).unwrap().together, None);
    let figure = figure(&frame, "importance");
    assert!(figure.notes[0].contains("no full grid"), "{:?}", figure.notes);
    assert!(findings::text(&frame).contains("no full grid"));
}

#[test]
fn the_gap_is_that_of_losses_of_the_same_step_and_its_best_is_marked() {
    let frame = edited(grid("s", &[], 1, &[]), |_, run| {
        let losses = [4.0, 2.0, 1.5, 1.8, 1.9, 2.0];
        run.val.iter_mut().zip(losses).for_each(|(p, loss)| p.value = loss);
        run.eval_train =
            run.val.iter().map(|p| crate::store::Point { value: p.value - p.step as f64 / 1000.0, ..*p }).collect();
        settle(run);
    });
    let figure = figure(&frame, "generalisation");
    let panel = panels(&figure)[0];
    let gaps: Vec<f64> = panel.series[0].points.iter().map(|p| (p.1 * 1e9).round() / 1e9).collect();
    assert_eq!(gaps, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
    assert_eq!(panel.series[1].points[0].0, 200.0, "the step of the lowest validation loss");
    let text = findings::text(&frame);
    assert!(
        text.contains("lowest at step 200 of 500, 0.200 above the training loss, and 0.500 higher in the end"),
        "{text}"
    );
}

#[test]
fn gradient_norms_keep_every_spike() {
    let frame = edited(depths(), |i, run| {
        if i == 4 {
            run.grad_norm[321].value = 40.0
        }
    });
    let figure = figure(&frame, "grad_norm");
    let panel = panels(&figure)[0];
    let (_, _, high) = series(panel, "4 layers").band[321];
    assert_eq!((high, panel.y.scale.clone()), (40.0, Scale::Log));
    assert!(panel.references.iter().any(|r| r.label == "clipped to 1"), "{:?}", panel.references);
}

#[test]
fn the_map_of_failures_tells_how_runs_ended() {
    let axes = [("model.layers", values(&[2, 4])), ("train.lr", values(&[1e-3, 1e-2]))];
    let frame = edited(grid("s", &axes, 2, &[]), |i, run| match i {
        2 => cut(run, 100, failed("the loss is nan at step 101")),
        3 => run.row.last_val_loss = Some(f64::NAN),
        6 | 7 => cut(run, 0, failed("CUDA_ERROR_OUT_OF_MEMORY: out of memory")),
        4 => cut(run, 10, RunState::Skipped { why: "needs more than a run that ran out of memory".into() }),
        5 => cut(run, 10, RunState::Paused { step: 10, why: "3rd of 3 at step 10".into() }),
        _ => {}
    });
    let figure = figure(&frame, "failures");
    let panel = panels(&figure)[0];
    let lines = |x: usize, y: usize| &panel.cells.iter().find(|c| (c.x, c.y) == (x, y)).unwrap().lines;
    assert_eq!(lines(0, 0), &["2 done"]);
    assert_eq!(lines(0, 1), &["2 NaN"]);
    assert_eq!(lines(1, 0), &["1 skipped", "1 paused"]);
    assert_eq!(lines(1, 1), &["2 OOM"]);
    let words: Vec<&str> = panel.swatches.iter().map(|m| m.label.as_str()).collect();
    assert_eq!(words, ["loss no finite number", "out of memory", "skipped", "paused by the search", "done"]);
    let text = findings::text(&frame);
    assert!(
        text.contains("No run with lr 0.01 came to an end: all 4 were lost (loss no finite number, out of memory)."),
        "{text}"
    );
    assert!(!names(&depths()).contains(&"failures".to_owned()), "nothing failed there");
}

#[test]
fn experiments_that_are_compared_are_an_axis() {
    let (a, b) = (depths(), depths());
    let named = |frame: Frame, name: &str| {
        frame
            .runs
            .into_iter()
            .map(|run| super::super::frame::Run { experiment: Some(name.into()), ..run })
            .collect::<Vec<_>>()
    };
    let runs = [named(a, "before"), named(b, "after")].concat();
    let frame = Frame::new("before and after", &["model.layers".into(), EXPERIMENT.into()], runs);
    let panel = &figure(&frame, "loss_vs_depth").rows[0][0];
    let labels: Vec<&str> = panel.series.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, ["before", "after"]);
    assert!(names(&frame).contains(&"loss_vs_experiment".to_owned()), "{:?}", names(&frame));
    let told = super::super::findings::text(&frame);
    assert!(told.contains("Of these 9 are the same as of another experiment"), "{told}");
    assert!(!super::super::findings::text(&depths()).contains("another experiment"));
    assert!(!told.contains("besides") && !told.contains("different corpora"), "{told}");

    // Another corpus and another learning rate, of which nothing is an axis.
    let elsewhere = |mut run: super::super::frame::Run| {
        run.row.config.train.lr = 0.25;
        run.row.config.data.corpus_chars = 777;
        run.row.ready.as_mut().unwrap().corpus_hash = "c1".into();
        run
    };
    let runs = named(depths(), "before").into_iter().chain(named(depths(), "after").into_iter().map(elsewhere));
    let told =
        findings::text(&Frame::new("before and after", &["model.layers".into(), EXPERIMENT.into()], runs.collect()));
    assert!(told.contains("data.corpus_chars (777 in after, 1,200,000 in before)"), "{told}");
    assert!(told.contains("train.lr (0.25 in after, 1e-3 in before)") && told.contains("different corpora"), "{told}");
    assert!(!told.contains("model.layers (") && !told.contains("train.seed ("), "{told}");
}
