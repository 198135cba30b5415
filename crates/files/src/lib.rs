//! What a daemon needs of files: reads that are bounded and never wait ([`read_regular`], [`read_text`]), replacing one as
//! a whole ([`replace`], [`replace_as`], [`put`], [`sweep`]), exchanging two names ([`exchange`]), and whether there was a standard output
//! ([`stdout_was_closed`]).

mod read;
mod replace;
mod stdout;

pub use read::{exchange, read_regular, read_regular_text, read_text};
pub use replace::{beside, put, replace, replace_as, sweep};
pub use stdout::stdout_was_closed;
