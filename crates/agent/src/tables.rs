//! The pinned maps that the agent fills, row by row.

use super::error::Result;
use super::rows::{Kept, Rows};
use kernel::state::limiter::Limiter;
use kernel::state::{self, Peer, Plain, Port};
use kernel::Error as KernelError;
use kernel::{monotonic_ns, walk};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

type Keep = fn(&[u8], &[u8]) -> Option<Vec<u8>>;

#[derive(Debug)]
pub(super) struct Table {
    map: MapHandle,
    /// Leaves of a value what is the agent's.
    own: fn(Vec<u8>) -> Vec<u8>,
    /// Of a value that takes another's place, what the data path must still know of that: the old one, the new one.
    keep: Option<Keep>,
}

impl Table {
    fn open(path: &Path) -> Result<Table> {
        let map = MapHandle::from_pinned_path(path).map_err(|e| KernelError::Bpf("open a pinned map", e))?;
        Ok(Table { map, own: std::convert::identity, keep: None })
    }

    pub(super) fn rows(&self) -> Result<Rows> {
        let mut rows = Rows::new();
        walk::for_each(&self.map, |key, value| {
            rows.insert(key.to_vec(), (self.own)(value.to_vec()));
        })?;
        Ok(rows)
    }

    /// The same, with what the data path notes in them.
    pub(super) fn noted(&self) -> Result<Rows> {
        let mut rows = Rows::new();
        walk::for_each(&self.map, |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
        })?;
        Ok(rows)
    }

    /// Those of `of`, without a look at the others.
    pub(super) fn rows_of(&self, of: &Rows) -> Result<Rows> {
        let mut rows = Rows::new();
        for key in of.keys() {
            let value = self.map.lookup(key, MapFlags::ANY).map_err(|e| KernelError::Bpf("read a map", e))?;
            rows.extend(value.map(|value| (key.clone(), (self.own)(value))));
        }
        Ok(rows)
    }

    /// Changes what differs and adds what is missing: each row at once, so that no packet sees half of it.
    pub(super) fn upsert(&self, have: &Rows, want: &Rows, changes: &mut Changes) -> Result<()> {
        let (mut new, mut added, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in want {
            match have.get(key) {
                Some(old) if old == value => {}
                Some(_) => {
                    changes.changed += 1;
                    match self.keep {
                        Some(keep) => {
                            let old = self.map.lookup(key, MapFlags::ANY);
                            let old = old.map_err(|e| KernelError::Bpf("read a map", e))?;
                            kept.push((key, old.and_then(|old| keep(&old, value)).unwrap_or_else(|| value.clone())));
                        }
                        None => new.push((key.as_slice(), value.as_slice())),
                    }
                }
                None => {
                    changes.added += 1;
                    added.push((key.as_slice(), value.as_slice()));
                }
            }
        }
        new.extend(kept.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
        new.extend(added); // last: where there is no room for them, the others are in force
        Ok(walk::update_all(&self.map, &new)?)
    }

    /// The same. If the map is too full for both, what is not in `want` goes first.
    pub(super) fn upsert_in_room(&self, have: &Rows, want: &Rows, changes: &mut Changes) -> Result<()> {
        let before = *changes;
        if self.upsert(have, want, changes).is_ok() {
            return Ok(());
        }
        *changes = before;
        self.remove(have, want, &mut Changes::default())?; // counted by whoever removes it afterwards
        self.upsert(have, want, changes)
    }

    pub(super) fn remove(&self, have: &Rows, want: &Rows, changes: &mut Changes) -> Result<()> {
        let gone: Vec<&[u8]> = have.keys().filter(|key| !want.contains_key(*key)).map(Vec::as_slice).collect();
        changes.removed += gone.len();
        Ok(walk::delete_all(&self.map, &gone)?)
    }
}

/// A row of `ports` without what the data path notes in it.
fn without_notes(value: Vec<u8>) -> Vec<u8> {
    match Port::from_bytes(&value) {
        Some(port) => {
            Port { learnt_at_ns: 0, toobig_at_ns: 0, heard_at_ns: 0, mac_at_ns: 0, ..port }.as_bytes().to_vec()
        }
        None => value,
    }
}

/// The same of `limiters`.
fn without_queue(value: Vec<u8>) -> Vec<u8> {
    match Limiter::from_bytes(&value) {
        Some(limiter) => limiter.configured().as_bytes().to_vec(),
        None => value,
    }
}

fn with_schedule(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    Some(Limiter::from_bytes(new)?.after(&Limiter::from_bytes(old)?, monotonic_ns()).as_bytes().to_vec())
}

/// Rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: usize,
    pub(super) changed: usize,
    pub(super) removed: usize,
}

impl Changes {
    pub(super) fn any(self) -> bool {
        self != Changes::default()
    }
}

#[derive(Debug)]
pub(super) struct Tables {
    /// One row, of no meaning unless the configuration's flag is set.
    pub(super) congestion: Table,
    pub(super) config: Table,
    pub(super) bounds: Table,
    pub(super) tenants: Table,
    pub(super) ports: Table,
    pub(super) peers: Table,
    pub(super) remotes: Table,
    pub(super) routes: Table,
    pub(super) events: MapHandle,
    limiters: OnceCell<Table>,
    dir: PathBuf,
}

impl Tables {
    /// The maps that are pinned in `dir`.
    pub(super) fn open(dir: &Path) -> Result<Tables> {
        let open = |name: &str| Table::open(&dir.join(name));
        Ok(Tables {
            congestion: open("congestion")?,
            config: open("config")?,
            bounds: open("bounds")?,
            tenants: open("tenants")?,
            ports: Table { own: without_notes, ..open("ports")? },
            peers: open("peers")?,
            remotes: open("remotes")?,
            routes: open("routes")?,
            events: open("events")?.map,
            limiters: OnceCell::new(),
            dir: dir.into(),
        })
    }

    /// `None` as long as there has never been a limit.
    pub(super) fn limiters(&self) -> Option<&Table> {
        if self.limiters.get().is_none() {
            let table = Table {
                own: without_queue,
                keep: Some(with_schedule),
                ..Table::open(&self.dir.join("limiters")).ok()?
            };
            let _ = self.limiters.set(table); // it was empty
        }
        self.limiters.get()
    }

    /// What must stay as it is for as long as the maps live.
    pub(super) fn kept(&self) -> Result<Kept> {
        let peers = self.peers.rows()?;
        let peers = peers.iter().filter_map(|(k, v)| Some((u32::from_bytes(k)?, Peer::from_bytes(v)?))).collect();
        let config = self.config.rows()?;
        let config = config.values().find_map(|v| state::Config::from_bytes(v)).unwrap_or_default();
        let seed = if config.seed == 0 { random_seed() } else { config.seed };
        let ports = self.ports.rows()?;
        let ports = ports.iter().filter_map(|(k, v)| Some((u32::from_bytes(k)?, Port::from_bytes(v)?)));
        let shares = ports.filter_map(|(ifindex, port)| Some((ifindex, port.share_number()?))).collect();
        Ok(Kept { peers, seed, epoch: config.epoch, shares, ..Kept::default() })
    }
}

/// The routes that an agent of the same version left, with a flow table of another size.
pub(super) fn routes_of(dir: &Path) -> Rows {
    let same = dir.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        let version = format!("v{}", kernel::state_version());
        name == version || name.starts_with(&format!("{version}-"))
    });
    let table = if same { Table::open(&dir.join("routes")).ok() } else { None };
    table.and_then(|table| table.rows().ok()).unwrap_or_default()
}

/// Guests that could guess it could make their flows collide.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::MapType;

    /// As many rows as there is room for; `None` where this process may not make maps.
    fn table(rows: u32) -> Option<Table> {
        let opts = libbpf_rs::libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
            map_flags: libbpf_rs::libbpf_sys::BPF_F_NO_PREALLOC,
            ..Default::default()
        };
        let map = MapHandle::create(MapType::LpmTrie, Some("small"), 8, 4, rows, &opts).ok()?;
        Some(Table { map, own: std::convert::identity, keep: None })
    }

    fn rows(of: impl IntoIterator<Item = u8>, value: u8) -> Rows {
        of.into_iter().map(|n| (vec![32, 0, 0, 0, 10, 0, 0, n], vec![value; 4])).collect()
    }

    #[test]
    fn what_is_to_go_makes_room_for_what_comes() {
        let Some(table) = table(4) else { return eprintln!("skipped: no maps") };
        let (old, new) = (rows(0..4, 1), rows(2..6, 1));
        table.upsert(&Rows::new(), &old, &mut Changes::default()).unwrap();
        table.upsert(&old, &new, &mut Changes::default()).unwrap_err();
        let (old, mut changes) = (table.rows().unwrap(), Changes::default());
        table.upsert_in_room(&old, &new, &mut changes).unwrap();
        table.remove(&old, &new, &mut changes).unwrap();
        assert_eq!((table.rows().unwrap(), changes), (new, Changes { added: 2, changed: 0, removed: 2 }));
    }

    #[test]
    fn too_many_rows_keep_neither_removals_nor_changes_back() {
        let Some(table) = table(4) else { return eprintln!("skipped: no maps") };
        let old = rows(0..4, 1);
        table.upsert(&Rows::new(), &old, &mut Changes::default()).unwrap();
        let want: Rows = rows(1..9, 2);
        table.upsert_in_room(&old, &want, &mut Changes::default()).unwrap_err();
        let now = table.rows().unwrap();
        assert_eq!(now.len(), 4);
        assert!(now.iter().all(|row| want.get(row.0) == Some(row.1)), "{now:?}");
        assert!(rows(1..4, 2).keys().all(|key| now.contains_key(key)));
    }
}
