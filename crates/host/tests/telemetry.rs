//! Utilisation of links as switches tell it (in-band telemetry), and the way back to the sender's edge, with a scheme that takes
//! the least utilised path for every segment (`edge::balance::TOY`).

use edge::balance::TOY;
use edge::{Balance, Direction, Edge, Slot};
use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{address, EdgeConfig, Experiment, HostConfig, Record};
use host::workload::{HostMap, Pairs, Pattern, Workload};
use topology::{Clos, Topology};
use units::{BitRate, Time};
use wire::feedback::{Feedback, UTILISATION};

const G10: BitRate = BitRate::from_gbps(10);

/// Two leaves with two hosts each, two spines.
fn clos() -> Topology {
    let (host_delay, fabric_delay) = (Time::from_us(1), Time::from_us(1));
    Clos {
        leaves: 2,
        spines: 2,
        parallel_links: 1,
        hosts_per_leaf: 2,
        host_rate: G10,
        host_delay,
        fabric_rate: G10,
        fabric_delay,
    }
    .build()
    .unwrap()
}

fn toy() -> Balance {
    Balance::new(&TOY, |_| None)
}

/// Utilisation of the first leaf's uplinks, by spine, under two long flows to the other leaf.
fn uplinks(balance: Balance) -> Vec<f64> {
    let topology = clos();
    let racks = HostMap::new(topology.hosts().map(|h| topology.leaf_of(h)).collect());
    let long = Pattern::Long { pairs: Pairs::Fixed(vec![(0, 2), (1, 3)]), size: None };
    let outcome = host::run(
        &Experiment {
            racks,
            topology,
            switches: SwitchConfig::default(),
            multipath: Multipath::Ecmp,
            loss: RandomLoss::default(),
            failures: Vec::new(),
            reroute_after: Time::ZERO,
            hosts: HostConfig::default(),
            edge: EdgeConfig { balance, reorder: Some(edge::reorder::Config::default()), ..EdgeConfig::default() },
            workloads: vec![Workload::new("long", long)],
            duration: Time::from_ms(20),
            drain: Time::ZERO,
            warmup: Time::from_ms(5),
            seed: 1,
            record: Record::default(),
        },
        &mut |_| {},
    );
    let ports = outcome.unwrap().ports;
    let up = |spine: &str| ports.iter().find(|port| port.name == format!("leaf1-{spine}")).unwrap().utilisation;
    vec![up("spine1"), up("spine2")]
}

/// Without news of its paths the scheme would stay on the first one for ever.
#[test]
fn senders_leave_the_path_that_switches_tell_to_be_busy() {
    let shares = uplinks(toy());
    assert!(shares.iter().all(|&share| share > 0.25), "{shares:?}");
}

fn segment(from: u32, to: u32) -> wire::Packet {
    wire::Packet {
        saddr: address(from),
        daddr: address(to),
        sport: 7,
        dport: 8,
        payload: 1000,
        proto: wire::proto::TCP,
        tcp_flags: wire::tcp::ACK,
        ..wire::Packet::default()
    }
}

#[test]
fn what_a_packet_met_comes_back_on_the_next_packet_and_ages() {
    let with_labels = || {
        let mut edge = Edge::new(edge::Config { balance: toy(), ..edge::Config::default() });
        edge.set_default_schedule(&[0xc005, 0xc009]);
        edge
    };
    let (mut here, mut there) = (with_labels(), with_labels());
    let now = Time::from_us(10);
    let send = |edge: &mut Edge, now| {
        let mut packet = segment(0, 1);
        edge.process(now, Direction::Egress, Slot::default(), &mut packet);
        packet
    };
    assert!(here.asks_for_utilisation());
    assert_eq!(here.paths_to(&address(1)).count(), 0, "nothing was sent there");
    let packet = send(&mut here, now);
    assert_eq!(packet.label, 0xc005);
    there.hear(now, &packet, packet.label, Some(200), Feedback::default());
    let told = there.feedback_to(now, &segment(1, 0));
    assert_eq!(told, Feedback { kind: UTILISATION, path: 5, value: 200 });
    assert_eq!(there.feedback_to(now, &segment(1, 0)), Feedback::default(), "once");

    here.hear(now, &segment(1, 0), 0xc009, None, told);
    let congestion = |edge: &Edge| edge.paths_to(&address(1)).map(|(_, path)| path.congestion).collect::<Vec<_>>();
    assert_eq!(congestion(&here), [200 << 8, 0]);
    assert_eq!(send(&mut here, now).label, 0xc009);
    // Of a path that is in no schedule, and from a peer to whom nothing was sent.
    here.hear(now, &segment(1, 0), 0xc009, None, Feedback { path: 77, ..told });
    here.hear(now, &segment(9, 0), 0xc009, None, told);
    assert_eq!(congestion(&here), [200 << 8, 0]);

    let due = here.poll_timeout().unwrap();
    assert_eq!(due, now + Time::from_ms(1));
    here.handle_timeout(due);
    assert_eq!(congestion(&here), [100 << 8, 0]);
    assert_eq!(here.poll_timeout(), Some(due + Time::from_ms(1)));
}
