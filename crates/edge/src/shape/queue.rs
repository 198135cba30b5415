//! What waits in a class: first come, first served, or each flow by itself (fq_codel).

use super::{Class, Due};
use aqm::fq_codel::{Packet, Queues};
use std::collections::VecDeque;
use units::{Bytes, Time};

#[derive(Debug)]
pub(super) enum Queue<T> {
    Fifo { items: VecDeque<(T, u64)>, bytes: u64, limit: u64 },
    Fair(Queues<T>),
}

impl<T> Queue<T> {
    pub(super) fn new(class: &Class) -> Queue<T> {
        let limit = class.queue.map_or(u64::MAX, Bytes::get);
        class
            .fq_codel
            .map_or(Queue::Fifo { items: VecDeque::new(), bytes: 0, limit }, |fq| Queue::Fair(Queues::new(fq)))
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Queue::Fifo { bytes, .. } => *bytes,
            Queue::Fair(queues) => queues.bytes(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Queue::Fifo { items, .. } => items.is_empty(),
            Queue::Fair(queues) => queues.is_empty(),
        }
    }

    /// Gives the item back if there is no room.
    pub(super) fn push(&mut self, now: Time, item: T, segment: &wire::Packet, size: u64) -> Result<(), T> {
        match self {
            Queue::Fifo { bytes, limit, .. } if bytes.saturating_add(size) > *limit => return Err(item),
            Queue::Fifo { items, bytes, .. } => {
                *bytes += size;
                items.push_back((item, size));
            }
            Queue::Fair(queues) => {
                let hash = crate::native::hash(&segment.flow_key(), 0);
                let mark = segment.network_ecn() != wire::ecn::NOT_ECT;
                queues.enqueue(now, hash, Packet { item, bytes: size, mark });
            }
        }
        Ok(())
    }

    pub(super) fn pop(&mut self, now: Time, class: usize) -> Option<Due<T>> {
        match self {
            Queue::Fifo { items, bytes, .. } => {
                let (item, size) = items.pop_front()?;
                *bytes -= size;
                Some(Due { item, class, bytes: size, mark: false })
            }
            Queue::Fair(queues) => {
                let Packet { item, bytes, mark } = queues.dequeue(now)?;
                Some(Due { item, class, bytes, mark })
            }
        }
    }

    pub(super) fn poll_dropped(&mut self) -> Option<T> {
        match self {
            Queue::Fifo { .. } => None,
            Queue::Fair(queues) => queues.poll_dropped(),
        }
    }
}
