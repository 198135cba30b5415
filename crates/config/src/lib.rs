//! Strict TOML: what a configuration file says, with file, line, key and remedy of all that is wrong in it.
//!
//! [`Document`] knows where each key stands and which changes were laid over the file. It reads into any type that
//! [`serde`] knows; checks of meaning give [`Invalid`], to which the document adds the place. `keys` has
//! what such types share.

mod document;
mod error;
mod faults;
mod keys;
mod place;
mod strict;
mod values;

pub use document::Document;
pub use error::{closest, ConfigError, Fault, Invalid};
pub use faults::Faults;
pub use keys::{check, within, Key, Role};
pub use values::OrOff;
