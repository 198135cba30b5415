//! Bounded reading of files: a wrong name gives an error, not a full memory.

use config::{ConfigError, Document};
use std::path::Path;

/// The page with an example of a scenario.
pub(crate) const SCENARIOS: &str = "docs/scenarios.md";

/// Scenarios, and what has their form.
pub(crate) const SCENARIO: u64 = 4 << 20;
/// Distributions of flow sizes.
pub(crate) const CDF: u64 = 1 << 20;
/// Topology files: all links that a fabric may have.
pub(crate) const TOPOLOGY: u64 = 256 << 20;
/// Lists of flows: about ten million.
pub(crate) const FLOWS: u64 = 512 << 20;

/// A scenario or topology file, as text; pipes are read as well.
///
/// # Errors
/// What cannot be read, is no text, or is longer than `most` bytes; `remedy` says what to give instead.
pub(crate) fn read(path: &Path, most: u64, remedy: &str) -> Result<String, ConfigError> {
    files::read_text(path, most)
        .map_err(|e| ConfigError::new(path.display().to_string(), format!("cannot be read: {e}"), remedy))
}

/// A scenario file, with what it includes.
///
/// # Errors
/// What cannot be read, or is no TOML.
pub(crate) fn scenario(path: &Path) -> Result<Document, ConfigError> {
    let text = read(path, SCENARIO, "give the path of a scenario file")?;
    scenario_text(&path.display().to_string(), &text)
}

/// The same for a text that stands in the file `name`.
///
/// # Errors
/// As [`scenario`].
pub(crate) fn scenario_text(name: &str, text: &str) -> Result<Document, ConfigError> {
    let included = |path: &Path| files::read_regular_text(path, SCENARIO).map_err(|e| e.to_string());
    Document::parse_including(name, text, SCENARIOS, &included)
}

/// Keys that have been read when `--set` changes the scenario, and what to do instead.
const READ_BEFORE: [(&str, &str); 4] = [
    ("sweep", "change the file, or choose points with --at"),
    ("result", "change the file; it is for `selvedge repro`"),
    ("mode", "change the file; it is for `selvedge repro`"),
    ("include", "change the file, or set the keys that the other file would give"),
];

/// Applies a `--set`.
///
/// # Errors
/// A key that nothing can set any more, or that cannot be set at all.
pub(crate) fn set(document: &mut Document, assignment: &str) -> Result<(), ConfigError> {
    let key = assignment.split('=').next().unwrap_or_default().trim();
    match READ_BEFORE.iter().find(|(first, _)| key.split('.').next() == Some(first)) {
        None => document.set(assignment),
        Some((first, remedy)) => {
            let problem = format!("`{first}` is read before --set changes the scenario");
            Err(ConfigError::new(format!("--set {assignment}"), problem, *remedy))
        }
    }
}

/// The configuration of a daemon, as text: only a regular file, because a daemon that waits for a pipe serves nobody.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_configuration(path: &Path, most: u64) -> Result<String, ConfigError> {
    files::read_regular_text(path, most).map_err(|e| {
        ConfigError::new(
            path.display().to_string(),
            format!("cannot read the configuration: {e}"),
            match e.kind() {
                std::io::ErrorKind::FileTooLarge => "shorten it",
                std::io::ErrorKind::InvalidData => "write UTF-8",
                _ => "name a file with --config",
            }
            .to_owned(),
        )
    })
}
