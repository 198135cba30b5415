//! `selvedge controller`: gives agents the order in which to take paths.

mod file;
mod keys;

pub(crate) use file::schema;

use crate::logging::Logging;
use clap::{Args, Subcommand};
use config::ConfigError;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum Controller {
    /// Run the controller until SIGTERM, after which agents keep the schedules that they have
    Run {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        logging: Logging,
    },
    /// Ask a running one: revision, failed links, and what each edge has
    Status {
        #[command(flatten)]
        arguments: Arguments,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Tell it that a link failed, such as leaf1-spine2
    Fail(Change),
    /// Tell it that a link is back
    Heal(Change),
    /// Make certificates for controllers, agents and operators, and the authority that they share
    Certs(Certificates),
}

#[derive(Debug, Args)]
pub struct Arguments {
    /// Configuration; docs/controller.md describes it
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
pub struct Certificates {
    /// Where files are written: ca.pem and ca.key, unless they are there, and NAME.pem and NAME.key
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
    /// An edge's name, such as host1; or a file's, with the DNS names and IP addresses of the certificate: controller=10.0.0.9,operator
    #[arg(value_name = "NAME[=NAME,...]", required = true)]
    pub stations: Vec<controller::Station>,
    /// How long they last
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
    /// Replace certificates that are there; their keys stay
    #[arg(long)]
    pub renew: bool,
}

#[derive(Debug, Args)]
pub struct Change {
    /// As `selvedge topo show` calls it
    #[arg(value_name = "LINK")]
    pub link: String,
    #[command(flatten)]
    pub arguments: Arguments,
}

#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Run(#[from] controller::Error),
    /// The same, at the key of the configuration from which it comes.
    #[error(transparent)]
    Key(ConfigError),
}

/// Reads a configuration and the topology that it names.
///
/// # Errors
/// All that is wrong with either.
pub fn check(config: &Path) -> Result<(), ConfigError> {
    file::load(config).map(drop)
}

/// # Errors
/// One line why it was not done.
pub fn run(command: &Controller) -> Result<(), ControllerError> {
    use controller::{operate, LinkChange};
    let (arguments, change) = match command {
        Controller::Run { arguments, logging } => {
            logging.start();
            let (file, keys) = file::load(&arguments.config)?;
            return controller::run(file.into_config()).map_err(|e| placed(&keys, e));
        }
        Controller::Certs(wanted) => {
            let written = controller::certify(&wanted.directory, &wanted.stations, wanted.days, wanted.renew)?;
            written.iter().for_each(|path| say_on!("{}\n", path.display()));
            return Ok(());
        }
        Controller::Status { arguments, .. } => (arguments, None),
        Controller::Fail(change) => (&change.arguments, Some((&change.link, false))),
        Controller::Heal(change) => (&change.arguments, Some((&change.link, true))),
    };
    let (file, keys) = file::load(&arguments.config)?;
    let change = change.map(|(link, up)| LinkChange { link: link.clone(), up });
    let status = operate(&file.url, &file.identity(), change.as_ref()).map_err(|e| placed(&keys, e))?;
    match command {
        Controller::Status { json: true, .. } => crate::say::json(&serde_json::json!(status)),
        _ => say_on!("{}", text(&status)),
    }
    Ok(())
}

fn placed(keys: &keys::Keys, error: controller::Error) -> ControllerError {
    keys.place(error).map_or_else(ControllerError::Run, ControllerError::Key)
}

fn text(status: &controller::Status) -> String {
    use std::fmt::Write as _;
    let mut out = format!("revision {}, {} trees\n", status.revision, status.trees);
    if !status.failed.is_empty() {
        let _ = writeln!(out, "failed: {}", status.failed.join(" "));
    }
    if !status.problem.is_empty() {
        let _ = writeln!(out, "PROBLEM: {}", status.problem);
    }
    let behind: Vec<&str> =
        status.edges.iter().filter(|(_, has)| **has != status.revision).map(|(edge, _)| edge.as_str()).collect();
    let _ = writeln!(out, "{} of {} edges that asked have it", status.edges.len() - behind.len(), status.edges.len());
    if !behind.is_empty() {
        let _ = writeln!(out, "not yet: {}", behind.join(" "));
    }
    out
}
