//! What agents are told of addresses and of dropped packets.

use super::frames::{discovery, same, source};
use super::guests::{outer, Guest, GUESTS};
use super::host::PORTS;
use super::round::Round;
use kernel::state::{address, words, Counter, EVENT_AGAIN, EVENT_DROPPED, EVENT_GUEST, VERSION_2};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

impl Round<'_> {
    /// What A's agent is told of its guest's addresses: only what that has claimed.
    pub(super) fn read_learnt(&mut self) {
        let (shape, attacker) = (self.shape, GUESTS[0]);
        for event in self.a.edge().poll_events(Duration::ZERO).unwrap() {
            if event.kind != EVENT_GUEST {
                continue;
            }
            self.seen.learnt += 1;
            assert!(shape.learn, "{shape:?}: {event:?}");
            assert_eq!((event.ifindex, event.value), (self.a.port, shape.network(attacker)), "{shape:?}: {event:?}");
            assert!(self.said.contains(&(event.addr, event.mac)), "{shape:?}: it never said so: {event:?}");
            assert!(!shape.strict || event.mac == attacker.mac(), "{shape:?}: {event:?}");
        }
        let counters = self.a.edge().counters().unwrap();
        let (sent, counted) = (counters.get(Counter::FeedbackSent), counters.get(Counter::MarksCounted));
        if shape.plain {
            assert!(self.bits == sent && sent <= counted, "{shape:?}: {} bits, {sent} of {counted}", self.bits);
        }
    }

    /// What B's agent is told of dropped packets: by a peer of version 2, between its guest and one of B's in one network.
    pub(super) fn read_events(&mut self) {
        self.read_learnt();
        let shape = self.shape;
        for event in self.b.edge().poll_events(Duration::ZERO).unwrap() {
            let packet = event.packet;
            let (here, there) = match event.kind {
                EVENT_DROPPED => (packet.saddr, packet.daddr),
                EVENT_AGAIN => (packet.daddr, packet.saddr),
                _ => continue,
            };
            self.seen.told += 1;
            assert_eq!(shape.version, VERSION_2, "{shape:?}: {event:?}");
            let peer = (event.value as u16 - 1).into();
            let [here, there] = [here, there].map(|addr| same(address(addr)));
            assert_eq!(address(event.addr), same(outer(peer, shape.six)), "{shape:?}: {event:?}");
            let to = GUESTS[(event.ifindex - PORTS) as usize];
            assert!(to.host == 1 && to.has(here), "{shape:?}: {event:?}");
            let speaks = |guest: &Guest| (guest.network, guest.host) == (to.network, peer) && guest.has(there);
            assert!(GUESTS.iter().any(speaks), "{shape:?}: host {peer} speaks for {there}: {event:?}");
        }
    }

    /// All addresses at which the frame claims its sender to be, wherever they stand.
    pub(super) fn note_claims(&mut self, frame: &[u8]) {
        if !self.shape.learn || frame.len() < 14 {
            return;
        }
        let mac: [u8; 6] = frame[6..12].try_into().unwrap();
        let arp = (frame[12..14] == [0x08, 0x06]).then(|| frame.get(28..32)).flatten();
        let arp = arp.map(|a| IpAddr::V4(Ipv4Addr::new(a[0], a[1], a[2], a[3])));
        let advertised = discovery(frame).map(|(_, target)| target.into());
        self.said.extend([source(frame), arp, advertised].into_iter().flatten().map(|addr| (words(addr), mac)));
    }
}
