//! Whole maps, many entries a system call.

use super::{Error, Result};
use libbpf_rs::libbpf_sys::{bpf_map_batch_opts, bpf_map_lookup_batch};
use libbpf_rs::{MapCore, MapFlags};
use std::os::fd::AsRawFd;

/// Entries of one system call.
pub const CHUNK: u32 = 1024;
/// A bucket of a hash is read as a whole; none is that full.
const MAX_CHUNK: u32 = 1 << 20;
/// The kernel's own, which has no name in libc: this type of map has no such operation.
const ENOTSUPP: i32 = 524;

/// How far a walk through a map has come. Between two steps nothing is held: entries that come and go meanwhile may be seen
/// or not, all others are seen, and no entry is seen twice but where its map walks key by key.
#[derive(Debug, Default)]
pub struct Walk {
    /// Where the next step begins, as the kernel says it.
    at: Vec<u8>,
    begun: bool,
    ended: bool,
    /// The map has no batches.
    single: bool,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Walk {
    /// The next entries, about `most`; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Bpf`].
    pub fn step<M: MapCore>(
        &mut self,
        map: &M,
        most: u32,
    ) -> Result<Option<impl Iterator<Item = (&[u8], &[u8])> + '_>> {
        let (key, value) = (map.key_size() as usize, map.value_size() as usize);
        let mut n = 0;
        while n == 0 && !self.ended {
            n = if self.single { self.step_singly(map)? } else { self.step_batch(map, most.max(1))? };
        }
        let found = self.keys[..n * key].chunks_exact(key).zip(self.values[..n * value].chunks_exact(value));
        Ok((n > 0).then_some(found))
    }

    /// How many entries were read; 0: look again, unless it has ended.
    fn step_batch<M: MapCore>(&mut self, map: &M, mut most: u32) -> Result<usize> {
        // The kernel keeps its place in four bytes or in a key.
        let (key, value) = (map.key_size() as usize, map.value_size() as usize);
        self.at.resize(key.max(4), 0);
        let mut next = self.at.clone();
        loop {
            self.keys.resize(most as usize * key, 0);
            self.values.resize(most as usize * value, 0);
            let mut count = most;
            let from = if self.begun { self.at.as_mut_ptr().cast() } else { std::ptr::null_mut() };
            let opts = bpf_map_batch_opts { sz: size_of::<bpf_map_batch_opts>() as _, ..Default::default() };
            // SAFETY: the places are as large as the kernel is told: `most` keys and values, and a key or four bytes for
            // where it stands; the descriptor is open as long as `map` is.
            let done = unsafe {
                bpf_map_lookup_batch(
                    map.as_fd().as_raw_fd(),
                    from,
                    next.as_mut_ptr().cast(),
                    self.keys.as_mut_ptr().cast(),
                    self.values.as_mut_ptr().cast(),
                    &mut count,
                    &opts,
                )
            };
            match -done {
                0 | nix::libc::ENOENT => {
                    self.ended = done != 0;
                    self.begun = true;
                    self.at = next;
                    return Ok(count.min(most) as usize);
                }
                nix::libc::ENOSPC if most < MAX_CHUNK => most *= 2,
                nix::libc::EINTR => {}
                ENOTSUPP | nix::libc::EINVAL | nix::libc::EOPNOTSUPP if !self.begun => {
                    self.single = true;
                    return Ok(0);
                }
                code => return Err(Error::Bpf("read a map", libbpf_rs::Error::from_raw_os_error(code.max(1)))),
            }
        }
    }

    /// Everything in one step: from key to key, deletions make the kernel begin anew.
    fn step_singly<M: MapCore>(&mut self, map: &M) -> Result<usize> {
        self.keys.clear();
        self.values.clear();
        self.ended = true;
        let mut n = 0;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(|e| Error::Bpf("read a map", e))?;
            let Some(value) = value else { continue }; // deleted meanwhile
            self.keys.extend(key);
            self.values.extend(value);
            n += 1;
        }
        Ok(n)
    }
}

/// All entries.
///
/// # Errors
/// [`Error::Bpf`].
pub fn for_each<M: MapCore>(map: &M, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
    let mut walk = Walk::default();
    while let Some(entries) = walk.step(map, CHUNK)? {
        entries.for_each(|(key, value)| each(key, value));
    }
    Ok(())
}

/// Writes entries, each at once.
///
/// # Errors
/// [`Error::Bpf`], of the first entry that the kernel refuses; those before it are written.
pub fn update_all<M: MapCore>(map: &M, entries: &[(&[u8], &[u8])]) -> Result<()> {
    for chunk in entries.chunks(CHUNK as usize) {
        let keys: Vec<u8> = chunk.iter().flat_map(|(key, _)| *key).copied().collect();
        let values: Vec<u8> = chunk.iter().flat_map(|(_, value)| *value).copied().collect();
        if chunk.len() > 1 && map.update_batch(&keys, &values, chunk.len() as u32, MapFlags::ANY, MapFlags::ANY).is_ok()
        {
            continue;
        }
        // No batches, or one entry is refused: then it is named by doing all again.
        for (key, value) in chunk {
            map.update(key, value, MapFlags::ANY).map_err(|e| Error::Bpf("update a map", e))?;
        }
    }
    Ok(())
}

/// Deletes entries. Fine if some are not there.
///
/// # Errors
/// [`Error::Bpf`].
pub fn delete_all<M: MapCore>(map: &M, keys: &[&[u8]]) -> Result<()> {
    for chunk in keys.chunks(CHUNK as usize) {
        let all = chunk.concat();
        if chunk.len() > 1 && map.delete_batch(&all, chunk.len() as u32, MapFlags::ANY, MapFlags::ANY).is_ok() {
            continue;
        }
        for key in chunk {
            match map.delete(key) {
                Err(e) if e.kind() != libbpf_rs::ErrorKind::NotFound => return Err(Error::Bpf("delete from a map", e)),
                _ => {}
            }
        }
    }
    Ok(())
}
