//! `selvedge demo`: the main job in under two minutes, with every step told.

use crate::cli::Demo;
use crate::output::{self, Extras, Staging};
use crate::report::CheckStatus;
use crate::repro::{self, Experiment, Mode};
use crate::run::default_threads;
use crate::{sim, Failure};
use config::ConfigError;

const FILE: &str = "demo.toml";

/// True if every check holds. Replaces the results of an earlier demonstration.
///
/// # Errors
/// A directory that cannot be written.
pub fn run(arguments: &Demo) -> Result<bool, Failure> {
    let experiment = experiment()?;
    let staging = Staging::new(&arguments.output, true)?;
    say!("selvedge {}: a demonstration", env!("CARGO_PKG_VERSION"));
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
        output::write(&at.results, &staging, &format!("{}.", at.label), &Extras::default())?;
    }
    staging.write("effective.toml", text())?;
    output::write_report(&staging, &repro::report(&ran, "selvedge demo"))?;
    staging.commit()?;
    let holding = ran.judged.iter().filter(|j| j.status == CheckStatus::Holds).count();
    let hops: u64 =
        ran.points.iter().flat_map(|p| &p.results.schemes).flat_map(|s| &s.runs).map(|r| r.outcome.packet_hops).sum();
    let wall = ran.judged.first().map_or(0.0, |j| j.wall_s);
    say!("{holding} of {} checks hold. {:.0} million packet-hops in {wall:.0} s.", ran.judged.len(), hops as f64 / 1e6);
    say!("Report: {}", arguments.output.join("report.html").display());
    Ok(holding == ran.judged.len())
}

/// # Errors
/// As [`Experiment::parse`]; a test rules it out.
fn experiment() -> Result<Experiment, ConfigError> {
    Experiment::parse(FILE, text())
}

fn text() -> &'static str {
    repro::embedded().find(|(file, _)| *file == FILE).map(|(_, text)| text).unwrap_or_default()
}
