//! Settings of switches: buffer, marking and dropping, choice among equal next hops; loss on links.

use crate::codel::Codel;
use crate::notify::Notify;
use units::{BitRate, Bytes, Time};

/// What every switch of a fabric has in common: its buffer and its queue management.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchConfig {
    pub buffer: Buffer,
    /// ECN marking and early drop; `None` is plain drop-tail.
    pub aqm: Option<Aqm>,
    /// Strict-priority queues per port, 1 to 8; 0 is served first.
    pub priorities: u8,
    pub parallel: Parallel,
    /// Sources hear of every TCP packet that a switch drops; `None`: they do not.
    pub notify: Option<Notify>,
    /// Packets wait in order of their ranks, and one that finds no room puts out those that rank behind it: pFabric.
    pub ranked: bool,
    /// Sources of TCP packets that CoDel picks out get an ICMP Source Quench.
    pub quench: bool,
}

impl SwitchConfig {
    pub(crate) fn codel(&self) -> Option<Codel> {
        match self.aqm {
            Some(Aqm::Codel(codel)) => Some(codel),
            _ => None,
        }
    }
}

/// Which of several links to the same next switch a packet takes at a switch that no sending host is joined to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// As among any equal next hops, see [`Multipath`].
    #[default]
    Hash,
    /// What came over the k-th of parallel links leaves by the k-th; without that one, by one of those left. Labels whose link
    /// is down do the same, so that they stay on their switches.
    InOrder,
}

/// How much a switch may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// Each output port holds at most this much.
    PerPort(Bytes),
    /// All ports of a switch share `total`; a port may hold up to `alpha` times the free buffer (dynamic threshold,
    /// Choudhury and Hahne 1998).
    Shared { total: Bytes, alpha: f64 },
}

/// Queue management. All but CoDel act on arrival of a packet at an output queue, by the instantaneous queue length in bytes, the
/// arriving packet not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aqm {
    /// Mark ECT packets when the queue exceeds `k` (the DCTCP switch); others pass.
    Threshold { k: Bytes },
    /// WRED in the vendors' terms: probability 0 at `kmin`, rising to `pmax` at `kmax`, 1 above. ECT packets are marked,
    /// others dropped.
    Red { kmin: Bytes, kmax: Bytes, pmax: f64 },
    /// When a packet leaves the queue, by how long it has waited.
    Codel(Codel),
}

/// How switches choose among equal next hops for packets without a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multipath {
    /// Hash of the outer 5-tuple, seeded per switch.
    Ecmp,
    /// As [`Multipath::Ecmp`], each next hop by the share of what can be carried over it to the destination's leaf (WCMP, Zhou
    /// et al. 2014).
    Wcmp,
    /// The hash also covers the flowcell number: Presto's per-hop variant. Labels are not looked at: the edge numbers
    /// flowcells only together with one.
    EcmpFlowcell,
    /// A random choice per packet (packet spraying).
    Spray,
    /// A random choice per flowlet, at every switch: LetFlow (Vanini et al., NSDI 2017). A pause longer than `gap` ends a
    /// flowlet.
    LetFlow { gap: Time },
    /// At leaves, for each flowlet, the uplink with the least congestion to the destination's leaf: CONGA (Alizadeh et al., SIGCOMM
    /// 2014). Other switches hash, and report their congestion. See [`crate::conga_suits`].
    Conga { gap: Time },
}

impl Multipath {
    /// The pause that ends a flowlet, for those that switches keep tables of.
    pub fn flowlet_gap(self) -> Option<Time> {
        match self {
            Multipath::LetFlow { gap } | Multipath::Conga { gap } => Some(gap),
            Multipath::Ecmp | Multipath::Wcmp | Multipath::EcmpFlowcell | Multipath::Spray => None,
        }
    }
}

impl Default for SwitchConfig {
    /// A shallow-buffer leaf of the papers' kind: 9 MB shared, dynamic threshold 1, drop-tail, one class.
    fn default() -> Self {
        SwitchConfig {
            buffer: Buffer::Shared { total: Bytes(9_000_000), alpha: 1.0 },
            aqm: None,
            priorities: 1,
            parallel: Parallel::Hash,
            notify: None,
            ranked: false,
            quench: false,
        }
    }
}

/// A random loss on every link between switches and hosts, for tests of transports. Parts per million of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RandomLoss {
    pub per_million: u32,
}

/// Rate of a port, kept with its exact time per byte when there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serialiser {
    pub(crate) rate: BitRate,
    ps_per_byte: u64,
}

impl Serialiser {
    pub(crate) fn new(rate: BitRate) -> Self {
        let exact = 8_000_000_000_000 % rate.as_bps() == 0;
        Serialiser { rate, ps_per_byte: if exact { 8_000_000_000_000 / rate.as_bps() } else { 0 } }
    }
    #[inline]
    pub(crate) fn tx_ps(self, bytes: u64) -> u64 {
        if self.ps_per_byte != 0 {
            bytes * self.ps_per_byte
        } else {
            self.rate.tx_time(bytes).as_ps()
        }
    }
}

impl Buffer {
    pub(crate) fn is_shared(self) -> bool {
        matches!(self, Buffer::Shared { .. })
    }

    /// Room for so many octets at a port with such a queue, at a switch that holds `held`.
    #[inline]
    pub(crate) fn has(self, queue: u64, bytes: u64, held: u64) -> bool {
        match self {
            Buffer::PerPort(limit) => queue + bytes <= limit.get(),
            Buffer::Shared { total, alpha } => shared_fits(queue, bytes, held, total, alpha),
        }
    }
}

/// Dynamic threshold: a port may hold `alpha` times the free buffer.
#[inline]
fn shared_fits(queue: u64, bytes: u64, held: u64, total: Bytes, alpha: f64) -> bool {
    // Octets of a buffer are far below 2^63, and a processor converts signed numbers in one step.
    let real = |octets: u64| octets as i64 as f64;
    let free = total.get().saturating_sub(held);
    bytes <= free && real(queue + bytes) <= alpha * real(free) + real(bytes)
}
