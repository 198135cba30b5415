//! `selvedge bench lab`: the smallest round trip at which this machine is in time, and its cost.

use super::arguments::BenchArguments;
use super::dctcp::Dctcp;
use super::run::{conduct, setup, shortest};
use super::topo;
use crate::scenario::{Choice, Plan, BUILT_IN};
use crate::Failure;
use serde::Serialize;
use std::fs;
use units::Time;

/// What was measured with one round trip. Shares are of one core; the machine's counts everything that ran meanwhile.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// As asked for: between the hosts farthest apart, without serialisation and waiting for polls.
    rtt_us: f64,
    /// Between hosts that had traffic, with these.
    idle_rtt_us: f64,
    valid: bool,
    lateness_p50_us: f64,
    lateness_p99_us: f64,
    lateness_max_us: f64,
    goodput_mbps_per_host: f64,
    packets_per_s: f64,
    packet_hops_per_s: f64,
    lab_cpu: f64,
    machine_cpu: Option<f64>,
    /// What the hypervisor kept for others while this machine wanted to run: no lab can be on time then.
    stolen_cpu: Option<f64>,
}

/// Whether any round trip was valid.
///
/// # Errors
/// A fabric that makes no sense, or no lab to be had here.
pub fn bench(arguments: &BenchArguments) -> Result<bool, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    if !arguments.json {
        say!("{}, {}, every host sends to one half-way round, cubic", arguments.topo, arguments.scheme);
        say!(
            "{:>9} {:>9} {:>28} {:>14} {:>12} {:>10} {:>8} {:>8} {:>7}",
            "rtt",
            "idle",
            "lateness p50 / p99 / max us",
            "Mbps per host",
            "packets/s",
            "hops/s",
            "lab cpu",
            "machine",
            "stolen"
        );
    }
    for &rtt in &arguments.rtt {
        let row = measure(arguments, rtt)?;
        if !arguments.json {
            show(&row);
        }
        let valid = row.valid;
        rows.push(row);
        if !valid {
            break;
        }
    }
    let smallest = rows.iter().rev().find(|r| r.valid).map(|r| r.rtt_us);
    if arguments.json {
        let version = env!("CARGO_PKG_VERSION");
        let (topo, scheme) = (&arguments.topo, &arguments.scheme);
        crate::say::json(&serde_json::json!({
            "version": version, "topo": topo, "scheme": scheme, "smallest_valid_rtt_us": smallest, "runs": rows,
        }));
    } else {
        match smallest {
            Some(us) => say!("smallest valid round trip: {}", Time::from_ns((us * 1e3) as u64)),
            None => say!("none of these round trips is valid here"),
        }
    }
    Ok(smallest.is_some())
}

fn measure(arguments: &BenchArguments, rtt: Time) -> Result<Row, Failure> {
    let text = format!("{},rtt={rtt}", arguments.topo);
    // How many hosts there are, only the fabric knows; a stride of half of them suits all.
    let hosts = Plan::new(&topo::one_line(&text)?, &plainest())?.schemes[0].template().topology.n_hosts();
    let workload =
        format!("\n[[workload]]\nname = \"bulk\"\npattern = \"stride\"\nk = {}\nconnection = \"fresh\"\n", hosts / 2);
    let mut document = topo::one_line_with(&text, &workload)?;
    let warmup = Time::from_ms(500);
    document.set(&format!("duration={}", arguments.duration.saturating_add(warmup)))?;
    document.set(&format!("warmup={warmup}"))?;
    for assignment in &arguments.set {
        crate::input::set(&mut document, assignment)?;
    }
    let plan = Plan::new(&document, &Choice { schemes: vec![arguments.scheme.clone()], seeds: None })?;
    let experiment = plan.schemes[0].experiment(1);
    let setup = setup(&experiment, &arguments.tuning);
    let before = Ticks::now();
    let run = conduct(&experiment, &setup, &Dctcp::register(&[])?, &mut |_| {})?;
    let spent = Ticks::now().zip(before).map(|(after, before)| after.since(before));
    let idle = shortest(&setup, &run.report.outcome);
    let verdict = run.measurement.lateness.verdict(idle).with_programs(&run.report.lateness);
    let seconds = run.measurement.span.as_secs_f64().max(1e-9);
    let bytes: u64 = run.report.outcome.flows.iter().map(|f| f.delivered_measured).sum();
    let packets: u64 = run.measurement.hosts.iter().map(|h| h.rx_packets).sum();
    Ok(Row {
        rtt_us: rtt.as_us_f64(),
        idle_rtt_us: verdict.rtt.as_us_f64(),
        valid: verdict.is_valid(),
        lateness_p50_us: verdict.p50.as_us_f64(),
        lateness_p99_us: verdict.p99.as_us_f64(),
        lateness_max_us: verdict.max.as_us_f64(),
        goodput_mbps_per_host: bytes as f64 * 8.0 / 1e6 / seconds / hosts.max(1) as f64,
        packets_per_s: packets as f64 / seconds,
        packet_hops_per_s: run.measurement.packet_hops as f64 / seconds,
        lab_cpu: run.measurement.cpu.as_secs_f64() / seconds,
        machine_cpu: spent.map(|(busy, _)| busy),
        stolen_cpu: spent.map(|(_, stolen)| stolen),
    })
}

fn plainest() -> Choice {
    Choice { schemes: vec![BUILT_IN[0].name.to_owned()], seeds: None }
}

/// What /proc/stat has counted since the machine started.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    /// Of all cores, stolen ones too.
    busy: f64,
    stolen: f64,
    /// Share of one core, for all its work.
    elapsed: f64,
}

impl Ticks {
    fn now() -> Option<Ticks> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let mut lines = stat.lines();
        let all: Vec<f64> = lines.next()?.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
        let cores = lines.filter(|l| l.starts_with("cpu")).count().max(1) as f64;
        let idle = all.get(3)? + all.get(4)?;
        // Guests' time is counted among users' already.
        let total: f64 = all.iter().take(8).sum();
        Some(Ticks { busy: total - idle, stolen: *all.get(7)?, elapsed: total / cores })
    }

    /// Cores busy and cores stolen since then, on average.
    fn since(self, before: Ticks) -> (f64, f64) {
        let elapsed = (self.elapsed - before.elapsed).max(1e-9);
        ((self.busy - before.busy) / elapsed, (self.stolen - before.stolen) / elapsed)
    }
}

fn show(row: &Row) {
    let lateness = format!("{:.0} / {:.0} / {:.0}", row.lateness_p50_us, row.lateness_p99_us, row.lateness_max_us);
    let percent = |share: Option<f64>, digits| share.map_or("-".into(), |x| format!("{:.*}%", digits, x * 100.0));
    say!(
        "{:>9} {:>9} {:>28} {:>14.1} {:>12.0} {:>10.0} {:>7.0}% {:>8} {:>7}{}",
        format!("{:.0}us", row.rtt_us),
        format!("{:.0}us", row.idle_rtt_us),
        lateness,
        row.goodput_mbps_per_host,
        row.packets_per_s,
        row.packet_hops_per_s,
        row.lab_cpu * 100.0,
        percent(row.machine_cpu, 0),
        percent(row.stolen_cpu, 1),
        if row.valid { "" } else { "  NOT VALID" }
    );
}
