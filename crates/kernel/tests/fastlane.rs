//! FastLane's programs, with connections of two tenants' guests that have the same addresses and ports. Root only; says why where it is
//! skipped. `SELVEDGE_FRAMES` says how much is said of connections, 3000 by default and 1.8 million at most.
#![cfg(feature = "libbpf")]

mod fabric;

use edge::fastlane::Decision;
use fabric::{in_namespace, Fabric};
use kernel::state::fastlane::{
    FastCall, FastKey, FAST_DROPPED, FAST_DUE, FAST_ELSEWHERE, FAST_GIVEN_UP, FAST_REPORTED,
};
use kernel::state::{Config, Port, Route, ROUTE_LOCAL, ROUTE_PEER, VERSION_1};
use kernel::{drop_reasons, KernelEdge, Role, Watch};
use proptest::prelude::*;
use std::time::Duration;
use wire::{proto, tcp, v4, FlowKey, Packet, TcpOptions};

const FLOWS: u32 = 1024;
/// The network of the second guest, whose port is the loopback device.
const OTHER: u32 = 9;
const OTHERS_PORT: u32 = 1;
const GUEST: [u8; 4] = [10, 7, 0, 1];
const PEER: [u8; 4] = [10, 7, 0, 2];
const MSS: u32 = 1000;
const PACKETS: u32 = 8;
const ISS: u32 = 5000;
const IRS: u32 = 9000;
const WINDOW: u16 = 60_000;
/// `TCX_NEXT`, `TC_ACT_SHOT`
const NEXT: u32 = u32::MAX;
const SHOT: u32 = 2;

/// Not a test of its own: see `fabric::peer`.
#[test]
fn peer_process() {
    fabric::peer::run();
}

/// Host 0 with FastLane, and a second port of another network, with the same guest and peer in it.
fn host(name: &str) -> Option<Fabric> {
    host_of(name, FLOWS)
}

/// The same, with room for so many connections.
fn host_of(name: &str, flows: u32) -> Option<Fabric> {
    let obstacle = fabric::unavailable().or_else(|| fabric::older_than(fabric::WITH_TCX, "FastLane"));
    if let Some(why) = obstacle.or_else(|| drop_reasons().err()) {
        eprintln!("skipped: {why}");
        return None;
    }
    let mut fabric = Fabric::new(name);
    fabric.add_edge(0, &Config::default(), &[50_001], VERSION_1, false, flows);
    let edge = &mut fabric.edges[0].edge;
    edge.set_port(OTHERS_PORT, &Port { vni: OTHER, ..Port::default() }).unwrap();
    let local = Route { kind: ROUTE_LOCAL, target: OTHERS_PORT, ..Route::default() };
    edge.set_route(OTHER, "10.7.0.1".parse().unwrap(), 128, &local).unwrap();
    let remote = Route { kind: ROUTE_PEER, target: 1, ..Route::default() };
    edge.set_route(OTHER, "10.7.0.2".parse().unwrap(), 128, &remote).unwrap();
    edge.open_fastlane(flows).unwrap();
    Some(fabric)
}

/// The sequence number of packet `n`.
fn at(n: u32) -> u32 {
    ISS + 1 + n * MSS
}

/// A connection of the guest on a port.
struct Guest<'a> {
    edge: &'a KernelEdge,
    watch: &'a Watch,
    port: u32,
    sport: u16,
}

impl Guest<'_> {
    fn outgoing(&self) -> Packet {
        Packet {
            saddr: v4(GUEST),
            daddr: v4(PEER),
            sport: self.sport,
            dport: 80,
            seq: at(0),
            ack: IRS + 1,
            window: WINDOW,
            tcp_flags: tcp::ACK,
            proto: proto::TCP,
            family: 4,
            ..Packet::default()
        }
    }

    fn incoming(&self) -> Packet {
        let p = self.outgoing();
        Packet { saddr: p.daddr, daddr: p.saddr, sport: p.dport, dport: p.sport, seq: IRS + 1, ack: at(0), ..p }
    }

    fn run(&self, role: Role, packet: &Packet) -> (u32, Packet) {
        self.run_with(role, packet, &TcpOptions::default())
    }

    fn run_with(&self, role: Role, packet: &Packet, options: &TcpOptions) -> (u32, Packet) {
        let frame = wire::emit(packet, options).unwrap();
        let (verdict, frame) = self.edge.test_run(role, self.port, &frame).unwrap();
        (verdict, wire::parse(&frame).unwrap())
    }

    /// True: it goes on.
    fn send(&self, packet: &Packet) -> bool {
        let verdict = self.run(Role::FastGuest, packet).0;
        assert!(verdict == NEXT || verdict == SHOT, "{verdict}");
        verdict == NEXT
    }

    fn data(&self, n: u32) -> bool {
        self.send(&Packet { seq: at(n), payload: MSS, ..self.outgoing() })
    }

    /// The same with a timestamp.
    fn data_at(&self, n: u32, stamp: u32) -> bool {
        let options = TcpOptions { timestamps: Some((stamp, 0)), ..TcpOptions::default() };
        let packet = Packet { seq: at(n), payload: MSS, ..self.outgoing() };
        self.run_with(Role::FastGuest, &packet, &options).0 == NEXT
    }

    /// The timestamp that packet `n` gets if it is sent again, unless its own is later.
    fn stamp(&self, n: u32) -> Option<u32> {
        let mut call = FastCall { what: FAST_DROPPED, ..self.call(n) };
        self.watch.decide(&mut call).unwrap();
        (call.stamped != 0).then_some(call.stamp)
    }

    /// The window that the guest gets with an ACK of what is before packet `n`.
    fn ack(&self, n: u32) -> u16 {
        let (verdict, packet) = self.run(Role::FastPort, &Packet { ack: at(n), ..self.incoming() });
        assert_eq!(verdict, NEXT);
        packet.window
    }

    /// Opens the connection, with all packets outstanding.
    fn begin(&self) {
        self.begin_over(Duration::ZERO);
    }

    /// With a handshake that takes at least so long, so the edge takes packets that leave within this time for one go.
    fn begin_over(&self, rtt: Duration) {
        let syn = Packet { tcp_flags: tcp::SYN, seq: ISS, ack: 0, mss: MSS as u16, ..self.outgoing() };
        assert!(self.send(&syn));
        std::thread::sleep(rtt);
        let answer =
            Packet { tcp_flags: tcp::SYN | tcp::ACK, seq: IRS, ack: ISS + 1, mss: MSS as u16, ..self.incoming() };
        self.run(Role::FastPort, &answer);
        assert!((0..PACKETS).all(|n| self.data(n)));
    }

    fn call(&self, n: u32) -> FastCall {
        let p = self.outgoing();
        let key = FastKey { key: FlowKey::new(p.saddr, p.daddr, p.sport, p.dport, p.proto), port: self.port };
        FastCall { key, seq: at(n), ack: p.ack, payload: MSS, tcp_flags: p.tcp_flags, ..FastCall::default() }
    }

    fn decide(&self, call: FastCall) -> Decision {
        self.watch.decide(&mut { call }).unwrap()
    }

    /// Packet `n` was dropped, and this host has its bytes.
    fn dropped(&self, n: u32) -> Decision {
        self.decide(FastCall { what: FAST_DROPPED, ..self.call(n) })
    }
}

/// With a connection on host 0's port that has not begun; nothing where it cannot be.
fn with_guest(name: &str, test: impl FnOnce(&Guest<'_>) + Send) {
    let Some(fabric) = host(name) else { return };
    in_namespace(&fabric.host(0), || {
        let host = &fabric.edges[0];
        let watch = host.edge.watch_drops(&drop_reasons().unwrap(), 1 << 20).unwrap();
        test(&Guest { edge: &host.edge, watch: &watch, port: host.port, sport: 1000 });
    });
}

/// What somebody says was dropped: number in packets and bytes beside it, ACK, payload, flags, and of whom.
fn said() -> impl Strategy<Value = (u32, i32, u32, u32, u8, u8, bool)> {
    let payload = prop_oneof![6 => Just(MSS), 1 => Just(0), 1 => any::<u32>()];
    let flags = prop_oneof![6 => Just(tcp::ACK), 1 => any::<u8>()];
    let ack = prop_oneof![6 => Just(IRS + 1), 1 => any::<u32>()];
    let waited = prop_oneof![Just(FAST_DUE), Just(FAST_GIVEN_UP)];
    let what = prop_oneof![6 => Just(FAST_DROPPED), 3 => Just(FAST_REPORTED), 6 => Just(FAST_ELSEWHERE), 2 => waited];
    (0..PACKETS + 2, prop_oneof![6 => Just(0), 1 => -2i32..3], ack, payload, flags, what, prop::bool::weighted(0.1))
}

/// Whatever is said of one tenant's connection, that of another with the same addresses and ports is as it was: its window is whole, what it
/// sends again leaves, and its first drop is a first one.
#[test]
fn what_is_said_of_one_tenants_connection_touches_no_other() {
    // Half of sixty at a time on average, and no port twice.
    let told = std::env::var("SELVEDGE_FRAMES").map_or(3000, |frames| frames.parse().expect("a number"));
    let cases = (told / 30).clamp(1, 60_000);
    // A port may have half of what is free.
    let Some(fabric) = host_of("fa", FLOWS.max(5 * cases)) else { return };
    in_namespace(&fabric.host(0), || {
        let host = &fabric.edges[0];
        let watch = host.edge.watch_drops(&drop_reasons().unwrap(), 1 << 20).unwrap();
        let sport = std::cell::Cell::new(1000);
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) };
        proptest!(config, |(all in prop::collection::vec(said(), 1..60))| {
            sport.set(sport.get() + 1); // connections of their own
            let on = |port| Guest { edge: &host.edge, watch: &watch, port, sport: sport.get() };
            let (told, other) = (on(host.port), on(OTHERS_PORT));
            told.begin();
            other.begin();
            let mut cut = false;
            for (n, off, ack, payload, tcp_flags, what, again) in all {
                if again && n < PACKETS {
                    told.data(n);
                }
                let call = FastCall { seq: at(n).wrapping_add_signed(off), ack, payload, tcp_flags, what, ..told.call(n) };
                let drops = what == FAST_DROPPED || what == FAST_ELSEWHERE;
                cut |= told.decide(call) == Decision::Resend && payload > 0 && drops;
            }
            prop_assert_eq!(told.ack(1) < WINDOW, cut);
            prop_assert_eq!(other.ack(1), WINDOW);
            prop_assert!((1..PACKETS).all(|n| other.data(n)), "nothing is held back");
            // The newest copy is the guest's second one now.
            prop_assert_eq!(other.dropped(2), Decision::Resend);
            prop_assert!(other.ack(2) < WINDOW, "its own drop counts");
        });
        assert!(host.edge.fast_counts().unwrap().lowered > 0);
    });
}

/// Whoever tells of drops may be later than the guest: what that has sent again since is under way.
#[test]
fn what_the_guest_has_sent_again_since_the_drop_is_left_to_it() {
    let Some(fabric) = host("fc") else { return };
    in_namespace(&fabric.host(0), || {
        let host = &fabric.edges[0];
        let watch = host.edge.watch_drops(&drop_reasons().unwrap(), 1 << 20).unwrap();
        // This host's own drops, and those of which the other host says how long ago they were.
        for (what, sport) in [(FAST_DROPPED, 1000), (FAST_ELSEWHERE, 1001)] {
            let guest = Guest { edge: &host.edge, watch: &watch, port: host.port, sport };
            let at = |n: u32, dropped: u64| guest.decide(FastCall { what, dropped, ..guest.call(n) });
            guest.begin_over(Duration::from_millis(300));
            let early = kernel::monotonic_ns();
            assert!((3..5).all(|n| guest.data(n)));
            assert_eq!(at(3, early), Decision::Stale);
            assert_eq!(at(4, early), Decision::Stale);
            assert_eq!(at(3, kernel::monotonic_ns()), Decision::Resend, "that was dropped, too");
            assert_eq!(at(5, early), Decision::Resend, "the guest has not sent it again");
            assert_eq!(at(2, early), Decision::Resend, "nor this one");
            let between = kernel::monotonic_ns();
            assert!((0..2).all(|n| guest.data(n)));
            assert_eq!(at(0, between), Decision::Stale);
            if what == FAST_DROPPED {
                assert_eq!(at(1, 0), Decision::Resend, "nobody knows when that was");
            }
        }
    });
}

/// Also what it sent again before what it sent again last; and as often as it did.
#[test]
fn what_the_guest_has_sent_again_in_several_goes_is_left_to_it() {
    let Some(fabric) = host("fe") else { return };
    in_namespace(&fabric.host(0), || {
        let host = &fabric.edges[0];
        let watch = host.edge.watch_drops(&drop_reasons().unwrap(), 1 << 20).unwrap();
        for (what, sport) in [(FAST_DROPPED, 1000), (FAST_ELSEWHERE, 1001)] {
            let guest = Guest { edge: &host.edge, watch: &watch, port: host.port, sport };
            let at = |n: u32, dropped: u64| guest.decide(FastCall { what, dropped, ..guest.call(n) });
            guest.begin_over(Duration::from_millis(300));
            let early = kernel::monotonic_ns();
            assert!(guest.data(6));
            let between = kernel::monotonic_ns();
            // Back in its stream: each begins a go.
            assert!([6, 4, 2].into_iter().all(|n| guest.data(n)));
            assert_eq!(at(4, early), Decision::Stale, "not its last go");
            assert_eq!(at(2, early), Decision::Stale);
            assert_eq!(at(6, early), Decision::Stale, "two copies have left since");
            assert_eq!(at(6, between), Decision::Stale, "and one since that was dropped");
            assert_eq!(at(6, kernel::monotonic_ns()), Decision::Resend, "this was the last one");
            assert_eq!(at(3, early), Decision::Resend, "of this none has left");
            assert_eq!(at(4, kernel::monotonic_ns()), Decision::Resend);
        }
    });
}

/// What it sent again before in the same go is under way all the same.
#[test]
fn what_is_held_back_hides_nothing_that_left_before_it() {
    with_guest("fh", |guest| {
        let at = |n: u32, dropped: u64| guest.decide(FastCall { what: FAST_DROPPED, dropped, ..guest.call(n) });
        guest.begin_over(Duration::from_millis(300));
        let early = kernel::monotonic_ns();
        assert_eq!(at(5, early), Decision::Resend);
        assert!(guest.data(3));
        assert!(!guest.data(5), "the edge's copy is under way");
        assert_eq!(at(3, early), Decision::Stale);
        assert_eq!(at(6, early), Decision::Resend, "of this none has left");
    });
}

/// Receivers drop a packet whose timestamp is older than that of what they got in order before it. Only what the guest sent again has a later
/// one.
#[test]
fn a_packet_gets_the_timestamp_of_what_was_sent_again_in_front_of_it() {
    with_guest("fts", |guest| {
        guest.begin_over(Duration::from_millis(300));
        assert!(guest.data_at(PACKETS, 40), "the newest, but nobody has got it in order");
        assert_eq!((guest.stamp(7), guest.stamp(1)), (None, None));
        assert!(guest.data_at(3, 50));
        assert_eq!((guest.stamp(2), guest.stamp(4)), (None, Some(50)));
        assert!(!guest.data_at(4, 60), "the edge's copy is under way");
        assert_eq!(guest.stamp(5), Some(50), "that has not left");
        // What has arrived by now tells as before. What is sent again further behind says nothing of what is in front of it.
        guest.ack(4);
        assert!(guest.data_at(6, 70));
        assert_eq!((guest.stamp(5), guest.stamp(PACKETS)), (Some(50), Some(70)));
        // What leaves from now on is later anyway. After half a round of the guest's clock 70 would be later than that.
        guest.ack(PACKETS + 1);
        assert!(guest.data_at(PACKETS + 1, 80));
        assert_eq!(guest.stamp(PACKETS + 1), None);
    });
}

/// A queue of this host's is longer than round trips under one rack's switch: it is asked for room once a millisecond at most.
#[test]
fn a_second_copy_waits_for_a_millisecond_however_short_round_trips_are() {
    with_guest("fm", |guest| {
        guest.begin();
        let mut call = FastCall { what: FAST_DROPPED, ..guest.call(3) };
        let begun = kernel::monotonic_ns();
        assert_eq!(guest.watch.decide(&mut call).unwrap(), Decision::Resend);
        let decision = guest.watch.decide(&mut call).unwrap();
        // On a machine so slow that a millisecond is over, it goes at once.
        match decision {
            Decision::Later => assert!(call.due >= begun + 1_000_000, "{} ns after it", call.due - begun),
            other => assert!(kernel::monotonic_ns() - begun >= 1_000_000, "{other:?}"),
        }
    });
}

/// As of what this host drops: once, of what is outstanding, and as a loss. Where a peer cuts packets otherwise than the edge knows them,
/// nothing comes of it.
#[test]
fn what_a_peer_has_dropped_is_asked_for_once() {
    with_guest("fd", |guest| {
        let call = |n: u32| FastCall { what: FAST_ELSEWHERE, ..guest.call(n) };
        guest.begin();
        assert_eq!(
            guest.decide(FastCall { payload: MSS / 2, ..call(PACKETS) }),
            Decision::Outside,
            "nobody has sent that"
        );
        assert_eq!(guest.ack(1), WINDOW);
        assert_eq!(guest.decide(call(0)), Decision::Acked);
        assert_eq!(guest.decide(call(3)), Decision::Resend);
        assert!(guest.ack(2) < WINDOW, "a loss");
        assert_eq!(
            guest.decide(FastCall { payload: MSS + 1, ..call(3) }),
            Decision::Unkept,
            "others' word replaces nothing"
        );
        let said: Vec<Decision> = (0..100).map(|_| guest.decide(call(3))).collect();
        // Its second copy may be dropped, too; each copy once, and none sooner than a round trip after the one before.
        let copies = said.iter().filter(|said| matches!(said, Decision::Resend | Decision::Later)).count();
        assert!(copies >= 1 && said[copies..].iter().all(|said| *said == Decision::Repeated), "{said:?}");
    });
}

/// A connection that nobody followed, also where another tenant has one like it.
#[test]
fn what_is_said_under_a_wrong_port_is_of_no_connection() {
    let Some(fabric) = host("fb") else { return };
    in_namespace(&fabric.host(0), || {
        let host = &fabric.edges[0];
        let watch = host.edge.watch_drops(&drop_reasons().unwrap(), 1 << 20).unwrap();
        let on = |port| Guest { edge: &host.edge, watch: &watch, port, sport: 1000 };
        on(OTHERS_PORT).begin();
        assert_eq!(on(host.port).dropped(2), Decision::Untracked);
        assert_eq!(on(host.uplink).dropped(2), Decision::Untracked);
        assert_eq!(on(OTHERS_PORT).ack(1), WINDOW);
        assert_eq!(on(OTHERS_PORT).dropped(2), Decision::Resend);
    });
}
