//! Arguments of the lab's commands.

use crate::scenario::BUILT_IN;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use units::{BitRate, Time};

#[derive(Debug, Args)]
pub struct Name {
    /// Which lab; several may be up at once
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub name: String,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("fabric").args(["scenario", "topo"]).required(true)))]
pub struct UpArguments {
    #[command(flatten)]
    pub lab: Name,
    /// Scenario file; its topology, switches, hosts and one of its schemes count
    pub scenario: Option<PathBuf>,
    /// Instead of a file a fabric in one line, such as clos,leaves=2,spines=2,hosts=8,rate=200Mbps,rtt=2ms; docs/lab.md lists the keys
    #[arg(long, value_name = "KIND,KEY=VALUE,...")]
    pub topo: Option<String>,
    /// Scheme: ecmp, presto, or one of the scenario's [default: its first; ecmp]
    #[arg(long, value_name = "NAME")]
    pub scheme: Option<String>,
    /// Change a key of the scenario, such as host.tcp.congestion=reno; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of the switches' hashes
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub tuning: Tuning,
}

/// How the lab itself runs.
#[derive(Clone, Debug, Args, serde::Serialize, serde::Deserialize)]
pub struct Tuning {
    /// Watch the clock for so long before each event instead of sleeping [default: as this machine needs it]
    #[arg(long, value_name = "TIME", value_parser = spin)]
    pub spin: Option<Time>,
    /// Segments of 64 KB that may be under way at once
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub frames: u32,
}

/// A lab that never sleeps takes a core from everything else for as long as it is up.
fn spin(text: &str) -> Result<Time, String> {
    match text.parse::<Time>() {
        Ok(time) if time <= Time::from_ms(10) => Ok(time),
        Ok(_) => Err("give 10ms at most".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn not_zero(text: &str) -> Result<Time, String> {
    match text.parse::<Time>() {
        Ok(Time::ZERO) => Err("nothing is measured in no time: give more, such as 2s".to_owned()),
        Ok(time) => Ok(time),
        Err(e) => Err(e.to_string()),
    }
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// Scenario file, as for `sim run`
    pub scenario: PathBuf,
    /// Schemes to run, the first being the one others are compared with [default: those of the scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub scheme: Vec<String>,
    /// Seeds, such as 1..5 or 1,4,9 [default: those of the scenario]
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<crate::scenario::Seeds>,
    /// Change a key of the scenario; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Simulate the same, too, and say where the two differ by more than they may. Exit status 1 if they do
    #[arg(long)]
    pub compare: bool,
    /// Links with an Nth of their rates and N times their delays, also in the simulator beside it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub scale: Option<u32>,
    /// Print all metrics as one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
    /// Write flows, ports, metrics, the configuration in effect and a report into this directory
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the results that DIR holds
    #[arg(long, requires = "output")]
    pub force: bool,
    #[command(flatten)]
    pub tuning: Tuning,
}

#[derive(Debug, Args)]
pub struct CaptureArguments {
    #[command(flatten)]
    pub lab: Name,
    /// What leaves the first node of this link: leaf1-spine2, or spine2-leaf1
    pub link: String,
    /// File in the pcapng format; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Packets, at most
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub packets: u64,
    /// Time, at most
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    pub duration: Time,
    /// Bytes kept of each packet
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(14..=65_600))]
    pub snap: u32,
}

/// What changes of a link, written `delay=1ms` or `rate=100Mbps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Delay(Time),
    Rate(BitRate),
}

impl std::str::FromStr for Change {
    type Err = String;
    fn from_str(text: &str) -> Result<Change, String> {
        match text.split_once('=') {
            Some(("delay", value)) => value.parse().map(Change::Delay).map_err(|e| e.to_string()),
            Some(("rate", value)) => match value.parse::<BitRate>() {
                Ok(rate) if rate.as_bps() >= 1000 => Ok(Change::Rate(rate)),
                Ok(_) => Err("give a rate of 1Kbps or more".to_owned()),
                Err(e) => Err(e.to_string()),
            },
            _ => Err("write delay=1ms or rate=100Mbps".to_owned()),
        }
    }
}

/// Verbs for the modelled fabric.
#[derive(Debug, Subcommand)]
pub enum Modelled {
    /// Bring a modelled fabric up, with a Linux host in a network namespace at each edge port
    Up(Box<UpArguments>),
    /// Take a lab down with all that runs in it, also one whose process was killed
    Down {
        #[command(flatten)]
        lab: Name,
        /// All labs
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show links, hosts, and whether the machine keeps up. Exit status 0 if it does, 1 otherwise
    Status {
        #[command(flatten)]
        lab: Name,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a host's network, and end as it ends; host names among its arguments become addresses
    Exec {
        #[command(flatten)]
        lab: Name,
        /// h0 or host0, h1, ...
        host: String,
        /// The command and its arguments, after --
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a scenario with real hosts: the columns and the report of `sim run`. Exit status 1 if the machine did not keep up
    Run(Box<RunArguments>),
    /// Write packets that cross a link into a file
    Capture(CaptureArguments),
    /// Fail a link
    Fail {
        #[command(flatten)]
        lab: Name,
        /// Such as leaf1-spine2
        link: String,
    },
    /// Bring a failed link back
    Heal {
        #[command(flatten)]
        lab: Name,
        /// Such as leaf1-spine2
        link: String,
    },
    /// Change a link's delay or rate
    Set {
        #[command(flatten)]
        lab: Name,
        /// Such as leaf1-spine2
        link: String,
        /// delay=1ms, rate=100Mbps
        #[arg(required = true)]
        changes: Vec<Change>,
    },
    /// Watch links, queues, paths and flows
    Top {
        #[command(flatten)]
        lab: Name,
        /// Between two pictures
        #[arg(long, value_name = "TIME", default_value = "1s")]
        every: Time,
        /// End after so many pictures
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// The process behind a lab
    #[command(hide = true)]
    Daemon,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    /// The fabric, as for `lab up`, without rtt
    #[arg(long, value_name = "KIND,KEY=VALUE,...", default_value = "clos,leaves=2,spines=2,hosts=8,rate=200Mbps")]
    pub topo: String,
    #[arg(long, help = format!("Scheme: {}", BUILT_IN.each_ref().map(|scheme| scheme.name).join(", ")), default_value = BUILT_IN[0].name)]
    pub scheme: String,
    /// Longest round trips to try, in this order, until one is too short
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_value = "10ms,5ms,2ms,1ms,500us,200us,100us")]
    pub rtt: Vec<Time>,
    /// How long each is measured
    #[arg(long, default_value = "2s", value_parser = not_zero)]
    pub duration: Time,
    /// Change a key of the scenario, such as host.rx_coalesce=50us; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub tuning: Tuning,
}
