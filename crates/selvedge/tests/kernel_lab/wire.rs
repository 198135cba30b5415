//! What leaves by the uplink: the ports that the policy chose, and no others.

use crate::capture::{Capture, Frame};
use crate::rig::Rig;
use crate::stream::Transfer;
use std::collections::{BTreeMap, BTreeSet};

const BYTES: u64 = 30_000_000;
/// Payload of a flowcell, unless `--policy` says otherwise.
const CELL: u32 = 65_536;
/// Largest payload of one segment.
const SEGMENT: u32 = 65_535;

/// Segments of one transfer as they left host 1, the lab's first flow.
fn captured(tag: &str, options: &[&str]) -> Option<Vec<Frame>> {
    let rig = Rig::up(tag, &[&["--edge", "--hosts", "1"], options].concat())?;
    let capture = Capture::start(&rig, "host1", "u0")?;
    let bytes = Transfer::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7000", BYTES).finish();
    assert!(bytes >= BYTES);
    Some(capture.finish(7000, bytes))
}

/// What left of one flowcell.
#[derive(Default)]
struct Cell {
    labels: BTreeSet<u16>,
    payload: u32,
}

/// By number, counted on from the eight bits that travel. Two processors may send for one flow, so frames of neighbouring
/// cells can be mixed.
fn cells(frames: &[Frame]) -> BTreeMap<i64, Cell> {
    let (mut cells, mut latest) = (BTreeMap::<i64, Cell>::new(), 1 << 16);
    for frame in frames {
        let cell = frame.cell.expect("every segment says which cell it belongs to");
        let number = latest + i64::from(cell.wrapping_sub(latest as u8) as i8);
        latest = latest.max(number);
        let at = cells.entry(number).or_default();
        at.labels.insert(frame.label);
        at.payload += frame.payload;
    }
    cells
}

/// Flowcells take the schedule's labels in turn, one each.
fn check_schedule(frames: &[Frame], labels: &[u16]) {
    let cells = cells(frames);
    assert!(cells.len() as u64 > BYTES / u64::from(CELL + SEGMENT), "{} cells", cells.len());
    for (number, cell) in &cells {
        assert_eq!(cell.labels.len(), 1, "cell {number} has one label");
        assert!(cell.payload <= CELL + SEGMENT, "cell {number} carries {} bytes", cell.payload);
    }
    let numbers: Vec<i64> = cells.keys().copied().collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "none is left out: {numbers:?}");
    let order: Vec<u16> = cells.values().map(|cell| *cell.labels.first().unwrap()).collect();
    let first = labels.iter().position(|label| *label == order[0]).expect("a label of the schedule");
    let expected: Vec<u16> = labels.iter().copied().cycle().skip(first).take(order.len()).collect();
    assert_eq!(order, expected, "round robin");
}

const LABELS: [u16; 8] = [50_000, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007];

#[test]
fn whole_segments_leave_on_the_schedules_labels_in_turn() {
    let Some(frames) = captured("k", &[]) else { return };
    check_schedule(&frames, &LABELS);
    let largest = frames.iter().map(|frame| frame.payload).max().unwrap();
    assert!(largest > 40_000, "segments leave whole, each with one label: {largest}");
}

#[test]
fn packets_cut_from_a_segment_keep_its_label_and_cell() {
    let Some(frames) = captured("l", &["--wire", "mtu", "--labels", "3"]) else { return };
    check_schedule(&frames, &LABELS[..3]);
    assert!(frames.iter().all(|frame| frame.len <= 1514), "packets of the MTU");
    let cells = cells(&frames).len();
    assert!(frames.len() > 10 * cells, "{} packets in {cells} cells", frames.len());
}

#[test]
fn the_hash_policy_leaves_a_flow_on_one_port() {
    let Some(frames) = captured("m", &["--policy", "hash"]) else { return };
    let labels: BTreeSet<u16> = frames.iter().map(|frame| frame.label).collect();
    assert_eq!(labels.len(), 1, "{labels:?}");
    assert!(labels.iter().all(|label| (0x8000..0xc000).contains(label)));
}

#[test]
fn labels_of_one_flow_take_several_paths_of_the_fabric() {
    let Some(rig) = Rig::up("n", &["--edge", "--hosts", "1"]) else { return };
    let cables = ["s1-1", "s1-2", "s2-1", "s2-2"];
    let sent = |interface: &str| -> u64 {
        let table = rig.run("leaf1", "cat /proc/self/net/dev");
        let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':')).unwrap();
        line.split_whitespace().nth(8).unwrap().parse().unwrap()
    };
    let before = cables.map(sent);
    let bytes = Transfer::start(&rig, "guest1.1", "guest2.1", "172.20.2.1:7000", BYTES).finish();
    let shares: Vec<u64> = cables.iter().zip(before).map(|(cable, old)| (sent(cable) - old) * 100 / bytes).collect();
    let used = shares.iter().filter(|share| **share >= 5).count();
    assert!(used >= 2, "percent of one flow on each cable: {shares:?}");
}
