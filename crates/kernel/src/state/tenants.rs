//! Guests' shares of the uplink: `datapath/kernel/tenants.h`.

use super::Plain;
use edge::hygenicc::{Bucket, Conf};

/// Guests of one host that can be held at once.
pub const MAX_SHARES: u16 = 4096;

plain!(Tenants = 96, Sharing = 544, Share = 144, PairKey = 24, PairSlot = 40);

/// `struct sv_tenants`: how all guests of the host are held.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenants {
    /// With an interval of 0 nobody is held.
    pub conf: Conf,
    /// Bytes of a guest that may wait; 0: what exceeds the rate is dropped.
    pub backlog: u64,
    /// Rows in use: 1 to this.
    pub numbers: u32,
    pub pad: u32,
}

/// `struct sv_sharing`: what all have in common.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// The kernel's; reads as zero.
    pub lock: u32,
    /// The interval in which rates were set last.
    pub tick: u32,
    /// Of active guests, sum.
    pub weights: u64,
    /// How often rates were set, and by how many ns in all later than an interval's end.
    pub ticks: u64,
    pub late_ns: u64,
    /// A bit for each row of the shares whose guest has one.
    pub active: [[u64; 32]; 2],
}

/// `struct sv_share`: of one guest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub bucket: Bucket,
    /// Where segments wait: when the last one leaves, ns.
    pub last_ns: u64,
    pub segments: u64,
    /// On the wire.
    pub bytes: u64,
    pub dropped: u64,
    pub delayed: u64,
    /// Marks that were heard of.
    pub marks: u64,
    /// Segments of new pairs that were refused.
    pub refused: u64,
    /// Of the guest's port; 0: nobody's.
    pub ifindex: u32,
    /// Bytes that would leave before `last_ns`, and wait for it.
    pub behind: u32,
}

/// `struct sv_pair_key`: a guest here and one elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairKey {
    /// Of the port here.
    pub ifindex: u32,
    /// Hash of the guest's address.
    pub own: u32,
    pub other: [u32; 4],
}

/// `struct sv_pair_slot`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairSlot {
    /// `struct sv_hyg_pair`, the data path's own.
    pub pair: [u32; 8],
    /// When a packet of the pair passed last, units of 2^20 ns.
    pub used: u32,
    /// `SV_CHARGED_*` of `datapath/kernel/quota.h` and `SV_PAIR_*` of `datapath/kernel/state.h`.
    pub flags: u32,
}

impl PairSlot {
    /// Units of 2^20 ns without a packet after which a pair is forgotten: 60 s.
    pub const IDLE: u32 = 57_220;
    /// The same of a pair that is not settled: 10 s.
    pub const UNSETTLED: u32 = 9_536;

    /// Of [`PairSlot::flags`]: who began has sent again after an answer (`SV_FLOW_SETTLED << SV_PAIR_SAW`).
    pub const SETTLED: u32 = 8 << 24;

    /// Is it to be forgotten at `now`, ns?
    pub fn expired(&self, now: u64) -> bool {
        // A packet may have passed since `now` was taken.
        let idle = if self.flags & Self::SETTLED == 0 { Self::UNSETTLED } else { Self::IDLE };
        (idle..0x8000_0000).contains(&((now >> 20) as u32).wrapping_sub(self.used))
    }

    /// Units of 2^20 ns without a packet after which marks that its peer was not told of are told: 1 s.
    const SILENT: u32 = 954;

    /// SV_HYG_MAX_ASKS of `datapath/hygenicc.h`.
    const MAX_ASKS: u8 = 3;

    /// May its peer not know of all marks that were counted, at `now`, ns, although nothing has passed for a while? Whether it is asked
    /// for, the data path decides. What it was asked for often enough is nobody's: it would stand in others' way.
    pub fn lapses(&self, now: u64) -> bool {
        let owes = self.pair[4] & 0xffff != self.pair[4] >> 16;
        // sv_hyg_pair: credit (16 bits), introduced, asked.
        let asked = self.pair[6].to_ne_bytes()[3];
        owes && asked < Self::MAX_ASKS
            && matches!(((now >> 20) as u32).wrapping_sub(self.used), Self::SILENT..0x8000_0000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_pair_that_owes_marks_lapses() {
        let at = |owed: u32, used| PairSlot { pair: [0, 0, 0, 0, owed, 0, 0, 0], used, ..PairSlot::default() };
        let lapses = |owed, used| at(owed, used).lapses(1_000_000 << 20);
        let silent = 1_000_000 - PairSlot::SILENT;
        assert!(lapses(5, silent) && lapses(5 << 16 | 6, 0) && lapses(1 << 16, silent));
        assert!(!lapses(5 << 16 | 5, silent) && !lapses(5, silent + 1) && !lapses(5, 1_000_001));
        let asked = |asked| PairSlot {
            pair: [0, 0, 0, 0, 5, 0, u32::from_ne_bytes([0, 0, 1, asked]), 0],
            ..PairSlot::default()
        };
        assert_eq!([0, 2, 3].map(|n| asked(n).lapses(1_000_000 << 20)), [true, true, false]);
    }

    #[test]
    fn a_pair_that_was_used_since_has_not_expired() {
        for (flags, idle) in [(PairSlot::SETTLED | 3 << 24, PairSlot::IDLE), (3 << 24, PairSlot::UNSETTLED)] {
            let at = |used| PairSlot { used, flags, ..PairSlot::default() }.expired(1_000_000 << 20);
            assert_eq!([1_000_000 - idle, 1_000_001 - idle, 1_000_000, 1_000_001].map(at), [true, false, false, false]);
        }
    }
}
