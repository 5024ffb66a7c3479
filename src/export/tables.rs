//! The two tables: `runs`, a row for each run, and `metrics`, a row for each value. What they have stands here, how it is
//! written in a [`Sheet`].

use std::{borrow::Cow, fs::File, io, path::Path};

use serde_json::Value;

use super::{Meter, Written, folder::Folder};
use crate::{
    base::{Context, Exit, Result, clock::Millis},
    spec::leaf::{self, Leaf},
    store::{RunRow, Store},
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unicode.
    Text,
    /// A whole number.
    Integer,
    /// Any number, NaN and infinities among them.
    Float,
    /// True or false.
    Bool,
    /// A moment.
    Time,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a row may have nothing in it.
    pub is_optional: bool,
}

/// What a row has in a column: nothing, or a value of the column's kind.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // as the kinds
pub enum Cell<'a> {
    None,
    Text(Cow<'a, str>),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Time(Millis),
}

/// A table that is being written.
pub trait Sheet: Sized {
    /// What its file's name ends with.
    const EXTENSION: &str;

    /// Begins one with these columns.
    fn new(file: File, columns: &[Column]) -> io::Result<Self>;

    /// Adds a row, which has a cell for each column.
    fn row(&mut self, cells: &[Cell]) -> io::Result<()>;

    /// Writes what is left, durably.
    fn finish(self) -> io::Result<()>;
}

/// Writes both tables.
pub fn write<S: Sheet>(store: &Store, rows: &[RunRow], folder: &mut Folder, meter: &Meter) -> Result<Written> {
    let mut runs = Table::<S>::begin(folder, "runs", &run_columns())?;
    rows.iter().try_for_each(|row| runs.row(&run_cells(row)))?;
    runs.finish()?;

    let mut metrics = Table::<S>::begin(folder, "metrics", &METRICS)?;
    let mut points = 0;
    for (place, row) in rows.iter().enumerate() {
        let (id, names) = (row.id.to_string(), store.metric_names(&row.id)?);
        for (done, name) in names.iter().enumerate() {
            meter.at(place, done as f64 / names.len() as f64);
            store.try_each_point(&row.id, name, |point| {
                points += 1;
                metrics.row(&[
                    text(Some(&id)),
                    text(Some(name)),
                    integer(point.step),
                    Cell::Float(point.value),
                    Cell::Integer(point.attempt.into()),
                ])
            })?;
        }
    }
    metrics.finish()?;
    Ok(Written { runs: rows.len(), points })
}

/// A sheet, and what to say where it cannot be written.
struct Table<S> {
    sheet: S,
    doing: String,
}

impl<S: Sheet> Table<S> {
    fn begin(folder: &mut Folder, name: &str, columns: &[Column]) -> Result<Self> {
        let name = format!("{name}.{}", S::EXTENSION);
        let file = folder.create(Path::new(&name))?;
        let doing = folder.doing(Path::new(&name));
        Ok(Self { sheet: S::new(file, columns).doing(Exit::Store, || doing.clone())?, doing })
    }

    fn row(&mut self, cells: &[Cell]) -> Result<()> {
        self.sheet.row(cells).doing(Exit::Store, || self.doing.clone())
    }

    fn finish(self) -> Result<()> {
        self.sheet.finish().doing(Exit::Store, || self.doing)
    }
}

const METRICS: [Column; 5] = [
    Column { name: "run", kind: Kind::Text, is_optional: false },
    Column { name: "name", kind: Kind::Text, is_optional: false },
    Column { name: "step", kind: Kind::Integer, is_optional: false },
    Column { name: "value", kind: Kind::Float, is_optional: false },
    Column { name: "attempt", kind: Kind::Integer, is_optional: false },
];

/// A column of `runs` that is no setting, and its cell of a run.
type Field = (Column, fn(&RunRow) -> Cell);

const fn field(name: &'static str, kind: Kind, cell: fn(&RunRow) -> Cell) -> Field {
    (Column { name, kind, is_optional: true }, cell)
}

const fn required(name: &'static str, kind: Kind, cell: fn(&RunRow) -> Cell) -> Field {
    (Column { name, kind, is_optional: false }, cell)
}

const FIELDS: &[Field] = &[
    required("id", Kind::Text, |r| Cell::Text(r.id.to_string().into())),
    field("experiment", Kind::Text, |r| text(r.experiments.first().map(String::as_str))),
    field("tags", Kind::Text, |r| match r.tags.join(", ") {
        tags if tags.is_empty() => Cell::None,
        tags => Cell::Text(tags.into()),
    }),
    required("state", Kind::Text, |r| Cell::Text(r.state.word().into())),
    field("why", Kind::Text, |r| text(r.state.why())),
    required("step", Kind::Integer, |r| integer(r.step)),
    field("best_val_loss", Kind::Float, |r| float(r.best.map(|(_, loss)| loss))),
    field("best_step", Kind::Integer, |r| r.best.map_or(Cell::None, |(step, _)| integer(step))),
    field("last_val_loss", Kind::Float, |r| float(r.last_val_loss)),
    field("bits_per_char", Kind::Float, |r| float(r.bits_per_char())),
    field("tokens_per_second", Kind::Float, |r| float(r.tokens_per_second)),
    field("params", Kind::Integer, |r| r.ready.as_ref().map_or(Cell::None, |ready| integer(ready.params))),
    required("attempts", Kind::Integer, |r| Cell::Integer(r.attempts.into())),
    required("created", Kind::Time, |r| Cell::Time(r.created)),
];

/// The columns of `runs`: what became of the run, then its settings by their paths.
fn run_columns() -> Vec<Column> {
    let setting = |leaf: &Leaf| Column { name: leaf.path, kind: kind(leaf), is_optional: true };
    FIELDS.iter().map(|(column, _)| *column).chain(leaf::all().iter().map(setting)).collect()
}

fn run_cells(row: &RunRow) -> Vec<Cell<'_>> {
    let settings = leaf::all().iter().map(|leaf| cell(leaf.get(&row.config), kind(leaf)));
    FIELDS.iter().map(|(_, cell)| cell(row)).chain(settings).collect()
}

/// What the column of a setting holds.
fn kind(leaf: &Leaf) -> Kind {
    match leaf.kind {
        crate::spec::Kind::Integer { .. } => Kind::Integer,
        crate::spec::Kind::Number(..) => Kind::Float,
        crate::spec::Kind::Bool => Kind::Bool,
        _ => Kind::Text,
    }
}

fn cell(value: Value, kind: Kind) -> Cell<'static> {
    match (value, kind) {
        (Value::Bool(flag), _) => Cell::Bool(flag),
        (Value::String(text), _) => Cell::Text(text.into()),
        (Value::Number(n), Kind::Integer) => n.as_u64().map_or(Cell::None, integer),
        (Value::Number(n), _) => float(n.as_f64()),
        _ => Cell::None,
    }
}

fn text(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::None, |text| Cell::Text(text.into()))
}

fn float<'a>(x: Option<f64>) -> Cell<'a> {
    x.map_or(Cell::None, Cell::Float)
}

/// Steps and counts never come near the limit of what all programs read.
fn integer<'a>(x: u64) -> Cell<'a> {
    Cell::Integer(i64::try_from(x).unwrap_or(i64::MAX))
}
