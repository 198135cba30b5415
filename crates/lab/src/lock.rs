//! One at a time.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Held until dropped, or until the process ends however it ends.
#[derive(Debug)]
pub struct DirectoryLock(#[expect(dead_code, reason = "holds the lock")] Flock<File>);

/// How often a lock that is taken is tried again.
const LOOK: Duration = Duration::from_millis(10);

/// Waits at most `patience` until nobody else holds the lock of a directory.
///
/// # Errors
/// TimedOut after that; what the file system says.
pub fn lock_directory(path: &Path, patience: Duration) -> io::Result<DirectoryLock> {
    let mut dir = File::open(path)?;
    for _ in 0..=patience.as_millis() / LOOK.as_millis() {
        match Flock::lock(dir, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(DirectoryLock(lock)),
            Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) => dir = back,
            Err((_, error)) => return Err(error.into()),
        }
        std::thread::sleep(LOOK);
    }
    Err(io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let held = lock_directory(dir, Duration::ZERO).unwrap();
        assert_eq!(lock_directory(dir, Duration::ZERO).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(held);
        lock_directory(dir, Duration::ZERO).unwrap();
    }
}
