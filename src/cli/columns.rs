//! What of a run a list can show, be sorted and filtered by: its settings, and what became of it.

use crate::{
    base::clock,
    event::IMPORT,
    spec::{
        expr::{Field, Kind, Leaves, Names, Value},
        leaf, nearest,
    },
    store::RunRow,
    ui::format,
};

/// Something of a run that is no setting.
pub struct Column {
    /// What it is called.
    pub name: &'static str,
    /// Of what kind it is.
    pub kind: Kind,
    /// Its value.
    pub value: fn(&RunRow) -> Value,
    /// How a table shows it.
    show: fn(&RunRow) -> String,
}

const STATES: &[&str] = &["queued", "running", "done", "failed", "interrupted", "paused", "skipped"];

/// All of them.
pub static COLUMNS: &[Column] = &[
    Column {
        name: "id",
        kind: Kind::Text,
        value: |r| Value::Text(r.id.to_string()),
        show: |r| r.id.short().to_string(),
    },
    Column {
        name: "experiment",
        kind: Kind::Text,
        value: |r| text(r.experiments.first()),
        show: |r| first(&r.experiments),
    },
    Column {
        name: "experiments",
        kind: Kind::List,
        value: |r| Value::List(r.experiments.clone()),
        show: |r| r.experiments.join(", "),
    },
    Column { name: "tags", kind: Kind::List, value: |r| Value::List(r.tags.clone()), show: |r| r.tags.join(", ") },
    Column {
        name: "state",
        kind: Kind::Text,
        value: |r| Value::Text(r.state.word().into()),
        show: |r| r.state.word().into(),
    },
    Column {
        name: "why",
        kind: Kind::Text,
        value: |r| text(r.state.why()),
        show: |r| format::short(r.state.why().unwrap_or("–"), 60),
    },
    Column { name: "step", kind: Kind::Number, value: |r| Value::Number(r.step as f64), show: |r| r.step.to_string() },
    Column {
        name: "best_val_loss",
        kind: Kind::Number,
        value: |r| number(r.best.map(|b| b.1)),
        show: |r| format::loss(r.best.map(|b| b.1)),
    },
    Column {
        name: "best_step",
        kind: Kind::Number,
        value: |r| number(r.best.map(|b| b.0 as f64)),
        show: |r| dash(r.best.map(|b| b.0.to_string())),
    },
    Column {
        name: "last_val_loss",
        kind: Kind::Number,
        value: |r| number(r.last_val_loss),
        show: |r| format::loss(r.last_val_loss),
    },
    Column {
        name: "bits_per_char",
        kind: Kind::Number,
        value: |r| number(r.bits_per_char()),
        show: |r| dash(r.bits_per_char().map(|b| format!("{b:.3}"))),
    },
    Column {
        name: "tokens_per_second",
        kind: Kind::Number,
        value: |r| number(r.tokens_per_second),
        show: |r| dash(r.tokens_per_second.map(format::count)),
    },
    Column {
        name: "params",
        kind: Kind::Number,
        value: |r| number(params(r)),
        show: |r| dash(params(r).map(format::count)),
    },
    Column {
        name: "vocab_size",
        kind: Kind::Number,
        value: |r| number(r.ready.as_ref().map(|x| x.vocab_size as f64)),
        show: |r| dash(r.ready.as_ref().map(|x| x.vocab_size.to_string())),
    },
    Column {
        name: "attempts",
        kind: Kind::Number,
        value: |r| Value::Number(r.attempts.into()),
        show: |r| r.attempts.to_string(),
    },
    Column {
        name: "imported",
        kind: Kind::Bool,
        value: |r| Value::Bool(is_imported(r)),
        show: |r| is_imported(r).to_string(),
    },
    Column {
        name: "created",
        kind: Kind::Text,
        value: |r| Value::Text(clock::local(r.created)),
        show: |r| clock::local(r.created),
    },
];

/// What a name of a list of runs stands for.
#[derive(Clone, Copy)]
pub enum Shown {
    /// What became of the run.
    Column(&'static Column),
    /// A setting.
    Leaf(&'static leaf::Leaf, Field),
}

/// The names that a list of runs knows.
pub struct Columns;

impl Columns {
    /// What a name stands for; otherwise what is wrong, and what to do.
    pub fn look_up(name: &str) -> Result<Shown, (String, Option<String>)> {
        if let Some(column) = COLUMNS.iter().find(|column| column.name == name) {
            return Ok(Shown::Column(column));
        }
        Leaves.find(name).map(|field| Shown::Leaf(&leaf::all()[field.index], field)).map_err(|(why, hint)| {
            let near = nearest(name, COLUMNS.iter().map(|column| column.name));
            (why, near.map(|near| format!("did you mean `{near}`?")).or(hint).or_else(|| Some(all())))
        })
    }

    /// The value of a field of [`Names::find`] for a run.
    pub fn value(index: usize, run: &RunRow) -> Value {
        match index.checked_sub(leaf::all().len()) {
            Some(column) => (COLUMNS[column].value)(run),
            None => Leaves::value(index, &run.config),
        }
    }
}

impl Names for Columns {
    fn find(&self, name: &str) -> Result<Field, (String, Option<String>)> {
        Ok(match Self::look_up(name)? {
            Shown::Leaf(_, field) => field,
            Shown::Column(column) => {
                let position = COLUMNS.iter().position(|c| c.name == column.name).unwrap_or_default();
                let words = if column.name == "state" { STATES } else { &[] };
                Field { index: leaf::all().len() + position, kind: column.kind, words }
            }
        })
    }
}

impl Shown {
    /// Its value for a run.
    pub fn value(self, run: &RunRow) -> Value {
        match self {
            Self::Column(column) => (column.value)(run),
            Self::Leaf(_, field) => Leaves::value(field.index, &run.config),
        }
    }

    /// How a table shows it.
    pub fn show(self, run: &RunRow) -> String {
        match self {
            Self::Column(column) => (column.show)(run),
            Self::Leaf(leaf, _) => format::short(&format::value(&leaf.get(&run.config)), 24),
        }
    }

    /// Of what kind it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Column(column) => column.kind,
            Self::Leaf(_, field) => field.kind,
        }
    }
}

/// The names that there are, for hints.
fn all() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    format!("there are {}, and every setting", names.join(", "))
}

fn text(text: Option<impl Into<String>>) -> Value {
    text.map_or(Value::None, |text| Value::Text(text.into()))
}

fn number(number: Option<f64>) -> Value {
    number.map_or(Value::None, Value::Number)
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

fn first(names: &[String]) -> String {
    names.first().cloned().unwrap_or_default()
}

fn params(r: &RunRow) -> Option<f64> {
    r.ready.as_ref().map(|ready| ready.params as f64)
}

/// Whether its weights were trained by another program.
pub fn is_imported(r: &RunRow) -> bool {
    r.ready.as_ref().is_some_and(|ready| ready.engine == IMPORT)
}
