//! `selvedge topo`: a controller's view of a fabric, from a file alone.

mod check;
mod picture;
mod read;
mod schedule;
mod show;
mod trees;

use clap::{Args, Subcommand, ValueEnum};
use config::ConfigError;
use read::Fabric;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Topo {
    /// Size, capacity and links of a fabric
    Show {
        #[command(flatten)]
        fabric: Arguments,
        /// Draw it: into an .svg, or as a .dot for Graphviz
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
    /// Its spanning trees, the label of each, and how evenly they cover the links
    Trees {
        #[command(flatten)]
        fabric: Arguments,
        /// Draw it, a colour per tree: into an .svg, or as a .dot for Graphviz
        #[arg(long, value_name = "FILE")]
        picture: Option<PathBuf>,
    },
    /// The labels that flowcells take in turn, by pair of leaves
    Schedule {
        #[command(flatten)]
        fabric: Arguments,
        /// Only from this leaf, or the leaf of this host
        #[arg(long, value_name = "NODE")]
        from: Option<String>,
        /// Only to this leaf, or the leaf of this host
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
        /// Pairs that avoid a tree with a failed link: those whose path is broken, or all
        #[arg(long, value_enum, default_value_t = PruneWord::Pair)]
        prune: PruneWord,
    },
    /// Whether every pair of leaves has a way, and what would take it away
    Check {
        #[command(flatten)]
        fabric: Arguments,
    },
}

#[derive(Debug, Args)]
pub struct Arguments {
    /// Scenario with a [topology], or a topology file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Take a link as failed, such as leaf1-spine2, or leaf1-spine2#2 for the second of parallel ones; may be repeated
    #[arg(long, value_name = "LINK")]
    pub fail: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The fabric that a scenario or a topology file describes.
///
/// # Errors
/// A file that cannot be read or describes no fabric.
pub(crate) fn topology_of(file: &std::path::Path) -> Result<topology::Topology, ConfigError> {
    Fabric::read(&Arguments { file: file.to_owned(), fail: Vec::new(), json: false }).map(|fabric| fabric.topology)
}

/// Pairs that avoid a tree with a failed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PruneWord {
    Pair,
    All,
}

impl From<PruneWord> for topology::Prune {
    fn from(word: PruneWord) -> topology::Prune {
        match word {
            PruneWord::Pair => topology::Prune::Pair,
            PruneWord::All => topology::Prune::All,
        }
    }
}

/// Why a verb could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TopoError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot write {0}: {1}; name a file with --picture where you may write")]
    Write(PathBuf, std::io::Error),
}

/// True unless a check fails.
///
/// # Errors
/// A file that describes no fabric, a link or node that it does not have, a picture that cannot be written.
pub fn run(command: &Topo) -> Result<bool, TopoError> {
    match command {
        Topo::Show { fabric, picture } => {
            let read = Fabric::read(fabric)?;
            print(fabric.json, &show::Shown::new(&read), show::text);
            draw(&read, picture.as_ref(), false)?;
        }
        Topo::Trees { fabric, picture } => {
            let read = Fabric::read(fabric)?;
            print(fabric.json, &trees::Trees::new(&read), trees::text);
            draw(&read, picture.as_ref(), true)?;
        }
        Topo::Schedule { fabric, from, to, prune } => {
            let read = Fabric::read(fabric)?;
            let schedules = schedule::Schedules::new(&read, from.as_deref(), to.as_deref(), (*prune).into())?;
            print(fabric.json, &schedules, schedule::text);
        }
        Topo::Check { fabric } => {
            let verdict = check::Verdict::new(&Fabric::read(fabric)?);
            print(fabric.json, &verdict, check::text);
            return Ok(verdict.holds);
        }
    }
    Ok(true)
}

fn print<T: serde::Serialize>(json: bool, value: &T, text: fn(&T) -> String) {
    match json {
        true => crate::say::json(&serde_json::json!(value)),
        false => say_on!("{}", text(value)),
    }
}

fn draw(fabric: &Fabric, file: Option<&PathBuf>, trees: bool) -> Result<(), TopoError> {
    let Some(file) = file else { return Ok(()) };
    let picture = picture::draw(fabric, file, trees)?;
    files::put(file, picture.as_bytes(), 0o644).map_err(|e| TopoError::Write(file.clone(), e))
}
