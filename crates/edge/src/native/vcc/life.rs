//! Begin and end of a connection's state, and the packets that can end it.

use super::super::*;
use super::tests::{opened, segment, syn, Guarded, MSS};
use crate::vcc::{Class, Config};
use units::Bytes;
use wire::{dirty, ecn, reserved, tcp};

impl Guarded {
    /// Has the connection's state reached its end by now?
    fn is_forgotten(&mut self) -> bool {
        self.stages.tick(&mut self.flow, None, self.now).0
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Time::from_secs(seconds);
    }
}

/// RFC 9293 section 3.6: who has sent a FIN may receive for as long as the other end sends.
#[test]
fn a_half_closed_connection_is_held_however_long_it_pauses() {
    for guest_first in [true, false] {
        let mut edge = opened(&Config::new(Class { clamp: Some(Bytes(12_800)), ..Class::default() }));
        edge.out(segment(tcp::ACK, 1, 1001, 5000));
        edge.hear(segment(tcp::ACK, 1001, 5001, 0));
        if guest_first {
            edge.out(segment(tcp::ACK | tcp::FIN, 5001, 1001, 0));
        } else {
            edge.hear(segment(tcp::ACK | tcp::FIN, 1001, 5001, 0));
        }
        edge.wait(30);
        assert!(!edge.is_forgotten(), "guest first: {guest_first}");
        let last = if guest_first { 5002 } else { 5001 };
        let ack = Packet { window: 60_000, ..segment(tcp::ACK, if guest_first { 1001 } else { 1002 }, last, 0) };
        assert_eq!(edge.hear(ack).1.window, 100, "and is still held to the clamp");
        if guest_first {
            edge.hear(segment(tcp::ACK | tcp::FIN, 1001, 5002, 0));
        } else {
            edge.out(segment(tcp::ACK | tcp::FIN, 5001, 1002, 0));
        }
        edge.wait(2);
        assert!(edge.is_forgotten(), "now both have closed");
    }
}

/// Otherwise a guest whose peer has closed its half could be rid of its window by a pause of a second.
#[test]
fn a_fin_that_the_peer_does_not_take_ends_nothing() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 5000));
    edge.hear(segment(tcp::ACK | tcp::FIN, 1001, 5001, 0));
    let granted = edge.vcc.conn.granted;
    for seq in [1, 4000, 5000, granted.wrapping_add(2 * MSS), 0x8000_0000] {
        edge.out(segment(tcp::ACK | tcp::FIN, seq, 1002, 0));
        edge.out(segment(tcp::RST | tcp::FIN, seq.wrapping_add(0x4000_0000), 1002, 0));
        edge.wait(2);
        assert!(!edge.is_forgotten(), "a FIN at {seq}");
    }
    edge.out(segment(tcp::ACK | tcp::FIN, 5001, 1002, 0));
    edge.wait(2);
    assert!(edge.is_forgotten());
}

#[test]
fn a_connection_whose_peer_goes_on_was_not_reset() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 5000));
    // In the window, but not what the peer waits for: RFC 5961 has it answer with an ACK.
    edge.out(segment(tcp::RST, 9000, 0, 0));
    edge.hear(segment(tcp::ACK, 1001, 5001, 0));
    edge.wait(30);
    assert!(!edge.is_forgotten());
    edge.out(segment(tcp::RST, 5001, 0, 0));
    edge.hear(segment(tcp::RST | tcp::ACK, 1001, 5001, 0));
    edge.wait(2);
    assert!(edge.is_forgotten());
}

/// If neither announced itself to a silent peer, the one that was there first would silence the other.
#[test]
fn edges_that_begin_one_after_the_other_find_each_other() {
    let mut edge = Guarded::new(&Config::default());
    edge.out(segment(tcp::ACK, 5_000_000, 1, 1000));
    edge.come(segment(tcp::ACK, 1, 5_001_000, 0));
    let (_, wire) = edge.out(segment(tcp::ACK, 5_001_000, 1, 1000));
    assert_eq!((wire.tcp_reserved, wire.ecn), (reserved::EDGE, ecn::NOT_ECT), "announced, but not marked");
    let (_, wire) = edge.out(Packet { ecn: ecn::ECT0, ..segment(tcp::ACK, 5_002_000, 1, 1000) });
    assert_eq!((wire.tcp_reserved, wire.ecn), (reserved::EDGE | reserved::ECT, ecn::ECT0), "the guest's own");
    // The other edge has heard it.
    edge.hear(segment(tcp::ACK, 1, 5_003_000, 0));
    let (_, wire) = edge.out(segment(tcp::ACK, 5_003_000, 1, 1000));
    assert_eq!((wire.tcp_reserved, wire.ecn), (reserved::EDGE, ecn::ECT0));
}

#[test]
fn data_on_a_syn_is_followed() {
    let mut edge = Guarded::new(&Config::default());
    edge.out(Packet { payload: 500, ..syn(tcp::SYN, 99, 0, Some(7)) });
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt), (99, 600));
    edge.hear(Packet { payload: 300, ..syn(tcp::SYN | tcp::ACK, 1000, 600, Some(7)) });
    assert_eq!(
        (edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt, edge.vcc.conn.rcv_nxt, edge.vcc.report.rcv_total),
        (600, 600, 1301, 300)
    );
    let mut edge = Guarded::new(&Config::default());
    edge.out(Packet { payload: 500, ..syn(tcp::SYN, 99, 0, Some(7)) });
    edge.hear(syn(tcp::SYN | tcp::ACK, 1000, 100, Some(7)));
    edge.out(segment(tcp::ACK, 100, 1001, 500));
    edge.ack(600, 500);
    assert_eq!(
        (edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt),
        (600, 600),
        "a server that does not take it gets it again"
    );
}

/// A SYN's window is neither scaled nor lowered, so a peer in league with the guest could send one to grant it 64 KB.
#[test]
fn only_the_handshake_grants_a_syns_window() {
    let mut edge = opened(&Config::default());
    edge.vcc.law.cwnd = MSS;
    edge.ack(1, 500);
    edge.out(segment(tcp::ACK, 1, 1001, MSS));
    edge.ack(1 + MSS, 500);
    let granted = edge.vcc.conn.granted;
    edge.hear(syn(tcp::SYN | tcp::ACK, 1000, 1 + MSS, Some(7)));
    edge.hear(syn(tcp::SYN | tcp::ACK, 70_000, 1 + MSS, Some(7)));
    assert_eq!(edge.vcc.conn.granted, granted);
}

#[test]
fn guests_agree_on_classic_ecn() {
    let asked = dirty::AE | dirty::FLAGS;
    let mut edge = Guarded::new(&Config::default());
    let (_, wire) = edge.out(syn(tcp::SYN | tcp::ECE | tcp::CWR, 0, 0, Some(7)));
    assert_eq!(wire.dirty & asked, asked);
    let (_, wire) = edge.out(segment(tcp::ACK, 1, 1001, 100));
    assert_eq!(wire.dirty & dirty::AE, 0);
    let mut edge = Guarded::new(&Config::new(Class { observe: true, ..Class::default() }));
    assert_eq!(edge.out(syn(tcp::SYN, 0, 0, Some(7))).1.dirty & dirty::AE, 0, "who only observes leaves ECN as it is");
}

/// Signatures cover the window, numbers and flags. Both ends must have signed: the peer alone cannot lift the guest's law.
#[test]
fn headers_that_both_ends_sign_are_left_as_they_are() {
    for (own, peer) in [(false, false), (true, false), (false, true), (true, true)] {
        let scale = |signed| if signed { wire::SIGNED } else { 8 };
        let mut edge = Guarded::new(&Config::default());
        let sent = edge.out(Packet { wscale: scale(own), ..syn(tcp::SYN, 0, 0, None) }).1;
        assert_eq!((sent.tcp_reserved == 0, sent.dirty & dirty::AE == 0), (own, own), "signatures cover flags, too");
        edge.hear(Packet { wscale: scale(peer), ..syn(tcp::SYN | tcp::ACK, 1000, 1, None) });
        edge.vcc.law.cwnd = 2 * MSS;
        edge.out(segment(tcp::ACK, 1, 1001, 5000));
        let (window, pure) = (edge.ack(1 + MSS, 60_000).window, edge.out(segment(tcp::ACK, 2000, 1001, 0)).1);
        assert_eq!(pure.tcp_reserved == 0, own && peer);
        let left = (window == 60_000, pure.seq == 2000);
        assert_eq!(left, (own && peer, own && peer), "signed by the guest: {own}, by its peer: {peer}");
        edge.now = Time::from_secs(1);
        assert_eq!(edge.tick_now() & EMIT_DUPACK == 0, own && peer);
    }
}

/// RFC 9293 section 3.10.4: an ACK without data has the next number, also where the guest believes that its window ends before it.
#[test]
fn a_pure_ack_behind_the_windows_end_gets_the_next_number() {
    let number = |edge: &mut Guarded, flags, seq, payload| {
        let sent = edge.out(segment(flags, seq, 1001, payload)).1;
        (sent.seq, sent.dirty & dirty::SEQ != 0)
    };
    for observe in [false, true] {
        let mut edge = opened(&Config::new(Class { observe, ..Class::default() }));
        edge.out(segment(tcp::ACK, 1, 1001, 5000));
        let next = if observe { (2000, false) } else { (5001, true) };
        assert_eq!(number(&mut edge, tcp::ACK, 2000, 0), next, "observes: {observe}");
        // What has data, ends something, or is a probe, which is to be old.
        assert_eq!(number(&mut edge, tcp::ACK, 2000, 1000), (2000, false));
        assert_eq!(number(&mut edge, tcp::ACK | tcp::RST, 2000, 0), (2000, false));
        assert_eq!(number(&mut edge, tcp::ACK, 5000, 0), (5000, false));
        // What is not behind, and what no window reaches.
        for seq in [5001, 5002, 0x8000_0000] {
            assert_eq!(number(&mut edge, tcp::ACK, seq, 0), (seq, false));
        }
    }
}
