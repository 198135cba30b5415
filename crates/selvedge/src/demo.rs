//! `selvedge demo`: a simulation, and real traffic where the machine permits, with every step told.

mod agent;
mod network;
mod real;
mod show;
mod traffic;

use crate::cli::{Demo, Part};
use crate::output::{self, Extras, Staging};
use crate::report::{CheckStatus, ReportData};
use crate::repro::{self, Experiment, Mode, Ran};
use crate::run::default_threads;
use crate::{sim, Failure};
use config::ConfigError;
use std::time::Duration;

const FILE: &str = "demo.toml";

/// True if every check of the simulation holds. Replaces the results of an earlier demonstration.
///
/// # Errors
/// A directory that cannot be written; no real traffic, if nothing else was asked for.
pub fn run(arguments: &Demo) -> Result<bool, Failure> {
    let staging = Staging::new(&arguments.output, true)?;
    say!("selvedge {}: a demonstration", env!("CARGO_PKG_VERSION"));
    let simulated = match arguments.only {
        Some(Part::Traffic) => None,
        _ => Some(simulate(arguments, &staging)?),
    };
    let measured = match arguments.only {
        Some(Part::Simulation) => None,
        only => measure(arguments, &staging, only.is_some())?,
    };
    let mut data = simulated.as_ref().map_or_else(ReportData::default, |ran| repro::report(ran, "selvedge demo"));
    if let Some(real) = &measured {
        show::add(&mut data, real, "selvedge demo --only traffic");
    }
    output::write_report(&staging, &data)?;
    staging.commit()?;
    let holds = simulated.as_ref().is_none_or(conclude);
    say!("Report: {}", arguments.output.join("report.html").display());
    Ok(holds)
}

fn simulate(arguments: &Demo, staging: &Staging) -> Result<Ran, Failure> {
    let experiment = experiment()?;
    for point in experiment.points(Mode::Quick, &|_| true)? {
        let plan = &point.plan;
        let Some(first) = plan.schemes.first() else { continue };
        let fabric = &first.template().topology;
        say!(
            "  {}: {} hosts, {} switches, {} links; {}",
            point.label,
            fabric.n_hosts(),
            fabric.n_switches(),
            fabric.links.len(),
            plan.scenario.description.trim()
        );
    }
    say!("  Simulating every packet, guest TCP on every host, the edge's own code between them ...\n");
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let ran = repro::run_experiment(&experiment, Mode::Quick, threads, &|_| true)?;
    for at in &ran.points {
        sim::print(&at.results, &at.label);
        say!();
    }
    for judged in &ran.judged {
        say!("{}", judged.text());
    }
    for at in &ran.points {
        output::write(&at.results, staging, &format!("{}.", at.label), &Extras::default())?;
    }
    staging.write("effective.toml", text())?;
    Ok(ran)
}

/// Says how much was simulated. True if every check holds.
fn conclude(ran: &Ran) -> bool {
    let holding = ran.judged.iter().filter(|j| j.status == CheckStatus::Holds).count();
    let hops: u64 =
        ran.points.iter().flat_map(|p| &p.results.schemes).flat_map(|s| &s.runs).map(|r| r.outcome.packet_hops).sum();
    let wall = ran.judged.first().map_or(0.0, |j| j.wall_s);
    say!("{holding} of {} checks hold. {:.0} million packet-hops in {wall:.0} s.", ran.judged.len(), hops as f64 / 1e6);
    holding == ran.judged.len()
}

/// `None`, with one line that says why, where there can be no real traffic; an error if that is all that is `wanted`.
fn measure(arguments: &Demo, staging: &Staging, wanted: bool) -> Result<Option<real::Real>, Failure> {
    let real = match real::measure(Duration::from_secs(arguments.seconds.into())) {
        Ok(real) => real,
        Err(why) if wanted => return Err(Failure::NoTraffic(why)),
        Err(why) => {
            say!("No real traffic here: {why}");
            return Ok(None);
        }
    };
    say!("Real traffic on this machine: {}", show::what());
    show::print(&real);
    say!();
    staging.write("traffic.json", format!("{:#}\n", show::json(&real)))?;
    Ok(Some(real))
}

/// # Errors
/// As [`Experiment::parse`]; a test rules it out.
fn experiment() -> Result<Experiment, ConfigError> {
    Experiment::parse(FILE, text())
}

fn text() -> &'static str {
    repro::embedded().find(|(file, _)| *file == FILE).map(|(_, text)| text).unwrap_or_default()
}
