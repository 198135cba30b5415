//! The table of pairs: a guest of this host and one elsewhere, at most a given number, with quotas for each guest.

use super::Config;
use crate::native::{self, Bounds, HygPair as Pair, Tally};
use rustc_hash::FxSeededState;
use std::collections::HashMap;
use units::Time;

/// Slots that one insertion looks at for pairs that expired.
const SWEEP: usize = 8;

/// Number of the guest in a slot that is free.
const FREE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    peer: [u32; 4],
    /// Its number; [`FREE`]: the slot holds no pair.
    guest: u32,
    pair: Pair,
    /// When a packet was seen last, ms, modulo 2^32.
    seen: u32,
    /// Who began it, and whether it is settled: `SV_FLOW_*`.
    saw: u8,
    /// It is in the queue for feedback of its own.
    waits: bool,
    /// It counts as unsettled.
    unsettled: bool,
}

const _: () = assert!(size_of::<Slot>() <= 64);

#[derive(Debug)]
pub(super) struct Pairs {
    /// Looked up only.
    index: HashMap<(u32, [u32; 4]), u32, FxSeededState>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    bounds: Bounds,
    all: Tally,
    by_guest: Vec<Tally>,
    guests: Vec<[u32; 4]>,
    idle: Time,
    sweep_at: usize,
}

impl Pairs {
    pub(super) fn new(config: &Config, seed: u64) -> Pairs {
        let most = config.max_pairs.max(1);
        Pairs {
            index: HashMap::with_hasher(FxSeededState::with_seed(seed as usize)),
            slots: Vec::new(),
            free: Vec::new(),
            bounds: Bounds { table: most, port: most, network: most, pad: 0 },
            all: Tally::default(),
            by_guest: vec![Tally::default(); config.guests.len()],
            guests: config.guests.iter().map(|(address, _)| *address).collect(),
            idle: config.pair_idle,
            sweep_at: 0,
        }
    }

    pub(super) fn find(&mut self, now: Time, guest: u32, peer: &[u32; 4]) -> Option<u32> {
        let id = *self.index.get(&(guest, *peer))?;
        self.slots[id as usize].seen = ms(now);
        Some(id)
    }

    pub(super) fn knows(&self, guest: u32, peer: &[u32; 4]) -> bool {
        self.index.contains_key(&(guest, *peer))
    }

    /// A packet of the pair passed, `egress` if it is the guest's.
    pub(super) fn note(&mut self, id: u32, egress: bool) {
        let slot = &mut self.slots[id as usize];
        slot.saw = native::saw(slot.saw, egress);
        if slot.unsettled && slot.saw & native::SETTLED != 0 {
            slot.unsettled = false;
            self.all.unsettled -= 1;
            self.by_guest[slot.guest as usize].unsettled -= 1;
        }
    }

    pub(super) fn get(&mut self, id: u32) -> &mut Pair {
        &mut self.slots[id as usize].pair
    }

    /// Addresses of guest and peer; zeros for a slot that is free.
    pub(super) fn key(&self, id: u32) -> ([u32; 4], [u32; 4]) {
        let slot = &self.slots[id as usize];
        self.guests.get(slot.guest as usize).map_or_else(Default::default, |guest| (*guest, slot.peer))
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Notes that the pair is in the queue. False: it was.
    pub(super) fn wait(&mut self, id: u32) -> bool {
        !std::mem::replace(&mut self.slots[id as usize].waits, true)
    }

    pub(super) fn done(&mut self, id: u32) {
        self.slots[id as usize].waits = false;
    }

    /// `None`: there is no room, or the guest has its share of it.
    pub(super) fn insert(&mut self, now: Time, guest: u32, peer: &[u32; 4], began: u32) -> Option<u32> {
        let own = self.by_guest.get_mut(guest as usize)?;
        if self.all.flows as u32 >= self.bounds.table || !native::admitted(&self.bounds, self.all, *own, began) {
            return None;
        }
        let unsettled = began == native::BEGAN_OUTSIDE;
        for tally in [&mut self.all, own] {
            tally.flows += 1;
            tally.unsettled += i32::from(unsettled);
        }
        let pair = Pair::default();
        let slot = Slot { peer: *peer, guest, pair, seen: ms(now), saw: 0, waits: false, unsettled };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert((guest, *peer), id);
        Some(id)
    }

    /// Looks at the next few slots and forgets pairs that were idle. Returns their peers.
    pub(super) fn sweep(&mut self, now: Time) -> Vec<[u32; 4]> {
        let mut gone = Vec::new();
        for _ in 0..SWEEP.min(self.slots.len()) {
            let id = self.sweep_at % self.slots.len();
            self.sweep_at = id + 1;
            let slot = &mut self.slots[id];
            let idle = ms(now).wrapping_sub(slot.seen);
            let settled = slot.saw & native::SETTLED != 0;
            let lives = if settled { self.idle } else { self.idle.min(native::UNSETTLED_IDLE) };
            if slot.guest == FREE || slot.waits || u64::from(idle) < lives.as_ns() / 1_000_000 {
                continue;
            }
            let guest = std::mem::replace(&mut slot.guest, FREE);
            for tally in [&mut self.all, &mut self.by_guest[guest as usize]] {
                tally.flows -= 1;
                tally.unsettled -= i32::from(slot.unsettled);
            }
            self.index.remove(&(guest, slot.peer));
            self.free.push(id as u32);
            gone.push(slot.peer);
        }
        gone
    }
}

fn ms(now: Time) -> u32 {
    (now.as_ns() / 1_000_000) as u32
}
