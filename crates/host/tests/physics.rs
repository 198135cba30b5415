//! Physics first: what any simulator of TCP over queues must get right before its comparisons mean anything.

use fabric::{Aqm, Buffer, Multipath, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, Gro, HostConfig, Record};
use host::outcome::Outcome;
use host::tcp::cc::Algorithm;
use host::tcp::{EcnMode, Recovery};
use host::workload::{Connection, FlowSpec, HostMap, Pairs, Pattern, Workload};
use topology::{Clos, Dumbbell, SingleSwitch, Topology};
use units::{BitRate, Bytes, Time};

const DELAY: Time = Time::from_us(1);

fn one_switch(hosts: u32, rate: BitRate) -> Topology {
    SingleSwitch { hosts, host_rate: rate, host_delay: DELAY }.build().unwrap()
}

fn clos(leaves: u32, spines: u32, hosts_per_leaf: u32, rate: BitRate) -> Topology {
    Clos {
        leaves,
        spines,
        parallel_links: 1,
        hosts_per_leaf,
        host_rate: rate,
        host_delay: DELAY,
        fabric_rate: rate,
        fabric_delay: DELAY,
    }
    .build()
    .unwrap()
}

fn experiment(topology: Topology, workloads: Vec<Workload>, duration: Time) -> Experiment {
    Experiment {
        racks: HostMap::uniform(topology.n_hosts() as u32, 1),
        topology,
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(10),
        hosts: HostConfig::default(),
        edge: EdgeConfig::default(),
        workloads,
        duration,
        drain: Time::ZERO,
        warmup: duration / 4,
        seed: 1,
        record: Record::default(),
    }
}

fn long(pairs: &[(u32, u32)]) -> Vec<Workload> {
    vec![Workload::new("long", Pattern::Long { pairs: Pairs::Fixed(pairs.to_vec()), size: None })]
}

fn one_message(size: u64) -> Vec<Workload> {
    let spec = FlowSpec {
        start: Time::ZERO,
        src: 0,
        dst: 1,
        size: Some(size),
        class: 0,
        reply: false,
        request: None,
        connection: Connection::Fresh,
        tag: 0,
    };
    vec![Workload::new("one", Pattern::List(vec![spec]))]
}

fn run(e: &Experiment) -> Outcome {
    host::run(e, &mut |_| {}).unwrap()
}

/// Goodput of a flow after the warm-up, bits per second.
fn goodput(e: &Experiment, o: &Outcome, flow: usize) -> f64 {
    o.flows[flow].delivered_measured as f64 * 8.0 / (e.duration - e.warmup).as_secs_f64()
}

fn jain(x: &[f64]) -> f64 {
    x.iter().sum::<f64>().powi(2) / (x.len() as f64 * x.iter().map(|v| v * v).sum::<f64>())
}

#[test]
fn one_flow_fills_the_link() {
    for gbps in [10, 40, 100] {
        let rate = BitRate::from_gbps(gbps);
        let e = experiment(one_switch(2, rate), long(&[(0, 1)]), Time::from_ms(80));
        let o = run(&e);
        let ideal = rate.as_bps() as f64 * 1460.0 / 1538.0;
        let share = goodput(&e, &o, 0) / ideal;
        assert!((0.99..=1.0001).contains(&share), "{gbps} Gbps: {share}");
    }
}

/// Everything that fits in the initial window arrives in the ideal time after the handshake, to the picosecond, when the
/// NIC polls at once. By hand: a SYN with its options is 38 + 20 + 32 octets long and crosses every link twice, there
/// and back; then the packets follow one another, and the last one is stored and forwarded on its way.
#[test]
fn an_idle_network_delivers_in_the_time_computed_by_hand() {
    let fabrics = |rate| [(one_switch(2, rate), 2), (clos(2, 2, 1, rate), 4)];
    for rate in [BitRate::from_gbps(10), BitRate::from_gbps(40), BitRate::from_gbps(100)] {
        for (topology, links) in fabrics(rate) {
            for (size, packets) in [(1u64, 1u64), (1460, 1), (1461, 2), (10 * 1460, 10)] {
                let mut e = experiment(topology.clone(), one_message(size), Time::from_ms(1));
                e.hosts.rx_coalesce = Time::ZERO;
                e.hosts.rx_coalesce_frames = 1;
                e.hosts.gro = Gro::Off;
                let o = run(&e);
                let handshake = (rate.tx_time(38 + 20 + 32) + DELAY) * (2 * links);
                let full = rate.tx_time(1538);
                let last = rate.tx_time((size - (packets - 1) * 1460 + 78).max(84));
                // The last of several packets waits at each hop only if it is shorter than its predecessor, which it
                // then follows bit by bit.
                let data = if packets == 1 {
                    (last + DELAY) * links
                } else {
                    (full + DELAY) * links + full * (packets - 2) + last
                };
                let fct = o.flows[0].finish.unwrap() - o.flows[0].start;
                assert_eq!(fct, handshake + data, "{size} bytes over {links} links at {rate}");
                assert_eq!(o.flows[0].ideal, Some(data));
            }
        }
    }
}

#[test]
fn dctcp_holds_the_queue_near_k() {
    let k = 65_000u64;
    for flows in [1, 2, 4] {
        // Hosts are faster than the bottleneck, so that even one flow queues at the switch.
        let topology = Dumbbell {
            pairs: flows,
            host_rate: BitRate::from_gbps(40),
            host_delay: DELAY,
            bottleneck_rate: BitRate::from_gbps(10),
            bottleneck_delay: DELAY,
        }
        .build()
        .unwrap();
        let pairs: Vec<(u32, u32)> = (0..flows).map(|f| (f, flows + f)).collect();
        let mut e = experiment(topology, long(&pairs), Time::from_ms(200));
        e.switches.aqm = Some(Aqm::Threshold { k: Bytes(k) });
        e.hosts.tcp.congestion = Algorithm::Dctcp;
        e.hosts.rx_coalesce = Time::from_us(5);
        let o = run(&e);
        let total: f64 = (0..flows as usize).map(|f| goodput(&e, &o, f)).sum();
        let share = total / (10e9 * 1460.0 / 1538.0);
        let port = o.ports.iter().find(|p| p.name == "left-right").unwrap();
        let mean = port.queue_mean_bytes / k as f64;
        assert!((0.5..=2.0).contains(&mean), "{flows} flows: mean queue {mean} K");
        assert_eq!(port.dropped_packets, 0);
        assert!(share > 0.99, "{flows} flows: {share} of full throughput");
    }
}

/// Two classes at one congested port: the first is served as if it were alone.
#[test]
fn priorities_reach_the_switches() {
    let elephants = Workload {
        priority: 1,
        ..Workload::new("elephants", Pattern::Long { pairs: Pairs::Fixed(vec![(0, 3), (1, 3)]), size: None })
    };
    let urgent = Workload::new(
        "urgent",
        Pattern::Mice { size: Bytes(10_000), every: Time::from_ms(1), to: Pairs::Fixed(vec![(2, 3)]) },
    );
    let fct = |priorities| {
        let workloads = vec![elephants.clone(), urgent.clone()];
        let mut e = experiment(one_switch(4, BitRate::from_gbps(10)), workloads, Time::from_ms(20));
        e.switches.priorities = priorities;
        let o = run(&e);
        let done: Vec<f64> =
            o.flows.iter().filter(|f| f.class == 1).filter_map(|f| Some((f.finish? - f.start).as_us_f64())).collect();
        done.iter().sum::<f64>() / done.len() as f64
    };
    let (one, two) = (fct(1), fct(2));
    assert!(two < 150.0 && one > 5.0 * two, "one queue {one} us, two {two} us");
}

#[test]
fn cubic_flows_share_fairly() {
    for flows in [2, 4, 8] {
        let topology = one_switch(flows + 1, BitRate::from_gbps(10));
        let pairs: Vec<(u32, u32)> = (0..flows).map(|f| (f, flows)).collect();
        let mut e = experiment(topology, long(&pairs), Time::from_secs(2));
        e.switches.buffer = Buffer::PerPort(Bytes(500_000));
        let o = run(&e);
        let rates: Vec<f64> = (0..flows as usize).map(|f| goodput(&e, &o, f)).collect();
        assert!(jain(&rates) > 0.9, "{flows} flows: {rates:?}");
        assert!(rates.iter().sum::<f64>() > 0.97 * 10e9 * 1460.0 / 1538.0, "{rates:?}");
    }
}

/// Mathis et al. 1997: with every packet acknowledged, rate = MSS/RTT * sqrt(3/2) / sqrt(p). The RTT is kept constant by
/// a link that the flow cannot fill. The law leaves timeouts out, so p stays below 1%.
#[test]
fn newreno_follows_the_square_root_law() {
    for per_million in [200u32, 600, 2_000] {
        let rate = BitRate::from_gbps(100);
        let delay = Time::from_ms(5);
        let topology =
            Dumbbell { pairs: 4, host_rate: rate, host_delay: DELAY, bottleneck_rate: rate, bottleneck_delay: delay }
                .build()
                .unwrap();
        let pairs: Vec<(u32, u32)> = (0..4).map(|i| (i, 4 + i)).collect();
        let mut e = experiment(topology, long(&pairs), Time::from_secs(100));
        e.warmup = Time::from_secs(10);
        e.loss = RandomLoss { per_million };
        let tcp = &mut e.hosts.tcp;
        tcp.congestion = Algorithm::NewReno;
        tcp.recovery = Recovery::Sack;
        tcp.delayed_ack = Time::ZERO;
        tcp.tso = false;
        tcp.adaptive_reordering = false;
        tcp.ecn = EcnMode::Off;
        e.hosts.tso = false;
        e.hosts.gro = Gro::Off;
        e.hosts.rx_coalesce = Time::ZERO;
        e.hosts.rx_coalesce_frames = 1;
        let o = run(&e);
        // Data crosses three links, each of which loses packets.
        let p = 1.0 - (1.0 - f64::from(per_million) / 1e6).powi(3);
        let rtt = 2.0 * (delay + DELAY * 2).as_secs_f64();
        let law = 1460.0 * 8.0 / rtt * (1.5 / p).sqrt();
        let mean = (0..4).map(|f| goodput(&e, &o, f)).sum::<f64>() / 4.0;
        let ratio = mean / law;
        assert!((0.85..=1.15).contains(&ratio), "p {p}: {:.1} Mbps against {:.1}", mean / 1e6, law / 1e6);
    }
}

fn clos16() -> Topology {
    clos(4, 4, 4, BitRate::from_gbps(10))
}

fn mixed(seed: u64) -> Experiment {
    let mut mice =
        Workload::new("mice", Pattern::Mice { size: Bytes(50_000), every: Time::from_ms(2), to: Pairs::Stride(8) });
    mice.connection = Connection::Fresh;
    let elephants = Workload::new("elephants", Pattern::Stride { k: 8, size: None });
    let mut e = experiment(clos16(), vec![elephants, mice], Time::from_ms(20));
    e.racks = HostMap::uniform(16, 4);
    e.edge = EdgeConfig {
        balance: edge::Balance::flowcell(Bytes::kib(64)),
        reorder: Some(edge::reorder::Config::default()),
        ..EdgeConfig::default()
    };
    e.drain = Time::from_ms(20);
    e.seed = seed;
    e
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let text = |seed| format!("{:?}", run(&mixed(seed)));
    let first = text(1);
    assert!(first == text(1), "two runs of one seed differ");
    assert!(first != text(2), "the seed has no effect");
}

#[test]
fn every_bounded_flow_completes_and_delivers_its_size() {
    let o = run(&mixed(3));
    let mice: Vec<_> = o.flows.iter().filter(|f| f.size.is_some()).collect();
    assert!(mice.len() >= 16 * 9, "{}", mice.len());
    for f in mice {
        assert_eq!(f.delivered, 50_000, "{f:?}");
        assert!(f.finish.unwrap() - f.start >= f.ideal.unwrap(), "{f:?}");
    }
}

/// The series add up to what was delivered after the warm-up, and no interval exceeds the line rate.
#[test]
fn the_goodput_series_counts_the_measured_part() {
    let rate = BitRate::from_gbps(10);
    let mut e = experiment(one_switch(2, rate), long(&[(0, 1)]), Time::from_ms(20));
    e.record.sample_every = Time::from_ms(1);
    let o = run(&e);
    let series = &o.goodput_series[0].1;
    assert_eq!(series.len(), 15);
    assert!(series.iter().all(|&bytes| bytes <= rate.bytes_in(Time::from_ms(1)) + 65_536), "{series:?}");
    assert_eq!(series.iter().sum::<u64>(), o.flows[0].delivered_measured);
    let uplink = o.ports.iter().find(|p| p.name == "host0-switch1").unwrap();
    assert_eq!((uplink.utilisation_series.len(), uplink.queue_series.len()), (15, 15));
    assert!(uplink.utilisation_series.iter().all(|&u| u > 0.9));
}

/// Flowcells over four disjoint paths carry what one non-blocking switch would; hashing whole flows cannot.
#[test]
fn flowcells_balance_where_hashing_collides() {
    let total = |balance, reorder| {
        let elephants = Workload::new("elephants", Pattern::Stride { k: 8, size: None });
        let mut e = experiment(clos16(), vec![elephants], Time::from_ms(100));
        e.racks = HostMap::uniform(16, 4);
        e.edge = EdgeConfig { balance, reorder, ..EdgeConfig::default() };
        let o = run(&e);
        (0..16).map(|f| goodput(&e, &o, f)).sum::<f64>() / (16.0 * 10e9 * 1460.0 / 1538.0)
    };
    let flowcells = total(edge::Balance::flowcell(Bytes::kib(64)), Some(edge::reorder::Config::default()));
    let hashed = total(edge::Balance::ecmp(), None);
    assert!(flowcells > 0.95, "flowcells: {flowcells}");
    assert!(hashed < 0.85 * flowcells, "hashed: {hashed}, flowcells: {flowcells}");
}

fn listed(flows: &[(Time, u64)], connection: Connection) -> Vec<Workload> {
    let spec = |&(start, size): &(Time, u64)| FlowSpec {
        start,
        src: 0,
        dst: 1,
        size: Some(size),
        class: 0,
        reply: false,
        request: None,
        connection,
        tag: 0,
    };
    vec![Workload::new("listed", Pattern::List(flows.iter().map(spec).collect()))]
}

/// A record tells of its own message, not of all that the connection ever carried.
#[test]
fn messages_of_a_persistent_connection_are_counted_apart() {
    let flows: Vec<_> = (0..3).map(|i| (Time::from_ms(5 * i), 14_600)).collect();
    let mut e =
        experiment(one_switch(2, BitRate::from_gbps(10)), listed(&flows, Connection::Persistent), Time::from_ms(20));
    e.hosts.gro = Gro::Off;
    let o = run(&e);
    assert_eq!(o.peak_connections, 1);
    assert_eq!(o.flows.iter().map(|f| f.segments_received).collect::<Vec<_>>(), [10, 10, 10]);
}

/// Connections that follow one another in one slot each number their flowcells from zero.
#[test]
fn flowcells_of_successive_connections_are_not_mixed() {
    let flows: Vec<_> = (0..4).map(|i| (Time::from_ms(5 * i), 150_000)).collect();
    let mut e = experiment(one_switch(2, BitRate::from_gbps(10)), listed(&flows, Connection::Fresh), Time::from_ms(30));
    e.warmup = Time::ZERO;
    e.edge.balance = edge::Balance::flowcell(Bytes::kib(64));
    e.record.flowcells = true;
    let o = run(&e);
    assert!(o.peak_connections < 4, "no slot was used again");
    assert!(o.flowcell_disorder.len() >= 8, "{:?}", o.flowcell_disorder);
    assert!(o.flowcell_disorder.iter().all(|&strangers| strangers == 0), "{:?}", o.flowcell_disorder);
}

/// What happens in the drain is in no rate and in no queue.
#[test]
fn the_drain_is_not_measured() {
    let outcome = |drain| {
        let mut e = mixed(1);
        e.warmup = Time::from_ms(5);
        e.drain = drain;
        run(&e)
    };
    let (without, with) = (outcome(Time::ZERO), outcome(Time::from_ms(20)));
    assert!(with.ended_at > without.ended_at);
    assert_eq!(with.measured_until, Time::from_ms(20));
    let flows = |o: &Outcome| o.flows.iter().map(|f| f.delivered_measured).collect::<Vec<_>>();
    assert_eq!(flows(&with), flows(&without));
    let ports = |o: &Outcome| {
        o.ports.iter().map(|p| (p.utilisation, p.queue_mean_bytes, p.queue_max_bytes)).collect::<Vec<_>>()
    };
    assert_eq!(ports(&with), ports(&without));
}

#[test]
fn packets_lost_on_wires_are_losses() {
    let mut e = experiment(one_switch(2, BitRate::from_gbps(10)), one_message(1), Time::from_ms(10));
    e.loss = RandomLoss { per_million: 1_000_000 };
    let o = run(&e);
    let s = host::measure::summarise(&o, &["one".to_owned()], e.warmup, &host::measure::Buckets::default());
    assert_eq!((o.lost_packets, s.get("loss.packets_per_million")), (1, Some(1e6)));
}

/// Of what a link carries within a window, and no hole that fills in it counts for the bytes behind it, which came before. A poll
/// may hand up what arrived shortly before the window.
#[test]
fn throughput_is_never_above_the_link() {
    let rate = BitRate::from_gbps(1);
    let link = rate.as_bps() as f64 * 1460.0 / 1538.0;
    let topology = SingleSwitch { hosts: 2, host_rate: rate, host_delay: Time::from_us(250) }.build().unwrap();
    let mut e = experiment(topology, long(&[(0, 1)]), Time::ZERO);
    e.loss = RandomLoss { per_million: 500 };
    let mut in_order_exceeds = false;
    for n in 40..160 {
        let span = Time::from_us(500);
        e.warmup = span * n;
        e.duration = e.warmup + span;
        let o = run(&e);
        assert!(goodput(&e, &o, 0) <= 1.05 * link, "window {n}: {:.2} Gbps", goodput(&e, &o, 0) / 1e9);
        // In order, as an application would count.
        let before = run(&Experiment { duration: e.warmup, warmup: Time::ZERO, ..e.clone() }).flows[0].delivered;
        in_order_exceeds |= (o.flows[0].delivered - before) as f64 * 8.0 / span.as_secs_f64() > 1.3 * link;
    }
    assert!(in_order_exceeds, "the losses make no hole that fills: the test shows nothing");
}
