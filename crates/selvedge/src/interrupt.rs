//! What goes with this process, also when it is interrupted: half-written directories, and programs that it started.

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Processes, each with the signal that ends it.
static COMPANIONS: Mutex<Vec<(u32, Signal)>> = Mutex::new(Vec::new());
static WORDS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Lists of plain values are whole whoever panicked.
fn lock<T>(list: &'static Mutex<Vec<T>>) -> MutexGuard<'static, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An interrupt removes the directory.
pub(crate) fn remember(directory: PathBuf) {
    lock(&DIRECTORIES).push(directory);
}

/// An interrupt no longer removes the directory.
pub(crate) fn forget(directory: &Path) {
    lock(&DIRECTORIES).retain(|path| path != directory);
}

/// What an interrupt says, where results are kept one by one.
pub(crate) fn say(words: &'static str) {
    lock(&WORDS).push(words);
}

/// On Ctrl-C, SIGTERM or SIGHUP, ends the companions, removes half-written files and ends the process with status 130.
pub(crate) fn handle() {
    // Without a handler the default action still ends the process; only what is named here would stay.
    let _ = ctrlc::set_handler(|| {
        // The lock stays held: no companion starts any more.
        let companions = lock(&COMPANIONS);
        for (pid, signal) in companions.iter() {
            end(*pid, *signal);
        }
        for path in lock(&DIRECTORIES).iter() {
            let _ = fs::remove_dir_all(path);
        }
        // `... 2>&1 | tee log`: the same key has ended the reader, perhaps first.
        let words = lock(&WORDS);
        let _ = writeln!(io::stderr(), "{}", words.last().unwrap_or(&"interrupted; no results were written"));
        std::process::exit(130);
    });
}

/// On Ctrl-C, SIGTERM or SIGHUP, only sets the flag: whoever makes something takes it back. Without a handler, as [`handle`].
pub(crate) fn flag() -> &'static AtomicBool {
    static FLAG: AtomicBool = AtomicBool::new(false);
    let _ = ctrlc::set_handler(|| FLAG.store(true, Ordering::Relaxed));
    &FLAG
}

/// With all processes of its group.
fn end(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = kill(Pid::from_raw(-pid), signal); // it may have ended by itself
    }
}

/// A directory for this user alone, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Below the system's directory for temporary files.
    ///
    /// # Errors
    /// As the file system gives them; there may be one of that name.
    pub(crate) fn new(name: &str) -> io::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        remember(path.clone());
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        forget(&self.0);
    }
}

/// A program that is killed when this is dropped. What it leaves must go by other means, as a namespace does. Or one that removes what it
/// made when it is asked to end, and is asked first.
pub(crate) struct Companion(Child, Signal);

/// How long a program may take to remove what it made.
const TIDYING: Duration = Duration::from_secs(60);

impl Companion {
    /// An interrupt typed at the terminal does not reach it directly.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Companion> {
        Companion::ending_by(Signal::SIGKILL, command)
    }

    /// The same for one that tidies up after SIGTERM.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub(crate) fn spawn_tidy(command: &mut Command) -> io::Result<Companion> {
        Companion::ending_by(Signal::SIGTERM, command)
    }

    fn ending_by(signal: Signal, command: &mut Command) -> io::Result<Companion> {
        let mut companions = lock(&COMPANIONS);
        let child = command.process_group(0).spawn()?;
        companions.push((child.id(), signal));
        Ok(Companion(child, signal))
    }

    /// Its standard error, if it was asked for as a pipe, once.
    pub(crate) fn stderr(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }

    /// How it ended, if it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let mut companions = lock(&COMPANIONS);
        let status = self.0.try_wait().ok().flatten()?;
        companions.retain(|(pid, _)| *pid != self.0.id());
        Some(status)
    }
}

impl Drop for Companion {
    #[allow(clippy::disallowed_methods, reason = "a program that does not end must be killed")]
    fn drop(&mut self) {
        if self.1 == Signal::SIGTERM && self.ended().is_none() {
            end(self.0.id(), Signal::SIGTERM);
            let asked = Instant::now();
            while self.ended().is_none() && asked.elapsed() < TIDYING {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        let mut companions = lock(&COMPANIONS);
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
        companions.retain(|(pid, _)| *pid != self.0.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_and_its_directory_go_when_dropped() {
        let scratch = Scratch::new("selvedge-interrupt").unwrap();
        let path = scratch.path().to_owned();
        assert!(Scratch::new("selvedge-interrupt").is_err() && path.is_dir());
        let mut companion = Companion::spawn(Command::new("sleep").arg("1000")).unwrap();
        let pid = companion.0.id();
        assert!(companion.ended().is_none() && lock(&COMPANIONS).contains(&(pid, Signal::SIGKILL)));
        drop((companion, scratch));
        assert!(!Path::new(&format!("/proc/{pid}")).exists() && !path.exists());
        assert!(!lock(&COMPANIONS).iter().any(|(known, _)| *known == pid) && !lock(&DIRECTORIES).contains(&path));
    }
}
