//! HyGenICC (`datapath/hygenicc.h`): fair shares of a host's uplink among its guests, by marks that edges count for pairs of guests.

mod config;
mod pairs;
#[cfg(test)]
mod tests;
mod waiting;

pub use crate::native::{Bucket, HygConf as Conf};
pub use config::{Config, Hold, Law, LEAST_ALPHA};

use crate::native::{self, Hyg, HygConf, Part, Relay, Uplink};
use crate::Slot;
use pairs::Pairs;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use units::{BitRate, Time};
use waiting::Waiting;
use wire::feedback::{Feedback, MARKS};
use wire::{version, Packet};

/// Protocol of a packet that is nothing but feedback.
pub const PROTO: u8 = native::HYG_PROTO;

/// Is the packet nothing but feedback from another edge? No guest's packet is, whatever its protocol.
pub fn is_feedback(packet: &Packet) -> bool {
    native::is_feedback(packet)
}

/// What an edge has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments dropped because they exceeded their guest's rate.
    pub dropped_segments: u64,
    /// Segments that had to wait for their turn.
    pub delayed_segments: u64,
    /// Packets of new pairs that were refused.
    pub refused_segments: u64,
    /// Packets that arrived marked.
    pub marks_counted: u64,
    /// Marks that peers told of.
    pub marks_heard: u64,
    /// Packets that are nothing but feedback.
    pub feedback_sent: u64,
    /// Pairs that there was no room for.
    pub pairs_full: u64,
}

/// How a guest stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    pub rate: BitRate,
    /// The most that the rate may be.
    pub fair: BitRate,
    /// Smoothed part of its packets that were marked.
    pub alpha: f64,
    pub active: bool,
}

/// All that goes to one guest elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Destination {
    part: Part,
    refusing: bool,
    /// That are remembered.
    pairs: u32,
}

/// HyGenICC of one host.
#[derive(Debug)]
pub(crate) struct Hygenicc {
    conf: HygConf,
    admits: bool,
    uplink: Uplink,
    /// In the order of the configuration.
    buckets: Vec<Bucket>,
    /// Looked up only.
    guests: FxHashMap<[u32; 4], u32>,
    pairs: Pairs,
    /// Where admission is asked for. Looked up only.
    to: FxHashMap<[u32; 4], Destination>,
    /// Pairs that owe feedback, and when it gets a packet of its own.
    due: VecDeque<(Time, u32)>,
    tick_at: Option<Time>,
    waiting: Waiting,
    /// The pair of the packet that arrives, and its count of marks before.
    arriving: Option<(u32, u16)>,
    pub(crate) counters: Counters,
}

/// What becomes of a segment from a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    Not,
    /// It leaves when [`Hygenicc::poll_departure`] says so, at that time if the rate stays.
    Waits {
        guest: u32,
        bytes: u64,
        until: Time,
    },
    Drop,
}

impl Hygenicc {
    pub(crate) fn new(config: &Config, seed: u64) -> Hygenicc {
        let bucket = |&(_, weight): &([u32; 4], u16)| Bucket { weight: u32::from(weight.max(1)), ..Bucket::default() };
        let guests = config.guests.iter().enumerate().map(|(n, (address, _))| (*address, n as u32));
        Hygenicc {
            conf: config.conf(),
            admits: config.admission.is_some(),
            uplink: Uplink::default(),
            buckets: config.guests.iter().map(bucket).collect(),
            guests: guests.collect(),
            pairs: Pairs::new(config, seed),
            to: FxHashMap::default(),
            due: VecDeque::new(),
            tick_at: None,
            waiting: Waiting::new(config),
            arriving: None,
            counters: Counters::default(),
        }
    }

    /// Before any state is made for a segment from a guest.
    pub(crate) fn hold(&mut self, now: Time, packet: &Packet) -> Held {
        let Some(&guest) = self.guests.get(&packet.saddr) else { return Held::Not };
        if self.tick_at.is_none() {
            self.tick_at = Some(self.next_tick(now));
        }
        if self.admits && !self.pairs.knows(guest, &packet.daddr) && self.refuses(now, &packet.daddr) {
            self.counters.refused_segments += 1;
            return Held::Drop;
        }
        let bytes = native::hyg_bytes(packet);
        let until = match self.waiting.first(guest) {
            Some(_) => now,
            None => match self.take(now, guest, bytes) {
                Ok(()) => return Held::Not,
                Err(at) => at,
            },
        };
        // One that is larger than the bucket would wait for ever.
        if bytes > self.conf.depth || !self.waiting.has_room(guest, bytes) {
            self.counters.dropped_segments += 1;
            return Held::Drop;
        }
        Held::Waits { guest, bytes, until }
    }

    fn take(&mut self, now: Time, guest: u32, bytes: u64) -> Result<(), Time> {
        let bucket = self.buckets.get_mut(guest as usize);
        Hyg::new(&self.conf, &mut self.uplink, bucket, None, None).hold(bytes, now)
    }

    /// A segment that [`hold`](Hygenicc::hold) made wait has passed the stages.
    pub(crate) fn wait(&mut self, guest: u32, bytes: u64, until: Time, slot: Slot) {
        self.counters.delayed_segments += 1;
        self.waiting.push(guest, bytes, until, slot);
    }

    /// The next segment whose turn has come.
    pub(crate) fn poll_departure(&mut self, now: Time) -> Option<Slot> {
        let mut next = None;
        while let Some((guest, bytes)) = self.waiting.after(next) {
            match self.take(now, guest, bytes) {
                Ok(()) => return self.waiting.pop(guest),
                Err(at) => self.waiting.set(guest, at),
            }
            next = Some(guest);
        }
        None
    }

    /// For a segment that [`hold`](Hygenicc::hold) let pass; `None` if the host has no such guest.
    pub(crate) fn egress(&mut self, now: Time, packet: &Packet) -> Option<Hyg<'_>> {
        let guest = *self.guests.get(&packet.saddr)?;
        let pair = self.pairs.find(now, guest, &packet.daddr);
        let pair = pair.or_else(|| self.remember(now, guest, &packet.daddr, native::began(packet, true)));
        if let Some(id) = pair {
            self.pairs.note(id, true);
        }
        let to = self.to.get_mut(&packet.daddr).map(|to| &mut to.part);
        let pair = pair.map(|id| self.pairs.get(id));
        Some(Hyg::new(&self.conf, &mut self.uplink, self.buckets.get_mut(guest as usize), pair, to))
    }

    /// For a segment that arrived. Call [`note_ingress`](Hygenicc::note_ingress) after the stages.
    pub(crate) fn ingress(&mut self, now: Time, packet: &Packet) -> Hyg<'_> {
        let guest = self.guests.get(&packet.daddr).copied();
        self.arriving = None;
        let Some(guest) = guest.filter(|_| !native::is_feedback(packet)) else {
            return Hyg::new(&self.conf, &mut self.uplink, None, None, None);
        };
        let pair = match self.pairs.find(now, guest, &packet.saddr) {
            // Who is answered is no new connection.
            None if native::counts(packet) || self.admits => {
                self.remember(now, guest, &packet.saddr, native::BEGAN_OUTSIDE)
            }
            known => known,
        };
        if let Some(id) = pair {
            self.pairs.note(id, false);
            self.arriving = Some((id, self.pairs.get(id).owed_count));
        }
        let pair = pair.map(|id| self.pairs.get(id));
        Hyg::new(&self.conf, &mut self.uplink, self.buckets.get_mut(guest as usize), pair, None)
    }

    /// The stages have seen the segment that arrived. Gives `send` the packets that cannot wait.
    pub(crate) fn note_ingress(&mut self, now: Time, mut send: impl FnMut(Packet)) {
        let Some((id, before)) = self.arriving.take() else { return };
        let pair = self.pairs.get(id);
        self.counters.marks_counted += u64::from(pair.owed_count.wrapping_sub(before));
        let (owes, overdue) = (pair.owes(), pair.overdue(&self.conf, now));
        if overdue {
            self.tell(id, &mut send);
        } else if owes && self.pairs.wait(id) {
            self.due.push_back((now.saturating_add(Time::from_ns(self.conf.patience)), id));
        }
    }

    /// The peer's count of marks, on a packet of the pair.
    pub(crate) fn hear(&mut self, now: Time, packet: &Packet, told: Feedback) {
        let Some(&guest) = self.guests.get(&packet.daddr) else { return };
        let Some(id) = self.pairs.find(now, guest, &packet.saddr) else { return };
        let to = self.to.get_mut(&packet.saddr).map(|to| &mut to.part);
        let pair = self.pairs.get(id);
        let before = pair.credit;
        let bucket = self.buckets.get_mut(guest as usize);
        let mut stage = Hyg::new(&self.conf, &mut self.uplink, bucket, Some(pair), to);
        stage.hear(u16::from_be_bytes([told.path, told.value]), now);
        self.counters.marks_heard += u64::from(before - self.pairs.get(id).credit);
    }

    /// What a packet from a guest is to carry, beside what waits in `relay`.
    pub(crate) fn pay(
        &mut self,
        conf: &native::Conf,
        relay: Option<&mut Relay>,
        now: Time,
        packet: &Packet,
    ) -> Feedback {
        let guest = self.guests.get(&packet.saddr).copied();
        let id = guest.and_then(|guest| self.pairs.find(now, guest, &packet.daddr));
        native::pay(conf, relay, id.map(|id| self.pairs.get(id)), now, packet)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let due = self.due.front().map(|(due, _)| *due);
        self.tick_at.into_iter().chain(due).chain(self.waiting.next_at()).min()
    }

    /// Applies the law where an interval has ended, and gives `send` the packets that are nothing but feedback.
    pub(crate) fn handle_timeout(&mut self, now: Time, mut send: impl FnMut(Packet)) {
        if self.tick_at.is_some_and(|at| at <= now) {
            let active = native::hyg_tick(&mut self.buckets, &mut self.uplink, &self.conf, now);
            self.tick_at = (active > 0).then(|| self.next_tick(now));
        }
        while let Some(&(_, id)) = self.due.front().filter(|(due, _)| *due <= now) {
            self.due.pop_front();
            let pair = self.pairs.get(id);
            let (owes, overdue) = (pair.owes(), pair.overdue(&self.conf, now));
            if owes && !overdue {
                // Others were told meanwhile, and these came later.
                self.due.push_back((now.saturating_add(Time::from_ns(self.conf.patience)), id));
                continue;
            }
            self.pairs.done(id);
            if overdue {
                self.tell(id, &mut send);
            }
        }
    }

    /// Tells the peer of a pair by packets that are nothing but feedback: where the count begins, if it has never heard of it, and the
    /// count.
    fn tell(&mut self, id: u32, send: &mut impl FnMut(Packet)) {
        let (guest, peer) = self.pairs.key(id);
        let pair = self.pairs.get(id);
        let begins = (pair.introduced == 0).then_some(0);
        let count = pair.owed_count;
        (pair.owed_told, pair.introduced) = (count, 1);
        let (family, ip_header_len) = if guest[..3] == [0, 0, 0xffff] { (4, 20) } else { (6, 40) };
        for count in begins.into_iter().chain([count]) {
            let [feedback_path, feedback_value] = count.to_be_bytes();
            self.counters.feedback_sent += 1;
            send(Packet {
                saddr: guest,
                daddr: peer,
                proto: PROTO,
                family,
                ip_header_len,
                wire: version::TWO,
                feedback: MARKS,
                feedback_path,
                feedback_value,
                ..Packet::default()
            });
        }
    }

    /// How a guest of this host stands.
    pub(crate) fn share(&self, guest: &[u32; 4]) -> Option<Share> {
        let bucket = self.buckets.get(*self.guests.get(guest)? as usize)?;
        let rate = |bytes: u64| BitRate::from_bps(bytes.saturating_mul(8));
        let alpha = f64::from(bucket.alpha) / f64::from(native::HYG_ONE);
        Some(Share { rate: rate(bucket.rate), fair: rate(bucket.fair), alpha, active: bucket.active != 0 })
    }

    pub(crate) fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// Ticks are at whole intervals, so that edges of one configuration agree.
    fn next_tick(&self, now: Time) -> Time {
        let interval = self.conf.interval;
        Time::from_ns((now.as_ns() / interval).saturating_add(1).saturating_mul(interval))
    }

    fn refuses(&mut self, now: Time, peer: &[u32; 4]) -> bool {
        let Some(to) = self.to.get_mut(peer) else { return false };
        to.refusing = native::refuses(&to.part, &self.conf, to.refusing, now);
        to.refusing
    }

    fn remember(&mut self, now: Time, guest: u32, peer: &[u32; 4], began: u32) -> Option<u32> {
        for gone in self.pairs.sweep(now) {
            if let Some(to) = self.to.get_mut(&gone) {
                to.pairs -= 1;
                if to.pairs == 0 {
                    self.to.remove(&gone);
                }
            }
        }
        let id = self.pairs.insert(now, guest, peer, began);
        self.counters.pairs_full += u64::from(id.is_none());
        if id.is_some() && self.admits {
            self.to.entry(*peer).or_default().pairs += 1;
        }
        id
    }
}
