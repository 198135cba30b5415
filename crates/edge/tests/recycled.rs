//! A slot of the flow table carries nothing of its former flow: neither once it is another's, nor when the same flow begins again after
//! it was idle for too long.

use edge::vcc::{self, Class, Law};
use edge::{reorder, Config, Direction, Edge, Release, Slot, Transmit, Verdict};
use proptest::prelude::*;
use units::Time;
use wire::{pack, proto, tcp, v4, Packet};

/// At once; the table has room for no more.
const FLOWS: u16 = 3;
/// By then everything of before is forgotten, or would have to be.
const LATER: Time = Time::from_secs(2000);
const LABELS: [u16; 5] = [11, 12, 13, 14, 15];

#[derive(Clone, Copy, Debug)]
struct Step {
    direction: Direction,
    flow: u16,
    pause: Time,
    ends_batch: bool,
    /// Of the guest's own direction but for addresses and ports.
    packet: Packet,
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let flags = prop_oneof![
        8 => Just(tcp::ACK),
        2 => Just(tcp::SYN),
        2 => Just(tcp::SYN | tcp::ACK),
        1 => Just(tcp::FIN | tcp::ACK),
        1 => any::<u8>(),
    ];
    let numbers = (0u32..30, 0u32..30, prop_oneof![Just(0), Just(500), 1u32..70_000], any::<u16>());
    let rest = (0u8..4, any::<bool>(), 0u32..6, any::<bool>(), any::<bool>());
    (flags, numbers, rest).prop_map(|(tcp_flags, (seq, ack, payload, window), (ecn, has_cell, cell, reports, udp))| {
        let syn = tcp_flags & tcp::SYN != 0;
        Packet {
            tcp_flags,
            seq: seq * 500,
            ack: ack * 500,
            payload,
            window,
            mss: if syn { 1400 } else { 0 },
            wscale: if syn { 8 } else { 0 },
            ecn,
            has_cell: u8::from(has_cell),
            cell,
            pack: if reports { pack::OK } else { 0 },
            pack_total: [0, seq as u8, 1],
            pack_ce: [0, 0, ack as u8],
            proto: if udp && seq == 0 { proto::UDP } else { proto::TCP },
            family: 4,
            ip_header_len: 20,
            l4_header_len: if reports { 28 } else { 20 },
            ..Packet::default()
        }
    })
}

fn any_steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let direction = prop_oneof![Just(Direction::Egress), Just(Direction::Ingress)];
    let pause = prop_oneof![0u64..200, 0u64..20_000].prop_map(Time::from_us);
    let step = (direction, 0..FLOWS, pause, any::<bool>(), any_packet()).prop_map(
        |(direction, flow, pause, ends_batch, packet)| {
            // Flowcells and reports come from the fabric.
            let own = Packet { has_cell: 0, cell: 0, pack: 0, l4_header_len: 20, ..packet };
            let packet = if direction == Direction::Egress { own } else { packet };
            Step { direction, flow, pause, ends_batch, packet }
        },
    );
    prop::collection::vec(step, 1..most)
}

fn any_config() -> impl Strategy<Value = Config> {
    let balance = prop_oneof![
        Just("ecmp"),
        Just("random-path"),
        Just("flowcell,threshold=4KiB"),
        Just("flowlet,flowlet_gap=100us"),
    ];
    let law = prop_oneof![Just(Law::None), Just(Law::Dctcp), Just(Law::NewReno), Just(Law::Cubic)];
    (balance, proptest::option::of((law, any::<bool>())), any::<bool>()).prop_map(|(balance, law, orders)| Config {
        balance: balance.parse().unwrap(),
        congestion: law.map(|(law, police)| vcc::Config::new(Class { law, police, ..Class::default() })),
        reorder: orders.then(reorder::Config::default),
        max_flows: usize::from(FLOWS),
        ..Config::default()
    })
}

#[derive(Debug, PartialEq)]
enum Seen {
    Packet(Verdict, Packet),
    Transmit(Transmit),
    Release(Release),
}

struct Driver {
    edge: Edge,
    now: Time,
    seen: Vec<Seen>,
}

impl Driver {
    fn new(config: &Config) -> Driver {
        let mut edge = Edge::new(config.clone());
        edge.set_default_schedule(&LABELS);
        Driver { edge, now: Time::ZERO, seen: Vec::new() }
    }

    fn collect(&mut self) {
        self.seen.extend(std::iter::from_fn(|| self.edge.poll_transmit(self.now)).map(Seen::Transmit));
        self.seen.extend(std::iter::from_fn(|| self.edge.poll_release(self.now)).map(Seen::Release));
    }

    fn wait(&mut self, until: Time) {
        while let Some(due) = self.edge.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.edge.handle_timeout(self.now);
            self.collect();
        }
        self.now = until;
    }

    fn end_batch(&mut self) {
        self.edge.end_batch(self.now);
        self.collect();
    }

    /// Flows number `first` and following ones.
    fn pass(&mut self, first: u16, steps: &[Step]) {
        for (at, step) in steps.iter().enumerate() {
            self.wait(self.now + step.pause);
            let mut packet = step.packet;
            let (here, there) = (v4([10, 0, 0, 1]), v4([10, 0, 0, 2]));
            let port = 1000 + first + step.flow;
            (packet.saddr, packet.daddr, packet.sport, packet.dport) = match step.direction {
                Direction::Egress => (here, there, port, 80),
                Direction::Ingress => (there, here, 80, port),
            };
            let verdict = self.edge.process(self.now, step.direction, Slot(at as u32), &mut packet);
            self.seen.push(Seen::Packet(verdict, packet));
            self.collect();
            if step.ends_batch {
                self.end_batch();
            }
        }
    }
}

proptest! {
    #[test]
    fn a_slot_carries_nothing_of_its_former_flow(
        config in any_config(),
        before in any_steps(60),
        after in any_steps(40),
        // The same flows, some of them, and others.
        first in 0..=FLOWS,
        swept in any::<bool>(),
    ) {
        let mut fresh = Driver::new(&config);
        let mut used = Driver::new(&config);
        used.pass(0, &before);
        used.end_batch(); // as whoever has given it packets does
        used.wait(LATER);
        fresh.wait(LATER);
        used.seen.clear();
        if swept {
            used.end_batch();
            prop_assert_eq!(used.edge.flow_count(), 0);
        }
        fresh.pass(first, &after);
        used.pass(first, &after);
        prop_assert_eq!(&used.seen, &fresh.seen);
        for seen in &fresh.seen {
            let Seen::Packet(_, packet) = seen else { continue };
            for key in [packet.flow_key(), packet.flow_key().reversed()] {
                prop_assert_eq!(used.edge.congestion(&key), fresh.edge.congestion(&key));
            }
        }
    }
}
