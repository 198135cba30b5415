//! Mirrors of `datapath/stamp.h` and, for its tests, `datapath/retrans.h`.

#[cfg(test)]
mod tests;

/// `struct sv_stamp`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp {
    newest: u32,
    older: u32,
    from: u32,
    end: u32,
    known: u32,
}
const _: () = assert!(size_of::<Stamp>() == 20);

extern "C" {
    fn sv_edge_stamp_note(s: *mut Stamp, seq: u32, una: u32, next: u32, stamp: u32);
    fn sv_edge_stamp_acked(s: *mut Stamp, una: u32);
    fn sv_edge_stamp_needed(s: *const Stamp, seq: u32, stamp: *mut u32) -> u32;
}

impl Stamp {
    /// `sv_stamp_note`: the guest sends `seq` again with this timestamp, all in front of `una` is acknowledged, `next` comes next.
    pub(crate) fn note(&mut self, seq: u32, una: u32, next: u32, stamp: u32) {
        // SAFETY: the pointer comes from a reference that outlives the call; the mirror asserts the layout.
        unsafe { sv_edge_stamp_note(self, seq, una, next, stamp) }
    }

    /// `sv_stamp_acked`
    pub(crate) fn acked(&mut self, una: u32) {
        // SAFETY: as in `note`.
        unsafe { sv_edge_stamp_acked(self, una) }
    }

    /// `sv_stamp_needed`: the timestamp that the packet which begins with `seq` is to have, if that is later than its own.
    pub(crate) fn needed(&self, seq: u32) -> Option<u32> {
        let mut stamp = 0;
        // SAFETY: as in `note`; writes the number only.
        let needed = unsafe { sv_edge_stamp_needed(self, seq, &mut stamp) };
        (needed != 0).then_some(stamp)
    }
}
