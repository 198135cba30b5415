//! Tests of the C functions on plain structs.

use super::*;
use crate::balance::Balance;
use units::Bytes;
use wire::{proto, tcp};

const THRESHOLD: Bytes = Bytes::kib(64);

struct Sender {
    state: balance::State,
    labels: Vec<u16>,
    start: u32,
    prompt: bool,
}

impl Sender {
    fn new(labels: &[u16]) -> Sender {
        Sender { state: balance::State::default(), labels: labels.to_vec(), start: 0, prompt: false }
    }

    fn send(&mut self, payload: u32) -> Packet {
        let mut packet = Packet { payload, ..Packet::default() };
        let (n, prompt) = (self.labels.len() as u32, u32::from(self.prompt));
        let (conf, labels) = (Balance::flowcell(THRESHOLD).conf(false), self.labels.as_ptr());
        // SAFETY: valid references, and the labels with their own length.
        unsafe { sv_edge_balance(&conf, &mut self.state, labels, n, prompt, self.start, 0, &mut packet) };
        packet
    }

    fn cells(&mut self, payloads: &[u32]) -> Vec<u32> {
        payloads.iter().map(|payload| self.send(*payload).cell).collect()
    }
}

#[test]
fn cells_roll_when_the_threshold_is_exceeded() {
    let cells = |payloads: &[u32]| Sender::new(&[7]).cells(payloads);
    assert_eq!(cells(&[30_000, 30_000, 5_536, 1]), [0, 0, 0, 1]);
    assert_eq!(cells(&[65_536, 65_536]), [0, 1]);
    assert_eq!(cells(&[40_000, 40_000, 40_000]), [0, 1, 2]);
    assert_eq!(cells(&[70_000]), [1], "as printed: cell 0 stays empty");
    assert_eq!(cells(&[0, 0, 65_536, 0, 1, 0]), [0, 0, 0, 0, 1, 1], "segments without payload never roll");
    assert_eq!(cells(&[u32::MAX, u32::MAX]), [1, 2], "the byte count saturates");
}

#[test]
fn cell_number_wraps() {
    let mut sender = Sender::new(&[7]);
    sender.state.cell = u32::MAX;
    assert_eq!(sender.cells(&[65_536, 1]), [u32::MAX, 0]);
}

#[test]
fn labels_go_round_the_schedule() {
    let mut sender = Sender::new(&[1, 2, 3, 2]);
    let labels: Vec<u16> = (0..5).map(|_| sender.send(65_536).label).collect();
    assert_eq!(labels, [1, 2, 3, 2, 1]);
}

#[test]
fn a_flow_starts_where_the_caller_says() {
    let mut sender = Sender::new(&[1, 2, 3, 2]);
    sender.start = 4 * 1000 + 2;
    let labels: Vec<u16> = (0..3).map(|_| sender.send(65_536).label).collect();
    assert_eq!(labels, [3, 2, 1]);
}

#[test]
fn a_prompt_flow_leaves_a_label_that_lost_its_place_and_no_other() {
    let mut sender = Sender { prompt: true, ..Sender::new(&[1, 2, 3, 4]) };
    for _ in 0..4 {
        sender.send(65_536);
    }
    let before = sender.send(0);
    assert_eq!((before.label, before.cell), (4, 3));
    sender.labels = vec![9, 2, 3, 4];
    assert_eq!((sender.send(0).label, sender.send(0).cell), (4, 3), "its own label is where it was");
    sender.labels = vec![9, 2, 3, 5];
    assert_eq!((sender.send(0).label, sender.send(0).cell), (5, 4), "the path's new port, in a cell of its own");
    sender.labels = vec![9, 2, 3];
    assert_eq!((sender.send(0).label, sender.send(0).cell), (9, 5));
    sender.labels.clear();
    assert_eq!(sender.send(0).label, 0);
    assert_eq!(sender.send(0).has_cell, 0, "without labels there are no cells");
}

#[test]
fn shrunk_schedule_takes_effect_with_the_next_cell() {
    let mut sender = Sender::new(&[1, 2, 3, 4]);
    for _ in 0..4 {
        sender.send(65_536);
    }
    assert_eq!(sender.state.index, 3);
    sender.labels = vec![11, 12, 13];
    assert_eq!((sender.send(0).label, sender.send(0).cell), (4, 3));
    assert_eq!(sender.send(1).label, 12, "(3 + 1) mod 3");
    assert!(usize::from(sender.state.index) < sender.labels.len());
}

#[test]
fn empty_schedule_leaves_segments_unmodified() {
    let mut sender = Sender::new(&[]);
    let packet = sender.send(70_000);
    assert_eq!(packet, Packet { payload: 70_000, ..Packet::default() });
}

#[test]
fn schedule_may_come_and_go_between_cells() {
    let mut sender = Sender::new(&[]);
    assert_eq!(sender.send(1000).has_cell, 0);
    sender.labels = vec![5];
    assert_eq!(sender.send(1000).label, 0, "not within the cell");
    assert_eq!(sender.send(65_536).label, 5);
    sender.labels.clear();
    assert_eq!(sender.send(0).label, 5);
    assert_eq!(sender.send(1).has_cell, 0);
}

fn conf() -> Conf {
    Conf { idle_ns: 10_000_000_000, balance: Balance::flowcell(THRESHOLD).conf(false) }
}

fn stages(conf: Conf) -> Stages {
    Stages { conf, vcc: None }
}

fn expired(flow: &mut FlowState, conf: Conf, now: Time) -> bool {
    stages(conf).tick(flow, None, now).0
}

fn tcp_packet(tcp_flags: u8, payload: u32) -> Packet {
    Packet { proto: proto::TCP, tcp_flags, payload, ..Packet::default() }
}

/// Sends one packet through `sv_egress` and tells whether it began a connection.
fn began(flow: &mut FlowState, now: Time, mut packet: Packet) -> bool {
    stages(conf()).egress(flow, None, None, None, &[7], 0, now, &mut packet) & BEGAN != 0
}

#[test]
fn a_flow_begins_with_its_first_packet_and_not_again() {
    let mut flow = FlowState::default();
    assert!(!expired(&mut flow, conf(), Time::from_secs(100)), "zero state has nothing to expire");
    assert!(began(&mut flow, Time::ZERO, tcp_packet(tcp::SYN, 0)));
    assert!(!began(&mut flow, Time::from_ms(1), tcp_packet(tcp::SYN, 0)), "a retransmitted SYN");
    assert!(!began(&mut flow, Time::from_ms(2), tcp_packet(tcp::ACK, 100)));
    assert!(began(&mut FlowState::default(), Time::ZERO, tcp_packet(tcp::ACK, 100)), "no SYN needed");
}

#[test]
fn a_syn_on_a_closing_flow_begins_anew_with_cell_zero() {
    let mut flow = FlowState::default();
    began(&mut flow, Time::ZERO, tcp_packet(tcp::ACK, 65_536));
    began(&mut flow, Time::ZERO, tcp_packet(tcp::ACK, 65_536));
    assert_eq!(flow.balance.cell, 1);
    assert!(!began(&mut flow, Time::ZERO, tcp_packet(tcp::FIN | tcp::ACK, 0)));
    assert!(!began(&mut flow, Time::ZERO, tcp_packet(tcp::ACK, 0)));
    assert_eq!(flow.balance.cell, 1);
    assert!(began(&mut flow, Time::ZERO, tcp_packet(tcp::SYN, 0)));
    assert_eq!(flow.balance.cell, 0);
}

#[test]
fn flows_expire_by_idle_time_and_sooner_when_closing() {
    let (second, ns) = (Time::from_secs(1), Time::from_ns(1));
    let mut flow = FlowState::default();
    began(&mut flow, second, tcp_packet(tcp::ACK, 0));
    assert!(!expired(&mut flow, conf(), second * 11));
    assert!(expired(&mut flow, conf(), second * 11 + ns));
    assert!(!began(&mut flow, second * 11, tcp_packet(tcp::ACK, 0)), "still alive at the limit");
    assert!(began(&mut flow, second * 21 + ns, tcp_packet(tcp::ACK, 0)), "expired though not yet swept");
    began(&mut flow, second * 22, tcp_packet(tcp::RST, 0));
    assert!(!expired(&mut flow, conf(), second * 23));
    assert!(expired(&mut flow, conf(), second * 23 + ns));
}

#[test]
fn what_was_never_answered_and_confirmed_goes_after_ten_seconds() {
    let conf = Conf { idle_ns: 60_000_000_000, ..conf() };
    let (second, ns) = (Time::from_secs(1), Time::from_ns(1));
    let run = |flow: &mut FlowState, way: char| {
        let mut packet = tcp_packet(tcp::ACK, 100);
        match way {
            'o' => stages(conf).egress(flow, None, None, None, &[], 0, second, &mut packet),
            _ => stages(conf).ingress(flow, None, None, None, &Paths::none(), second, &mut packet),
        };
    };
    for (ways, seconds) in
        [("o", 10), ("ooo", 10), ("i", 10), ("oi", 10), ("oii", 10), ("io", 10), ("oio", 60), ("ioi", 60)]
    {
        let mut flow = FlowState::default();
        ways.chars().for_each(|way| run(&mut flow, way));
        assert!(!expired(&mut flow, conf, second * (1 + seconds)), "{ways}");
        assert!(expired(&mut flow, conf, second * (1 + seconds) + ns), "{ways}");
    }
    let mut flow = FlowState::default();
    "oio".chars().for_each(|way| run(&mut flow, way));
    let mut packet = tcp_packet(tcp::SYN, 0);
    stages(conf).egress(&mut flow, None, None, None, &[], 0, second * 100, &mut packet);
    assert!(expired(&mut flow, conf, second * 110 + ns), "another connection of the same name begins from nothing");
}

#[test]
fn closing_never_prolongs_a_flow() {
    let conf = Conf { idle_ns: 5, ..conf() };
    let mut flow = FlowState::default();
    stages(conf).egress(&mut flow, None, None, None, &[], 0, Time::ZERO, &mut tcp_packet(tcp::FIN, 0));
    assert!(expired(&mut flow, conf, Time::from_ns(6)));
}

#[test]
fn ingress_notes_late_cells_in_serial_order() {
    let mut flow = FlowState::default();
    let mut late = |cell, has_cell| {
        let mut packet = Packet { cell, has_cell, ..tcp_packet(tcp::ACK, 1) };
        stages(conf()).ingress(&mut flow, None, None, None, &Paths::none(), Time::ZERO, &mut packet) & CELL_LATE != 0
    };
    assert!(!late(u32::MAX - 1, 1), "the first cell seen is the newest");
    assert!(!late(u32::MAX, 1));
    assert!(late(u32::MAX - 1, 1));
    assert!(!late(0, 1), "0 comes after 2^32 - 1");
    assert!(late(u32::MAX, 1));
    assert!(!late(5, 0), "without has_cell the number means nothing");
    assert!(!late(1, 1));
}

#[test]
fn ecmp_touches_nothing() {
    let conf = Conf { balance: Balance::ecmp().conf(false), ..conf() };
    let before = tcp_packet(tcp::ACK, 70_000);
    let mut packet = before;
    stages(conf).egress(&mut FlowState::default(), None, None, None, &[1, 2], 5, Time::ZERO, &mut packet);
    assert_eq!(packet, before);
    stages(conf).egress_stateless(None, None, &[1, 2], 5, Time::ZERO, &mut packet);
    assert_eq!(packet, before);
}

fn sent(flow: &mut FlowState, balance: Balance, now: Time, payload: u32) -> Packet {
    let mut packet = tcp_packet(tcp::ACK, payload);
    let conf = Conf { balance: balance.conf(false), ..conf() };
    stages(conf).egress(flow, None, None, None, &[11, 12, 13], 4, now, &mut packet);
    packet
}

#[test]
fn every_scheme_of_the_table_is_one_of_the_data_path() {
    for scheme in balance::SCHEMES {
        let (mut flow, balance) = (FlowState::default(), Balance::new(scheme, |_| None));
        let packet = sent(&mut flow, balance, Time::ZERO, 1000);
        let (label, cells) = if scheme.labels { (12, 1) } else { (0, 0) };
        assert_eq!((packet.label, packet.has_cell, packet.cell), (label, cells, 0), "{}", scheme.name);
        assert_eq!(flow.balance.started, cells, "{}", scheme.name);
    }
}

#[test]
fn a_random_path_is_kept_whatever_is_sent_and_however_late() {
    let mut flow = FlowState::default();
    for i in 0..100 {
        let packet = sent(&mut flow, Balance::random_path(), Time::from_ms(100) * i, u32::MAX);
        assert_eq!((packet.label, packet.has_cell, packet.cell), (12, 1, 0));
    }
}

#[test]
fn flowlets_end_with_a_pause_and_only_then() {
    let (mut flow, gap) = (FlowState::default(), Time::from_us(100));
    let mut now = Time::from_secs(7);
    let mut after = |pause: Time| {
        now += pause;
        let packet = sent(&mut flow, Balance::flowlet(gap), now, 1_000_000);
        (packet.cell, packet.label)
    };
    // Ticks of 1,024 ns: one more or less may lie between two segments.
    let (within, beyond) = (gap - Time::from_us(2), gap + Time::from_us(2));
    assert_eq!([Time::ZERO, within, within, Time::ZERO].map(&mut after), [(0, 12); 4]);
    assert_eq!(after(beyond), (1, 13));
    assert_eq!(after(Time::from_secs(9)), (2, 11));
    assert_eq!(after(within), (2, 11));
}

/// Labels of 300 flowlets under a choice, with pauses of different length.
fn flowlets(choice: &str, pause: impl Fn(u64) -> Time) -> Vec<u16> {
    let balance: Balance = format!("flowlet,flowlet_gap=100us,flowlet_choice={choice}").parse().unwrap();
    let (mut flow, mut now) = (FlowState::default(), Time::from_secs(7));
    let labels = (0..300).map(|n| {
        now += pause(n);
        let packet = sent(&mut flow, balance, now, 1000);
        assert_eq!(packet.cell, n as u32);
        packet.label
    });
    labels.collect()
}

#[test]
fn a_flowlets_path_is_the_next_one_or_one_by_its_number_or_any() {
    let [steady, other] = [|_| Time::from_us(200), |n| Time::from_us(200 + n % 7)];
    assert_eq!(flowlets("round-robin", steady)[..5], [12, 13, 11, 12, 13]);
    assert_eq!(flowlets("round-robin", steady), flowlets("round-robin", other));
    assert_eq!(flowlets("hash", steady), flowlets("hash", other), "of flow and number alone");
    assert_ne!(flowlets("random", steady), flowlets("random", other), "nobody knows it before");
    for choice in ["hash", "random"] {
        let taken = flowlets(choice, steady);
        let counts = [11, 12, 13].map(|label| taken.iter().filter(|taken| **taken == label).count());
        // Binomial(300, 1/3): standard deviation 8; five of them.
        assert!(counts.iter().all(|count| count.abs_diff(100) < 41), "{choice}: {counts:?}");
        assert!(taken.windows(2).any(|two| two[0] == two[1]), "{choice} is not in turn");
    }
}

#[test]
fn a_flow_goes_on_where_it_is_when_the_scheme_changes() {
    let mut flow = FlowState::default();
    let (flowcells, flowlets) = (Balance::flowcell(THRESHOLD), Balance::flowlet(Time::from_us(100)));
    let mut then = |balance, now_us| {
        let packet = sent(&mut flow, balance, Time::from_us(now_us), 40_000);
        (packet.cell, packet.label)
    };
    assert_eq!([then(flowcells, 0), then(flowcells, 1), then(flowcells, 2)], [(0, 12), (1, 13), (2, 11)]);
    assert_eq!(then(Balance::random_path(), 3), (2, 11));
    assert_eq!([then(flowcells, 4), then(flowcells, 5)], [(2, 11), (3, 12)], "bytes are counted anew");
    assert_eq!([then(flowlets, 1000), then(flowlets, 1001), then(flowlets, 2000)], [(4, 13), (4, 13), (5, 11)]);
    assert_eq!(then(flowcells, 2001), (5, 11), "ticks are no bytes");
}

#[test]
fn hooks_are_called_in_their_place_under_the_right_lock() {
    // SAFETY: takes and returns nothing but a number; the C beside it has no other caller.
    assert_eq!(unsafe { sv_edge_hooks() }, 0, "the line of hooks.c");
    // SAFETY: as above.
    assert_eq!(unsafe { sv_edge_many_paths() }, 0, "the line of hooks.c");
    // SAFETY: see above.
    assert_eq!(unsafe { sv_edge_clove_locks() }, 0, "the line of hooks.c");
}

#[test]
fn a_flow_without_state_gets_a_label_by_hash_and_no_cell() {
    let label = |hash| {
        let mut packet = tcp_packet(tcp::ACK, 1000);
        stages(conf()).egress_stateless(None, None, &[1, 2, 3], hash, Time::ZERO, &mut packet);
        assert_eq!(packet.has_cell, 0);
        packet.label
    };
    assert_eq!([label(0), label(1), label(5)], [1, 2, 3]);
    let mut packet = tcp_packet(tcp::ACK, 1000);
    stages(conf()).egress_stateless(None, None, &[], 5, Time::ZERO, &mut packet);
    assert_eq!(packet.label, 0);
}

#[test]
fn flow_keys_agree_with_the_mirror() {
    let packet =
        Packet { saddr: [1, 2, 3, 4], daddr: [5, 6, 7, 8], sport: 9, dport: 10, proto: 11, ..Packet::default() };
    let key = |reverse| {
        let mut key = FlowKey::default();
        // SAFETY: reads one packet and writes one key.
        unsafe { sv_edge_flow_key(&packet, reverse, &mut key) };
        key
    };
    assert_eq!(key(0), packet.flow_key());
    assert_eq!(key(1), packet.flow_key().reversed());
}

#[test]
fn hash_depends_on_every_field_of_the_key_and_on_the_seed() {
    let base = FlowKey::new([0; 4], [0; 4], 1, 2, 6);
    let mut hashes = vec![hash(&base, 0), hash(&base, 1)];
    for i in 0..4 {
        let (mut source, mut destination) = (base, base);
        source.saddr[i] = 1;
        destination.daddr[i] = 1;
        hashes.extend([hash(&source, 0), hash(&destination, 0)]);
    }
    let varied = [(2, 2, 6), (1, 1, 6), (1, 2, 17)].map(|(s, d, proto)| FlowKey::new([0; 4], [0; 4], s, d, proto));
    hashes.extend(varied.map(|key| hash(&key, 0)));
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 13);
}

#[test]
fn hash_spreads_consecutive_ports_evenly() {
    let mut count = [0u32; 4];
    for sport in 0..4000 {
        count[hash(&FlowKey::new([0; 4], [0; 4], sport, 80, 6), 42) as usize % 4] += 1;
    }
    // Binomial(4000, 1/4): standard deviation 27; five of them.
    assert!(count.iter().all(|n| n.abs_diff(1000) < 137), "{count:?}");
}
