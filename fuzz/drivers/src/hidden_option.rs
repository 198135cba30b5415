use edge::hidden::{Config, Peers};
use edge::{DropReason, Edge};
use std::sync::Arc;
use wire::hidden::{self, Hidden, LEN};
use wire::{parse, version, Packet};

/// Edges, and their guests: 10.0.0.1 and 10.0.0.11, 10.0.0.2.
const THERE: u32 = 0xc612_0001;
const HERE: u32 = 0xc612_0002;
const GUESTS: [(u32, u32); 3] = [(0x0a00_0001, THERE), (0x0a00_000b, THERE), (0x0a00_0002, HERE)];

/// An option, and a frame from the fabric: an option that is read survives being written; the edge delivers a frame only from a guest of the
/// edge that it came from to a guest of its own, the frame is then what was hidden, and hiding it again gives what came.
pub fn hidden_option(data: &[u8]) {
    let Some((option, frame)) = data.split_first_chunk::<LEN>() else { return };
    if let Some(hidden) = Hidden::read(option) {
        assert_eq!(hidden.bytes(), *option, "{hidden:?}");
        assert!(matches!(hidden.version, 1 | 2) && hidden.feedback < 3 && hidden.ecn < 4);
    }
    let Ok(mut packet) = parse(frame) else { return };
    let config = Config { address: HERE, peers: Arc::new(Peers::new(GUESTS)), mtu: 1500 };
    let mut edge = Edge::new(edge::Config { hidden: Some(config), ..edge::Config::default() });
    if !edge.is_hidden(&packet) {
        return;
    }
    // As a fabric's packet has it: the field of IP is the edges'.
    (packet.wire, packet.outer_ecn) = (version::TWO, packet.ecn);
    let came = packet;
    let found = hidden::option(frame, &packet);
    let told = edge.restore(&mut packet, found.as_ref());
    let counters = edge.counters().hidden;
    let (restored, malformed, forged) =
        (counters.restored_packets, counters.malformed_packets, counters.forged_packets);
    assert_eq!(restored + malformed + forged, 1, "{counters:?}");
    if let Err(why) = told {
        assert_eq!(why == DropReason::Forged, forged == 1);
        assert_eq!(packet, came, "nothing of it was believed");
        return;
    }
    let edge_of = |guest: u32| GUESTS.iter().find(|(address, _)| *address == guest).map(|(_, edge)| *edge);
    assert_eq!(edge_of(packet.saddr[3]), Some(came.saddr[3]), "another's guest");
    assert_eq!(edge_of(packet.daddr[3]), Some(HERE), "for nobody here");
    delivers(frame, &came, &packet);
}

fn delivers(frame: &[u8], came: &Packet, packet: &Packet) {
    let mut delivered = frame.to_vec();
    if hidden::leave(&mut delivered, packet, false).is_err() {
        assert_eq!(delivered, frame);
        return;
    }
    assert_eq!(delivered.len() + LEN, frame.len());
    let again = parse(&delivered).expect("what was hidden parses");
    assert_eq!((again.flow_key(), again.ecn), (packet.flow_key(), packet.ecn));
    assert_eq!((again.seq, again.payload, again.l4_header_len), (packet.seq, packet.payload, packet.l4_header_len));
    if packet.label == 0 || packet.truncated == 1 {
        return;
    }
    let mut hides = *packet;
    let option = hidden::swap(&mut hides, came.saddr[3], came.daddr[3], 0).bytes();
    let mut entered = delivered;
    hidden::enter(&mut entered, &hides, &option, false).expect("there was room");
    let tcp = frame.len() - (came.payload as usize).min(frame.len()) - usize::from(came.l4_header_len);
    if let (Some(one), Some(other)) = (entered.get(..tcp.min(24)), frame.get(..tcp.min(24))) {
        assert_eq!(one, other, "up to the checksum of IP");
    }
    assert_eq!(Hidden::read(&hidden::option(&entered, &hides).expect("it is there")), Hidden::read(&option));
}
