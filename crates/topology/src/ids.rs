//! Numbers of nodes, links and hosts.

/// Index into [`Topology::nodes`](crate::Topology::nodes).
pub type NodeId = u32;
/// Index into [`Topology::links`](crate::Topology::links).
pub type LinkId = u32;
/// A host's number, which is also its [`NodeId`].
pub type HostId = u32;
