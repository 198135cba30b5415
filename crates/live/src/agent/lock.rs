//! One agent per directory of pins.

use super::error::{io_error, Error, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Magic number of bpffs, linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Held until dropped, or until the process ends however it ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "holds the lock")] Flock<File>);

/// Makes the directory if it is missing, and locks it.
///
/// # Errors
/// [`Error::NotBpffs`], [`Error::Held`], or what the file system says.
pub(super) fn acquire(pins: &Path) -> Result<Lock> {
    check_bpffs(pins)?;
    // Whoever held the lock may have removed the directory meanwhile; then it is made anew.
    for _ in 0..10 {
        fs::create_dir_all(pins).map_err(io_error("create", pins))?;
        if let Some(lock) = try_lock(pins)? {
            return Ok(lock);
        }
    }
    Err(Error::Held(pins.into()))
}

/// The lock of a directory that is there; `None` if there is none.
///
/// # Errors
/// As [`acquire`].
pub(super) fn acquire_existing(pins: &Path) -> Result<Option<Lock>> {
    if !pins.exists() {
        return Ok(None);
    }
    check_bpffs(pins)?;
    try_lock(pins)
}

fn try_lock(pins: &Path) -> Result<Option<Lock>> {
    let dir = File::open(pins).map_err(io_error("open", pins))?;
    let identity = dir.metadata().map(|m| (m.dev(), m.ino())).map_err(io_error("look at", pins))?;
    let lock = Flock::lock(dir, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| match e {
        nix::errno::Errno::EWOULDBLOCK => Error::Held(pins.into()),
        e => Error::Io("lock", pins.into(), e.into()),
    })?;
    let same = fs::metadata(pins).is_ok_and(|m| (m.dev(), m.ino()) == identity);
    Ok(same.then_some(Lock(lock)))
}

/// Is the nearest directory above that exists in a bpffs?
fn check_bpffs(pins: &Path) -> Result<()> {
    let existing = pins.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let kind = nix::sys::statfs::statfs(existing).map_err(|e| Error::Io("look at", existing.into(), e.into()))?;
    if kind.filesystem_type().0 as i64 == BPF_FS_MAGIC {
        return Ok(());
    }
    let remedy =
        "mount -t bpf bpf /sys/fs/bpf (in a network namespace, enter it with `nsenter --net`: `ip netns exec` \
                  hides that mount)";
    Err(Error::NotBpffs(pins.into(), remedy.into()))
}
