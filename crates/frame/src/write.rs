//! Parquet files from frames. The same frame gives the same bytes.

use crate::{Column, Error, Frame, Kind, Values};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// A file that is written part by part, each a row group.
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<(String, Kind)>,
}

impl<W: Write + Send> Writer<W> {
    /// # Errors
    /// What the sink says.
    pub fn new(sink: W, columns: &[(&str, Kind)], facts: &[(String, String)]) -> Result<Writer<W>, Error> {
        let fields = columns.iter().map(|(name, kind)| field(name, *kind).map(Arc::new)).collect::<Result<_, _>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let facts = facts.iter().map(|(name, text)| KeyValue::new(name.clone(), text.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("selvedge ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(facts));
        let file = SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties.build()))?;
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Ok(Writer { file, columns })
    }

    /// Adds rows; none is no part.
    ///
    /// # Errors
    /// Other columns than the file has, or of different lengths; what the sink says.
    pub fn add(&mut self, part: &[Column]) -> Result<(), Error> {
        let same =
            |column: &Column, (name, kind): &(String, Kind)| column.name == *name && column.values.kind() == *kind;
        if part.len() != self.columns.len()
            || !part.iter().zip(&self.columns).all(|(column, known)| same(column, known))
        {
            return Err(Error::Columns);
        }
        let rows = part.first().map_or(0, |column| column.values.len());
        if part.iter().any(|column| column.values.len() != rows) {
            return Err(Error::Ragged);
        }
        if rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in part {
            let Some(mut writer) = group.next_column()? else { return Err(Error::Columns) };
            put(&mut writer, &column.values)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the file and gives back the sink.
    ///
    /// # Errors
    /// What the sink says.
    pub fn finish(self) -> Result<W, Error> {
        Ok(self.file.into_inner()?)
    }
}

fn field(name: &str, kind: Kind) -> Result<Type, Error> {
    let physical = match kind {
        Kind::Whole => Physical::INT64,
        Kind::Number => Physical::DOUBLE,
        Kind::Text => Physical::BYTE_ARRAY,
    };
    let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
    let field = match kind {
        Kind::Text => field.with_converted_type(ConvertedType::UTF8).with_logical_type(Some(LogicalType::String)),
        _ => field,
    };
    Ok(field.build()?)
}

fn put(writer: &mut SerializedColumnWriter<'_>, values: &Values) -> Result<(), Error> {
    fn levels<T>(cells: &[Option<T>]) -> Vec<i16> {
        cells.iter().map(|cell| i16::from(cell.is_some())).collect()
    }
    match values {
        Values::Whole(cells) => {
            let present: Vec<i64> = cells.iter().flatten().copied().collect();
            writer.typed::<Int64Type>().write_batch(&present, Some(&levels(cells)), None)?;
        }
        Values::Number(cells) => {
            let present: Vec<f64> = cells.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&present, Some(&levels(cells)), None)?;
        }
        Values::Text(cells) => {
            let present: Vec<ByteArray> = cells.iter().flatten().map(|text| text.as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&present, Some(&levels(cells)), None)?;
        }
    }
    Ok(())
}

/// The frame as a file in memory.
///
/// # Errors
/// Columns of different lengths.
pub fn parquet(frame: &Frame) -> Result<Vec<u8>, Error> {
    let columns: Vec<(&str, Kind)> = frame.columns.iter().map(|c| (c.name.as_str(), c.values.kind())).collect();
    let mut writer = Writer::new(Vec::new(), &columns, &frame.facts)?;
    writer.add(&frame.columns)?;
    writer.finish()
}
