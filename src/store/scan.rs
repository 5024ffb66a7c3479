//! Reads the index in bulk, for other programs: points come one after the other as they lie there, so that memory does not
//! grow with how many there are.

use rusqlite::{Row, Rows, named_params};

use super::{
    Store,
    columns::{Float, unsigned},
    failed,
    rows::Point,
};
use crate::base::{Result, RunId};

/// A curve in the order of its key: nothing is sorted.
const CURVE: &str = "
SELECT step, value, attempt
FROM metrics
WHERE run = (SELECT run FROM runs WHERE id = :id) AND name = (SELECT name FROM metric_names WHERE text = :name)
ORDER BY step";

impl Store {
    /// Has all questions of `ask` answered from one moment, whoever writes meanwhile.
    ///
    /// # Errors
    /// Where the index cannot be read, and those of `ask`.
    pub fn at_one_moment<T>(&self, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        let moment = self.connection.unchecked_transaction().map_err(|e| failed("reading", &self.path, e))?;
        let answer = ask();
        drop(moment); // it has nothing to commit
        answer
    }

    /// The names of the metrics that a run has, sorted.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn metric_names(&self, id: &RunId) -> Result<Vec<String>> {
        self.read(|index| {
            index
                .prepare_cached(
                    "SELECT text
                     FROM metric_names
                     WHERE EXISTS (SELECT 1 FROM metrics
                                   WHERE run = (SELECT run FROM runs WHERE id = ?1) AND name = metric_names.name)
                     ORDER BY text",
                )?
                .query_map([id.to_string()], |row| row.get(0))?
                .collect()
        })
    }

    /// Hands over the points of one metric of a run in ascending steps.
    ///
    /// # Errors
    /// Where the index cannot be read, and those of `take`, which end it.
    pub fn try_each_point(&self, id: &RunId, name: &str, mut take: impl FnMut(Point) -> Result<()>) -> Result<()> {
        self.read(|index| {
            let mut statement = index.prepare_cached(CURVE)?;
            let mut rows = statement.query(named_params! { ":id": id.to_string(), ":name": name })?;
            while let Some(row) = rows.next()? {
                if let Err(error) = take(point(row)?) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?
    }

    /// Hands over the points of several metrics of a run step by step: the step, and for each metric that has a point
    /// there its place in `names` and that point.
    ///
    /// # Errors
    /// As [`Store::try_each_point`].
    pub fn try_each_step(
        &self,
        id: &RunId,
        names: &[String],
        mut take: impl FnMut(u64, &[(usize, Point)]) -> Result<()>,
    ) -> Result<()> {
        self.read(|index| {
            let mut statements = names.iter().map(|_| index.prepare(CURVE)).collect::<rusqlite::Result<Vec<_>>>()?;
            let mut curves = Vec::new();
            for (statement, name) in statements.iter_mut().zip(names) {
                curves.push(Curve::new(statement.query(named_params! { ":id": id.to_string(), ":name": name })?)?);
            }
            let mut points = Vec::new();
            while let Some(step) = curves.iter().filter_map(|curve| Some(curve.next?.step)).min() {
                points.clear();
                for (place, curve) in curves.iter_mut().enumerate() {
                    if let Some(point) = curve.next.filter(|point| point.step == step) {
                        points.push((place, point));
                        curve.advance()?;
                    }
                }
                if let Err(error) = take(step, &points) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?
    }
}

/// A curve that is being read, and its next point.
struct Curve<'a> {
    rows: Rows<'a>,
    next: Option<Point>,
}

impl<'a> Curve<'a> {
    fn new(rows: Rows<'a>) -> rusqlite::Result<Self> {
        let mut curve = Self { rows, next: None };
        curve.advance()?;
        Ok(curve)
    }

    fn advance(&mut self) -> rusqlite::Result<()> {
        self.next = self.rows.next()?.map(point).transpose()?;
        Ok(())
    }
}

fn point(row: &Row) -> rusqlite::Result<Point> {
    let Float(value) = row.get("value")?;
    Ok(Point { step: unsigned(row, "step")?, value, attempt: row.get("attempt")? })
}
