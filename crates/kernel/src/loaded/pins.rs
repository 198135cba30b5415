//! What edges have pinned in the BPF file system.

use super::{attach, Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where systems mount it.
const BPFFS: &str = "/sys/fs/bpf";

/// Of maps that edges of all versions share.
pub(super) const KEPT: &str = "kept";
/// Its map, with what is kept of connections' handshakes: `datapath/kernel/kept.h`.
pub(super) const HANDSHAKES: &str = "handshakes";

pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

/// `v3`, `v3-1024`: see [`choose_maps`].
pub(super) fn holds_maps(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('v'));
    name.is_some_and(|name| name.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())))
}

/// Takes the programs of the edge below `pins` off their interfaces, and removes what edges of any version pinned there and nothing
/// else; `pins` too, unless others use it. No program is loaded for that. Fine if there is nothing.
///
/// # Errors
/// The first pin that does not go.
pub fn remove_edge(pins: &Path) -> Result<()> {
    for (ifindex, role) in attach::attachments(pins) {
        attach::detach(pins, ifindex, role)?;
    }
    let own = |path: &Path| holds_maps(path) || ["links", "filters", KEPT].iter().any(|own| path.ends_with(own));
    entries(pins).iter().filter(|path| own(path)).try_for_each(|dir| remove_pins(dir))?;
    match fs::remove_dir(pins) {
        Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty && e.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io("remove", pins.into(), e))
        }
        _ => Ok(()),
    }
}

/// Where else on this host an edge is pinned: beside `pins`, and right below the usual place of the BPF file system. Sorted.
pub fn other_edges(pins: &Path) -> Vec<PathBuf> {
    let beside = pins.parent().map(entries).unwrap_or_default();
    let mut found = entries(Path::new(BPFFS));
    found.extend(beside);
    found.retain(|dir| dir != pins && entries(dir).iter().any(|path| holds_maps(path)));
    found.sort();
    found.dedup();
    found
}

/// Where the map `name` is pinned: with those of its version, in `maps`, or with those of all.
pub(super) fn place(pins: &Path, maps: &Path, name: &OsStr) -> PathBuf {
    match name == HANDSHAKES {
        true => pins.join(KEPT).join(name),
        false => maps.join(name),
    }
}

pub(super) fn remove_pins(dir: &Path) -> Result<()> {
    for path in entries(dir) {
        if path.is_dir() {
            remove_pins(&path)?;
        } else {
            fs::remove_file(&path).map_err(|e| Error::Io("remove", path, e))?;
        }
    }
    fs::remove_dir(dir).map_err(|e| Error::Io("remove", dir.into(), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_an_edges_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let pins = dir.path().join("pins");
        for own in ["v3", "v3-1024", "v12", "links", "filters", "kept"] {
            fs::create_dir_all(pins.join(own)).unwrap();
            fs::write(pins.join(own).join("x"), "").unwrap();
        }
        for others in ["virtual", "v", "v3-", "v3a", "tc"] {
            fs::create_dir_all(pins.join(others)).unwrap();
        }
        let (beside, other) = (pins.with_extension("beside"), pins.with_extension("other"));
        fs::create_dir_all(beside.join("v3")).unwrap();
        fs::create_dir_all(other.join("virtual")).unwrap();
        let others = other_edges(&pins);
        assert!(others.contains(&beside) && !others.contains(&other) && !others.contains(&pins), "{others:?}");
        remove_edge(&pins).unwrap();
        let mut left: Vec<_> = entries(&pins).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        left.sort();
        assert_eq!(left, ["tc", "v", "v3-", "v3a", "virtual"]);
        fs::remove_dir_all(&pins).unwrap();
        remove_edge(&pins).expect("fine if there is nothing");
    }
}
