//! Files that others wrote: never more of them than a bound, and never a wait for somebody to write.

use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The content of a regular file of at most `most` bytes. What could keep a daemon waiting or never ends (a pipe, a
/// device) is refused.
///
/// # Errors
/// What the file system says; another kind of file, or a longer one.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>> {
    let regular = |meta: fs::Metadata| match meta.is_file() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    };
    // Asked first: to open a device can have effects. Asked again: somebody may have exchanged the file meanwhile.
    regular(fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    regular(file.metadata()?)?;
    bounded(file, most)
}

/// As [`read_regular`], as text.
///
/// # Errors
/// As [`read_regular`]; what is not UTF-8.
pub fn read_regular_text(path: &Path, most: u64) -> Result<String> {
    text(read_regular(path, most)?)
}

/// At most `most` bytes of text from any kind of file, for commands that a person waits for: a pipe may stand for a file.
///
/// # Errors
/// What the file system says; a longer text, or what is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    text(bounded(File::open(path)?, most)?)
}

fn bounded(file: File, most: u64) -> Result<Vec<u8>> {
    let too_long = || Error::new(ErrorKind::FileTooLarge, format!("it is longer than {most} bytes"));
    if file.metadata()?.len() > most {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_long()),
        false => Ok(bytes),
    }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Exchanges what two names of one file system stand for, in one step.
///
/// # Errors
/// What the file system says; some cannot do it.
pub fn exchange(a: &Path, b: &Path) -> Result<()> {
    use nix::fcntl::{renameat2, RenameFlags, AT_FDCWD};
    Ok(renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_length_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (file, pipe) = (dir.join("file"), dir.join("pipe"));
        fs::write(&file, "12345").unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_regular_text(&file, 5).unwrap(), "12345");
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert_eq!(read_regular(&file, 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        assert_eq!(read_text(&file, 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        for other in [&pipe, dir, Path::new("/dev/zero")] {
            assert_eq!(read_regular(other, 5).unwrap_err().to_string(), "it is no regular file", "{other:?}");
        }
        assert_eq!(read_text(Path::new("/dev/zero"), 1000).unwrap_err().to_string(), "it is longer than 1000 bytes");
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 5).unwrap_err().to_string(), "it is not UTF-8 text");
    }
}
