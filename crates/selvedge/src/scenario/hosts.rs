//! `[host]` and `[host.tcp]`.

use super::era::Era;
use super::guests::{FastlaneTable, PfabricTable, ServerTable};
use crate::word::Word;
use config::{within, within_others, OrOff, Wrong};
use host::experiment::{CpuModel, Gro, HostConfig, ServerModel};
use host::tcp::{self, cc::Algorithm, EcnMode, Recovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Bytes, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GroWord {
    Off,
    Stock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CpuWord {
    Off,
    PrestoTestbed,
}

/// `[host]`: NIC, CPU and guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostTable {
    /// The kernel whose defaults `[host.tcp]` has where the file gives none: `linux-3.11`, `linux-3.18`, `linux-6.18`.
    pub era: Option<Era>,
    /// IP packet size.
    #[schemars(extend("x-range" = ["576B", "9216B"]))]
    pub mtu: Bytes,
    /// The NIC splits segments of up to 64 KB.
    pub tso: bool,
    /// Merging in the NIC's poll; a scheme with Presto's receiver replaces it.
    pub gro: GroWord,
    /// The interrupt waits this long after the first packet.
    #[schemars(extend("x-range" = ["0s", "10ms"]))]
    pub rx_coalesce: Time,
    /// Or until this many packets wait.
    #[schemars(range(min = 1, max = 65_536))]
    pub rx_coalesce_frames: u32,
    /// Packets of one poll.
    #[schemars(range(min = 1, max = 65_536))]
    pub rx_budget: u32,
    /// Packets that may wait.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub rx_ring: u32,
    /// Model of the CPU time of packets, see docs/model.md.
    pub cpu: CpuWord,
    /// Hosts without an edge, such as remote users: their packets, and packets to them, have no labels.
    pub plain: Vec<u32>,
    /// The host takes its time for each received packet, before anything else gets it, see below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerTable>,
    pub tcp: TcpTable,
}

/// The congestion control of a guest.
pub(super) type CongestionWord = Word<Algorithm>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoveryWord {
    Newreno,
    Sack,
    Rack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnWord {
    Off,
    Accept,
    Request,
}

/// `[host.tcp]`: the guest's TCP, with Linux's defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpTable {
    /// Congestion control of all guests; a workload may name its own. `bbr` has no model: it is for `lab up` and `lab
    /// run`.
    pub congestion: CongestionWord,
    /// Loss recovery: `sack` is RFC 6675, `rack` RFC 8985, `newreno` RFC 6582.
    pub recovery: RecoveryWord,
    /// As `net.ipv4.tcp_ecn`; DCTCP requests it anyway.
    pub ecn: EcnWord,
    /// Initial congestion window, segments.
    #[schemars(range(min = 1, max = 1000))]
    pub initial_cwnd: u32,
    /// Largest congestion window.
    pub cwnd_clamp: OrOff<Bytes>,
    /// Least retransmission timeout.
    #[schemars(extend("x-range" = ["10us", "60s"]))]
    pub rto_min: Time,
    /// Largest retransmission timeout.
    pub rto_max: Time,
    /// Retransmission timeout before the first sample, so mainly for SYNs.
    pub rto_initial: Time,
    /// Longest delay of an ACK; `"0s"` acknowledges each segment.
    #[schemars(extend("x-range" = ["0s", "500ms"]))]
    pub delayed_ack: Time,
    /// ACKs that are not delayed at a connection's start, and after data that came twice.
    pub quickack: u8,
    /// Fixed receive buffer.
    #[schemars(extend("x-range" = ["4KiB", "1GiB"]))]
    pub rcvbuf: Bytes,
    /// Largest segment.
    pub tso_max: Bytes,
    /// Segments are sized by the pacing rate; else as large as window and data allow.
    pub tso_autosize: bool,
    /// Wait until a third of the window is free.
    pub tso_defer: bool,
    /// Wait only for an ACK that is expected within half a round trip, and a millisecond.
    pub tso_defer_near: bool,
    /// Bytes of one connection in qdisc and NIC.
    #[schemars(extend("x-range" = ["4KiB", "1GiB"]))]
    pub tsq_limit: OrOff<Bytes>,
    /// Count these bytes as Linux does, with buffers' overhead and up to one segment more; matters with large segments.
    pub tsq_truesize: bool,
    /// The limit is a floor: a millisecond's worth may wait if that is more. Otherwise it is a ceiling.
    pub tsq_floor: bool,
    /// Near peers get larger segments, as `net.ipv4.tcp_tso_rtt_log`; 9 in Linux since 5.18, 0 before.
    #[schemars(range(min = 0, max = 31))]
    pub tso_rtt_log: u8,
    /// Space segments by the pacing rate.
    pub pacing: bool,
    /// Nagle's algorithm, Minshall's variant.
    pub nagle: bool,
    /// Timestamps (RFC 7323), which take 12 bytes of each packet.
    pub timestamps: bool,
    /// Proportional rate reduction (RFC 6937).
    pub prr: bool,
    /// Duplicate threshold.
    #[schemars(range(min = 1, max = 1000))]
    pub reordering: u32,
    /// RACK probes for lost tails.
    pub tail_loss_probe: bool,
    /// The duplicate threshold rises with the reordering seen.
    pub adaptive_reordering: bool,
    /// Largest duplicate threshold.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_reordering: u32,
    /// Undo spurious reductions.
    pub undo: bool,
    /// Slow start again after an idle time.
    pub slow_start_after_idle: bool,
    /// CUBIC leaves slow start early.
    pub hystart: bool,
    /// Its clock has whole milliseconds.
    pub hystart_ticks: bool,
    /// A change of the CE state cancels a DCTCP receiver's ACK for the segment that brings it.
    pub dctcp_cancels_ack: bool,
    /// Guests use notifications of dropped packets instead of duplicate ACKs and SACK (FastLane); needs `switch.notify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastlane: Option<FastlaneTable>,
    /// Guests speak pFabric's transport: a fixed timeout of `rto_min` alone finds losses, and packets have ranks (FastLane); needs
    /// `switch.pfabric`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfabric: Option<PfabricTable>,
    /// ICMP Source Quench lowers the window as an ECN echo does; needs `switch.quench`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quench: bool,
}

impl Default for HostTable {
    fn default() -> Self {
        let d = HostConfig::default();
        HostTable {
            era: None,
            mtu: Bytes(d.mtu.into()),
            tso: d.tso,
            gro: GroWord::Stock,
            rx_coalesce: d.rx_coalesce,
            rx_coalesce_frames: d.rx_coalesce_frames,
            rx_budget: d.rx_budget,
            rx_ring: d.rx_ring,
            cpu: CpuWord::Off,
            plain: Vec::new(),
            server: None,
            tcp: TcpTable::default(),
        }
    }
}

impl Default for TcpTable {
    fn default() -> Self {
        let d = tcp::Config::default();
        TcpTable {
            congestion: Word(Algorithm::Cubic),
            recovery: RecoveryWord::Sack,
            ecn: EcnWord::Accept,
            initial_cwnd: d.initial_cwnd,
            cwnd_clamp: OrOff(None),
            rto_min: d.rto_min,
            rto_max: d.rto_max,
            rto_initial: d.rto_initial,
            delayed_ack: d.delayed_ack,
            quickack: d.quickack,
            rcvbuf: Bytes(d.rcvbuf),
            tso_max: Bytes(d.tso_max.into()),
            tso_autosize: d.tso_autosize,
            tso_defer: d.tso_defer,
            tso_defer_near: d.tso_defer_near,
            tsq_limit: OrOff(d.tsq_limit.map(Bytes)),
            tsq_truesize: d.tsq_truesize,
            tsq_floor: d.tsq_floor,
            tso_rtt_log: d.tso_rtt_log,
            pacing: d.pacing,
            nagle: d.nagle,
            timestamps: d.timestamps,
            prr: d.prr,
            reordering: d.reordering,
            tail_loss_probe: d.tail_loss_probe,
            adaptive_reordering: d.adaptive_reordering,
            max_reordering: d.max_reordering,
            undo: d.undo,
            slow_start_after_idle: d.slow_start_after_idle,
            hystart: d.hystart,
            hystart_ticks: d.hystart_ticks,
            dctcp_cancels_ack: d.dctcp_cancels_ack,
            fastlane: None,
            pfabric: None,
            quench: false,
        }
    }
}

impl HostTable {
    pub(super) fn build(&self) -> Result<HostConfig, Wrong> {
        let mut wrong = Wrong::new();
        let sized = wrong.note(within("host.mtu", self.mtu, Bytes(576), Bytes(9216)));
        wrong.note(within("host.rx_coalesce", self.rx_coalesce, Time::ZERO, Time::from_ms(10)));
        wrong.note(within("host.rx_coalesce_frames", self.rx_coalesce_frames, 1, 65_536));
        wrong.note(within("host.rx_budget", self.rx_budget, 1, 65_536));
        wrong.note(within("host.rx_ring", self.rx_ring, 1, 1 << 20));
        // What follows from a wrong size is no fault of its own.
        let mtu = sized.map_or(1500, |()| self.mtu.get() as u16);
        let server = wrong.note(self.server.as_ref().map(ServerTable::build).transpose());
        let tcp = wrong.note(self.tcp.build(mtu, self.tso));
        let made = || Some(self.made(mtu, server?, tcp?));
        let made = made();
        wrong.unless(made)
    }

    fn made(&self, mtu: u16, server: Option<ServerModel>, tcp: tcp::Config) -> HostConfig {
        HostConfig {
            mtu,
            tso: self.tso,
            gro: match self.gro {
                GroWord::Off => Gro::Off,
                GroWord::Stock => Gro::Stock,
            },
            rx_coalesce: self.rx_coalesce,
            rx_coalesce_frames: self.rx_coalesce_frames,
            rx_budget: self.rx_budget,
            rx_ring: self.rx_ring,
            cpu: match self.cpu {
                CpuWord::Off => None,
                CpuWord::PrestoTestbed => Some(CpuModel::PRESTO_TESTBED),
            },
            server,
            tcp,
            mptcp: None,
            plain: self.plain.clone(),
        }
    }
}

impl TcpTable {
    fn build(&self, mtu: u16, tso: bool) -> Result<tcp::Config, Wrong> {
        let mut wrong = Wrong::new();
        let (least, most) = (Time::from_us(10), Time::from_secs(3600));
        wrong.note(within("host.tcp.initial_cwnd", self.initial_cwnd, 1, 1000));
        let rto_min = wrong.note(within("host.tcp.rto_min", self.rto_min, least, Time::from_secs(60)));
        // A range follows from others that are right.
        let rto_min = rto_min.map_or(least, |()| self.rto_min);
        let rto_max = wrong.note(within_others("host.tcp.rto_max", self.rto_max, rto_min, most));
        let rto_max = rto_max.map_or(most, |()| self.rto_max);
        wrong.note(within_others("host.tcp.rto_initial", self.rto_initial, rto_min, rto_max));
        wrong.note(within("host.tcp.delayed_ack", self.delayed_ack, Time::ZERO, Time::from_ms(500)));
        wrong.note(within("host.tcp.rcvbuf", self.rcvbuf, Bytes(4096), Bytes(1 << 30)));
        wrong.note(within_others("host.tcp.tso_max", self.tso_max, Bytes(u64::from(mtu)), Bytes(65_535)));
        let reordering = wrong.note(within("host.tcp.reordering", self.reordering, 1, 1000));
        let least = reordering.map_or(1, |()| self.reordering);
        wrong.note(within_others("host.tcp.max_reordering", self.max_reordering, least, 100_000));
        if let Some(limit) = self.tsq_limit.0 {
            wrong.note(within("host.tcp.tsq_limit", limit, Bytes(4096), Bytes(1 << 30)));
        }
        wrong.note(within("host.tcp.tso_rtt_log", self.tso_rtt_log, 0, 31));
        let pfabric = wrong.note(self.pfabric.as_ref().map(PfabricTable::build).transpose());
        let made = pfabric.map(|pfabric| self.made(mtu, tso, pfabric));
        wrong.unless(made)
    }

    fn made(&self, mtu: u16, tso: bool, pfabric: Option<tcp::pfabric::Options>) -> tcp::Config {
        tcp::Config {
            mss: mtu.saturating_sub(40),
            congestion: self.congestion.0,
            recovery: match self.recovery {
                // They bring their own.
                _ if self.pfabric.is_some() => Recovery::Timer,
                _ if self.fastlane.is_some() => Recovery::NewReno,
                RecoveryWord::Newreno => Recovery::NewReno,
                RecoveryWord::Sack => Recovery::Sack,
                RecoveryWord::Rack => Recovery::Rack,
            },
            ecn: match self.ecn {
                EcnWord::Off => EcnMode::Off,
                EcnWord::Accept => EcnMode::Accept,
                EcnWord::Request => EcnMode::Request,
            },
            initial_cwnd: self.initial_cwnd,
            cwnd_clamp: self.cwnd_clamp.0.map_or(u64::MAX, Bytes::get),
            rto_min: self.rto_min,
            rto_max: self.rto_max,
            rto_initial: self.rto_initial,
            delayed_ack: self.delayed_ack,
            quickack: self.quickack,
            rcvbuf: self.rcvbuf.get(),
            tso,
            tso_max: self.tso_max.get() as u32,
            tso_autosize: self.tso_autosize,
            tso_defer: self.tso_defer,
            tso_defer_near: self.tso_defer_near,
            tsq_limit: self.tsq_limit.0.map(Bytes::get),
            tsq_truesize: self.tsq_truesize,
            tsq_floor: self.tsq_floor,
            tso_rtt_log: self.tso_rtt_log,
            pacing: self.pacing,
            nagle: self.nagle,
            timestamps: self.timestamps,
            prr: self.prr,
            reordering: self.reordering,
            tail_loss_probe: self.tail_loss_probe,
            adaptive_reordering: self.adaptive_reordering,
            max_reordering: self.max_reordering,
            undo: self.undo && self.pfabric.is_none(),
            slow_start_after_idle: self.slow_start_after_idle,
            hystart: self.hystart,
            hystart_ticks: self.hystart_ticks,
            dctcp_cancels_ack: self.dctcp_cancels_ack,
            fastlane: self.fastlane.as_ref().map(FastlaneTable::build),
            pfabric,
            quench: self.quench,
            ..tcp::Config::default()
        }
    }
}
