//! `selvedge controller`: gives agents the order in which to take paths.

mod file;

pub(crate) use file::schema;

use clap::{Args, Subcommand};
use config::ConfigError;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Controller {
    /// Run the controller until SIGTERM, after which agents keep the schedules that they have
    Run(Arguments),
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
}

#[derive(Debug, Args)]
pub struct Arguments {
    /// Configuration; docs/controller.md describes it
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
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
}

/// # Errors
/// One line why it was not done.
pub fn run(command: &Controller) -> Result<(), ControllerError> {
    use controller::{operate, LinkChange};
    let (arguments, change) = match command {
        Controller::Run(arguments) => {
            let config = file::load(&arguments.config)?.into_config();
            return Ok(controller::run(config, &crate::say::note)?);
        }
        Controller::Status { arguments, .. } => (arguments, None),
        Controller::Fail(change) => (&change.arguments, Some((&change.link, false))),
        Controller::Heal(change) => (&change.arguments, Some((&change.link, true))),
    };
    let file = file::load(&arguments.config)?;
    let change = change.map(|(link, up)| LinkChange { link: link.clone(), up });
    let status = operate(&file.url, &file.identity(), change.as_ref())?;
    match command {
        Controller::Status { json: true, .. } => crate::say::json(&serde_json::json!(status)),
        _ => say_on!("{}", text(&status)),
    }
    Ok(())
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
