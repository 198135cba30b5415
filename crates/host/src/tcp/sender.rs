//! The sending half of a connection: its state. `recovery` processes ACKs, `transmit` chooses what to send, `timer` has the
//! timer.

use crate::tcp::cc::{Cc, Path, Window};
use crate::tcp::dropped::Table;
use crate::tcp::probes::Probes;
use crate::tcp::rack::Rack;
use crate::tcp::rtt::RttEstimator;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::{Config, Recovery};
use units::Time;

/// Where the sender stands in congestion avoidance and recovery, with the names Linux gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaState {
    /// Nothing amiss (Linux's Disorder included).
    Open,
    /// The window is shrinking after an ECN echo.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// What the sender's one timer is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerKind {
    Retransmit,
    TailProbe,
    Reorder,
    Persist,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) kind: TimerKind,
    pub(crate) at: Time,
}

/// Monotonic counters of the sending half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Wire packets of data sent, retransmissions included.
    pub data_packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub data_bytes: u64,
    pub retransmitted_packets: u64,
    pub retransmitted_bytes: u64,
    /// Entries into fast recovery.
    pub fast_retransmits: u32,
    /// Retransmission timeouts, those of SYNs included.
    pub timeouts: u32,
    /// Tail loss probes sent.
    pub tail_loss_probes: u32,
    /// Zero-window probes sent.
    pub window_probes: u32,
    /// DSACK blocks received: spurious retransmissions, or packets duplicated on the way.
    pub spurious: u32,
    /// Window reductions taken back.
    pub undos: u32,
    /// Reductions on an ECN echo.
    pub ecn_reductions: u32,
    /// Duplicate ACKs received (RFC 5681, section 2).
    pub dup_acks: u32,
    /// ACKs received with ECE on a connection with ECN.
    pub ece_acks: u32,
    /// Notifications of dropped packets that were heeded, and those that came too late or told of nothing sent.
    pub notifications: u32,
    pub notifications_ignored: u32,
    /// pFabric's probes sent.
    pub probes: u32,
    /// ICMP Source Quench received for what is under way.
    pub quenches: u32,
}

/// Proportional rate reduction (RFC 6937), in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    pub(crate) prior_cwnd: u64,
    pub(crate) delivered: u64,
    pub(crate) out: u64,
}

/// What it takes to take a reduction back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    /// `snd_una` at the reduction.
    pub(crate) marker: u64,
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    /// Bytes retransmitted since, less those a DSACK reported as superfluous.
    pub(crate) retransmitted: u64,
    /// Timestamp of the first retransmission since.
    pub(crate) first_retransmission: Option<u32>,
    /// Widest stretch from a hole to the highest SACK since, in bytes: how far packets were displaced.
    pub(crate) span: u64,
}

/// A tail loss probe under way (RFC 8985, section 7).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailProbe {
    pub(crate) end: u64,
    pub(crate) is_retransmission: bool,
}

/// A segment that a timer owes and that ignores the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Tail,
    Window,
}

/// The sending half: window, loss recovery, timers, segment sizing.
///
/// Counts bytes where Linux counts packets. Sequence numbers are 64 bits wide; the SYN and the FIN have one each.
#[derive(Clone, Debug)]
pub struct Sender {
    pub counters: SenderCounters,
    /// First byte of the stream.
    pub(crate) start: u64,
    pub(crate) una: u64,
    pub(crate) nxt: u64,
    /// End of the data that the application has written.
    pub(crate) write_end: u64,
    /// A FIN follows at `write_end`.
    pub(crate) fin: bool,
    pub(crate) recovery: Recovery,
    pub(crate) state: CaState,
    /// The probe that a timer asks for.
    pub(crate) probe: Option<Probe>,

    pub(crate) snd_wnd: u64,
    pub(crate) obey_window: bool,
    /// Sequence number of the segment that last set the window (RFC 9293, SND.WL1).
    pub(crate) snd_wl1: u64,
    pub(crate) wnd_shift: u8,

    pub(crate) board: Scoreboard,
    pub(crate) window: Window,
    pub(crate) cc: Cc,
    pub(crate) rtt: RttEstimator,
    pub(crate) rack: Rack,
    pub(crate) timer: Option<Timer>,

    /// A reduction is over when this is acknowledged.
    pub(crate) high_seq: u64,
    /// NewReno without SACK: no fast retransmit until this is passed (RFC 6582, section 3.2).
    pub(crate) reno_recover: u64,
    /// NewReno without SACK: bytes that duplicate ACKs say have left the network.
    pub(crate) reno_sacked: u64,
    /// Duplicate threshold in segments.
    pub(crate) reordering: u32,
    /// Timeouts since `una` last moved.
    pub(crate) consecutive_timeouts: u32,
    /// NextSeg rule 4 was used in this recovery.
    pub(crate) rescued: bool,
    pub(crate) prr: Prr,
    pub(crate) undo: Option<Undo>,
    /// The window was reduced: the next new data has to say so (CWR) where ECN is in use.
    pub(crate) reduced: bool,
    pub(crate) tail_probe: Option<TailProbe>,
    /// With FastLane: what notifications told of, and bytes that the receiver holds beyond its last ACK.
    pub(crate) dropped: Table,
    pub(crate) inflation: u64,
    /// With pFabric.
    pub(crate) probes: Probes,

    /// The window was the limit in the last round (`is_cwnd_limited` and `max_packets_out` of Linux).
    pub(crate) cwnd_limited: bool,
    pub(crate) max_out: u64,
    pub(crate) usage_end: u64,

    /// End of the last segment smaller than the MSS (Minshall).
    pub(crate) small_end: u64,
    pub(crate) last_send: Time,
    pub(crate) pacing_rate: u64,
    pub(crate) max_pacing_rate: u64,
    /// With pacing: no segment before this, and one is waiting for it.
    pub(crate) pace_at: Time,
    pub(crate) pace_waiting: bool,
    pub(crate) nic_queued: u64,
    pub(crate) rtt_sample: Option<Time>,
}

impl Sender {
    pub(crate) fn new(config: &Config, start: u64) -> Sender {
        let mss = u64::from(config.payload_size(0, config.timestamps));
        Sender {
            counters: SenderCounters::default(),
            start,
            una: start,
            nxt: start,
            write_end: start,
            fin: false,
            recovery: config.recovery,
            state: CaState::Open,
            probe: None,
            snd_wnd: 0,
            obey_window: config.obey_window,
            snd_wl1: 0,
            wnd_shift: 0,
            board: Scoreboard::default(),
            window: Window::new(mss, config.initial_cwnd),
            cc: Cc::new(config, start),
            rtt: RttEstimator::default(),
            rack: Rack::default(),
            timer: None,
            high_seq: start,
            reno_recover: 0,
            reno_sacked: 0,
            reordering: config.reordering.max(1),
            consecutive_timeouts: 0,
            rescued: false,
            prr: Prr::default(),
            undo: None,
            reduced: false,
            tail_probe: None,
            dropped: Table::default(),
            inflation: 0,
            probes: Probes::default(),
            cwnd_limited: false,
            max_out: 0,
            usage_end: start,
            small_end: start,
            last_send: Time::ZERO,
            pacing_rate: config.max_pacing_rate,
            max_pacing_rate: config.max_pacing_rate,
            pace_at: Time::ZERO,
            pace_waiting: false,
            nic_queued: 0,
            rtt_sample: None,
        }
    }

    /// Sets what the handshake negotiated.
    pub(crate) fn open(&mut self, mss: u16, initial_cwnd: u32) {
        self.window = Window::new(u64::from(mss), initial_cwnd);
        self.rtt.reset_backoff();
        self.update_pacing_rate();
    }

    /// Stream bytes that the peer has acknowledged in order.
    pub fn acked(&self) -> u64 {
        self.una.clamp(self.start, self.write_end) - self.start
    }
    /// Stream bytes the application has written.
    pub fn written(&self) -> u64 {
        self.write_end - self.start
    }
    /// Stream bytes written but never sent.
    pub fn unsent(&self) -> u64 {
        self.write_end.saturating_sub(self.nxt)
    }
    /// Where a sequence number stands in the stream.
    pub(crate) fn offset_of(&self, seq: u32) -> u64 {
        crate::tcp::segment::unwrap_seq(self.una, seq).saturating_sub(self.start)
    }
    /// Bytes sent and not cumulatively acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.nxt - self.una
    }
    /// Bytes believed to be in the network (RFC 6675 "pipe").
    pub fn in_flight(&self) -> u64 {
        let left = self.board.sacked() + self.board.lost() + self.reno_sacked;
        (self.outstanding() + self.board.retrans()).saturating_sub(left)
    }
    /// Congestion window in bytes; never below one segment.
    pub fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    /// Slow start threshold in bytes; `u64::MAX` before the first congestion.
    pub fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    /// Payload bytes of a full packet.
    pub fn mss(&self) -> u64 {
        self.window.mss
    }
    /// The window the peer announced, in bytes.
    pub fn snd_wnd(&self) -> u64 {
        self.snd_wnd
    }
    pub fn ca_state(&self) -> CaState {
        self.state
    }
    /// Duplicate threshold in force, in segments.
    pub fn reordering(&self) -> u32 {
        self.reordering
    }
    /// DCTCP's estimate of the marked fraction; `None` under any other law.
    pub fn dctcp_alpha(&self) -> Option<f64> {
        self.cc.alpha()
    }
    /// Smoothed RTT (RFC 6298); `None` before the first sample.
    pub fn srtt(&self) -> Option<Time> {
        self.rtt.srtt()
    }
    /// Smallest RTT of the connection.
    pub fn min_rtt(&self) -> Option<Time> {
        self.rtt.min()
    }
    /// Bytes per second that sizes segments, and spaces them where pacing is on.
    pub fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }
    /// The last RTT sample since the previous call.
    pub fn take_rtt_sample(&mut self) -> Option<Time> {
        self.rtt_sample.take()
    }
    /// What a coupled law must know of this subflow; `None` before the first RTT sample.
    pub(crate) fn path(&self) -> Option<Path> {
        let rtt = self.srtt().filter(|&rtt| rtt > Time::ZERO)?.as_secs_f64();
        let between_losses = self.cc.between_losses() as f64;
        Some(Path { cwnd: self.window.segments().max(1.0), rtt, between_losses })
    }
    /// Tells a coupled law of all subflows of the connection, this one being `me`.
    pub(crate) fn couple(&mut self, paths: &[Path], me: usize) {
        self.cc.couple(paths, me);
    }

    /// The FIN was sent and acknowledged.
    pub fn fin_acked(&self) -> bool {
        self.fin && self.una > self.write_end
    }

    /// End of the sequence space in use, FIN included.
    pub(crate) fn end(&self) -> u64 {
        self.write_end + u64::from(self.fin)
    }
}
