//! What the subflows of one MPTCP connection share.

use crate::connection::ConnectionId;
use crate::mptcp::Stream;

/// One MPTCP connection.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) subflows: Vec<ConnectionId>,
    /// The client's data, and the server's.
    pub(crate) streams: [Stream; 2],
    pub(crate) class: u16,
    /// How many subflows it is to have.
    pub(crate) wanted: usize,
    /// Subflows that are not closed yet.
    pub(crate) open: usize,
    pub(crate) closing: bool,
}
