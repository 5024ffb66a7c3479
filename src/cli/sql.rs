//! `exp sql QUERY`: a question to the index.

use serde_json::{Map, Value};

use super::needed_store;
use crate::{
    base::{Error, Exit, Result, csv, folders::Root},
    store::Answer,
    ui::{
        self,
        table::{self, numbers, words},
    },
};

/// Arguments of `exp sql`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A SELECT over the views run, setting, metric, attempt, member, artifact, tag
    query: String,

    /// Print JSON: a list of objects
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV (RFC 4180)
    #[arg(long)]
    csv: bool,
}

/// Runs the command.
pub fn run(root: &Root, args: &Args) -> Result<Exit> {
    let answer = needed_store(root)?.ask(&args.query)?;
    if args.json {
        named_apart(&answer.columns)?;
        ui::print_json(&answer.rows.iter().map(|row| object(&answer.columns, row)).collect());
    } else if args.csv {
        ui::print(&csv(&answer));
    } else {
        ui::print(&table(&answer));
    }
    Ok(Exit::Done)
}

/// An object has each name once.
fn named_apart(columns: &[String]) -> Result<()> {
    let twice = columns.iter().enumerate().find(|(i, name)| columns[..*i].contains(name));
    twice.map_or(Ok(()), |(_, name)| {
        Err(Error::new(Exit::Usage, "writing the answer as JSON", format!("two of its columns are called {name:?}"))
            .hint("name them in the query: SELECT a.id AS a, b.id AS b"))
    })
}

fn object(columns: &[String], row: &[Value]) -> Value {
    columns.iter().cloned().zip(row.iter().cloned()).collect::<Map<_, _>>().into()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn table(Answer { columns, rows }: &Answer) -> String {
    let is_number = |i: usize| rows.iter().all(|row| row[i].is_number() || row[i].is_null());
    let heads = columns.iter().enumerate().map(|(i, name)| if is_number(i) { numbers(name) } else { words(name) });
    // A line's end within a cell would break the table.
    let cell = |value: &Value| plain(value).replace(['\n', '\r', '\t'], " ");
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    table::render(&heads.collect::<Vec<_>>(), &rows)
}

fn csv(Answer { columns, rows }: &Answer) -> String {
    let rows = rows.iter().map(|row| csv::line(row.iter().map(plain)));
    csv::line(columns.iter().cloned()) + &rows.collect::<String>()
}
