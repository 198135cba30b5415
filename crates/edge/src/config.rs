//! Settings of an [`Edge`](crate::Edge), each with its default.

use crate::balance::Balance;
use crate::{fastlane, hidden, hygenicc, limiter, reorder, vcc};
use units::Time;

/// What an [`Edge`](crate::Edge) does; see each field for the default.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// How outgoing segments are spread over paths. Default ECMP.
    pub balance: Balance,
    /// Of TCP only: what else there is keeps the path that its flow's hash picks, because nobody restores its order.
    /// Default false: as Presto is published.
    pub tcp_only: bool,
    /// Presto's receive-side reordering; `None` (default): incoming segments are never held.
    pub reorder: Option<reorder::Config>,
    /// AC/DC's congestion control of guests; `None` (default): TCP is left alone.
    pub congestion: Option<vcc::Config>,
    /// Classes of the limiter of this edge's guests, with the law that acts on their backlog; none (default).
    pub limits: Vec<limiter::Law>,
    /// Fair shares among the host's guests; `None` (default): they send as they like.
    pub hygenicc: Option<hygenicc::Config>,
    /// What switches tell of drops has packets sent again; `None` (default): it is for the guests.
    pub fastlane: Option<fastlane::Config>,
    /// Packets to other edges are not encapsulated, and carry the guests' five-tuple in an option; `None` (default): the driver's tunnel
    /// carries them. Not with congestion control, FastLane or HyGenICC, which speak to other edges in ways that need a tunnel.
    pub hidden: Option<hidden::Config>,
    /// Connections remembered at once; further ones are forwarded without state. Default 65536.
    pub max_flows: usize,
    /// A connection without a packet for this long is forgotten. Default 60 s.
    pub flow_idle: Time,
    /// Seed of the flow hash, which picks each flow's first path. Default 0.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            balance: Balance::ecmp(),
            tcp_only: false,
            reorder: None,
            congestion: None,
            limits: Vec::new(),
            hygenicc: None,
            fastlane: None,
            hidden: None,
            max_flows: 65_536,
            flow_idle: Time::from_secs(60),
            seed: 0,
        }
    }
}
