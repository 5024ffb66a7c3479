//! A table as CSV (RFC 4180): numbers with as many digits as bring back the same bits, words for what is not finite, nothing
//! for what is not there.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufWriter, Write},
};

use super::tables::{Cell, Column, Sheet};
use crate::base::{clock, csv, num};

/// A table that is being written.
pub struct Csv {
    out: BufWriter<File>,
    line: String,
}

impl Sheet for Csv {
    const EXTENSION: &str = "csv";

    fn new(file: File, columns: &[Column]) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        out.write_all(csv::line(columns.iter().map(|column| column.name.to_owned())).as_bytes())?;
        Ok(Self { out, line: String::new() })
    }

    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        self.line.clear();
        for (place, cell) in cells.iter().enumerate() {
            if place > 0 {
                self.line.push(',');
            }
            push(&mut self.line, cell).map_err(io::Error::other)?;
        }
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(self) -> io::Result<()> {
        self.out.into_inner()?.sync_all()
    }
}

fn push(line: &mut String, cell: &Cell) -> std::fmt::Result {
    match cell {
        Cell::None => Ok(()),
        Cell::Text(text) => line.write_str(&csv::quoted(text)),
        Cell::Integer(n) => write!(line, "{n}"),
        Cell::Float(x) => match num::word(*x) {
            Some(word) => line.write_str(word),
            None => write!(line, "{x:?}"), // unlike `{}`, it has an exponent where that is shorter
        },
        Cell::Bool(flag) => write!(line, "{flag}"),
        Cell::Time(at) => line.write_str(&clock::utc(*at)),
    }
}
