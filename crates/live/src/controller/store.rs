//! What a controller must not forget: the revision, or agents would take new schedules for old ones, and the failed links.
//! One small record, replaced as a whole; a database would have nothing else to hold.

use super::Error;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// More is not ours.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u32,
    pub(super) fabric: u64,
    pub(super) revision: u64,
    pub(super) failed: Vec<String>,
}

impl Record {
    pub(super) fn new(fabric: u64, revision: u64, failed: Vec<String>) -> Record {
        Record { version: VERSION, fabric, revision, failed }
    }
}

/// Held by one controller at a time.
pub(super) struct Store {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Store {
    /// # Errors
    /// Another controller has it; a directory that is not there; a file that is not a controller's.
    pub(super) fn open(path: &Path) -> Result<(Store, Option<Record>), Error> {
        let lock_path = beside(path, ".lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(|e| Error::Io("open", lock_path, e))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| Error::Held(path.to_owned()))?;
        let store = Store { path: path.to_owned(), _lock: lock };
        let foreign = |problem: String| Error::Store {
            path: path.to_owned(),
            problem,
            remedy: "move it away, or give another `store`",
        };
        match fs::metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((store, None)),
            Err(e) => return Err(Error::Io("read", path.to_owned(), e)),
            Ok(meta) if meta.len() > MAX_BYTES => return Err(foreign("is too large for a controller's record".into())),
            Ok(_) => {}
        }
        let text = fs::read(path).map_err(|e| Error::Io("read", path.to_owned(), e))?;
        let record: Record =
            serde_json::from_slice(&text).map_err(|e| foreign(format!("is not a controller's record: {e}")))?;
        if record.version != VERSION {
            return Err(foreign(format!("is of version {}, this controller knows {VERSION}", record.version)));
        }
        Ok((store, Some(record)))
    }

    /// # Errors
    /// What the file system refuses; the old record is then still there.
    pub(super) fn save(&self, record: &Record) -> Result<(), Error> {
        let partial = beside(&self.path, ".new");
        let failed = |e| Error::Io("write", self.path.clone(), e);
        let text = serde_json::to_vec(record).map_err(|e| failed(e.into()))?;
        let mut file = File::create(&partial).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&partial, &self.path).map_err(failed)
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_strangers_are_refused() {
        let dir = std::env::temp_dir().join(format!("selvedge-store-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("controller.json");
        let (store, none) = Store::open(&path).unwrap();
        assert_eq!(none, None);
        let record = Record::new(7, 3, vec!["leaf1-spine2".into()]);
        store.save(&record).unwrap();
        assert!(matches!(Store::open(&path), Err(Error::Held(_))));
        drop(store);
        assert_eq!(Store::open(&path).unwrap().1, Some(record));
        for rubbish in ["", "{}", "{\"version\":9,\"fabric\":1,\"revision\":1,\"failed\":[]}", "\0"] {
            fs::write(&path, rubbish).unwrap();
            assert!(matches!(Store::open(&path), Err(Error::Store { .. })), "{rubbish:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
        assert!(matches!(Store::open(&path), Err(Error::Io(..))));
    }
}
