//! `host.server` and the tables of transports beyond TCP: `host.tcp.fastlane`, `host.tcp.pfabric`.

use config::{within, Invalid, Wrong};
use host::experiment::ServerModel;
use host::tcp::{fastlane, pfabric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Time;

/// `server = {}`: the host takes its time for each received packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerTable {
    /// Packets at a time.
    #[schemars(range(min = 1, max = 65_536))]
    pub parallel: u32,
    /// Time that each takes.
    #[schemars(extend("x-range" = ["0s", "10ms"]))]
    pub service: Time,
    /// Notifications of dropped packets take it too; otherwise guests hear of them at once.
    pub notifications: bool,
}

impl Default for ServerTable {
    fn default() -> Self {
        ServerTable { parallel: 16, service: Time::from_us(5), notifications: true }
    }
}

impl ServerTable {
    pub(super) fn build(&self) -> Result<ServerModel, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("host.server.parallel", self.parallel, 1, 65_536));
        wrong.note(within("host.server.service", self.service, Time::ZERO, Time::from_ms(10)));
        wrong.or(ServerModel { parallel: self.parallel, service: self.service, notifications: self.notifications })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlowdownWord {
    ByRetries,
    Halving,
}

/// `fastlane = {}`: guests use notifications of dropped packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastlaneTable {
    /// How many retransmissions are in the network at once when some are dropped again: half the window over the largest number of
    /// retries, or half of what it was for each retry.
    pub slowdown: SlowdownWord,
    /// ACKs tell how many bytes the receiver holds beyond them, and the window grows by as many.
    pub inflate: bool,
    /// Packets tell how many timeouts their sender had, and it ignores notifications of packets from before the last one.
    pub timeout_count: bool,
}

impl Default for FastlaneTable {
    fn default() -> Self {
        FastlaneTable { slowdown: SlowdownWord::ByRetries, inflate: true, timeout_count: true }
    }
}

impl FastlaneTable {
    pub(super) fn build(&self) -> fastlane::Options {
        let slowdown = match self.slowdown {
            SlowdownWord::ByRetries => fastlane::Slowdown::ByRetries,
            SlowdownWord::Halving => fastlane::Slowdown::Halving,
        };
        fastlane::Options { slowdown, inflate: self.inflate, count: self.timeout_count }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RankWord {
    Size,
    Remaining,
}

/// `pfabric = {}`: guests speak pFabric's transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PfabricTable {
    /// What ranks a packet: all bytes of its message, or those that are left of it.
    pub rank: RankWord,
    /// Timeouts in a row after which only probes leave.
    #[schemars(range(min = 1, max = 1_000))]
    pub probe_after: u32,
    /// With `fastlane` a probe goes before what was dropped is sent again, one packet of it at first; else that goes at once, half a window
    /// at first.
    pub probe_drops: bool,
}

impl Default for PfabricTable {
    fn default() -> Self {
        let pfabric::Options { probe_after, probe_drops, .. } = pfabric::Options::default();
        PfabricTable { rank: RankWord::Size, probe_after, probe_drops }
    }
}

impl PfabricTable {
    pub(super) fn build(&self) -> Result<pfabric::Options, Invalid> {
        within("host.tcp.pfabric.probe_after", self.probe_after, 1, 1_000)?;
        let rank = match self.rank {
            RankWord::Size => pfabric::Rank::Size,
            RankWord::Remaining => pfabric::Rank::Remaining,
        };
        Ok(pfabric::Options { rank, probe_after: self.probe_after, probe_drops: self.probe_drops })
    }
}
