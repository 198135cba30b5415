//! Files that a crash must not leave half-written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
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

/// Removes what processes left that were killed while they replaced `path`. No other may be replacing it now.
pub fn sweep(path: &Path) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if is_partial(&entry.file_name(), name) {
            let _ = fs::remove_file(entry.path()); // it does no harm
        }
    }
}

/// `NAME.PROCESS-CALL.new`
fn is_partial(found: &OsStr, name: &OsStr) -> bool {
    let rest = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes()).and_then(|rest| rest.strip_prefix(b"."));
    let numbers = rest.and_then(|rest| rest.strip_suffix(b".new")).and_then(|both| std::str::from_utf8(both).ok());
    let both = numbers.and_then(|both| both.split_once('-'));
    both.is_some_and(|(process, call)| process.parse::<u32>().is_ok() && call.parse::<u64>().is_ok())
}

/// The same for a file that a person names: of a symbolic link the file that it names is replaced, and to a pipe or a device is
/// written. A file has the permissions `mode`, and one that is
/// replaced of these no more than it had.
///
/// # Errors
/// As [`replace`]; a link to what is not there.
pub fn put(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(meta) if meta.is_file() => replace_as(&fs::canonicalize(path)?, bytes, mode & meta.permissions().mode()),
        Ok(_) => fs::OpenOptions::new().write(true).open(path)?.write_all(bytes),
        Err(e) if e.kind() == ErrorKind::NotFound && path.is_symlink() => {
            Err(io::Error::new(ErrorKind::NotFound, "it is a symbolic link to what is not there"))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => replace_as(path, bytes, mode),
        Err(e) => Err(e),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_link_names_is_replaced_and_a_pipe_is_written_to() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        put(&path("file"), b"old", 0o640).unwrap();
        symlink("file", path("link")).unwrap();
        put(&path("link"), b"new", 0o600).unwrap();
        assert!(path("link").is_symlink() && fs::read(path("file")).unwrap() == b"new");
        assert_eq!(fs::metadata(path("file")).unwrap().permissions().mode() & 0o777, 0o600);
        put(&path("file"), b"newer", 0o644).unwrap();
        assert_eq!(fs::metadata(path("file")).unwrap().permissions().mode() & 0o777, 0o600);
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::thread::scope(|scope| {
            let read = scope.spawn(|| fs::read(path("pipe")).unwrap());
            put(&path("pipe"), b"through", 0o600).unwrap();
            assert_eq!(read.join().unwrap(), b"through");
        });
    }

    #[test]
    fn what_a_killed_process_left_goes_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let stays = ["state", "state.new", "state.1-.new", "state.1-2", "other.1-2.new", "state.a-2.new"];
        for name in stays.into_iter().chain(["state.1-2.new", "state.77-0.new"]) {
            fs::write(scratch.path().join(name), "x").unwrap();
        }
        sweep(&scratch.path().join("state"));
        let mut left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let mut stays = stays.map(std::ffi::OsString::from);
        left.sort();
        stays.sort();
        assert_eq!(left, stays);
    }

    #[test]
    fn a_link_to_nothing_and_a_directory_stay_as_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        symlink("nowhere", path("link")).unwrap();
        symlink("round", path("round")).unwrap();
        fs::create_dir(path("directory")).unwrap();
        for (name, says) in
            [("link", "symbolic link to what is not there"), ("round", "symbolic links"), ("directory", "directory")]
        {
            let error = put(&path(name), b"x", 0o600).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
        assert!(!path("nowhere").exists() && path("link").is_symlink());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 3);
    }
}
