//! Threads that run the parts of a model side by side, one window of time after another.
//!
//! One thread leads: it opens a round, works on parts like everybody else, and waits until all parts are done. Threads take
//! parts one by one, those that had most to do lately first. So no thread waits for another while there is work, and a thread
//! that the machine does not run delays nothing but the part at hand.

#[cfg(loom)]
use loom::{
    hint,
    sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::{
    hint,
    sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64},
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// What a part has to tell after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it, or what it has sent to others, has something to do again.
    pub next: u64,
    /// How much it had to do.
    pub load: u32,
}

/// Parts of a model, and the threads that run them.
#[derive(Debug)]
pub struct Crew<T> {
    parts: Vec<Mutex<T>>,
    /// Of each part, after the last round.
    next: Vec<AtomicU64>,
    /// Of each part: in the last round, and over the last rounds.
    loads: Vec<[AtomicU32; 2]>,
    /// Turn to part.
    order: Vec<AtomicU32>,
    /// The round in the upper half, the next turn in the lower.
    ticket: AtomicU64,
    until: AtomicU64,
    done: AtomicU32,
    failed: AtomicBool,
    sleepers: AtomicU32,
    /// The crew is dismissed.
    over: Mutex<bool>,
    wake: Condvar,
}

/// Looks at the ticket before a thread gives its core away, and before it sleeps.
const SPINS: u32 = if cfg!(loom) { 0 } else { 4_000 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 100 };
/// Rounds after which the order of parts follows their loads.
const ORDERED_EVERY: u64 = 64;

fn turn(ticket: u64) -> u64 {
    ticket & u64::from(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Who panics with a part ends the run: nobody looks at the part again.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Crew<T> {
    pub fn new(parts: Vec<T>) -> Crew<T> {
        let n = parts.len();
        Crew {
            next: (0..n).map(|_| AtomicU64::new(0)).collect(),
            loads: (0..n).map(|_| [AtomicU32::new(0), AtomicU32::new(0)]).collect(),
            order: (0..n).map(|part| AtomicU32::new(part as u32)).collect(),
            parts: parts.into_iter().map(Mutex::new).collect(),
            ticket: AtomicU64::new(n as u64),
            until: AtomicU64::new(0),
            done: AtomicU32::new(n as u32),
            failed: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            over: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.parts.len()
    }
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// A part, between rounds.
    pub fn part(&self, n: usize) -> MutexGuard<'_, T> {
        lock(&self.parts[n])
    }

    /// What each part had to do in the last round.
    pub fn loads(&self) -> impl Iterator<Item = u32> + '_ {
        self.loads.iter().map(|load| load[0].load(Relaxed))
    }

    /// Has every part worked on once, to `until`, while the calling thread does `own` first. Returns what that yields, and the
    /// least [`Done::next`]. Only one thread may call it.
    ///
    /// # Panics
    /// If `work` did, on whatever thread.
    pub fn round<R>(&self, until: u64, work: &impl Fn(&mut T, u64) -> Done, own: impl FnOnce() -> R) -> (R, u64) {
        let round = (self.ticket.load(Relaxed) >> 32) + 1;
        if round % ORDERED_EVERY == 0 {
            self.put_in_order();
        }
        self.done.store(0, Relaxed);
        self.until.store(until, Relaxed);
        // No store: loom does not know that one cannot come between what a late `take` reads and what it writes.
        self.ticket.swap(round << 32, AcqRel);
        self.rouse();
        let own = own();
        while let Some(part) = self.take() {
            self.do_part(part, work);
        }
        let mut looks = 0;
        while !self.is_done() {
            if looks < SPINS + YIELDS {
                looks += 1;
                relax(looks);
            } else {
                self.sleep(|| self.is_done());
            }
        }
        assert!(!self.failed.load(Relaxed), "a thread of the simulator failed");
        let next = self.next.iter().map(|next| next.load(Relaxed)).min().unwrap_or(u64::MAX);
        (own, next)
    }

    /// Works in every round until the crew is dismissed: what all other threads do.
    pub fn serve(&self, work: &impl Fn(&mut T, u64) -> Done) {
        let mut looks = 0;
        loop {
            if let Some(part) = self.take() {
                self.do_part(part, work);
                looks = 0;
            } else if looks < SPINS + YIELDS {
                looks += 1;
                relax(looks);
            } else if self.sleep(|| self.has_work()) {
                return;
            } else {
                looks = 0;
            }
        }
    }

    /// Ends [`serve`](Self::serve) on all threads.
    pub fn dismiss(&self) {
        *lock(&self.over) = true;
        self.wake.notify_all();
    }

    /// The next part of the round that nobody works on.
    fn take(&self) -> Option<usize> {
        if !self.has_work() {
            return None;
        }
        let turn = turn(self.ticket.fetch_add(1, AcqRel));
        self.order.get(turn as usize).map(|part| part.load(Relaxed) as usize)
    }

    fn has_work(&self) -> bool {
        turn(self.ticket.load(Acquire)) < self.parts.len() as u64
    }

    fn is_done(&self) -> bool {
        self.done.load(Acquire) == self.parts.len() as u32
    }

    fn do_part(&self, part: usize, work: &impl Fn(&mut T, u64) -> Done) {
        let finish = Finish(self);
        let done = work(&mut lock(&self.parts[part]), self.until.load(Relaxed));
        self.next[part].store(done.next, Relaxed);
        let [last, lately] = &self.loads[part];
        last.store(done.load, Relaxed);
        lately.store(lately.load(Relaxed).saturating_add(done.load), Relaxed);
        drop(finish);
    }

    /// After a change that others may sleep for: either one that is about to sleep sees the change, or it is seen here.
    fn rouse(&self) {
        fence(SeqCst);
        if self.sleepers.load(Relaxed) > 0 {
            let _over = lock(&self.over);
            self.wake.notify_all();
        }
    }

    /// Until that is so. True: the crew is dismissed.
    fn sleep(&self, awake: impl Fn() -> bool) -> bool {
        let mut over = lock(&self.over);
        self.sleepers.fetch_add(1, Relaxed);
        fence(SeqCst);
        while !*over && !awake() {
            over = self.wake.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Relaxed);
        *over
    }

    /// Those that had most to do lately come first, so that a long one is not left to the end.
    fn put_in_order(&self) {
        let mut parts: Vec<(u32, u32)> = (0..).zip(&self.loads).map(|(n, load)| (load[1].load(Relaxed), n)).collect();
        parts.sort_by_key(|&(load, part)| (std::cmp::Reverse(load), part));
        for (turn, (load, part)) in parts.into_iter().enumerate() {
            self.order[turn].store(part, Relaxed);
            self.loads[part as usize][1].store(load / 2, Relaxed);
        }
    }
}

/// Counts a part as done, also if its thread panics.
struct Finish<'a, T>(&'a Crew<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Relaxed);
        }
        if self.0.done.fetch_add(1, Release) + 1 == self.0.parts.len() as u32 {
            self.0.rouse();
        }
    }
}

fn relax(looks: u32) {
    if looks <= SPINS {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn add(part: &mut Vec<u64>, until: u64) -> Done {
        part.push(until);
        Done { next: until + 10 + part[0], load: until as u32 }
    }

    /// Runs `rounds` on `threads` and returns what each part was worked on for.
    fn run(threads: usize, parts: usize, rounds: u64) -> Vec<Vec<u64>> {
        let crew = Crew::new((0..parts as u64).map(|n| vec![n]).collect());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| crew.serve(&add));
            }
            for until in 0..rounds {
                let (own, next) = crew.round(until, &add, || until * 2);
                assert_eq!((own, next), (until * 2, until + 10));
                assert!(crew.loads().all(|load| load == until as u32));
            }
            crew.dismiss();
        });
        (0..parts).map(|n| crew.part(n).clone()).collect()
    }

    #[test]
    fn every_part_is_worked_on_once_a_round() {
        for threads in [1, 2, 5] {
            for (n, part) in run(threads, 7, 300).into_iter().enumerate() {
                assert_eq!(part[0], n as u64);
                assert!(part[1..].iter().copied().eq(0..300), "{threads} threads, part {n}");
            }
        }
    }

    #[test]
    fn who_has_most_to_do_comes_first() {
        let work = |part: &mut u32, _| Done { next: 0, load: *part };
        let crew = Crew::new(vec![1, 9, 4]);
        for until in 0..2 * ORDERED_EVERY {
            crew.round(until, &work, || ());
        }
        let order: Vec<u32> = crew.order.iter().map(|part| part.load(Relaxed)).collect();
        assert_eq!(order, [1, 2, 0]);
    }

    #[test]
    #[should_panic(expected = "a thread of the simulator failed")]
    fn a_failure_elsewhere_is_not_waited_for() {
        let crew = Crew::new(vec![0]);
        let work = |_: &mut u32, _| panic!("for the test");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| crew.serve(&work)));
                assert!(failed.is_err());
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                crew.round(1, &work, || {
                    // The other thread takes the part.
                    while crew.has_work() {
                        std::thread::yield_now();
                    }
                })
            }));
            crew.dismiss();
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Every interleaving of two threads over two rounds: each part is worked on once a round, to that round's time, whatever
    /// one part did in a round is seen by all in the next, and nobody is left asleep.
    #[test]
    fn rounds_are_whole_and_follow_one_another() {
        loom::model(|| {
            let crew = Arc::new(Crew::new(vec![0u64, 0]));
            let work = |part: &mut u64, until: u64| {
                assert_eq!(*part + 1, until, "out of turn");
                *part = until;
                Done { next: until, load: 1 }
            };
            let other = {
                let crew = crew.clone();
                loom::thread::spawn(move || crew.serve(&work))
            };
            for until in 1..=2 {
                assert_eq!(crew.round(until, &work, || ()).1, until);
                assert_eq!((*crew.part(0), *crew.part(1)), (until, until));
            }
            crew.dismiss();
            other.join().unwrap();
        });
    }
}
