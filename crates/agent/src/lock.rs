//! One agent per directory of pins.

use super::error::{io_error, Error, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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
        fs::DirBuilder::new().recursive(true).mode(0o700).create(pins).map_err(io_error("create", pins))?;
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
    match fs::metadata(pins) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        seen => seen.map_err(io_error("look at", pins))?, // it is not for everybody to know whether there is one
    };
    check_bpffs(pins)?;
    try_lock(pins)
}

fn try_lock(pins: &Path) -> Result<Option<Lock>> {
    let dir = File::open(pins).map_err(io_error("open", pins))?;
    let meta = dir.metadata().map_err(io_error("look at", pins))?;
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        // Anybody may have made it where the bpffs is everybody's: who owns it can put other maps in.
        let e = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it belongs to another user; remove it");
        return Err(Error::Io("use", pins.into(), e));
    }
    let identity = (meta.dev(), meta.ino());
    let lock = Flock::lock(dir, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| match e {
        nix::errno::Errno::EWOULDBLOCK => Error::Held(pins.into()),
        e => Error::Io("lock", pins.into(), e.into()),
    })?;
    let same = fs::metadata(pins).is_ok_and(|m| (m.dev(), m.ino()) == identity);
    Ok(same.then_some(Lock(lock)))
}

/// Is a directory, which exists, in a BPF file system?
pub(super) fn is_bpffs(dir: &Path) -> Result<bool> {
    let kind = nix::sys::statfs::statfs(dir).map_err(|e| Error::Io("look at", dir.into(), e.into()))?;
    Ok(kind.filesystem_type().0 as i64 == BPF_FS_MAGIC)
}

/// Is it a directory in a bpffs, or can it be made one?
///
/// # Errors
/// [`Error::NotBpffs`], or what the file system says.
pub(super) fn check_bpffs(pins: &Path) -> Result<()> {
    let above = pins.parent().unwrap_or(Path::new("/"));
    let existing = above.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    if is_bpffs(existing)? {
        let made = pins.strip_prefix(existing).unwrap_or(pins);
        if !pins.exists() && made.as_os_str().as_encoded_bytes().contains(&b'.') {
            return Err(Error::NotBpffs(pins.into(), "names in it have no dots".into()));
        }
        return Ok(());
    }
    if pins.exists() && is_bpffs(pins)? {
        // Its other directories are other programs'.
        return Err(Error::NotBpffs(pins.into(), "it is one; name a directory below".into()));
    }
    let remedy =
        "mount -t bpf bpf /sys/fs/bpf (in a network namespace, enter it with `nsenter --net`: `ip netns exec` \
                  hides that mount)";
    Err(Error::NotBpffs(pins.into(), remedy.into()))
}
