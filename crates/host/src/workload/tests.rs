//! Flows of each pattern: their pairs, times and sizes.

use super::*;
use proptest::prelude::*;
use units::{BitRate, Bytes, Time};

const END: Time = Time::from_ms(1000);

fn source(workload: &Workload, hosts: &HostMap, seed: u64) -> Source {
    Source::new(workload, 3, hosts, seed, END).unwrap()
}

/// All flows, each complete a millisecond after its start.
fn run(workload: &Workload, hosts: &HostMap, seed: u64) -> Vec<FlowSpec> {
    let mut source = source(workload, hosts, seed);
    let mut open: Vec<(Time, FlowSpec)> = Vec::new();
    let mut all: Vec<FlowSpec> = Vec::new();
    loop {
        let done = open.first().map_or(Time::MAX, |(at, _)| *at);
        match source.peek() {
            Some(at) if at <= done => {
                let flow = source.next().unwrap();
                assert_eq!(flow.start, at);
                open.push((at + Time::from_ms(1), flow));
                all.push(flow);
            }
            _ if !open.is_empty() => {
                let (now, flow) = open.remove(0);
                source.on_complete(now, &flow);
            }
            _ => {
                assert_eq!(source.next(), None);
                return all;
            }
        }
    }
}

fn clos() -> HostMap {
    HostMap::uniform(16, 4)
}

fn refused(pattern: Pattern, hosts: &HostMap) -> Problem {
    let workload = Workload::new("w", pattern);
    let error = Source::new(&workload, 0, hosts, 1, END).unwrap_err();
    assert!(error.to_string().starts_with("workload \"w\": "), "{error}");
    error.problem
}

#[test]
fn stride_is_one_unbounded_flow_per_host() {
    let flows = run(&Workload::new("elephants", Pattern::Stride { k: 8, size: None }), &clos(), 1);
    assert_eq!(
        flows.iter().map(|f| (f.src, f.dst)).collect::<Vec<_>>(),
        (0..16).map(|i| (i, (i + 8) % 16)).collect::<Vec<_>>()
    );
    assert!(flows.iter().all(|f| f.size.is_none() && f.class == 3 && f.start == Time::ZERO && !f.reply));
}

#[test]
fn workloads_of_one_pairing_share_their_pairs() {
    let pairs = |pattern, pairing, seed| {
        let flows = run(&Workload { pairing, ..Workload::new("w", pattern) }, &clos(), seed);
        let mut pairs: Vec<_> = flows.iter().take(16).map(|f| (f.src, f.dst)).collect();
        pairs.sort_unstable();
        pairs
    };
    let mice = |to| Pattern::Mice { size: Bytes(50_000), every: Time::from_ms(100), to };
    let elephants = pairs(Pattern::RandomBijection { size: None }, 0, 1);
    assert_eq!(elephants, pairs(mice(Pairs::Bijection), 0, 1));
    assert_ne!(elephants, pairs(Pattern::RandomBijection { size: None }, 1, 1));
    assert_ne!(elephants, pairs(Pattern::RandomBijection { size: None }, 0, 2));
    let random = pairs(Pattern::Random { flows_per_host: 1, size: None }, 0, 1);
    assert_eq!(random, pairs(mice(Pairs::Random), 0, 1));
    assert!(random.iter().all(|(s, d)| s / 4 != d / 4));
}

#[test]
fn mice_keep_their_period_and_phase() {
    let every = Time::from_ms(100);
    let pattern = Pattern::Mice { size: Bytes(50_000), every, to: Pairs::Stride(8) };
    let flows = run(&Workload::new("mice", pattern), &clos(), 1);
    assert_eq!(flows.len(), 160, "16 hosts, ten periods in a second, every phase below one period");
    for host in 0..16 {
        let starts: Vec<Time> = flows.iter().filter(|f| f.src == host).map(|f| f.start).collect();
        assert!(starts[0] < every && starts.windows(2).all(|w| w[1] - w[0] == every));
    }
    assert!(flows.iter().all(|f| f.reply && f.size == Some(50_000)));
    let phases: std::collections::BTreeSet<_> = flows[..16].iter().map(|f| f.start).collect();
    assert_eq!(phases.len(), 16);
}

#[test]
fn shuffle_visits_every_other_host_two_at_a_time() {
    let workload = Workload::new("shuffle", Pattern::Shuffle { size: Bytes(1000), concurrent: 2 });
    let flows = run(&workload, &HostMap::uniform(6, 3), 1);
    assert_eq!(flows.len(), 30);
    let mut orders = Vec::new();
    for host in 0..6 {
        let own: Vec<&FlowSpec> = flows.iter().filter(|f| f.src == host).collect();
        // Five flows, two at a time, a millisecond each.
        assert_eq!(own.iter().map(|f| f.start.as_ns() / 1_000_000).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        let order: Vec<u32> = own.iter().map(|f| f.dst).collect();
        let mut dsts = order.clone();
        dsts.sort_unstable();
        assert_eq!(dsts, (0..6).filter(|&d| d != host).collect::<Vec<_>>());
        orders.push(order.iter().map(|d| (d + 6 - host) % 6).collect::<Vec<_>>());
    }
    assert!(orders.windows(2).any(|w| w[0] != w[1]), "orders are random per host");
}

#[test]
fn a_completion_told_twice_starts_nothing_more() {
    let workload = Workload::new("s", Pattern::Shuffle { size: Bytes(1), concurrent: 1 });
    let mut source = source(&workload, &HostMap::uniform(2, 1), 1);
    let first = source.next().unwrap();
    source.next().unwrap();
    let hosts = HostMap::uniform(3, 1);
    let mut longer = self::source(&workload, &hosts, 1);
    let flow = longer.next().unwrap();
    longer.next().unwrap();
    longer.next().unwrap();
    for _ in 0..3 {
        source.on_complete(Time::from_ms(1), &first);
        longer.on_complete(Time::from_ms(1), &flow);
        longer.on_complete(Time::from_ms(1), &FlowSpec { class: 9, ..flow });
        longer.on_complete(Time::from_ms(1), &FlowSpec { src: 99, ..flow });
    }
    assert_eq!(source.next(), None);
    assert_eq!(longer.next().map(|f| f.src), Some(0));
    assert_eq!(longer.next(), None);
}

#[test]
fn a_sequence_sends_one_message_after_another() {
    let sequence =
        |applications, pause, to| Pattern::Sequence { size: Cdf::constant(1000).unwrap(), applications, pause, to };
    let near = sequence(1, Time::from_ms(100), Pairs::Next { count: 4, among: None });
    let flows = run(&Workload::new("background", near), &HostMap::uniform(17, 17), 1);
    // Each message takes a millisecond, so one every 101 ms: at 0, 101, ... 909.
    let of = |host| flows.iter().filter(move |f| f.src == host);
    assert!((0..17).all(|h| of(h).count() == 10));
    assert_eq!(of(15).map(|f| f.dst).collect::<Vec<_>>(), [16, 0, 1, 2, 16, 0, 1, 2, 16, 0]);
    assert_eq!(of(3).nth(2).map(|f| (f.start, f.size)), Some((Time::from_ms(202), Some(1000))));

    let four = sequence(4, Time::from_ms(999), Pairs::Next { count: 4, among: None });
    let flows = run(&Workload::new("background", four), &HostMap::uniform(17, 17), 1);
    assert_eq!(flows[..4].iter().map(|f| f.dst).collect::<Vec<_>>(), [1, 2, 3, 4], "all four at a time");

    let pattern = Pattern::Sequence {
        size: Cdf::built_in("websearch").unwrap(),
        applications: 5,
        pause: Time::ZERO,
        to: Pairs::AnyOther,
    };
    let workload = Workload::new("trace", pattern);
    let hosts = HostMap::uniform(4, 4);
    let flows = run(&workload, &hosts, 1);
    assert_eq!(flows.len(), 4 * 5 * 1000, "20 applications, a message per millisecond");
    assert!(flows.iter().all(|f| f.src != f.dst && f.src == f.tag / 5));
    let to = |dst| flows.iter().filter(|f| f.src == 0 && f.dst == dst).count();
    assert!((1..4).all(|dst| (1_550..1_790).contains(&to(dst))), "destinations are drawn evenly");
    let sizes: std::collections::BTreeSet<_> = flows.iter().map(|f| f.size).collect();
    assert!(sizes.len() > 10_000, "sizes are drawn for each message");

    let mut source = source(&workload, &hosts, 1);
    let first = source.next().unwrap();
    let later: Vec<FlowSpec> = std::iter::from_fn(|| source.next()).collect();
    let lanes: Vec<u32> = std::iter::once(&first).chain(&later).map(|f| source.lane(f)).collect();
    assert_eq!(lanes, (0..20).collect::<Vec<_>>(), "each application has connections of its own");
    for _ in 0..3 {
        source.on_complete(Time::from_ms(1), &first);
        source.on_complete(Time::from_ms(1), &FlowSpec { tag: 99, ..first });
    }
    assert_eq!((source.next().map(|f| f.tag), source.next()), (Some(0), None), "a completion told twice");
}

#[test]
fn messages_take_the_connections_of_their_pair_in_turn() {
    let hosts = HostMap::uniform(4, 2);
    let pattern = Pattern::Mice { size: Bytes(1000), every: Time::from_ms(1), to: Pairs::Stride(2) };
    let mut workload = Workload::new("mice", pattern);
    let lanes = |workload: &Workload, src: u32| {
        let mut source = source(workload, &hosts, 1);
        let mut lanes = Vec::new();
        while let Some(flow) = source.next().filter(|_| lanes.len() < 7) {
            let lane = source.lane(&flow);
            lanes.extend((flow.src == src).then_some(lane));
        }
        lanes
    };
    assert_eq!(lanes(&workload, 1), [0; 7]);
    workload.connections = 3;
    assert_eq!((lanes(&workload, 0), lanes(&workload, 3)), (vec![0, 1, 2, 0, 1, 2, 0], vec![0, 1, 2, 0, 1, 2, 0]));

    let pattern = Pattern::Sequence {
        size: Cdf::constant(1000).unwrap(),
        applications: 2,
        pause: Time::ZERO,
        to: Pairs::Stride(2),
    };
    let mut workload = Workload::new("rtt", pattern);
    workload.connections = 2;
    let mut source = source(&workload, &hosts, 1);
    let firsts: Vec<FlowSpec> = std::iter::from_fn(|| source.next()).collect();
    let of: Vec<(u32, u32)> = firsts.iter().map(|f| (f.tag, source.lane(f))).collect();
    assert!(of.iter().all(|&(tag, lane)| lane == 2 * tag), "applications have connections of their own: {of:?}");
    source.on_complete(Time::from_us(1), &firsts[3]);
    let second = source.next().unwrap();
    assert_eq!((second.tag, source.lane(&second)), (firsts[3].tag, 2 * firsts[3].tag + 1));
}

#[test]
fn a_staircase_goes_up_and_down() {
    let every = Time::from_ms(100);
    let pairs = Pairs::Fixed(vec![(0, 5), (1, 6), (2, 7)]);
    let start = Time::from_ms(50);
    let workload = Workload { start, ..Workload::new("join", Pattern::Staircase { pairs: pairs.clone(), every }) };
    let source = source(&workload, &clos(), 1);
    let flows = run(&workload, &clos(), 1);
    let ms = |t: Time| t.as_ns() / 1_000_000;
    let seen: Vec<_> = flows.iter().map(|f| (f.src, ms(f.start), source.stops_at(f).map(ms), f.size)).collect();
    assert_eq!(seen, [(0, 50, Some(550), None), (1, 150, Some(450), None), (2, 250, Some(350), None)]);
    assert_eq!(source.steps(END).into_iter().map(ms).collect::<Vec<_>>(), [50, 150, 250, 350, 450, 550]);
    assert_eq!(source.steps(Time::from_ms(350)).len(), 4);
    assert_eq!(refused(Pattern::Staircase { pairs, every: Time::ZERO }, &clos()), Problem::Zero("the period"));
    let long = self::source(&Workload::new("s", Pattern::Stride { k: 1, size: None }), &clos(), 1);
    assert_eq!((long.stops_at(&flows[0]), long.steps(END)), (None, vec![]));
}

#[test]
fn incast_rounds() {
    let pattern = Pattern::Incast { senders: 3, receiver: 14, size: Bytes(9), every: Some(Time::from_ms(400)) };
    let flows = run(&Workload { start: Time::from_ms(100), ..Workload::new("i", pattern) }, &clos(), 1);
    let seen: Vec<_> = flows.iter().map(|f| (f.start.as_ns() / 1_000_000, f.src, f.dst)).collect();
    let round = |at| [(at, 15, 14), (at, 0, 14), (at, 1, 14)];
    assert_eq!(seen, [round(100), round(500), round(900)].concat());
    let once = Pattern::Incast { senders: 15, receiver: 0, size: Bytes(9), every: None };
    assert_eq!(run(&Workload::new("i", once), &clos(), 1).len(), 15);
}

#[test]
fn senders_of_an_incast_may_be_staggered_within_a_round() {
    let (every, stagger) = (Time::from_ms(10), Time::from_ms(10));
    let pattern = Pattern::Incast { senders: 8, receiver: 0, size: Bytes(9), every: Some(every) };
    let flows = run(&Workload { stagger, ..Workload::new("i", pattern.clone()) }, &clos(), 1);
    assert!(flows.windows(2).all(|w| w[0].start <= w[1].start) && flows.len() > 80);
    let mut orders = std::collections::BTreeSet::new();
    for (round, flows) in flows.chunks_exact(8).enumerate() {
        let begin = every * round as u64;
        assert!(flows.iter().all(|f| f.start >= begin && f.start < begin + stagger && f.tag == round as u32));
        let mut senders: Vec<u32> = flows.iter().map(|f| f.src).collect();
        orders.insert(senders.clone());
        senders.sort_unstable();
        assert_eq!(senders, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
    assert!(orders.len() > 5, "each round is drawn anew");
    let beyond = Workload { stagger: every + Time::from_ps(1), ..Workload::new("i", pattern) };
    assert_eq!(Source::new(&beyond, 0, &clos(), 1, END).unwrap_err().problem, Problem::StaggerBeyondPeriod);
}

#[test]
fn all_to_all_is_every_pair_once() {
    let flows = run(&Workload::new("a", Pattern::AllToAll { size: Bytes(1) }), &HostMap::uniform(5, 5), 1);
    let pairs: std::collections::BTreeSet<_> = flows.iter().map(|f| (f.src, f.dst)).collect();
    assert_eq!((flows.len(), pairs.len()), (20, 20));
    assert!(pairs.iter().all(|(s, d)| s != d));
    assert_eq!(
        flows[..5].iter().map(|f| f.dst).collect::<Vec<_>>(),
        [1, 2, 3, 4, 0],
        "no receiver comes first for all"
    );
}

/// Offered bytes per host and second must be load x capacity / 8.
#[test]
fn poisson_offers_the_load() {
    let cdf = Cdf::new("u", &[(0.0, 0.0), (20_000.0, 1.0)]).unwrap();
    let pattern = Pattern::Poisson { cdf, load: 0.4, capacity: BitRate::from_gbps(1), pairs: Pairs::OtherRack };
    let flows = run(&Workload::new("p", pattern), &clos(), 7);
    // Mean gap 8 x 10,000 / 0.4e9 s = 0.2 ms: 5,000 flows per host in a second, 80,000 in all; five standard deviations
    // are 1,414 flows and, with a size variance of a third of the squared mean, 2% of the bytes.
    assert!((78_500..81_500).contains(&flows.len()), "{}", flows.len());
    let bytes: u64 = flows.iter().filter_map(|f| f.size).sum();
    let offered = bytes as f64 * 8.0 / 16.0 / 0.4e9;
    assert!((offered - 1.0).abs() < 0.021, "{offered}");
    assert!(flows.iter().all(|f| f.src / 4 != f.dst / 4));
    // Gaps of an exponential law: the standard deviation equals the mean.
    let starts: Vec<f64> = flows.iter().filter(|f| f.src == 5).map(|f| f.start.as_ms_f64()).collect();
    let gaps: Vec<f64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((deviation / mean - 1.0).abs() < 0.1, "{}", deviation / mean);
}

#[test]
fn a_host_of_several_pairs_shares_one_load() {
    let pairs = Pairs::Fixed(vec![(0, 1), (5, 6), (0, 2)]);
    let cdf = Cdf::constant(10_000).unwrap();
    let pattern = Pattern::Poisson { cdf, load: 0.8, capacity: BitRate::from_gbps(1), pairs };
    let flows = run(&Workload::new("p", pattern), &clos(), 1);
    let count = |src, dst| flows.iter().filter(|f| (f.src, f.dst) == (src, dst)).count();
    // 10,000 flows per host and second.
    assert!((4_600..5_400).contains(&count(0, 1)) && (4_600..5_400).contains(&count(0, 2)));
    assert!((9_500..10_500).contains(&count(5, 6)));
}

#[test]
fn lists_are_sorted_checked_and_cut() {
    let flow = |ms, src, dst| FlowSpec {
        tag: 77,
        class: 9,
        reply: true,
        request: None,
        ..import::flow(Time::from_ms(ms), src, dst, Some(5))
    };
    let workload = Workload {
        start: Time::from_ms(10),
        ..Workload::new("l", Pattern::List(vec![flow(20, 0, 1), flow(5, 1, 0), flow(990, 0, 1)]))
    };
    let mut source = source(&workload, &clos(), 1);
    let (first, second) = (source.next().unwrap(), source.next().unwrap());
    assert_eq!((first.start, first.src, first.class, first.tag, first.reply), (Time::from_ms(15), 1, 3, 1, true));
    assert_eq!((second.start, second.tag), (Time::from_ms(30), 0));
    assert_eq!((source.next(), source.past_end()), (None, 1));
}

#[test]
fn stop_and_stagger() {
    let pattern = Pattern::Stride { k: 1, size: None };
    let stagger = Time::from_ms(10);
    let flows = run(&Workload { stagger, ..Workload::new("s", pattern.clone()) }, &clos(), 1);
    assert!(flows.iter().all(|f| f.start < stagger) && flows.windows(2).all(|w| w[0].start <= w[1].start));
    assert!(flows[0].start != flows[15].start);
    let stopped = Workload { stop: Some(Time::ZERO), ..Workload::new("s", pattern) };
    assert_eq!(run(&stopped, &clos(), 1), []);
}

#[test]
fn what_cannot_be_offered_is_refused() {
    let (size, zero) = (Bytes(1), Bytes::ZERO);
    let (one, many) = (HostMap::uniform(1, 1), clos());
    let poisson = |load, bps| Pattern::Poisson {
        cdf: Cdf::constant(1).unwrap(),
        load,
        capacity: BitRate::from_bps(bps),
        pairs: Pairs::AnyOther,
    };
    let incast = |senders, receiver| Pattern::Incast { senders, receiver, size, every: Some(Time::ZERO) };
    let sequence = |applications| Pattern::Sequence {
        size: Cdf::constant(1).unwrap(),
        applications,
        pause: Time::ZERO,
        to: Pairs::AnyOther,
    };
    let ring = |among| Pattern::Long { pairs: Pairs::Next { count: 1, among: Some(among) }, size: None };
    let listed = |src, dst, size| Pattern::List(vec![import::flow(Time::ZERO, src, dst, size)]);
    for (pattern, problem) in [
        (Pattern::Stride { k: 16, size: None }, Problem::StrideToSelf { k: 16, hosts: 16 }),
        (Pattern::Stride { k: 1, size: Some(zero) }, Problem::Zero("the flow size")),
        (Pattern::Random { flows_per_host: 0, size: None }, Problem::Zero("flows_per_host")),
        (Pattern::Random { flows_per_host: u32::MAX, size: None }, Problem::TooManyFlows { flows: 16 * 0xffff_ffff }),
        (Pattern::Shuffle { size, concurrent: 0 }, Problem::Zero("concurrent")),
        (Pattern::Mice { size, every: Time::ZERO, to: Pairs::AnyOther }, Problem::Zero("the period")),
        (incast(16, 0), Problem::TooManySenders { senders: 16, hosts: 16 }),
        (incast(0, 0), Problem::Zero("senders")),
        (ring(0), Problem::FewSenders(0)),
        (ring(1), Problem::FewSenders(1)),
        (incast(1, 16), Problem::NoSuchHost { host: 16, hosts: 16 }),
        (incast(1, 1), Problem::Zero("the period")),
        (poisson(0.0, 1), Problem::BadLoad("0".into())),
        (poisson(f64::NAN, 1), Problem::BadLoad("NaN".into())),
        (poisson(0.5, 0), Problem::Zero("the capacity")),
        (poisson(1e6, 1_000_000_000_000), Problem::TooFast),
        (listed(0, 16, None), Problem::NoSuchHost { host: 16, hosts: 16 }),
        (listed(3, 3, None), Problem::ToSelf(3)),
        (listed(0, 1, Some(0)), Problem::Zero("the size of a listed flow")),
        (Pattern::Long { pairs: Pairs::Fixed(vec![]), size: None }, Problem::NoPairs),
        (
            Pattern::Long { pairs: Pairs::Into { senders: 16, receiver: 0 }, size: None },
            Problem::TooManySenders { senders: 16, hosts: 16 },
        ),
        (sequence(0), Problem::Zero("applications")),
        (sequence(u32::MAX), Problem::TooManyFlows { flows: 16 * 0xffff_ffff }),
        (Pattern::Long { pairs: Pairs::Fixed(vec![(0, 0)]), size: None }, Problem::ToSelf(0)),
    ] {
        assert_eq!(refused(pattern.clone(), &many), problem);
        assert_eq!(refused(pattern, &one), Problem::TooFewHosts(1));
    }
    assert_eq!(
        refused(Pattern::RandomBijection { size: None }, &HostMap::uniform(4, 4)),
        Problem::RackTooLarge { rack: 0, size: 4, hosts: 4 }
    );
    assert_eq!(refused(Pattern::Random { flows_per_host: 1, size: None }, &HostMap::uniform(4, 4)), Problem::OneRack);
    let staggered = Workload { stagger: END, ..Workload::new("w", Pattern::AllToAll { size }) };
    assert_eq!(Source::new(&staggered, 0, &many, 1, END).unwrap_err().problem, Problem::Stagger);
}

fn any_pairs() -> impl Strategy<Value = Pairs> {
    prop_oneof![
        (0u32..20).prop_map(Pairs::Stride),
        Just(Pairs::Bijection),
        Just(Pairs::Random),
        Just(Pairs::AnyOther),
        Just(Pairs::OtherRack),
        prop::collection::vec((0u32..8, 0u32..8), 0..4).prop_map(Pairs::Fixed),
        (0u32..5, prop::option::of(0u32..10)).prop_map(|(count, among)| Pairs::Next { count, among }),
        (0u32..9, 0u32..9).prop_map(|(senders, receiver)| Pairs::Into { senders, receiver }),
    ]
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let size = || prop_oneof![Just(Bytes(0)), (1u64..100_000).prop_map(Bytes)];
    let every = || prop_oneof![Just(Time::ZERO), Just(Time::MAX), (1u64..1000).prop_map(Time::from_ms)];
    prop_oneof![
        (any::<u32>(), prop::option::of(size())).prop_map(|(k, size)| Pattern::Stride { k, size }),
        prop::option::of(size()).prop_map(|size| Pattern::RandomBijection { size }),
        (0u32..4, prop::option::of(size())).prop_map(|(flows_per_host, size)| Pattern::Random { flows_per_host, size }),
        (size(), 0u32..5).prop_map(|(size, concurrent)| Pattern::Shuffle { size, concurrent }),
        (0u32..10, 0u32..10, size(), prop::option::of(every()))
            .prop_map(|(senders, receiver, size, every)| Pattern::Incast { senders, receiver, size, every }),
        size().prop_map(|size| Pattern::AllToAll { size }),
        (size(), every(), any_pairs()).prop_map(|(size, every, to)| Pattern::Mice { size, every, to }),
        (-0.1..2.0f64, 0u64..5_000_000, any_pairs()).prop_map(|(load, bps, pairs)| Pattern::Poisson {
            cdf: Cdf::constant(1000).unwrap(),
            load,
            capacity: BitRate::from_bps(bps),
            pairs,
        }),
        (any_pairs(), prop::option::of(size())).prop_map(|(pairs, size)| Pattern::Long { pairs, size }),
        (any_pairs(), every()).prop_map(|(pairs, every)| Pattern::Staircase { pairs, every }),
        (0u32..4, every(), any_pairs()).prop_map(|(applications, pause, to)| Pattern::Sequence {
            size: Cdf::constant(1000).unwrap(),
            applications,
            pause,
            to,
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is configured: an error, or the same legal flows every time, in order, within the time allowed.
    #[test]
    fn sources_are_total_ordered_and_deterministic(
        pattern in any_pattern(), racks in prop::collection::vec(0u32..3, 0..9), seed: u64, start in 0u64..1500,
        stop in prop::option::of(0u64..1500), pairing in 0u32..3,
    ) {
        let hosts = HostMap::new(racks);
        let workload = Workload {
            start: Time::from_ms(start), stop: stop.map(Time::from_ms), pairing, ..Workload::new("w", pattern)
        };
        if Source::new(&workload, 3, &hosts, seed, END).is_ok() {
            let flows = run(&workload, &hosts, seed);
            prop_assert_eq!(&flows, &run(&workload, &hosts, seed));
            prop_assert!(flows.windows(2).all(|w| w[0].start <= w[1].start));
            let end = workload.stop.unwrap_or(END).min(END);
            for f in &flows {
                prop_assert!(f.start >= workload.start && f.start < end);
                prop_assert!(f.src != f.dst && f.src.max(f.dst) < hosts.hosts() && f.size != Some(0) && f.class == 3);
            }
        }
    }
}

#[test]
fn more_flows_than_a_run_can_record_are_refused() {
    let hosts = HostMap::uniform(16, 4);
    let refused = |pattern, until| match Source::new(&Workload::new("w", pattern), 0, &hosts, 1, until) {
        Err(WorkloadError { problem: Problem::TooManyArrivals(n), .. }) => Some(n),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    let mice = |every| Pattern::Mice { size: Bytes(1), every, to: Pairs::AnyOther };
    assert_eq!(refused(mice(Time::from_ns(100)), Time::from_secs(1)), Some(160_000_000));
    assert_eq!(refused(mice(Time::from_us(1)), Time::from_secs(1)), None);
    let incast = Pattern::Incast { senders: 4, receiver: 0, size: Bytes(1), every: Some(Time::from_ps(1)) };
    assert!(refused(incast, Time::from_ms(1)).is_some());
}

#[test]
fn fan_out_is_bursts_of_answers_from_different_hosts_at_the_load() {
    let (size, totals) = (Bytes(2_000), vec![Bytes(4_000), Bytes(8_000), Bytes(40_000)]);
    let capacity = BitRate::from_gbps(1);
    let flows = run(&Workload::new("w", Pattern::FanOut { size, totals, load: 0.4, capacity }), &clos(), 1);
    let mut widths = std::collections::BTreeMap::new();
    for burst in flows.chunk_by(|a, b| (a.start, a.dst) == (b.start, b.dst)) {
        assert!(burst.iter().all(|f| f.src != f.dst && f.size == Some(2_000)));
        let mut senders: Vec<u32> = burst.iter().map(|f| f.src).collect();
        senders.sort_unstable();
        senders.dedup();
        // 15 others: a burst of 20 answers takes each once and five of them again.
        assert_eq!(senders.len(), burst.len().min(15));
        *widths.entry(burst.len()).or_insert(0) += 1;
    }
    assert_eq!(widths.keys().copied().collect::<Vec<_>>(), [2, 4, 20]);
    let bursts: i32 = widths.values().sum();
    assert!(widths.values().all(|&n| (n - bursts / 3).abs() < bursts / 20), "{widths:?}");
    // 16 hosts at 0.4 Gbps for a second.
    let offered = flows.len() as f64 * 2_000.0 * 8.0 / (16.0 * 0.4e9);
    assert!((offered - 1.0).abs() < 0.05, "{offered}");
}

#[test]
fn fan_out_refuses_totals_that_are_no_multiple_of_the_size() {
    let fan_out = |size, totals: &[u64]| {
        let totals = totals.iter().map(|&total| Bytes(total)).collect();
        refused(Pattern::FanOut { size: Bytes(size), totals, load: 0.1, capacity: BitRate::from_gbps(1) }, &clos())
    };
    assert_eq!(fan_out(2_000, &[4_000, 3_000]), Problem::NotWhole { total: Bytes(3_000), size: Bytes(2_000) });
    assert_eq!(fan_out(2_000, &[0]), Problem::NotWhole { total: Bytes(0), size: Bytes(2_000) });
    assert_eq!(fan_out(2_000, &[]), Problem::Zero("the number of totals"));
    assert_eq!(fan_out(0, &[4_000]), Problem::Zero("the flow size"));
}
