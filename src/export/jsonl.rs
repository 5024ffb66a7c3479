//! A table as JSON lines: an object for each row, with every column. What is not finite is a word, as everywhere.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use super::tables::{Cell, Column, Sheet};
use crate::base::{clock, num};

/// A table that is being written.
pub struct Jsonl {
    out: BufWriter<File>,
    names: Vec<&'static str>,
}

impl Sheet for Jsonl {
    const EXTENSION: &str = "jsonl";

    fn new(file: File, columns: &[Column]) -> io::Result<Self> {
        Ok(Self { out: BufWriter::new(file), names: columns.iter().map(|column| column.name).collect() })
    }

    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        for (place, (name, cell)) in self.names.iter().zip(cells).enumerate() {
            self.out.write_all(if place == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut self.out, name)?;
            self.out.write_all(b":")?;
            match cell {
                Cell::None => self.out.write_all(b"null")?,
                Cell::Text(text) => serde_json::to_writer(&mut self.out, text)?,
                Cell::Integer(n) => serde_json::to_writer(&mut self.out, n)?,
                Cell::Float(x) => serde_json::to_writer(&mut self.out, &num::json(*x))?,
                Cell::Bool(flag) => serde_json::to_writer(&mut self.out, flag)?,
                Cell::Time(at) => serde_json::to_writer(&mut self.out, &clock::utc(*at))?,
            }
        }
        self.out.write_all(b"}\n")
    }

    fn finish(self) -> io::Result<()> {
        self.out.into_inner()?.sync_all()
    }
}
