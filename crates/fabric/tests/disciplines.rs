//! What switches do to queues beyond first come, first served: CoDel, Source Quench, and pFabric's ranks.

mod common;

use common::{DELAY, FULL, RATE};
use fabric::{Aqm, Buffer, Codel, Delivery, Event, Fabric, Multipath, Notify, Packet, RandomLoss, SwitchConfig};
use sim::Scheduler;
use topology::SingleSwitch;
use units::{Bytes, Time};
use wire::{ecn, proto, v4};

const LAW: Codel = Codel { target: Time::from_us(20), interval: Time::from_us(200), drop: true };

/// A packet's arrival: when, at which host.
type Arrival = (Time, u32, Packet);

/// Sends packets at their times through one switch; returns the arrivals and the fabric.
fn run(switches: &SwitchConfig, sends: &[(Time, Packet)]) -> (Vec<Arrival>, Fabric) {
    let topology = SingleSwitch { hosts: 4, host_rate: RATE, host_delay: DELAY }.build().unwrap();
    let mut fabric = Fabric::new(&topology, switches, Multipath::Ecmp, RandomLoss::default(), Time::from_ms(1), 7);
    let mut scheduler: Scheduler<Event> = Scheduler::new();
    let mut arrived = Vec::new();
    let mut sends = sends.iter().peekable();
    loop {
        let at = sends.peek().map_or(Time::MAX, |(at, _)| *at);
        while let Some(fired) = scheduler.pop_until(at) {
            if let Some(Delivery { host, packet }) = fabric.handle(fired.event, &mut scheduler) {
                arrived.push((fired.at, host, fabric.packets.take(packet)));
            }
        }
        let Some((_, packet)) = sends.next() else { break };
        let id = fabric.packets.add(*packet);
        fabric.send(id, &mut scheduler);
    }
    let audit = fabric.audit();
    assert_eq!(audit.sent_bytes, audit.delivered_bytes + audit.dropped_bytes);
    assert_eq!((audit.inside_packets, fabric.packets.live()), (0, 0));
    (arrived, fabric)
}

fn data(src: u32, dst: u32, seq: u32) -> Packet {
    let headers = wire::Packet {
        saddr: v4([10, 0, 0, src as u8]),
        daddr: v4([10, 0, 0, dst as u8]),
        sport: 1000 + src as u16,
        dport: 80,
        seq,
        payload: 1460,
        proto: proto::TCP,
        family: 4,
        ecn: ecn::ECT0,
        ip_header_len: 20,
        l4_header_len: 20,
        ..wire::Packet::default()
    };
    Packet { src, dst, wire_len: FULL, flow: src, headers, ..Packet::default() }
}

/// Hosts 0 and 1 send to host 2 at 9.5 Gbps each, for half a millisecond.
fn overload(ect: bool) -> Vec<(Time, Packet)> {
    let mut sends = Vec::new();
    for n in 0..400 {
        for src in [0, 1] {
            let mut packet = data(src, 2, n);
            packet.headers.ecn = if ect { ecn::ECT0 } else { ecn::NOT_ECT };
            sends.push((Time::from_ns(1_300) * u64::from(n), packet));
        }
    }
    sends
}

fn with(aqm: Aqm) -> SwitchConfig {
    SwitchConfig { buffer: Buffer::PerPort(Bytes(10_000_000)), aqm: Some(aqm), ..SwitchConfig::default() }
}

#[test]
fn codel_marks_a_standing_queue_and_drops_what_cannot_be_marked() {
    let (arrived, fabric) = run(&with(Aqm::Codel(LAW)), &overload(true));
    let marked = arrived.iter().filter(|(.., p)| p.headers.ecn == ecn::CE).count() as u64;
    let stats = fabric.stats(5);
    assert!(marked > 5 && marked == stats.marked_packets && stats.dropped_packets == 0, "{marked} {stats:?}");
    // The queue grows from the first packet on, so that the target is passed after some 20 us and the interval 200 us later.
    let first = arrived.iter().find(|(.., p)| p.headers.ecn == ecn::CE).unwrap().0;
    assert!(first > Time::from_us(220) && first < Time::from_us(500), "{first}");

    let (arrived, fabric) = run(&with(Aqm::Codel(LAW)), &overload(false));
    let stats = fabric.stats(5);
    assert_eq!((stats.marked_packets, arrived.len() as u64 + stats.dropped_packets), (0, 800));
    assert!(stats.dropped_packets > 5);

    let (arrived, _) = run(&with(Aqm::Codel(Codel { drop: false, ..LAW })), &overload(false));
    assert_eq!(arrived.len(), 800);
}

#[test]
fn what_codel_drops_has_its_notification() {
    let switches = SwitchConfig { notify: Some(Notify::default()), ..with(Aqm::Codel(LAW)) };
    let (arrived, _) = run(&switches, &overload(false));
    let told: Vec<_> = arrived.iter().filter(|(.., p)| p.is_notification()).collect();
    assert!(told.len() > 5 && told.iter().all(|(_, host, p)| *host == p.dst && *host < 2));
    assert_eq!(arrived.len(), 800, "each packet arrives, or news of it");
}

#[test]
fn sources_of_what_codel_picks_out_are_quenched_and_the_packets_arrive() {
    let switches = SwitchConfig { quench: true, ..with(Aqm::Codel(LAW)) };
    let (arrived, fabric) = run(&switches, &overload(true));
    let quenched: Vec<_> = arrived.iter().filter(|(.., p)| p.headers.proto == proto::ICMP).collect();
    let marked: Vec<_> = arrived.iter().filter(|(.., p)| p.headers.ecn == ecn::CE).collect();
    assert!(!marked.is_empty() && quenched.len() == marked.len());
    assert_eq!(fabric.quenches_sent(), quenched.len() as u64);
    for ((_, host, quench), (_, _, packet)) in quenched.iter().zip(&marked) {
        assert_eq!((*host, quench.src), (packet.src, packet.dst));
        let quoted = |p: &Packet| (p.headers.sport, p.headers.dport, p.headers.seq);
        assert_eq!((quoted(quench), quench.wire_len), (quoted(packet), 94));
    }
}

fn ranked(buffer: u64) -> SwitchConfig {
    let notify = Some(Notify::default());
    SwitchConfig { buffer: Buffer::PerPort(Bytes(buffer)), notify, ranked: true, ..SwitchConfig::default() }
}

#[test]
fn urgent_packets_overtake_and_put_out_others_whose_sources_hear_of_it() {
    // Three hosts send ten packets each at once; the port to host 2 holds four.
    let mut sends = Vec::new();
    for n in 0..10 {
        for src in [0, 1, 3] {
            sends.push((Time::ZERO, Packet { rank: 100 * (1 + src), ..data(src, 2, n) }));
        }
    }
    let (arrived, _) = run(&ranked(4 * u64::from(FULL)), &sends);
    assert_eq!(arrived.len(), 30, "each packet arrives, or news of it");
    let of = |src: u32| arrived.iter().filter(move |(.., p)| !p.is_notification() && p.src == src).count();
    // Each host's link is as fast as the port, so that the most urgent flow loses nothing.
    assert_eq!(of(0), 10);
    assert!(of(1) < 10 && of(3) <= of(1), "{} {}", of(1), of(3));
    assert!(arrived.iter().filter(|(.., p)| p.is_notification()).all(|(_, host, p)| *host == p.dst && *host != 0));
    let last = |src: u32| arrived.iter().filter(|(.., p)| !p.is_notification() && p.src == src).map(|a| a.0).max();
    assert!([1, 3].into_iter().all(|src| last(src).is_none_or(|at| Some(at) > last(0))));
}

/// When the n-th full packet of a host that sends from the beginning arrives.
fn arrival(n: u32) -> Time {
    DELAY + Time::from_ps(u64::from(n * FULL) * 800)
}

/// Hosts 0 and 1 send packets to host 2 at once: until all have come, its port holds one more each time.
fn burst(of_each: u32, rank: u32) -> Vec<(Time, Packet)> {
    (0..of_each).flat_map(|n| [0, 1].map(|src| (Time::ZERO, Packet { rank, ..data(src, 2, n) }))).collect()
}

#[test]
fn nothing_is_put_out_for_a_packet_that_then_finds_no_room() {
    const SMALL: u32 = 100;
    let mut sends = burst(4, 1);
    // Behind the burst, and both together less than what comes after them needs.
    let small = |n| Packet { rank: 9, wire_len: SMALL, ..data(3, 2, n) };
    sends.extend([small(0), small(1), Packet { rank: 5, ..data(3, 2, 2) }].map(|packet| (arrival(3), packet)));
    let (arrived, fabric) = run(&ranked(u64::from(5 * FULL + 2 * SMALL)), &sends);
    let of_last: Vec<_> = arrived.iter().filter(|(.., p)| !p.is_notification() && p.src == 3).collect();
    assert_eq!(of_last.iter().map(|(.., p)| p.headers.seq).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(arrived.len(), 11, "each packet arrives, or news of it");
    assert_eq!(fabric.stats(5).dropped_packets, 1);
}

#[test]
fn nothing_is_put_out_for_a_packet_that_queue_management_drops() {
    let full = Bytes(u64::from(FULL));
    let red = Aqm::Red { kmin: full, kmax: full, pmax: 1.0 };
    let switches = SwitchConfig { aqm: Some(red), ..ranked(4 * u64::from(FULL)) };
    let of_burst = |urgent: bool| {
        let mut sends = burst(4, 100);
        let mut packet = Packet { rank: 1, ..data(3, 2, 0) };
        packet.headers.ecn = ecn::NOT_ECT;
        sends.extend(urgent.then_some((arrival(2), packet)));
        let (arrived, _) = run(&switches, &sends);
        assert_eq!(arrived.len(), sends.len(), "each packet arrives, or news of it");
        let of = arrived.iter().filter(|(.., p)| !p.is_notification() && p.src != 3);
        of.map(|(at, _, p)| (*at, p.src, p.headers.seq)).collect::<Vec<_>>()
    };
    assert_eq!(of_burst(true), of_burst(false));
}
