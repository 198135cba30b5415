//! What may be wrong with a workload.

use crate::tcp::cc::Algorithm;
use units::Bytes;

/// Why a workload cannot be offered to the hosts at hand.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("workload {workload:?}: {problem}")]
pub struct WorkloadError {
    pub workload: String,
    pub problem: Problem,
}

/// Flows that [`Pattern::Random`](super::Pattern::Random) may draw in advance.
pub(super) const MAX_DRAWN: u64 = 10_000_000;

/// Flows that one workload may start: every flow leaves a record of some 150 bytes.
pub(super) const MAX_FLOWS: f64 = 20e6;

/// What is wrong with a workload; each message says what to change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("it needs at least two hosts, the fabric has {0}")]
    TooFewHosts(u32),
    #[error("a ring of {0} has nobody to send to; give at least 2")]
    FewSenders(u32),
    #[error("stride {k} maps every host of {hosts} to itself; choose k between 1 and {}", hosts - 1)]
    StrideToSelf { k: u32, hosts: u32 },
    #[error("host {host} does not exist; hosts are numbered 0 to {}", hosts - 1)]
    NoSuchHost { host: u32, hosts: u32 },
    #[error("host {0} sends to itself; give it another destination")]
    ToSelf(u32),
    #[error("all hosts are in one rack, so none has a host in another rack to send to; give the fabric several racks or use pairs that may stay in the rack")]
    OneRack,
    #[error("no bijection leaves every rack: one has {size} of {hosts} hosts, and at most half may be in one rack")]
    RackTooLarge { rack: u32, size: u32, hosts: u32 },
    #[error("a total of {total} is no multiple of the flow size {size}; give one that is")]
    NotWhole { total: Bytes, size: Bytes },
    #[error("{0} is zero; give a positive value")]
    Zero(&'static str),
    #[error("{senders} senders to one receiver need {} hosts, the fabric has {hosts}", u64::from(*senders) + 1)]
    TooManySenders { senders: u32, hosts: u32 },
    #[error("load {0} is not above 0 and finite; 0.6 stands for 60% of the capacity")]
    BadLoad(String),
    #[error("flows would arrive less than 1 ps apart; lower the load or the capacity, or choose larger flows")]
    TooFast,
    #[error(
        "about {0} flows would start, and a run records at most 20,000,000 of a workload; start fewer or end sooner"
    )]
    TooManyArrivals(u64),
    #[error("stagger has no effect on this pattern; remove it")]
    Stagger,
    #[error("stagger is longer than the period, so that a round would begin in the one before; give a shorter one")]
    StaggerBeyondPeriod,
    #[error("it has no pairs; name at least one")]
    NoPairs,
    #[error("{flows} flows are more than the 10,000,000 that are drawn in advance; lower flows_per_host")]
    TooManyFlows { flows: u64 },
    #[error("there is no model of {0:?}; run it in a lab, or give its guests another congestion control")]
    NotModelled(Algorithm),
}
