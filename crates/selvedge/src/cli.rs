//! The command line.

use crate::agent::Agent;
use crate::controller::Controller;
use crate::ctl::Ctl;
use crate::lab::LabCommand;
use crate::repro::Repro;
use crate::run::threads;
use crate::scenario::BUILT_IN;
use crate::sim::Run;
use crate::sweep::Sweep;
use crate::topo::Topo;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

/// The software edge of a datacenter network: simulate it, reproduce published results, find out what runs here.
#[derive(Debug, Parser)]
#[command(name = "selvedge", version = version(), disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// With the commit that it was built from, if its builder said so.
fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| match option_env!("SELVEDGE_COMMIT").filter(|commit| !commit.is_empty()) {
            Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
            None => env!("CARGO_PKG_VERSION").to_owned(),
        });
    &VERSION
}

impl Cli {
    /// # Errors
    /// The status with which the program ends: a request for help was answered, or the arguments make no sense.
    pub fn read() -> Result<Cli, ExitCode> {
        Cli::try_parse().map_err(|error| {
            if error.use_stderr() {
                let _ = error.print(); // there is no other place to say it
                return ExitCode::from(2);
            }
            say_on!("{}", error.render());
            ExitCode::SUCCESS
        })
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate Presto against ECMP, then limit real traffic on this machine; one report of both
    ///
    /// The simulation compares ECMP, Presto and one non-blocking switch on a 16-host fabric. Real traffic takes half a minute: a container
    /// with a limit of 300 Mb/s has eight downloads, and small requests beside them, behind plain HTB and then behind Selvedge. It needs
    /// root and the kernel edge, and stays in network namespaces that end with the command. Where it cannot be, one line says why.
    Demo(Demo),
    /// Simulate
    Sim {
        #[command(subcommand)]
        command: Sim,
    },
    /// Run a scenario at every point of its sweep, with every scheme and seed, as jobs that are kept one by one
    ///
    /// A job that is done is not run again, so the command can be interrupted and repeated. Other machines run single jobs with --job;
    /// docs/sweeps.md.
    Sweep(Sweep),
    /// Compare two results metric by metric, and say what differs
    ///
    /// Values are means over seeds with 95% intervals. If both have the same seeds, the difference is that of each seed. A metric differs if
    /// zero is outside the difference's interval. Ends with status 1 if a metric differs; docs/sweeps.md.
    Compare(Compare),
    /// Reproduce published results and check them
    Repro(Repro),
    /// What a fabric is like: its spanning trees, schedules and weak points
    Topo {
        #[command(subcommand)]
        command: Topo,
    },
    /// Say what this machine can run, and why not
    Doctor {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// Also say what this host lacks for an agent with this configuration
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Also write all of this, what the agent answers and what the host says of its interfaces and queues, into a file for
        /// whoever is to help. It names addresses; look before you send it
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
        /// With --bundle: socket of the agent
        #[arg(long, value_name = "PATH", requires = "bundle", default_value = crate::agent::file::SOCKET)]
        socket: PathBuf,
    },
    /// Measure the speed of the simulator, and how fast a lab can be here
    Bench {
        #[command(subcommand)]
        command: Bench,
    },
    /// Networks on this machine that real programs run in
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// The edge in this host's kernel
    Agent {
        #[command(subcommand)]
        command: Agent,
    },
    /// Ask a running agent
    Ctl(Ctl),
    /// The CNI plugin: given to runtimes, taken from them, or, without a command, as a runtime calls it; docs/cni.md
    Cni {
        #[command(subcommand)]
        command: Option<crate::cni::install::Cni>,
    },
    /// Gives agents the order in which to take paths
    Controller {
        #[command(subcommand)]
        command: Controller,
    },
    /// Print the JSON Schema of a configuration file, for completion and checks in editors
    Schema { file: crate::schema::File },
    /// Write the manual pages into a directory
    Man {
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the completions of a shell
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Args)]
pub struct Demo {
    /// Only this part [default: both]
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Option<Part>,
    /// Where the report goes
    #[arg(short, long, value_name = "DIR", default_value = "out/demo")]
    pub output: PathBuf,
    /// How long real traffic is measured behind each limiter
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub seconds: u8,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
}

/// Of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Simulation,
    Traffic,
}

#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Run a scenario and compare its schemes
    Run(Run),
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Results of `sim run -o` or of `sweep`, or a Parquet or CSV file of metrics
    pub a: PathBuf,
    /// The same, to be compared with it
    pub b: PathBuf,
    /// Only metrics with this in their name, such as fct_ms; may be repeated
    #[arg(long, value_name = "PART")]
    pub metric: Vec<String>,
    /// Where zero is in the difference's interval: the metric is equal if the interval is within so many percent of A, else undecided
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    pub within: f64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// # Errors
/// What is no share.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent: &f64| (0.0..=1000.0).contains(percent));
    percent.ok_or_else(|| "give a number of percent, 0 to 1000".to_owned())
}

#[derive(Debug, Subcommand)]
pub enum Bench {
    /// A permutation over a fat-tree with DCTCP at 10 Gbps, the edge in the path
    Sim(BenchSim),
    /// Bulk traffic over the lab with ever shorter round trips, until the machine does not keep up
    Lab(crate::lab::arguments::BenchArguments),
}

#[derive(Debug, Args)]
pub struct BenchSim {
    /// Hosts: 16, 54, 128, 250, 432, ... (k^3/4 for an even k)
    #[arg(long, default_value_t = 128)]
    pub hosts: u32,
    /// Simulated time
    #[arg(long, default_value = "20ms")]
    pub duration: units::Time,
    /// Cores that the run may use
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    pub threads: usize,
    #[arg(long, help = format!("Scheme: {}", BUILT_IN.each_ref().map(|scheme| scheme.name).join(", ")), default_value = BUILT_IN[0].name)]
    pub scheme: String,
    /// Seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
