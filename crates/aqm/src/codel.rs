//! CoDel (RFC 8289): which packets of a queue are picked out, by how long those at its head have waited.

use units::{Bytes, Time};

/// CoDel's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Waiting that is acceptable as a standing queue.
    pub target: Time,
    /// How long packets may wait longer before something is done: about a round trip of the slowest flow.
    pub interval: Time,
    /// A queue with no more than that is none; `None`: with no more than the largest packet so far.
    pub mtu: Option<Bytes>,
}

impl Default for Codel {
    /// RFC 8289, section 4: for paths across the Internet.
    fn default() -> Codel {
        Codel { target: Time::from_ms(5), interval: Time::from_ms(100), mtu: None }
    }
}

/// A packet that was taken out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<T> {
    pub item: T,
    /// Since when it has waited.
    pub since: Time,
    pub bytes: u64,
    /// Bytes that are left in the queue.
    pub left: u64,
}

/// A queue that the law serves.
pub trait Queue {
    type Item;
    /// The packet at its head.
    fn take(&mut self) -> Option<Taken<Self::Item>>;
    /// The law picks a packet out: it is marked and given back, or it is dropped and `None`.
    fn pick(&mut self, item: Self::Item) -> Option<Self::Item>;
}

/// The law's state, with the names of RFC 8289, section 5. `Law::default()` is a valid start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Law {
    /// When packets will have waited too long for an interval; zero: they do not.
    first_above: Time,
    /// In the dropping state, when the next packet is picked out.
    next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// The largest packet so far.
    largest: u64,
}

/// Pauses between picked packets shrink with the square root of their number.
fn control_law(at: Time, interval: Time, count: u32) -> Time {
    Time::from_ps(at.as_ps() + (interval.as_ps() as f64 / f64::from(count.max(1)).sqrt()) as u64)
}

impl Law {
    /// The packet to send at `now`.
    pub fn pop<Q: Queue>(&mut self, codel: &Codel, now: Time, queue: &mut Q) -> Option<Q::Item> {
        let (mut item, mut late) = self.take(codel, now, queue)?;
        if self.dropping {
            self.dropping &= late;
            while self.dropping && now >= self.next {
                self.count += 1;
                let kept = queue.pick(item);
                if let Some(item) = kept {
                    // It is sent all the same.
                    self.next = control_law(self.next, codel.interval, self.count);
                    return Some(item);
                }
                (item, late) = self.take(codel, now, queue)?;
                self.dropping = late;
                if late {
                    self.next = control_law(self.next, codel.interval, self.count);
                }
            }
        } else if late {
            let kept = queue.pick(item);
            self.dropping = true;
            // What held the queue last time is a good beginning, if that was not long ago.
            let delta = self.count.wrapping_sub(self.last_count);
            let recent = now.saturating_sub(self.next).as_ps() < 16 * codel.interval.as_ps();
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.next = control_law(now, codel.interval, self.count);
            self.last_count = self.count;
            item = match kept {
                Some(item) => item,
                None => self.take(codel, now, queue)?.0,
            };
        }
        Some(item)
    }

    /// Is the law picking packets out?
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// Packets picked out since that began.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The next packet, and whether it is to be picked out (RFC 8289, `dodequeue`): packets have waited too long for an interval.
    fn take<Q: Queue>(&mut self, codel: &Codel, now: Time, queue: &mut Q) -> Option<(Q::Item, bool)> {
        let Some(taken) = queue.take() else {
            (self.first_above, self.dropping) = (Time::ZERO, false);
            return None;
        };
        self.largest = self.largest.max(taken.bytes);
        let least = codel.mtu.map_or(self.largest, Bytes::get);
        if now.saturating_sub(taken.since) < codel.target || taken.left <= least {
            self.first_above = Time::ZERO;
            return Some((taken.item, false));
        }
        if self.first_above == Time::ZERO {
            self.first_above = now.saturating_add(codel.interval);
            return Some((taken.item, false));
        }
        Some((taken.item, now >= self.first_above))
    }
}
