//! Bounded reading of files: a wrong name gives an error, not a full memory.

use config::ConfigError;
use std::path::Path;

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
