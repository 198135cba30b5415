//! `selvedge sim run`.

mod arguments;
pub(crate) mod estimate;
mod swept;

pub use arguments::Run;

use crate::output::{self, Extras, Staging};
use crate::reading::parts;
use crate::results::Results;
use crate::run::{default_threads, run_all, Bar};
use crate::scenario::{Choice, Plan, Room};
use crate::{figures, table, Failure};
use config::{closest, ConfigError};

/// # Errors
/// A scenario that makes no sense, a directory that cannot be written, a run that fails.
pub fn run(arguments: &Run) -> Result<(), Failure> {
    let (document, sweep) = parts(&arguments.scenario, &arguments.set)?;
    if let Some(axes) = sweep {
        let sweep = axes.single().map_err(|invalid| document.error(&invalid))?;
        return swept::run(arguments, &document, &sweep);
    }
    if let Some(at) = arguments.at.first() {
        let problem = format!("{at:?} names a point, and the scenario has no [sweep]");
        return Err(ConfigError::new("--at", problem, "leave it out").into());
    }
    let choice = Choice { schemes: arguments.scheme.clone(), seeds: arguments.seeds.clone() };
    let threads = arguments.threads.unwrap_or_else(default_threads);
    let mut plan = Plan::within(&document, &choice, Room { most: arguments.memory, threads })?;
    plan.modelled()?;
    if arguments.estimate {
        return estimate::print(&[estimate::all(&plan)], threads, arguments.json);
    }
    if let Some(link) = &arguments.capture {
        capture(&mut plan, link)?;
    }
    let staging = arguments.output.as_deref().map(|dir| Staging::new(dir, arguments.force)).transpose()?;
    let bar = Bar::new([&plan]);
    let finished = run_all(&plan, threads, &bar)?;
    bar.finish();
    let results = Results::new(plan, finished);
    let kept = staging.map_or(Ok(()), |staging| {
        output::write(&results, &staging, "", &extras(arguments))?;
        output::write_report(&staging, &figures::report(&results, &command(arguments)))?;
        Ok::<(), Failure>(staging.commit()?)
    });
    // A finished run is printed, also if its files could not be written.
    if arguments.json {
        crate::say::json(&output::metrics(&results));
    } else {
        print(&results, "");
        if let Some(dir) = arguments.output.as_ref().filter(|_| kept.is_ok()) {
            say!("\nResults: {}  Report: {}", dir.display(), dir.join("report.html").display());
            no_series(&results);
        }
    }
    kept
}

fn extras(arguments: &Run) -> Extras {
    Extras { xml: arguments.xml, series: true, capture: arguments.capture.clone() }
}

/// Says why there is no `series.csv`.
fn no_series(results: &Results) {
    if let Some(rows) = output::too_many_series(results) {
        say!("series.csv is left out: it would have {rows} rows; give a longer record.sample_every");
    }
}

/// Title, table and what a reader must know; `label` names the point of a sweep.
pub fn print(results: &Results, label: &str) {
    print_as(results, label, "simulated");
}

/// The same; `how` the time was spent.
pub(crate) fn print_as(results: &Results, label: &str, how: &str) {
    let scenario = &results.plan.scenario;
    let title = if scenario.title.is_empty() { "Scenario" } else { &scenario.title };
    say!("{title}{}{label}", if label.is_empty() { "" } else { ": " });
    say!(
        "{} {how} after {} of warm-up, seeds {}; intervals are 95% over seeds, differences against {}\n",
        scenario.duration,
        config::shown(scenario.warmup),
        scenario.seeds,
        results.schemes.first().map_or("-", |s| &s.name)
    );
    say_on!("{}", table::text(&table::comparison(results)));
    results.plan.notes().iter().for_each(|note| say!("{note}"));
    for scheme in results.schemes.iter().filter(|s| s.unfinished() > 0) {
        say!(
            "{}: {} flows had not finished ({}); percentiles count them as longer than all others",
            scheme.name,
            scheme.unfinished(),
            scheme.causes()
        );
    }
}

fn capture(plan: &mut Plan, link: &str) -> Result<(), ConfigError> {
    let packets = plan.scenario.record.capture_packets;
    let mut found = false;
    for scheme in &mut plan.schemes {
        found |= scheme.capture(link, packets);
    }
    if found {
        return Ok(());
    }
    let fabrics = plan.schemes.iter().map(|s| &s.template().topology);
    let links: Vec<String> = fabrics.flat_map(|f| (0..f.links.len()).map(|l| f.link_name(l as u32))).collect();
    let near = closest(link, links.iter().map(String::as_str)).unwrap_or("host0-leaf1").to_owned();
    Err(ConfigError::new("--capture", format!("there is no link {link:?}"), format!("did you mean {near:?}?")))
}

/// The command that makes the same results; where they go and how many cores make them is left out.
fn command(arguments: &Run) -> String {
    let mut command = format!("selvedge sim run {}", output::shown(&arguments.scenario.display().to_string()));
    if !arguments.scheme.is_empty() {
        command += &format!(" --scheme {}", arguments.scheme.join(","));
    }
    if let Some(seeds) = &arguments.seeds {
        command += &format!(" --seeds {seeds}");
    }
    for at in &arguments.at {
        command += &format!(" --at {at}");
    }
    for set in &arguments.set {
        command += &format!(" --set {set}");
    }
    command
}
