//! What the data path counts: `enum sv_counter` of `datapath/kernel/state.h`.

macro_rules! counters {
    ($($variant:ident $name:literal,)*) => {
        /// `enum sv_counter`, in its order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Counter { $($variant),* }

        impl Counter {
            pub const ALL: &[Counter] = &[$(Counter::$variant),*];

            /// Snake case, with the unit where it is not a count of segments.
            pub fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name),* }
            }
        }
    };
}

counters! {
    OutSegments "out_segments",
    OutBytes "out_bytes",
    InSegments "in_segments",
    InBytes "in_bytes",
    LocalSegments "local_segments",
    Untracked "untracked_segments",
    Passed "passed_segments",
    FlowsBegun "flows_begun",
    FlowTableFull "flow_table_full_segments",
    Flowcells "flowcells",
    InLate "in_late_segments",
    InCe "in_ce_segments",
    InNoGuest "in_no_guest_segments",
    UnknownPeer "unknown_peer_segments",
    UnknownVersion "unknown_version_segments",
    Feedback "feedback",
    FeedbackIgnored "feedback_ignored",
    DropEcn "drop_ecn_segments",
    DropTooLarge "drop_too_large_segments",
    DropError "drop_error_segments",
    Answered "answered",
    MssClamped "mss_clamped",
    OversizeAnswered "oversize_answered",
    DropOversize "drop_oversize_segments",
    DropSpoofed "drop_spoofed_segments",
    DropPoliced "drop_policed_segments",
    WindowsLowered "windows_lowered",
    PacksSent "packs_sent",
    FacksAsked "facks_asked",
    ReportsReceived "reports_received",
    FacksConsumed "facks_consumed",
    Diversions "diversions",
    Bounced "bounced_segments",
    Drained "drained_segments",
    InAhead "in_ahead_segments",
    DropForeign "drop_foreign_segments",
    UntrackedFragments "untracked_fragments",
    UntrackedHeaders "untracked_headers",
    DropTagged "drop_tagged_segments",
    DropMalformed "drop_malformed_segments",
    DropTunnel "drop_tunnel_segments",
    DropHost "drop_host_segments",
    DropLengths "drop_lengths_segments",
    DropForged "drop_forged_segments",
    FullPort "full_port_segments",
    FullNetwork "full_network_segments",
    FullOutside "full_outside_segments",
    FacksWithheld "facks_withheld",
    Cut "cut_segments",
    ProbesAnswered "probes_answered",
    ProbeReplies "probe_replies",
    ProbesWithheld "probes_withheld",
    FeedbackSent "feedback_sent",
    DropOverRate "drop_over_rate_segments",
    Delayed "delayed_segments",
    MarksCounted "marks_counted",
    MarksHeard "marks_heard",
    MarksAsked "marks_asked",
    MarksWithheld "marks_withheld",
    MarksConsumed "marks_consumed",
    PairsFull "pairs_full_segments",
    Refused "refused_segments",
    DropsTold "drops_told",
    DropsToldMalformed "drops_told_malformed",
    DropsToldWithheld "drops_told_withheld",
    Notified "notified",
    NotifiedMalformed "notified_malformed",
    NotifiedWithheld "notified_withheld",
}

/// Sums over all CPUs since the maps were made; see `enum sv_counter`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(pub(crate) Vec<u64>);

impl Counters {
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }
}
