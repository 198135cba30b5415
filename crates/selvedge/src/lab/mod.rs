//! `selvedge lab`: networks on this machine for real programs.

mod agreement;
pub mod arguments;
pub mod bench;
mod capture;
mod carry;
mod control;
mod daemon;
mod dctcp;
mod down;
mod exec;
mod failure;
mod ignored;
pub mod kernel;
mod progress;
mod run;
mod show;
mod state;
mod topo;
mod unruly;

pub use failure::LabFailure;

use crate::scenario::{Plan, SchemePlan, BUILT_IN};
use crate::{input, Failure};
use arguments::{Change, Modelled, UpArguments};
use clap::Subcommand;
use config::{ConfigError, Document, Invalid};

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// A leaf-spine fabric of network namespaces, routed by the kernel
    Kernel {
        #[command(subcommand)]
        command: kernel::Kernel,
    },
    #[command(flatten)]
    Modelled(Modelled),
}

impl LabCommand {
    /// An interrupt removes half-written files.
    pub fn writes_results(&self) -> bool {
        matches!(self, LabCommand::Modelled(Modelled::Run(_)))
    }
}

/// Whether the requested condition holds.
///
/// # Errors
/// What the verb cannot do, in one line.
pub fn run(lab: &LabCommand) -> Result<bool, Failure> {
    match lab {
        LabCommand::Kernel { command } => Ok(kernel::run(command)?),
        LabCommand::Modelled(verb) => {
            let done = modelled(verb);
            state::tidy();
            done
        }
    }
}

fn modelled(verb: &Modelled) -> Result<bool, Failure> {
    let link = |name: &str, link: &str, up| {
        control::ask(name, &control::Request::Link { link: link.to_owned(), up })?;
        say!("{link} is {}", if up { "up" } else { "down" });
        Ok(true)
    };
    match verb {
        Modelled::Up(arguments) => up(arguments),
        Modelled::Down { lab, all } => down::down(&lab.name, *all),
        Modelled::Status { lab, json } => show::status(&lab.name, *json),
        Modelled::Exec { lab, host, command } => match exec::exec(&lab.name, host, command)? {},
        Modelled::Run(arguments) => run::run(arguments),
        Modelled::Capture(arguments) => capture::capture(arguments),
        Modelled::Fail { lab, link: name } => link(&lab.name, name, false),
        Modelled::Heal { lab, link: name } => link(&lab.name, name, true),
        Modelled::Set { lab, link, changes } => set(&lab.name, link, changes),
        Modelled::Top { lab, every, count } => show::top(&lab.name, *every, *count),
        Modelled::Daemon => daemon::main(),
    }
}

/// # Errors
/// A scheme that needs what only the simulator has.
fn refuse(document: &Document, plan: &Plan) -> Result<(), ConfigError> {
    match plan.schemes.iter().find_map(SchemePlan::only_simulated) {
        Some((key, remedy)) => Err(document.error(&Invalid::new(key, "is for the simulator", remedy))),
        None => Ok(()),
    }
}

fn up(arguments: &UpArguments) -> Result<bool, Failure> {
    let source = match (&arguments.scenario, &arguments.topo) {
        (Some(path), _) => {
            let text = input::read(path, input::SCENARIO, "give the path of a scenario file, or --topo")?;
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            daemon::Source::File { path: path.display().to_string(), text }
        }
        (None, topo) => daemon::Source::OneLine(topo.clone().unwrap_or_default()),
    };
    let one_line = matches!(source, daemon::Source::OneLine(_));
    let specification = daemon::Specification {
        name: arguments.lab.name.clone(),
        source,
        set: arguments.set.clone(),
        scheme: arguments.scheme.clone().or_else(|| one_line.then(|| BUILT_IN[0].name.to_owned())),
        seed: arguments.seed,
        tuning: arguments.tuning.clone(),
    };
    let record = daemon::start(&specification)?;
    let hosts = match record.hosts.as_slice() {
        [first, .., last] => format!("{} to {}: {} to {}", first.name, last.name, first.address, last.address),
        hosts => hosts.iter().map(|h| format!("{}: {}", h.name, h.address)).collect(),
    };
    say!("lab {} is up ({}, {}), {hosts}", record.name, record.title, record.scheme);
    for note in &record.notes {
        say!("note: {note}");
    }
    Ok(true)
}

fn set(name: &str, link: &str, changes: &[Change]) -> Result<bool, Failure> {
    let (mut rate, mut delay) = (None, None);
    for change in changes {
        let twice = match *change {
            Change::Rate(r) => rate.replace(r).is_some(),
            Change::Delay(d) => delay.replace(d).is_some(),
        };
        if twice {
            return Err(LabFailure::Refused("give rate and delay once each".to_owned()).into());
        }
    }
    let now = control::ask(name, &control::Request::Set { link: link.to_owned(), rate, delay })?;
    let text = |key: &str| now[key].as_str().unwrap_or_default().to_owned();
    say!("{}: {}, {}", text("link"), text("rate"), text("delay"));
    Ok(true)
}
