//! Standard output: a failed write is an error, not a panic, and control characters are escaped unless they are meant.

use daemon::log::steers;
use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::io::{Error, ErrorKind, Write};

/// As `println!`, but see [`stdout`].
macro_rules! say {
    () => { $crate::say::stdout(format_args!(""), "\n") };
    ($($arg:tt)*) => { $crate::say::stdout(format_args!($($arg)*), "\n") };
}

/// As `print!`, but see [`stdout`].
macro_rules! say_on {
    ($($arg:tt)*) => { $crate::say::stdout(format_args!($($arg)*), "") };
}

/// A daemon's message on standard error. A closed terminal there is no error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "selvedge: {}", harmless(text));
}

/// Writes to standard output. A reader that went away (`selvedge ... | head`) ends the program quietly, with the status that
/// a shell gives to a program that SIGPIPE ended; any other failure ends it with a message and status 1. Results are written
/// before they are printed, so none is lost.
pub(crate) fn stdout(text: Arguments<'_>, end: &str) {
    put(&[&harmless(&text.to_string()), end]);
}

/// One JSON value and a line's end. What a terminal could take for a command is escaped as JSON escapes it.
pub(crate) fn json(value: &serde_json::Value) {
    let text = value.to_string();
    let escaped = replaced(&text, |c, out| {
        let _ = write!(out, "\\u{:04x}", u32::from(c)); // strings take all; all such characters are below 0x10000
    });
    put(&[&escaped, "\n"]);
}

/// A picture from the top left corner of a terminal, which is cleared.
pub(crate) fn picture(text: &str) {
    put(&["\x1b[H\x1b[2J", &harmless(text)]);
}

/// Nothing that steers a terminal: files, peers and interfaces have names and titles that others chose.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    replaced(text, |c, out| out.extend(c.escape_default()))
}

fn replaced(text: &str, mut replace: impl FnMut(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match steers(c) {
            true => replace(c, &mut out),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn put(parts: &[&str]) {
    let mut out = std::io::stdout().lock();
    let written = match files::stdout_was_closed() {
        true => Err(Error::new(ErrorKind::NotConnected, "it is closed")),
        false => parts.iter().try_for_each(|part| out.write_all(part.as_bytes())).and_then(|()| out.flush()),
    };
    let Err(error) = written else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(128 + 13);
    }
    note(&format!("cannot write to standard output: {error}; send it to a place that can take it"));
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_instead() {
        assert_eq!(harmless("a\tb\nü 🦀"), "a\tb\nü 🦀");
        assert_eq!(harmless("\x1b[2Jx\u{7f}\r\u{9b}1m\u{202e}"), "\\u{1b}[2Jx\\u{7f}\\r\\u{9b}1m\\u{202e}");
    }
}
