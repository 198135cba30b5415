//! Workloads: the flows between hosts.
//!
//! A [`Workload`] is configuration. A [`Source`] turns it into [`FlowSpec`]s, lazily and in order of start. The flows are a
//! function of (workload, its index, hosts, seed) and, for a closed loop such as [`Pattern::Shuffle`], of the reported
//! completions.
//!
//! Random pairings ([`Pattern::RandomBijection`], [`Pattern::Random`], [`Pairs::Bijection`], [`Pairs::Random`]) depend
//! on the seed and on [`Workload::pairing`] but not on the workload's index, so that mice can follow the elephants of
//! another workload, and so that two schemes compared on one seed see the same pairs.

mod arrivals;
mod cdf;
mod demand;
mod fan_out;
mod hosts;
mod import;
mod list;
mod matrix;
mod number;
mod pairs;
mod sequence;
mod shape;
mod shuffle;
mod source;
mod staircase;
#[cfg(test)]
mod tests;

pub use cdf::{Cdf, CdfError};
pub use demand::Demand;
pub use hosts::HostMap;
pub use import::ImportError;
pub use list::FlowList;
pub use pairs::Pairs;
pub use source::Source;

use crate::tcp::cc::Algorithm;
use units::{BitRate, Bytes, Time};

/// One flow: bytes from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    pub start: Time,
    pub src: u32,
    pub dst: u32,
    /// Bytes of application data, at least 1; `None` for a flow that runs until the end.
    pub size: Option<u64>,
    /// Index of the workload.
    pub class: u16,
    /// The flow is complete when its sender has an application-level acknowledgement, instead of when its receiver has
    /// the last byte.
    pub reply: bool,
    /// The flow answers a request of so many bytes, which `dst` sends to `src` first, on the flow's connection. Only for fresh ones.
    pub request: Option<u64>,
    pub connection: Connection,
    /// The source's own, to be handed back to [`Source::on_complete`] unchanged.
    pub tag: u32,
}

/// Bytes of an application-level acknowledgement.
pub const REPLY_BYTES: u64 = 64;

impl FlowSpec {
    /// Who opens the connection, and who waits for that.
    pub(crate) fn ends(&self) -> [u32; 2] {
        match self.request {
            Some(_) => [self.dst, self.src],
            None => [self.src, self.dst],
        }
    }
    /// What the end that opens the connection writes first; `None`: without end.
    pub(crate) fn first_bytes(&self) -> Option<u64> {
        self.request.or(self.size)
    }
    /// Has the other end something to say when it has that?
    pub(crate) fn is_replied(&self) -> bool {
        self.reply || self.request.is_some()
    }
    /// How much that is.
    pub(crate) fn reply_bytes(&self) -> u64 {
        match self.request {
            Some(_) => self.size.unwrap_or_default(),
            None => REPLY_BYTES,
        }
    }
}

/// Which connection carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Connection {
    /// A new one per flow; its handshake is part of the completion time.
    #[default]
    Fresh,
    /// One per (workload, source, destination), opened by the first flow and kept; its congestion window carries over.
    Persistent,
}

/// Datagrams as large as the MTU allows, sent at a constant rate, without answer. Only for flows without a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// Of payload. What the host's queues have no room for is not sent.
    pub rate: BitRate,
}

/// Flows of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Names the workload's metrics.
    pub name: String,
    pub pattern: Pattern,
    /// No flow starts earlier; the times of a [`Pattern::List`] count from here.
    pub start: Time,
    /// No flow starts at or after this; the run's end if `None`.
    pub stop: Option<Time>,
    pub connection: Connection,
    /// Persistent connections per pair (in a sequence per application), at least 1. Messages take them in turn.
    pub connections: u32,
    /// See [`FlowSpec::reply`].
    pub reply: bool,
    /// Flows that would start together start at a random moment within this span instead. Only for [`Pattern::Stride`],
    /// [`Pattern::RandomBijection`], [`Pattern::Random`], [`Pattern::Long`], [`Pattern::Shuffle`] and
    /// [`Pattern::Sequence`].
    pub stagger: Time,
    /// See [`FlowSpec::request`]; only for [`Pattern::FanOut`] on fresh connections.
    pub request: Option<Bytes>,
    /// Which random pairing: workloads of equal number have the same.
    pub pairing: u32,
    /// Strict priority of its packets at switches, 0 first; the last queue takes what exceeds the number of queues.
    pub priority: u8,
    /// The law of its connections, at both ends; the hosts' own if `None`.
    pub congestion: Option<Algorithm>,
    /// Its senders keep to their congestion window and ignore the receiver's window.
    pub ignore_window: bool,
    /// Of each host, its guest 0 to 254: guests have addresses of their own. [`crate::experiment::guest_address`]
    pub guest: u8,
    /// It sends datagrams, and no TCP.
    pub datagrams: Option<Datagrams>,
    /// Flows without a size end then.
    pub until: Option<Time>,
    /// Each of its connections sends at most so fast, payload, its segments spaced.
    pub rate_cap: Option<BitRate>,
}

impl Workload {
    /// A workload from time zero to the end of the run on fresh connections; [`Pattern::Mice`] wait for a reply.
    pub fn new(name: impl Into<String>, pattern: Pattern) -> Workload {
        Workload {
            name: name.into(),
            reply: matches!(pattern, Pattern::Mice { .. }),
            pattern,
            start: Time::ZERO,
            stop: None,
            connection: Connection::Fresh,
            connections: 1,
            request: None,
            stagger: Time::ZERO,
            pairing: 0,
            priority: 0,
            congestion: None,
            ignore_window: false,
            guest: 0,
            datagrams: None,
            until: None,
            rate_cap: None,
        }
    }
}

/// Senders, receivers, sizes and times of flows. `n` is the number of hosts, which are numbered from 0.
///
/// "Rack" is a host's group in [`HostMap`]; the Presto paper calls it a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Host i sends to host (i + k) mod n (Presto section 4). Unbounded if `size` is `None`.
    Stride { k: u32, size: Option<Bytes> },
    /// A random permutation in which no host sends to its own rack, so that every host receives from exactly one
    /// (Presto section 4).
    RandomBijection { size: Option<Bytes> },
    /// Every host sends `flows_per_host` flows, each to a random host outside its rack; receivers may coincide (Presto
    /// section 4).
    Random { flows_per_host: u32, size: Option<Bytes> },
    /// Every host sends `size` to every other host in a random order of its own, `concurrent` at a time: the next flow
    /// starts when one completes (Presto section 4: 1 GB, two at a time).
    Shuffle { size: Bytes, concurrent: u32 },
    /// The `senders` hosts that follow `receiver` in number (wrapping round) send `size` to it at the same instant, once
    /// or `every` so often, whether or not earlier rounds are complete.
    Incast { senders: u32, receiver: u32, size: Bytes, every: Option<Time> },
    /// Every host sends `size` to every other host, all at once, round r being host i to host (i + r) mod n.
    AllToAll { size: Bytes },
    /// Periodic messages: every pair has a clock of period `every` and a random phase (Presto section 4: 50 KB every
    /// 100 ms, request to application-level acknowledgement). [`Pairs::AnyOther`] and [`Pairs::OtherRack`] have one clock
    /// per host and draw the destination for each message.
    Mice { size: Bytes, every: Time, to: Pairs },
    /// Open-loop Poisson arrivals: every sending host is a Poisson process of rate
    ///
    /// ```text
    /// flows per second and host = load x capacity / (8 x mean flow size in bytes)
    /// ```
    ///
    /// `load` is therefore application bytes offered by a host as a share of `capacity`, in bits per second per host,
    /// which the scenario names: the access link's rate, or the host's share of the core when the core is the
    /// bottleneck. Headers, acknowledgements and retransmissions come on top: with a 1,500-octet MTU the wire carries
    /// about 6% more. Only hosts that send (see [`Pairs`]) count. `docs/workloads.md` gives an example.
    Poisson { cdf: Cdf, load: f64, capacity: BitRate, pairs: Pairs },
    /// Bursts of answers: every host is a Poisson process of requests to other hosts. All answer at the request's instant
    /// with `size` each, `total / size` flows in all; the total is one of `totals`, each equally likely. Answering hosts are
    /// drawn without repetition, or in turn if there are fewer hosts than answers. The requests themselves are sent only with
    /// [`Workload::request`].
    /// `load` is what a host receives, as in [`Pattern::Poisson`]. (Zats et al., FastLane, 2013, section 5.)
    FanOut { size: Bytes, totals: Vec<Bytes>, load: f64, capacity: BitRate },
    /// Exactly these flows. Their own `size`, `reply` and `connection` hold; `class` and `tag` are overwritten.
    List(Vec<FlowSpec>),
    /// One flow per pair.
    Long { pairs: Pairs, size: Option<Bytes> },
    /// Every sending host runs this many `applications`. Each sends messages one after another: the next starts
    /// `pause` after one completes. Sizes are drawn; destinations are drawn too, or taken in turn where the pairs are
    /// fixed; a host's applications begin with different ones. Persistent connections are each application's own. A workload starts at most 20 million messages.
    Sequence { size: Cdf, applications: u32, pause: Time, to: Pairs },
    /// One flow per pair; they join one by one, `every` so often, and leave in the same way, the last one first (the
    /// convergence test of Alizadeh et al., SIGCOMM 2010, section 4.1).
    Staircase { pairs: Pairs, every: Time },
}

/// Why a workload cannot be offered to the hosts at hand.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("workload {workload:?}: {problem}")]
pub struct WorkloadError {
    pub workload: String,
    pub problem: Problem,
}

/// Flows that [`Pattern::Random`] may draw in advance.
const MAX_DRAWN: u64 = 10_000_000;

/// Flows that one workload may start: every flow leaves a record of some 150 bytes.
const MAX_FLOWS: f64 = 20e6;

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
    #[error(
        "no bijection leaves every rack: rack {rack} has {size} of {hosts} hosts, and at most half may be in one rack"
    )]
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
