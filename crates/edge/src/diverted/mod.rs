//! The holder of segments that a kernel edge diverts (`datapath/divert.h`). It takes the segments of flows that are out of
//! order, returns them in order, and reports which are back, so that the flow can pass directly again.
//!
//! [`reorder`](crate::reorder) decides which segments are held and for how long; this module keeps the numbers of the
//! diversion.

#[cfg(test)]
mod tests;

use crate::reorder::{Config, Counters, Engine};
use crate::{Slot, Verdict};
use rustc_hash::FxBuildHasher;
use std::collections::{BTreeMap, HashMap, VecDeque};
use units::Time;
use wire::{FlowKey, Packet};

/// A flow by the key of the guest's own direction, and its network.
pub type Key = (FlowKey, u32);

/// What the data path says of a segment that it diverted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounce {
    /// The segment's number, mod 2^16: counted up per flow.
    pub number: u16,
    /// With it a diversion began: the flow had gone straight on up to here.
    pub first: bool,
    /// Next sequence number and newest flowcell of the flow, before this segment.
    pub exp: u32,
    pub cell: u32,
    /// Of the segment as it was diverted, bytes: it may come in parts.
    pub payload: u32,
}

/// Flows known at once; of further ones, segments are given back as they come.
pub const MAX_FLOWS: usize = 4096;

/// A number that was given but has not come after this time got lost on its way: the queue was full.
const LOST: Time = Time::from_ms(5);
/// Numbers that may be missing at once: the data path has no more under way.
const MAX_GAP: usize = 1024;
/// While something is held, the data path hears that somebody is at work at least this often.
const REFRESH: Time = Time::from_ms(20);
/// The holder forgets a flow after this time without a diverted segment.
const IDLE: Time = Time::from_secs(10);
/// Flows that a batch looks at for that.
const SWEEP: usize = 8;

/// Of [`Part::missing`]: nothing of it has come.
const UNKNOWN: u32 = u32::MAX;

/// A number on its way.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Payload that is still to come, bytes.
    missing: u32,
    /// Frames that have come and not left.
    held: u32,
    /// When it was last heard of.
    since: Time,
}

#[derive(Debug)]
struct Flow {
    key: Key,
    /// Numbers that are not all back, made 64 bits wide.
    parts: BTreeMap<u64, Part>,
    /// The newest number.
    highest: u64,
    /// What the data path was told last, and when.
    marked: u64,
    marked_at: Time,
    /// The last segment.
    seen: Time,
    /// In the list of flows that have something to say, or will.
    pending: bool,
}

impl Flow {
    fn new(key: Key) -> Flow {
        let (parts, now) = (BTreeMap::new(), Time::ZERO);
        Flow { key, parts, highest: 0, marked: 0, marked_at: now, seen: now, pending: false }
    }

    /// Begins anew with `number` to come.
    fn begin(&mut self, number: u16) {
        self.parts.clear();
        // Far enough from zero for numbers that come late.
        self.highest = (1 << 16) + u64::from(number) - 1;
        self.marked = self.highest;
    }

    /// Notes a frame of `payload` bytes; returns the number's wide form.
    fn note(&mut self, now: Time, bounce: &Bounce, payload: u32) -> u64 {
        let number = self.wide(bounce.number);
        let whole = Part { missing: bounce.payload, held: 0, since: now };
        if number > self.highest {
            // Those in between may still come, from another processor.
            for number in (self.highest + 1..number).take(MAX_GAP) {
                self.parts.insert(number, Part { missing: UNKNOWN, ..whole });
            }
            self.highest = number;
            self.parts.insert(number, whole);
        }
        let part = self.parts.entry(number).or_insert(Part { missing: 0, ..whole });
        if part.missing == UNKNOWN {
            part.missing = bounce.payload;
        }
        part.missing = part.missing.saturating_sub(payload);
        part.held += 1;
        part.since = now;
        self.seen = now;
        number
    }

    /// The 64 bits of a number near the newest one.
    fn wide(&self, number: u16) -> u64 {
        self.highest.saturating_add_signed(i64::from(number.wrapping_sub(self.highest as u16) as i16))
    }

    /// Is this number's segment here in part only?
    fn is_partial(&self, number: u16) -> bool {
        self.parts.get(&self.wide(number)).is_some_and(|part| part.missing > 0 && part.missing != UNKNOWN)
    }

    fn left(&mut self, number: u64) {
        let Some(part) = self.parts.get_mut(&number) else { return };
        part.held = part.held.saturating_sub(1);
        if part.held == 0 && part.missing == 0 {
            self.parts.remove(&number);
        }
    }

    /// The number up to which all are back, if the data path is to hear it now.
    fn mark(&mut self, now: Time) -> Option<u16> {
        self.parts.retain(|_, part| part.held > 0 || now.saturating_sub(part.since) < LOST);
        let back = self.parts.keys().next().map_or(self.highest, |first| first - 1).max(self.marked);
        let due = match self.parts.is_empty() {
            true => back > self.marked,
            false => now.saturating_sub(self.marked_at) >= REFRESH,
        };
        if due {
            (self.marked, self.marked_at) = (back, now);
        }
        due.then_some(back as u16)
    }

    fn is_done(&self) -> bool {
        self.parts.is_empty() && self.marked == self.highest
    }
}

/// The holder, sans-IO: `now` is an argument of every call and never decreases.
///
/// Give it the diverted segments ([`take`](Holder::take)), and call [`end_part`](Holder::end_part) after every few frames, and when
/// [`poll_timeout`](Holder::poll_timeout) is due. After each of these write all of [`poll_release`](Holder::poll_release) back,
/// and then tell the data path all of [`poll_mark`](Holder::poll_mark): a mark must not arrive before its segments have been
/// handed on.
#[derive(Debug)]
pub struct Holder {
    engine: Engine,
    ids: HashMap<Key, u32, FxBuildHasher>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    /// Flow and number of each slot that is in the engine.
    slots: Vec<(u32, u64)>,
    released: VecDeque<Slot>,
    pending: Vec<u32>,
    /// Of flows for which there is no room.
    strangers: Vec<(Key, u16)>,
    pending_at: usize,
    sweep_at: usize,
}

impl Holder {
    pub fn new(config: Config) -> Holder {
        Holder {
            engine: Engine::new(config),
            ids: HashMap::default(),
            flows: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            released: VecDeque::new(),
            pending: Vec::new(),
            strangers: Vec::new(),
            pending_at: 0,
            sweep_at: 0,
        }
    }

    pub fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    /// Flows remembered now.
    pub fn flow_count(&self) -> usize {
        self.ids.len()
    }

    /// Takes a frame that the caller knows as `slot`: a small number that is not in use. `stamp`: its TCP timestamp, if it has one.
    pub fn take(&mut self, now: Time, key: Key, bounce: &Bounce, slot: Slot, packet: &Packet, stamp: Option<u32>) {
        let Some(id) = self.flow(key, bounce) else {
            self.released.push_back(slot);
            self.strangers.push((key, bounce.number));
            return;
        };
        let flow = &mut self.flows[id as usize];
        if bounce.first && !flow.is_partial(bounce.number) {
            flow.begin(bounce.number);
            self.engine.resume(id, bounce.exp, bounce.cell);
            self.collect();
        }
        let flow = &mut self.flows[id as usize];
        let number = flow.note(now, bounce, packet.payload);
        if !std::mem::replace(&mut flow.pending, true) {
            self.pending.push(id);
        }
        let at = slot.0 as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, (0, 0));
        }
        self.slots[at] = (id, number);
        match self.engine.process(now, id, slot, packet, stamp) {
            Verdict::Hold => self.collect(),
            _ => self.release(slot),
        }
    }

    /// Frames have been taken, among them all that came until `complete`. Nobody knows what else waits: no segment that is
    /// due later is given up.
    pub fn end_part(&mut self, now: Time, complete: Time) {
        self.engine.end_part(now, complete);
        self.collect();
        self.sweep(now);
    }

    /// Gives everything back, as before the end.
    pub fn release_all(&mut self) {
        for id in 0..self.flows.len() as u32 {
            self.engine.restart(id);
        }
        self.collect();
    }

    /// When [`end_part`](Holder::end_part) is next due; may lie in the past. While the holder
    /// [`is_busy`](Holder::is_busy), marks want to be looked for every few milliseconds too.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.engine.poll_timeout()
    }

    /// Are segments under way that the data path does not know to be back?
    pub fn is_busy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next frame to be written back, in order.
    pub fn poll_release(&mut self) -> Option<Slot> {
        self.released.pop_front()
    }

    /// The next flow to report, with the number up to which all segments are back. `None` ends the round. `now`: the time until
    /// which all arrived segments have been taken; from then on the holder misses the absent ones.
    pub fn poll_mark(&mut self, now: Time) -> Option<(Key, u16)> {
        if let Some(stranger) = self.strangers.pop() {
            return Some(stranger);
        }
        while let Some(&id) = self.pending.get(self.pending_at) {
            let flow = &mut self.flows[id as usize];
            let mark = flow.mark(now);
            if flow.is_done() {
                flow.pending = false;
                self.pending.swap_remove(self.pending_at);
            } else {
                self.pending_at += 1;
            }
            if let Some(number) = mark {
                return Some((flow.key, number));
            }
        }
        self.pending_at = 0;
        None
    }

    fn flow(&mut self, key: Key, bounce: &Bounce) -> Option<u32> {
        if let Some(&id) = self.ids.get(&key) {
            return Some(id);
        }
        let id = match self.free.pop() {
            Some(id) => {
                self.flows[id as usize] = Flow::new(key);
                id
            }
            None if self.flows.len() < MAX_FLOWS => {
                self.flows.push(Flow::new(key));
                (self.flows.len() - 1) as u32
            }
            None => return None,
        };
        self.ids.insert(key, id);
        self.engine.restart(id);
        self.engine.resume(id, bounce.exp, bounce.cell);
        self.flows[id as usize].begin(bounce.number);
        Some(id)
    }

    /// Appends the engine's released segments to those released before.
    fn collect(&mut self) {
        while let Some((slot, _)) = self.engine.poll_release() {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: Slot) {
        self.released.push_back(slot);
        let (id, number) = self.slots[slot.0 as usize];
        self.flows[id as usize].left(number);
    }

    fn sweep(&mut self, now: Time) {
        for _ in 0..SWEEP.min(self.flows.len()) {
            let id = self.sweep_at % self.flows.len();
            self.sweep_at = id + 1;
            let flow = &self.flows[id];
            let known = self.ids.get(&flow.key) == Some(&(id as u32));
            if known && !flow.pending && now.saturating_sub(flow.seen) > IDLE && !self.engine.is_holding(id as u32) {
                self.ids.remove(&flow.key);
                self.free.push(id as u32);
            }
        }
    }
}
