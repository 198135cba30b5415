use crate::reorder;

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
    /// All zero without reordering.
    pub reorder: reorder::Counters,
}
