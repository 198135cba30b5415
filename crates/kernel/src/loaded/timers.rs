//! When the timer laws are to look at flows, as the data path says it: the map `timers`, mapped into memory.

use super::{Error, Result};
use libbpf_rs::MapCore;
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The places are walked over in so many parts, of which the first place's bits say which may be in use.
const PARTS: usize = 64;

#[derive(Debug)]
pub(super) struct Timers {
    at: NonNull<c_void>,
    len: NonZeroUsize,
}

// SAFETY: it is memory of the process, not of a thread, and only used number by number, as atomics.
unsafe impl Send for Timers {}
// SAFETY: as above.
unsafe impl Sync for Timers {}

impl Timers {
    /// # Errors
    /// The kernel's.
    pub(super) fn map<M: MapCore>(map: &M) -> Result<Timers> {
        let len = NonZeroUsize::new(map.max_entries() as usize * size_of::<AtomicU64>());
        let len =
            len.filter(|_| map.value_size() as usize == size_of::<AtomicU64>()).ok_or(Error::Missing("timers"))?;
        let use_it = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the kernel chooses a place that nothing else has; the map has values of eight bytes in a row.
        let at = unsafe { mmap(None, len, use_it, MapFlags::MAP_SHARED, map.as_fd(), 0) };
        let at =
            at.map_err(|e| Error::Bpf("map the timers into memory", libbpf_rs::Error::from_raw_os_error(e as i32)))?;
        Ok(Timers { at, len })
    }

    fn all(&self) -> &[AtomicU64] {
        let n = self.len.get() / size_of::<AtomicU64>();
        // SAFETY: the kernel mapped so many numbers there, at the beginning of a page, for as long as this lives.
        unsafe { std::slice::from_raw_parts(self.at.cast::<AtomicU64>().as_ptr(), n) }
    }

    /// Places at which the laws are to look at `now`, ns; and the time of the next place after it, if there is one.
    pub(super) fn due(&self, now: u64) -> (Vec<u32>, Option<u64>) {
        due(self.all(), now)
    }
}

fn due(all: &[AtomicU64], now: u64) -> (Vec<u32>, Option<u64>) {
    let (mut due, mut next) = (Vec::new(), u64::MAX);
    let Some(used) = all.first() else { return (due, None) };
    let size = all.len().div_ceil(PARTS);
    for (n, part) in all.chunks(size).enumerate() {
        let bit = 1 << n;
        if used.load(Ordering::Relaxed) & bit == 0 {
            continue;
        }
        let places = || part.iter().enumerate().filter(|(at, _)| n + at > 0);
        let mut any = false;
        for (at, time) in places() {
            let time = time.load(Ordering::Relaxed);
            any |= time != 0;
            if time > now {
                next = next.min(time);
            } else if time != 0 {
                due.push((n * size + at) as u32);
            }
        }
        if !any {
            // The data path takes a place before it sets the bit.
            used.fetch_and(!bit, Ordering::SeqCst);
            if places().any(|(_, time)| time.load(Ordering::SeqCst) != 0) {
                used.fetch_or(bit, Ordering::SeqCst);
            }
        }
    }
    (due, Some(next).filter(|&next| next < u64::MAX))
}

impl Drop for Timers {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has it any more.
        let _ = unsafe { munmap(self.at, self.len.get()) }; // as the process ends at the latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_found_where_something_may_be_and_the_rest_is_left_out() {
        let all: Vec<AtomicU64> = (0..65_536).map(|_| AtomicU64::new(0)).collect();
        let set = |place: usize, time| {
            all[place].store(time, Ordering::Relaxed);
            all[0].fetch_or(1 << (place / 1024), Ordering::Relaxed);
        };
        for (place, time) in [(1, 50), (1023, 51), (5000, 7), (65_535, 1), (65_534, 70)] {
            set(place, time);
        }
        assert_eq!(due(&all, 50), (vec![1, 5000, 65_535], Some(51)));
        assert_eq!(all[0].load(Ordering::Relaxed), 1 | 1 << 4 | 1 << 63);
        set(5000, 0);
        assert_eq!(due(&all, 51), (vec![1, 1023, 65_535], Some(70)));
        assert_eq!(all[0].load(Ordering::Relaxed), 1 | 1 << 63, "nothing is left there");
        set(1, 0);
        set(1023, 0);
        assert_eq!(due(&all, 70), (vec![65_534, 65_535], None), "nothing is to come");
        assert_eq!(due(&all, 0), (vec![], Some(1)));
        assert_eq!(all[0].load(Ordering::Relaxed), 1 << 63, "the bits are no time");
    }
}
