//! What must be undone when the edge is taken away, in a file beside the socket: a bpffs holds no text.

use super::error::{io_error, Error, Result};
use super::requested::Granted;
use agent_api::config::Config;
use files::read_regular;
use files::{beside, replace, sweep};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Another one only where a key means something else: new keys need none, if they may be missing.
const VERSION: u32 = 1;
/// More is not ours.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    version: u32,
    pub(super) pins: PathBuf,
    /// The kernel's name for the time since it started: afterwards interfaces have other numbers.
    #[serde(default)]
    boot: String,
    /// Inode of the network namespace: interfaces are its own.
    pub(super) namespace: u64,
    pub(super) ports: Vec<RememberedPort>,
    /// Names of the GRO devices that were added.
    pub(super) gro: Vec<String>,
    /// Numbers of tenants' classes, by name.
    #[serde(default)]
    pub(super) tenants: std::collections::BTreeMap<String, u32>,
    /// Limits that were asked for on the socket.
    #[serde(default)]
    pub(super) requested: Vec<Granted>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RememberedPort {
    pub(super) ifindex: u32,
    pub(super) interface: String,
    /// If the agent changed it.
    pub(super) mtu: Option<Mtu>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mtu {
    pub(super) original: u32,
    pub(super) set: u32,
}

impl Remembered {
    /// What an earlier agent noted, or a new leaf.
    ///
    /// # Errors
    /// [`Error::Unresolved`] if the pins are of an edge in another network namespace.
    pub(super) fn recall(config: &Config) -> Result<Remembered> {
        let holds_edge = std::fs::read_dir(&config.pins).is_ok_and(|mut pins| pins.next().is_some());
        let found = Remembered::load(&config.socket).filter(|remembered| remembered.pins == config.pins);
        let found = found.filter(|remembered| holds_edge || remembered.is_of_this_namespace());
        if found.as_ref().is_some_and(|remembered| !remembered.is_of_this_namespace()) {
            return Err(Error::Unresolved(format!(
                "{} holds the edge of another network namespace; give this agent other `pins` and another `socket`, or run \
                 `selvedge agent stop` first",
                config.pins.display()
            )));
        }
        Ok(found.unwrap_or_else(|| Remembered::new(&config.pins)))
    }

    pub(super) fn new(pins: &Path) -> Remembered {
        Remembered {
            version: VERSION,
            boot: boot(),
            pins: pins.into(),
            namespace: namespace(),
            ..Remembered::default()
        }
    }

    /// What an agent has changed that nobody knows any more, as its edge is there and this file is not, or does not read.
    pub(super) fn forgotten(pins: &Path, socket: &Path) -> Option<String> {
        let holds_edge = fs::read_dir(pins).is_ok_and(|mut pins| pins.next().is_some());
        let path = path(socket);
        let why = match Remembered::read(socket) {
            Err(why) => why,
            Ok(Some(remembered)) if remembered.pins == pins => return None,
            Ok(Some(remembered)) => format!("it is of {}", remembered.pins.display()),
            Ok(None) => "there is no such file".to_owned(),
        };
        holds_edge
            .then(|| format!("{} does not say what the agent of {} has changed: {why}", path.display(), pins.display()))
    }

    /// `None` if there is no such file, or none that this version understands.
    pub(super) fn load(socket: &Path) -> Option<Remembered> {
        Remembered::read(socket).ok().flatten()
    }

    /// # Errors
    /// Why the file does not read, if there is one.
    fn read(socket: &Path) -> std::result::Result<Option<Remembered>, String> {
        let text = match read_regular(&path(socket), MAX_BYTES) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|e| e.to_string())?,
        };
        let mut found: Remembered = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let boot = boot();
        if found.boot != boot {
            found.requested.clear();
            found.boot = boot;
        }
        // Earlier versions lacked some keys, which are then empty.
        if !(1..=VERSION).contains(&found.version) {
            return Err(format!("version {} is not known", found.version));
        }
        found.version = VERSION;
        Ok(Some(found))
    }

    /// Replaces the file as a whole.
    pub(super) fn save(&self, socket: &Path) -> Result<()> {
        let path = path(socket);
        let text = serde_json::to_vec(self).map_err(|e| io_error("write", &path)(e.into()))?;
        replace(&path, &text).map_err(io_error("write", &path))
    }

    /// Can the file be written beside that socket, in a directory that is writable?
    ///
    /// # Errors
    /// A directory is in its place.
    pub(super) fn check(socket: &Path) -> Result<()> {
        let path = path(socket);
        match path.is_dir() {
            true => Err(Error::Io("write", path, std::io::ErrorKind::IsADirectory.into())),
            false => Ok(()),
        }
    }

    /// Removes what an agent left that was killed while it saved. Only whoever has the lock may.
    pub(super) fn sweep(socket: &Path) {
        sweep(&path(socket));
    }

    pub(super) fn remove(socket: &Path) {
        let _ = fs::remove_file(path(socket)); // fine if there is none
    }

    pub(super) fn is_of_this_namespace(&self) -> bool {
        self.namespace == namespace()
    }

    /// What stays in its namespace after a stop from another one; `all` if programs stay too.
    pub(super) fn elsewhere(&self, socket: &Path, all: bool) -> String {
        let mut left = if all { vec!["its programs".to_owned()] } else { Vec::new() };
        let mtus: Vec<&str> = self.ports.iter().filter(|p| p.mtu.is_some()).map(|p| p.interface.as_str()).collect();
        match mtus.as_slice() {
            [] => {}
            few if few.len() <= 8 => left.push(format!("the MTU of {}", few.join(", "))),
            many => left.push(format!("the MTU of {} ports", many.len())),
        }
        left.extend(self.gro.iter().map(|name| format!("the device {name}")));
        left.push(format!("the devices {} and {}", kernel::cut::FIRST, kernel::cut::SECOND));
        left.push("rate limits and the devices of FastLane, if there are any".to_owned());
        let remedy = match path_of(self.namespace) {
            Some(path) => format!("run it there: `nsenter --net={} selvedge agent stop ...`", path.display()),
            None => format!(
                "that namespace has no name and no process here; enter it from where it is known and run it there, or \
                 remove {} if it is gone",
                self::path(socket).display()
            ),
        };
        format!("the agent ran in another network namespace, where {} stay; {remedy}", left.join(", "))
    }

    pub(super) fn port(&self, ifindex: u32, interface: &str) -> Option<&RememberedPort> {
        self.ports.iter().find(|port| port.ifindex == ifindex && port.interface == interface)
    }
}

fn path(socket: &Path) -> PathBuf {
    beside(socket, ".state")
}

/// Empty if it cannot be told.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Of this thread; 0 if it cannot be told.
fn namespace() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino())
}

/// Where a network namespace can be entered: by its name, or by a process in it.
fn path_of(inode: u64) -> Option<PathBuf> {
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = entries("/run/netns");
    let processes = entries("/proc").map(|process| process.join("ns/net"));
    named.chain(processes).find(|path| fs::metadata(path).is_ok_and(|meta| meta.ino() == inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_api::pod::Pod;
    use agent_api::protocol::RequestedLimit;

    #[test]
    fn what_is_saved_is_loaded_and_rubbish_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("ctl.sock");
        assert_eq!(Remembered::load(&socket), None);
        let mut remembered = Remembered::new(Path::new("/pins"));
        let mtu = Some(Mtu { original: 1500, set: 1450 });
        remembered.ports.push(RememberedPort { ifindex: 3, interface: "veth1".into(), mtu });
        remembered.save(&socket).unwrap();
        let (interface, owner) = ("veth1".to_owned(), "a".to_owned());
        let pod = Pod { pod: Some("web-1".into()), namespace: Some("shop".into()) };
        let limit = RequestedLimit { interface, owner, egress_bps: Some(1), ingress_bps: None, enters: true, pod };
        remembered.requested.push(Granted { ifindex: 3, limit });
        remembered.save(&socket).unwrap();
        assert_eq!(Remembered::load(&socket), Some(remembered.clone()));
        // As agents wrote it that knew of no pods.
        let text = fs::read_to_string(path(&socket)).unwrap();
        let of_pod = r#","pod":"web-1","namespace":"shop""#;
        assert!(text.contains(of_pod), "{text}");
        fs::write(path(&socket), text.replace(of_pod, "")).unwrap();
        let old = Remembered::load(&socket).unwrap();
        assert_eq!((old.requested.len(), &old.requested[0].limit.pod), (1, &Pod::default()));
        let text = text.replace(&boot(), "an earlier one");
        fs::write(path(&socket), text).unwrap();
        assert_eq!(Remembered::load(&socket).map(|found| found.requested.len()), Some(0), "numbers of another boot");
        assert!(remembered.is_of_this_namespace());
        assert!(remembered.port(3, "veth1").is_some() && remembered.port(3, "veth2").is_none());
        for rubbish in ["", "{}", "{\"version\":99}", "\0\0"] {
            fs::write(path(&socket), rubbish).unwrap();
            assert_eq!(Remembered::load(&socket), None, "{rubbish:?}");
            let forgotten = |pins: &Path| Remembered::forgotten(pins, &socket);
            assert!(
                forgotten(dir.path()).is_some_and(|why| why.contains("ctl.sock.state does not say")),
                "{rubbish:?}"
            );
            assert_eq!(forgotten(&dir.path().join("none")), None, "without an edge nothing is forgotten");
        }
    }
}
