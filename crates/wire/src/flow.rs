//! The key of a flow: addresses, ports and protocol of one direction.

use std::hash::{Hash, Hasher};

/// A transport flow in one direction: the mirror of `struct sv_flow_key`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct FlowKey {
    pub saddr: [u32; 4],
    pub daddr: [u32; 4],
    pub sport: u16,
    pub dport: u16,
    pub proto: u8,
    pub(crate) pad: [u8; 3],
}

const _: () = assert!(size_of::<FlowKey>() == 40);

impl FlowKey {
    pub fn new(saddr: [u32; 4], daddr: [u32; 4], sport: u16, dport: u16, proto: u8) -> FlowKey {
        FlowKey { saddr, daddr, sport, dport, proto, pad: [0; 3] }
    }

    /// The same connection as seen from the other end.
    pub fn reversed(&self) -> FlowKey {
        FlowKey { saddr: self.daddr, daddr: self.saddr, sport: self.dport, dport: self.sport, ..*self }
    }
}

impl Hash for FlowKey {
    /// Whole words, because flow lookup is on every packet's way.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let [s0, s1, s2, s3] = self.saddr;
        let [d0, d1, d2, d3] = self.daddr;
        state.write_u64(pair(s0, s1));
        state.write_u64(pair(s2, s3));
        state.write_u64(pair(d0, d1));
        state.write_u64(pair(d2, d3));
        let ports = u32::from(self.sport) << 16 | u32::from(self.dport);
        state.write_u64(pair(u32::from(self.proto), ports));
    }
}
