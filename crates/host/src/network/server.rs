//! The server model of FastLane's report (Zats et al. 2013, section 4.2.1).
//!
//! A host handles a fixed number of received packets at a time, each for the same time, in order of arrival. The receive path gets a
//! packet only after that.

use crate::experiment::ServerModel;
use fabric::PacketId;
use std::collections::VecDeque;
use units::Time;

/// One host's packets that are being handled, or wait for it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) model: ServerModel,
    /// In order of completion, which is that of arrival.
    pub(super) packets: VecDeque<(Time, PacketId)>,
    /// When each worker has its latest packet done, and the one whose turn is next.
    done: Vec<Time>,
    next: usize,
}

impl Server {
    pub(crate) fn new(model: ServerModel) -> Server {
        let workers = model.parallel.max(1) as usize;
        Server { model, packets: VecDeque::new(), done: vec![Time::ZERO; workers], next: 0 }
    }

    /// When a packet that comes now is done. All take equally long, so workers become free in turn.
    pub(super) fn admit(&mut self, now: Time, id: PacketId) -> Time {
        let worker = &mut self.done[self.next];
        *worker = now.max(*worker) + self.model.service;
        let at = *worker;
        self.next = (self.next + 1) % self.done.len();
        self.packets.push_back((at, id));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(parallel: u32) -> Server {
        Server::new(ServerModel { parallel, service: Time::from_us(5), notifications: true })
    }

    #[test]
    fn of_packets_that_come_at_once_the_seventeenth_waits_for_the_first() {
        let mut server = server(16);
        let at: Vec<_> = (0..40).map(|id| server.admit(Time::ZERO, id).as_ns() / 1000).collect();
        assert!(at.iter().enumerate().all(|(i, &us)| us == 5 * (1 + i as u64 / 16)), "{at:?}");
    }

    proptest! {
        /// Never more than so many at a time, and none waits while a worker is free.
        #[test]
        fn workers_are_used_and_not_exceeded(pauses in prop::collection::vec(0u64..8, 1..200), parallel in 1u32..20) {
            let mut server = server(parallel);
            let (mut now, mut served) = (Time::ZERO, Vec::new());
            for (id, pause) in pauses.into_iter().enumerate() {
                now += Time::from_us(pause);
                let at = server.admit(now, id as u32);
                let busy = served.iter().filter(|&&done| done > now).count();
                prop_assert!(busy >= parallel as usize || at == now + Time::from_us(5));
                let together = served.iter().filter(|&&done| done > at - Time::from_us(5)).count();
                prop_assert!(together < parallel as usize);
                prop_assert!(served.last().is_none_or(|&last| last <= at));
                served.push(at);
            }
        }
    }
}
