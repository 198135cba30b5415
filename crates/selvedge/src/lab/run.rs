//! `lab run`: the scenarios of `sim run`, with real TCP over the modelled fabric.

use super::arguments::{RunArguments, Tuning};
use super::dctcp::Dctcp;
use super::ignored::{rack_all_the_same, without_effect};
use super::progress::Line;
use super::unruly::Unruly;
use super::{agreement, LabFailure};
use crate::output::{self, Extras, Staging};
use crate::results::Results;
use crate::run::{default_threads, run_all, Bar, Finished};
use crate::scenario::{Choice, Plan, SchemePlan};
use crate::{figures, reading, sim, Failure};
use host::experiment::Experiment;
use host::outcome::Outcome;
use lab::traffic::{self, HostHandle, Progress, Report};
use lab::{address, congestion, idle_rtt, smallest_rtt, HostNamespace, Lab, Measurement, Setup, Verdict};
use serde_json::{json, Value};
use std::time::Instant;
use units::Time;

/// What the records of a simulation have no place for.
struct Judged {
    scheme: String,
    seed: u64,
    verdict: Verdict,
    counters: Vec<traffic::counters::TcpCounters>,
    start_lag_p99: Time,
    failed: u64,
    notes: Vec<String>,
}

/// Whether the machine kept up in every run.
///
/// # Errors
/// A scenario that makes no sense or cannot be had here, a directory that cannot be written.
pub(super) fn run(arguments: &RunArguments) -> Result<bool, Failure> {
    let mut document = reading::read(&arguments.scenario, &arguments.set)?;
    let choice = Choice { schemes: arguments.scheme.clone(), seeds: arguments.seeds.clone() };
    let mut plan = Plan::new(&document, &choice)?;
    if let Some(scale) = arguments.scale {
        super::carry::scale(&mut document, &plan, scale)?;
        plan = Plan::new(&document, &choice)?;
    }
    let real = plan.without_only_simulated();
    // Schemes of the file that no lab has are simulated where something stands beside them, and else left out; those asked for are not.
    if real.schemes.is_empty() || !arguments.scheme.is_empty() && !arguments.compare {
        super::refuse(&document, &plan)?;
    }
    if arguments.compare && plan.without_unmodelled().schemes.is_empty() {
        plan.modelled()?;
    }
    let beside = arguments.compare.then(|| simulated(&plan)).transpose()?;
    let left_out: Vec<String> =
        plan.schemes.iter().map(|s| s.name.clone()).filter(|name| !real.scenario.schemes.contains(name)).collect();
    plan = real;
    beside.as_ref().map_or(Ok(()), super::carry::refuse)?;
    let staging = arguments.output.as_deref().map(|dir| Staging::new(dir, arguments.force)).transpose()?;
    let laws = laws_of(&plan);
    let dctcp = Dctcp::register(&laws)?;
    let (mut finished, mut judged) = (Vec::new(), Vec::new());
    let mut bar = Line::new(plan.schemes.len() * plan.scenario.seeds.0.len(), plan.scenario.duration);
    for scheme in &plan.schemes {
        for &seed in &plan.scenario.seeds.0 {
            let (done, verdict) = one(arguments, scheme, seed, &dctcp, &mut bar)?;
            finished.push(done);
            judged.push(verdict);
        }
    }
    let results = Results::new(plan, finished);
    let beside = beside.map(|simulated| {
        let counts = |scheme: &str| judged.iter().all(|run| run.scheme != scheme || run.verdict.is_valid());
        let compared = agreement::compare(&simulated, &results, &counts);
        (simulated, compared)
    });
    let kept = staging.map_or(Ok(()), |staging| {
        write(&staging, &results, &judged, beside.as_ref(), &command(arguments))?;
        Ok::<(), Failure>(staging.commit()?)
    });
    if arguments.json {
        let mut metrics = output::metrics(&results);
        metrics["lab"] = lab_json(&judged);
        if let Some((simulated, compared)) = &beside {
            metrics["simulator"] = output::metrics(simulated);
            metrics["agreement"] = json!(compared);
        }
        crate::say::json(&metrics);
    } else {
        match &beside {
            Some((_, compared)) => {
                let title = &results.plan.scenario.title;
                say!("{}: the lab beside the simulator\n", if title.is_empty() { "Scenario" } else { title });
                say_on!("{}", agreement::text(compared));
            }
            None => sim::print_as(&results, "", "of real time"),
        }
        say!("");
        for run in &judged {
            say!("{}", line(run));
            run.notes.iter().for_each(|note| say!("note: {note}"));
        }
        if beside.is_none() && !left_out.is_empty() {
            say!("note: for the simulator alone, which --compare runs beside: {}", left_out.join(", "));
        }
        if beside.is_some() && !judged.iter().all(|run| run.verdict.is_valid()) {
            say!("Runs that are not valid are not judged: docs/lab.md says what helps");
        }
        if let Some(dir) = arguments.output.as_ref().filter(|_| kept.is_ok()) {
            say!("\nResults: {}  Report: {}", dir.display(), dir.join("report.html").display());
        }
    }
    kept?;
    let agrees = beside.iter().flat_map(|(_, compared)| compared).all(|c| c.holds != Some(false));
    Ok(agrees && judged.iter().all(|run| run.verdict.is_valid() && run.failed == 0))
}

/// Packets lost outside the model, which no record has.
fn shortcomings(report: &Report, measurement: &Measurement) -> Vec<String> {
    let dropped: u64 = report.counters.iter().map(|c| c.tx_dropped).sum();
    let refused = measurement.rx_refused;
    let short = measurement.frames_exhausted;
    let mut notes = Vec::new();
    if dropped > 0 {
        notes.push(format!("hosts' devices dropped {dropped} segments that the lab was too late to read"));
    }
    if refused > 0 {
        notes.push(format!("hosts' kernels did not take {refused} segments that had arrived"));
    }
    if short > 0 {
        notes.push(format!("{short} times no buffer was free for what hosts sent; give --frames more"));
    }
    notes
}

/// The same plan in the simulator, without schemes whose guests it does not know.
fn simulated(plan: &Plan) -> Result<Results, Failure> {
    let plan = plan.without_unmodelled();
    let bar = Bar::new([&plan]);
    let finished = run_all(&plan, default_threads(), &bar)?;
    bar.finish();
    Ok(Results::new(plan, finished))
}

/// Results, verdicts and report; of a comparison also the simulator's files, under a prefix.
fn write(
    staging: &Staging,
    results: &Results,
    judged: &[Judged],
    beside: Option<&(Results, Vec<agreement::Compared>)>,
    command: &str,
) -> Result<(), Failure> {
    let extras = Extras::default();
    let pretty = |value: &Value| format!("{value:#}\n");
    output::write(results, staging, "", &extras)?;
    staging.write("lab.json", pretty(&lab_json(judged)))?;
    let mut report = figures::report(results, command);
    if let Some((simulated, compared)) = beside {
        output::write(simulated, staging, "sim.", &extras)?;
        staging.write("agreement.json", pretty(&json!(compared)))?;
        report = agreement::report(figures::report(simulated, command), report, compared);
    }
    report.warnings.extend(judged.iter().map(line));
    output::write_report(staging, &report)?;
    Ok(())
}

/// The congestion control of each workload, by Linux's names.
fn laws(experiment: &Experiment) -> Vec<String> {
    let own = |w: &host::workload::Workload| w.congestion.unwrap_or(experiment.hosts.tcp.congestion);
    experiment.workloads.iter().map(|w| congestion(own(w)).to_owned()).collect()
}

fn laws_of(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> = plan.schemes.iter().flat_map(|s| laws(s.template())).collect();
    all.sort();
    all.dedup();
    all
}

#[allow(clippy::disallowed_methods)] // how long the run took is reported, not used
fn one(
    arguments: &RunArguments,
    scheme: &SchemePlan,
    seed: u64,
    dctcp: &Dctcp,
    bar: &mut Line,
) -> Result<(Finished, Judged), Failure> {
    let begun = Instant::now();
    let experiment = scheme.experiment(seed);
    let setup = setup(&experiment, &arguments.tuning);
    bar.begin(&scheme.name, seed);
    let run = conduct(&experiment, &setup, dctcp, &mut |progress| bar.show(progress));
    bar.clear();
    let Run { report, measurement, mut notes } = run?;
    notes.extend(shortcomings(&report, &measurement));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    notes.extend(rack_all_the_same(&experiment, &release));
    let ignored = without_effect(&experiment);
    if !ignored.is_empty() {
        notes.push(format!("without effect in a lab: {}", ignored.join(", ")));
    }
    let rtt = shortest(&setup, &report.outcome);
    let judged = Judged {
        scheme: scheme.name.clone(),
        seed,
        verdict: measurement.lateness.verdict(rtt).with_programs(&report.lateness),
        counters: report.counters.clone(),
        start_lag_p99: percentile_99(&report.start_lag),
        failed: report.failed,
        notes,
    };
    let outcome = complete(report, measurement);
    Ok((Finished { scheme: scheme.name.clone(), seed, outcome, wall: begun.elapsed() }, judged))
}

/// The lab of an experiment whose connections ask for their congestion control themselves, as the generator's do.
pub(super) fn setup(experiment: &Experiment, tuning: &Tuning) -> Setup {
    Setup { frames: tuning.frames, spin: tuning.spin, congestion: None, ..Setup::from(experiment) }
}

pub(super) struct Run {
    pub(super) report: Report,
    pub(super) measurement: Measurement,
    notes: Vec<String>,
}

/// Brings a lab up, runs the experiment's traffic over it, and takes it down.
pub(super) fn conduct(
    experiment: &Experiment,
    setup: &Setup,
    dctcp: &Dctcp,
    show: &mut dyn FnMut(Progress),
) -> Result<Run, LabFailure> {
    let lab = Lab::start(setup)?;
    let _unruly = Unruly::arrange(experiment, &lab)?;
    let handle = |(h, namespace): (usize, &HostNamespace)| HostHandle {
        namespace: namespace.path().into(),
        address: address(h as u32).into(),
    };
    let hosts: Vec<HostHandle> = lab.namespaces().iter().enumerate().map(handle).collect();
    let laws: Vec<String> = laws(experiment).iter().map(|law| dctcp.name(law)).collect();
    let mut planned = false;
    let report = traffic::run_preferred(experiment, &laws, &hosts, &mut |progress| {
        if !planned {
            planned = true;
            arrange(&lab, experiment, progress.now);
        }
        show(progress);
    })
    .map_err(|e| LabFailure::Refused(e.to_string()))?;
    let measurement = lab.ask(|driver| driver.take_measurement().unwrap_or_else(|| driver.end_measurement()))?;
    let notes = lab.notes().iter().cloned().chain(report.first_failure.clone()).collect();
    Ok(Run { report, measurement, notes })
}

/// Sets measurement and failures on the lab's clock. The traffic began `since` ago.
fn arrange(lab: &Lab, experiment: &Experiment, since: Time) {
    let (warmup, duration, every) = (experiment.warmup, experiment.duration, experiment.record.sample_every);
    let failures = experiment.failures.clone();
    // If the driver has ended, the run's end will tell.
    let _ = lab.ask(move |driver| {
        let begun = driver.now().saturating_sub(since);
        driver.plan_measurement(begun + warmup, begun + duration, every);
        for failure in failures {
            driver.plan_link(begun + failure.at, failure.link, failure.up);
        }
    });
}

/// The shortest round trip between hosts that had traffic.
pub(super) fn shortest(setup: &Setup, outcome: &Outcome) -> Time {
    let mut pairs: Vec<(u32, u32)> = outcome.flows.iter().map(|f| (f.src, f.dst)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let rtts = pairs.iter().filter_map(|&(src, dst)| idle_rtt(setup, src, dst));
    rtts.min().unwrap_or_else(|| smallest_rtt(setup))
}

fn percentile_99(times: &[Time]) -> Time {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() * 99 / 100).or(sorted.last()).copied().unwrap_or_default()
}

/// The generator's records with those of the fabric.
fn complete(report: Report, measurement: Measurement) -> Outcome {
    Outcome {
        ports: measurement.ports,
        hosts: measurement.hosts,
        lost_packets: measurement.lost_packets,
        packet_hops: measurement.packet_hops,
        events: measurement.events,
        peak_packets: measurement.peak_packets,
        ..report.outcome
    }
}

fn line(run: &Judged) -> String {
    let failed = match run.failed {
        0 => String::new(),
        n => format!("; {n} connections failed"),
    };
    format!("{}, seed {}: {}{failed}", run.scheme, run.seed, run.verdict)
}

fn lab_json(judged: &[Judged]) -> Value {
    let run = |j: &Judged| {
        let hosts: Vec<Value> = j
            .counters
            .iter()
            .map(|c| {
                json!({
                    "segments_in": c.segments_in, "segments_out": c.segments_out,
                    "retransmitted_segments": c.retransmitted_segments, "fast_recoveries": c.fast_recoveries,
                    "timeouts": c.timeouts, "spurious": c.spurious, "undone": c.undone,
                    "out_of_order": c.out_of_order, "marked": c.marked, "tx_dropped": c.tx_dropped,
                })
            })
            .collect();
        json!({
            "scheme": j.scheme, "seed": j.seed, "valid": j.verdict.is_valid(), "frames": j.verdict.frames,
            "lateness_p50_us": j.verdict.p50.as_us_f64(), "lateness_p99_us": j.verdict.p99.as_us_f64(),
            "lateness_max_us": j.verdict.max.as_us_f64(), "rtt_us": j.verdict.rtt.as_us_f64(),
            "programs_p99_us": j.verdict.programs_p99.map(Time::as_us_f64),
            "limit_us": j.verdict.limit.as_us_f64(), "start_lag_p99_us": j.start_lag_p99.as_us_f64(),
            "failed_connections": j.failed, "notes": j.notes, "hosts": hosts,
        })
    };
    judged.iter().map(run).collect()
}

fn command(arguments: &RunArguments) -> String {
    let mut command = format!("selvedge lab run {}", output::shown(&arguments.scenario.display().to_string()));
    if !arguments.scheme.is_empty() {
        command += &format!(" --scheme {}", arguments.scheme.join(","));
    }
    if let Some(seeds) = &arguments.seeds {
        command += &format!(" --seeds {seeds}");
    }
    for set in &arguments.set {
        command += &format!(" --set {set}");
    }
    if let Some(scale) = arguments.scale {
        command += &format!(" --scale {scale}");
    }
    if arguments.compare {
        command += " --compare";
    }
    command
}
