//! Arguments of `selvedge repro`.

use crate::run::threads;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Repro {
    /// Results, such as presto/fig15-stride, groups of them, such as presto, or files [default: all]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// List the results instead of running them
    #[arg(long)]
    pub list: bool,
    /// Print every published claim of a paper, or of all, with its status; nothing is run
    #[arg(long, value_name = "PAPER", conflicts_with_all = ["ids", "list", "mode", "output", "threads"])]
    pub catalogue: Option<Option<String>>,
    /// Write pages with every claim and what was measured for it into this directory; nothing is run
    #[arg(long, value_name = "DIR", group = "target", conflicts_with_all = ["ids", "list", "catalogue", "mode", "threads", "json"])]
    pub site: Option<PathBuf>,
    /// With --site or --check-records: where the records are, as --archive or --output wrote them [default: those in this binary]
    #[arg(long, value_name = "DIR")]
    pub records: Option<PathBuf>,
    /// Run a sample of what has a record again, within --hours [default: 0.25], and compare
    #[arg(long, conflicts_with_all = ["ids", "list", "catalogue", "site", "mode", "output", "archive", "json"])]
    pub check_records: bool,
    /// Write the tables of README.md and docs/results.md in this source tree from its results/*.jsonl; nothing is run
    #[arg(long, value_name = "ROOT", num_args = 0..=1, default_missing_value = ".", conflicts_with_all = ["ids", "list", "catalogue", "site", "mode", "output", "archive", "check_records", "threads", "json", "records"])]
    pub tables: Option<PathBuf>,
    /// Run the commands of this source tree that decide claims on real hosts, and judge them: all, or those of ID
    #[arg(long, group = "mode", conflicts_with_all = ["output", "threads", "records"])]
    pub real_hosts: bool,
    /// About a minute a figure: ratios and orders only (default)
    #[arg(long, group = "mode")]
    pub quick: bool,
    /// Scaled runs, with as many seeds as a check needs: 5, 10, 20 or 40
    #[arg(long, group = "mode")]
    pub full: bool,
    /// The paper's own durations and counts
    #[arg(long, group = "mode")]
    pub paper: bool,
    /// Print one JSON object per result and line
    #[arg(long)]
    pub json: bool,
    /// Write results, metrics and a report per experiment into this directory
    #[arg(short, long, value_name = "DIR", group = "target")]
    pub output: Option<PathBuf>,
    /// Replace the results or pages that DIR holds
    #[arg(long, requires = "target")]
    pub force: bool,
    /// Keep a record of each result in DIR, and run only those without a record of their configuration in this mode, the cheapest first
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub archive: Option<PathBuf>,
    /// With --archive: run also those that have a record
    #[arg(long, requires = "archive")]
    pub again: bool,
    /// With --archive or --full: processor time that a paper's records may take; with --real-hosts: time that all commands may take [default: 3]
    #[arg(long, visible_alias = "core-hours", value_name = "HOURS", value_parser = hours)]
    pub hours: Option<f64>,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
}

/// # Errors
/// What is no number of hours.
fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|hours: &f64| (0.001..=10_000.0).contains(hours));
    hours.ok_or_else(|| "give a number of hours, 0.001 to 10000".to_owned())
}
