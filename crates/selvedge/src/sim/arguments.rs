//! Arguments of `selvedge sim run`.

use crate::run::threads;
use crate::scenario::Seeds;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Run {
    /// Scenario file; docs/scenarios.md describes it
    pub scenario: PathBuf,
    /// Schemes to run, the first being the one others are compared with [default: those of the scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub scheme: Vec<String>,
    /// Seeds, such as 1..5 or 1,4,9 [default: those of the scenario]
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<Seeds>,
    /// Change a key of the scenario, such as switch.buffer=4MB; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Of a scenario with a [sweep], only the point with this label; may be repeated
    #[arg(long, value_name = "LABEL")]
    pub at: Vec<String>,
    /// Say how much memory and time the runs will take, after a moment of each scheme, and run nothing
    #[arg(long, conflicts_with_all = ["output", "capture"])]
    pub estimate: bool,
    /// Print all metrics as one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
    /// Write flows, ports, metrics, the configuration in effect and a report into this directory
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the results that DIR holds
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Cores to use: one a run and, where there are fewer runs, several for a run of 64 hosts or more; results do not depend on
    /// it [default: all]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Refuse runs that need more memory [default: the machine's free memory]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<units::Bytes>,
    /// Also write FlowMonitor XML, one file per run
    #[arg(long, requires = "output")]
    pub xml: bool,
    /// Also write the first packets that leave the first node of this link, as pcapng: leaf1-spine2, or spine2-leaf1
    #[arg(long, value_name = "LINK", requires = "output")]
    pub capture: Option<String>,
}
