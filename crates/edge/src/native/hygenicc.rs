//! Mirrors of `datapath/hygenicc.h`, `hygenicc_rate.h` and of the quotas of `quota.h` and `flow.h`.

use super::{Conf, Relay};
use std::ffi::c_int;
use std::marker::PhantomData;
use units::Time;
use wire::feedback::Feedback;
use wire::Packet;

pub(crate) const AIAD: u32 = 1;
pub(crate) const ALPHA: u32 = 2;
/// `SV_HYG_ONE`: 1.0 of alpha.
pub(crate) const ONE: u32 = 65_536;
/// `SV_HYG_CARRY`, of [`HygConf::flags`]
pub(crate) const CARRY: u32 = 1;
/// `SV_HYG_KEEP_MARKS`
pub(crate) const KEEP_MARKS: u32 = 2;
/// `SV_HYG_PROTO`
pub(crate) const PROTO: u8 = 253;
/// `SV_BEGAN_*` of `quota.h`
pub(crate) const BEGAN_OUTSIDE: u32 = 3;
/// `SV_FLOW_SETTLED`
pub(crate) const SETTLED: u8 = 8;
/// `SV_FLOW_UNSETTLED_NS`: what is not settled is forgotten after so long without a packet at the latest.
pub(crate) const UNSETTLED_IDLE: Time = Time::from_secs(10);
/// `SV_HYG_MAX_GAIN`
pub(crate) const MAX_GAIN: u32 = 4;

/// `struct sv_hyg_conf`: times in ns, rates in bytes per second, sizes in bytes, alpha in 1/65536.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HygConf {
    pub interval: u64,
    pub inactive: u64,
    pub quiet: u64,
    pub patience: u64,
    pub uplink: u64,
    pub least: u64,
    pub depth: u64,
    pub bursts: u32,
    pub law: u32,
    pub gain: u32,
    pub refuse: u32,
    pub admit: u32,
    pub flags: u32,
}
const _: () = assert!(size_of::<HygConf>() == 80);

/// `struct sv_hyg_uplink`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Uplink {
    pub(crate) weights: u64,
}
const _: () = assert!(size_of::<Uplink>() == 8);

/// `struct sv_hyg_bucket`: a guest on its host's uplink; rates in bytes per second, times in ns, alpha in 1/65536.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    pub level: u64,
    pub filled: u64,
    pub last: u64,
    pub heard: u64,
    pub rate: u64,
    pub fair: u64,
    pub alpha_sum: u64,
    pub alphas: u32,
    pub alpha: u32,
    pub marks: u32,
    pub weight: u32,
    pub active: u32,
    pub debt: u32,
}
const _: () = assert!(size_of::<Bucket>() == 80);

/// `struct sv_hyg_part`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    pub(crate) tick: u32,
    pub(crate) sent: u32,
    pub(crate) marks: u32,
    pub(crate) alpha: u32,
}
const _: () = assert!(size_of::<Part>() == 16);

/// `struct sv_hyg_pair`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pair {
    pub(crate) part: Part,
    pub(crate) owed_count: u16,
    pub(crate) owed_told: u16,
    pub(crate) told_count: u16,
    pub(crate) told_heard: u16,
    pub(crate) credit: u16,
    pub(crate) introduced: u8,
    pub(crate) asked: u8,
    pub(crate) since: u32,
}
const _: () = assert!(size_of::<Pair>() == 32);

/// `struct sv_hyg`
#[repr(C)]
pub(crate) struct Hyg<'a> {
    conf: *const HygConf,
    uplink: *mut Uplink,
    bucket: *mut Bucket,
    pair: *mut Pair,
    to: *mut Part,
    at: u64,
    borrowed: PhantomData<&'a mut Bucket>,
}

/// `struct sv_bounds`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) table: u32,
    pub(crate) port: u32,
    pub(crate) network: u32,
    pub(crate) pad: u32,
}
const _: () = assert!(size_of::<Bounds>() == 16);

/// `struct sv_tally`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) flows: i32,
    pub(crate) unsettled: i32,
}
const _: () = assert!(size_of::<Tally>() == 8);

extern "C" {
    fn sv_edge_hyg_tick(b: *mut Bucket, n: u32, u: *mut Uplink, c: *const HygConf, now: u64) -> u32;
    #[cfg(test)]
    fn sv_edge_hyg_set_rate(b: *mut Bucket, u: *const Uplink, c: *const HygConf, now: u64);
    #[cfg(test)]
    fn sv_edge_hyg_rests(b: *const Bucket, u: *const Uplink, c: *const HygConf) -> c_int;
    #[cfg(test)]
    fn sv_edge_hyg_asks(q: *mut Pair) -> u16;
    fn sv_edge_hyg_hear(h: *mut Hyg<'_>, count: u16, now: u64);
    fn sv_edge_hold(h: *mut Hyg<'_>, bytes: u64, now: u64) -> u32;
    fn sv_edge_hyg_bytes(p: *const Packet) -> u64;
    #[cfg(test)]
    fn sv_edge_hyg_schedule(
        b: *mut Bucket,
        c: *const HygConf,
        backlog: u64,
        bytes: u64,
        now: u64,
        at: *mut u64,
    ) -> c_int;
    #[cfg(test)]
    fn sv_edge_hyg_egress(h: *mut Hyg<'_>, p: *mut Packet, now: u64);
    #[cfg(test)]
    fn sv_edge_hyg_ingress(h: *mut Hyg<'_>, p: *const Packet, now: u64) -> c_int;
    fn sv_edge_hyg_is_feedback(p: *const Packet) -> c_int;
    fn sv_edge_hyg_counts(p: *const Packet) -> c_int;
    fn sv_edge_hyg_overdue(q: *const Pair, c: *const HygConf, now: u64) -> c_int;
    fn sv_edge_hyg_refuses(to: *const Part, c: *const HygConf, refusing: c_int, now: u64) -> c_int;
    fn sv_edge_pay(conf: *const Conf, r: *mut Relay, q: *mut Pair, now: u64, p: *mut Packet);
    fn sv_edge_quota_admit(b: *const Bounds, table: *const Tally, port: *const Tally, began: u32) -> u32;
    fn sv_edge_quota_began(p: *const Packet, egress: c_int) -> u32;
    fn sv_edge_flow_saw(seen: u8, egress: c_int) -> u8;
}

impl<'a> Hyg<'a> {
    pub(crate) fn new(
        conf: &'a HygConf,
        uplink: &'a mut Uplink,
        bucket: Option<&'a mut Bucket>,
        pair: Option<&'a mut Pair>,
        to: Option<&'a mut Part>,
    ) -> Hyg<'a> {
        let (bucket, pair, to) = (super::pointer(bucket), super::pointer(pair), super::pointer(to));
        Hyg { conf, uplink, bucket, pair, to, at: 0, borrowed: PhantomData }
    }

    /// `sv_hold` for a segment of so many [`bytes`].
    ///
    /// # Errors
    /// It exceeds its guest's rate: when it will not any more if the rate stays, [`Time::MAX`] for never.
    pub(crate) fn hold(&mut self, bytes: u64, now: Time) -> Result<(), Time> {
        // SAFETY: the pointers come from references that outlive `self`, or are null where C expects that; the mirrors assert
        // the layouts; C keeps nothing.
        match unsafe { sv_edge_hold(self, bytes, now.as_ns()) } {
            0 => Ok(()),
            _ if self.at == u64::MAX => Err(Time::MAX),
            _ => Err(Time::from_ns(self.at)),
        }
    }

    /// `sv_hyg_hear`
    pub(crate) fn hear(&mut self, count: u16, now: Time) {
        // SAFETY: as in `hold`.
        unsafe { sv_edge_hyg_hear(self, count, now.as_ns()) }
    }

    /// `sv_hold` and `sv_hyg_egress`: false where the packet must be dropped.
    #[cfg(test)]
    pub(crate) fn send(&mut self, packet: &mut Packet, now: Time) -> bool {
        let may = self.hold(bytes(packet), now).is_ok();
        if may {
            // SAFETY: as in `hold`.
            unsafe { sv_edge_hyg_egress(self, packet, now.as_ns()) }
        }
        may
    }

    #[cfg(test)]
    pub(crate) fn ingress(&mut self, packet: &Packet, now: Time) -> bool {
        // SAFETY: as in `hold`.
        unsafe { sv_edge_hyg_ingress(self, packet, now.as_ns()) != 0 }
    }
}

impl Pair {
    /// `sv_hyg_overdue`
    pub(crate) fn overdue(&self, conf: &HygConf, now: Time) -> bool {
        // SAFETY: reads both, whose mirrors assert the layouts.
        unsafe { sv_edge_hyg_overdue(self, conf, now.as_ns()) != 0 }
    }

    /// `sv_hyg_asks`
    #[cfg(test)]
    pub(crate) fn asks(&mut self) -> u16 {
        // SAFETY: one struct, whose mirror asserts the layout.
        unsafe { sv_edge_hyg_asks(self) }
    }

    /// Are there marks that the peer has not been told of?
    pub(crate) fn owes(&self) -> bool {
        self.owed_count != self.owed_told
    }
}

/// `sv_hyg_tick`: an interval ends. Returns how many guests are active.
pub(crate) fn tick(buckets: &mut [Bucket], uplink: &mut Uplink, conf: &HygConf, now: Time) -> u32 {
    // SAFETY: the slice goes with its own length; the rest as in `Hyg::hold`.
    unsafe { sv_edge_hyg_tick(buckets.as_mut_ptr(), buckets.len() as u32, uplink, conf, now.as_ns()) }
}

/// `sv_hyg_set_rate`
#[cfg(test)]
pub(crate) fn set_rate(b: &mut Bucket, uplink: &Uplink, conf: &HygConf, now: Time) {
    // SAFETY: as in `Hyg::hold`.
    unsafe { sv_edge_hyg_set_rate(b, uplink, conf, now.as_ns()) }
}

/// `sv_hyg_rests`
#[cfg(test)]
pub(crate) fn rests(b: &Bucket, uplink: &Uplink, conf: &HygConf) -> bool {
    // SAFETY: as in `Hyg::hold`; C writes nothing.
    unsafe { sv_edge_hyg_rests(b, uplink, conf) != 0 }
}

/// `sv_hyg_schedule`: when a segment may leave, ns; `None` if it is dropped.
#[cfg(test)]
pub(crate) fn schedule(b: &mut Bucket, c: &HygConf, backlog: u64, bytes: u64, now: u64) -> Option<u64> {
    let mut at = 0;
    // SAFETY: two structs, whose mirrors assert the layouts, and a number.
    let may = unsafe { sv_edge_hyg_schedule(b, c, backlog, bytes, now, &mut at) };
    (may != 0).then_some(at)
}

/// `sv_hyg_bytes`: what a segment takes on the wire.
pub(crate) fn bytes(packet: &Packet) -> u64 {
    // SAFETY: reads one packet, whose mirror asserts the layout.
    unsafe { sv_edge_hyg_bytes(packet) }
}

/// `sv_hyg_is_feedback`
pub(crate) fn is_feedback(packet: &Packet) -> bool {
    // SAFETY: reads one packet, whose mirror asserts the layout.
    unsafe { sv_edge_hyg_is_feedback(packet) != 0 }
}

/// `sv_hyg_counts`: does the packet that arrived count as marked?
pub(crate) fn counts(packet: &Packet) -> bool {
    // SAFETY: reads one packet, whose mirror asserts the layout.
    unsafe { sv_edge_hyg_counts(packet) != 0 }
}

/// `sv_hyg_refuses`
pub(crate) fn refuses(to: &Part, conf: &HygConf, refusing: bool, now: Time) -> bool {
    // SAFETY: as in `Hyg::hold`.
    unsafe { sv_edge_hyg_refuses(to, conf, c_int::from(refusing), now.as_ns()) != 0 }
}

/// `sv_hyg_pay`: the feedback for a packet of the pair, to the peer.
pub(crate) fn pay(
    conf: &Conf,
    relay: Option<&mut Relay>,
    pair: Option<&mut Pair>,
    now: Time,
    packet: &Packet,
) -> Feedback {
    let mut p = Packet { feedback: 0, feedback_path: 0, feedback_value: 0, ..*packet };
    let (relay, pair) = (super::pointer(relay), super::pointer(pair));
    // SAFETY: as in `Hyg::hold`; every index in a relay is a byte.
    unsafe { sv_edge_pay(conf, relay, pair, now.as_ns(), &mut p) };
    Feedback { kind: p.feedback, path: p.feedback_path, value: p.feedback_value }
}

/// `sv_quota_admit`: may a guest's pair be remembered?
pub(crate) fn admitted(bounds: &Bounds, table: Tally, port: Tally, began: u32) -> bool {
    // SAFETY: reads three structs, whose mirrors assert the layouts.
    unsafe { sv_edge_quota_admit(bounds, &table, &port, began) == 0 }
}

/// `sv_quota_began`: `BEGAN_*` of a pair whose first packet this is, `egress` if it is the guest's.
pub(crate) fn began(packet: &Packet, egress: bool) -> u32 {
    // SAFETY: reads one packet, whose mirror asserts the layout.
    unsafe { sv_edge_quota_began(packet, c_int::from(egress)) }
}

/// `sv_flow_saw`: what is known of a pair after one more packet.
pub(crate) fn saw(seen: u8, egress: bool) -> u8 {
    // SAFETY: two integers.
    unsafe { sv_edge_flow_saw(seen, c_int::from(egress)) }
}
