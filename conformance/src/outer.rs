//! The encapsulation of docs/wire.md, written from that page and not from `datapath/encap.h`, which it checks.

use wire::checksum::Sum;
use wire::{ecn, FlowKey};

/// Outer headers, from Ethernet to VXLAN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outer {
    pub(crate) source: [u32; 4],
    pub(crate) destination: [u32; 4],
    /// 4 or 6.
    pub(crate) family: u8,
    pub(crate) ecn: u8,
    /// UDP ports.
    pub(crate) label: u16,
    pub(crate) port: u16,
    pub(crate) vni: u32,
    pub(crate) version: u8,
    pub(crate) cell: Option<u8>,
    /// Kind, path, value.
    pub(crate) feedback: Option<(u8, u8, u8)>,
    /// Of version 1: the sender understands version 2.
    pub(crate) speaks2: bool,
    /// Of version 2.
    pub(crate) shim: Option<[u8; 8]>,
}

impl Outer {
    pub(crate) fn write(&self, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 12];
        let shim = self.shim.as_ref().map_or(&[][..], |shim| &shim[..]);
        let udp_len = (inner.len() + shim.len() + 16) as u16;
        if self.family == 4 {
            out.extend(0x0800u16.to_be_bytes());
            let mut ip = vec![0x45, self.ecn];
            ip.extend((udp_len + 20).to_be_bytes());
            ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            ip.extend(self.source[3].to_be_bytes());
            ip.extend(self.destination[3].to_be_bytes());
            let check = Sum::default().bytes(&ip).finish();
            ip[10..12].copy_from_slice(&check.to_be_bytes());
            out.extend(ip);
        } else {
            out.extend(0x86ddu16.to_be_bytes());
            out.extend([0x60, self.ecn << 4, 0, 0]);
            out.extend(udp_len.to_be_bytes());
            out.extend([17, 64]);
            for word in self.source.iter().chain(&self.destination) {
                out.extend(word.to_be_bytes());
            }
        }
        for word in [self.label, self.port, udp_len, 0] {
            out.extend(word.to_be_bytes());
        }
        let mut vxlan = [0x08, self.version << 4, 0, 0, 0, 0, 0, 0];
        vxlan[4..7].copy_from_slice(&self.vni.to_be_bytes()[1..]);
        if self.speaks2 || self.shim.is_some() {
            vxlan[1] |= 0x04;
        }
        if self.version != 0 {
            if let Some(cell) = self.cell {
                vxlan[1] |= 0x08;
                vxlan[7] = cell;
            }
            if let Some((kind, path, value)) = self.feedback {
                vxlan[1] |= kind;
                vxlan[2..4].copy_from_slice(&[path, value]);
            }
        }
        out.extend(vxlan);
        out.extend(shim);
        out.extend(inner);
        out
    }
}

/// The source port of a packet without a label: the second quarter from the top, below the labels.
pub(crate) fn port_without_label(hash: u32) -> u16 {
    32_768 + (hash % 16_384) as u16
}

/// What spreads flows over paths: a chain of MurmurHash3 finalisers over seed, addresses, protocol and ports.
pub fn flow_hash(key: &FlowKey, seed: u64) -> u32 {
    let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let [s, d] = [key.saddr, key.daddr];
    let ports = u32::from(key.sport) << 16 | u32::from(key.dport);
    let words =
        [seed, pair(s[0], s[1]), pair(s[2], s[3]), pair(d[0], d[1]), pair(d[2], d[3]), pair(key.proto.into(), ports)];
    let hash = words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let mut hash = hash ^ word;
        for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
            hash = (hash ^ hash >> 33).wrapping_mul(factor);
        }
        hash ^ hash >> 33
    });
    (hash >> 32) as u32
}

/// Normal mode of RFC 6040, figure 4: what leaves the tunnel; `None`: the packet is dropped.
pub(crate) fn merged_ecn(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (ecn::NOT_ECT, ecn::CE) => None,
        (ecn::NOT_ECT, _) => Some(ecn::NOT_ECT),
        (_, ecn::CE) | (ecn::CE, _) => Some(ecn::CE),
        (ecn::ECT0, ecn::ECT1) => Some(ecn::ECT1),
        (inner, _) => Some(inner),
    }
}
