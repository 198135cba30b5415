//! Claims of the dissertation's chapter 3 about state and mechanism that no figure shows, on plain structs.

use super::super::*;
use super::tests::{opened, report, segment, MSS};
use crate::vcc::{Class, Config, Law};
use units::Bytes;
use wire::{tcp, FlowKey};

/// Section 3.4: an entry has 320 bytes. Here it is the key, what every flow has, and what congestion control adds.
#[test]
fn an_entry_has_320_bytes_at_most() {
    let entry = size_of::<FlowKey>() + size_of::<FlowState>() + size_of::<Vcc>();
    assert!(entry <= 320, "{entry} bytes");
    assert!(entry >= 200, "{entry} bytes: is that all of it?");
}

/// Section 3.3.2: alpha changes about once a round trip, and the window is cut once at most. A round ends when what was sent last at its
/// begin is acknowledged.
#[test]
fn alpha_changes_once_a_round_trip_and_the_window_is_cut_once_at_most() {
    let mut edge = opened(&Config::default());
    let (mut seq, mut total, mut marked, mut random) = (1u32, 0u32, 0u32, 1u64);
    let (mut rounds, mut updates, mut cuts, mut round_ends) = (0u32, 0u32, 0u32, 1u32);
    let mut cuts_of_round = 0;
    while rounds < 500 {
        // A window of whole segments goes out; each is acknowledged, and a share of them marked.
        let first = edge.vcc.conn.snd_una;
        while edge.vcc.conn.snd_nxt.wrapping_sub(edge.vcc.conn.snd_una) + MSS <= edge.vcc.law.cwnd.max(MSS) {
            edge.out(segment(tcp::ACK, seq, 1001, MSS));
            seq = seq.wrapping_add(MSS);
        }
        assert!(seq != first, "the window has room for a segment");
        for ack in (edge.vcc.conn.snd_una.wrapping_add(MSS)..=seq).step_by(MSS as usize) {
            // A linear congruential generator: three tenths of the segments are marked.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            total += MSS;
            marked += if (random >> 33) % 10 < 3 { MSS } else { 0 };
            let (alpha, cwnd) = (edge.vcc.law.alpha, edge.vcc.law.cwnd);
            edge.hear(report(segment(tcp::ACK, 1001, ack, 0), total & 0xff_ffff, marked & 0xff_ffff));
            updates += u32::from(edge.vcc.law.alpha != alpha);
            if edge.vcc.law.cwnd < cwnd {
                cuts += 1;
                cuts_of_round += 1;
            }
            if ack.wrapping_sub(round_ends) as i32 >= 0 {
                assert!(cuts_of_round <= 1, "{cuts_of_round} cuts in round {rounds}");
                rounds += 1;
                (round_ends, cuts_of_round) = (seq, 0);
            }
        }
    }
    let share = f64::from(updates) / f64::from(rounds);
    assert!((0.8..=1.2).contains(&share), "{updates} updates in {rounds} rounds");
    assert!(cuts <= rounds && cuts > rounds / 4, "{cuts} cuts in {rounds} rounds");
}

/// Section 3.3.3: a window that the edge announces by itself lets the guest send before any ACK of the receiver.
#[test]
fn an_announced_window_lets_the_guest_send_before_any_ack() {
    let class = |clamp| Class { clamp: Some(Bytes(clamp)), law: Law::None, police: true, ..Class::default() };
    let mut edge = opened(&Config::new(class(10_000)));
    // What the handshake granted is used up; from here on the clamp is what counts.
    edge.out(segment(tcp::ACK, 1, 1001, 65_000));
    edge.ack(65_001, 500);
    let much = segment(tcp::ACK, 65_001, 1001, 15_000);
    assert_eq!(edge.out(much).0 & POLICED, POLICED, "beyond the window of before");
    edge.stages.vcc = Some(Config::new(class(20_000)).conf());
    assert_eq!(edge.tick_now(), EMIT_WINDOW);
    let conf = edge.stages.vcc.clone().unwrap();
    let update = edge.vcc.ack(&conf, &segment(0, 0, 0, 0).flow_key(), true);
    assert_eq!(u32::from(update.window) << 7, 19_968, "20,000 in units of 128, rounded down");
    assert_eq!(edge.out(much).0 & POLICED, 0, "no packet of the receiver came meanwhile");
}
