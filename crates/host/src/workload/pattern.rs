//! What a workload is: its pattern, and what its flows have in common.

use super::{Cdf, Connection, Datagrams, FlowSpec, Pairs};
use crate::tcp::cc::Algorithm;
use units::{BitRate, Bytes, Time};

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

    /// The number of the request that a flow of it answers together with others.
    pub fn request_of(&self, flow: &FlowSpec) -> Option<u32> {
        matches!(self.pattern, Pattern::Incast { .. }).then_some(flow.tag)
    }
}

/// Senders, receivers, sizes and times of flows. `n` is the number of hosts, which are numbered from 0.
///
/// "Rack" is a host's group in [`HostMap`](super::HostMap); the Presto paper calls it a pod.
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
