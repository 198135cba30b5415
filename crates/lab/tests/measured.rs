//! What a measurement counts, of real TCP connections. Needs root (or a user namespace), /dev/net/tun, ip and ping.

mod rig;

use host::experiment::EdgeConfig;
use lab::{Lab, Measurement, Setup};
use topology::SingleSwitch;
use units::{BitRate, Bytes, Time};

const RATE: BitRate = BitRate::from_mbps(100);

/// Host 1's link is slower than host 0's, and the switch before it drops what 20 KB do not hold.
fn setup(edge: EdgeConfig) -> Setup {
    let mut topology = SingleSwitch { hosts: 2, host_rate: RATE, host_delay: Time::from_us(300) }.build().unwrap();
    let link = topology.host_link(1);
    topology.links[link as usize].rate = BitRate::from_mbps(20);
    let switches = fabric::SwitchConfig {
        buffer: fabric::Buffer::PerPort(Bytes(20_000)),
        notify: Some(fabric::Notify::default()),
        ..fabric::SwitchConfig::default()
    };
    Setup { switches, edge, ..rig::setup(topology) }
}

fn end(lab: &Lab) -> Measurement {
    lab.ask(|driver| driver.end_measurement()).unwrap()
}

/// What counts of a measurement: notifications that ports sent, and what edges did.
fn counted(of: &Measurement) -> [u64; 6] {
    let notifications = || of.ports.iter().map(|port| port.notifications);
    let hosts = |count: fn(&host::outcome::HostRecord) -> u64| of.hosts.iter().map(count).sum::<u64>();
    [
        notifications().map(|n| n.tx_packets).sum(),
        notifications().map(|n| n.tx_bytes).sum(),
        hosts(|host| host.fastlane.notifications),
        hosts(|host| host.fastlane.resent + host.fastlane.told),
        hosts(|host| host.congestion.packs_sent + host.congestion.reports_received),
        hosts(|host| host.hidden.hidden_segments + host.hidden.restored_packets),
    ]
}

#[test]
fn what_happened_before_a_measurement_is_not_counted() {
    let helped = EdgeConfig {
        fastlane: Some(edge::fastlane::Config::default()),
        congestion: Some(edge::vcc::Config::new(edge::vcc::Class::default())),
        ..EdgeConfig::default()
    };
    let hidden = EdgeConfig { hidden: true, ..EdgeConfig::default() };
    for (edge, acts) in [(helped, 0..5), (hidden, 5..6)] {
        let Some(lab) = rig::lab(&setup(edge)) else { return };
        rig::transfer(&lab, 1_000_000);
        let all = counted(&end(&lab));
        println!("{all:?}");
        assert!(all[acts.clone()].iter().all(|count| *count > 0), "{all:?}");
        let nothing = lab.ask(|driver| {
            driver.begin_measurement(Time::ZERO);
            driver.end_measurement()
        });
        assert_eq!(counted(&nothing.unwrap()), [0; 6]);
        lab.ask(|driver| driver.begin_measurement(Time::ZERO)).unwrap();
        rig::transfer(&lab, 1_000_000);
        let second = counted(&end(&lab));
        assert!(second[acts].iter().all(|count| *count > 0), "{second:?}");
    }
}
