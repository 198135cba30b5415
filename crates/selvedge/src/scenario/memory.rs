//! Estimate of a plan's memory. A plan that does not fit is refused before it runs.

use super::network::Kind;
use super::Scenario;
use crate::sharing::threads_of;
use config::Invalid;
use fabric::{Cut, Multipath, FLOWLET_TABLE_BYTES};
use host::experiment::Experiment;
use host::workload::{Demand, FlowSpec, Pattern, Workload};
use std::path::Path;
use topology::Topology;
use units::{BitRate, Bytes, Time};

/// Measured: what a run holds by itself, per host, per port, per open connection with its packets; what is kept of each run, per port
/// and per flow; what each node and link of a fabric takes that has not begun to run.
const RUN: f64 = 8e6;
const HOST: f64 = 3_500.0;
const PORT: f64 = 800.0;
const KEPT_PORT: f64 = 300.0;
const OPEN: f64 = 3_000.0;
const RECORD: f64 = 160.0;
const NODE: f64 = 250.0;
/// Measured likewise, with 8,192 hosts and 2, 4 and 8 threads, per port: what a run on several threads has for each further part, and
/// once. Every part has all ports and nodes, and packets of its own.
const PART_PORT: f64 = 280.0;
const CUT_PORT: f64 = 450.0;

/// What a leaf with CONGA knows of another: 16 uplinks in two tables.
const CONGESTION: f64 = 640.0;

/// Path states, labels and what is owed to another host, where a scheme keeps that; of so many others at most. Whoever gets a packet
/// answers, so both ends of a pair have them.
const PATHS: f64 = 9_000.0;
const PEERS: f64 = 4_096.0;

/// The memory that runs may take.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// What the machine has free if it is not given.
    pub most: Option<Bytes>,
    /// Cores: runs at a time, or threads that fewer runs share.
    pub threads: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { most: None, threads: 1 }
    }
}

/// One cause of it.
struct Part {
    bytes: f64,
    key: String,
    what: String,
    remedy: &'static str,
}

/// The bytes that the runs will need. Refuses a scheme that would need more than there is; the error names the first part that
/// alone is too much, or the largest.
pub(super) fn check(scenario: &Scenario, schemes: usize, experiment: &Experiment, room: Room) -> Result<f64, Invalid> {
    let runs = (scenario.seeds.0.len() * schemes).max(1) as f64;
    let at_once = (room.threads as f64).clamp(1.0, runs);
    let threads = threads_of(0, room.threads, at_once as usize, experiment.topology.n_hosts());
    let mut parts = vec![
        of_fabric(scenario, experiment, (at_once, runs), (schemes, threads)),
        of_series(scenario, experiment, runs),
    ];
    parts.extend((0..experiment.workloads.len()).map(|n| of_workload(experiment, n, (at_once, runs), schemes)));
    let needed: f64 = parts.iter().map(|part| part.bytes).sum();
    let (most, whose) = match room.most {
        Some(most) => (most.get(), "--memory allows"),
        None => (available(), "this machine has free"),
    };
    if needed <= most as f64 {
        return Ok(needed);
    }
    // Hosts come first: how many there are decides about all that follows.
    let alone = parts.iter().position(|part| part.bytes > most as f64);
    let largest = (0..parts.len()).max_by(|&a, &b| parts[a].bytes.total_cmp(&parts[b].bytes));
    let Part { key, what, remedy, .. } = parts.swap_remove(alone.or(largest).unwrap_or_default());
    let fewer = match (at_once > 1.0, threads) {
        (true, _) => ", or run fewer at a time",
        (false, 2..) => ", or give it fewer threads",
        _ => "",
    };
    let problem = format!("needs about {} for {what}, and {whose} {}", shown(needed), shown(most as f64));
    Err(Invalid::new(key, problem, format!("{remedy}{fewer}")))
}

/// `threads`: of each run.
fn of_fabric(
    scenario: &Scenario,
    experiment: &Experiment,
    (at_once, runs): (f64, f64),
    (schemes, threads): (usize, usize),
) -> Part {
    let fabric = &experiment.topology;
    let (nodes, leaves) = (fabric.nodes.len() as f64, fabric.leaves().len() as f64);
    let idle = (nodes + fabric.links.len() as f64) * NODE * (schemes as f64 + at_once);
    let flowlets = match experiment.multipath {
        Multipath::LetFlow { .. } => fabric.n_switches() as f64 * FLOWLET_TABLE_BYTES as f64,
        Multipath::Conga { .. } => leaves * FLOWLET_TABLE_BYTES as f64 + leaves * leaves * CONGESTION,
        _ => 0.0,
    };
    let hosts = fabric.n_hosts() as f64;
    let kept = if experiment.edge.balance.keeps().is_some() { known(experiment) * PATHS } else { 0.0 };
    let ports = 2.0 * fabric.links.len() as f64;
    let shared = match further_parts(fabric, threads) {
        0.0 => 0.0,
        further => ports * CUT_PORT + further * (ports * PART_PORT + flowlets),
    };
    let tables = fabric.n_switches() as f64 * leaves * 4.0 + flowlets;
    let running = (RUN + hosts * HOST + ports * PORT + tables + kept + shared) * at_once;
    let finished = ports * KEPT_PORT * runs;
    let key = match scenario.topology.kind {
        Kind::Clos => "hosts_per_leaf",
        Kind::FatTree => "k",
        Kind::SingleSwitch => "hosts",
        Kind::Dumbbell => "pairs",
        Kind::ParkingLot => "hops",
        Kind::File => "path",
    };
    Part {
        bytes: idle + running + finished,
        key: format!("topology.{key}"),
        what: format!("{} hosts and {} switches", fabric.n_hosts(), fabric.n_switches()),
        remedy: "give a smaller fabric",
    }
}

/// The parts of a run on so many threads beyond the first.
fn further_parts(fabric: &Topology, threads: usize) -> f64 {
    if threads < 2 {
        return 0.0;
    }
    let last = |cut: Cut| fabric.switches().map(|switch| cut.owner(switch)).max();
    Cut::new(fabric, threads).ok().and_then(last).unwrap_or(0) as f64
}

/// How many hosts know paths to how many others, in all.
fn known(experiment: &Experiment) -> f64 {
    let hosts = experiment.topology.n_hosts() as f64;
    let all = hosts * (hosts - 1.0).clamp(0.0, PEERS);
    let edge = &experiment.edge;
    // A controller tells of all that it changes, and guests' addresses are known beforehand.
    if edge.controller.is_some() || experiment.guests().any(|guest| guest > 0) {
        return all;
    }
    let pairs = |workload: &Workload| {
        let drawn = matches!(workload.pattern, Pattern::Mice { .. } | Pattern::Poisson { .. } | Pattern::FanOut { .. });
        let pairs = workload.pairs(&experiment.racks, experiment.duration);
        let flows = || workload.demand(&experiment.racks, experiment.duration, host_rate(experiment)).flows;
        if drawn {
            pairs.min(flows())
        } else {
            pairs
        }
    };
    let talking = 2.0 * experiment.workloads.iter().map(pairs).sum::<f64>();
    (talking + hosts * experiment.hosts.plain.len() as f64).min(all)
}

fn of_series(scenario: &Scenario, experiment: &Experiment, runs: f64) -> Part {
    let every = scenario.record.sample_every;
    let instants = match every {
        Time::ZERO => 0.0,
        every => (scenario.duration - scenario.warmup).as_ps() as f64 / every.as_ps() as f64,
    };
    let ports = 2.0 * experiment.topology.links.len() as f64;
    Part {
        bytes: instants * ports * 8.0 * runs,
        key: "record.sample_every".to_owned(),
        what: format!("{:.0} samples of {runs} runs", instants * ports),
        remedy: "give a longer time, or \"0s\" for no series",
    }
}

/// What the flows of bounded size have to carry, payload.
pub(crate) fn planned_bytes(experiment: &Experiment) -> f64 {
    let demand = |workload: &Workload| workload.demand(&experiment.racks, experiment.duration, host_rate(experiment));
    experiment.workloads.iter().map(|workload| demand(workload).bytes).sum()
}

fn host_rate(experiment: &Experiment) -> BitRate {
    let fabric = &experiment.topology;
    fabric.hosts().map(|host| fabric.links[fabric.host_link(host) as usize].rate).max().unwrap_or_default()
}

fn of_workload(experiment: &Experiment, n: usize, (at_once, runs): (f64, f64), schemes: usize) -> Part {
    let workload = &experiment.workloads[n];
    let Demand { flows, open, .. } = workload.demand(&experiment.racks, experiment.duration, host_rate(experiment));
    // Every scheme has the list, and a run has it twice: as it was read, and in order. Its text is gone by then.
    let listed = match &workload.pattern {
        Pattern::List(list) => (list.len() * size_of::<FlowSpec>()) as f64 * (schemes as f64 + 2.0 * at_once),
        _ => 0.0,
    };
    let (key, remedy) = match workload.pattern {
        Pattern::Poisson { .. } | Pattern::FanOut { .. } => {
            (".load", "lower it, give larger flows or a shorter duration")
        }
        Pattern::Mice { .. } | Pattern::Incast { .. } => (".every", "give a longer time, or a shorter duration"),
        Pattern::Random { .. } => (".flows_per_host", "lower it, or give fewer hosts"),
        Pattern::List(_) => (".path", "list fewer flows, or let fewer be open at a time"),
        Pattern::Sequence { .. } => (".applications", "lower it, or give larger flows or a shorter duration"),
        _ => ("", "give fewer hosts or pairs"),
    };
    Part {
        bytes: flows * RECORD * runs + open * OPEN * at_once + listed,
        key: format!("workload.{n}{key}"),
        what: format!("{flows:.0} flows a run, {open:.0} of them open at a time"),
        remedy,
    }
}

/// "12 MB", "1.5 GB".
pub(crate) fn shown(bytes: f64) -> String {
    match bytes {
        b if b < 1e9 => format!("{:.0} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

/// What this process may still have: of the machine, and of the control groups that it is in.
fn available() -> u64 {
    let read = |path: &Path| files::read_regular_text(path, 1 << 20).unwrap_or_default();
    let meminfo = read(Path::new("/proc/meminfo"));
    let free = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let mut least = free.and_then(|kb| kb.parse::<u64>().ok()).map_or(u64::MAX, |kb| kb.saturating_mul(1024));
    let groups = read(Path::new("/proc/self/cgroup"));
    if let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::/")) {
        for group in Path::new("/sys/fs/cgroup").join(group).ancestors().take_while(|g| g.starts_with("/sys/fs/cgroup"))
        {
            let number = |file: &str| read(&group.join(file)).trim().parse::<u64>().ok();
            if let (Some(most), Some(used)) = (number("memory.max"), number("memory.current")) {
                least = least.min(most.saturating_sub(used));
            }
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Choice, Plan};
    use config::Document;

    /// Of a fat-tree of 128 hosts.
    fn memory(balance: &str, workload: &str) -> f64 {
        on_threads(1, balance, workload)
    }

    fn on_threads(threads: usize, balance: &str, workload: &str) -> f64 {
        let text = format!(
            "title = \"t\"\nduration = \"1ms\"\nschemes = [\"s\"]\n[topology]\nkind = \"fat-tree\"\nk = 8\n\
             [scheme.s]\nbalance = \"{balance}\"\n[[workload]]\nname = \"w\"\n{workload}"
        );
        let document = Document::parse("s.toml", &text, "p").unwrap();
        let room = Room { most: Some(Bytes(1 << 40)), threads };
        Plan::within(&document, &Choice::default(), room).unwrap().memory()
    }

    #[test]
    fn states_of_paths_are_those_of_hosts_that_talk() {
        let paths = |workload: &str| (memory("clove-int", workload) - memory("ecmp", workload)) / PATHS;
        assert_eq!(paths("pattern = \"stride\"\nk = 16\n").round(), 2.0 * 128.0);
        assert_eq!(paths("pattern = \"all-to-all\"\nsize = \"1KB\"\n").round(), 128.0 * 127.0);
        let messages = "pattern = \"mice\"\nsize = \"1KB\"\nevery = \"500us\"\nto = \"other-rack\"\n";
        assert_eq!(paths(messages).round(), 2.0 * 128.0 * 2.0, "no more than messages and their answers");
    }

    #[test]
    fn a_run_on_several_threads_has_all_ports_once_more_for_each_part() {
        let on = |threads| on_threads(threads, "ecmp", "pattern = \"stride\"\nk = 16\n");
        // docs/performance.md has the parts of a fat-tree of 128 hosts: 384 links.
        for (threads, parts) in [(2, 2.0), (8, 8.0), (16, 16.0)] {
            let more = (on(threads) - on(1) - 768.0 * CUT_PORT) / (768.0 * PART_PORT);
            assert_eq!(more.round(), parts - 1.0, "{threads} threads");
        }
    }
}
