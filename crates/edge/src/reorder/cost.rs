//! What merging and sorting cost (Presto, section 5), in segments of the flow's list.

use super::*;

const PAYLOAD: u32 = 1460;
/// Packets of a flowcell of 64 KB.
const CELL: u32 = 44;
const PACKETS: u32 = 200 * CELL;
/// Of a packet at 10 Gbps, ns.
const GAP: u64 = 1230;
const POLL: u64 = 20_000;

/// Arrivals of a flow whose flowcells take two paths in turn, the second `skew` ns longer: time in ns, and packet number.
fn arrivals(skew: u64) -> Vec<(u64, u32)> {
    let late = |n: u32| if n / CELL % 2 == 1 { skew } else { 0 };
    let mut all: Vec<(u64, u32)> = (0..PACKETS).map(|n| (u64::from(n) * GAP + late(n), n)).collect();
    all.sort_unstable();
    all
}

/// Segments looked at per packet that is merged, and moved by sorting per packet.
fn cost(skew: u64) -> (f64, f64) {
    let mut engine = Engine::new(Config::default());
    let (mut visited, mut moved) = (0, 0);
    let mut poll_ends = POLL;
    for (at, n) in arrivals(skew) {
        while at >= poll_ends {
            moved += engine.flows.first().map_or(0, Flow::misplaced);
            engine.end_batch(Time::from_ns(poll_ends));
            while engine.poll_release().is_some() {}
            poll_ends += POLL;
        }
        let packet = Packet {
            proto: proto::TCP,
            tcp_flags: tcp::ACK,
            seq: n * PAYLOAD,
            payload: PAYLOAD,
            cell: n / CELL,
            has_cell: 1,
            ..Packet::default()
        };
        visited += engine.flows.first().map_or(0, |flow| flow.visits(&packet));
        assert_eq!(engine.process(Time::from_ns(at), 0, Slot(n), &packet, None), Verdict::Hold);
    }
    (visited as f64 / f64::from(PACKETS), moved as f64 / f64::from(PACKETS))
}

#[test]
fn a_merge_looks_at_two_segments_on_average_and_sorting_moves_few() {
    for skew in [0, 10_000, 30_000, 80_000, 200_000] {
        let (visited, moved) = cost(skew);
        println!("{skew} ns: {visited:.2} segments looked at per packet, {moved:.3} moved");
        assert!(visited <= 2.0, "{skew} ns: {visited} segments looked at per packet");
        assert!(moved <= 0.2, "{skew} ns: {moved} segments moved per packet");
    }
}
