//! Settings that an operator makes by sysctl and socket option, with the defaults of Linux.

use crate::tcp::algorithm::Algorithm;
use crate::tcp::options::{FastLane, PFabric};
use units::Time;

/// How lost segments are found and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Duplicate ACKs and partial ACKs, no SACK (RFC 6582).
    NewReno,
    /// SACK-based recovery (RFC 6675).
    Sack,
    /// Time-based loss detection with tail loss probes (RFC 8985).
    Rack,
    /// SACK tells what has arrived, and only the timer what is lost ([`crate::tcp::pfabric`]).
    Timer,
}

/// Willingness to use ECN, as `net.ipv4.tcp_ecn`; a law that needs ECN (DCTCP) requests it whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnMode {
    /// 0: neither ask nor agree.
    Off,
    /// 2: agree when asked (the default of Linux).
    Accept,
    /// 1: ask and agree.
    Request,
}

/// Settings of one endpoint; many connections share one behind an `Arc`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// MSS to announce: MTU - 40 bytes. With timestamps a packet carries 12 bytes less.
    pub mss: u16,
    pub congestion: Algorithm,
    pub recovery: Recovery,
    pub ecn: EcnMode,
    /// Repeat a lost SYN without asking for ECN, as Linux does (`tcp_ecn_fallback`).
    pub ecn_fallback: bool,
    /// Initial window in segments (RFC 6928).
    pub initial_cwnd: u32,
    /// The congestion window does not grow beyond so many bytes (Linux: `snd_cwnd_clamp`, in segments).
    pub cwnd_clamp: u64,
    /// Lower bound of the retransmission timeout. RFC 6298 says 1 s, Linux 200 ms, datacenter papers 10 ms.
    /// Lower [`Config::delayed_ack`] with it: where an ACK may be delayed longer, timeouts are spurious.
    pub rto_min: Time,
    pub rto_max: Time,
    /// Timeout before the first RTT sample, for SYNs above all (RFC 6298, rule 2.1).
    pub rto_initial: Time,
    /// Shortest interval between zero-window probes (Linux: 200 ms).
    pub persist_min: Time,
    /// How long an ACK may wait for a second segment; zero acknowledges every segment at once.
    pub delayed_ack: Time,
    /// How many ACKs at the start of a connection, and again after data that came twice, are not delayed (Linux: 16).
    pub quickack: u8,
    /// Receive buffer in bytes; fixed, so the announced window does not grow with use as Linux's autotuning makes it.
    pub rcvbuf: u64,
    /// Keeps within the window that the peer announces, as TCP must; a sender that does not is for tests of those who police
    /// it.
    pub obey_window: bool,
    /// The application reads at once; otherwise it calls `Endpoint::read` and the window closes meanwhile.
    pub auto_read: bool,
    /// Out-of-order ranges held at most; a segment that would make one more is dropped.
    pub max_ooo_ranges: u16,
    /// Build segments larger than one MSS for the NIC to split.
    pub tso: bool,
    /// Largest such segment in bytes of payload; rounded down to whole MSS.
    pub tso_max: u32,
    /// Size segments by the pacing rate (`tcp_tso_autosize`, Linux since 3.12); otherwise they are as large as window and data
    /// allow.
    pub tso_autosize: bool,
    /// Let a segment wait until a third of the window is free (`tcp_tso_win_divisor`).
    pub tso_defer: bool,
    /// It waits only for an ACK that is near: expected within half a round trip, and a millisecond (Linux since 6.18).
    pub tso_defer_near: bool,
    /// Bytes of one connection in qdisc and NIC at most (TCP small queues); `None` where a VM or router hides them.
    pub tsq_limit: Option<u64>,
    /// Count these bytes as Linux does: with a buffer's overhead for each segment, and until the limit is reached. Otherwise what
    /// would exceed it waits, which is about the same for small segments, and a large segment less.
    pub tsq_truesize: bool,
    /// [`Config::tsq_limit`] is a floor: a millisecond's worth may wait if that is more (Linux 3.13 to 3.18). Otherwise it is the
    /// ceiling of two segments or a millisecond's worth.
    pub tsq_floor: bool,
    /// Near peers get larger segments: the largest one, shifted right by the least RTT in us shifted right by this, is added to
    /// a millisecond's worth (`tcp_tso_rtt_log`; Linux since 5.18: 9). 0: nothing is added.
    pub tso_rtt_log: u8,
    /// Space segments by the pacing rate, instead of only sizing them by it.
    pub pacing: bool,
    /// Upper bound of the pacing rate in bytes per second (`SO_MAX_PACING_RATE`).
    pub max_pacing_rate: u64,
    /// Hold back a small segment while another small one is unacknowledged (Minshall's variant, as Linux).
    pub nagle: bool,
    /// RFC 7323 timestamps, 12 bytes in every packet. Off, although Linux has them on, so that the MSS is the payload.
    /// What they change: an ACK of retransmitted data gives an RTT sample and so ends the back-off of the timeout
    /// (else Karn's rule keeps it until data sent once is acknowledged), and a spurious timeout is recognised.
    pub timestamps: bool,
    /// Shrink the window by PRR (RFC 6937) instead of at once.
    pub prr: bool,
    /// Duplicate threshold to start with: segments SACKed above a hole before it counts as lost.
    pub reordering: u32,
    /// Probe for lost tails (RFC 8985, section 7); with [`Recovery::Rack`] only. A switch of its own in Linux, `tcp_early_retrans`.
    pub tail_loss_probe: bool,
    /// Raise the duplicate threshold with the reordering seen (Linux); RFC 6675 keeps it at 3.
    pub adaptive_reordering: bool,
    /// Upper bound of that (`tcp_max_reordering`).
    pub max_reordering: u32,
    /// Restore the window when DSACK or timestamps prove a reduction spurious (RFC 3522, RFC 3708).
    pub undo: bool,
    /// Fall back to the initial window after an idle RTO (`tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// CUBIC leaves slow start early on rising delay or a long ACK train (Linux: on).
    pub hystart: bool,
    /// It measures the train in whole milliseconds of the clock (Linux before 5.6), not in microseconds: with round trips below
    /// 2 ms it then leaves slow start in the first round in which the clock ticks.
    pub hystart_ticks: bool,
    /// Receivers under DCTCP do not acknowledge the segment with which the CE state changes: the ACK for what came before it
    /// cancels its own (Linux before 4.18).
    pub dctcp_cancels_ack: bool,
    /// Uses notifications of dropped packets instead of duplicate ACKs; needs [`Recovery::NewReno`] and a fabric that sends them.
    pub fastlane: Option<FastLane>,
    /// Ranks packets and uses nothing but a fixed timer, which is `rto_min`; needs [`Recovery::Timer`], and switches that rank.
    pub pfabric: Option<PFabric>,
    /// Lowers its window on ICMP Source Quench as on an ECN echo, and resends nothing.
    pub quench: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss: 1460,
            congestion: Algorithm::Cubic,
            recovery: Recovery::Sack,
            ecn: EcnMode::Accept,
            ecn_fallback: true,
            initial_cwnd: 10,
            cwnd_clamp: u64::MAX,
            rto_min: Time::from_ms(200),
            rto_max: Time::from_secs(120),
            rto_initial: Time::from_secs(1),
            persist_min: Time::from_ms(200),
            delayed_ack: Time::from_ms(40),
            quickack: 16,
            rcvbuf: 6 << 20,
            obey_window: true,
            auto_read: true,
            max_ooo_ranges: 1024,
            tso: true,
            tso_max: 65_160,
            tso_autosize: true,
            tso_defer: true,
            tso_defer_near: false,
            tsq_limit: Some(128 << 10),
            tsq_truesize: false,
            tsq_floor: false,
            tso_rtt_log: 0,
            pacing: false,
            max_pacing_rate: u64::MAX,
            nagle: true,
            timestamps: false,
            prr: true,
            reordering: 3,
            tail_loss_probe: true,
            adaptive_reordering: true,
            max_reordering: 300,
            undo: true,
            slow_start_after_idle: true,
            hystart: true,
            hystart_ticks: false,
            dctcp_cancels_ack: false,
            fastlane: None,
            pfabric: None,
            quench: false,
        }
    }
}

impl Config {
    /// Payload bytes of a full packet when the peer announced `peer_mss`; at least 1.
    pub(crate) fn payload_size(&self, peer_mss: u16, timestamps: bool) -> u16 {
        let mss = if peer_mss == 0 { self.mss } else { self.mss.min(peer_mss) };
        let options = if timestamps { 12 } else { 0 } + if self.fastlane.is_some() { 4 } else { 0 };
        mss.saturating_sub(options).max(1)
    }

    /// The window scale shift to announce: the smallest that lets the field express the receive buffer.
    pub(crate) fn window_shift(&self) -> u8 {
        (0..14).find(|shift| self.rcvbuf >> shift <= 0xffff).unwrap_or(14)
    }

    /// ECN is asked for on connect.
    pub(crate) fn requests_ecn(&self) -> bool {
        self.ecn == EcnMode::Request || self.congestion.needs_ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_shift_fits_the_buffer() {
        let shift = |rcvbuf| Config { rcvbuf, ..Config::default() }.window_shift();
        assert_eq!([1, 65_535, 65_536, 6 << 20, 1 << 30, u64::MAX].map(shift), [0, 0, 1, 7, 14, 14]);
    }

    #[test]
    fn payload_is_the_smaller_mss_less_options() {
        let config = Config::default();
        assert_eq!(config.payload_size(0, false), 1460);
        assert_eq!(config.payload_size(9000, true), 1448);
        assert_eq!(config.payload_size(536, false), 536);
        assert_eq!(Config { mss: 5, ..config }.payload_size(5, true), 1);
    }
}
