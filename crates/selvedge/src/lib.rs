//! What the `selvedge` binary does, as a library so that tests can reach it.

#[macro_use]
mod say;
pub mod agent;
mod axes;
pub mod balance;
pub mod bench;
pub mod cli;
pub mod cni;
mod compare;
pub mod controller;
pub mod ctl;
pub mod demo;
pub mod doctor;
pub mod figures;
mod input;
mod interrupt;
pub mod kernel_edge;
pub mod lab;
pub mod logging;
pub mod manual;
pub mod output;
mod parsed;
mod reading;
pub mod report;
pub mod repro;
pub mod results;
pub mod run;
pub mod scenario;
pub mod schema;
mod sharing;
pub mod sim;
mod sweep;
pub mod table;
pub mod topo;
mod unfinished;
pub mod word;

use cli::{Bench, Cli, Command, Sim};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a command ends without its work done. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(#[from] config::ConfigError),
    #[error(transparent)]
    Run(#[from] run::RunError),
    #[error(transparent)]
    Write(#[from] output::WriteError),
    #[error(transparent)]
    Staging(#[from] output::StagingError),
    #[error("cannot form a Parquet file: {0}")]
    Form(frame::Error),
    #[error(transparent)]
    Lab(#[from] lab::LabFailure),
    #[error(transparent)]
    KernelLab(#[from] kernel_lab::Error),
    #[error(transparent)]
    Agent(#[from] agent::AgentError),
    #[error(transparent)]
    Ctl(#[from] ctl::CtlError),
    #[error(transparent)]
    Manual(#[from] manual::ManualError),
    #[error(transparent)]
    Topo(#[from] topo::TopoError),
    #[error(transparent)]
    Controller(#[from] controller::ControllerError),
    #[error("no real traffic here: {0}")]
    NoTraffic(String),
    #[error(transparent)]
    Cni(#[from] cni::install::InstallError),
    #[error("cannot write {0}: {1}; name a file with --bundle where you may write")]
    Bundle(PathBuf, std::io::Error),
}

impl Failure {
    /// 2 where the request is at fault, 1 where carrying it out failed.
    fn code(&self) -> u8 {
        match self {
            Failure::Write(output::WriteError::Staging(e)) | Failure::Staging(e) if e.is_request() => 2,
            Failure::Config(_) => 2,
            Failure::Lab(error) if error.is_request() => 2,
            // As a shell says it of a program that Ctrl-C ended.
            Failure::KernelLab(kernel_lab::Error::Interrupted | kernel_lab::Error::HalfMade(_)) => 130,
            Failure::KernelLab(error) if error.is_request() => 2,
            Failure::Agent(error) if error.is_request() => 2,
            Failure::Topo(topo::TopoError::Config(_)) => 2,
            Failure::Controller(controller::ControllerError::Config(_)) => 2,
            _ => 1,
        }
    }
}

/// Runs the command. Exit status: 0 done, 1 failed or a check does not hold, 2 a request that makes no
/// sense.
pub fn main(cli: Cli) -> ExitCode {
    // An agent, a watch over CNI's lists and a capture listen for signals themselves; the other verbs of a lab but `run` write no results.
    let writes_results = match &cli.command {
        Command::Agent { .. } | Command::Controller { .. } | Command::Cni { .. } => false,
        Command::Lab { command } => command.writes_results(),
        _ => true,
    };
    if writes_results {
        interrupt::handle();
    }
    let done = match cli.command {
        Command::Sim { command: Sim::Run(arguments) } => sim::run(&arguments).map(|()| true),
        Command::Bench { command: Bench::Lab(arguments) } => lab::bench::bench(&arguments),
        Command::Bench { command: Bench::Sim(arguments) } => bench::sim(&arguments).map(|()| true),
        Command::Doctor { json, config, bundle, socket } => doctor(json, config.as_deref(), bundle.as_deref(), &socket),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Repro(arguments) => repro::run(&arguments),
        Command::Topo { command } => topo::run(&command).map_err(Failure::from),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Lab { command } => lab::run(&command),
        Command::Agent { command } => agent::run(&command).map(|()| true).map_err(Failure::from),
        Command::Controller { command } => controller::run(&command).map(|()| true).map_err(Failure::from),
        Command::Cni { command: None } => return cni::run(),
        Command::Cni { command: Some(command) } => cni::install::run(&command).map(|()| true).map_err(Failure::from),
        Command::Ctl(arguments) => ctl::run(&arguments).map(|()| true).map_err(Failure::from),
        Command::Man { directory } => manual::pages(&directory).map(|()| true).map_err(Failure::from),
        Command::Schema { file } => {
            say_on!("{:#}", file.schema());
            Ok(true)
        }
        Command::Completions { shell } => {
            manual::completions(shell);
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            let why = failure.to_string();
            if !daemon::log::end(&why) {
                say::note(&why);
            }
            ExitCode::from(failure.code())
        }
    }
}

fn doctor(json: bool, config: Option<&Path>, bundle: Option<&Path>, socket: &Path) -> Result<bool, Failure> {
    let checked = config.map(agent::file::load_from_any).transpose().map_err(agent::AgentError::from);
    // A bundle is of use just where the configuration is wrong: it says so, and is written all the same. Else nobody need wait for the
    // kernel to look at every program.
    let checked = if bundle.is_none() { Ok(checked?) } else { checked };
    let mut diagnosis = doctor::diagnose();
    if let Ok(Some(config)) = &checked {
        diagnosis.features.push(doctor::operator(config));
        diagnosis.probes.extend(doctor::uplinks(config));
    }
    if let Some(file) = bundle {
        doctor::bundle::write(file, &diagnosis, config, socket).map_err(|e| Failure::Bundle(file.to_owned(), e))?;
    }
    checked?;
    match json {
        true => say::json(&serde_json::json!(diagnosis)),
        false => say_on!("{}", doctor::print(&diagnosis)),
    }
    Ok(true)
}
