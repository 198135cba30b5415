//! Data frames: tables of named columns, each of whole numbers, numbers or text, with empty cells; and Parquet files of them,
//! which pandas, Polars, DuckDB and others read. A file also has facts: texts by name, such as the configuration of a run.

mod read;
mod write;

pub use read::{facts, read, MOST_BYTES, MOST_ROWS};
pub use write::{parquet, Writer};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Whole,
    Number,
    Text,
}

/// The cells of a column; `None` is an empty one.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Whole(Vec<Option<i64>>),
    Number(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Values {
    pub fn new(kind: Kind) -> Values {
        match kind {
            Kind::Whole => Values::Whole(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Values::Whole(_) => Kind::Whole,
            Values::Number(_) => Kind::Number,
            Values::Text(_) => Kind::Text,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Whole(cells) => cells.len(),
            Values::Number(cells) => cells.len(),
            Values::Text(cells) => cells.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text in row `n`.
    pub fn text(&self, n: usize) -> Option<&str> {
        match self {
            Values::Text(cells) => cells.get(n)?.as_deref(),
            _ => None,
        }
    }

    /// The whole number in row `n`.
    pub fn whole(&self, n: usize) -> Option<i64> {
        match self {
            Values::Whole(cells) => *cells.get(n)?,
            _ => None,
        }
    }

    /// The number in row `n`, whole or not.
    pub fn number(&self, n: usize) -> Option<f64> {
        match self {
            Values::Whole(cells) => cells.get(n)?.map(|whole| whole as f64),
            Values::Number(cells) => *cells.get(n)?,
            Values::Text(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    pub values: Values,
}

impl Column {
    pub fn whole(name: &str, cells: Vec<Option<i64>>) -> Column {
        Column { name: name.to_owned(), values: Values::Whole(cells) }
    }
    pub fn number(name: &str, cells: Vec<Option<f64>>) -> Column {
        Column { name: name.to_owned(), values: Values::Number(cells) }
    }
    pub fn text(name: &str, cells: Vec<Option<String>>) -> Column {
        Column { name: name.to_owned(), values: Values::Text(cells) }
    }
}

/// Columns of one length.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Frame {
    pub columns: Vec<Column>,
    pub facts: Vec<(String, String)>,
}

impl Frame {
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.values)
    }

    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}

/// Why a frame cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("it is no Parquet file, or a damaged one: {0}")]
    Format(String),
    #[error("it has {0} rows, and {MOST_ROWS} are allowed")]
    Rows(i64),
    #[error("its column {0:?} holds neither numbers nor text")]
    Kind(String),
    #[error("its columns have different lengths")]
    Ragged,
    #[error("these columns are not those that the file began with")]
    Columns,
}

impl From<::parquet::errors::ParquetError> for Error {
    fn from(error: ::parquet::errors::ParquetError) -> Error {
        Error::Format(error.to_string())
    }
}
