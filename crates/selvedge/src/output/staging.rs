//! A directory of results that is either whole or not there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What cannot be done about a results directory.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("{0} exists; choose another directory or replace it with --force")]
    Exists(PathBuf),
    #[error("{0} exists and holds something other than results of selvedge, which --force does not replace; choose another directory")]
    Foreign(PathBuf),
    #[error("{0} cannot be the name of a results directory; give a path such as out/run1")]
    Name(PathBuf),
    #[error("cannot write {path}: {source}; choose a directory where you may write")]
    Io { path: PathBuf, source: io::Error },
}

/// Directories being written, which an interrupt removes.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory beside the final one that takes its name once complete. Dropped before that, it is removed.
#[derive(Debug)]
pub struct Staging {
    path: PathBuf,
    target: PathBuf,
    force: bool,
}

/// Files one of which tells a directory of ours from others.
const MARKS: [&str; 2] = ["effective.toml", "results.jsonl"];

impl Staging {
    /// # Errors
    /// The target exists and may not be replaced, or nothing can be written beside it.
    pub fn new(target: &Path, force: bool) -> Result<Staging, StagingError> {
        check(target, force)?;
        let name = target.file_name().ok_or_else(|| StagingError::Name(target.to_owned()))?;
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = parent.join(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
        fs::create_dir_all(&path).map_err(|source| StagingError::Io { path: path.clone(), source })?;
        if let Ok(mut unfinished) = UNFINISHED.lock() {
            unfinished.push(path.clone());
        }
        Ok(Staging { path, target: target.to_owned(), force })
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// As the file system gives them.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> Result<(), StagingError> {
        let path = self.path.join(name);
        fs::write(&path, contents).map_err(|source| StagingError::Io { path, source })
    }

    /// Gives the directory its name.
    ///
    /// # Errors
    /// The target has come to exist meanwhile, or the file system refuses.
    pub fn commit(self) -> Result<(), StagingError> {
        check(&self.target, self.force)?;
        let io = |source| StagingError::Io { path: self.target.clone(), source };
        if self.target.exists() {
            let old = self.path.with_extension("old");
            fs::rename(&self.target, &old).map_err(io)?;
            fs::rename(&self.path, &self.target).map_err(io)?;
            fs::remove_dir_all(&old).map_err(io)
        } else {
            fs::rename(&self.path, &self.target).map_err(io)
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a commit there is nothing under this name any more.
        let _ = fs::remove_dir_all(&self.path);
        if let Ok(mut unfinished) = UNFINISHED.lock() {
            unfinished.retain(|path| *path != self.path);
        }
    }
}

fn check(target: &Path, force: bool) -> Result<(), StagingError> {
    if fs::symlink_metadata(target).is_err() {
        return Ok(());
    }
    let empty = fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    if !force && !empty {
        return Err(StagingError::Exists(target.to_owned()));
    }
    let ours = MARKS.iter().any(|mark| target.join(mark).is_file());
    match empty || ours {
        true => Ok(()),
        false => Err(StagingError::Foreign(target.to_owned())),
    }
}

/// On Ctrl-C, removes what is half-written and ends the process with status 130.
pub fn handle_interrupt() {
    // Without a handler the default action still ends the process; only the temporary directory would stay.
    let _ = ctrlc::set_handler(|| {
        if let Ok(unfinished) = UNFINISHED.lock() {
            for path in unfinished.iter() {
                let _ = fs::remove_dir_all(path);
            }
        }
        eprintln!("interrupted; no results were written");
        std::process::exit(130);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("selvedge-staging-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn results_appear_whole_or_not_at_all() {
        let dir = scratch("whole");
        let target = dir.join("run");
        let staging = Staging::new(&target, false).unwrap();
        staging.write(MARKS[0], "x").unwrap();
        assert!(!target.exists());
        drop(staging);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "dropped before its end, nothing stays");
        let staging = Staging::new(&target, false).unwrap();
        staging.write(MARKS[0], "x").unwrap();
        staging.commit().unwrap();
        assert!(target.join(MARKS[0]).is_file());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(matches!(Staging::new(&target, false), Err(StagingError::Exists(_))));
        let staging = Staging::new(&target, true).unwrap();
        staging.write(MARKS[0], "y").unwrap();
        staging.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join(MARKS[0])).unwrap(), "y");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn force_replaces_only_results() {
        let dir = scratch("force");
        let target = dir.join("home");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("thesis.tex"), "").unwrap();
        assert!(matches!(Staging::new(&target, true), Err(StagingError::Foreign(_))));
        assert!(target.join("thesis.tex").exists());
        fs::remove_dir_all(dir).unwrap();
    }
}
