//! Lines on standard error, of events of `tracing`: text, for journald with its priority in front, or JSON objects.

use serde_json::Value;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

pub use tracing::Level;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The message alone.
    Text,
    /// `timestamp`, `level`, `target`, `message`, and what else the event has.
    Json,
}

static STARTED: OnceLock<Form> = OnceLock::new();

/// From now on events of this program up to `most` become lines. The first call counts.
pub fn start(form: Form, most: Level) {
    if STARTED.set(form).is_ok() {
        // systemd sets it for services whose standard error is the journal.
        let journal = std::env::var_os("JOURNAL_STREAM").is_some();
        let _ = tracing::subscriber::set_global_default(subscriber(Lines { form, journal }, most, || Stderr));
    }
}

/// With what message the program ends, where the log is JSON. `false`: it is to be said otherwise.
pub fn end(message: &str) -> bool {
    let json = STARTED.get() == Some(&Form::Json);
    if json {
        tracing::error!("{message}");
    }
    json
}

/// Does a terminal take it for a command? Line ends and tabs are none. The last two ranges change the direction of writing, so
/// that a reader sees other text. All are below U+10000.
pub fn steers(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn subscriber<W>(lines: Lines, most: Level, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .log_internal_errors(false) // they would end a program whose standard error is closed
        .event_format(lines)
        .with_writer(writer)
        .with_max_level(most)
        .finish()
}

/// One write a line, so that lines of several daemons do not mix. Nothing can be done where it fails.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(line);
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Lines {
    form: Form,
    journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        match self.form {
            Form::Text => out.write_str(&text(self.journal, level, &fields.message)),
            Form::Json => {
                let mut time = String::new();
                SystemTime.format_time(&mut Writer::new(&mut time))?;
                out.write_str(&json(&time, level, target, fields))
            }
        }
    }
}

/// What an event has.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
}

fn text(journal: bool, level: Level, message: &str) -> String {
    // sd-daemon(3)
    let prefix = match (journal, level) {
        (true, Level::ERROR) => "<3>",
        (true, Level::WARN) => "<4>",
        (true, Level::INFO) => "<6>",
        (true, _) => "<7>",
        (false, Level::ERROR) => "error: ",
        (false, Level::WARN) => "warning: ",
        (false, _) => "",
    };
    // Names of interfaces are others' choice.
    let clean: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{prefix}{clean}\n")
}

fn json(time: &str, level: Level, target: &str, fields: Fields) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        _ => "debug",
    };
    let first = [("timestamp", time), ("level", level), ("target", target), ("message", fields.message.as_str())];
    let first = first.map(|(name, text)| (name, Value::from(text)));
    let mut line = String::from("{");
    for (name, value) in first.into_iter().chain(fields.others) {
        let comma = if line.len() > 1 { "," } else { "" };
        let _ = write!(line, "{comma}\"{name}\":");
        for c in value.to_string().chars() {
            let _ = match steers(c) {
                true => write!(line, "\\u{:04x}", u32::from(c)),
                false => line.write_char(c),
            };
        }
    }
    line + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::{debug, error, info, warn};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl io::Write for Kept {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Each write of what `events` logs.
    fn written(form: Form, journal: bool, events: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = subscriber(Lines { form, journal }, Level::INFO, move || writer.clone());
        tracing::subscriber::with_default(lines, events);
        let kept = kept.0.lock().unwrap();
        kept.clone()
    }

    /// An interface's name may be so, and more.
    const HOSTILE: &str = "a\nb\r\u{1b}[2J\u{9b}\u{7f}\u{202e}\"\\{}%";

    #[test]
    fn text_carries_its_priority_and_stays_one_line() {
        let events = || {
            error!("a");
            warn!(port = "a\nb", "port {}: odd", "a\nb");
            info!(network = 7, "{HOSTILE}");
            debug!("nobody wants to know");
        };
        let clean = "a b  [2J  \u{202e}\"\\{}%\n";
        let plain = written(Form::Text, false, events);
        assert_eq!(plain, ["error: a\n", "warning: port a b: odd\n", clean]);
        let journal = written(Form::Text, true, events);
        assert_eq!(journal, ["<3>a\n", "<4>port a b: odd\n", &format!("<6>{clean}")]);
    }

    #[test]
    fn json_is_an_object_a_line_with_all_that_an_event_has() {
        let lines = written(Form::Json, true, || {
            warn!(port = HOSTILE, peer = %"10.0.0.1", network = 7, lasting = true, gone = None::<&str>, "{HOSTILE}");
            error!(target: "elsewhere", "b");
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &lines {
            assert!(line.ends_with("}\n") && !line.trim_end().contains(|c| steers(c) || c == '\n'), "{line:?}");
        }
        let first: Value = serde_json::from_str(&lines[0]).unwrap();
        let (text, time) = (HOSTILE, first["timestamp"].as_str().unwrap());
        assert_eq!(
            first,
            serde_json::json!({
                "timestamp": time, "level": "warning", "target": "daemon::log::tests", "message": text,
                "port": text, "peer": "10.0.0.1", "network": 7, "lasting": true,
            })
        );
        // RFC 3339, UTC.
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000000Z");
        let second: Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!((&second["level"], &second["target"]), (&"error".into(), &"elsewhere".into()));
    }
}
