//! The sending half of a connection.
use units::Time;

/// Where the sender stands in congestion avoidance and recovery, with the names Linux gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaState {
    /// Nothing amiss (Linux's Disorder included).
    Open,
    /// The window is shrinking after an ECN echo or a repaired tail loss.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
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
    /// DSACK blocks received: spurious retransmissions.
    pub spurious: u32,
    /// Window reductions taken back.
    pub undos: u32,
    /// Reductions on an ECN echo.
    pub ecn_reductions: u32,
    /// Duplicate ACKs received.
    pub dup_acks: u32,
    /// ACKs received with ECE.
    pub ece_acks: u32,
}

/// The sending half: window, loss recovery, timers, segment sizing.
#[derive(Clone, Debug)]
pub struct Sender {
    pub counters: SenderCounters,
}

impl Sender {
    /// Stream bytes that the peer has acknowledged in order.
    pub fn acked(&self) -> u64 {
        todo!()
    }
    /// Stream bytes the application has written.
    pub fn written(&self) -> u64 {
        todo!()
    }
    /// Stream bytes written but never sent.
    pub fn unsent(&self) -> u64 {
        todo!()
    }
    /// Bytes believed to be in the network (RFC 6675 "pipe").
    pub fn in_flight(&self) -> u64 {
        todo!()
    }
    /// Congestion window in bytes; never below one segment.
    pub fn cwnd(&self) -> u64 {
        todo!()
    }
    /// Slow start threshold in bytes; `u64::MAX` before the first congestion.
    pub fn ssthresh(&self) -> u64 {
        todo!()
    }
    /// Payload bytes of a full packet.
    pub fn mss(&self) -> u64 {
        todo!()
    }
    /// The window the peer announced, in bytes.
    pub fn snd_wnd(&self) -> u64 {
        todo!()
    }
    pub fn ca_state(&self) -> CaState {
        todo!()
    }
    /// Smoothed RTT (RFC 6298); `None` before the first sample.
    pub fn srtt(&self) -> Option<Time> {
        todo!()
    }
    /// Retransmission timeout in force, back-off included.
    pub fn rto(&self) -> Time {
        todo!()
    }
    /// Bytes per second that sizes segments, and spaces them where pacing is on.
    pub fn pacing_rate(&self) -> u64 {
        todo!()
    }
    /// The last RTT sample since the previous call.
    pub fn take_rtt_sample(&mut self) -> Option<Time> {
        todo!()
    }
}
