//! People's own questions to the index, in SQL and never more than questions.

use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::Value;

use super::{Store, failed, schema};
use crate::base::{Error, Exit, Result};

/// What a question begins with; all else changes something, if only for a moment.
const QUESTIONS: [&str; 4] = ["select", "with", "values", "explain"];

/// How large an answer may be, in bytes.
const LARGEST: usize = 1 << 28;

/// The answer to a question.
#[derive(Debug)]
pub struct Answer {
    /// What its columns are called.
    pub columns: Vec<String>,
    /// Its rows; bytes are shown in hex.
    pub rows: Vec<Vec<Value>>,
}

impl Store {
    /// Answers a question, over a connection that cannot change anything.
    ///
    /// # Errors
    /// [`Exit::Usage`] where it is none, or SQLite does not understand it; [`Exit::Store`] where the index cannot be read.
    pub fn ask(&self, question: &str) -> Result<Answer> {
        let refused = |why: String| Error::new(Exit::Usage, "asking the index", why).hint(VIEWS);
        let begins = question.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let begins = begins.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if !QUESTIONS.contains(&begins.to_lowercase().as_str()) {
            return Err(refused(
                "only questions can be asked, which begin with SELECT, WITH, VALUES or EXPLAIN".into(),
            ));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // A path that begins like a URI is none.
        let (name, flags) = match self.read_only {
            true => (schema::immutable_uri(&self.path), flags | OpenFlags::SQLITE_OPEN_URI),
            false => (schema::plain_name(&self.path), flags),
        };
        let open = || {
            let connection = Connection::open_with_flags(name, flags)?;
            connection.busy_timeout(super::PATIENCE)?;
            connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF")?;
            Ok(connection)
        };
        let connection = open().map_err(|e| failed("opening", &self.path, e))?;
        let answer = || {
            let mut statement = connection.prepare(question)?;
            let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
            let mut found = statement.query([])?;
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while let Some(row) = found.next()? {
                bytes += (0..columns.len()).map(|i| size(row.get_ref(i).unwrap_or(ValueRef::Null))).sum::<usize>();
                if bytes > LARGEST {
                    return Ok(Err(refused(format!("the answer has more than {} rows, too many to hold", rows.len()))));
                }
                rows.push((0..columns.len()).map(|i| Ok(json(row.get_ref(i)?))).collect::<rusqlite::Result<_>>()?);
            }
            Ok(Ok(Answer { columns, rows }))
        };
        let answered: rusqlite::Result<Result<Answer>> = answer();
        answered.unwrap_or_else(|e| {
            Err(match e {
                rusqlite::Error::SqlInputError { msg, .. } => refused(msg),
                rusqlite::Error::MultipleStatement => refused("it is more than one statement".into()),
                e if super::is_damage(&e) => failed("reading", &self.path, e),
                e => refused(e.to_string()),
            })
        })
    }
}

/// What there is to ask, for hints.
const VIEWS: &str = "there are run, setting, metric, attempt, member, artifact, tag: README has their columns; `SELECT id, best_val_loss FROM run` asks one";

/// About how much memory a value takes in an answer.
fn size(value: ValueRef) -> usize {
    let text = match value {
        ValueRef::Text(bytes) => bytes.len(),
        ValueRef::Blob(bytes) => 2 * bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + text
}

fn json(value: ValueRef) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => n.into(),
        ValueRef::Real(x) => crate::base::num::json(x),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}
