//! The page and the table.

use super::{
    super::{csv::csv, files},
    *,
};

fn page(frame: &Frame) -> String {
    let files = files(frame, PNG).unwrap();
    String::from_utf8(files.into_iter().find(|f| f.0 == "summary.md").unwrap().1).unwrap()
}

/// The cells of a line of a Markdown table.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn a_setting_has_one_row_with_mean_and_spread() {
    let page = page(&depths());
    let table: Vec<_> = page.lines().filter(|l| l.starts_with('|')).map(cells).collect();
    let head = [
        "layers",
        "seeds",
        "parameters",
        "FLOPs/token",
        "best val loss (nats per character)",
        "at step",
        "bits per char",
        "tokens/s",
        "ms/step",
        "state",
    ];
    assert_eq!(table[0], head);
    assert_eq!(table.len(), 2 + 3);
    assert_eq!(table[4][..4], ["8", "3", "1.60 M", "9.60 M"]);
    assert!(table[4][4].starts_with("1.6424 ± 0.00") && table[4][9] == "done", "{:?}", table[4]);
    for name in ["loss_vs_depth.png", "learning_curves.png", "throughput.png"] {
        assert!(page.contains(&format!("]({name})")));
    }
}

#[test]
fn without_seeds_a_run_has_one_row_with_its_id() {
    let frame = grid("s", &[("model.layers", values(&[2, 4]))], 1, &[]);
    let page = page(&frame);
    let rows: Vec<_> = page.lines().filter(|l| l.starts_with("| `")).map(cells).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0][0], format!("`{}`", frame.runs[0].name));
}

#[test]
fn what_failed_is_told_with_its_reason() {
    let frame = edited(depths(), |i, run| match i {
        0 => cut(run, 200, failed("it has a | and\na new line")),
        1 => cut(run, 300, RunState::Interrupted { step: 300 }),
        3..=5 => run.row.last_val_loss = Some(f64::INFINITY),
        _ => {}
    });
    let page = page(&frame);
    assert!(page.contains("## Without a result: 4 runs"), "{page}");
    assert!(page.contains("(2 layers, seed 1) failed: it has a \\| and a new line\n"), "{page}");
    assert!(page.contains("(4 layers, seed 1) diverged: its last validation loss is inf\n"), "{page}");
    assert!(page.contains("| 1 failed, 1 interrupted, 1 done |"), "{page}");
    assert!(page.contains("| 4 | 3 | 800,000 | 4.80 M | – | – | – |"), "{page}");
}

#[test]
fn the_csv_has_one_row_a_run_and_quotes_what_it_must() {
    let paths = ("data.path", values(&["plain.txt", "with, comma and \"quotes\".txt"]));
    let frame = edited(grid("s", &[paths], 2, &[("data.corpus", json!("text"))]), |i, run| {
        if i == 1 {
            run.row.last_val_loss = Some(f64::NAN);
        }
        if i == 2 {
            cut(run, 0, RunState::Queued);
        }
    });
    let text = csv(&frame);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "id,state,data.path,train.seed,params,steps,best_val_loss,best_step,last_val_loss,bits_per_char,\
         tokens_per_second,step_ms,attempts"
    );
    assert_eq!(lines.len(), 5);
    let run = &frame.runs[0].row;
    assert!(lines[1].starts_with(&format!("{},done,plain.txt,1,800000,500,{},500,", run.id, run.best.unwrap().1)));
    assert_eq!(lines[2].split(',').nth(8), Some("nan"));
    let queued = format!("{},queued,\"with, comma and \"\"quotes\"\".txt\",1,,0,,,,,,,1", frame.runs[2].row.id);
    assert_eq!(lines[3], queued);
}

#[test]
fn an_experiment_without_any_data_is_an_error_that_says_why() {
    let frame = edited(depths(), |_, run| cut(run, 0, failed("the corpus is gone")));
    let frame = edited(frame, |_, run| run.val.clear());
    let error = files(&frame, PNG).unwrap_err();
    assert!(error.to_string().contains("depth_sweep") && error.to_string().contains("the corpus is gone"), "{error}");
    assert!(error.hint.unwrap().starts_with("`exp logs "));
}
