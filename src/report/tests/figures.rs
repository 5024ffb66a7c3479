//! What figures hold, as data.

use serde_json::json;

use super::{
    super::{figure::*, findings, frame::LeftOut},
    *,
};

/// Three depths with two seeds whose results are given.
fn given(losses: [[f64; 2]; 3]) -> Frame {
    let frame = grid("given", &[("model.layers", values(&[2, 4, 8]))], 2, &[]);
    edited(frame, |i, run| {
        run.val.last_mut().unwrap().value = losses[i / 2][i % 2];
        settle(run);
    })
}

#[test]
fn a_point_is_the_mean_over_seeds_and_a_band_their_extent() {
    let figure = figure(&given([[1.7, 1.5], [1.5, 1.4], [1.3, 1.3]]), "loss_vs_depth");
    let [panel] = panels(&figure)[..] else { panic!("more than one panel") };
    let [line] = &panel.series[..] else { panic!("more than one line") };
    assert_eq!(line.points, [(2.0, 1.6), (4.0, 1.45), (8.0, 1.3)]);
    assert_eq!(line.band, [(2.0, 1.5, 1.7), (4.0, 1.4, 1.5), (8.0, 1.3, 1.3)]);
    assert_eq!(line.dots.len(), 6);
    assert_eq!(panel.y.label, "best validation loss (nats per character)");
    assert!(figure.notes[0].contains("given, 6 runs") && figure.notes[0].contains("(n = 2)"), "{:?}", figure.notes);
    assert!(figure.notes[0].contains("band: lowest to highest seed"), "{:?}", figure.notes);
}

#[test]
fn what_has_no_result_is_a_gap_with_a_mark_and_a_reason() {
    let frame = edited(given([[1.7, 1.5], [1.5, 1.4], [1.3, 1.2]]), |i, run| match i {
        2 => cut(run, 100, failed("out of memory")),
        3 => cut(run, 100, RunState::Interrupted { step: 100 }),
        4 => run.row.last_val_loss = Some(f64::NAN),
        _ => {}
    });
    let figure = figure(&frame, "loss_vs_depth");
    let panel = panels(&figure)[0];
    let points = &panel.series[0].points;
    assert!(points[1].0 == 4.0 && points[1].1.is_nan(), "a line must not run over a depth that has no result");
    assert_eq!(points[2], (8.0, 1.2), "the other seed stands");
    assert_eq!(panel.gaps.iter().map(|g| (g.x, g.y)).collect::<Vec<_>>(), [(4.0, None), (8.0, None)]);
    let note = figure.notes.iter().find(|n| n.contains("left out")).unwrap();
    assert_eq!(
        note,
        "3 of 6 runs are left out and marked ×: 1 failed (out of memory), 1 ended with a loss that is no finite \
         number, 1 not finished yet."
    );
}

#[test]
fn no_figure_where_fewer_than_two_places_have_a_value() {
    let frame = edited(depths(), |i, run| {
        if i > 2 {
            cut(run, 50, failed("no"))
        }
    });
    let names: Vec<String> = figures(&frame).into_iter().map(|f| f.0).collect();
    assert!(!names.iter().any(|name| name.starts_with("loss_vs")), "one depth alone is no curve: {names:?}");
    assert!(names.contains(&"throughput".to_owned()), "its steps were timed");
}

#[test]
fn axes_choose_their_scale_and_name_their_file() {
    let scale = |path, values: Vec<Value>| {
        let figure = figures(&grid("s", &[(path, values)], 1, &[])).into_iter().find(|f| f.0.starts_with("loss_vs"));
        let (name, figure) = figure.unwrap();
        let x = panels(&figure)[0].x.clone();
        (name, x.scale, x.label, x.ticks)
    };
    let (name, scale_of, label, ticks) = scale("train.lr", values(&[3e-4, 1e-3, 3e-3]));
    assert_eq!((name.as_str(), label.as_str(), scale_of), ("loss_vs_lr", "learning rate (log scale)", Scale::Log));
    assert_eq!(ticks, [3e-4, 1e-3, 3e-3]);
    let (name, scale_of, label, _) = scale("train.batch", values(&[8, 16, 24]));
    assert_eq!((name.as_str(), label.as_str(), scale_of), ("loss_vs_batch", "batch (sequences)", Scale::Linear));
    let words = Scale::Words(vec!["cpu".into(), "cuda:0".into()]);
    assert_eq!(scale("run.device", values(&["cpu", "cuda:0"])).1, words);
    let switch = Scale::Words(vec!["false".into(), "true".into()]);
    assert_eq!(scale("model.bias", values(&[false, true])).1, switch);
}

#[test]
fn axes_with_the_same_last_word_keep_their_paths() {
    let frame = grid("s", &[("train.batch", values(&[6, 12])), ("eval.batch", values(&[6, 12]))], 1, &[]);
    let names: Vec<String> = figures(&frame).into_iter().map(|f| f.0).collect();
    let over: Vec<&String> = names.iter().filter(|name| name.ends_with("batch")).collect();
    assert_eq!(over, ["loss_vs_train.batch", "loss_vs_eval.batch"]);
}

#[test]
fn words_are_not_joined_by_a_line() {
    let figure = figure(&grid("s", &[("model.bias", values(&[true, false]))], 3, &[]), "loss_vs_bias");
    let line = &panels(&figure)[0].series[0];
    assert_eq!((line.line, line.band.len()), (Line::None, 2));
    assert!(figure.notes[0].contains("bar: lowest to highest seed"));
}

#[test]
fn axes_that_are_walked_together_make_one_line() {
    let figure = figure(&zip(), "loss_vs_depth");
    assert_eq!(panels(&figure)[0].series.len(), 1);
    assert!(figure.notes.contains(&"layers and d_model change together.".to_owned()), "{:?}", figure.notes);
}

#[test]
fn a_setting_that_only_some_points_change_is_an_axis_and_a_default_that_follows_is_none() {
    let mut runs: Vec<_> =
        [2, 4].iter().map(|&l| run(&[("model.layers", json!(l)), ("model.d_ff", json!(l * 100))])).collect();
    runs.push(run(&[("model.layers", json!(2)), ("model.d_ff", json!(200)), ("train.lr", json!(0.1))]));
    let frame = Frame::new("s", &["model.layers".to_owned()], runs);
    assert_eq!(frame.axes.iter().map(|a| a.path.as_str()).collect::<Vec<_>>(), ["model.layers", "train.lr"]);
}

#[test]
fn the_corpus_s_own_cost_is_a_level_or_a_note() {
    let frame = grid("s", &[("model.layers", values(&[2, 8])), ("train.lr", values(&[1e-4, 3e-3]))], 1, &[]);
    let near = figure(&frame, "loss_vs_depth");
    let [level] = &panels(&near)[0].references[..] else { panic!("no level") };
    assert!((level.y - 1.9 * std::f64::consts::LN_2).abs() < 1e-12);
    assert_eq!(level.label, "corpus's own cost (1.317)");

    let far = figure(
        &edited(frame, |_, run| run.row.ready.as_mut().unwrap().corpus_bits_per_char = Some(0.3)),
        "loss_vs_depth",
    );
    assert!(panels(&far)[0].references.is_empty());
    assert!(far.notes.contains(&"The corpus's own cost, 0.208 nats per character, lies below the picture.".to_owned()));
}

#[test]
fn losses_of_different_tokens_are_compared_per_character() {
    let tokens = ("data.tokenizer", values(&["char", "byte"]));
    let frame = edited(grid("s", &[tokens], 1, &[]), |i, run| {
        run.row.ready.as_mut().unwrap().chars_per_token = if i == 0 { 1.0 } else { 0.5 };
        run.val.last_mut().unwrap().value = std::f64::consts::LN_2;
        settle(run);
    });
    let figure = figure(&frame, "loss_vs_tokenizer");
    let panel = panels(&figure)[0];
    assert_eq!(panel.y.label, "best validation loss (bits per character)");
    assert_eq!(panel.series[0].points.iter().map(|p| p.1).collect::<Vec<_>>(), [1.0, 2.0]);
}

#[test]
fn no_panel_has_more_lines_than_the_palette_and_nothing_is_dropped_unsaid() {
    for (name, frame) in frames() {
        for (file, figure) in figures(&frame) {
            for panel in panels(&figure) {
                let mut inks: Vec<Ink> = Vec::new();
                for ink in panel.series.iter().map(|s| s.ink).filter(|ink| *ink != Ink::Neutral) {
                    if !inks.contains(&ink) {
                        inks.push(ink);
                    }
                }
                assert!(inks.len() <= MAX_LINES, "{name}/{file}");
                let strong = panel.series.iter().filter(|s| matches!(s.line, Line::Strong | Line::Thin));
                assert!(strong.filter(|s| s.ink != Ink::Neutral).count() <= MAX_LINES, "{name}/{file}");
            }
        }
    }
    let lines = |figure: &Figure| -> usize {
        let strong = |p: &&Panel| p.series.iter().filter(|s| s.line == Line::Strong && s.ink != Ink::Neutral).count();
        panels(figure).iter().map(strong).sum()
    };
    let all = frames();
    let frame = |name| &all.iter().find(|f| f.0 == name).unwrap().1;
    assert_eq!(lines(&figure(frame("three_axes"), "learning_curves")), 2 * 27);
    let most = figure(frame("layers_twenty_lr"), "learning_curves");
    assert_eq!(lines(&most), 2 * 24);
    assert!(
        most.notes.iter().any(|n| n.starts_with("36 settings with higher losses found no room")),
        "{:?}",
        most.notes
    );
}

#[test]
fn lines_that_mean_the_same_have_one_colour_in_all_panels() {
    let all = frames();
    let figure = figure(&all.iter().find(|f| f.0 == "three_axes").unwrap().1, "loss_vs_lr");
    let inks: Vec<Vec<_>> =
        panels(&figure).iter().map(|p| p.series.iter().map(|s| (s.label.clone(), s.ink)).collect()).collect();
    assert_eq!(
        panels(&figure).iter().map(|p| p.title.as_str()).collect::<Vec<_>>(),
        ["batch 6", "batch 12", "batch 24"]
    );
    assert!(inks.windows(2).all(|w| w[0] == w[1]), "{inks:?}");
    assert_eq!(inks[0][0].0, "2 layers", "depth stays within a panel");
}

#[test]
fn learning_curves_are_means_over_steps_and_over_summed_step_times() {
    let frame = edited(grid("s", &[], 2, &[]), |i, run| {
        run.step_ms.iter_mut().for_each(|p| p.value = if i == 0 { 10.0 } else { 30.0 });
        run.val.iter_mut().for_each(|p| p.value = 2.0 + i as f64);
    });
    let figure = figure(&frame, "learning_curves");
    let [steps, time] = panels(&figure)[..] else { panic!("not two panels") };
    assert_eq!(series(steps, "validation").points[1], (100.0, 2.5));
    assert_eq!(series(steps, "validation").band[1], (100.0, 2.0, 3.0));
    let (seconds, loss) = series(time, "validation").points[1];
    assert!((seconds - 2.0).abs() < 1e-9 && loss == 2.5, "100 steps of 10 ms and of 30 ms take 2 s in the mean");
    assert_eq!(series(time, "validation").points[0].0, 0.0, "the first evaluation costs no training time");
    assert_eq!((steps.x.label.as_str(), time.x.label.as_str()), ("steps", "training time (seconds)"));
}

#[test]
fn a_failed_run_s_curve_ends_in_a_cross_and_never_shows_what_is_not_finite() {
    let figure = figure(&broken(), "learning_curves");
    let panel = panels(&figure)[4];
    assert_eq!(panel.title, "lr 0.1");
    assert_eq!(panel.gaps.len(), 3);
    assert!(panel.gaps.iter().all(|g| g.x == 170.0 && g.y.is_some_and(f64::is_finite)), "{:?}", panel.gaps);
    let (lo, hi) = panel.y.range.unwrap();
    assert!(lo.is_finite() && hi.is_finite());
}

#[test]
fn each_stretch_of_values_that_are_no_number_has_one_mark() {
    let with = |nan: &dyn Fn(u64) -> bool| {
        let frame = edited(grid("nan", &[], 1, &[("train.steps", json!(400))]), |_, run| {
            run.val.iter_mut().filter(|p| nan(p.step)).for_each(|p| p.value = f64::NAN);
            run.train.iter_mut().filter(|p| nan(p.step)).for_each(|p| p.value = f64::INFINITY);
            run.train[0].value = 4.0;
            settle(run);
        });
        let before = frame.runs[0].train.iter().map(|p| p.value).collect::<Vec<_>>();
        (figure(&frame, "learning_curves"), before)
    };
    let (nan, train) = with(&|step| (101..=150).contains(&step) || step == 300 || step == 302);
    for panel in panels(&nan) {
        let heights: Vec<_> = panel.gaps.iter().map(|g| g.y.unwrap()).collect();
        assert_eq!(heights[..3], [train[99], train[298], train[300]], "of the training loss, one a stretch");
        assert_eq!(heights.len(), 4, "and one of the validation loss after step 300");
    }
    let steps = panels(&nan)[0];
    assert_eq!(steps.gaps.iter().map(|g| g.x).collect::<Vec<_>>(), [101.0, 300.0, 302.0, 300.0]);
    let note = nan.notes.iter().find(|n| n.contains('×')).unwrap();
    assert!(note.starts_with("× marks where a loss stops being a finite number"), "{note}");

    let (every_other, _) = with(&|step| step % 2 == 1 && step > 100);
    assert!(panels(&every_other).iter().all(|panel| panel.gaps.len() == 50), "more would be a smear");
    let (never, _) = with(&|_| false);
    assert!(panels(&never).iter().all(|p| p.gaps.is_empty()) && never.notes.iter().all(|n| !n.contains('×')));
}

#[test]
fn what_is_not_done_is_drawn_as_far_as_it_goes() {
    let frame = edited(depths(), |_, run| cut(run, 240, RunState::Interrupted { step: 240 }));
    let names: Vec<String> = figures(&frame).into_iter().map(|f| f.0).collect();
    let rest = ["learning_curves_compute", "generalisation", "grad_norm"];
    assert_eq!(names, [["learning_curves", "throughput", "step_time"], rest].concat());
    let curves = figure(&frame, "learning_curves");
    assert_eq!(series(panels(&curves)[0], "2 layers").points.last().unwrap().0, 200.0);
    assert!(frame.runs.iter().all(|r| frame.result(r) == Err(LeftOut::Unfinished)));
}

#[test]
fn runs_that_pause_are_drawn_as_far_as_they_came_and_compared_with_nothing() {
    let paused = RunState::Paused { step: 240, why: "2nd of 3 at step 240: the best third goes on".into() };
    let axes = [("train.lr", values(&[1e-4, 1e-3, 1e-2]))];
    let frame = edited(grid("s", &axes, 1, &[]), |i, run| {
        if i == 1 {
            cut(run, 240, paused.clone())
        }
    });
    let curves = figure(&frame, "learning_curves");
    let panel = panels(&curves)[0];
    assert_eq!(series(panel, "lr 1e-3").points.last().unwrap().0, 200.0);
    assert!(panel.gaps.is_empty() && curves.notes.iter().any(|n| n.contains("to where they pause")));
    let compared = figure(&frame, "loss_vs_lr");
    assert!(panels(&compared)[0].series[0].points[1].1.is_nan(), "what it had by then is not its result");
    let gap = figure(&frame, "generalisation");
    let marked =
        panels(&gap)[0].series.iter().filter(|s| s.name.contains("best validation loss") && !s.points.is_empty());
    assert_eq!(marked.count(), 2);
    // The best of those that are done, 2e-3, lies within what was tried.
    let axes = [("train.lr", values(&[2e-4, 5e-4, 1e-3, 2e-3, 5e-3]))];
    let without_last = |state: &RunState| {
        findings::text(&edited(grid("s", &axes, 1, &[]), |i, run| {
            if i == 4 {
                cut(run, 240, state.clone())
            }
        }))
    };
    let edge = "the best value is at the edge of those tried";
    assert!(without_last(&failed("no")).contains(edge) && !without_last(&paused).contains(edge));
}

#[test]
fn runs_that_only_evaluate_have_no_curves() {
    let frame = grid("s", &[("model.layers", values(&[2, 4]))], 1, &[("train.steps", json!(0))]);
    let names: Vec<String> = figures(&frame).into_iter().map(|f| f.0).collect();
    assert_eq!(names, ["loss_vs_depth"]);
}

#[test]
fn a_spike_far_above_the_rest_asks_for_a_log_scale_and_stays_in_the_range() {
    let frame = edited(spike(), |_, run| run.train[6_553].value = 900.0);
    let figure = figure(&frame, "learning_curves");
    let y = &panels(&figure)[0].y;
    assert_eq!((&y.scale, y.label.as_str()), (&Scale::Log, "loss (nats per character, log scale)"));
    assert!(y.range.unwrap().1 > 900.0);
}

#[test]
fn throughput_comes_from_the_common_slot_without_warm_up() {
    let frame = edited(grid("s", &[("model.layers", values(&[2, 4]))], 2, &[]), |i, run| {
        // Of the 480 steps after the warm-up most take 10 ms; with it the median would be 12 ms.
        run.step_ms.iter_mut().for_each(|p| {
            p.value = match p.step {
                0..=20 => 999.0,
                21..=261 => 10.0,
                _ => 12.0,
            }
        });
        if i == 3 {
            run.attempts[0].started.threads = 2;
            run.step_ms.iter_mut().for_each(|p| p.value = 5.0);
        }
    });
    let figure = figure(&frame, "throughput");
    let tokens = 12.0 * 64.0 / 0.010;
    assert_eq!(panels(&figure)[0].series[0].points, [(2.0, tokens), (4.0, tokens)]);
    assert_eq!(figure.title, "Training throughput on 1 CPU thread");
    assert!(figure.notes.iter().any(|n| n == "1 run has no step on this slot."), "{:?}", figure.notes);
}

#[test]
fn a_resumed_run_s_steps_are_taken_by_the_slot_of_their_attempt() {
    let frame = edited(grid("s", &[("model.layers", values(&[2, 4]))], 1, &[]), |_, run| {
        let mut second = run.attempts[0].clone();
        (second.started.attempt, second.started.threads) = (2, 2);
        run.attempts.push(second);
        for p in &mut run.step_ms {
            (p.attempt, p.value) = if p.step > 300 { (2, 1.0) } else { (1, 10.0) };
        }
    });
    assert!(frame.runs.iter().all(|r| r.step_time == Some(10.0)), "of two slots as common the smaller");
    assert_eq!(frame.slots[0].to_string(), "1 CPU thread");
}
