//! What must be undone when the edge is taken away, in a file beside the socket: a bpffs holds no text.

use super::error::{io_error, Result};
use crate::replace::{beside, replace};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;
/// More is not ours.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    version: u32,
    pub(super) pins: PathBuf,
    /// Inode of the network namespace: interfaces are its own.
    pub(super) namespace: u64,
    pub(super) ports: Vec<RememberedPort>,
    /// Names of the GRO devices that were added.
    pub(super) gro: Vec<String>,
    /// Numbers of tenants' classes, by name.
    #[serde(default)]
    pub(super) tenants: std::collections::BTreeMap<String, u32>,
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
    pub(super) fn new(pins: &Path) -> Remembered {
        Remembered { version: VERSION, pins: pins.into(), namespace: namespace(), ..Remembered::default() }
    }

    /// `None` if there is no such file, or none that this version understands.
    pub(super) fn load(socket: &Path) -> Option<Remembered> {
        let path = path(socket);
        if fs::metadata(&path).ok()?.len() > MAX_BYTES {
            return None;
        }
        let found: Remembered = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (found.version == VERSION).then_some(found)
    }

    /// Replaces the file as a whole.
    pub(super) fn save(&self, socket: &Path) -> Result<()> {
        let path = path(socket);
        let text = serde_json::to_vec(self).map_err(|e| io_error("write", &path)(e.into()))?;
        replace(&path, &text).map_err(io_error("write", &path))
    }

    pub(super) fn remove(socket: &Path) {
        let _ = fs::remove_file(path(socket)); // fine if there is none
    }

    pub(super) fn is_of_this_namespace(&self) -> bool {
        self.namespace == namespace()
    }

    pub(super) fn port(&self, ifindex: u32, interface: &str) -> Option<&RememberedPort> {
        self.ports.iter().find(|port| port.ifindex == ifindex && port.interface == interface)
    }
}

fn path(socket: &Path) -> PathBuf {
    beside(socket, ".state")
}

/// Of this thread; 0 if it cannot be told.
fn namespace() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_rubbish_is_not() {
        let dir = std::env::temp_dir().join(format!("selvedge-remembered-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let socket = dir.join("ctl.sock");
        assert_eq!(Remembered::load(&socket), None);
        let mut remembered = Remembered::new(Path::new("/pins"));
        let mtu = Some(Mtu { original: 1500, set: 1450 });
        remembered.ports.push(RememberedPort { ifindex: 3, interface: "veth1".into(), mtu });
        remembered.save(&socket).unwrap();
        assert_eq!(Remembered::load(&socket), Some(remembered.clone()));
        assert!(remembered.is_of_this_namespace());
        assert!(remembered.port(3, "veth1").is_some() && remembered.port(3, "veth2").is_none());
        for rubbish in ["", "{}", "{\"version\":99}", "\0\0"] {
            fs::write(path(&socket), rubbish).unwrap();
            assert_eq!(Remembered::load(&socket), None, "{rubbish:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
