//! A table as Parquet. Rows are kept until they make a row group, which then becomes pages column by column: memory is that
//! of one group, however many there are.

use std::{
    fs::File,
    io::{self, BufWriter},
    sync::Arc,
};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};

use super::tables::{Cell, Column, Kind, Sheet};

/// About how many cells a row group has: some ten MB at most, and enough rows to be read fast.
const CELLS: usize = 1 << 19;

/// A table that is being written.
pub struct Parquet {
    out: SerializedFileWriter<BufWriter<File>>,
    columns: Vec<Gathered>,
    rows: usize,
}

/// What a column has of the rows of a group.
struct Gathered {
    values: Values,
    /// For each row 1, or 0 where it has nothing; none where every row has something.
    levels: Option<Vec<i16>>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
}

impl Parquet {
    /// Writes the rows that were kept.
    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            let levels = column.levels.as_deref();
            match (writer.untyped(), &column.values) {
                (ColumnWriter::ByteArrayColumnWriter(out), Values::Texts(v)) => out.write_batch(v, levels, None)?,
                (ColumnWriter::Int64ColumnWriter(out), Values::Integers(v)) => out.write_batch(v, levels, None)?,
                (ColumnWriter::DoubleColumnWriter(out), Values::Floats(v)) => out.write_batch(v, levels, None)?,
                (ColumnWriter::BoolColumnWriter(out), Values::Bools(v)) => out.write_batch(v, levels, None)?,
                _ => unreachable!("a column is gathered as its schema says"),
            };
            writer.close()?;
            column.clear();
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl Sheet for Parquet {
    const EXTENSION: &str = "parquet";

    fn new(file: File, columns: &[Column]) -> io::Result<Self> {
        let fields = columns.iter().map(|column| Ok(Arc::new(field(column)?))).collect::<Result<_, _>>();
        let schema = fields.and_then(|fields| Type::group_type_builder("schema").with_fields(fields).build());
        let compressed = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
        let out = SerializedFileWriter::new(
            BufWriter::new(file),
            Arc::new(schema.map_err(failed)?),
            Arc::new(compressed.build()),
        );
        Ok(Self { out: out.map_err(failed)?, columns: columns.iter().map(Gathered::new).collect(), rows: 0 })
    }

    fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
        if self.rows * self.columns.len() >= CELLS {
            self.write_group().map_err(failed)?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.write_group().map_err(failed)?;
        self.out.into_inner().map_err(failed)?.into_inner()?.sync_all()
    }
}

impl Gathered {
    fn new(column: &Column) -> Self {
        let values = match column.kind {
            Kind::Text => Values::Texts(Vec::new()),
            Kind::Integer | Kind::Time => Values::Integers(Vec::new()),
            Kind::Float => Values::Floats(Vec::new()),
            Kind::Bool => Values::Bools(Vec::new()),
        };
        Self { values, levels: column.is_optional.then(Vec::new) }
    }

    fn push(&mut self, cell: &Cell) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(*cell != Cell::None));
        }
        match (&mut self.values, cell) {
            (Values::Texts(values), Cell::Text(text)) => {
                // Ids and names come in long rows of the same: they share their bytes.
                let same = values.last().filter(|last| last.data() == text.as_bytes()).cloned();
                values.push(same.unwrap_or_else(|| ByteArray::from(text.as_bytes().to_vec())));
            }
            (Values::Integers(values), Cell::Integer(n) | Cell::Time(n)) => values.push(*n),
            (Values::Floats(values), Cell::Float(x)) => values.push(*x),
            (Values::Bools(values), Cell::Bool(flag)) => values.push(*flag),
            (_, Cell::None) if self.levels.is_some() => {}
            (_, cell) => unreachable!("a cell is of its column's kind, which {cell:?} is not"),
        }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Texts(values) => values.clear(),
            Values::Integers(values) => values.clear(),
            Values::Floats(values) => values.clear(),
            Values::Bools(values) => values.clear(),
        }
        self.levels.iter_mut().for_each(Vec::clear);
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Integer => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
    };
    let repetition = if column.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(column.name, physical).with_logical_type(logical).with_repetition(repetition).build()
}

/// What the system answered is kept.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(why) => why.downcast::<io::Error>().map_or_else(io::Error::other, |system| *system),
        other => io::Error::other(other),
    }
}
