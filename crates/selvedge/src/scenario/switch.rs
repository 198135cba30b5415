//! `[switch]`.

use super::queues::CodelTable;
use config::{within, Invalid, OrOff, Wrong};
use fabric::{Aqm, Buffer, Multipath, Notify, Pace, Parallel, SwitchConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Bytes, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MultipathWord {
    Ecmp,
    Wcmp,
    EcmpFlowcell,
    Spray,
    #[serde(rename = "letflow")]
    LetFlow,
    Conga,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParallelWord {
    Hash,
    InOrder,
}

/// `[switch]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SwitchTable {
    /// Buffer of a whole switch if shared, else of each port.
    #[schemars(extend("x-range" = ["1538B", "1024GiB"]))]
    pub buffer: Bytes,
    /// Ports share the buffer by dynamic threshold.
    pub shared: bool,
    /// A port may hold alpha times the free buffer.
    #[schemars(range(max = 1024.0), extend("exclusiveMinimum" = 0.0))]
    pub alpha: f64,
    /// Strict-priority queues per port. A port drops by all that it holds, so a higher priority does not save a packet.
    #[schemars(range(min = 1, max = 8))]
    pub priorities: u8,
    /// Choice among equal paths for packets without a label: hash of the 5-tuple, the same with each next hop weighted
    /// by the capacity behind it, hash of 5-tuple and flowcell, random per packet, random per flowlet, or CONGA.
    pub multipath: MultipathWord,
    /// With `letflow` and `conga`: a flow's pause that ends a flowlet.
    #[schemars(extend("x-range" = ["1us", "4s"]))]
    pub flowlet_gap: Time,
    /// Which of several links to one switch a spine takes: by `multipath`, or the k-th for what came over the k-th; without
    /// that one, one of those left.
    pub parallel: ParallelWord,
    /// Packets lost at random on every link.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub loss_per_million: u32,
    /// Time from a failure to the change of the switches' tables.
    #[schemars(extend("x-range" = ["0s", "1000s"]))]
    pub reroute_after: Time,
    /// Marking at the instantaneous queue: DCTCP's threshold, or RED.
    pub ecn: Option<EcnTable>,
    /// Switches tell the source of each TCP packet that they drop (FastLane), see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyTable>,
    /// CoDel (RFC 8289) instead of `ecn`: queue management by how long packets wait, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codel: Option<CodelTable>,
    /// Sources of TCP packets that CoDel picks out get an ICMP Source Quench.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quench: bool,
    /// Packets wait in order of ranks that guests give them, and put out those that rank behind them where there is no room; needs
    /// `host.tcp.pfabric`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pfabric: bool,
}

/// `notify = {}` or `notify = {share_per_million = 10_000, buffer = "3.2KB"}`: what notifications may cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotifyTable {
    /// Share of each link's rate that notifications get while data waits; 1000000 caps nothing.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub share_per_million: u32,
    /// One notification in this time instead, whatever the link's rate.
    #[schemars(extend("x-range" = ["1ns", "1s"]))]
    pub every: OrOff<Time>,
    /// Notifications that wait at a port; more are dropped.
    #[schemars(extend("x-range" = ["64B", "1MB"]))]
    pub buffer: OrOff<Bytes>,
    /// Notifications leave at once where no data waits.
    pub work_conserving: bool,
}

impl Default for NotifyTable {
    fn default() -> Self {
        NotifyTable {
            share_per_million: 10_000,
            every: OrOff(None),
            buffer: OrOff(Some(Bytes(3_200))),
            work_conserving: true,
        }
    }
}

impl NotifyTable {
    fn build(&self) -> Result<Notify, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("switch.notify.share_per_million", self.share_per_million, 1, 1_000_000));
        if let Some(every) = self.every.0 {
            wrong.note(within("switch.notify.every", every, Time::from_ns(1), Time::from_secs(1)));
        }
        if let Some(buffer) = self.buffer.0 {
            wrong.note(within("switch.notify.buffer", buffer, Bytes(64), Bytes(1_000_000)));
        }
        let pace = match (self.every.0, self.share_per_million) {
            (Some(every), _) => Pace::Every(every),
            (None, 1_000_000) => Pace::Unlimited,
            (None, per_million) => Pace::Share { per_million },
        };
        wrong.or(Notify { pace, buffer: self.buffer.0, work_conserving: self.work_conserving })
    }
}

/// `ecn = {k = ...}` or `ecn = {kmin = ..., kmax = ..., pmax = ...}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnTable {
    pub k: Option<Bytes>,
    pub kmin: Option<Bytes>,
    pub kmax: Option<Bytes>,
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pmax: Option<f64>,
}

impl Default for SwitchTable {
    fn default() -> Self {
        SwitchTable {
            buffer: Bytes(9_000_000),
            shared: true,
            alpha: 1.0,
            priorities: 1,
            multipath: MultipathWord::Ecmp,
            flowlet_gap: Time::from_us(500),
            parallel: ParallelWord::Hash,
            loss_per_million: 0,
            reroute_after: Time::from_ms(10),
            ecn: None,
            notify: None,
            codel: None,
            quench: false,
            pfabric: false,
        }
    }
}

impl SwitchTable {
    pub(super) fn build(&self) -> Result<SwitchConfig, Wrong> {
        let mut wrong = Wrong::new();
        wrong.note(within("switch.buffer", self.buffer, Bytes(1538), Bytes(1 << 40)));
        wrong.note(within("switch.priorities", self.priorities, 1, 8));
        wrong.note(within("switch.loss_per_million", self.loss_per_million, 0, 1_000_000));
        wrong.note(within("switch.flowlet_gap", self.flowlet_gap, Time::from_us(1), Time::from_secs(4)));
        wrong.note(within("switch.reroute_after", self.reroute_after, Time::ZERO, Time::from_secs(1000)));
        if !(self.alpha > 0.0 && self.alpha <= 1024.0) {
            let problem = format!("{} is out of range", self.alpha);
            wrong.add(Invalid::value("switch.alpha", problem, "give a number above 0, up to 1024, such as 1.0"));
        }
        let buffer = match self.shared {
            true => Buffer::Shared { total: self.buffer, alpha: self.alpha },
            false => Buffer::PerPort(self.buffer),
        };
        let codel = wrong.note(self.codel.as_ref().map(CodelTable::build).transpose()).flatten();
        let ecn = wrong.note(self.ecn.as_ref().map(EcnTable::build).transpose()).flatten();
        if self.ecn.is_some() && self.codel.is_some() {
            wrong.add(Invalid::value("switch.codel", "is given beside `ecn`", "keep one of them"));
        }
        if self.quench && self.codel.is_none() {
            let problem = "nothing says when sources are quenched";
            wrong.add(Invalid::new("switch.quench", problem, "add `codel = {}` to [switch], or remove it"));
        }
        let aqm = ecn.or(codel.map(Aqm::Codel));
        let notify = wrong.note(self.notify.as_ref().map(NotifyTable::build).transpose()).flatten();
        let (ranked, quench) = (self.pfabric, self.quench);
        let parallel = match self.parallel {
            ParallelWord::Hash => Parallel::Hash,
            ParallelWord::InOrder => Parallel::InOrder,
        };
        wrong.or(SwitchConfig { buffer, aqm, priorities: self.priorities, parallel, notify, ranked, quench })
    }

    pub(super) fn multipath(&self) -> Multipath {
        match self.multipath {
            MultipathWord::Ecmp => Multipath::Ecmp,
            MultipathWord::Wcmp => Multipath::Wcmp,
            MultipathWord::EcmpFlowcell => Multipath::EcmpFlowcell,
            MultipathWord::Spray => Multipath::Spray,
            MultipathWord::LetFlow => Multipath::LetFlow { gap: self.flowlet_gap },
            MultipathWord::Conga => Multipath::Conga { gap: self.flowlet_gap },
        }
    }
}

impl EcnTable {
    fn build(&self) -> Result<Aqm, Wrong> {
        let mut wrong = Wrong::new();
        let remedy = "write {k = \"65KB\"} or {kmin = \"50KB\", kmax = \"100KB\", pmax = 0.1}";
        match (self.k, self.kmin, self.kmax, self.pmax) {
            (Some(k), None, None, None) => Ok(Aqm::Threshold { k }),
            (None, Some(kmin), Some(kmax), Some(pmax)) => {
                if kmin > kmax {
                    let problem = format!("kmin {kmin} is above kmax {kmax}");
                    wrong.add(Invalid::value("switch.ecn.kmin", problem, "exchange them"));
                }
                wrong.note(within("switch.ecn.pmax", pmax, 0.0, 1.0));
                wrong.or(Aqm::Red { kmin, kmax, pmax })
            }
            _ => Err(Invalid::new("switch.ecn", "needs either k or all of kmin, kmax and pmax", remedy).into()),
        }
    }
}
