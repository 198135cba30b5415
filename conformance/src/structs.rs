use crate::config::Config;
use crate::script::Case;
use crate::world::{Verdict, LABELS, PEERS};
use edge::{Direction, Edge, Slot};
use units::Time;
use wire::feedback::Feedback;
use wire::{dirty, pack, Packet};

pub(crate) fn new_edge(config: &Config) -> Edge {
    let mut edge = Edge::new(edge::Config {
        balance: config.balance,
        tcp_only: config.tcp_only,
        max_flows: config.max_flows,
        seed: config.seed,
        congestion: config.congestion.map(|congestion| congestion.config()),
        hygenicc: config.share.map(|share| share.config()),
        ..edge::Config::default()
    });
    edge.set_default_schedule(&LABELS);
    // What is known of paths is known of peers, not of their guests.
    for peer in &PEERS {
        edge.set_schedule(peer.guest.v4, &LABELS);
        edge.share_paths(peer.guest.v6, peer.guest.v4);
    }
    edge
}

/// The edge as the simulator drives it: packets that were never bytes.
#[derive(Debug)]
pub struct Structs {
    edge: Edge,
    feedback: Feedback,
}

fn expected_two(case: &Case) -> bool {
    case.direction == Direction::Egress && case.expected.two.is_some()
}

impl Structs {
    pub fn new(config: &Config) -> Structs {
        Structs { edge: new_edge(config), feedback: Feedback::default() }
    }

    /// The packet as it leaves; `None` if it is not one that reaches the stages.
    pub fn run(&mut self, now: Time, case: &Case) -> Option<Packet> {
        let expected = match case.expected.verdict {
            Verdict::Forward => edge::Verdict::Forward,
            Verdict::DropPoliced => edge::Verdict::Drop(edge::DropReason::Policed),
            Verdict::DropOverRate => edge::Verdict::Drop(edge::DropReason::OverRate),
            Verdict::Consume => edge::Verdict::Consume,
            _ => return None,
        };
        let mut packet = case.packet;
        packet.wire = if case.two || expected_two(case) { wire::version::TWO } else { wire::version::ONE };
        if case.direction == Direction::Ingress {
            (packet.sent_ecn, packet.marked) = (packet.ecn, case.marked.into());
            let reports = case.two
                && packet.proto == wire::proto::TCP
                && packet.payload == 0
                && packet.pack == pack::NONE
                && packet.tcp_reserved & wire::reserved::EDGE != 0;
            if let Some([1, _, a, b, c, d, e, f]) =
                case.shim.filter(|_| reports && self.edge.config().congestion.is_some())
            {
                (packet.pack, packet.pack_total, packet.pack_ce) = (pack::SHIM, [a, b, c], [d, e, f]);
            }
            // What a simulated packet brings along, and a real one has in its outer headers.
            let expected = &case.expected;
            packet.label = expected.label.unwrap_or_default();
            packet.cell = expected.cell.unwrap_or_default();
            packet.has_cell = u8::from(expected.cell.is_some());
            let config = self.edge.config();
            let answers = config.congestion.is_some() || config.hygenicc.is_some() || config.balance.keeps().is_some();
            let arrived = if answers { Some(case.arrived_ecn) } else { expected.ecn };
            if let Some(ecn) = arrived.filter(|ecn| *ecn != packet.ecn) {
                packet.ecn = ecn;
                packet.dirty |= dirty::ECN;
            }
            self.edge.hear(now, &packet, packet.label, None, case.feedback);
        }
        let verdict = if case.plain_peer {
            self.edge.process_unmanaged(now, case.direction, Slot(0), &mut packet)
        } else {
            self.edge.process(now, case.direction, Slot(0), &mut packet)
        };
        while self.edge.poll_transmit(now).is_some() {}
        assert_eq!(verdict, expected, "line {}: {}", case.line, case.text);
        self.feedback = match case.direction {
            Direction::Egress if !case.plain_peer => self.edge.feedback_to(now, &packet),
            _ => Feedback::default(),
        };
        (expected == edge::Verdict::Forward).then_some(packet)
    }

    /// What the last packet to the fabric said of a path.
    pub fn feedback(&self) -> Feedback {
        self.feedback
    }

    pub fn counters(&self) -> edge::Counters {
        self.edge.counters()
    }
}
