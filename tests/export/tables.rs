//! The three kinds of tables say what the store says, value by value.

use std::{collections::BTreeMap, fs, fs::File, path::Path};

use exp::store::{RunRow, Store};
use parquet::{
    basic::{ConvertedType, Type},
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use serde_json::Value;

use crate::{exported, lab, made};

/// A row: what each column has, as CSV writes it.
type Row = BTreeMap<String, String>;

/// With as many digits as bring back the same bits, or a word.
fn number(x: f64) -> String {
    if x.is_finite() { format!("{x:?}") } else { x.to_string().to_lowercase() }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap()),
        other => other.to_string(),
    }
}

/// The rows of `runs`, from what the store answers.
fn runs(store: &Store, experiment: &str) -> Vec<Row> {
    let row = |r: &RunRow| {
        let optional = |x: Option<f64>| x.map_or(String::new(), number);
        let ready = r.ready.as_ref();
        let bits = r.best.zip(ready).map(|((_, loss), ready)| loss / std::f64::consts::LN_2 / ready.chars_per_token);
        let created = jiff::Timestamp::from_millisecond(r.created).unwrap();
        let named = [
            ("id", r.id.to_string()),
            ("experiment", experiment.to_owned()),
            ("tags", r.tags.join(", ")),
            ("state", r.state.word().to_owned()),
            ("why", r.state.why().unwrap_or_default().to_owned()),
            ("step", r.step.to_string()),
            ("best_val_loss", optional(r.best.map(|(_, loss)| loss))),
            ("best_step", r.best.map_or(String::new(), |(step, _)| step.to_string())),
            ("last_val_loss", optional(r.last_val_loss)),
            ("bits_per_char", optional(bits)),
            ("tokens_per_second", optional(r.tokens_per_second)),
            ("params", ready.map_or(String::new(), |ready| ready.params.to_string())),
            ("attempts", r.attempts.to_string()),
            ("created", created.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()),
        ];
        let named = named.map(|(name, text)| (name.to_owned(), text)).into_iter();
        named.chain(r.config.leaves().into_iter().map(|(path, value)| (path, plain(&value)))).collect()
    };
    store.runs(Some(experiment)).unwrap().iter().map(row).collect()
}

/// The rows of `metrics`.
fn metrics(store: &Store, experiment: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in store.runs(Some(experiment)).unwrap() {
        for name in store.metrics(&run.id).unwrap().into_keys() {
            for point in store.curve(&run.id, &name).unwrap() {
                let cells = [
                    ("run", run.id.to_string()),
                    ("name", name.clone()),
                    ("step", point.step.to_string()),
                    ("value", number(point.value)),
                    ("attempt", point.attempt.to_string()),
                ];
                rows.push(cells.map(|(name, text)| (name.to_owned(), text)).into_iter().collect());
            }
        }
    }
    rows
}

/// RFC 4180, letter by letter.
fn read_csv(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap();
    let (mut lines, mut line, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.push(letters.next().unwrap()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                line.push(std::mem::take(&mut cell));
                lines.push(std::mem::take(&mut line));
            }
            other => cell.push(other),
        }
    }
    assert!(line.is_empty() && cell.is_empty() && !is_quoted, "the last line ends");
    let names = lines.remove(0);
    assert!(lines.iter().all(|line| line.len() == names.len()));
    lines.into_iter().map(|line| names.iter().cloned().zip(line).collect()).collect()
}

fn read_jsonl(path: &Path) -> Vec<Row> {
    let row = |line: &str| {
        let row: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        row.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
    };
    fs::read_to_string(path).unwrap().lines().map(row).collect()
}

fn read_parquet(path: &Path) -> Vec<Row> {
    let cell = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(n) => n.to_string(),
        Field::Double(x) => number(*x),
        Field::Bool(flag) => flag.to_string(),
        Field::TimestampMillis(at) => {
            jiff::Timestamp::from_millisecond(*at).unwrap().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
        }
        other => panic!("{other:?}"),
    };
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = file.get_row_iter(None).unwrap().map(Result::unwrap);
    rows.map(|row| row.get_column_iter().map(|(name, field)| (name.clone(), cell(field))).collect()).collect()
}

/// How a table is read back.
type Read = fn(&Path) -> Vec<Row>;

const FORMATS: [(&str, Read); 3] = [("csv", read_csv), ("jsonl", read_jsonl), ("parquet", read_parquet)];

#[test]
fn tables_say_what_the_store_says() {
    let (home, lab, _) = made();
    let store = lab.store();
    let (runs, metrics) = (runs(&store, "sweep"), metrics(&store, "sweep"));
    let values: Vec<&str> = metrics.iter().map(|row| row["value"].as_str()).collect();
    for value in ["nan", "inf", "-inf", "1e-300", "-0.0", "0.30000000000000004"] {
        assert!(values.contains(&value), "{value}");
    }
    assert_eq!(runs.iter().map(|row| row["state"].as_str()).collect::<Vec<_>>(), ["done", "failed", "queued"]);
    assert_eq!(
        (runs[0]["params"].as_str(), runs[1]["why"].as_str()),
        ("9007199254740993", "it said \"no\",\nand left")
    );
    for (format, read) in FORMATS {
        let to = home.root.path().join(format);
        exported(&lab, &["sweep", "--format", format], &to);
        assert_eq!(read(&to.join(format!("runs.{format}"))), runs, "{format}");
        assert_eq!(read(&to.join(format!("metrics.{format}"))), metrics, "{format}");
    }
    let head = fs::read_to_string(home.root.path().join("csv/runs.csv")).unwrap();
    assert!(head.starts_with("id,experiment,tags,state,why,step,best_val_loss,"), "{head}");
}

#[test]
fn columns_of_parquet_have_their_types_whatever_is_in_them() {
    let (home, lab, ids) = made();
    let to = home.root.path().join("out");
    exported(&lab, &[&ids[2].to_string(), "--format", "parquet"], &to); // nothing is known of it
    let types = |table: &str| -> BTreeMap<String, (Type, ConvertedType, bool)> {
        let file = SerializedFileReader::new(File::open(to.join(table)).unwrap()).unwrap();
        let columns = file.metadata().file_metadata().schema_descr().columns().to_vec();
        let kind =
            |c: &parquet::schema::types::ColumnDescPtr| (c.physical_type(), c.converted_type(), c.max_def_level() > 0);
        columns.iter().map(|column| (column.name().to_owned(), kind(column))).collect()
    };
    let runs = types("runs.parquet");
    for (name, kind) in [
        ("id", (Type::BYTE_ARRAY, ConvertedType::UTF8, false)),
        ("why", (Type::BYTE_ARRAY, ConvertedType::UTF8, true)),
        ("step", (Type::INT64, ConvertedType::NONE, false)),
        ("best_val_loss", (Type::DOUBLE, ConvertedType::NONE, true)),
        ("created", (Type::INT64, ConvertedType::TIMESTAMP_MILLIS, false)),
        ("model.layers", (Type::INT64, ConvertedType::NONE, true)),
        ("model.bias", (Type::BOOLEAN, ConvertedType::NONE, true)),
        ("train.lr", (Type::DOUBLE, ConvertedType::NONE, true)),
        ("sample.every", (Type::INT64, ConvertedType::NONE, true)),
        ("sample.prompt", (Type::BYTE_ARRAY, ConvertedType::UTF8, true)),
    ] {
        assert_eq!(runs[name], kind, "{name}");
    }
    let metrics = types("metrics.parquet");
    assert_eq!(metrics["value"], (Type::DOUBLE, ConvertedType::NONE, false));
    assert_eq!(metrics["step"], (Type::INT64, ConvertedType::NONE, false));
    assert_eq!(read_parquet(&to.join("metrics.parquet")), [] as [Row; 0]);
}

#[test]
fn more_rows_than_a_group_of_parquet_has_are_all_there() {
    const STEPS: u64 = 250_000;
    let (home, lab, ids) = made();
    let index = rusqlite::Connection::open(home.root.database()).unwrap();
    index
        .execute(
            "WITH RECURSIVE steps (step) AS (SELECT 10 UNION ALL SELECT step + 1 FROM steps WHERE step < ?2)
             INSERT INTO metrics (run, name, step, attempt, value)
             SELECT (SELECT run FROM runs WHERE id = ?1),
                    (SELECT name FROM metric_names WHERE text = 'train/loss'), step, 2, step / 3.0
             FROM steps",
            (ids[0].to_string(), STEPS as i64),
        )
        .unwrap();
    drop(index);
    let to = home.root.path().join("out");
    exported(&lab, &[&ids[0].to_string(), "--format", "parquet"], &to);
    let file = SerializedFileReader::new(File::open(to.join("metrics.parquet")).unwrap()).unwrap();
    assert!(file.num_row_groups() > 1);
    let mut step = 9;
    for row in file.get_row_iter(None).unwrap().map(Result::unwrap) {
        let cells: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
        if let (Field::Str(name), &Field::Long(at), &Field::Double(value)) = (cells[1], cells[2], cells[3])
            && name == "train/loss"
            && at > 9
        {
            step += 1;
            assert_eq!((at, value), (step, step as f64 / 3.0));
        }
    }
    assert_eq!(step, STEPS as i64);
}

#[test]
fn runs_are_chosen_by_names_and_a_condition_each_once() {
    let (home, lab, ids) = made();
    let names = |arguments: &[&str], to: &str| -> Vec<String> {
        let to = home.root.path().join(to);
        exported(&lab, &[arguments, &["--format", "csv"]].concat(), &to);
        read_csv(&to.join("runs.csv")).into_iter().map(|row| row["id"].clone()).collect()
    };
    let id = |n: usize| ids[n].to_string();
    assert_eq!(names(&[&id(1)[..8], "sweep"], "a"), [id(1), id(0), id(2)]);
    assert_eq!(names(&["sweep", "--filter", "state == failed or train.lr < 1e-4"], "b"), [id(0), id(1)]);
    let nothing = lab.exp(&["export", "sweep", "--format", "csv", "--filter", "step > 9", "c"]).output().unwrap();
    let (code, said) = lab::answer(nothing);
    assert!(code == Some(2) && said.contains("there is no such run") && !Path::new("c").exists(), "{said}");
}
