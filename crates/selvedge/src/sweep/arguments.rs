//! Arguments of `selvedge sweep`.

use crate::run::threads;
use crate::scenario::Seeds;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Sweep {
    /// Scenario file; docs/scenarios.md describes it and its [sweep]
    pub scenario: PathBuf,
    /// Where results are and go [default: out/ and the scenario's name]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Schemes to run [default: those of the scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub scheme: Vec<String>,
    /// Seeds, such as 1..5 or 1,4,9 [default: those of the scenario]
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<Seeds>,
    /// Change a key of the scenario at all points, such as switch.buffer=4MB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Only the point with this label; may be repeated
    #[arg(long, value_name = "LABEL")]
    pub at: Vec<String>,
    /// Also keep each job's flows
    #[arg(long)]
    pub flows: bool,
    /// Jobs at a time; results do not depend on it [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub jobs: Option<usize>,
    /// Refuse jobs that need more memory at a time, when they are to run here [default: the machine's free memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<units::Bytes>,
    /// List the jobs and which are done, and run nothing
    #[arg(long, conflicts_with = "job")]
    pub list: bool,
    /// Say how much memory and time all jobs take, after a moment of each scheme at each point, and run nothing
    #[arg(long, conflicts_with_all = ["list", "job"])]
    pub estimate: bool,
    /// Run only this job, named by its hash or the beginning of it
    #[arg(long, value_name = "HASH")]
    pub job: Option<String>,
    /// Print the jobs as one JSON object
    #[arg(long)]
    pub json: bool,
}
