//! Counters of an [`Edge`](crate::Edge).

use crate::{fastlane, hidden, hygenicc, limiter, reorder};

/// What an edge has seen since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments given to `process`, in either direction.
    pub egress_segments: u64,
    pub ingress_segments: u64,
    /// Connections remembered, ever; each once more when it begins anew.
    pub flows_begun: u64,
    /// Connections forgotten because they were idle or closed.
    pub flows_expired: u64,
    /// Segments handled without flow state because the table was full.
    pub flow_table_full: u64,
    /// Flowcells begun, the first of each flow included.
    pub flowcells: u64,
    /// Ingress segments of an older flowcell than the newest already seen of their flow.
    pub ingress_late: u64,
    /// All zero without congestion control.
    pub congestion: CongestionCounters,
    /// All zero without a limiter.
    pub limiter: limiter::Counters,
    /// All zero without HyGenICC.
    pub hygenicc: hygenicc::Counters,
    /// All zero without FastLane.
    pub fastlane: fastlane::Counters,
    /// All zero without the hidden overlay.
    pub hidden: hidden::Counters,
    /// All zero without reordering.
    pub reorder: reorder::Counters,
}

/// What virtual congestion control has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CongestionCounters {
    /// Reports sent in the option of an ACK.
    pub packs_sent: u64,
    /// Reports sent in packets of their own.
    pub facks_sent: u64,
    /// Reports received, of either kind.
    pub reports_received: u64,
    /// Payload bytes that came in marked packets.
    pub marked_bytes: u64,
    /// ACKs whose window was lowered.
    pub windows_lowered: u64,
    /// Segments dropped because the guest ignored its window.
    pub policed_segments: u64,
    /// Timeouts inferred that made the guest retransmit.
    pub timeouts: u64,
    /// Window updates sent to guests.
    pub window_updates: u64,
}

/// `since` of counters: all fields but those after the bar, which are the most that was seen at any time.
macro_rules! since {
    ($counters:ty: $($field:ident)* | $($most:ident)*) => {
        impl $counters {
            /// What has happened since `before`; what is the most of all time stays.
            pub fn since(self, before: Self) -> Self {
                Self { $($field: self.$field - before.$field,)* $($most: self.$most,)* }
            }
        }
    };
}

since!(CongestionCounters: packs_sent facks_sent reports_received marked_bytes windows_lowered policed_segments timeouts window_updates |);
since!(hygenicc::Counters: dropped_segments delayed_segments refused_segments marks_counted marks_heard feedback_sent pairs_full |);
since!(
    fastlane::Counters: notifications resent told left postponed untracked empty acked outside stale repeated unkept resent_later
    suppressed | store_max
);
since!(
    hidden::Counters: hidden_segments no_room_segments plain_segments lowered_mss restored_packets malformed_packets forged_packets
    refused_segments |
);
