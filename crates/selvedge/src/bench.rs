//! `selvedge bench sim`: speed and memory of the simulator.

use crate::cli::BenchSim;
use crate::scenario::{Choice, Plan};
use crate::{table, Failure};
use config::{ConfigError, Document};
use serde::Serialize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

/// What was measured. Memory is the growth of the resident set from before the experiment was built to its peak
/// (`VmHWM` less `VmRSS` of /proc/self/status), so it has the granularity of a page and includes the allocator's slack.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    pub version: &'static str,
    pub scheme: String,
    pub hosts: u32,
    pub threads: usize,
    pub flows: usize,
    pub simulated_s: f64,
    pub wall_s: f64,
    pub packet_hops: u64,
    pub packet_hops_per_s: f64,
    pub events: u64,
    pub events_per_s: f64,
    pub goodput_gbps_per_host: f64,
    pub memory_bytes: Option<u64>,
    pub memory_bytes_per_host: Option<f64>,
    pub memory_bytes_per_flow: Option<f64>,
    /// With several threads: how the run was cut.
    pub windows: Option<Windows>,
    /// With several threads, before and after the run: how long a cache line takes from one core to another.
    pub hand_over_ns: Option<[f64; 2]>,
}

/// Of a run in parts.
#[derive(Clone, Debug, Serialize)]
pub struct Windows {
    pub parts: usize,
    pub lookahead_s: f64,
    pub windows: u64,
    /// Events of the part that has all hosts, and of the others.
    pub hosts_part_events: u64,
    pub other_events: u64,
    /// Of the busiest of the others in each window, summed.
    pub busiest_other_events: u64,
    /// Of the busiest part in each window, and of the busiest thread, if threads take the parts with most events first, summed.
    pub critical_events: u64,
    pub busiest_thread_events: u64,
    /// All events over `critical_events`, with any number of threads; and over `busiest_thread_events`, with these.
    pub most_speedup: f64,
    pub speedup: f64,
}

impl Windows {
    fn of(windows: &host::Windows) -> Option<Windows> {
        let events = windows.hosts_part_events + windows.other_events;
        let over = |busiest: u64| events as f64 / busiest.max(1) as f64;
        (windows.parts > 0).then(|| Windows {
            parts: windows.parts,
            lookahead_s: windows.lookahead.as_secs_f64(),
            windows: windows.windows,
            hosts_part_events: windows.hosts_part_events,
            other_events: windows.other_events,
            busiest_other_events: windows.busiest_other_events,
            critical_events: windows.critical_events,
            busiest_thread_events: windows.busiest_thread_events,
            most_speedup: over(windows.critical_events),
            speedup: over(windows.busiest_thread_events),
        })
    }
}

/// # Errors
/// A number of hosts that no fat-tree has, or an unknown scheme.
#[allow(clippy::disallowed_methods)] // a benchmark reads the clock
pub fn sim(arguments: &BenchSim) -> Result<(), Failure> {
    let plan = plan(arguments)?;
    let several = arguments.threads > 1;
    let near = several.then(hand_over_ns);
    let before = status("VmRSS:");
    let experiment = plan.schemes[0].experiment(arguments.seed);
    let begun = Instant::now();
    let outcome = host::run_on(&experiment, arguments.threads, &mut |_| {}).map_err(|problem| {
        crate::run::RunError::Workload { scheme: arguments.scheme.clone(), seed: arguments.seed, problem }
    })?;
    let wall_s = begun.elapsed().as_secs_f64();
    let hand_over_ns = near.map(|before| [before, hand_over_ns()]);
    let memory = before.zip(status("VmHWM:")).map(|(before, peak)| peak.saturating_sub(before));
    let hosts = arguments.hosts;
    let flows = outcome.flows.len();
    let simulated_s = outcome.ended_at.as_secs_f64();
    let delivered: u64 = outcome.flows.iter().map(|f| f.delivered).sum();
    let speed = Speed {
        version: env!("CARGO_PKG_VERSION"),
        scheme: arguments.scheme.clone(),
        hosts,
        threads: arguments.threads,
        flows,
        simulated_s,
        wall_s,
        packet_hops: outcome.packet_hops,
        packet_hops_per_s: outcome.packet_hops as f64 / wall_s,
        events: outcome.events,
        events_per_s: outcome.events as f64 / wall_s,
        goodput_gbps_per_host: delivered as f64 * 8.0 / simulated_s / 1e9 / f64::from(hosts),
        memory_bytes: memory,
        memory_bytes_per_host: memory.map(|m| m as f64 / f64::from(hosts)),
        memory_bytes_per_flow: memory.map(|m| m as f64 / flows.max(1) as f64),
        windows: Windows::of(&outcome.windows),
        hand_over_ns,
    };
    if arguments.json {
        crate::say::json(&serde_json::json!(speed));
    } else {
        print(&speed);
    }
    Ok(())
}

/// How long a cache line takes from one thread to another, ns: the mean of 20 ms. Virtual machines' cores move nearer and further apart.
#[allow(clippy::disallowed_methods)] // a benchmark reads the clock
fn hand_over_ns() -> f64 {
    const AWAY: u32 = 1;
    let (ball, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let wait_for = |side: u32| {
        let mut looks = 0;
        while ball.load(Acquire) != side && !over.load(Relaxed) {
            looks += 1;
            // Whoever else is to have the core.
            if looks < 1000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                wait_for(AWAY);
                ball.store(0, Release);
            }
        });
        let (mut begun, mut passes) = (Instant::now(), 0);
        while begun.elapsed().as_millis() < 20 {
            for _ in 0..50 {
                ball.store(AWAY, Release);
                wait_for(0);
            }
            // Until then the other thread may not have begun.
            match passes {
                0 => (begun, passes) = (Instant::now(), 1),
                _ => passes += 100,
            }
        }
        let took = begun.elapsed();
        over.store(true, Relaxed);
        took.as_secs_f64() * 1e9 / f64::from(passes.max(1))
    })
}

fn plan(arguments: &BenchSim) -> Result<Plan, ConfigError> {
    let k = (2..=96).step_by(2).find(|k: &u32| k * k * k / 4 >= arguments.hosts).unwrap_or(96);
    if k * k * k / 4 != arguments.hosts {
        return Err(ConfigError::new(
            "--hosts",
            format!("no fat-tree has {} hosts", arguments.hosts),
            format!("the next that has them is {} (k = {k})", k * k * k / 4),
        ));
    }
    if arguments.duration == units::Time::ZERO {
        return Err(ConfigError::new("--duration", "in no time nothing happens", "write one such as 10ms"));
    }
    let text = format!(
        "title = \"bench\"\nduration = \"{}\"\n\
         [topology]\nkind = \"fat-tree\"\nk = {k}\nrate = \"10Gbps\"\ndelay = \"1us\"\n\
         [switch]\necn = {{k = \"65KB\"}}\n\
         [host.tcp]\ncongestion = \"dctcp\"\nrto_min = \"10ms\"\n\
         [record]\nsample_every = \"0s\"\n\
         [[workload]]\nname = \"permutation\"\npattern = \"random-bijection\"\n",
        arguments.duration
    );
    let document = Document::parse("bench sim", &text, "docs/scenarios.md")?;
    Plan::new(&document, &Choice { schemes: vec![arguments.scheme.clone()], seeds: None })
}

/// A value of /proc/self/status in bytes.
fn status(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn print(speed: &Speed) {
    say!(
        "{} hosts in a fat-tree, permutation, DCTCP, 10 Gbps, {}: {} s simulated in {} s on {}",
        speed.hosts,
        speed.scheme,
        table::number(speed.simulated_s),
        table::number(speed.wall_s),
        if speed.threads == 1 { "one core".to_owned() } else { format!("{} threads", speed.threads) }
    );
    if let Some(w) = &speed.windows {
        let each = |events: u64| table::number(events as f64 / w.windows.max(1) as f64);
        say!(
            "windows          {} of at most {} us: {} events in the hosts' part, {} in {} others, {} in the busiest of these",
            w.windows,
            table::number(w.lookahead_s * 1e6),
            each(w.hosts_part_events),
            each(w.other_events),
            w.parts - 1,
            each(w.busiest_other_events)
        );
        say!(
            "critical path    {} events a window in the busiest part, {} in the busiest of {} threads: at most {:.2} and {:.2} times one \
             thread's speed, if all events take as long",
            each(w.critical_events),
            each(w.busiest_thread_events),
            speed.threads,
            w.most_speedup,
            w.speedup
        );
    }
    if let Some([before, after]) = speed.hand_over_ns {
        say!("cores            a cache line takes {before:.0} ns from one to the other before the run, {after:.0} ns after it");
    }
    say!("packet-hops/s    {:.2} million ({} in all)", speed.packet_hops_per_s / 1e6, speed.packet_hops);
    say!("events/s         {:.2} million ({} in all)", speed.events_per_s / 1e6, speed.events);
    say!("goodput          {} Gbps per host", table::number(speed.goodput_gbps_per_host));
    if let (Some(all), Some(host), Some(flow)) =
        (speed.memory_bytes, speed.memory_bytes_per_host, speed.memory_bytes_per_flow)
    {
        say!(
            "memory           {} MB: {:.1} KB per host, {:.1} KB per flow (growth of the resident set)",
            table::number(all as f64 / 1e6),
            host / 1e3,
            flow / 1e3
        );
    }
}
