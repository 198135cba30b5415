//! Mirrors of the map values in `datapath/kernel/limits.h`.

use super::Plain;
use edge::delays::Delays;

/// What the guest sends: the queue is on the limiter's device.
pub const LIMITER_OUT: u32 = 0;
/// What it gets: the queue is on its port.
pub const LIMITER_IN: u32 = 1;

/// `struct sv_limiter_key`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimiterKey {
    /// Of the port.
    pub ifindex: u32,
    /// `LIMITER_*`.
    pub direction: u32,
}

/// Of [`Limiter::flags`]: the port has a limit of the other direction, too.
pub const LIMITER_BOTH: u32 = 1;

/// Of [`Limiter::flags`]: what the guest sends comes without an Ethernet header.
pub const LIMITER_BARE: u32 = 2;
/// Of [`Limiter::flags`]: what a guest sends has the port's number as its mark, whatever else names the port.
pub const LIMITER_MARKED: u32 = 4;
/// Of [`Limiter::flags`], from this bit on: the number that names the port in the queue, which [`super::RETURN`] names too.
pub const LIMITER_NUMBER: u32 = 16;
/// Numbers that these may have.
pub const NUMBERS: std::ops::Range<u32> = 1..0x8000;

/// `struct sv_limiter`: one direction of a port that is limited.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limiter {
    /// The kernel's; reads as zero.
    pub lock: u32,
    /// ifindex of the device on which the queue is; 0: what is scheduled goes straight on.
    pub device: u32,
    /// Of that device's HTB: major and minor number.
    pub class: u32,
    /// [`edge::limiter::Law::to_bytes`].
    pub law: [u8; 24],
    /// The data path's own.
    pub queue: [u32; 3],
    /// `LIMITER_*`.
    pub flags: u32,
    pub pad: u32,
    /// ns without a packet after which a connection is forgotten.
    pub idle_ns: u64,
    /// Of the schedule, bytes per second; 0: HTB holds the segments.
    pub rate: u64,
    /// Of the schedule: what would wait longer is dropped.
    pub horizon_ns: u64,
    /// The data path's, as all that follows: when the segment after the last one may leave, ns of CLOCK_MONOTONIC.
    pub next_ns: u64,
    /// Bytes scheduled.
    pub sent: u64,
    /// Segments beyond the horizon.
    pub dropped: u64,
    /// Where the class was found, and when.
    pub found: [u64; 4],
    /// As configured, bytes per second: of what goes first and the bulk each has half. 0: nothing goes first.
    pub share: u64,
    /// The class of what goes first; 0 where segments are scheduled.
    pub first: u32,
    /// The data path's.
    pub flows: u32,
}

impl Limiter {
    /// Without what the data path notes in it.
    pub fn configured(self) -> Limiter {
        let Limiter { device, class, law, flags, idle_ns, rate, horizon_ns, share, first, .. } = self;
        Limiter { device, class, law, flags, idle_ns, rate, horizon_ns, share, first, ..Limiter::default() }
    }

    /// With what the data path has noted of a schedule in `old`, of the same port: what waits by the old one goes first. What the last
    /// of it owes beyond that, a minute for a large segment at a low rate, is paid at the new rate if that is higher.
    pub fn after(self, old: &Limiter, now_ns: u64) -> Limiter {
        let times = self.rate.checked_div(old.rate).unwrap_or(1).max(1);
        let ahead = old.next_ns.saturating_sub(now_ns);
        let next_ns = match times {
            1 => old.next_ns,
            _ => old.next_ns.min(now_ns.saturating_add((ahead / times).max(old.horizon_ns))),
        };
        Limiter { next_ns, sent: old.sent, dropped: old.dropped, ..self }
    }
}

/// `struct sv_limiter_counts`, summed over CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterCounts {
    /// Segments marked, or ACKs that got ECE.
    pub marked: u64,
    /// ACKs with which SPRING's window shrank.
    pub cuts: u64,
    /// ACKs whose receive window was lowered.
    pub lowered: u64,
    /// Segments back to the sender that the law looked at.
    pub acks: u64,
    /// Segments for which the backlog could not be read.
    pub unread: u64,
    /// Segments without room for their connection's state.
    pub untracked: u64,
    /// How long segments on their way to the queue are about to wait.
    pub delays: Delays,
}

impl LimiterCounts {
    pub(crate) fn add(&mut self, other: &LimiterCounts) {
        for (sum, n) in [
            (&mut self.marked, other.marked),
            (&mut self.cuts, other.cuts),
            (&mut self.lowered, other.lowered),
            (&mut self.acks, other.acks),
            (&mut self.unread, other.unread),
            (&mut self.untracked, other.untracked),
        ] {
            *sum = sum.wrapping_add(n);
        }
        self.delays.add(&other.delays);
    }
}

plain!(LimiterKey = 8, Limiter = 152, LimiterCounts = 176);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_survives_a_change_of_its_rate() {
        let noted = Limiter { next_ns: 7_000, sent: 5, dropped: 3, found: [1; 4], queue: [9; 3], ..Limiter::default() };
        let old = Limiter { rate: 1_000_000_000, horizon_ns: 10, class: 4, ..noted };
        let new = Limiter { rate: 2_000_000_000, ..Limiter::default() };
        assert_eq!(old.configured(), Limiter { rate: 1_000_000_000, horizon_ns: 10, class: 4, ..Limiter::default() });
        let new = new.after(&old, 2_000);
        assert_eq!((new.next_ns, old.after(&old, 2_000).next_ns), (4_500, 7_000), "twice the rate, half of the time");
        let horizon = Limiter { horizon_ns: 4_000, ..old };
        assert_eq!(new.after(&horizon, 2_000).next_ns, 6_000, "who waits goes first");
        assert_eq!(new.after(&Limiter { rate: 0, ..old }, 2_000).next_ns, 7_000);
        assert_eq!((new.sent, new.dropped, new.found), (5, 3, [0; 4]));
        assert_eq!((old.scheduled(2_000), new.scheduled(2_000), new.scheduled(7_000)), (5_000, 5_000, 0));
    }
}
