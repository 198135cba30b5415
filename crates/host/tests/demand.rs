//! What a workload is estimated to keep open, against what a run of it does.

use fabric::{Multipath, RandomLoss, SwitchConfig};
use host::experiment::{EdgeConfig, Experiment, HostConfig, Record};
use host::workload::{Connection, FlowSpec, HostMap, Pattern, Workload};
use sim::{Purpose, Stream};
use topology::SingleSwitch;
use units::{BitRate, Time};

const HOSTS: u32 = 8;
const RATE: BitRate = BitRate::from_gbps(10);

fn experiment(flows: Vec<FlowSpec>) -> Experiment {
    Experiment {
        topology: SingleSwitch { hosts: HOSTS, host_rate: RATE, host_delay: Time::from_us(1) }.build().unwrap(),
        racks: HostMap::uniform(HOSTS, 1),
        switches: SwitchConfig::default(),
        multipath: Multipath::Ecmp,
        loss: RandomLoss::default(),
        failures: Vec::new(),
        reroute_after: Time::from_ms(10),
        hosts: HostConfig::default(),
        edge: EdgeConfig::default(),
        workloads: vec![Workload::new("listed", Pattern::List(flows))],
        duration: Time::from_ms(20),
        drain: Time::ZERO,
        warmup: Time::ZERO,
        seed: 1,
        record: Record::default(),
    }
}

/// So many flows at random moments of so long, between random hosts, or all to the last one; bytes.
fn flows(count: u32, within: Time, size: u64, incast: bool) -> Vec<FlowSpec> {
    let mut chance = Stream::new(7, u64::from(count), Purpose::Arrivals);
    let mut flow = |tag| {
        let src = chance.below(u64::from(HOSTS) - 1) as u32;
        let dst = if incast { HOSTS - 1 } else { (src + 1 + chance.below(u64::from(HOSTS) - 1) as u32) % HOSTS };
        let start = Time::from_ps(chance.below(within.as_ps().max(1)));
        let (connection, request, size) = (Connection::Fresh, None, Some(size));
        FlowSpec { start, src, dst, size, class: 0, reply: false, request, connection, tag }
    };
    (0..count).map(&mut flow).collect()
}

/// The most flows of a run that have started and not ended.
fn counted(experiment: &Experiment) -> f64 {
    let outcome = host::run(experiment, &mut |_| {}).unwrap();
    let starts = outcome.flows.iter().map(|flow| (flow.start, 1));
    let ends = outcome.flows.iter().filter_map(|flow| Some((flow.finish?, -1)));
    let mut changes: Vec<(Time, i32)> = starts.chain(ends).collect();
    changes.sort_unstable();
    let (mut open, mut most) = (0, 0);
    for (_, change) in changes {
        open += change;
        most = most.max(open);
    }
    f64::from(most)
}

#[test]
fn a_lists_open_flows_are_as_estimated() {
    for (name, flows, least) in [
        ("all at once", flows(600, Time::ZERO, 20_000, false), 600.0),
        ("few at a time", flows(600, Time::from_ms(20), 20_000, false), 2.0),
        ("to one host, more than it gets", flows(600, Time::from_ms(4), 20_000, true), 250.0),
        ("to one host, at last less", flows(600, Time::from_ms(15), 20_000, true), 3.0),
    ] {
        let experiment = experiment(flows);
        let estimate = experiment.workloads[0].demand(&experiment.racks, experiment.duration, RATE);
        let counted = counted(&experiment);
        println!("{name}: {estimate:?}, {counted} counted");
        assert!(estimate.flows == 600.0 && counted >= least, "{name}: {counted}");
        // A few more are open where all are short: slow starts are not known.
        assert!(
            estimate.open >= counted / 2.0 - 8.0 && estimate.open <= 2.0 * counted,
            "{name}: {estimate:?}, {counted}"
        );
    }
}
