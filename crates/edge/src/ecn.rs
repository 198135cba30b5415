//! The outer ECN field of packets that are in no tunnel yet or any more (`datapath/ecn.h`), for drivers.

use crate::native::{ecn_arrives, ecn_departs};
use wire::{version, Packet};

/// The packet leaves in a tunnel of `packet.wire`: its outer codepoint from here on is `packet.outer_ecn`.
pub fn departs(packet: &mut Packet) {
    packet.outer_ecn = ecn_departs(packet);
}

/// The packet leaves the tunnel: what the guest may see of the outer codepoint is in `packet.ecn`, and `packet.marked` says whether it
/// was marked. Packets of version 1 are left as they are: their one codepoint is the guest's.
pub fn arrives(packet: &mut Packet) {
    if packet.wire == version::TWO {
        // Version 2 drops none.
        ecn_arrives(packet, packet.outer_ecn, version::TWO);
    }
}
