//! Queues of slots in one pool, without an allocation per segment.

use crate::Slot;

/// No further slot in the chain.
const END: u32 = u32::MAX;

/// A non-empty queue of slots within a [`Pool`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

/// Nodes of all chains; allocates only while the number of held slots reaches a new maximum.
#[derive(Debug)]
pub(crate) struct Pool {
    nodes: Vec<(Slot, u32)>,
    free: u32,
    len: usize,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool { nodes: Vec::new(), free: END, len: 0 }
    }

    /// Slots in all chains.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn chain(&mut self, slot: Slot) -> Chain {
        let node = self.node(slot);
        Chain { head: node, tail: node }
    }

    pub(crate) fn append(&mut self, chain: &mut Chain, slot: Slot) {
        let node = self.node(slot);
        self.nodes[chain.tail as usize].1 = node;
        chain.tail = node;
    }

    /// Takes the chain apart, in order.
    pub(crate) fn drain(&mut self, chain: Chain, mut each: impl FnMut(Slot)) {
        let mut at = chain.head;
        while at != END {
            let (slot, next) = self.nodes[at as usize];
            each(slot);
            self.nodes[at as usize].1 = self.free;
            self.free = at;
            self.len -= 1;
            at = next;
        }
    }

    fn node(&mut self, slot: Slot) -> u32 {
        self.len += 1;
        if self.free == END {
            self.nodes.push((slot, END));
            return (self.nodes.len() - 1) as u32;
        }
        let node = self.free;
        let (stored, next) = &mut self.nodes[node as usize];
        self.free = std::mem::replace(next, END);
        *stored = slot;
        node
    }
}
