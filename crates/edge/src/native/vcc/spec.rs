//! Rows of the specification's test table that no other test has. The other rows:
//!
//! | Row | Test |
//! |---|---|
//! | alpha of 1024 and 15 | `tests::alpha_moves_by_a_sixteenth_and_never_sticks` |
//! | cuts by beta | `tests::the_priority_law` |
//! | windows by scale, clamp | `tests::windows_are_lowered_and_never_raised` |
//! | one SYN without a scale | `tests::both_must_offer_a_scale` |
//! | SYN and FIN take a number, SYN again | `tests::the_handshake_is_tracked` |
//! | old ACK | `tests::sequence_numbers_wrap` |
//! | third equal pure ACK, with payload, another window | `tests::the_third_duplicate_ack_is_a_loss` |
//! | CE on every ACK of a window | `tests::marks_cut_once_per_window` |
//! | RST in the window and outside | `tests::stray_syns_and_rsts_change_nothing` |
//! | first seen mid-stream | `tests::a_flow_first_seen_under_way_is_marked_and_not_enforced` |
//! | timestamps and three SACK blocks | `tests::reports_ride_on_pure_acks_and_else_go_ahead` |
//! | PACK lost, counter wraps, malformed PACK | `tests::reports_survive_loss_reordering_and_wrapping` |
//! | CE for guests with and without ECN, negotiation through ECT | `tests::ecn_is_between_edges_only` |
//! | overruns and retransmissions beyond a shrunk window | `tests::what_exceeds_the_grant_is_policed` |
//!
//! The row of ACKs of 1492 and 1493 bytes is about options on data, which carries none here: reports then go in packets of
//! their own, `tests::data_never_carries_the_option`.

use super::tests::{report, segment, Guarded, MSS};
use crate::vcc::{Class, Config};
use crate::{Config as EdgeConfig, Direction, Edge, Slot};
use units::Time;
use wire::{reserved, tcp, v4, Packet, TcpOptions};

fn opened(first: u32, scale: u8) -> Guarded {
    let mut edge = Guarded::new(&Config::default());
    edge.open(first, Some(scale));
    edge
}

#[test]
fn an_ack_across_the_wrap_acknowledges_512_bytes() {
    let mut edge = opened(0xffff_ff00, 7);
    edge.out(segment(tcp::ACK, 0xffff_ff00, 1001, 0x400));
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt), (0xffff_ff00, 0x300));
    // A window that the guest fills, so that it grows by what was acknowledged.
    edge.vcc.law.cwnd = 0x400;
    edge.hear(segment(tcp::ACK, 1001, 0x100, 0));
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.law.cwnd), (0x100, 0x400 + 512));
}

#[test]
fn a_scale_above_14_counts_as_14() {
    assert_eq!(
        (opened(1, 14).vcc.conn.in_scale, opened(1, 15).vcc.conn.in_scale, opened(1, 200).vcc.conn.in_scale),
        (14, 14, 14)
    );
}

#[test]
fn everything_marked_at_beta_zero_leaves_one_segment() {
    let mut edge = Guarded::new(&Config::new(Class { beta: 0, ..Class::default() }));
    edge.open(1, Some(7));
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    edge.hear(report(segment(tcp::ACK, 1001, 1 + MSS, 0), MSS, MSS));
    assert_eq!((edge.vcc.law.alpha, edge.vcc.law.cwnd), (1024, MSS));
}

#[test]
fn a_feedback_packet_between_duplicates_neither_counts_nor_interrupts() {
    let mut edge = opened(1, 7);
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    edge.hear(segment(tcp::ACK, 1001, 1 + MSS, 0));
    let fack = report(Packet { tcp_flags: 0, tcp_reserved: reserved::PACK, ..segment(0, 1001, 1, 0) }, 0, 0);
    let seen: Vec<u8> = [true, false, true, false, true]
        .map(|feedback| {
            edge.hear(if feedback { fack } else { segment(tcp::ACK, 1001, 1 + MSS, 0) });
            edge.vcc.conn.dupacks
        })
        .to_vec();
    assert_eq!(seen, [0, 1, 1, 2, 2]);
    let before = edge.vcc.law.cwnd;
    edge.hear(segment(tcp::ACK, 1001, 1 + MSS, 0));
    assert!(edge.vcc.law.cwnd < before, "the third");
}

#[test]
fn a_timeout_with_nothing_outstanding_asks_for_no_duplicates() {
    let mut edge = opened(1, 7);
    for seconds in [1, 10, 100] {
        edge.now = Time::from_secs(seconds);
        assert_eq!(edge.tick_now(), 0);
    }
}

/// Windows in SYNs are unscaled: what the edge repeats of one must not be read as scaled.
#[test]
fn duplicates_after_the_handshake_offer_no_more_than_it_did() {
    for (scale, units) in [(0, 65_535), (7, 511), (14, 3)] {
        let mut edge = opened(1, scale); // with a window of 65535 in the answer
        edge.out(segment(tcp::ACK, 1, 1001, MSS));
        let granted = edge.vcc.conn.granted;
        edge.now = Time::from_secs(1);
        assert_ne!(edge.tick_now(), 0);
        let conf = edge.stages.vcc.clone().unwrap();
        let duplicate = edge.vcc.ack(&conf, &segment(0, 0, 0, 0).flow_key(), false);
        assert_eq!((duplicate.window, edge.vcc.conn.granted), (units, granted), "scale {scale}");
    }
    let mut edge = Guarded::new(&Config::default());
    edge.open(1, Some(14));
    edge.hear(Packet { window: 100, mss: MSS as u16, wscale: 15, ..segment(tcp::SYN | tcp::ACK, 1000, 1, 0) });
    edge.out(segment(tcp::ACK, 1, 1001, 50));
    edge.now = Time::from_secs(1);
    edge.tick_now();
    let conf = edge.stages.vcc.clone().unwrap();
    assert_eq!(edge.vcc.ack(&conf, &segment(0, 0, 0, 0).flow_key(), false).window, 1, "nor is an open window closed");
}

/// Data offset below 5 or past the end, IHL below 5, a fragment, a header that is cut: no packet comes of it, so nothing
/// reaches any state. An option of length zero ends the list of options, and nothing else.
#[test]
fn frames_that_contradict_themselves_are_no_packets() {
    let syn = Packet { mss: 1460, wscale: 8, ..segment(tcp::SYN, 99, 0, 0) };
    let options = TcpOptions { sack_permitted: true, ..TcpOptions::default() };
    let good = wire::emit(&syn, &options).unwrap();
    assert!(wire::parse(&good).is_ok());
    let patched = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        wire::parse(&frame)
    };
    let (ip, tcp_at) = (14, 34);
    assert!(patched(tcp_at + 12, 0x40).is_err(), "data offset of 4 words");
    assert!(patched(tcp_at + 12, 0xf0).is_err(), "of 15, past the end");
    assert!(patched(ip, 0x44).is_err(), "IHL of 4 words");
    assert!(patched(ip + 6, 0x20).is_err(), "more fragments follow");
    assert!(patched(ip + 7, 0x01).is_err(), "a later fragment");
    for len in 0..tcp_at + 20 {
        assert!(wire::parse(&good[..len]).is_err(), "cut after {len}");
    }
    // The MSS comes first, then a NOP and the scale.
    assert_eq!(patched(tcp_at + 21, 0).map(|p| (p.mss, p.wscale)), Ok((0, 0)));
    assert_eq!(patched(tcp_at + 26, 0).map(|p| (p.mss, p.wscale)), Ok((1460, 0)));
}

/// RFC 2385 section 3.0 and RFC 5925 section 2.2: a signature may stand before the window scale and behind it.
#[test]
fn signed_syns_are_told() {
    let syn = Packet { mss: 1460, wscale: 8, ..segment(tcp::SYN, 99, 0, 0) };
    let options = TcpOptions { timestamps: Some((1, 0)), ..TcpOptions::default() };
    let good = wire::emit(&syn, &options).unwrap();
    let told = |at: usize, option: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + option.len()].copy_from_slice(option);
        wire::parse(&frame).unwrap().wscale
    };
    let (scale, timestamps) = (34 + 20 + 4, 34 + 20 + 8);
    for kind in [19, 29] {
        assert_eq!(told(timestamps + 2, &[kind, 10]), wire::SIGNED);
        assert_eq!(told(scale, &[kind, 12]), wire::SIGNED, "it covers the scale and a part of what follows");
        assert_eq!(told(scale, &[kind, 4, 0, 0, 1, 3, 3, 7]), wire::SIGNED);
        assert_eq!(told(timestamps + 2, &[kind, 11]), 8, "longer than the header: no option");
    }
    assert_eq!(told(timestamps + 2, &[20, 10]), 8);
}

const GUEST: [u32; 4] = v4([10, 0, 0, 1]);
const PEER: [u32; 4] = v4([10, 0, 0, 2]);

/// An edge with all its parts, and connections of its guest to port 80, by the guest's port.
struct Host {
    edge: Edge,
    now: Time,
}

impl Host {
    fn new(congestion: Config) -> Host {
        let edge = Edge::new(EdgeConfig { congestion: Some(congestion), ..EdgeConfig::default() });
        Host { edge, now: Time::from_us(1) }
    }

    fn pass(&mut self, dir: Direction, packet: Packet) {
        self.edge.process(self.now, dir, Slot(0), &mut packet.clone());
        while self.edge.poll_transmit(self.now).is_some() {}
    }

    fn out(&mut self, port: u16, packet: Packet) {
        self.pass(Direction::Egress, Packet { saddr: GUEST, daddr: PEER, sport: port, dport: 80, ..packet });
    }

    fn hear(&mut self, port: u16, packet: Packet) {
        let to_guest = Packet { saddr: PEER, daddr: GUEST, sport: 80, dport: port, ..packet };
        self.pass(Direction::Ingress, Packet { tcp_reserved: to_guest.tcp_reserved | reserved::EDGE, ..to_guest });
    }

    fn open(&mut self, port: u16) {
        let syn = Packet { mss: MSS as u16, wscale: 8, window: 65_535, ..segment(tcp::SYN, 0, 0, 0) };
        self.out(port, syn);
        self.hear(port, Packet { tcp_flags: tcp::SYN | tcp::ACK, seq: 1000, ack: 1, ..syn });
        self.out(port, segment(tcp::ACK, 1, 1001, 10 * MSS));
    }

    fn known(&self, port: u16) -> Option<crate::vcc::Connection> {
        let key = Packet { saddr: GUEST, daddr: PEER, sport: port, dport: 80, ..segment(0, 0, 0, 0) }.flow_key();
        self.edge.congestion(&key)
    }
}

#[test]
fn two_laws_for_one_guest_have_separate_state() {
    use crate::vcc::{Law, Rule};
    let cubic = Class { law: Law::Cubic, ..Class::default() };
    let config = Config::default().rule(&Rule { ports: 5000..=5000, ..Rule::all(cubic) }).unwrap();
    let mut host = Host::new(config);
    host.open(5000);
    host.open(5001);
    let untouched = host.known(5001);
    host.hear(5000, report(segment(tcp::ACK, 1001, 1, 0), MSS, MSS));
    let (first, second) = (host.known(5000).unwrap(), host.known(5001).unwrap());
    assert_eq!((first.law, second.law), (Law::Cubic, Law::Dctcp));
    assert_eq!(first.cwnd.get(), u64::from(10 * MSS * 717 / 1024), "CUBIC's cut");
    assert_eq!(Some(second), untouched, "the other one knows nothing of it");
    host.hear(5001, report(segment(tcp::ACK, 1001, 1, 0), MSS, MSS));
    assert_eq!(host.known(5001).unwrap().cwnd.get(), u64::from(5 * MSS), "DCTCP's with alpha 1");
}

/// As soon as what may still be on its way has had its time: a second, RFC 6298's first timeout.
#[test]
fn a_connection_with_both_fins_acknowledged_is_forgotten() {
    let mut host = Host::new(Config::default());
    host.open(5000);
    let end = 1 + 10 * MSS;
    host.hear(5000, segment(tcp::ACK, 1001, end, 0));
    host.out(5000, segment(tcp::FIN | tcp::ACK, end, 1001, 0));
    host.hear(5000, segment(tcp::FIN | tcp::ACK, 1001, end + 1, 0));
    host.out(5000, segment(tcp::ACK, end + 1, 1002, 0));
    let connection = host.known(5000).expect("it lingers");
    assert_eq!((connection.snd_una, connection.snd_nxt), (end + 1, end + 1), "a FIN takes a number");
    host.now += Time::from_ms(999);
    host.edge.handle_timeout(host.now);
    assert_eq!(host.edge.flow_count(), 1);
    host.now += Time::from_ms(2);
    host.edge.handle_timeout(host.now);
    assert_eq!((host.edge.flow_count(), host.known(5000)), (0, None));
}
