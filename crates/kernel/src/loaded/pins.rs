//! What edges have pinned in the BPF file system.

use super::{Error, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where systems mount it.
const BPFFS: &str = "/sys/fs/bpf";

/// Of maps that edges of all versions share.
pub(super) const KEPT: &str = "kept";
/// Its map, with what is kept of connections' handshakes: `datapath/kernel/kept.h`.
pub(super) const HANDSHAKES: &str = "handshakes";

/// The program of guests' own ends: [`super::inside`].
pub(super) const INSIDE: &str = "inside";

pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map(|entries| entries.flatten().map(|e| e.path()).collect()).unwrap_or_default()
}

/// `v3`, `v3-1024`: see [`choose_maps`].
pub(super) fn holds_maps(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('v'));
    name.is_some_and(|name| name.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())))
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
