//! A traffic generator: the workloads of the simulator, offered by real sockets to real hosts.
//!
//! [`run`] takes the simulator's own [`Experiment`] and one [`HostHandle`] per host, a network namespace and an address.
//! Flows come from the same [`host::workload::Source`]s with the same seed, so that lab and simulator carry the same
//! arrivals; what is measured goes into the same [`Outcome`]. Fabric, failures and edges are the caller's business.
//!
//! # How
//! Every host is one thread that has entered the namespace. It serves all sockets of the host, sending and receiving, from
//! one epoll loop. Two more threads per host exchange RTT probes, which must not wait behind bulk data. All read the
//! monotonic clock and count from one instant. A flow carries exactly its size: there are no headers, as both ends learn
//! what to expect from each other's memory. Received bytes are discarded in the kernel.
//!
//! Workloads of other guests than 0 are between addresses of theirs, which the hosts must have. Datagrams are of the size and at
//! the rate of the simulator's, all to one port of a host; whose they are is told by their senders' addresses.
//!
//! # What is measured where
//! A flow starts when its sender connects or writes; [`Report::start_lag`] tells how late that was. It is complete when
//! its receiver has read its last byte, or with `reply` when its sender has read the reply. Retransmissions, timeouts,
//! and out-of-order segments are the kernel's (`TCP_INFO`). Entries into fast recovery are counted per host only, see
//! [`counters::TcpCounters`]: `FlowRecord::fast_retransmits` is 0. Paths are not seen: `paths_used` is 0.
//! RTT samples are the kernel's smoothed RTTs at the sampling instants.

mod clock;
pub mod counters;
mod link;
mod prepared;
mod probe;
mod report;
mod schedule;
mod socket;
mod worker;

use crate::lateness::Lateness;
use counters::TcpCounters;
use host::experiment::Experiment;
use host::outcome::Outcome;
use host::workload::WorkloadError;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use units::Time;

/// A host as the generator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostHandle {
    /// Its network namespace: `/run/netns/NAME`, `/proc/PID/ns/net`, or `/proc/PID/fd/N` of whoever holds it open.
    pub namespace: PathBuf,
    /// Where the other hosts reach it.
    pub address: IpAddr,
}

/// Where guest `guest` of the host with that address is reached, as in the simulator
/// ([`host::experiment::guest_address`]); guest 0 has the host's own address.
fn guest_address(host: IpAddr, guest: u8) -> IpAddr {
    match host {
        IpAddr::V4(host) => Ipv4Addr::from(u32::from(host).wrapping_add(u32::from(guest) << 16)).into(),
        IpAddr::V6(host) => Ipv6Addr::from(u128::from(host).wrapping_add(u128::from(guest) << 16)).into(),
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub now: Time,
    /// Of the experiment, drain included; a run may end before.
    pub end: Time,
    /// Flows of bounded size that are complete or have failed, and how many are known of.
    pub finished: u64,
    pub flows: u64,
}

/// What a run yields.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// As of a simulation, without `ports`; of `hosts` only packets and bytes received are filled in.
    pub outcome: Outcome,
    /// What each host's TCP counted during the run.
    pub counters: Vec<TcpCounters>,
    /// How late the hosts' threads ran: of each of their timers.
    pub lateness: Lateness,
    /// Per started flow: how much later than scheduled, in order of start.
    pub start_lag: Vec<Time>,
    /// Flows whose connection failed, and why the first did. They are unfinished in the outcome.
    pub failed: u64,
    pub first_failure: Option<String>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("{hosts} hosts are given and the experiment has {wanted}")]
    Hosts { hosts: usize, wanted: u32 },
    #[error("{laws} congestion controls are given for {workloads} workloads; give one for each")]
    Laws { laws: usize, workloads: usize },
    #[error("this kernel has no congestion control {law:?}; it has {available}")]
    UnknownLaw { law: String, available: String },
    #[error("more than {0} flows would start; lower the load or end sooner")]
    TooManyFlows(usize),
    #[error("a sampling or probing interval of {0} makes too many samples; choose a longer one")]
    TooManySamples(Time),
    #[error("host {host}: cannot {what}: {error}")]
    Host { host: usize, what: &'static str, error: io::Error },
    #[error("a thread of host {0} has ended abnormally")]
    Panicked(usize),
}

/// Flows that one run may start.
pub const MAX_FLOWS: usize = 2_000_000;
/// Samples that one series may have.
const MAX_SAMPLES: u64 = 1_000_000;
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Offers the experiment's workloads to `hosts` and waits for the end. `laws[i]` is the congestion control of workload i,
/// at both ends, as `TCP_CONGESTION` takes it.
///
/// Takes the experiment's duration and drain, or less if all flows of bounded size are done after the duration. Raises
/// this process's limit of open files to the most that is allowed. Needs CAP_SYS_ADMIN to enter namespaces.
///
/// # Errors
/// See [`Error`]. A connection that fails is no error: see [`Report::failed`].
pub fn run(
    experiment: &Experiment,
    laws: &[String],
    hosts: &[HostHandle],
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    conduct(experiment, laws, hosts, false, progress)
}

/// As [`run`], with hosts' threads before everything else on the machine but a lab's fabric. For a network that holds them back:
/// over one that does not they would take the machine.
///
/// # Errors
/// As [`run`].
pub fn run_preferred(
    experiment: &Experiment,
    laws: &[String],
    hosts: &[HostHandle],
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    conduct(experiment, laws, hosts, true, progress)
}

fn conduct(
    experiment: &Experiment,
    laws: &[String],
    hosts: &[HostHandle],
    preferred: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    check(experiment, laws, hosts)?;
    let schedule = schedule::Schedule::new(experiment, hosts.len())?;
    socket::raise_file_limit();
    report::conduct(experiment, laws, hosts, schedule, preferred, progress)
}

fn check(experiment: &Experiment, laws: &[String], hosts: &[HostHandle]) -> Result<(), Error> {
    let wanted = experiment.racks.hosts();
    if hosts.len() != wanted as usize {
        return Err(Error::Hosts { hosts: hosts.len(), wanted });
    }
    if laws.len() != experiment.workloads.len() {
        return Err(Error::Laws { laws: laws.len(), workloads: experiment.workloads.len() });
    }
    let available = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    let available = available.trim().to_owned();
    if let Some(law) = laws.iter().find(|law| !available.split(' ').any(|known| known == law.as_str())) {
        return Err(Error::UnknownLaw { law: law.clone(), available });
    }
    for every in [experiment.record.sample_every, experiment.record.probe_every] {
        if every > Time::ZERO && experiment.duration.as_ps() / every.as_ps() > MAX_SAMPLES {
            return Err(Error::TooManySamples(every));
        }
    }
    Ok(())
}
