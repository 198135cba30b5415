/// What an edge has seen since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments, as given to `process`.
    pub egress_segments: u64,
    pub ingress_segments: u64,
    /// Flows remembered, ever.
    pub flows_created: u64,
    /// Flows forgotten because they were idle or closed.
    pub flows_expired: u64,
    /// Segments forwarded without flow state because the table was full.
    pub flow_table_full: u64,
    /// Flowcells begun, the first of each flow included.
    pub flowcells: u64,
    /// Ingress segments of an older flowcell than the newest already seen of their flow.
    pub ingress_late: u64,
}
