//! The receiving half of a connection.

/// Monotonic counters of the receiving half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Data segments received, as GRO delivered them.
    pub segments: u64,
    /// Of those, segments that did not start at the next expected byte but beyond it.
    pub out_of_order: u64,
    /// Of those, segments that brought nothing new.
    pub duplicates: u64,
    /// Data segments that carried CE.
    pub ce_segments: u64,
    /// Wire packets of data that carried CE.
    pub ce_packets: u64,
    /// Pure ACKs sent.
    pub acks_sent: u64,
    /// ACKs sent because the delay ran out.
    pub delayed_acks: u64,
    /// Segments refused: outside the window, or one range too many.
    pub refused: u64,
}

/// The receiving half: reassembly, acknowledgement policy, window.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub counters: ReceiverCounters,
}

impl Receiver {
    /// Stream bytes received in order, read by the application or not.
    pub fn delivered(&self) -> u64 {
        todo!()
    }
    /// Bytes held beyond a hole.
    pub fn out_of_order_bytes(&self) -> u64 {
        todo!()
    }
    /// The peer has closed, and everything before its FIN has arrived.
    pub fn finished(&self) -> bool {
        todo!()
    }
}
