//! Strict TOML: every error of a configuration file, with file, line, key and remedy.
//!
//! [`Document`] knows the place of each key and the changes laid over the file. It reads into any type that [`serde`]
//! knows. Checks of meaning give [`Invalid`], or several as [`Wrong`], to which the document adds the places. `keys` has the parts that such types
//! share.

mod document;
mod error;
mod faults;
mod invalid;
mod keys;
mod part;
mod place;
pub mod schema;
mod strict;
mod values;

pub use document::Document;
pub use error::{both, closest, ConfigError, Fault};
pub use faults::Faults;
pub use invalid::{Invalid, Wrong};
pub use keys::{check, shown, within, within_others, within_time, Key, Role};
pub use values::OrOff;
