//! The files of a lab while it is up: one directory, which only its owner can read.

use super::LabFailure;
use lab::{lock_directory, DirectoryLock};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// A lab that was brought up, as its directory tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    /// Of the process behind it, and when that started, in the kernel's ticks: numbers of processes come round again.
    pub(super) pid: u32,
    pub(super) started: u64,
    /// Marks the processes of this lab in their environment.
    pub(super) id: String,
    /// The fabric in a few words.
    pub(super) title: String,
    pub(super) scheme: String,
    pub(super) hosts: Vec<HostRecord>,
    /// What is not as it was asked for.
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostRecord {
    pub(super) name: String,
    pub(super) address: String,
    /// The network namespace: where to find it while the lab's process lives, and its number.
    pub(super) namespace: String,
    pub(super) inode: u64,
}

/// The process behind a lab: its number, and when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabProcess {
    pub(super) pid: u32,
    started: u64,
}

impl LabProcess {
    /// The process of that number, if there is one.
    pub(super) fn of(pid: u32) -> Option<LabProcess> {
        started(pid).map(|started| LabProcess { pid, started })
    }

    pub(super) fn is_alive(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// Does this entry of an environment mark a process of the lab `name`, and is the process behind that lab gone?
pub(super) fn is_of_gone(name: &str, entry: &str) -> bool {
    let id = entry.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('=')?.strip_prefix(name)?.strip_prefix('-'));
    let numbers = id.and_then(|id| id.split_once('-'));
    let process =
        numbers.and_then(|(pid, started)| Some(LabProcess { pid: pid.parse().ok()?, started: started.parse().ok()? }));
    process.is_some_and(|process| !process.is_alive())
}

/// More is not ours.
const MAX_RECORD: u64 = 64 << 20;

/// The name of the environment's entry by which processes of a lab are known.
pub(super) const MARK: &str = "SELVEDGE_LAB";

/// What this process made to keep labs in, the innermost first.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the directories that this process made to keep labs in and that hold none.
pub(super) fn tidy() {
    if let Ok(made) = MADE.lock() {
        for dir in made.iter() {
            let _ = fs::remove_dir(dir); // stays while there is something in it
        }
    }
}

/// Where the directories of labs are.
///
/// # Errors
/// If there is no place that is ours to write.
pub(super) fn base() -> Result<PathBuf, LabFailure> {
    let uid = fs::metadata("/proc/self").map_or(0, |m| m.uid());
    let own = |variable: &str, below: &str| {
        std::env::var_os(variable).filter(|dir| !dir.is_empty()).map(|dir| PathBuf::from(dir).join(below))
    };
    let candidates = [
        own("SELVEDGE_RUN_DIR", "lab"),
        Some(PathBuf::from("/run/selvedge/lab")),
        own("XDG_RUNTIME_DIR", "selvedge/lab"),
        Some(std::env::temp_dir().join(format!("selvedge-{}/lab", outer_uid(uid)))),
    ];
    for candidate in candidates.into_iter().flatten() {
        let missing: Vec<&Path> = candidate.ancestors().take_while(|dir| !dir.exists()).collect();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&candidate);
        if let Ok(mut all) = MADE.lock() {
            all.extend(missing.into_iter().map(Path::to_owned));
        }
        // In a directory that everybody may write, somebody else's is not to be trusted.
        let ours =
            fs::symlink_metadata(&candidate).is_ok_and(|m| m.is_dir() && m.uid() == uid && m.mode() & 0o022 == 0);
        if made.is_ok() && ours && writable(&candidate) {
            return Ok(candidate);
        }
    }
    Err(LabFailure::NoPlace)
}

/// The user's number outside a user namespace, in which everybody may be root.
fn outer_uid(uid: u32) -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().filter_map(|n| n.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let offset = uid.checked_sub(inside).filter(|&offset| offset < count)?;
        outside.checked_add(offset)
    };
    map.lines().find_map(range).unwrap_or(uid)
}

fn writable(dir: &Path) -> bool {
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    let made = fs::write(&probe, b"").is_ok();
    // If it could not be made there is nothing to remove.
    let _ = fs::remove_file(probe);
    made
}

/// How long one `lab up` or `lab down` waits for another to be done.
const PATIENCE: Duration = Duration::from_secs(30);

/// Held while a lab is brought up or taken down, so that one process does not remove what another is making.
///
/// # Errors
/// As [`base`]; somebody else does not come to an end.
pub(super) fn lock() -> Result<DirectoryLock, LabFailure> {
    lock_directory(&base()?, PATIENCE).map_err(|source| match source.kind() {
        io::ErrorKind::TimedOut => LabFailure::Busy,
        _ => LabFailure::Io { what: "the directory of labs", source },
    })
}

/// # Errors
/// A name that is none.
pub(super) fn directory(name: &str) -> Result<PathBuf, LabFailure> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 24 || !name.chars().all(legal) || name.starts_with('-') {
        return Err(LabFailure::Name(name.to_owned()));
    }
    Ok(base()?.join(name))
}

/// Names of all labs that have a directory.
///
/// # Errors
/// As [`base`].
pub(super) fn all() -> Result<Vec<String>, LabFailure> {
    let entries = fs::read_dir(base()?).map_err(LabFailure::io("the directory of labs"))?;
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.retain(|name| directory(name).is_ok());
    names.sort();
    Ok(names)
}

/// Makes the directory of a lab.
///
/// # Errors
/// If it is there, which is for the caller to have ruled out.
pub(super) fn create(dir: &Path) -> Result<(), LabFailure> {
    DirBuilder::new().mode(0o700).create(dir).map_err(LabFailure::io("the lab's directory"))
}

impl Record {
    /// # Errors
    /// No such lab, or a record that cannot be read.
    pub(super) fn read(name: &str) -> Result<Record, LabFailure> {
        let dir = directory(name)?;
        let path = dir.join("lab.json");
        let unread = |source| LabFailure::Record { name: name.to_owned(), path: path.clone(), source };
        let text = files::read_regular_text(&path, MAX_RECORD).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if !dir.exists() => LabFailure::NoLab(name.to_owned(), known(name)),
            _ => unread(e),
        })?;
        serde_json::from_str(&text).map_err(|e| unread(e.into()))
    }

    /// Whole or not at all.
    ///
    /// # Errors
    /// As the file system gives them.
    pub(super) fn write(&self, dir: &Path) -> Result<(), LabFailure> {
        let write = || {
            let temporary = dir.join("lab.json.new");
            fs::write(&temporary, serde_json::to_vec_pretty(self)?)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
            fs::rename(temporary, dir.join("lab.json"))
        };
        write().map_err(LabFailure::io("the lab's record"))
    }

    pub(super) fn process(&self) -> LabProcess {
        LabProcess { pid: self.pid, started: self.started }
    }

    /// Does the process behind it live?
    pub(super) fn is_alive(&self) -> bool {
        self.process().is_alive()
    }

    /// The entry of the environment that marks its processes.
    pub(super) fn mark(&self) -> String {
        format!("{MARK}={}", self.id)
    }

    pub(super) fn inodes(&self) -> Vec<u64> {
        self.hosts.iter().map(|h| h.inode).collect()
    }

    /// `h3` and `host3` name the host 3.
    ///
    /// # Errors
    /// No such host.
    pub(super) fn host(&self, name: &str) -> Result<&HostRecord, LabFailure> {
        self.find(name)
            .ok_or_else(|| LabFailure::NoHost { name: name.to_owned(), last: self.hosts.len().saturating_sub(1) })
    }

    pub(super) fn find(&self, name: &str) -> Option<&HostRecord> {
        let short = name.strip_prefix('h').and_then(|n| n.parse::<usize>().ok());
        short.and_then(|n| self.hosts.get(n)).or_else(|| self.hosts.iter().find(|h| h.name == name))
    }
}

/// What to do where there is no lab `name`.
pub(super) fn known(name: &str) -> String {
    let names = all().unwrap_or_default();
    match names.is_empty() {
        true => format!("bring one up with `selvedge lab up --name {name}`"),
        false => format!("there are {}", names.join(", ")),
    }
}

/// When a process started, in ticks since the machine did; `None` if there is none, or nothing but its remains.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in parentheses, may contain anything.
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?;
    (state != "Z" && state != "X").then(|| rest.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_directory_names() {
        for name in ["", "Lab", "a/b", "..", "-x", &"a".repeat(25)] {
            assert!(matches!(directory(name), Err(LabFailure::Name(_))), "{name:?}");
        }
    }

    #[test]
    fn a_process_has_a_beginning() {
        assert!(started(std::process::id()).is_some());
        assert_eq!(started(u32::MAX), None);
    }

    #[test]
    fn programs_of_a_lab_whose_process_is_gone_are_known_by_their_mark() {
        let own = std::process::id();
        let alive = LabProcess::of(own).unwrap();
        assert!(alive.is_alive());
        for (entry, gone) in [
            ("SELVEDGE_LAB=one-4194305-17".to_owned(), true),
            (format!("SELVEDGE_LAB=one-{own}-{}", alive.started), false),
            (format!("SELVEDGE_LAB=one-{own}-{}", alive.started + 1), true),
            ("SELVEDGE_LAB=one-2-4194305-17".to_owned(), false),
            ("SELVEDGE_LAB=on-4194305-17".to_owned(), false),
            ("XSELVEDGE_LAB=one-4194305-17".to_owned(), false),
            ("SELVEDGE_LAB=one-".to_owned(), false),
        ] {
            assert_eq!(is_of_gone("one", &entry), gone, "{entry}");
        }
    }

    #[test]
    fn hosts_have_two_names() {
        let host = |n: u32| HostRecord {
            name: format!("host{n}"),
            address: format!("10.0.0.{}", n + 1),
            namespace: String::new(),
            inode: 0,
        };
        let record = Record {
            name: "lab".into(),
            pid: 1,
            started: 0,
            id: "x".into(),
            title: String::new(),
            scheme: String::new(),
            hosts: (0..3).map(host).collect(),
            notes: Vec::new(),
        };
        assert_eq!(record.host("h2").unwrap().name, "host2");
        assert_eq!(record.host("host0").unwrap().address, "10.0.0.1");
        assert!(record.host("h3").is_err() && record.host("x").is_err());
    }
}
