//! What the two ends of a connection know of each other.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A message on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) flow: u32,
    /// Where it begins and ends in the stream; `u64::MAX` if it has no end.
    pub(super) begins: u64,
    pub(super) ends: u64,
    /// It has a size: its completion is waited for.
    pub(super) bounded: bool,
    pub(super) reply: bool,
    /// Its source wants to be told of its completion.
    pub(super) tell: bool,
}

/// Messages that the server has not yet received whole, in stream order.
#[derive(Debug, Default)]
pub(super) struct Link {
    messages: Mutex<VecDeque<Message>>,
}

impl Link {
    pub(super) fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        // A queue of plain values is whole whoever panicked.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Links of connections that no server has accepted yet, by the client's address.
#[derive(Debug, Default)]
pub(super) struct Registry {
    links: Mutex<HashMap<SocketAddr, Arc<Link>>>,
}

impl Registry {
    /// Hold it from before the connection is asked for until it is entered: the server may be faster.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
