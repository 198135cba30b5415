//! Named network namespaces, where iproute2 keeps them.

use super::Error;
use nix::errno::Errno;
use nix::mount::{umount2, MntFlags};
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "/run/netns";
/// How long processes have to end after SIGTERM.
const GRACE: Duration = Duration::from_millis(1500);

/// A network namespace by its name; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedNamespace(String);

impl NamedNamespace {
    pub fn new(name: impl Into<String>) -> NamedNamespace {
        NamedNamespace(name.into())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.0)
    }

    /// Is there a namespace behind the name? A file without one is left where its making was interrupted.
    pub fn exists(&self) -> bool {
        identity(&self.path()).zip(identity(Path::new("/run"))).is_some_and(|(own, run)| own.0 != run.0)
    }

    /// All whose names begin with `prefix`, also names without a namespace behind them, sorted.
    pub fn with_prefix(prefix: &str) -> Vec<NamedNamespace> {
        let entries = fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<NamedNamespace> =
            names.filter(|name| name.starts_with(prefix)).map(NamedNamespace).collect();
        found.sort();
        found
    }

    /// Moves the calling thread into the namespace. Threads and programs that it starts are there too.
    ///
    /// # Errors
    /// ENOENT if there is none, EPERM without CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(File::open(self.path())?, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `f` inside, on a thread of its own, so that the caller stays where it is.
    ///
    /// # Errors
    /// Those of [`NamedNamespace::enter`].
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter().map(|()| f()));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Takes the name away; the kernel removes the namespace once nobody is in it. Fine if there is none.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN.
    pub fn remove(&self) -> io::Result<()> {
        let path = self.path();
        match umount2(&path, MntFlags::MNT_DETACH) {
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(e) => return Err(e.into()),
        }
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Processes inside, except for this one.
    pub fn processes(&self) -> Vec<i32> {
        processes_in(std::slice::from_ref(self))
    }
}

/// What tells one namespace from another.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

pub(super) fn processes_in(namespaces: &[NamedNamespace]) -> Vec<i32> {
    let wanted: Vec<(u64, u64)> =
        namespaces.iter().filter(|n| n.exists()).filter_map(|n| identity(&n.path())).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let own = std::process::id() as i32;
    let pids =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != own)
        .filter(|pid| identity(&PathBuf::from(format!("/proc/{pid}/ns/net"))).is_some_and(|ns| wanted.contains(&ns)))
        .collect()
}

/// Ends every process in the namespaces: asks first, then insists.
///
/// # Errors
/// [`Error::Processes`] if some are still there, as one that waits for hardware.
pub(super) fn end_processes(namespaces: &[NamedNamespace]) -> Result<(), Error> {
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, GRACE)] {
        for pid in processes_in(namespaces) {
            let _ = kill(Pid::from_raw(pid), signal); // it may have ended by now
        }
        if wait(patience, || processes_in(namespaces).is_empty()) {
            return Ok(());
        }
    }
    Err(Error::Processes(processes_in(namespaces).len()))
}

/// Asks until the answer is yes, at most for `patience`.
#[allow(clippy::disallowed_methods, reason = "waits for the operating system")]
pub(super) fn wait(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begin.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// May this process make network namespaces?
///
/// # Errors
/// What the kernel answers.
pub(super) fn permitted() -> io::Result<()> {
    let made = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join();
    made.unwrap_or(Err(Errno::EPERM))?;
    Ok(())
}
