//! Network namespaces of hosts. They have no names and belong to whoever holds a descriptor: when the lab's process ends,
//! however it ends, a namespace in which nothing runs any more is gone.

use super::error::LabError;
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A network namespace, kept in existence.
#[derive(Debug)]
pub struct HostNamespace {
    fd: OwnedFd,
}

impl HostNamespace {
    /// A new one, with nothing but a loopback that is down.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, ENOSPC at the limit of namespaces.
    pub fn new() -> io::Result<HostNamespace> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(HostNamespace { fd: File::open("/proc/thread-self/ns/net")?.into() })
        })
    }

    /// That of another process, found by [`HostNamespace::path`].
    ///
    /// # Errors
    /// ENOENT if that process or its descriptor is gone, EACCES if it is not ours to see; InvalidData if the descriptor is now
    /// another namespace than the one with this inode.
    pub fn open(path: &str, inode: u64) -> io::Result<HostNamespace> {
        let namespace = HostNamespace { fd: File::open(path)?.into() };
        match namespace.inode()? == inode {
            true => Ok(namespace),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Moves the calling thread, and the processes that it starts, into the namespace.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn join(&self) -> io::Result<()> {
        Ok(setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `what` on a thread of its own within the namespace. Processes that it starts are within, too.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, and those of `what`.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_thread(|| {
            self.join()?;
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
    pub fn batch(&self, program: &'static str, lines: &str) -> Result<(), LabError> {
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

/// Ends every process whose network namespace is one of these: politely, and after half a second by force. Where the
/// namespaces may be gone, and their numbers others' by now, only those are meant that carry `mark`, an entry of their
/// environment such as `NAME=value`. Returns how many there were.
pub fn end_processes(mark: Option<&str>, inodes: &[u64]) -> usize {
    end_all(&|process| inodes.contains(&process.namespace) && mark.is_none_or(|mark| process.carries(&|m| m == mark)))
}

/// The same where nobody knows the namespaces any more: processes that carry a mark which `is_meant`, except for those in the
/// network namespace of this process.
pub fn end_marked(is_meant: &dyn Fn(&str) -> bool) -> usize {
    let own = std::fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino());
    end_all(&|process| process.namespace != own && process.carries(is_meant))
}

fn end_all(is_meant: &dyn Fn(&Process) -> bool) -> usize {
    let found = processes(is_meant);
    for (round, signal) in [Signal::SIGTERM, Signal::SIGKILL].into_iter().enumerate() {
        let left = if round == 0 { found.clone() } else { processes(is_meant) };
        for &pid in &left {
            // It may have ended meanwhile.
            let _ = kill(pid, signal);
        }
        for _ in 0..50 {
            if processes(is_meant).is_empty() {
                return found.len();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    found.len()
}

/// Of another program, by its directory below `/proc`.
struct Process {
    directory: PathBuf,
    namespace: u64,
}

impl Process {
    /// Is there such an entry in its environment?
    fn carries(&self, is_meant: &dyn Fn(&str) -> bool) -> bool {
        let environment = std::fs::read(self.directory.join("environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|entry| std::str::from_utf8(entry).is_ok_and(is_meant))
    }
}

fn processes(is_meant: &dyn Fn(&Process) -> bool) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let of = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let directory = entry.path();
        let namespace = std::fs::metadata(directory.join("ns/net")).ok()?.ino();
        is_meant(&Process { directory, namespace }).then(|| Pid::from_raw(pid))
    };
    entries.flatten().filter_map(of).collect()
}

fn on_thread<T: Send>(what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let failed = || io::Error::other("the thread that entered a namespace ended early");
    std::thread::scope(|scope| scope.spawn(what).join().unwrap_or_else(|_| Err(failed())))
}
