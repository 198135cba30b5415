use crate::script::{Case, Config};
use crate::world::{Verdict, LABELS};
use edge::{Balance, Direction, Edge, Slot};
use units::Time;
use wire::{dirty, Packet};

pub(crate) fn new_edge(config: &Config) -> Edge {
    let balance = match config.cell {
        Some(threshold) => Balance::Flowcell { threshold },
        None => Balance::Ecmp,
    };
    let mut edge =
        Edge::new(edge::Config { balance, max_flows: config.max_flows, seed: config.seed, ..edge::Config::default() });
    edge.set_default_schedule(&LABELS);
    edge
}

/// The edge as the simulator drives it: packets that were never bytes.
#[derive(Debug)]
pub struct Structs {
    edge: Edge,
}

impl Structs {
    pub fn new(config: &Config) -> Structs {
        Structs { edge: new_edge(config) }
    }

    /// The packet as it leaves; `None` if it is not one that reaches the stages.
    pub fn run(&mut self, now: Time, case: &Case) -> Option<Packet> {
        if case.expected.verdict != Verdict::Forward {
            return None;
        }
        let mut packet = case.packet;
        if case.direction == Direction::Ingress {
            // What a simulated packet brings along, and a real one has in its outer headers.
            let expected = &case.expected;
            packet.label = expected.label.unwrap_or_default();
            packet.cell = expected.cell.unwrap_or_default();
            packet.has_cell = u8::from(expected.cell.is_some());
            if let Some(ecn) = expected.ecn.filter(|ecn| *ecn != packet.ecn) {
                packet.ecn = ecn;
                packet.dirty |= dirty::ECN;
            }
        }
        let verdict = self.edge.process(now, case.direction, Slot(0), &mut packet);
        assert_eq!(verdict, edge::Verdict::Forward, "line {}: {}", case.line, case.text);
        Some(packet)
    }

    pub fn counters(&self) -> edge::Counters {
        self.edge.counters()
    }
}
