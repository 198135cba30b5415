//! A results directory that is complete or absent.

use super::manifest::{self, Manifest};
use crate::interrupt;
use lab::{lock_directory, DirectoryLock};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What cannot be done about a results directory.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("{0} exists; choose another directory or replace it with --force")]
    Exists(PathBuf),
    #[error("{dir} holds {file:?}, which no run of selvedge wrote there; choose another directory, such as {}", .dir.join("run1").display())]
    Occupied { dir: PathBuf, file: String },
    #[error("{0} is no directory of results, which --force would replace; choose another directory")]
    Foreign(PathBuf),
    #[error("{dir} holds {file:?}, which no run of selvedge wrote, and --force replaces only what a run wrote; move it away or choose another directory")]
    ForeignFile { dir: PathBuf, file: String },
    #[error("{0} is a symbolic link to what is not there; make that directory, or choose another")]
    Dangling(PathBuf),
    #[error("{0} cannot be the name of a results directory; give a path such as out/run1")]
    Name(PathBuf),
    #[error("cannot write {path}: {source}; {}", remedy(source))]
    Io { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}; {}", remedy_of_sweep(source))]
    Sweep { path: PathBuf, source: io::Error },
}

impl StagingError {
    /// Is the request at fault, rather than the file system?
    pub fn is_request(&self) -> bool {
        !matches!(self, StagingError::Io { .. } | StagingError::Sweep { .. })
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match is_full(error) {
        true => "no file of this run is kept; free some space, or choose a directory on another disk",
        false => "choose a directory where you may write",
    }
}

/// Of a sweep each job is kept by itself.
fn remedy_of_sweep(error: &io::Error) -> &'static str {
    match is_full(error) {
        true => "the jobs that were done are kept; free some space, and the same command runs the rest",
        false => "choose a directory where you may write",
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A directory beside the final one that takes its name once complete. Dropped before that, it is removed.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    target: PathBuf,
    force: bool,
    /// Nothing is left to remove.
    committed: bool,
    /// Tells other runs that this one lives.
    _lock: DirectoryLock,
}

impl Staging {
    /// Removes what runs to the same target left that were killed.
    ///
    /// # Errors
    /// The target exists and may not be replaced, or nothing can be written beside it.
    pub fn new(target: &Path, force: bool) -> Result<Staging, StagingError> {
        // What a symbolic link names is replaced, not the link.
        let target = match target.is_symlink() {
            true => fs::canonicalize(target).unwrap_or_else(|_| target.to_owned()),
            false => target.to_owned(),
        };
        check(&target, force)?;
        let name = target.file_name().ok_or_else(|| StagingError::Name(target.clone()))?;
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StagingError::Io { path, source }
        };
        fs::create_dir_all(parent).map_err(io(parent))?;
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        remove_abandoned(parent, &prefix);
        let path = parent.join(format!("{prefix}{}", std::process::id()));
        // First: an interrupt may come as soon as it is there.
        interrupt::remember(path.clone());
        let lock = begin(&path).map_err(|source| {
            let _ = fs::remove_dir_all(&path);
            interrupt::forget(&path);
            StagingError::Io { path: path.clone(), source }
        })?;
        Ok(Staging { path, target, force, committed: false, _lock: lock })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// As the file system gives them.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<(), StagingError> {
        let path = self.path.join(name);
        fs::write(path, contents).map_err(|source| StagingError::Io { path: self.shown(name), source })
    }

    /// A file that is written bit by bit; its errors are to be told of [`Staging::shown`].
    ///
    /// # Errors
    /// As the file system gives them.
    pub fn create(&self, name: &str) -> Result<io::BufWriter<fs::File>, StagingError> {
        let file = fs::File::create(self.path.join(name));
        file.map(io::BufWriter::new).map_err(|source| StagingError::Io { path: self.shown(name), source })
    }

    /// The path of a file as it will be.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Gives the directory its name.
    ///
    /// # Errors
    /// The target has come to exist meanwhile, or the file system refuses.
    pub fn commit(mut self) -> Result<(), StagingError> {
        let target = self.target.clone();
        let io = |source| StagingError::Io { path: target.clone(), source };
        Manifest::of(&self.path).and_then(|manifest| manifest.write(&self.path)).map_err(io)?;
        check(&self.target, self.force)?;
        if !self.target.exists() {
            fs::rename(&self.path, &self.target).map_err(io)?;
            self.committed = true;
            return Ok(());
        }
        interrupt::forget(&self.path);
        // In one step if the file system can: a killed process leaves the old results or the new ones.
        if files::exchange(&self.path, &self.target).is_err() {
            let old = self.path.with_file_name(format!(".old-{}", std::process::id()));
            fs::rename(&self.target, &old).map_err(io)?;
            fs::rename(&self.path, &self.target).map_err(io)?;
            fs::rename(&old, &self.path).map_err(io)?;
        }
        self.committed = true;
        // What somebody has put there since the check stays, under that name.
        manifest::remove(&self.path).map_err(|source| StagingError::Io { path: self.path.clone(), source })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_dir_all(&self.path); // the next run tries again
        }
        interrupt::forget(&self.path);
    }
}

fn begin(path: &Path) -> io::Result<DirectoryLock> {
    fs::create_dir(path)?;
    let lock = lock_directory(path, Duration::ZERO)?;
    Manifest::default().write(path)?;
    Ok(lock)
}

/// Only a directory in which every file is on the list that the run left there may be replaced.
fn check(target: &Path, force: bool) -> Result<(), StagingError> {
    if fs::symlink_metadata(target).is_err() {
        return Ok(());
    }
    if target.is_symlink() && !target.exists() {
        return Err(StagingError::Dangling(target.to_owned()));
    }
    let Ok(found) = manifest::foreign(target) else { return Err(StagingError::Foreign(target.to_owned())) };
    let empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    match found {
        _ if empty => Ok(()),
        None if !force => Err(StagingError::Exists(target.to_owned())),
        None => Ok(()),
        Some(file) if !force => Err(StagingError::Occupied { dir: target.to_owned(), file }),
        Some(file) => Err(StagingError::ForeignFile { dir: target.to_owned(), file }),
    }
}

/// Directories of runs that were killed. Those of others, of runs that live, and what only looks alike stay.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)).and_then(|n| n.parse::<u32>().ok());
        let path = entry.path();
        if number.is_none() || !is_own_directory(&path) {
            continue;
        }
        // Held by the process that writes there. Without a list, the run ended before it wrote anything else.
        let Ok(_lock) = lock_directory(&path, Duration::ZERO) else { continue };
        if Manifest::read(&path).is_some() {
            let _ = fs::remove_dir_all(&path); // one that stays is tried again
        } else if number.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(path.join(manifest::UNFINISHED)); // perhaps the run ended before there was one
            let _ = fs::remove_dir(&path); // only if it is empty
        }
    }
}

/// A directory, no link, of this user.
fn is_own_directory(path: &Path) -> bool {
    let Ok(me) = fs::metadata("/proc/self").map(|me| me.uid()) else { return false };
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == me)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_appear_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let target = dir.join("run");
        let staging = Staging::new(&target, false).unwrap();
        staging.write("a.csv", "x").unwrap();
        assert!(!target.exists());
        drop(staging);
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "dropped before its end, nothing stays");
        let staging = Staging::new(&target, false).unwrap();
        staging.write("a.csv", "x").unwrap();
        staging.commit().unwrap();
        assert!(target.join("a.csv").is_file());
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        assert!(matches!(Staging::new(&target, false), Err(StagingError::Exists(_))));
        let staging = Staging::new(&target, true).unwrap();
        staging.write("a.csv", "y").unwrap();
        staging.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("a.csv")).unwrap(), "y");
        assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_run_left_goes_and_what_only_looks_alike_stays() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (left, alike, busy) = (dir.join(".run.partial-1"), dir.join(".run.partial-2"), dir.join(".run.partial-3"));
        for path in [&left, &alike, &busy] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("flows.csv"), "x").unwrap();
        }
        Manifest::default().write(&left).unwrap();
        Manifest::default().write(&busy).unwrap();
        let lives = lock_directory(&busy, Duration::ZERO).unwrap();
        drop(Staging::new(&dir.join("run"), false).unwrap());
        assert!(!left.exists() && alike.exists() && busy.exists());
        drop(lives);
        drop(Staging::new(&dir.join("run"), false).unwrap());
        assert!(alike.exists() && !busy.exists());
        // Killed before its list had its name. No process has such a number.
        let early = dir.join(".run.partial-4294967295");
        fs::create_dir(&early).unwrap();
        fs::write(early.join(manifest::UNFINISHED), "").unwrap();
        drop(Staging::new(&dir.join("run"), false).unwrap());
        assert!(!early.exists());
    }

    #[test]
    fn force_replaces_only_results() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let target = dir.join("home");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("thesis.tex"), "").unwrap();
        assert!(matches!(Staging::new(&target, true), Err(StagingError::ForeignFile { .. })));
        let said = Staging::new(&target, false).unwrap_err().to_string();
        assert!(said.contains("thesis.tex") && said.contains("home/run1") && !said.contains("--force"), "{said}");
        // Neither does a file of ours beside it make it ours.
        Manifest::default().write(&target).unwrap();
        assert!(matches!(Staging::new(&target, true), Err(StagingError::ForeignFile { .. })));
        assert!(target.join("thesis.tex").exists());
        std::os::unix::fs::symlink("nowhere", dir.join("link")).unwrap();
        assert!(matches!(Staging::new(&dir.join("link"), true), Err(StagingError::Dangling(_))));
        assert!(dir.join("link").is_symlink() && !dir.join("nowhere").exists());
        assert!(matches!(Staging::new(&target.join("thesis.tex"), true), Err(StagingError::Foreign(_))));
    }
}
