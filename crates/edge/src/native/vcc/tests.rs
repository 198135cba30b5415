//! Virtual congestion control on plain structs: numbers computed by hand.

use super::super::*;
use super::{sv_edge_cube_root, sv_edge_cubic_window, sv_edge_dctcp_alpha, sv_edge_dctcp_cut, Cubic};
use crate::vcc::{Class, Config, Law, Prefix, Rule};
use units::Bytes;
use wire::{ecn, pack, reserved, tcp, v4};

pub(super) const MSS: u32 = 1448;

/// Both directions of one connection, as the edge of the guest 10.0.0.1 sees it.
pub(super) struct Guarded {
    pub(super) stages: Stages,
    pub(super) flow: FlowState,
    pub(super) vcc: Vcc,
    pub(super) limit: Option<Limit>,
    pub(super) queue: LimitQueue,
    pub(super) now: Time,
}

pub(super) fn segment(tcp_flags: u8, seq: u32, ack: u32, payload: u32) -> Packet {
    Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 0, 2]),
        sport: 4000,
        dport: 80,
        proto: wire::proto::TCP,
        family: 4,
        ip_header_len: 20,
        l4_header_len: 20,
        tcp_flags,
        seq,
        ack,
        payload,
        window: 500,
        ..Packet::default()
    }
}

pub(super) fn syn(flags: u8, seq: u32, ack: u32, wscale: Option<u8>) -> Packet {
    Packet {
        mss: MSS as u16,
        wscale: wscale.map_or(0, |shift| shift + 1),
        window: 65_535,
        ..segment(flags, seq, ack, 0)
    }
}

impl Guarded {
    pub(super) fn new(config: &Config) -> Guarded {
        let conf = Conf { idle_ns: 60_000_000_000, balance: balance::Conf::default() };
        let stages = Stages { conf, vcc: Some(config.conf()) };
        let (flow, vcc, queue) = Default::default();
        Guarded { stages, flow, vcc, limit: None, queue, now: Time::from_us(1) }
    }

    pub(super) fn out(&mut self, mut packet: Packet) -> (u32, Packet) {
        let limiter = self.limit.as_ref().map(|limit| (limit, &mut self.queue));
        let result =
            self.stages.egress(&mut self.flow, Some(&mut self.vcc), limiter, None, &[], 0, self.now, &mut packet);
        (result, packet)
    }

    /// Turns the packet round: it is written as the guest's own, for brevity.
    pub(super) fn come(&mut self, packet: Packet) -> (u32, Packet) {
        let (saddr, daddr, sport, dport) = (packet.daddr, packet.saddr, packet.dport, packet.sport);
        let mut packet = Packet { saddr, daddr, sport, dport, ..packet };
        let limiter = self.limit.as_ref().map(|limit| (limit, &mut self.queue));
        let result = self.stages.ingress(
            &mut self.flow,
            Some(&mut self.vcc),
            limiter,
            None,
            &Paths::none(),
            self.now,
            &mut packet,
        );
        (result, packet)
    }

    /// As `come`, from a peer whose edge speaks AC/DC.
    pub(super) fn hear(&mut self, packet: Packet) -> (u32, Packet) {
        self.come(Packet { tcp_reserved: packet.tcp_reserved | reserved::EDGE, ..packet })
    }

    /// A handshake begun by the guest; its first data byte is `seq`, the peer's 1001.
    pub(super) fn open(&mut self, seq: u32, wscale: Option<u8>) {
        self.out(syn(tcp::SYN, seq.wrapping_sub(1), 0, Some(7)));
        self.hear(syn(tcp::SYN | tcp::ACK, 1000, seq, wscale));
    }

    pub(super) fn ack(&mut self, ack: u32, window: u16) -> Packet {
        self.hear(Packet { window, ..segment(tcp::ACK, 1001, ack, 0) }).1
    }

    pub(super) fn forget(&mut self) {
        (self.flow, self.vcc) = Default::default();
    }

    pub(super) fn tick_now(&mut self) -> u8 {
        self.stages.tick(&mut self.flow, Some(&mut self.vcc), self.now).1
    }
}

fn dctcp() -> Guarded {
    Guarded::new(&Config::default())
}

pub(super) fn opened(config: &Config) -> Guarded {
    let mut edge = Guarded::new(config);
    edge.open(1, Some(7));
    edge
}

/// A report of counters since the connection's beginning.
pub(super) fn report(packet: Packet, total: u32, marked: u32) -> Packet {
    let bytes = |n: u32| [(n >> 16) as u8, (n >> 8) as u8, n as u8];
    let l4_header_len = packet.l4_header_len + pack::LEN;
    Packet { pack: pack::OK, pack_total: bytes(total), pack_ce: bytes(marked), l4_header_len, ..packet }
}

fn counters(packet: &Packet) -> (u32, u32) {
    let number = |b: [u8; 3]| u32::from_be_bytes([0, b[0], b[1], b[2]]);
    (number(packet.pack_total), number(packet.pack_ce))
}

#[test]
fn alpha_moves_by_a_sixteenth_and_never_sticks() {
    // SAFETY: pure functions of their arguments.
    let alpha = |alpha, total, marked| unsafe { sv_edge_dctcp_alpha(alpha, total, marked) };
    assert_eq!([alpha(1024, 100, 0), alpha(1024, 100, 50), alpha(1024, 100, 100)], [960, 992, 1024]);
    assert_eq!([alpha(15, 100, 0), alpha(1, 100, 0), alpha(0, 100, 0)], [14, 0, 0]);
    assert_eq!(alpha(1023, 100, 100), 1024, "1023 - 63 + 64");
    assert_eq!(alpha(500, 0, 0), 500, "no news");
    assert_eq!(alpha(1024, 10, u32::MAX), 1024, "never more marks than bytes");
    assert_eq!(alpha(60_000, 100, 0), 960, "nor more than one to begin with");
}

#[test]
fn the_priority_law() {
    // SAFETY: as above.
    let cut = |cwnd, alpha, beta| unsafe { sv_edge_dctcp_cut(cwnd, alpha, beta) };
    assert_eq!([cut(100_000, 512, 1024), cut(100_000, 512, 512), cut(100_000, 512, 0)], [75_000, 62_500, 50_000]);
    assert_eq!([cut(100_000, 1024, 1024), cut(100_000, 1024, 0), cut(100_000, 0, 0)], [50_000, 0, 100_000]);
    let betas = [0, 256, 512, 768, 1024].map(|beta| cut(1 << 20, 512, beta) as f64 / f64::from(1 << 20));
    assert_eq!(betas, [0.5, 0.5625, 0.625, 0.6875, 0.75]);
}

#[test]
fn cubic_in_integers() {
    // SAFETY: as above; the state is borrowed for the call.
    let root = |x| unsafe { sv_edge_cube_root(x) };
    assert_eq!([root(0), root(7), root(8), root(26), root(27), root(1_000_000_000)], [0, 1, 2, 2, 3, 1000]);
    assert_eq!(root((1 << 63) - 1), (1 << 21) - 1);
    // W_max 100 segments, cut to 70: K = (30 / 0.4)^(1/3) = 4.217 s = 4318 / 1024 s.
    let state = Cubic { w_max: 100 * MSS, k: 4318, ..Cubic::default() };
    // SAFETY: as above.
    let window = |t| f64::from(unsafe { sv_edge_cubic_window(&state, MSS, t) }) / f64::from(MSS);
    assert!((window(0) - 70.0).abs() < 0.05, "{}", window(0));
    assert!((window(4318) - 100.0).abs() < 0.01);
    // Two seconds later: 0.4 * 2^3 = 3.2 segments more.
    assert!((window(4318 + 2048) - 103.2).abs() < 0.05, "{}", window(4318 + 2048));
}

#[test]
fn sequence_numbers_wrap() {
    let mut edge = dctcp();
    edge.open(0xffff_ff00, Some(7));
    edge.out(segment(tcp::ACK, 0xffff_ff00, 1001, 0x400));
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt), (0xffff_ff00, 0x300));
    let cwnd = edge.vcc.law.cwnd;
    edge.ack(0x100, 500);
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.law.cwnd), (0x100, cwnd), "no growth: the window was not filled");
    edge.ack(0x100 - 10, 500);
    assert_eq!(edge.vcc.conn.snd_una, 0x100, "an old ACK");
    edge.ack(0x301, 500);
    assert_eq!(edge.vcc.conn.snd_una, 0x100, "an ACK of what was never sent");
}

#[test]
fn the_handshake_is_tracked() {
    let mut edge = dctcp();
    edge.out(syn(tcp::SYN, 99, 0, Some(7)));
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt), (99, 100), "a SYN takes a number");
    edge.out(syn(tcp::SYN, 99, 0, Some(7)));
    assert_eq!(edge.vcc.conn.snd_nxt, 100, "again");
    let (_, seen) = edge.hear(Packet { window: 500, ..syn(tcp::SYN | tcp::ACK, 1000, 100, Some(3)) });
    assert_eq!(seen.window, 500, "windows in SYNs stay");
    assert_eq!((u32::from(edge.vcc.conn.mss), edge.vcc.law.cwnd), (MSS, 10 * MSS));
    assert_eq!(edge.vcc.conn.granted, 100 + 500, "and are unscaled");
    edge.ack(100, 500);
    assert_eq!(edge.vcc.conn.granted, 100 + 500 * 8, "the peer's own scale");
    edge.out(segment(tcp::FIN | tcp::ACK, 100, 1001, 10));
    assert_eq!(edge.vcc.conn.snd_nxt, 111, "a FIN takes a number");
}

#[test]
fn both_must_offer_a_scale() {
    let scale = |ours: Option<u8>, theirs: Option<u8>| {
        let mut edge = dctcp();
        edge.out(syn(tcp::SYN, 0, 0, ours));
        edge.hear(Packet { window: 0, ..syn(tcp::SYN | tcp::ACK, 1000, 1, theirs) });
        edge.ack(1, 100);
        // Below the law's window, so that it is granted as it is.
        (edge.vcc.conn.granted - 1) / 100
    };
    assert_eq!(scale(Some(7), Some(2)), 4);
    assert_eq!(scale(None, Some(2)), 1);
    assert_eq!(scale(Some(7), None), 1);
}

#[test]
fn mss_is_the_smaller_option_less_timestamps() {
    let mss = |ours: u16, theirs: u16, header: u8, size: u16| {
        let mut edge = dctcp();
        edge.out(Packet { mss: ours, ..syn(tcp::SYN, 0, 0, Some(7)) });
        edge.hear(Packet { mss: theirs, ..syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)) });
        let data = segment(tcp::ACK, 1, 1001, 3000);
        edge.out(Packet { l4_header_len: header, segment_size: size, ..data });
        (edge.vcc.conn.mss, edge.vcc.law.cwnd)
    };
    assert_eq!(mss(1460, 1400, 20, 0), (1400, 14_000));
    assert_eq!(mss(1460, 1460, 32, 0), (1448, 14_480));
    assert_eq!(mss(0, 1460, 20, 0), (536, 5_360));
    assert_eq!(mss(8960, 8960, 32, 1000), (1000, 10_000), "the segment says it");
    assert_eq!(mss(1460, 1460, 32, 9000), (1448, 14_480), "but cannot raise it");
}

/// A window that the law has set to `cwnd`, as the guest reads the field of an ACK.
fn field(scale: u8, cwnd: u32, field: u16, class: Class) -> u16 {
    let mut edge = Guarded::new(&Config::new(class));
    edge.open(1, Some(scale));
    edge.vcc.law.cwnd = cwnd;
    edge.ack(1, field).window
}

#[test]
fn windows_are_lowered_and_never_raised() {
    let class = Class::default();
    assert_eq!([field(7, 90_000, 1000, class), field(7, 90_000, 500, class)], [703, 500]);
    assert_eq!(field(10, 1448, 500, class), 2, "2048 let a segment out");
    assert_eq!(field(14, 9000, 3, class), 1);
    assert_eq!(field(10, 1448, 1, class), 1, "less only if the receiver itself said so");
    assert_eq!(field(7, 90_000, 0, class), 0, "a closed window stays closed");
    assert_eq!(field(0, 1448, 60_000, class), 1449, "a byte more, or the receiver delays its ACK");
    assert_eq!(field(0, 700, 60_000, class), 1449);
    assert_eq!(field(0, 90_000, 60_000, class), 60_000);
    let clamp = |clamp| Class { clamp: Some(Bytes(clamp)), ..class };
    assert_eq!(field(0, 90_000, 60_000, clamp(20_000)), 20_000);
    assert_eq!(field(0, 10_000, 60_000, clamp(20_000)), 10_000);
    let floor = |floor| Class { floor: Some(Bytes(floor)), ..class };
    assert_eq!(field(0, 700, 60_000, floor(700)), 700, "a floor below a segment, for studies");
    assert_eq!(field(4, 700, 60_000, floor(700)), 44, "704, the next unit");
    assert_eq!(field(0, 700, 60_000, Class { observe: true, ..class }), 60_000);
    assert_eq!(field(0, 700, 60_000, Class::OFF), 60_000);
    assert_eq!(field(0, 700, 60_000, Class { law: Law::None, ..class }), 60_000);
}

#[test]
fn the_third_duplicate_ack_is_a_loss() {
    let dup = |n: u32, change: fn(&mut Packet)| {
        let mut edge = opened(&Config::default());
        edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
        edge.ack(1 + MSS, 500);
        for _ in 0..n {
            let mut again = segment(tcp::ACK, 1001, 1 + MSS, 0);
            change(&mut again);
            edge.hear(again);
        }
        edge.vcc.law.cwnd
    };
    let whole = 11 * MSS;
    assert_eq!([dup(2, |_| {}), dup(3, |_| {}), dup(9, |_| {})], [whole, whole / 2, whole / 2], "alpha is 1");
    assert_eq!(dup(9, |p| p.payload = 1), whole, "with payload");
    assert_eq!(dup(9, |p| p.tcp_flags |= tcp::FIN), whole);
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, MSS));
    for window in 500..510 {
        edge.ack(1, window);
    }
    assert_eq!(edge.vcc.conn.dupacks, 0, "another window each time");
    for _ in 0..9 {
        let fack = report(segment(tcp::ACK, 1001, 1, 0), 0, 0);
        let (result, _) = edge.hear(Packet { tcp_reserved: reserved::PACK, tcp_flags: 0, ..fack });
        assert_eq!(result & CONSUMED, CONSUMED);
    }
    assert_eq!(edge.vcc.conn.dupacks, 0, "feedback packets do not count");
    edge.ack(1 + MSS, 509);
    for _ in 0..9 {
        edge.ack(1 + MSS, 509);
    }
    assert_eq!(edge.vcc.conn.dupacks, 0, "nothing is outstanding");
}

#[test]
fn marks_cut_once_per_window() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    for n in 1..=10 {
        edge.hear(report(segment(tcp::ACK, 1001, 1 + n * MSS, 0), n * MSS, n * MSS));
        assert_eq!(edge.vcc.law.cwnd, 5 * MSS, "ACK {n}");
    }
    assert_eq!((edge.vcc.law.alpha, edge.vcc.law.ssthresh), (1024, 5 * MSS));
    // Two windows without marks: alpha falls, and one segment is added per window, once it is filled.
    edge.out(segment(tcp::ACK, 1 + 10 * MSS, 1001, 5 * MSS));
    edge.hear(report(segment(tcp::ACK, 1001, 1 + 15 * MSS, 0), 15 * MSS, 10 * MSS));
    assert_eq!((edge.vcc.law.alpha, edge.vcc.law.cwnd), (960, 6 * MSS));
}

#[test]
fn loss_laws_cut_by_their_own_share() {
    let after = |law| {
        let mut edge = opened(&Config::new(Class { law, ..Class::default() }));
        edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
        edge.hear(report(segment(tcp::ACK, 1001, 1, 0), MSS, MSS));
        edge.vcc.law.cwnd
    };
    assert_eq!(after(Law::NewReno), 5 * MSS);
    assert_eq!(after(Law::Cubic), 10 * MSS * 717 / 1024);
}

#[test]
fn an_inferred_timeout_leaves_one_segment_and_wakes_the_guest() {
    let mut edge = opened(&Config::default());
    edge.now = Time::from_ms(100);
    edge.out(segment(tcp::ACK, 1, 1001, 10 * MSS));
    edge.now = Time::from_ms(110) - Time::from_ns(1);
    assert_eq!((edge.tick_now(), edge.vcc.law.cwnd), (0, 10 * MSS));
    edge.now = Time::from_ms(110);
    assert_eq!((edge.tick_now(), edge.vcc.law.cwnd, edge.vcc.law.ssthresh), (EMIT_DUPACK, MSS, 5 * MSS));
    let key = segment(0, 0, 0, 0).flow_key();
    let conf = edge.stages.vcc.clone().unwrap();
    let dup = edge.vcc.ack(&conf, &key, false);
    assert_eq!((dup.seq, dup.ack, dup.window), (1001, 1, edge.vcc.conn.window_out));
    assert_eq!((dup.flow_key(), dup.tcp_flags, dup.family), (key.reversed(), tcp::ACK, 4));
    edge.now = Time::from_ms(129);
    assert_eq!(edge.tick_now(), 0, "the next one waits twice as long");
    edge.now = Time::from_ms(130);
    assert_eq!((edge.tick_now(), edge.vcc.law.ssthresh), (EMIT_DUPACK, 5 * MSS));
    edge.ack(1 + 10 * MSS, 500);
    edge.now = Time::from_secs(10);
    assert_eq!(edge.tick_now(), 0, "nothing is outstanding");
}

#[test]
fn one_segment_may_wait_for_a_delayed_ack() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, MSS));
    let due = edge.vcc.deadline(edge.stages.vcc.as_ref().unwrap());
    assert_eq!(due, Some(1_000 + 50_000_000));
}

#[test]
fn a_wider_window_is_told_when_no_ack_will() {
    let class = |clamp| Class { clamp: Some(Bytes(clamp)), law: Law::None, ..Class::default() };
    let mut edge = opened(&Config::new(class(10_000)));
    edge.out(segment(tcp::ACK, 1, 1001, 100));
    assert_eq!(edge.ack(101, 500).window, 78);
    assert_eq!(edge.tick_now(), 0);
    edge.stages.vcc = Some(Config::new(class(20_000)).conf());
    assert_eq!(edge.tick_now(), EMIT_WINDOW);
    let conf = edge.stages.vcc.clone().unwrap();
    let update = edge.vcc.ack(&conf, &segment(0, 0, 0, 0).flow_key(), true);
    assert_eq!((update.ack, update.window), (101, 156));
    assert_eq!((edge.tick_now(), edge.vcc.conn.window_out), (0, 156));
}

#[test]
fn what_exceeds_the_grant_is_policed() {
    let sent = |police, packets: &[Packet]| {
        let mut edge = opened(&Config::new(Class { police, ..Class::default() }));
        edge.vcc.law.cwnd = 20 * MSS;
        edge.ack(1, 2000);
        edge.vcc.law.cwnd = 10 * MSS; // shrinks; the grant does not
        edge.ack(1, 2000);
        let edges = edge.vcc.conn.granted;
        packets
            .iter()
            .map(|p| edge.out(Packet { seq: edges.wrapping_add(p.seq), ..*p }).0 & POLICED != 0)
            .collect::<Vec<_>>()
    };
    let data = |seq: i32, payload| segment(tcp::ACK, seq as u32, 1001, payload);
    let mss = MSS as i32;
    assert_eq!(sent(true, &[data(0, MSS), data(0, MSS + 1), data(0, 2 * MSS)]), [false, true, true]);
    assert_eq!(sent(false, &[data(0, 2 * MSS)]), [false]);
    let whole = [data(-20 * mss, 20 * MSS), data(-5 * mss, MSS)];
    assert_eq!(sent(true, &whole), [false, false], "in flight when the window shrank, and sent again");
    let probes = [data(3 * mss, 1), segment(tcp::ACK | tcp::FIN, 3 * MSS, 1001, 0), data(3 * mss, 0)];
    assert_eq!(sent(true, &probes), [false; 3], "probes of one byte, bare FINs and ACKs pass");
}

#[test]
fn a_policed_segment_is_counted_and_leaves_no_other_trace() {
    let mut edge = opened(&Config::default());
    edge.ack(1, 500);
    let mut before = edge.vcc;
    before.law.policed = 1;
    assert_eq!(edge.out(segment(tcp::ACK, 1, 1001, 50 * MSS)).0 & POLICED, POLICED);
    assert_eq!(edge.vcc, before);
    edge.out(segment(tcp::ACK, 1 + 90 * MSS, 1001, 1));
    assert_eq!(edge.vcc, before, "nor does a probe far ahead put off the next cut");
}

#[test]
fn ecn_is_between_edges_only() {
    for (sent, bit, back) in [(ecn::NOT_ECT, 0, ecn::NOT_ECT), (ecn::ECT0, reserved::ECT, ecn::ECT0)] {
        let mut edge = opened(&Config::default());
        let guest_bits = reserved::PACK | reserved::EDGE;
        let data = Packet { ecn: sent, tcp_reserved: guest_bits, ..segment(tcp::ACK, 1, 1001, 100) };
        let (_, wire) = edge.out(data);
        assert_eq!((wire.ecn, wire.tcp_reserved), (ecn::ECT0, reserved::EDGE | bit));
        let marked = Packet { ecn: ecn::CE, tcp_reserved: bit, ..segment(tcp::ACK | tcp::ECE, 1001, 101, 700) };
        let (_, seen) = edge.hear(marked);
        assert_eq!((seen.ecn, seen.tcp_flags, seen.tcp_reserved), (back, tcp::ACK, 0));
        assert_eq!((edge.vcc.report.rcv_total, edge.vcc.report.rcv_ce), (700, 700), "counted before it is hidden");
    }
    let mut edge = dctcp();
    let negotiating = tcp::SYN | tcp::ECE | tcp::CWR;
    let (_, wire) = edge.out(syn(negotiating, 0, 0, Some(7)));
    assert_eq!((wire.ecn, wire.tcp_flags), (ecn::ECT0, negotiating));
    let answer = Packet { ecn: ecn::ECT0, ..syn(tcp::SYN | tcp::ACK | tcp::ECE, 1000, 1, Some(7)) };
    let (_, seen) = edge.hear(answer);
    assert_eq!((seen.ecn, seen.tcp_flags), (ecn::NOT_ECT, tcp::SYN | tcp::ACK | tcp::ECE), "guests negotiate");
}

#[test]
fn a_peer_without_acdc_is_left_alone() {
    let mut edge = dctcp();
    edge.out(syn(tcp::SYN, 0, 0, Some(7)));
    edge.come(syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)));
    edge.vcc.law.cwnd = 2 * MSS;
    let marked = Packet { ecn: ecn::CE, ..segment(tcp::ACK | tcp::ECE, 1001, 1, 700) };
    let (_, seen) = edge.come(marked);
    assert_eq!((seen.ecn, seen.tcp_flags, seen.window), (ecn::CE, tcp::ACK | tcp::ECE, 500));
    let (_, wire) = edge.out(segment(tcp::ACK, 1, 1701, 0));
    assert_eq!((wire.ecn, wire.tcp_reserved, wire.pack, wire.emit), (ecn::NOT_ECT, 0, pack::NONE, 0));
    // A law that needs no feedback holds all the same.
    let mut edge = Guarded::new(&Config::new(Class { law: Law::NewReno, ..Class::default() }));
    edge.out(syn(tcp::SYN, 0, 0, Some(7)));
    edge.come(syn(tcp::SYN | tcp::ACK, 1000, 1, Some(7)));
    assert_eq!(edge.come(segment(tcp::ACK, 1001, 1, 0)).1.window, (10 * MSS / 128) as u16);
}

#[test]
fn a_flow_first_seen_under_way_is_marked_and_not_enforced() {
    let mut edge = dctcp();
    let (result, wire) = edge.out(segment(tcp::ACK, 5_000_000, 1, 60_000));
    assert_eq!((result & POLICED, wire.ecn, wire.tcp_reserved), (0, ecn::ECT0, reserved::EDGE));
    edge.vcc.law.cwnd = MSS;
    let (_, seen) = edge.hear(report(segment(tcp::ACK, 1, 5_001_000, 0), 77_000, 5_000));
    assert_eq!((seen.window, seen.pack, seen.tcp_reserved), (500, pack::NONE, 0));
    let counted = (edge.vcc.report.fb_total, edge.vcc.report.fb_ce, edge.vcc.law.sum_ce);
    assert_eq!(
        (edge.vcc.conn.snd_una, counted),
        (5_001_000, (77_000, 5_000, 0)),
        "the first report is where counting begins"
    );
    let (result, _) = edge.out(segment(tcp::ACK, 9_000_000, 1, 60_000));
    assert_eq!(result & POLICED, 0);
}

#[test]
fn reports_ride_on_pure_acks_and_else_go_ahead() {
    let mut edge = opened(&Config::default());
    let (_, ack) = edge.out(segment(tcp::ACK, 1, 1001, 0));
    assert_eq!((ack.pack, ack.emit), (pack::NONE, 0), "nothing came");
    edge.hear(segment(tcp::ACK, 1001, 1, 3000));
    edge.hear(Packet { ecn: ecn::CE, ..segment(tcp::ACK, 4001, 1, 500) });
    let (_, ack) = edge.out(segment(tcp::ACK, 1, 4501, 0));
    assert_eq!((ack.pack, counters(&ack), ack.l4_header_len, ack.emit), (pack::OK, (3500, 500), 28, 0));
    let (_, ack) = edge.out(segment(tcp::ACK, 1, 4501, 0));
    assert_eq!((ack.pack, ack.emit), (pack::NONE, 0), "nothing new");
    // Timestamps and three SACK blocks: 40 bytes of options.
    edge.hear(segment(tcp::ACK, 4501, 1, 100));
    let (_, ack) = edge.out(Packet { l4_header_len: 60, ..segment(tcp::ACK, 1, 4501, 0) });
    assert_eq!((ack.pack, ack.l4_header_len, ack.emit), (pack::NONE, 60, EMIT_FACK));
    let fack = fack(&ack);
    assert_eq!((fack.pack, counters(&fack), fack.l4_header_len), (pack::OK, (3600, 500), 28));
    assert_eq!((fack.tcp_reserved, fack.tcp_flags, fack.ecn), (reserved::EDGE | reserved::PACK, 0, ecn::ECT0));
    edge.hear(segment(tcp::ACK, 4601, 1, 100));
    let (_, ack) = edge.out(Packet { l4_header_len: 52, ..segment(tcp::ACK, 1, 4601, 0) });
    assert_eq!((ack.pack, ack.l4_header_len), (pack::OK, 60), "it just fits");
}

#[test]
fn data_never_carries_the_option() {
    let emit = |payload, mark| {
        let mut edge = opened(&Config::default());
        edge.hear(Packet { ecn: mark, ..segment(tcp::ACK, 1001, 1, payload) });
        let (_, data) = edge.out(segment(tcp::ACK, 1, 1001 + payload, 100));
        assert_eq!((data.pack, data.l4_header_len), (pack::NONE, 20));
        data.emit
    };
    assert_eq!([emit(2 * MSS, 0), emit(2 * MSS - 1, 0), emit(1, ecn::CE)], [EMIT_FACK, 0, EMIT_FACK]);
}

#[test]
fn reports_survive_loss_reordering_and_wrapping() {
    let mut edge = opened(&Config::default());
    edge.vcc.conn.round_end = 1 << 29; // let the sums grow
    let mut hear = |total, marked| {
        edge.hear(report(segment(tcp::ACK, 1001, 1, 0), total, marked));
        (edge.vcc.law.sum_total, edge.vcc.law.sum_ce)
    };
    assert_eq!(hear(1000, 100), (1000, 100));
    assert_eq!(hear(5000, 300), (5000, 300), "one was lost");
    assert_eq!(hear(4000, 200), (5000, 300), "an older one");
    assert_eq!(hear(5000 + (1 << 22), 300), (5000 + (1 << 22), 300));
    assert_eq!(hear(1 << 23, 300).0, 1 << 23);
    assert_eq!(hear(0xff_ffff, 300).0, (1 << 23) + 0x7f_ffff);
    assert_eq!(hear(9, 300).0, (1 << 24) + 9, "the counter wraps");
    assert_eq!(hear(10, 400), ((1 << 24) + 9, 300), "more marks than bytes: not believed");
    let (_, seen) = edge.hear(Packet { pack: pack::MALFORMED, ..segment(tcp::ACK, 1001, 1, 0) });
    assert_eq!((seen.pack, seen.l4_header_len, edge.vcc.law.sum_ce), (pack::NONE, 20, 300), "announced, and not there");
}

#[test]
fn a_peer_that_counts_anew_is_followed_again() {
    let mut edge = opened(&Config::default());
    edge.hear(report(segment(tcp::ACK, 1001, 1, 0), 5_000_000, 0));
    let mut total = 0;
    for _ in 0..40 {
        total += 1000;
        edge.hear(report(segment(tcp::ACK, 1001, 1, 0), total, 0));
    }
    assert_eq!(edge.vcc.report.fb_total, total);
}

#[test]
fn guests_cannot_forge_reports() {
    let mut edge = opened(&Config::default());
    let (_, wire) = edge.out(report(segment(tcp::ACK, 1, 1001, 0), 9999, 0));
    assert_eq!((wire.pack, wire.l4_header_len), (pack::NONE, 20));
    assert_ne!(wire.dirty & wire::dirty::OPTION, 0);
    let mut packet = report(Packet { tcp_reserved: reserved::EDGE, ..segment(tcp::ACK, 1, 1001, 0) }, 9999, 0);
    edge.stages.egress_stateless(None, None, &[], 0, Time::ZERO, &mut packet);
    assert_eq!((packet.pack, packet.tcp_reserved), (pack::NONE, 0), "nor where the table is full");
}

#[test]
fn stray_syns_and_rsts_change_nothing() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 5000));
    let known = (edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt, edge.vcc.conn.flags);
    edge.hear(syn(tcp::SYN, 70_000_000, 0, Some(2)));
    edge.hear(syn(tcp::SYN | tcp::ACK, 80_000_000, 1, Some(2)));
    let still = |edge: &Guarded| (edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt, edge.vcc.conn.flags & known.2);
    assert_eq!(still(&edge), known);
    edge.hear(segment(tcp::RST, 900_000_000, 0, 0));
    edge.now = Time::from_secs(30);
    assert!(!edge.stages.tick(&mut edge.flow, None, edge.now).0, "an RST outside the window ends nothing");
    edge.hear(segment(tcp::RST, 1001, 0, 0));
    edge.now = Time::from_secs(32);
    assert!(edge.stages.tick(&mut edge.flow, None, edge.now).0);
}

#[test]
fn a_new_connection_counts_once_it_is_answered() {
    let mut edge = opened(&Config::default());
    edge.out(segment(tcp::ACK, 1, 1001, 5000));
    edge.out(syn(tcp::SYN, 500_000, 0, Some(9)));
    assert_eq!(edge.vcc.conn.snd_nxt, 5001);
    edge.hear(syn(tcp::SYN | tcp::ACK, 600_000, 500_001, Some(3)));
    assert_eq!((edge.vcc.conn.snd_una, edge.vcc.conn.snd_nxt, edge.vcc.conn.rcv_nxt), (500_001, 500_001, 600_001));
    assert_eq!((edge.vcc.conn.out_scale, edge.vcc.conn.in_scale, edge.vcc.law.cwnd), (9, 3, 10 * MSS));
}

#[test]
fn the_first_matching_rule_gives_the_class() {
    let law = |law| Class { law, ..Class::default() };
    let prefix = |remote| Rule { remote, ..Rule::all(law(Law::Cubic)) };
    let config = Config::default()
        .rule(&Rule { ports: 5000..=5999, ..Rule::all(law(Law::NewReno)) })
        .and_then(|c| c.rule(&prefix(Prefix::v4([10, 1, 0, 0], 16))))
        .and_then(|c| c.rule(&Rule { tenant: 9, ..Rule::all(Class::OFF) }))
        .unwrap();
    let class = |remote: [u8; 4], sport, dport, incoming: bool| {
        let mut edge = Guarded::new(&config);
        let packet = Packet { daddr: v4(remote), sport, dport, ..segment(tcp::ACK, 1, 1, 1) };
        if incoming {
            edge.come(packet)
        } else {
            edge.out(packet)
        };
        edge.vcc.law.class
    };
    for incoming in [false, true] {
        assert_eq!(class([10, 0, 0, 2], 4000, 80, incoming), 0);
        assert_eq!(class([10, 1, 255, 2], 4000, 80, incoming), 2);
        assert_eq!(class([10, 2, 0, 2], 4000, 80, incoming), 0);
        assert_eq!(class([10, 1, 0, 2], 4000, 5000, incoming), 1);
        assert_eq!(class([10, 9, 0, 2], 5999, 80, incoming), 1, "either port");
    }
}
