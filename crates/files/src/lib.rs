//! What a daemon needs of files, and of its standard output.
//!
//! - Reads that are bounded and never wait: [`read_regular`], [`read_text`].
//! - Replacing a file as a whole: [`replace`], [`replace_as`], [`put`], [`sweep`].
//! - Exchanging two names: [`exchange`].
//! - Whether there was a standard output: [`stdout_was_closed`].

mod read;
mod replace;
mod stdout;

pub use read::{exchange, read_regular, read_regular_text, read_text};
pub use replace::{beside, put, replace, replace_as, sweep};
pub use stdout::stdout_was_closed;
