//! What the store may hold, and holds.

use rustc_hash::FxHashMap;

/// Counts bytes by guest and in all, and counted copies in all.
#[derive(Debug)]
pub(super) struct Room {
    per_guest: u64,
    in_all: u64,
    bytes: u64,
    most: u64,
    /// Guests with nothing in the store have no entry. Looked up only.
    guests: FxHashMap<[u32; 4], u64>,
    copies: usize,
    max_copies: usize,
}

impl Room {
    pub(super) fn new(per_guest: u64, in_all: u64, max_copies: usize) -> Room {
        Room { per_guest, in_all, bytes: 0, most: 0, guests: FxHashMap::default(), copies: 0, max_copies }
    }

    /// False: there is no room.
    pub(super) fn take(&mut self, guest: &[u32; 4], bytes: u64) -> bool {
        let held = self.guests.get(guest).copied().unwrap_or(0);
        if held + bytes > self.per_guest || self.bytes + bytes > self.in_all {
            return false;
        }
        self.guests.insert(*guest, held + bytes);
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
        true
    }

    pub(super) fn give_back(&mut self, guest: &[u32; 4], bytes: u64) {
        self.bytes -= bytes;
        match self.guests.get_mut(guest) {
            Some(held) if *held > bytes => *held -= bytes,
            _ => drop(self.guests.remove(guest)),
        }
    }

    pub(super) fn take_copy(&mut self) -> bool {
        let fits = self.copies < self.max_copies;
        self.copies += usize::from(fits);
        fits
    }

    pub(super) fn give_back_copies(&mut self, n: usize) {
        self.copies -= n;
    }

    /// Most bytes at once.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (u64, usize) {
        (self.bytes, self.copies)
    }
}
