//! The queue of a pFabric switch (Alizadeh et al., SIGCOMM 2013, section 4.2): no order but that of ranks, 0 first. A packet that
//! finds no room puts out one of a higher rank.

use crate::packet::{PacketId, Packets};
use std::iter::successors;

/// Packets that wait at a port, in order of arrival. Buffers are tiny, so that looking at all of them is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranked {
    waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    rank: u32,
    flow: u32,
    id: PacketId,
}

impl Ranked {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, id: PacketId, packets: &Packets) {
        let flow = packets.body(id).flow;
        self.waiting.push(Waiting { rank: packets.hop(id).rank, flow, id });
    }

    /// The packet to send: of the flow that has the packet of the least rank the one that came first, so that a flow's first packets
    /// do not wait for its later ones, which may rank before them.
    pub(crate) fn pop(&mut self) -> Option<PacketId> {
        let best = self.waiting.iter().min_by_key(|waiting| waiting.rank)?;
        let flow = best.flow;
        let index = self.waiting.iter().position(|waiting| waiting.flow == flow)?;
        Some(self.waiting.remove(index).id)
    }

    /// Takes out the packet of the highest rank, of several the latest, if it ranks behind `rank`.
    pub(crate) fn evict(&mut self, rank: u32) -> Option<PacketId> {
        let (index, worst) = self.waiting.iter().enumerate().max_by_key(|(_, waiting)| waiting.rank)?;
        (worst.rank > rank).then(|| self.waiting.remove(index).id)
    }

    /// What [`evict`](Self::evict) would take out one after the other.
    pub(crate) fn behind(&self, rank: u32) -> impl Iterator<Item = PacketId> + '_ {
        let before = move |last: Option<(u32, usize)>| {
            let places = self.waiting.iter().enumerate().map(|(index, waiting)| (waiting.rank, index));
            places.filter(|place| place.0 > rank && last.is_none_or(|last| *place < last)).max()
        };
        successors(before(None), move |last| before(Some(*last))).map(|(_, index)| self.waiting[index].id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = PacketId> + '_ {
        self.waiting.iter().map(|waiting| waiting.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use proptest::prelude::*;

    fn queue(of: &[(u32, u32)]) -> (Ranked, Packets) {
        let (mut queue, mut packets) = (Ranked::default(), Packets::default());
        for &(rank, flow) in of {
            let id = packets.add(Packet { rank, flow, ..Packet::default() });
            queue.push(id, &packets);
        }
        (queue, packets)
    }

    #[test]
    fn the_least_rank_goes_first_and_of_its_flow_what_came_first() {
        // Flow 1's later packets rank before its earlier ones, as what is left of it shrinks.
        let (mut queue, _) = queue(&[(9, 1), (5, 2), (4, 1), (5, 3)]);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [0, 2, 1, 3]);
    }

    #[test]
    fn the_latest_of_the_highest_rank_makes_room_for_lower_ranks_only() {
        let (mut queue, _) = queue(&[(7, 1), (3, 2), (7, 3), (5, 4)]);
        assert_eq!(queue.evict(7), None, "an equal one came first and stays");
        assert_eq!(queue.evict(6), Some(2));
        assert_eq!(queue.evict(0), Some(0));
        assert_eq!(queue.evict(0), Some(3));
        assert_eq!(queue.evict(3), None);
        assert_eq!((queue.pop(), queue.pop()), (Some(1), None));
    }

    proptest! {
        #[test]
        fn what_would_be_taken_out_is_what_is(
            of in prop::collection::vec((0u32..20, 0u32..5), 0..40),
            rank in 0u32..20,
        ) {
            let (mut queue, _) = queue(&of);
            let told: Vec<_> = queue.behind(rank).collect();
            prop_assert_eq!(told, std::iter::from_fn(|| queue.evict(rank)).collect::<Vec<_>>());
        }

        /// Whatever is in it, a packet that is sent belongs to the flow of the least rank, and flows keep their order.
        #[test]
        fn flows_keep_their_order(of in prop::collection::vec((0u32..20, 0u32..5), 1..60)) {
            let (mut queue, packets) = queue(&of);
            let mut last = [None; 5];
            while !queue.is_empty() {
                let least = queue.iter().map(|id| packets.hop(id).rank).min();
                let flows: Vec<_> =
                    queue.iter().filter(|&id| Some(packets.hop(id).rank) == least).map(|id| packets.body(id).flow).collect();
                let id = queue.pop().unwrap();
                let flow = packets.body(id).flow;
                prop_assert!(flows.contains(&flow));
                prop_assert!(last[flow as usize].is_none_or(|before| before < id));
                last[flow as usize] = Some(id);
            }
        }
    }
}
