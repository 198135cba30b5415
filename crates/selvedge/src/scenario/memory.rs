//! Estimate of a plan's memory. A plan that does not fit is refused before it runs.

use super::network::Kind;
use super::Scenario;
use config::Invalid;
use fabric::{Multipath, FLOWLET_TABLE_BYTES};
use host::experiment::Experiment;
use host::workload::{Demand, Pattern};
use std::path::Path;
use units::{Bytes, Time};

/// Measured: what a run holds by itself, per host, per port, per open connection with its packets; what is kept of each run, per port
/// and per flow; what each node and link of a fabric takes that has not begun to run.
const RUN: f64 = 8e6;
const HOST: f64 = 3_500.0;
const PORT: f64 = 800.0;
const KEPT_PORT: f64 = 300.0;
const OPEN: f64 = 3_000.0;
const RECORD: f64 = 160.0;
const NODE: f64 = 250.0;

/// What a leaf with CONGA knows of another: 16 uplinks in two tables.
const CONGESTION: f64 = 640.0;

/// Path states, labels and what is owed to another host, where a scheme keeps that; of so many others at most.
const PATHS: f64 = 9_000.0;
const PEERS: f64 = 4_096.0;

/// The memory that runs may take.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// What the machine has free if it is not given.
    pub most: Option<Bytes>,
    /// Runs at a time.
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
    let mut parts =
        vec![of_fabric(scenario, experiment, (at_once, runs), schemes), of_series(scenario, experiment, runs)];
    parts.extend((0..experiment.workloads.len()).map(|n| of_workload(experiment, n, at_once, runs)));
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
    let fewer = if at_once > 1.0 { ", or run fewer at a time" } else { "" };
    let problem = format!("needs about {} for {what}, and {whose} {}", shown(needed), shown(most as f64));
    Err(Invalid::new(key, problem, format!("{remedy}{fewer}")))
}

fn of_fabric(scenario: &Scenario, experiment: &Experiment, (at_once, runs): (f64, f64), schemes: usize) -> Part {
    let fabric = &experiment.topology;
    let (nodes, leaves) = (fabric.nodes.len() as f64, fabric.leaves().len() as f64);
    let idle = (nodes + fabric.links.len() as f64) * NODE * (schemes as f64 + at_once);
    let flowlets = match experiment.multipath {
        Multipath::LetFlow { .. } => fabric.n_switches() as f64 * FLOWLET_TABLE_BYTES as f64,
        Multipath::Conga { .. } => leaves * FLOWLET_TABLE_BYTES as f64 + leaves * leaves * CONGESTION,
        _ => 0.0,
    };
    let hosts = fabric.n_hosts() as f64;
    let kept =
        if experiment.edge.balance.keeps().is_some() { hosts * (hosts - 1.0).clamp(0.0, PEERS) * PATHS } else { 0.0 };
    let ports = 2.0 * fabric.links.len() as f64;
    let running =
        (RUN + hosts * HOST + ports * PORT + fabric.n_switches() as f64 * leaves * 4.0 + flowlets + kept) * at_once;
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

fn of_workload(experiment: &Experiment, n: usize, at_once: f64, runs: f64) -> Part {
    let workload = &experiment.workloads[n];
    let fabric = &experiment.topology;
    let rate = fabric.hosts().map(|host| fabric.links[fabric.host_link(host) as usize].rate).max().unwrap_or_default();
    let Demand { flows, open } = workload.demand(&experiment.racks, experiment.duration, rate);
    let (key, remedy) = match workload.pattern {
        Pattern::Poisson { .. } | Pattern::FanOut { .. } => {
            (".load", "lower it, give larger flows or a shorter duration")
        }
        Pattern::Mice { .. } | Pattern::Incast { .. } => (".every", "give a longer time, or a shorter duration"),
        Pattern::Random { .. } => (".flows_per_host", "lower it, or give fewer hosts"),
        Pattern::Sequence { .. } => (".applications", "lower it, or give larger flows or a shorter duration"),
        _ => ("", "give fewer hosts or pairs"),
    };
    Part {
        bytes: flows * RECORD * runs + open * OPEN * at_once,
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
