//! Settings around a base: their names, picture, sentences and table.

use super::{
    super::{
        csv,
        figure::{Ink, MAX_ROWS},
        files, findings, names,
    },
    *,
};

/// The star with given results, by setting and seed: base, five switches, all.
fn given(losses: [[f64; 3]; 7]) -> Frame {
    edited(star(3), |i, run| {
        run.val.last_mut().unwrap().value = losses[i / 3][i % 3];
        settle(run);
    })
}

/// RoPE and SwiGLU lower the loss, no bias raises it, RMSNorm and fewer heads do nothing that seeds would not do.
pub fn found() -> Frame {
    given([
        [1.30, 1.31, 1.32],
        [1.29, 1.31, 1.33],
        [1.00, 1.01, 1.02],
        [1.18, 1.20, 1.22],
        [1.31, 1.32, 1.33],
        [1.40, 1.41, 1.42],
        [0.90, 0.91, 0.92],
    ])
}

fn called(frame: &Frame) -> Vec<String> {
    frame.settings().iter().map(|s| names::name(frame, &s.at)).collect()
}

const NAMES: [&str; 7] =
    ["base", "norm rmsnorm", "position rope", "mlp swiglu", "kv_heads 2", "bias false", "all 5 changes"];

#[test]
fn settings_around_a_base_are_named_by_what_differs_from_it() {
    assert_eq!(called(&star(3)), NAMES, "the base first, the others as the spec has them");
    let curves = figure(&star(3), "learning_curves");
    let legend: Vec<_> = panels(&curves)[0].series.iter().map(|s| s.label.as_str()).filter(|l| !l.is_empty()).collect();
    assert_eq!(legend[..7], NAMES);
    let note = "Base: norm layernorm, position learned, mlp gelu, kv_heads 4, bias true; all 5 changes: norm rmsnorm, \
                position rope, mlp swiglu, kv_heads 2, bias false.";
    assert!(curves.notes.contains(&note.to_owned()), "{:?}", curves.notes);
}

#[test]
fn several_changes_are_told_in_full_as_long_as_they_are_short() {
    let (norm, mlp) = (("model.norm", json!("rmsnorm")), ("model.mlp", json!("swiglu")));
    let (position, bias) = (("model.position", json!("rope")), ("model.bias", json!(false)));
    let heads = ("model.kv_heads", json!(2));
    let single = [&norm, &mlp, &position, &bias, &heads].map(|s| vec![s.clone()]);
    let four = vec![norm.clone(), position.clone(), mlp.clone(), heads];
    let several = [vec![norm.clone(), bias], vec![norm, position, mlp], four];
    let frame = around("s", [vec![]].into_iter().chain(single).chain(several).collect(), 1);
    let several = ["norm rmsnorm, bias false", "norm rmsnorm, mlp swiglu, position rope"];
    assert_eq!(called(&frame)[6..8], several);
    assert_eq!(called(&frame)[8], "4 changes: rmsnorm, swiglu, rope, kv_heads 2");
}

#[test]
fn products_and_parts_of_them_and_walks_have_no_base() {
    let layers = || ("model.layers", values(&[2, 4, 8]));
    let mut most = grid("most", &[layers(), ("train.lr", values(&[1e-4, 1e-3, 1e-2]))], 1, &[]);
    most.runs.remove(0);
    let most = Frame::new("most", &["model.layers".to_owned(), "train.lr".to_owned()], most.runs);
    for (name, frame) in [("depths", depths()), ("zip", zip()), ("broken", broken()), ("most", most)] {
        assert_eq!(frame.base, None, "{name}");
        assert!(figures(&frame).iter().all(|f| f.0 != "ablation"), "{name}");
        assert!(called(&frame).iter().all(|n| n.contains("layers")), "{name}");
    }
    let files: Vec<String> = figures(&broken()).into_iter().map(|f| f.0).collect();
    for name in ["loss_vs_depth", "loss_vs_lr", "throughput"] {
        assert!(files.contains(&name.to_owned()), "{files:?}");
    }
    assert!(figures(&broken()).iter().all(|(name, figure)| figure.forest.is_none() || name == "importance"));
}

#[test]
fn one_picture_compares_all_settings_with_the_base() {
    let frame = found();
    let files: Vec<String> = figures(&frame).into_iter().map(|f| f.0).collect();
    let rest = ["learning_curves_compute", "generalisation", "grad_norm"];
    assert_eq!(files, [&["ablation", "learning_curves", "throughput"], &rest[..]].concat(), "no picture for each axis");
    let figure = figure(&frame, "ablation");
    assert_eq!(figure.title, "What each change does to the loss after 500 steps");
    let forest = forest(&figure);
    let labels: Vec<&str> = forest.rows.iter().map(|r| r.label.as_str()).collect();
    let order = ["base", "all 5 changes", "position rope", "mlp swiglu", "norm rmsnorm", "kv_heads 2", "bias false"];
    assert_eq!(labels, order, "the base on top, then by loss");
    let (level, band) = forest.level.unwrap();
    assert!((level - 1.31).abs() < 1e-12 && band == (1.30, 1.32));
    let row = &forest.rows[2];
    assert_eq!((row.bar, row.dots.as_slice()), (Some((1.00, 1.02)), [1.00, 1.01, 1.02].as_slice()));
    assert_eq!(row.cells[..4], ["1.0100", "−0.300 ± 0.023", "800,000", "4.80 M"]);
    assert_eq!(row.cells[4], numbers::rounded(numbers::median(&times(&frame, 2))));
    assert_eq!(forest.rows[0].cells[1], "", "the base differs by nothing from itself");
    let inks: Vec<Ink> = forest.rows.iter().map(|r| r.ink).collect();
    let (lower, higher, open) = (Ink::Color(0), Ink::Color(1), Ink::Neutral);
    assert_eq!(inks, [open, lower, lower, lower, open, open, higher]);
    assert_eq!(forest.legend.iter().map(|m| m.ink).collect::<Vec<_>>(), [lower, higher, open]);
    assert!(figure.notes[0].contains("Base: norm layernorm"), "{:?}", figure.notes);
    assert!(figure.notes[1].contains("mean over seeds (n = 3)"), "{:?}", figure.notes);
}

/// The step times of the `setting`-th setting's runs.
fn times(frame: &Frame, setting: usize) -> Vec<f64> {
    frame.runs[setting * 3..setting * 3 + 3].iter().filter_map(|r| r.step_time).collect()
}

#[test]
fn what_has_no_result_is_said_and_not_plotted() {
    let frame = edited(found(), |i, run| match i {
        3..=5 => cut(run, 100, failed("out of memory")),
        6 => cut(run, 100, RunState::Interrupted { step: 100 }),
        _ => {}
    });
    let figure = figure(&frame, "ablation");
    assert_eq!(forest(&figure).rows.len(), 6);
    assert!(forest(&figure).rows.iter().all(|r| r.label != "norm rmsnorm"));
    let note = "4 of 21 runs left out: 3 failed (out of memory), 1 not finished yet. Without any result: norm rmsnorm.";
    assert!(figure.notes.contains(&note.to_owned()), "{:?}", figure.notes);
    assert!(figure.notes[1].contains("(n = 2 to 3)"), "{:?}", figure.notes);
}

#[test]
fn without_a_result_of_the_base_nothing_is_compared() {
    let frame = edited(found(), |i, run| {
        if i < 3 {
            cut(run, 100, failed("no"))
        }
    });
    let figure = figure(&frame, "ablation");
    let forest = forest(&figure);
    assert_eq!((forest.level, forest.rows.len(), forest.legend.len()), (None, 6, 0));
    assert!(forest.rows.iter().all(|r| r.cells[1] == "–" && !r.is_head));
    assert!(findings::text(&frame).contains("The base has no result"));
    let none = edited(found(), |i, run| {
        if i > 2 {
            cut(run, 100, failed("no"))
        }
    });
    assert!(figures(&none).iter().all(|f| f.0 != "ablation"), "the base alone is no comparison");
}

#[test]
fn one_seed_has_differences_but_no_verdict() {
    let frame = star(1);
    let figure = figure(&frame, "ablation");
    let forest = forest(&figure);
    assert!(forest.rows.iter().all(|r| r.bar.is_none() && r.dots.is_empty() && r.ink == Ink::Neutral));
    assert!(forest.rows[1].cells[1].len() < 10 && !forest.rows[1].cells[1].contains('±'), "{:?}", forest.rows[1].cells);
    assert!(figure.notes[1].contains("is not known"), "{:?}", figure.notes);
    let text = findings::text(&frame);
    assert!(text.contains("By one seed, so not judged: ") && !text.contains("alone"), "{text}");
}

#[test]
fn more_settings_than_rows_keep_the_best_and_say_so() {
    let frame = star_of_many();
    assert!(frame.base.is_some());
    let figure = figure(&frame, "ablation");
    assert_eq!(forest(&figure).rows.len(), MAX_ROWS);
    assert_eq!(forest(&figure).rows[0].label, "base");
    assert!(figure.notes.iter().any(|n| n.starts_with("7 settings with higher losses")), "{:?}", figure.notes);
}

#[test]
fn the_sentences_say_what_each_switch_does() {
    let text = findings::text(&found());
    for part in [
        "with **all 5 changes**. Next comes position rope with 1.010 ± 0.010",
        "- Base: norm layernorm, position learned, mlp gelu, kv_heads 4, bias true; all 5 changes: norm rmsnorm",
        "The base has 1.310 ± 0.010.",
        "- **all 5 changes** together lower the loss by 0.400 ± 0.023 against the base (±: 95 % confidence interval, Welch's \
         t); one by one they add up to −0.300.",
        "- **position rope** alone lowers it by 0.300 ± 0.023.",
        "- **bias false** alone raises it by 0.100 ± 0.023.",
        "- No difference that seeds would not make: norm rmsnorm (0.000 ±",
        "kv_heads 2 (+0.010 ± 0.023).",
        "3 seeds give but a rough idea",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert!(!text.contains("Over norm"), "{text}");
}

#[test]
fn the_table_begins_with_the_name_and_the_csv_stays() {
    let frame = found();
    let files = files(&frame, PNG).unwrap();
    let page = String::from_utf8(files.into_iter().find(|f| f.0 == "summary.md").unwrap().1).unwrap();
    let rows: Vec<&str> = page.lines().filter(|l| l.starts_with("| ")).collect();
    assert!(rows[0].starts_with("| setting | norm | position |"), "{}", rows[0]);
    for (row, name) in rows[2..].iter().zip(NAMES) {
        assert!(row.starts_with(&format!("| {name} | ")), "{row}");
    }
    assert!(page.contains("](ablation.png)") && !page.contains("loss_vs"), "{page}");
    assert!(csv::csv(&frame).starts_with("id,state,model.norm,"));
}

#[test]
fn throughput_has_a_row_for_each_setting() {
    let figure = figure(&found(), "throughput");
    let forest = forest(&figure);
    assert_eq!(forest.rows.iter().map(|r| r.label.as_str()).collect::<Vec<_>>(), NAMES);
    assert_eq!(forest.x.range.unwrap().0, 0.0, "lengths compare from zero");
    assert!(forest.rows[1].cells[1].starts_with("× "), "{:?}", forest.rows[1].cells);
}
