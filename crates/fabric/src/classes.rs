//! What waits at a port that has more than one FIFO: queues by priority or a ranked queue, notifications, and the law of CoDel.

use crate::codel::{self, Codel, Fate};
use crate::config::SwitchConfig;
use crate::notify::{Notices, Notify};
use crate::packet::{List, PacketId, Packets};
use crate::ranked::Ranked;
use units::BitRate;

/// The queues of a port that has several.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    data: Data,
    pub(crate) notices: Option<Notices>,
    codel: Option<codel::State>,
    /// Packets that CoDel has picked out and somebody has to hear of.
    picked: Picks,
}

/// Where packets wait that are no notifications.
#[derive(Clone, Debug)]
enum Data {
    /// By priority; the last one takes all that are greater.
    Queues(Vec<List>),
    Ranked(Ranked),
}

#[derive(Clone, Debug, Default)]
struct Picks {
    /// All of them, as sources are to be quenched; otherwise dropped ones.
    all: bool,
    packets: Vec<(PacketId, Fate)>,
    /// An event is on its way that sees to them.
    armed: bool,
}

impl Data {
    fn is_empty(&self) -> bool {
        match self {
            Data::Queues(queues) => queues.iter().all(List::is_empty),
            Data::Ranked(ranked) => ranked.is_empty(),
        }
    }
    fn pop(&mut self, packets: &mut Packets) -> Option<PacketId> {
        match self {
            Data::Queues(queues) => queues.iter_mut().find_map(|queue| queue.pop(packets)),
            Data::Ranked(ranked) => ranked.pop(),
        }
    }
}

impl Classes {
    /// Of a port of a host, or of a switch; `None` where one FIFO is enough.
    pub(crate) fn new(switches: &SwitchConfig, of_host: bool) -> Option<Classes> {
        let notify: Option<Notify> = switches.notify.filter(|_| !of_host);
        let codel: Option<Codel> = switches.codel().filter(|_| !of_host);
        let ranked = switches.ranked && !of_host;
        let several = switches.priorities > 1 || notify.is_some() || codel.is_some() || ranked;
        several.then(|| Classes {
            data: match ranked {
                true => Data::Ranked(Ranked::default()),
                false => Data::Queues(vec![List::default(); usize::from(switches.priorities)]),
            },
            notices: notify.map(Notices::new),
            codel: codel.map(codel::State::new),
            picked: Picks { all: switches.quench, ..Picks::default() },
        })
    }

    #[inline]
    pub(crate) fn push(&mut self, id: PacketId, priority: u8, packets: &mut Packets) {
        match &mut self.data {
            Data::Queues(queues) => {
                let class = usize::from(priority).min(queues.len() - 1);
                queues[class].push(id, packets);
            }
            Data::Ranked(ranked) => ranked.push(id, packets),
        }
    }

    /// The packet to send at `at`, and what CoDel did; the port holds `backlog` octets.
    #[inline]
    pub(crate) fn pop(
        &mut self,
        at: u64,
        rate: BitRate,
        backlog: u64,
        packets: &mut Packets,
    ) -> (Option<PacketId>, codel::Picked) {
        if let Some(notices) = &mut self.notices {
            if let Some(id) = notices.pop(at, !self.data.is_empty(), rate, packets) {
                return (Some(id), codel::Picked::default());
            }
        }
        let Some(codel) = &mut self.codel else { return (self.data.pop(packets), codel::Picked::default()) };
        let (data, picked) = (&mut self.data, &mut self.picked);
        codel.pop(
            at,
            backlog,
            packets,
            |packets| data.pop(packets),
            |id, fate| {
                if picked.all || fate == Fate::Dropped {
                    picked.packets.push((id, fate));
                }
            },
        )
    }

    /// Takes out a packet that ranks behind `rank`, if packets have ranks.
    pub(crate) fn evict_behind(&mut self, rank: u32) -> Option<PacketId> {
        match &mut self.data {
            Data::Queues(_) => None,
            Data::Ranked(ranked) => ranked.evict(rank),
        }
    }

    /// What [`evict_behind`](Self::evict_behind) would take out one after the other.
    pub(crate) fn behind(&self, rank: u32) -> impl Iterator<Item = PacketId> + '_ {
        let ranked = match &self.data {
            Data::Queues(_) => None,
            Data::Ranked(ranked) => Some(ranked),
        };
        ranked.into_iter().flat_map(move |ranked| ranked.behind(rank))
    }

    /// Takes one out, whatever: the link has failed.
    pub(crate) fn evict(&mut self, packets: &mut Packets) -> Option<PacketId> {
        let notice = self.notices.as_mut().and_then(|notices| notices.evict(packets));
        notice.or_else(|| self.data.pop(packets))
    }

    /// True if CoDel has picked out packets that nobody has been told to see to.
    pub(crate) fn arm_picked(&mut self) -> bool {
        let due = !self.picked.packets.is_empty() && !self.picked.armed;
        self.picked.armed |= due;
        due
    }
    pub(crate) fn take_picked(&mut self) -> Vec<(PacketId, Fate)> {
        self.picked.armed = false;
        std::mem::take(&mut self.picked.packets)
    }

    /// Packets that CoDel has dropped and nobody has seen to.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = PacketId> + '_ {
        self.picked.packets.iter().filter(|(_, fate)| *fate == Fate::Dropped).map(|(id, _)| *id)
    }

    /// All that waits.
    pub(crate) fn iter<'a>(&'a self, packets: &'a Packets) -> impl Iterator<Item = PacketId> + 'a {
        let (queues, ranked) = match &self.data {
            Data::Queues(queues) => (queues.as_slice(), None),
            Data::Ranked(ranked) => ([].as_slice(), Some(ranked)),
        };
        let lists = queues.iter().chain(self.notices.as_ref().map(Notices::list));
        lists.flat_map(|list| list.iter(packets)).chain(ranked.into_iter().flat_map(Ranked::iter))
    }
}
