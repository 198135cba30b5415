//! FastLane's claims that a computation decides, with the sizes and caps of the project's own notifications.

use fabric::Notify;
use wire::{notification::notification, proto, tcp, v4, Packet, TcpOptions};

/// Mean packet of section 3.3.1.
const PACKET: u64 = 800;
const PORTS: u64 = 48;
const PORT_BUFFER: u64 = 128_000;
const BURST: u64 = 160_000;

/// Octets of the notification of a TCP packet without options, with its FCS.
fn notification_octets() -> u64 {
    let packet = Packet {
        saddr: v4([10, 0, 0, 1]),
        daddr: v4([10, 0, 0, 2]),
        payload: 740,
        proto: proto::TCP,
        family: 4,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    };
    let frame = wire::emit(&packet, &TcpOptions::default()).unwrap();
    (notification(&frame).unwrap().len() as u64 + 4).max(64)
}

/// Of the load, at a rate of drops (equation 1).
fn share_of_load(drops: f64) -> f64 {
    let n = drops * notification_octets() as f64;
    n / (PACKET as f64 + n)
}

#[test]
fn notifications_are_a_hundredth_of_the_load_at_an_eighth_of_drops() {
    assert_eq!(notification_octets(), 64);
    assert!((share_of_load(0.12) - 0.009_509).abs() < 1e-6, "{}", share_of_load(0.12));
    assert!((share_of_load(0.126_263) - 0.01).abs() < 1e-6);
    assert!(share_of_load(0.13) > 0.01);
}

/// Octets of notifications where `m` ports get a burst at once, each from all that share of the 48 ports, and nothing is buffered: of a
/// burst all is dropped but what its `48 / m` ports can bring at once (equation 2). As 48 times the value, so that nothing is rounded.
fn octets_of_48(m: u64) -> u64 {
    let packets = m * BURST / PACKET;
    packets * notification_octets() * (PORTS - m)
}

#[test]
fn the_share_of_the_buffer_is_figure_4() {
    let share = |m: u64| octets_of_48(m) as f64 / PORTS as f64 / (PORTS * PORT_BUFFER) as f64;
    for (m, percent) in [(1, 0.204), (6, 1.094), (12, 1.875), (18, 2.344), (24, 2.5), (36, 1.875), (48, 0.0)] {
        assert!((100.0 * share(m) - percent).abs() < 0.000_6, "{m}: {}", share(m));
    }
    for m in 1..48 {
        assert_eq!(share(m) < share(m + 1), m < 24, "{m}");
        assert_eq!(octets_of_48(m), octets_of_48(48 - m), "symmetric");
    }
}

#[test]
fn a_port_holds_the_notifications_of_any_number_of_bursts() {
    let cap = Notify::default().buffer.unwrap().get();
    assert_eq!(cap / notification_octets(), 50);
    // All 48 ports take part, so each sends back a 48th.
    let most = (1..=PORTS).map(|m| octets_of_48(m).div_ceil(PORTS * PORTS)).max().unwrap();
    assert_eq!(most, cap, "at 24 ports");
    assert_eq!(cap * 40, PORT_BUFFER, "2.5% of a port's buffer");
}

#[test]
fn the_largest_request_has_eighty_senders() {
    let [totals, sizes] = [[32, 64, 96, 128, 160], [2, 4, 8, 16, 32]];
    let most = totals.iter().flat_map(|total| sizes.map(|size| total / size)).max();
    assert_eq!(most, Some(80));
}
