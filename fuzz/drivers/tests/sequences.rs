//! Presto's receiver under random traffic: flows cut into flowcells over paths of different delay, with loss, copies and
//! retransmissions. A few thousand sequences; `SELVEDGE_SEQUENCES` asks for more.

use edge::{reorder, Config, Direction, Edge, Slot, Verdict};
use units::Time;
use wire::{proto, tcp, Packet};

/// SplitMix64: small, and good enough to vary.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const POLL: Time = Time::from_us(20);

struct Sequence {
    syn: Packet,
    /// In order of arrival.
    arrivals: Vec<(Time, Packet)>,
    /// Nothing was lost or sent twice, and no path is further behind another than the timeout allows.
    clean: bool,
    timeout: reorder::Timeout,
}

fn sequence(random: &mut Random) -> Sequence {
    let wait = Time::from_us(100 + random.below(900));
    let adaptive = random.one_in(3);
    let paths = 1 + random.below(8) as usize;
    // Half of the sequences stay under the timeout. The adaptive one never falls below 50 us x alpha.
    let most = match (adaptive, random.one_in(2)) {
        (true, true) => 50,
        (false, true) => (wait.as_ns() - 3 * POLL.as_ns()) / 1000,
        (_, false) => 3_000,
    };
    let delays: Vec<Time> = (0..paths).map(|_| Time::from_us(random.below(most.max(1)))).collect();
    let lossy = random.one_in(2);
    let (first, first_cell) = (random.next() as u32, random.next() as u32);
    let of = |seq, cell, payload| Packet {
        sport: 7,
        seq,
        cell,
        payload,
        has_cell: 1,
        proto: proto::TCP,
        tcp_flags: tcp::ACK,
        ..Packet::default()
    };
    let syn = Packet { tcp_flags: tcp::SYN, ..of(first, first_cell, 0) };
    let (mut seq, mut cell, mut path, mut now) = (first.wrapping_add(1), first_cell, 0, Time::ZERO);
    let mut arrivals: Vec<(Time, Packet)> = Vec::new();
    let mut again: Vec<(Time, Packet)> = Vec::new();
    let mut troubled = false;
    for _ in 0..1 + random.below(60) {
        if random.one_in(5) {
            cell = cell.wrapping_add(1);
            path = random.below(paths as u64) as usize;
        }
        now += Time::from_ns(random.below(20_000));
        let packet = of(seq, cell, 1 + random.below(1460) as u32);
        seq = packet.end_seq();
        let at = now + delays[path];
        if lossy && random.one_in(12) {
            // Sent again a round trip later, under whatever number is current then.
            again.push((now + Time::from_us(50 + random.below(2_000)), packet));
            troubled = true;
        } else {
            arrivals.push((at, packet));
        }
        if lossy && random.one_in(20) {
            arrivals.push((at + Time::from_us(random.below(1_000)), packet));
            troubled = true;
        }
        for (_, lost) in again.extract_if_due(now) {
            arrivals.push((at, Packet { cell, ..lost }));
        }
    }
    for (at, lost) in again {
        arrivals.push((at.max(now) + delays[path], Packet { cell, ..lost }));
    }
    arrivals.sort_by_key(|(at, _)| *at);
    let timeout = match adaptive {
        true => reorder::Timeout::ADAPTIVE,
        false => reorder::Timeout::Fixed(wait),
    };
    let least = if adaptive { Time::from_us(100) } else { wait };
    let skew = delays.iter().max().copied().unwrap_or_default() - delays.iter().min().copied().unwrap_or_default();
    Sequence { syn, arrivals, clean: !troubled && skew + POLL * 2 < least, timeout }
}

trait Due {
    /// Takes out what is due.
    fn extract_if_due(&mut self, now: Time) -> Vec<(Time, Packet)>;
}

impl Due for Vec<(Time, Packet)> {
    fn extract_if_due(&mut self, now: Time) -> Vec<(Time, Packet)> {
        let (due, later) = self.drain(..).partition(|(at, _)| *at <= now);
        *self = later;
        due
    }
}

/// What the guest was given and when, by number of the arrival.
struct Guest {
    got: Vec<Option<Time>>,
    order: Vec<usize>,
}

impl Guest {
    fn take(&mut self, edge: &mut Edge, now: Time, arrivals: &[(Time, Packet)]) {
        let mut previous: Option<usize> = None;
        while let Some(release) = edge.poll_release(now) {
            let n = release.slot.0 as usize;
            self.give(n, now);
            if let Some(before) = previous.filter(|_| release.joins_previous) {
                let (a, b) = (&arrivals[before].1, &arrivals[n].1);
                assert_eq!((a.end_seq(), a.cell), (b.seq, b.cell), "a segment is contiguous and of one flowcell");
            }
            previous = Some(n);
        }
    }

    fn give(&mut self, n: usize, now: Time) {
        assert!(self.got[n].replace(now).is_none(), "packet {n} twice");
        self.order.push(n);
    }
}

/// Plays a sequence with a NIC that polls every 20 us and a timer that is never late.
fn play(sequence: &Sequence) {
    let reorder = reorder::Config { timeout: sequence.timeout, ..reorder::Config::default() };
    let mut edge = Edge::new(Config { reorder: Some(reorder), max_flows: 2, ..Config::default() });
    let mut syn = sequence.syn;
    assert_eq!(edge.process(Time::ZERO, Direction::Ingress, Slot(u32::MAX), &mut syn), Verdict::Forward);
    let arrivals = &sequence.arrivals;
    let mut guest = Guest { got: vec![None; arrivals.len()], order: Vec::new() };
    let mut next = 0;
    let mut poll = Time::ZERO;
    while next < arrivals.len() || edge.poll_timeout().is_some() {
        poll += POLL;
        while let Some(due) = edge.poll_timeout().filter(|&due| due < poll) {
            edge.handle_timeout(due);
            guest.take(&mut edge, due, arrivals);
            assert!(edge.poll_timeout() > Some(due) || edge.poll_timeout().is_none(), "a deadline that does not move");
        }
        while let Some((_, packet)) = arrivals.get(next).filter(|(at, _)| *at <= poll) {
            let mut packet = *packet;
            if edge.process(poll, Direction::Ingress, Slot(next as u32), &mut packet) == Verdict::Forward {
                guest.give(next, poll);
            }
            next += 1;
        }
        edge.end_batch(poll);
        guest.take(&mut edge, poll, arrivals);
    }
    let bound = match sequence.timeout {
        reorder::Timeout::Fixed(wait) => wait,
        // Twice the longest average, and the quiet time after the last packet that was merged.
        reorder::Timeout::Adaptive { .. } => Time::from_ms(30),
    };
    for (n, (at, _)) in arrivals.iter().enumerate() {
        let given = guest.got[n].unwrap_or_else(|| panic!("packet {n} is lost"));
        assert!(given <= *at + bound + POLL * 2, "packet {n} was held for {}", given - *at);
    }
    if sequence.clean {
        let end = |n: &usize| arrivals[*n].1.seq;
        assert!(guest.order.windows(2).all(|w| (end(&w[1]).wrapping_sub(end(&w[0])) as i32) > 0), "out of order");
    }
}

#[test]
fn any_interleaving_arrives_completely_in_time_and_in_order_where_it_can() {
    let count = std::env::var("SELVEDGE_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000);
    let mut clean = 0;
    for seed in 0..count {
        let sequence = sequence(&mut Random(seed));
        clean += u64::from(sequence.clean);
        // The message of a failure does not name the sequence, this does.
        if std::panic::catch_unwind(|| play(&sequence)).is_err() {
            panic!("sequence {seed}");
        }
    }
    assert!(clean > count / 10, "only {clean} of {count} sequences could show order");
}
