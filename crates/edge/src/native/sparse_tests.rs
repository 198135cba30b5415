//! Which segments go first, before a queue that is first come, first served.

use super::{bulk_flows, goes_first, SparseAll, SparseFlow, SPARSE_FLOWS};
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// Higher rates are taken for it.
const MOST_RATE: u64 = 15_000_000_000;

/// What all flows send first at once, bytes; of few bytes each they send twice as much.
fn burst(rate: u64) -> u32 {
    u32::try_from(rate / 1000).unwrap().max(32_768)
}

/// A limit and its queue, as HTB would have it: whole segments leave, and the next waits until they are paid for.
struct Limit {
    rate: u64,
    all: SparseAll,
    flows: Box<[SparseFlow; SPARSE_FLOWS]>,
    hashes: Vec<u32>,
    /// Flow, number, bytes.
    queue: VecDeque<(usize, u32, u32)>,
    room: usize,
    free_at: u64,
    now: u64,
    /// Flow and number in the order in which they left.
    left: Vec<(usize, u32)>,
    sent: Vec<u32>,
    first: Vec<u64>,
    bulk: Vec<u64>,
}

impl Limit {
    fn new(rate: u64, flows: usize) -> Limit {
        Limit {
            rate,
            all: SparseAll::default(),
            flows: Box::new([SparseFlow::default(); SPARSE_FLOWS]),
            hashes: (1..=flows as u32).map(|n| n.wrapping_mul(0x9e37_79b1)).collect(),
            queue: VecDeque::new(),
            room: usize::MAX,
            free_at: 0,
            now: 1_000 * MS,
            left: Vec::new(),
            sent: vec![0; flows],
            first: vec![0; flows],
            bulk: vec![0; flows],
        }
    }

    fn charge(&mut self, at: u64, bytes: u32) {
        self.free_at = self.free_at.max(at) + u64::from(bytes) * 1_000_000_000 / self.rate;
    }

    fn wait(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.free_at <= until {
            let Some((flow, number, bytes)) = self.queue.pop_front() else { break };
            self.bulk[flow] += u64::from(bytes);
            self.left.push((flow, number));
            self.charge(self.free_at.max(self.now), bytes);
        }
        self.now = until;
    }

    fn send(&mut self, flow: usize, bytes: u32) -> bool {
        self.wait(0);
        let queued = self.queue.iter().map(|segment| segment.2).sum();
        let unpaid = (self.free_at.saturating_sub(self.now) as u128 * self.rate as u128 / 1_000_000_000) as u32;
        let hash = self.hashes[flow];
        let first = goes_first(&mut self.all, &mut self.flows, hash, self.rate, (queued, unpaid), bytes, self.now);
        let number = self.sent[flow];
        self.sent[flow] += 1;
        if first {
            self.first[flow] += u64::from(bytes);
            self.left.push((flow, number));
            self.charge(self.now, bytes);
        } else if self.queue.len() < self.room {
            self.queue.push_back((flow, number, bytes));
        }
        self.wait(0);
        first
    }

    /// Flow 0 keeps some segments in the queue.
    fn keep_busy(&mut self) {
        while self.queue.len() < 4 {
            self.send(0, 1514);
        }
    }
}

const MBPS_100: u64 = 12_500_000;

#[test]
fn in_an_empty_queue_nobody_is_favoured() {
    let mut limit = Limit::new(MBPS_100, 2);
    assert!(!limit.send(0, 100));
    limit.wait(MS);
    assert!(!limit.send(1, 1514));
    assert!(limit.send(0, 100), "what has left is not paid for yet");
}

#[test]
fn a_new_flow_has_a_quantum_and_is_bulk_from_then_on() {
    let mut limit = Limit::new(MBPS_100, 2);
    limit.keep_busy();
    limit.keep_busy();
    let sent = (0..20).filter(|_| limit.send(1, 1514)).count();
    assert_eq!(sent, 10, "ten segments of 1,514 bytes are below 16,384");
    // At a tenth of three quarters of half the rate it pays for two quanta in 70 ms, and is bulk until then.
    for _ in 0..60 {
        limit.keep_busy();
        limit.wait(MS / 4);
        assert!(!limit.send(1, 66));
    }
    for _ in 0..400 {
        limit.keep_busy();
        limit.wait(MS / 4);
    }
    assert!(limit.send(1, 1514));
}

#[test]
fn requests_pass_for_ever() {
    for rate in [1_250_000, 2_500_000, MBPS_100, 10 * MBPS_100] {
        let mut limit = Limit::new(rate, 2);
        limit.keep_busy();
        for n in 0..5_000 {
            limit.keep_busy();
            assert!(limit.send(1, 200), "request {n} at {rate} bytes a second");
            limit.wait(2 * MS);
        }
    }
}

#[test]
fn many_short_flows_buy_no_more_than_half() {
    let mut limit = Limit::new(MBPS_100, 400);
    let seconds = 2;
    for n in 0..seconds * 10_000 {
        limit.keep_busy();
        // Each time another: it has never had anything, or long ago.
        limit.send(1 + n % 399, 1514);
        limit.wait(MS / 10);
    }
    let first: u64 = limit.first.iter().sum();
    let half = MBPS_100 * seconds as u64 / 2;
    assert!(first <= half + 2 * 32_768, "{first} of {half}");
    assert!(first > half / 4, "{first}: and they get some");
    assert_eq!(limit.all.first, first);
}

#[test]
fn flows_of_the_bulk_are_counted() {
    let mut limit = Limit::new(MBPS_100, 10);
    for _ in 0..300 {
        limit.keep_busy();
        for flow in 1..8 {
            limit.send(flow, 1514);
        }
        limit.send(8, 66);
        limit.wait(MS);
    }
    assert_eq!(bulk_flows(&limit.all), 8, "and the one of small requests is none of them");
}

#[test]
fn any_number_of_flows_is_counted_and_divides() {
    let mut limit = Limit::new(MBPS_100, 1);
    limit.all =
        SparseAll { begun: limit.now, epoch: 1, all: [0, u16::MAX], in_bulk: [0, u16::MAX], ..SparseAll::default() };
    limit.keep_busy();
    assert_eq!((limit.all.all, limit.all.in_bulk), ([0, u16::MAX], [0, u16::MAX]));
    assert_eq!(bulk_flows(&limit.all), 65_535);
}

#[test]
fn a_request_in_the_set_of_seven_bulk_flows_has_a_place() {
    let mut limit = Limit::new(MBPS_100, 8);
    limit.hashes = (1..=8).map(|n| n << 16 | 5).collect();
    for _ in 0..300 {
        for flow in 0..7 {
            limit.send(flow, 1514);
        }
        limit.keep_busy();
        assert!(limit.send(7, 200));
        limit.wait(MS);
    }
}

#[test]
fn a_flow_that_paused_is_first_again() {
    let mut limit = Limit::new(MBPS_100, 3);
    limit.keep_busy();
    for _ in 0..30 {
        limit.send(1, 1514);
    }
    for _ in 0..4_000 {
        limit.keep_busy();
        limit.wait(MS / 10);
    }
    assert!(limit.send(1, 1514));
}

#[test]
fn after_a_second_without_a_segment_a_flow_owes_nothing() {
    // Beside so many, its share pays for two quanta in 22 s. Its ports may be those of a new connection long before.
    let mut limit = Limit::new(MBPS_100, 65);
    let all_send = |limit: &mut Limit| {
        (0..64).for_each(|flow| {
            while limit.queue.iter().filter(|s| s.0 == flow).count() < 2 {
                limit.send(flow, 1514);
            }
        })
    };
    all_send(&mut limit);
    for _ in 0..100 {
        limit.send(64, 1514);
    }
    for pause_ms in [900, 1_100] {
        while limit.queue.iter().any(|segment| segment.0 == 64) {
            limit.wait(MS);
        }
        for _ in 0..pause_ms {
            all_send(&mut limit);
            limit.wait(MS);
        }
        all_send(&mut limit);
        assert_eq!(limit.send(64, 74), pause_ms > 1_000, "after {pause_ms} ms");
    }
}

#[test]
fn a_flow_sends_more_first_at_a_higher_rate() {
    // 1 Gbps: 62,500 bytes, which it brings in half a millisecond; 41 segments.
    let mut limit = Limit::new(10 * MBPS_100, 2);
    (0..20).for_each(|_| limit.keep_busy());
    limit.send(0, 60_000);
    limit.send(0, 60_000);
    assert_eq!((0..60).filter(|_| limit.send(1, 1514)).count(), 41);
}

#[test]
fn flows_that_begin_with_many_segments_leave_room_for_those_of_a_few() {
    let mut limit = Limit::new(MBPS_100, 8);
    for _ in 0..20 {
        limit.keep_busy();
        limit.wait(MS / 2);
    }
    limit.keep_busy();
    let many: usize = (1..5).map(|flow| (0..10).filter(|_| limit.send(flow, 1514)).count()).sum();
    assert!(many <= 22 && many > 20, "{many}: up to the burst");
    assert!(limit.send(6, 74) && limit.send(7, 1066));
}

#[test]
fn connections_that_are_over_lose_their_places_and_busy_ones_do_not() {
    let mut limit = Limit::new(MBPS_100, 12);
    // All of one set, which has eight places: seven bulk flows, and connections that end one after the other with much to pay for.
    limit.hashes = (1..=12).map(|n| n << 16 | 5).collect();
    let bulk = |limit: &mut Limit| {
        (0..7).for_each(|flow| {
            limit.send(flow, 600);
        })
    };
    (0..30).for_each(|_| bulk(&mut limit));
    for flow in 7..12 {
        assert!(limit.send(flow, 1066), "{flow} has a place");
        for _ in 0..30 {
            limit.send(flow, 1514);
        }
        // Its last has left for 10 ms.
        for _ in 0..200 {
            bulk(&mut limit);
            limit.wait(MS / 2);
        }
        limit.keep_busy();
    }
    assert!((0..7).all(|flow| !limit.send(flow, 66)), "the bulk has what it owes");
}

proptest! {
    /// Whatever is sent when, with a queue that is always long enough: no segment leaves before an earlier one of its flow, what goes
    /// first is bounded over any time, and what is sent is there.
    #[test]
    fn no_segment_overtakes_its_own_flow(
        rate in prop_oneof![125_000u64..2_000_000_000, Just(MBPS_100)],
        steps in proptest::collection::vec((0usize..10, 40u32..70_000, 0u64..3_000_000), 1..400),
        one_set: bool,
    ) {
        let mut limit = Limit::new(rate, 10);
        if one_set {
            // More than it has places.
            limit.hashes = (1..=10).map(|n| n << 16).collect();
        }
        let begun = limit.now;
        for (flow, bytes, wait) in steps {
            limit.send(flow, bytes);
            limit.wait(wait);
            let first: u64 = limit.first.iter().sum();
            let bound = 2 * u64::from(burst(rate)) + (limit.now - begun) * rate / 2_000_000_000 + 1000;
            prop_assert!(first <= bound, "{first} bytes first, {bound} allowed");
        }
        limit.wait(1_000_000 * MS);
        prop_assert!(limit.queue.is_empty());
        let mut next = [0; 10];
        for &(flow, number) in &limit.left {
            prop_assert_eq!(number, next[flow], "of flow {}", flow);
            next[flow] += 1;
        }
    }

    /// A full queue drops; those that are left keep their order.
    #[test]
    fn drops_do_not_let_a_flow_overtake_itself(
        room in 1usize..20,
        steps in proptest::collection::vec((0usize..4, 40u32..2_000, 0u64..1_000_000), 1..400),
    ) {
        let mut limit = Limit::new(MBPS_100 / 10, 4);
        limit.room = room;
        for (flow, bytes, wait) in steps {
            limit.send(flow, bytes);
            limit.wait(wait);
        }
        limit.wait(1_000_000 * MS);
        let mut last = [None; 4];
        for &(flow, number) in &limit.left {
            prop_assert!(last[flow] < Some(number), "flow {flow}: {number} after {:?}", last[flow]);
            last[flow] = Some(number);
        }
    }

    /// Any state, as a bug elsewhere or a map of another version might leave it.
    #[test]
    fn any_state_is_survived(
        words in proptest::array::uniform12(any::<u64>()),
        rate in 1u64..,
        waits in any::<(u32, u32)>(),
        sent in proptest::collection::vec((any::<u32>(), any::<u64>()), 1..10),
    ) {
        let mut all = SparseAll {
            begun: words[0],
            at: words[1],
            first: words[2],
            level: words[3] as u32,
            bulk: words[4] as u32,
            all: [words[5] as u16, (words[5] >> 16) as u16],
            in_bulk: [words[6] as u16, (words[6] >> 16) as u16],
            epoch: words[7] as u8,
            ..SparseAll::default()
        };
        let mut flows = [SparseFlow {
            at: words[8],
            level: words[9] as u32,
            waits_us: (words[9] >> 32) as u32,
            place: words[10] as u32,
            tag: (words[10] >> 32) as u16,
            flags: words[11] as u8,
            epoch: (words[11] >> 8) as u8,
        }; SPARSE_FLOWS];
        for (bytes, now) in sent {
            let first = goes_first(&mut all, &mut flows, words[0] as u32, rate, waits, bytes, now);
            let quantum = burst(rate.min(MOST_RATE)) / 2;
            prop_assert!(!first || bytes <= quantum);
            prop_assert!(first || flows.iter().any(|flow| flow.at == now && flow.level <= 2 * quantum));
        }
    }
}
