//! Frames from Parquet files: flat ones, of numbers and text. Others may have written them.

use crate::{Column, Error, Frame, Kind, Values};
use parquet::basic::Type as Physical;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A longer file should not be given to [`read`].
pub const MOST_BYTES: u64 = 1 << 30;
/// More rows are refused: a small file can claim any number.
pub const MOST_ROWS: i64 = 20_000_000;

/// Rows that are decoded at a time.
const BATCH: usize = 8192;

/// # Errors
/// What is no such file.
pub fn read(file: Vec<u8>) -> Result<Frame, Error> {
    guarded(move || frame(file))
}

/// Only the facts of a file.
///
/// # Errors
/// As [`read`].
pub fn facts(file: Vec<u8>) -> Result<Vec<(String, String)>, Error> {
    guarded(move || Ok(known(SerializedFileReader::new(shared(file))?.metadata().file_metadata())))
}

/// The library checks most of what a file claims, and panics on some of the rest.
fn guarded<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::Format("its parts contradict one another".to_owned())))
}

fn shared(file: Vec<u8>) -> bytes::Bytes {
    file.into()
}

fn known(file: &FileMetaData) -> Vec<(String, String)> {
    let pairs = file.key_value_metadata().into_iter().flatten();
    pairs.map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default())).collect()
}

fn frame(file: Vec<u8>) -> Result<Frame, Error> {
    let reader = SerializedFileReader::new(shared(file))?;
    let meta = reader.metadata();
    let claimed = meta.row_groups().iter().map(|group| group.num_rows()).fold(0, i64::saturating_add);
    if !(0..=MOST_ROWS).contains(&claimed) {
        return Err(Error::Rows(claimed));
    }
    let mut columns = Vec::new();
    for column in meta.file_metadata().schema_descr().columns() {
        let name = column.path().string();
        let kind = match column.physical_type() {
            Physical::INT32 | Physical::INT64 => Kind::Whole,
            Physical::FLOAT | Physical::DOUBLE => Kind::Number,
            Physical::BYTE_ARRAY => Kind::Text,
            _ => return Err(Error::Kind(name)),
        };
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return Err(Error::Kind(name));
        }
        columns.push((Column { name, values: Values::new(kind) }, column.max_def_level() == 1));
    }
    for group in 0..meta.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).map_err(|_| Error::Ragged)?;
        for (n, (column, optional)) in columns.iter_mut().enumerate() {
            add(&mut column.values, group.get_column_reader(n)?, *optional, rows, &column.name)?;
        }
    }
    let columns: Vec<Column> = columns.into_iter().map(|(column, _)| column).collect();
    let rows = columns.first().map_or(0, |column| column.values.len());
    if columns.iter().any(|column| column.values.len() != rows) {
        return Err(Error::Ragged);
    }
    Ok(Frame { columns, facts: known(meta.file_metadata()) })
}

fn add(values: &mut Values, reader: ColumnReader, optional: bool, rows: usize, name: &str) -> Result<(), Error> {
    let wrong = || Error::Kind(name.to_owned());
    let text = |bytes: &ByteArray| bytes.as_utf8().map(str::to_owned).map_err(Error::from);
    match (values, reader) {
        (Values::Whole(to), ColumnReader::Int32ColumnReader(r)) => each(r, optional, rows, to, |v| Ok(i64::from(*v))),
        (Values::Whole(to), ColumnReader::Int64ColumnReader(r)) => each(r, optional, rows, to, |v| Ok(*v)),
        (Values::Number(to), ColumnReader::FloatColumnReader(r)) => each(r, optional, rows, to, |v| Ok(f64::from(*v))),
        (Values::Number(to), ColumnReader::DoubleColumnReader(r)) => each(r, optional, rows, to, |v| Ok(*v)),
        (Values::Text(to), ColumnReader::ByteArrayColumnReader(r)) => each(r, optional, rows, to, text),
        _ => Err(wrong()),
    }
}

/// Every cell of a column's part in turn; never more than the part says it has.
fn each<T: DataType, V>(
    mut reader: ColumnReaderImpl<T>,
    optional: bool,
    rows: usize,
    cells: &mut Vec<Option<V>>,
    of: impl Fn(&T::T) -> Result<V, Error>,
) -> Result<(), Error> {
    let (mut levels, mut present) = (Vec::new(), Vec::new());
    let mut left = rows;
    while left > 0 {
        levels.clear();
        present.clear();
        let most = left.min(BATCH);
        let (read, _, _) = reader.read_records(most, optional.then_some(&mut levels), None, &mut present)?;
        if read == 0 || read > left {
            return Err(Error::Ragged);
        }
        let mut values = present.iter();
        for n in 0..read {
            let there = !optional || levels.get(n) == Some(&1);
            cells.push(if there { Some(of(values.next().ok_or(Error::Ragged)?)?) } else { None });
        }
        left -= read;
    }
    Ok(())
}
