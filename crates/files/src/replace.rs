//! Files that a crash must not leave half-written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces a file as a whole: whoever reads it, after a loss of power too, finds the old text or the new one. Readable for its
/// owner only.
///
/// # Errors
/// What the file system says. The old text then stays.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let partial = beside(path, ".new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// The path with `suffix` at its end.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
