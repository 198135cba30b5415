//! Notifications of dropped packets: who gets one, by which way, and what the caps let through.

mod common;

use common::{clos, DELAY, FULL, RATE};
use fabric::{Buffer, Delivery, Event, Fabric, Multipath, Notify, Pace, Packet, RandomLoss, SwitchConfig};
use sim::Scheduler;
use topology::{SingleSwitch, Topology};
use units::{Bytes, Time};
use wire::{proto, tcp, v4};

struct Net {
    fabric: Fabric,
    scheduler: Scheduler<Event>,
}

impl Net {
    /// Ports hold two full packets.
    fn new(topology: &Topology, notify: Option<Notify>) -> Net {
        Net::with(topology, notify, Bytes(2 * 1538))
    }
    fn with(topology: &Topology, notify: Option<Notify>, buffer: Bytes) -> Net {
        let switches = SwitchConfig { buffer: Buffer::PerPort(buffer), notify, ..SwitchConfig::default() };
        let fabric = Fabric::new(topology, &switches, Multipath::Ecmp, RandomLoss::default(), Time::from_ms(1), 7);
        Net { fabric, scheduler: Scheduler::new() }
    }
    fn send(&mut self, packet: Packet) {
        let id = self.fabric.packets.add(packet);
        self.fabric.send(id, &mut self.scheduler);
    }
    fn drain(&mut self) -> Vec<(Time, u32, Packet)> {
        let mut delivered = Vec::new();
        while let Some(fired) = self.scheduler.pop_until(Time::MAX) {
            if let Some(Delivery { host, packet }) = self.fabric.handle(fired.event, &mut self.scheduler) {
                delivered.push((fired.at, host, self.fabric.packets.take(packet)));
            }
        }
        let audit = self.fabric.audit();
        assert_eq!(audit.sent_bytes, audit.delivered_bytes + audit.dropped_bytes + audit.inside_bytes, "{audit:?}");
        assert_eq!(audit.inside_packets, 0);
        delivered
    }
    /// Of all ports together.
    fn sum(&self, of: impl Fn(fabric::NotifyStats) -> u64) -> u64 {
        (0..self.fabric.n_ports()).map(|port| of(self.fabric.notify_stats(port as u32))).sum()
    }
}

fn data(src: u32, dst: u32, seq: u32) -> Packet {
    let headers = wire::Packet {
        saddr: v4([10, 0, 0, src as u8]),
        daddr: v4([10, 0, 0, dst as u8]),
        sport: 1000,
        dport: 80,
        seq,
        payload: 1460,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ip_header_len: 20,
        l4_header_len: 20,
        ..wire::Packet::default()
    };
    Packet { src, dst, wire_len: FULL, hash: src * 31 + dst, flow: 5, headers, ..Packet::default() }
}

fn one_switch(hosts: u32) -> Topology {
    SingleSwitch { hosts, host_rate: RATE, host_delay: DELAY }.build().unwrap()
}

fn notices(delivered: &[(Time, u32, Packet)]) -> Vec<(Time, u32, Packet)> {
    delivered.iter().filter(|d| d.2.is_notification()).copied().collect()
}

/// Two hosts send four packets each to a third at once, whose port holds two.
fn incast(net: &mut Net) -> Vec<(Time, u32, Packet)> {
    for n in 0..4 {
        net.send(data(0, 2, n));
        net.send(data(1, 2, n));
    }
    net.drain()
}

#[test]
fn every_dropped_packet_has_a_notification_at_its_source_with_its_headers() {
    let mut net = Net::new(&one_switch(3), Some(Notify::default()));
    let delivered = incast(&mut net);
    let data_arrived = delivered.iter().filter(|d| !d.2.is_notification()).count();
    let told = notices(&delivered);
    assert!(data_arrived < 8, "something has to be dropped");
    assert_eq!(data_arrived + told.len(), 8);
    for (_, host, notice) in &told {
        assert_eq!((*host, notice.dst, notice.src), (notice.dst, *host, 2));
        let h = notice.headers;
        assert_eq!((h.saddr, h.daddr), (v4([10, 0, 0, 2]), v4([10, 0, 0, *host as u8])), "addresses are swapped");
        assert_eq!((h.sport, h.dport, h.payload, h.truncated), (1000, 80, 1460, 1), "ports and length are not");
        assert_eq!((notice.wire_len, notice.flow), (84, 5));
    }
    let mut lost: Vec<_> = told.iter().map(|n| (n.1, n.2.headers.seq)).collect();
    lost.sort_unstable();
    lost.dedup();
    assert_eq!(lost.len(), told.len(), "one each");
}

#[test]
fn switches_are_silent_unless_asked_and_about_other_protocols() {
    let mut net = Net::new(&one_switch(3), None);
    assert!(notices(&incast(&mut net)).is_empty());

    let mut net = Net::new(&one_switch(3), Some(Notify::default()));
    for n in 0..4 {
        for src in [0, 1] {
            let mut packet = data(src, 2, n);
            packet.headers.proto = proto::UDP;
            net.send(packet);
        }
    }
    let delivered = net.drain();
    assert!(delivered.len() < 8 && notices(&delivered).is_empty());
}

#[test]
fn a_notification_from_far_away_takes_the_way_back_through_all_switches() {
    // The last port on the way, from the leaf to host 4, drops what two other racks send to it.
    let mut net = Net::new(&clos(3, 2, 1, 2), Some(Notify::default()));
    for n in 0..6 {
        net.send(data(0, 4, n));
        net.send(data(2, 4, n));
    }
    let delivered = net.drain();
    let told = notices(&delivered);
    assert!(!told.is_empty());
    assert_eq!(delivered.len(), 12);
    assert!(told.iter().all(|n| n.2.hops == 3 && n.1 == n.2.dst), "leaf, spine, leaf, host");
}

/// Three hosts send `n` packets each to a fourth, whose port drops most. Returns the times between notifications at the host that
/// gets most of them.
fn arrivals(notify: Notify, n: u32) -> (Vec<u64>, Net) {
    let mut net = Net::new(&one_switch(4), Some(notify));
    for seq in 0..n {
        for src in [0, 1, 3] {
            net.send(data(src, 2, seq));
        }
    }
    let told = notices(&net.drain());
    let of = |host| told.iter().filter(|d| d.1 == host).map(|d| d.0.as_ps()).collect::<Vec<_>>();
    let most = [0, 1, 3].map(of).into_iter().max_by_key(Vec::len).unwrap();
    assert!(most.len() > 5, "{most:?}");
    (most.windows(2).map(|w| w[1] - w[0]).collect(), net)
}

#[test]
fn without_work_conservation_the_pace_holds_on_an_idle_link_too() {
    let paced = Notify { work_conserving: false, ..Notify::default() };
    let (gaps, _) = arrivals(paced, 20);
    // 64 octets at 1% of 10 Gbps.
    assert!(gaps.iter().all(|&gap| gap >= 5_120_000), "{gaps:?}");
    assert!(gaps.contains(&5_120_000), "{gaps:?}");

    let clocked = Notify { pace: Pace::Every(Time::from_us(6)), work_conserving: false, ..Notify::default() };
    let (gaps, _) = arrivals(clocked, 20);
    assert!(gaps.iter().all(|&gap| gap >= 6_000_000) && gaps.contains(&6_000_000), "{gaps:?}");
}

#[test]
fn an_idle_link_sends_notifications_as_they_come() {
    let (gaps, net) = arrivals(Notify::default(), 20);
    assert!(gaps.iter().all(|&gap| gap < 5_120_000), "{gaps:?}");
    assert_eq!(net.sum(|s| s.tx_bytes_with_data), 0);
}

#[test]
fn the_buffer_holds_fifty_of_the_smallest_and_the_rest_is_dropped() {
    let slow = Notify { pace: Pace::Every(Time::from_secs(1)), work_conserving: false, ..Notify::default() };
    let (_, net) = arrivals(slow, 120);
    let most = (0..net.fabric.n_ports()).map(|p| net.fabric.notify_stats(p as u32).queue_max).max();
    assert_eq!(most, Some(3_200));
    assert!(net.sum(|s| s.dropped_packets) > 0);

    let endless = Notify { buffer: None, ..slow };
    let (_, net) = arrivals(endless, 120);
    assert_eq!(net.sum(|s| s.dropped_packets), 0);
    assert!((0..net.fabric.n_ports()).any(|p| net.fabric.notify_stats(p as u32).queue_max > 3_200));
}

/// Hosts 0 and 1 overload the port to host 2, and hosts 3 and 4 that to host 1: notifications to host 1 meet a backlog. Returns
/// the part of what that port sends which notifications have taken while data waited.
fn share_with_data(pace: Pace) -> f64 {
    let mut net = Net::with(&one_switch(5), Some(Notify { pace, ..Notify::default() }), Bytes(64_000));
    for seq in 0..1000 {
        for (src, dst) in [(0, 2), (1, 2), (3, 1), (4, 1)] {
            net.send(data(src, dst, seq));
        }
    }
    net.drain();
    // The second of host 1's link's directions leads to it.
    let (notices, port) = (net.fabric.notify_stats(3), net.fabric.stats(3));
    assert!(notices.tx_packets > 50 && port.dropped_packets > 50, "{notices:?} {port:?}");
    notices.tx_bytes_with_data as f64 / port.tx_bytes as f64
}

#[test]
fn while_data_waits_notifications_have_their_share_and_no_more() {
    let capped = share_with_data(Pace::Share { per_million: 10_000 });
    let free = share_with_data(Pace::Unlimited);
    assert!(capped > 0.0 && capped <= 0.01, "{capped}");
    assert!(free > capped, "{free} {capped}");
}

#[test]
fn a_link_that_fails_loses_its_notifications_and_the_books_balance() {
    let slow = Notify { pace: Pace::Every(Time::from_ms(1)), work_conserving: false, ..Notify::default() };
    let mut net = Net::new(&one_switch(4), Some(slow));
    for seq in 0..20 {
        for src in [0, 1, 3] {
            net.send(data(src, 2, seq));
        }
    }
    net.scheduler.schedule(Time::from_us(100), 9, Event::Link { link: 0, up: false });
    net.drain();
}
