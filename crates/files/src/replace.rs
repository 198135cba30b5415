//! Files that a crash must not leave half-written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces a file as a whole: whoever reads it, after a loss of power too, finds the old text or the new one. Readable for its
/// owner only.
///
/// # Errors
/// What the file system says. The old text then stays.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    replace_as(path, text, 0o600)
}

/// As [`replace`], with these permissions.
///
/// # Errors
/// As [`replace`].
pub fn replace_as(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // Of this call alone: others may replace the same file.
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let partial = beside(path, &format!(".{}-{call}.new", std::process::id()));
    let written = write(&partial, bytes, mode).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial); // perhaps there is none
    }
    written?;
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    // The mask of this process, and the permissions of a leftover, are not what was asked for.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The path with `suffix` at its end.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
