//! Shaping: a model of Linux's hierarchical token bucket (HTB), sans-IO.
//!
//! Classes have a guarantee and a ceiling; the rest of the total is lent in proportion to their quanta. A class sends while
//! its bucket is not empty, even if the segment is larger than the bucket's content. It then waits until the debt is paid:
//! rates hold over time, bursts are whole segments.
//!
//! Where a class lets sparse flows go first, their segments leave at once, and it pays for them: what waits leaves that much later.

mod config;
mod queue;
mod sparse;
#[cfg(test)]
mod tests;

use crate::limiter::Standing;
use config::Bucket;
pub use config::{Class, Config, Invalid, DEFAULT_BURST};
use queue::Queue;
use sparse::Sparse;
use std::collections::VecDeque;
use units::{BitRate, Time};

/// Within its guarantee, and on borrowed rate.
const OWN: usize = 0;
const BORROWED: usize = 1;

#[derive(Debug)]
struct Leaf<T> {
    guarantee: Bucket,
    ceiling: Bucket,
    /// When the buckets were filled last.
    filled_at: Time,
    quantum: i64,
    /// Per level.
    deficit: [i64; 2],
    queue: Queue<T>,
    dropped: u64,
    marked: u64,
    sparse: Option<Sparse>,
    /// What leaves before the queue.
    first: VecDeque<(T, u64)>,
}

#[derive(Debug)]
struct Root {
    bucket: Bucket,
    filled_at: Time,
}

/// The shaper of one interface. `now` never decreases.
#[derive(Debug)]
pub struct Htb<T> {
    root: Option<Root>,
    leaves: Vec<Leaf<T>>,
    /// Per level, whose turn it is.
    turn: [usize; 2],
}

/// A segment whose time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due<T> {
    pub item: T,
    pub class: usize,
    pub bytes: u64,
    /// Its queue says that it is to be marked, which it may be.
    pub mark: bool,
}

impl<T> Htb<T> {
    /// # Errors
    /// [`Invalid`].
    pub fn new(config: &Config) -> Result<Htb<T>, Invalid> {
        config.check()?;
        let root = |rate: BitRate| Root { bucket: Bucket::new(rate, DEFAULT_BURST), filled_at: Time::ZERO };
        let leaf = |class: &Class| Leaf {
            guarantee: Bucket::new(class.guarantee, class.burst),
            ceiling: Bucket::new(class.ceiling, class.ceiling_burst),
            filled_at: Time::ZERO,
            quantum: config.quantum(class),
            deficit: [0; 2],
            queue: Queue::new(class),
            dropped: 0,
            marked: 0,
            sparse: class.sparse_first.then(|| Sparse::new(class.guarantee)),
            first: VecDeque::new(),
        };
        Ok(Htb { root: config.total.map(root), leaves: config.classes.iter().map(leaf).collect(), turn: [0; 2] })
    }

    /// Queues an item of `bytes` at `at.class`, or where [`arrival`](Htb::arrival) said that it goes first, past the queue. `segment`: its
    /// headers. Gives it back if the class has no room, or does not exist.
    ///
    /// # Errors
    /// The item.
    pub fn enqueue(&mut self, now: Time, at: &Standing, item: T, segment: &wire::Packet, bytes: u64) -> Result<(), T> {
        let Some(leaf) = self.leaves.get_mut(at.class) else { return Err(item) };
        if at.first {
            leaf.first.push_back((item, bytes));
            return Ok(());
        }
        let queued = leaf.queue.push(now, item, segment, bytes);
        leaf.dropped += u64::from(queued.is_err());
        queued
    }

    /// An item that was queued and will not leave: its queue has dropped it. Asked after `enqueue` and `dequeue`.
    pub fn poll_dropped(&mut self) -> Option<T> {
        self.leaves.iter_mut().find_map(|leaf| {
            let item = leaf.queue.poll_dropped()?;
            leaf.dropped += 1;
            Some(item)
        })
    }

    /// The next item that may leave now.
    pub fn dequeue(&mut self, now: Time) -> Option<Due<T>> {
        if let Some(class) = self.leaves.iter().position(|leaf| !leaf.first.is_empty()) {
            let (item, bytes) = self.leaves[class].first.pop_front()?;
            self.charge(class, now, bytes, true);
            return Some(Due { item, class, bytes, mark: false });
        }
        let level = [OWN, BORROWED].into_iter().find(|&level| self.next(level, now).is_some())?;
        let class = self.next(level, now)?;
        let leaf = &mut self.leaves[class];
        let due = leaf.queue.pop(now, class)?;
        let bytes = due.bytes;
        leaf.marked += u64::from(due.mark);
        self.charge(class, now, bytes, level == OWN);
        self.turn[level] = class;
        let leaf = &mut self.leaves[class];
        leaf.deficit[level] -= i64::try_from(bytes).unwrap_or(i64::MAX >> 2);
        if leaf.deficit[level] < 0 {
            leaf.deficit[level] += leaf.quantum;
            self.turn[level] = (class + 1) % self.leaves.len();
        }
        Some(due)
    }

    fn charge(&mut self, class: usize, now: Time, bytes: u64, own: bool) {
        let leaf = &mut self.leaves[class];
        let elapsed = now.saturating_sub(leaf.filled_at);
        leaf.filled_at = now;
        if own {
            leaf.guarantee.charge(elapsed, bytes);
        } else {
            leaf.guarantee.fill(elapsed);
        }
        leaf.ceiling.charge(elapsed, bytes);
        if let Some(root) = &mut self.root {
            root.bucket.charge(now.saturating_sub(root.filled_at), bytes);
            root.filled_at = now;
        }
    }

    /// When [`dequeue`](Htb::dequeue) will have something, if nothing is queued until then; not before `now`.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if self.leaves.iter().any(|leaf| !leaf.first.is_empty()) {
            return Some(now);
        }
        let lend = self.root_wait(now);
        let wait = |leaf: &Leaf<T>| {
            let (guarantee, ceiling) = leaf.waits(now);
            ceiling.max(lend.map_or(guarantee, |lend| guarantee.min(lend)))
        };
        let busy = self.leaves.iter().filter(|leaf| !leaf.queue.is_empty());
        Some(now.saturating_add(busy.map(wait).min()?))
    }

    /// Bytes that wait in a class.
    pub fn backlog(&self, class: usize) -> u64 {
        self.leaves.get(class).map_or(0, |leaf| leaf.queue.bytes())
    }

    /// Bytes that a class has sent before their time: a segment that arrives now waits for them, too.
    pub fn unpaid(&self, class: usize, now: Time) -> u64 {
        self.leaves.get(class).map_or(0, |leaf| leaf.ceiling.unpaid(now.saturating_sub(leaf.filled_at)))
    }

    /// What the laws of [`crate::limiter`] act on.
    pub fn standing(&self, class: usize, now: Time) -> Standing {
        let sparse = self.leaves.get(class).and_then(|leaf| leaf.sparse.as_ref());
        let (flows, rate) = sparse.map_or((0, 0), |sparse| (sparse.bulk_flows().max(1), sparse.rate()));
        Standing { class, backlog: self.backlog(class) + self.unpaid(class, now), first: false, flows, rate }
    }

    /// The same for a segment of `bytes` that is about to be queued, and whether it goes first. Asked once for each.
    pub fn arrival(&mut self, class: usize, segment: &wire::Packet, bytes: u64, now: Time) -> Standing {
        let waits = (self.backlog(class), self.unpaid(class, now));
        let sparse = self.leaves.get_mut(class).and_then(|leaf| leaf.sparse.as_mut());
        let first = sparse.is_some_and(|sparse| sparse.goes_first(segment, waits, bytes, now));
        Standing { first, ..self.standing(class, now) }
    }

    /// Bytes of all classes that went first.
    pub fn first_bytes(&self) -> u64 {
        self.leaves.iter().filter_map(|leaf| leaf.sparse.as_ref()).map(Sparse::first_bytes).sum()
    }

    /// Items that a class had no room for, or that its queue dropped.
    pub fn dropped(&self, class: usize) -> u64 {
        self.leaves.get(class).map_or(0, |leaf| leaf.dropped)
    }

    /// Items that the queue of a class has marked.
    pub fn marked(&self, class: usize) -> u64 {
        self.leaves.get(class).map_or(0, |leaf| leaf.marked)
    }

    pub fn classes(&self) -> usize {
        self.leaves.len()
    }

    /// Until the total lets anything be borrowed; `None`: never.
    fn root_wait(&self, now: Time) -> Option<Time> {
        self.root.as_ref().map(|root| root.bucket.wait(now.saturating_sub(root.filled_at)))
    }

    /// The class whose turn it is at a level, of those that may send.
    fn next(&self, level: usize, now: Time) -> Option<usize> {
        if level == BORROWED && self.root_wait(now) != Some(Time::ZERO) {
            return None;
        }
        let n = self.leaves.len();
        (0..n).map(|i| (self.turn[level] + i) % n).find(|&class| {
            let leaf = &self.leaves[class];
            let (guarantee, ceiling) = leaf.waits(now);
            !leaf.queue.is_empty() && ceiling == Time::ZERO && (level == BORROWED || guarantee == Time::ZERO)
        })
    }
}

impl<T> Leaf<T> {
    /// How long until guarantee and ceiling let it send.
    fn waits(&self, now: Time) -> (Time, Time) {
        let elapsed = now.saturating_sub(self.filled_at);
        (self.guarantee.wait(elapsed), self.ceiling.wait(elapsed))
    }
}
