//! Standard output whose failure is an answer, not a panic.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// As `println!`, but see [`stdout`].
macro_rules! say {
    () => { $crate::say::stdout(format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::say::stdout(format_args!($($arg)*), "\n") };
}

/// As `print!`, but see [`stdout`].
macro_rules! say_on {
    ($($arg:tt)*) => { $crate::say::stdout(format_args!($($arg)*), "") };
}

/// Says how a daemon fares, on standard error, whose end (a terminal that was closed) is none of its business.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "selvedge: {text}");
}

/// Writes to standard output. A reader that went away (`selvedge ... | head`) ends the program quietly; any other
/// failure ends it with a message. Results are written before they are printed, so none is lost.
pub(crate) fn stdout(text: Arguments<'_>, end: &str) {
    let mut out = std::io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush()) else {
        return;
    };
    if error.kind() != ErrorKind::BrokenPipe {
        eprintln!("selvedge: cannot write to standard output: {error}; send it to a place that can take it");
    }
    std::process::exit(1);
}
