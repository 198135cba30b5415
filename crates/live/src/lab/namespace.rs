//! Network namespaces of hosts. They have no names and belong to whoever holds a descriptor: when the lab's process ends,
//! however it ends, a namespace in which nothing runs any more is gone.

use super::LabError;
use nix::sched::{setns, unshare, CloneFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// A network namespace, kept in existence.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// A new one, with nothing but a loopback that is down.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENOSPC at the limit of namespaces.
    pub fn new() -> io::Result<Namespace> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(Namespace { fd: File::open("/proc/thread-self/ns/net")?.into() })
        })
    }

    /// Runs `what` on a thread of its own within the namespace. Processes that it starts are within, too.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, and those of `what`.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(|| {
            setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)?;
            what()
        })
    }

    /// The number by which /proc/PID/ns/net tells it from others.
    ///
    /// # Errors
    /// None that is known: the descriptor is open.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(File::from(self.fd.try_clone()?).metadata()?.ino())
    }

    /// Where other processes find it, as long as this one lives.
    pub fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Runs `ip` or `tc` on lines of commands.
    ///
    /// # Errors
    /// The program's first complaint.
    pub(crate) fn batch(&self, program: &'static str, lines: &str) -> Result<(), LabError> {
        let run = || {
            let mut child = Command::new(program)
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // It may give up at the first line: then what it says matters, not that it stopped reading.
                let _ = stdin.write_all(lines.as_bytes());
            }
            child.wait_with_output()
        };
        let output = self.enter(run).map_err(|source| LabError::Run { program, source })?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let first = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("it failed and says nothing");
        Err(LabError::Configure { program, message: first.trim().to_owned() })
    }
}

fn on_thread<T: Send>(what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let failed = || io::Error::other("the thread that entered a namespace ended early");
    std::thread::scope(|scope| scope.spawn(what).join().unwrap_or_else(|_| Err(failed())))
}
