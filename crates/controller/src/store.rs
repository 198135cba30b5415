//! Where the record of a controller is kept: in a file for one controller, in etcd for several.

use super::etcd::Etcd;
use super::record::{Place, Record, Saved};
use super::Error;
use files::read_regular;
use files::{beside, replace};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// More is not ours.
const MAX_BYTES: u64 = 16 << 20;

pub(super) enum Store {
    File(FileStore),
    Etcd(Etcd),
}

impl Store {
    /// # Errors
    /// Who does not answer, or holds something else.
    pub(super) async fn load(&self) -> Result<(Option<Record>, Place), Error> {
        match self {
            Store::File(file) => file.load().map(|record| (record, 0)),
            Store::Etcd(etcd) => etcd.load().await,
        }
    }

    /// `place`: where the record that this one follows was read.
    ///
    /// # Errors
    /// What is refused; the old record is then still there.
    pub(super) async fn save(&self, record: &Record, place: Place) -> Result<Saved, Error> {
        match self {
            Store::File(file) => file.save(record).map(|()| Saved::At(0)),
            Store::Etcd(etcd) => etcd.save(record, place).await,
        }
    }

    /// Do others change it, too?
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Store::Etcd(_))
    }
}

/// Held by one controller at a time.
pub(super) struct FileStore {
    path: PathBuf,
    _lock: Flock<File>,
}

impl FileStore {
    /// # Errors
    /// Another controller has it; a directory that is not there.
    pub(super) fn open(path: &Path) -> Result<FileStore, Error> {
        let lock_path = beside(path, ".lock");
        let lock = File::options().write(true).create(true).truncate(false).open(&lock_path);
        let lock = lock.map_err(|e| Error::Io("open", lock_path, e))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|_| Error::Held(path.to_owned()))?;
        Ok(FileStore { path: path.to_owned(), _lock: lock })
    }

    /// `None` if there is none yet.
    fn load(&self) -> Result<Option<Record>, Error> {
        let path = &self.path;
        let foreign = |problem: String| Error::Store {
            path: path.to_owned(),
            problem,
            remedy: "move it away, or give another `store`",
        };
        let text = match read_regular(path, MAX_BYTES) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                return Err(foreign("is too large for a controller's record".into()));
            }
            read => read.map_err(|e| Error::Io("read", path.to_owned(), e))?,
        };
        Record::read(&text).map(Some).map_err(foreign)
    }

    fn save(&self, record: &Record) -> Result<(), Error> {
        replace(&self.path, record.text().as_bytes()).map_err(|e| Error::Io("write", self.path.clone(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_record_comes_back_and_strangers_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("controller.json");
        let store = FileStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), None);
        let record = Record::new(7, 3, vec!["leaf1-spine2".into()]);
        store.save(&record).unwrap();
        assert!(matches!(FileStore::open(&path), Err(Error::Held(_))));
        drop(store);
        let store = FileStore::open(&path).unwrap();
        assert_eq!(store.load().unwrap(), Some(record));
        for rubbish in ["", "{}", "{\"version\":9,\"fabric\":1,\"revision\":1,\"failed\":[]}", "\0"] {
            fs::write(&path, rubbish).unwrap();
            assert!(matches!(store.load(), Err(Error::Store { .. })), "{rubbish:?}");
        }
        dir.close().unwrap();
        assert!(matches!(FileStore::open(&path), Err(Error::Io(..))));
    }
}
