//! Schedules of path labels by destination, and what is known of these paths.

use crate::native::{Conf, PathState, PathStates, Paths, Relay, MAX_LABELS};
use rustc_hash::FxHashMap;
use units::Time;
use wire::feedback::Feedback;
use wire::Packet;

/// Destinations and peers of which paths are remembered at most: 9 KB and 4 KB each.
const MAX_KNOWN: usize = 4096;

/// The label lists of all destinations. List 0 is the default one.
#[derive(Debug)]
pub(crate) struct Schedules {
    lists: Vec<List>,
    by_destination: FxHashMap<[u32; 4], u32>,
    /// The scheme keeps states of paths, so that every destination has a list of its own.
    keeps_states: bool,
}

/// What a place in a schedule that changes has in common with the one that was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebound {
    /// It has the path that it had, also under another label: what is known of that path stays.
    pub kept: bool,
    /// The index in its label named another path until now, with this round trip: feedback on it is ignored for two of them.
    pub quiet: Option<Time>,
}

#[derive(Debug, Default)]
struct List {
    labels: Box<[u16]>,
    states: Option<PathStates>,
    /// It follows the default list.
    inherits: bool,
}

impl List {
    /// What was known of a path whose place in the schedule has another label now is forgotten.
    fn set(&mut self, labels: Box<[u16]>) {
        self.rebind(labels, |_| Rebound::default(), Time::ZERO);
    }

    /// As [`set`](List::set), with what places say.
    fn rebind(&mut self, labels: Box<[u16]>, place: impl Fn(usize) -> Rebound, now: Time) {
        if let Some(states) = &mut self.states {
            for (i, state) in states.iter_mut().enumerate() {
                let place = place(i);
                if labels.get(i) != self.labels.get(i) && !place.kept {
                    *state = PathState::default();
                }
                if let Some(rtt) = place.quiet {
                    state.bind(rtt, now.as_ns());
                }
            }
        }
        self.labels = labels;
    }
}

impl Schedules {
    pub(crate) fn new(keeps_states: bool) -> Schedules {
        Schedules { lists: vec![List::default()], by_destination: FxHashMap::default(), keeps_states }
    }

    pub(crate) fn set_default(&mut self, labels: &[u16]) {
        let labels = bounded(labels);
        for list in self.lists.iter_mut().filter(|list| list.inherits) {
            list.set(labels.clone());
        }
        self.lists[0].set(labels);
    }

    pub(crate) fn set(&mut self, daddr: [u32; 4], labels: &[u16]) {
        self.rebind(daddr, labels, |_| Rebound::default(), Time::ZERO);
    }

    /// The schedule of a destination, with what its places say.
    pub(crate) fn rebind(&mut self, daddr: [u32; 4], labels: &[u16], place: impl Fn(usize) -> Rebound, now: Time) {
        let next = self.lists.len() as u32;
        let id = *self.by_destination.entry(daddr).or_insert(next);
        if id == next {
            let states = self.fresh_states();
            self.lists.push(List { states, ..List::default() });
        }
        let list = &mut self.lists[id as usize];
        list.inherits = false;
        list.rebind(bounded(labels), place, now);
    }

    fn fresh_states(&self) -> Option<PathStates> {
        let room = self.lists.len() <= MAX_KNOWN;
        (self.keeps_states && room).then(|| Box::new([PathState::default(); MAX_LABELS]))
    }

    /// The list for a destination; stays the same until [`generation`](Schedules::generation) grows.
    pub(crate) fn find(&self, daddr: &[u32; 4]) -> u32 {
        self.by_destination.get(daddr).copied().unwrap_or(0)
    }

    /// As [`find`](Schedules::find), for somebody who sends there: gives the destination states of its own if the scheme keeps
    /// any and there is room.
    pub(crate) fn claim(&mut self, daddr: &[u32; 4]) -> u32 {
        let id = self.find(daddr);
        if id != 0 || !self.keeps_states {
            return id;
        }
        let Some(states) = self.fresh_states() else { return 0 };
        let id = self.lists.len() as u32;
        self.lists.push(List { labels: self.lists[0].labels.clone(), states: Some(states), inherits: true });
        self.by_destination.insert(*daddr, id);
        id
    }

    pub(crate) fn paths(&mut self, id: u32) -> Paths<'_> {
        let list = &mut self.lists[id as usize];
        Paths::new(&list.labels, list.states.as_mut())
    }

    /// A destination has the list of another from now on.
    pub(crate) fn share(&mut self, daddr: [u32; 4], other: [u32; 4]) {
        let id = self.claim(&other);
        self.by_destination.insert(daddr, id);
    }

    /// Calls `f` with the paths of every list that has states.
    pub(crate) fn for_each_with_states(&mut self, mut f: impl FnMut(&Paths<'_>)) {
        for list in self.lists.iter_mut().filter(|list| list.states.is_some()) {
            f(&Paths::new(&list.labels, list.states.as_mut()));
        }
    }

    /// Label and state of each path to a destination; nothing where no states are kept.
    pub(crate) fn states(&self, daddr: &[u32; 4]) -> impl Iterator<Item = (u16, PathState)> + '_ {
        let list = &self.lists[self.find(daddr) as usize];
        let states = list.states.iter().flat_map(|states| states.iter().copied());
        list.labels.iter().copied().zip(states)
    }

    /// Grows whenever [`find`](Schedules::find) may give another answer than before.
    pub(crate) fn generation(&self) -> u32 {
        self.lists.len() as u32
    }
}

fn bounded(labels: &[u16]) -> Box<[u16]> {
    labels[..labels.len().min(MAX_LABELS)].into()
}

/// What peers have yet to be told of the paths that their packets took.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    by_peer: FxHashMap<[u32; 4], Box<Relay>>,
    /// Under whose address the relay of a destination is, where it is another's.
    shared: FxHashMap<[u32; 4], [u32; 4]>,
}

impl Relays {
    pub(crate) fn share(&mut self, peer: [u32; 4], other: [u32; 4]) {
        self.shared.insert(peer, other);
    }

    fn of(&self, peer: &[u32; 4]) -> [u32; 4] {
        *self.shared.get(peer).unwrap_or(peer)
    }

    /// A packet of `peer` brought this of the path that it took. Beyond the bound, further peers hear nothing.
    pub(crate) fn note(&mut self, peer: &[u32; 4], news: Feedback) {
        let peer = self.of(peer);
        if self.by_peer.len() < MAX_KNOWN || self.by_peer.contains_key(&peer) {
            self.by_peer.entry(peer).or_default().note(news);
        }
    }

    /// A packet of `peer` arrived with that label, marked on its path or not. The bound as above.
    pub(crate) fn harvest(&mut self, packet: &Packet, label: u16) {
        let peer = self.of(&packet.saddr);
        if packet.marked != 0 && (self.by_peer.len() < MAX_KNOWN || self.by_peer.contains_key(&peer)) {
            self.by_peer.entry(peer).or_default().harvest(packet, label);
        }
    }

    /// A packet of `packet`'s sender arrived with that label, which had left at `stamp`. The bound as above.
    pub(crate) fn arrived(&mut self, packet: &Packet, label: u16, stamp: u16, now: Time) {
        let peer = self.of(&packet.saddr);
        if self.by_peer.len() < MAX_KNOWN || self.by_peer.contains_key(&peer) {
            self.by_peer.entry(peer).or_default().arrived(label, stamp, now);
        }
    }

    /// What the destination of `packet` is still to be told; also where that is nothing, if packets are stamped. The bound as above.
    pub(crate) fn waiting(&mut self, conf: &Conf, packet: &Packet) -> Option<&mut Relay> {
        if self.by_peer.is_empty() && !conf.balance.stamps() {
            return None;
        }
        let peer = self.of(&packet.daddr);
        if conf.balance.stamps() && packet.label != 0 && self.by_peer.len() < MAX_KNOWN {
            return Some(self.by_peer.entry(peer).or_default());
        }
        self.by_peer.get_mut(&peer).map(|relay| &mut **relay)
    }

    /// What `packet` is to carry.
    pub(crate) fn pay(&mut self, conf: &Conf, now: Time, packet: &Packet) -> Feedback {
        self.waiting(conf, packet).map(|relay| relay.pay(conf, now, packet)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [u32; 4] = [0, 0, 0xffff, 1];

    #[test]
    fn every_destination_has_states_of_its_own_while_there_is_room() {
        let mut schedules = Schedules::new(true);
        schedules.set_default(&[3, 4]);
        let destination = |i: u32| [0, 0, 0xffff, i];
        let ids: Vec<u32> = (0..MAX_KNOWN as u32 + 2).map(|i| schedules.claim(&destination(i))).collect();
        assert_eq!(ids[MAX_KNOWN - 1], MAX_KNOWN as u32);
        assert_eq!(ids[MAX_KNOWN..], [0, 0], "further ones share the default list, without states");
        let mut with_states = 0;
        schedules.for_each_with_states(|_| with_states += 1);
        assert_eq!(with_states, MAX_KNOWN);
        assert_eq!(Schedules::new(false).claim(&HERE), 0);
    }

    #[test]
    fn a_new_schedule_keeps_what_is_known_of_paths_that_stay_in_place() {
        let mut schedules = Schedules::new(true);
        schedules.set_default(&[3, 4]);
        let id = schedules.claim(&HERE);
        let known = PathState { congestion: 5, ..PathState::default() };
        if let Some(states) = &mut schedules.lists[id as usize].states {
            states[..2].fill(known);
        }
        schedules.set_default(&[3, 9]);
        assert_eq!(schedules.states(&HERE).collect::<Vec<_>>(), [(3, known), (9, PathState::default())]);
        schedules.set(HERE, &[7, 9]);
        schedules.set_default(&[1]);
        assert_eq!(schedules.states(&HERE).map(|(label, _)| label).collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn a_path_that_has_another_port_keeps_what_is_known_of_it() {
        let mut schedules = Schedules::new(true);
        schedules.set(HERE, &[3, 4]);
        let id = schedules.find(&HERE);
        let known = PathState { weight: 5, ..PathState::default() };
        if let Some(states) = &mut schedules.lists[id as usize].states {
            states[..2].fill(known);
        }
        let places = [Rebound::default(), Rebound { kept: true, quiet: None }];
        schedules.rebind(HERE, &[7, 8], |i| places.get(i).copied().unwrap_or_default(), Time::ZERO);
        assert_eq!(schedules.states(&HERE).collect::<Vec<_>>(), [(7, PathState::default()), (8, known)]);
        // Label 0x107 has the index that label 7 had.
        let (rtt, now) = (Time::from_us(100), Time::from_ms(5));
        let other = Rebound { kept: false, quiet: Some(rtt) };
        schedules.rebind(HERE, &[0x107, 8], |i| if i == 0 { other } else { Rebound::default() }, now);
        let mut bound = PathState::default();
        bound.bind(rtt, now.as_ns());
        assert!(bound.quiet > 0);
        assert_eq!(schedules.states(&HERE).collect::<Vec<_>>(), [(0x107, bound), (8, known)]);
    }

    #[test]
    fn a_flood_of_peers_costs_no_more_than_the_bound() {
        let mut relays = Relays::default();
        let news = Feedback { kind: wire::feedback::UTILISATION, path: 1, value: 2 };
        for i in 0..MAX_KNOWN as u32 + 9 {
            relays.note(&[0, 0, 0xffff, i], news);
        }
        assert_eq!(relays.by_peer.len(), MAX_KNOWN);
        let conf = Conf { idle_ns: 0, balance: crate::Balance::ecmp().conf(false) };
        let packet = Packet { daddr: HERE, ..Packet::default() };
        let mut take = || relays.pay(&conf, Time::ZERO, &packet);
        assert_eq!((take(), take()), (news, Feedback::default()));
    }
}
