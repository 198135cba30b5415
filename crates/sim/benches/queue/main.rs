//! Which queue for pending events? `cargo bench -p sim`.
//!
//! The hold model: keep `n` events pending; pop the earliest, push one a random delay later. Delays are those of the
//! simulator: mostly the serialisation of a packet plus the propagation of a short link, some receive polls, a few
//! timers far ahead. Every candidate runs the same draws; rounds alternate between candidates, and each figure is a
//! ratio to the standard binary heap of the same round, so that a machine that speeds up or slows down does not decide.

mod calendar;
mod radix;

use sim::queue::{Heap, Key};
use sim::wheel::Wheel;
use sim::{Purpose, Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

/// As in the simulator: the entry is a key and eight bytes of event.
type Event = [u32; 2];

trait Queue: Default {
    const NAME: &'static str;
    fn push(&mut self, key: Key, event: Event);
    fn pop(&mut self) -> Option<(Key, Event)>;
}

#[derive(Default)]
struct Binary(BinaryHeap<Reverse<(Key, Event)>>);

impl Queue for Binary {
    const NAME: &'static str = "binary heap (std)";
    fn push(&mut self, key: Key, event: Event) {
        self.0.push(Reverse((key, event)));
    }
    fn pop(&mut self) -> Option<(Key, Event)> {
        self.0.pop().map(|r| r.0)
    }
}

impl Queue for Heap<Event> {
    const NAME: &'static str = "4-ary heap";
    fn push(&mut self, key: Key, event: Event) {
        Heap::push(self, key, event);
    }
    fn pop(&mut self) -> Option<(Key, Event)> {
        Heap::pop(self)
    }
}

impl Queue for Wheel<Event> {
    const NAME: &'static str = "wheel and heap";
    fn push(&mut self, key: Key, event: Event) {
        Wheel::push(self, key, event);
    }
    fn pop(&mut self) -> Option<(Key, Event)> {
        Wheel::pop(self)
    }
}

impl Queue for radix::Radix<Event> {
    const NAME: &'static str = "radix heap";
    fn push(&mut self, key: Key, event: Event) {
        radix::Radix::push(self, key, event);
    }
    fn pop(&mut self) -> Option<(Key, Event)> {
        radix::Radix::pop(self)
    }
}

impl Queue for calendar::Calendar<Event> {
    const NAME: &'static str = "calendar queue";
    fn push(&mut self, key: Key, event: Event) {
        calendar::Calendar::push(self, key, event);
    }
    fn pop(&mut self) -> Option<(Key, Event)> {
        calendar::Calendar::pop(self)
    }
}

fn delay_ps(rng: &mut Stream) -> u64 {
    match rng.below(100) {
        0..=79 => 1_230_400 + 1_000_000 + rng.below(3) * 500_000,
        80..=94 => 67_200 + 1_000_000,
        95..=97 => 20_000_000,
        98 => 200_000_000 + rng.below(1_000_000_000),
        _ => 200_000_000_000,
    }
}

/// [`hold`] for one queue.
type Hold = fn(usize, u64, u64) -> (f64, u64);

/// Nanoseconds per pop-and-push with `n` pending, and a checksum of the order.
fn hold<Q: Queue>(n: usize, steps: u64, seed: u64) -> (f64, u64) {
    let mut rng = Stream::new(seed, n as u64, Purpose::Arrivals);
    let mut queue = Q::default();
    for i in 0..n as u64 {
        queue.push(Key { time_ps: rng.below(2_000_000), order: rng.below(500) << 40 | i }, [0; 2]);
    }
    let mut sequence = n as u64;
    let mut checksum = 0u64;
    let mut step = |queue: &mut Q, rng: &mut Stream| {
        let Some((key, event)) = queue.pop() else { return };
        checksum = checksum.rotate_left(5) ^ key.time_ps ^ key.order;
        sequence += 1;
        let order = rng.below(500) << 40 | sequence;
        queue.push(Key { time_ps: key.time_ps + delay_ps(rng), order }, black_box(event));
    };
    for _ in 0..2 * n {
        step(&mut queue, &mut rng);
    }
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let start = Instant::now();
    for _ in 0..steps {
        step(&mut queue, &mut rng);
    }
    (start.elapsed().as_secs_f64() * 1e9 / steps as f64, checksum)
}

fn main() {
    const ROUNDS: usize = 7;
    const STEPS: u64 = 400_000;
    println!("ratio of time per pop-and-push to the binary heap: median (min-max) of {ROUNDS} rounds");
    for n in [64, 1_024, 16_384, 262_144, 1_048_576] {
        let runners: [(&str, Hold); 5] = [
            (Binary::NAME, hold::<Binary>),
            (<Heap<Event> as Queue>::NAME, hold::<Heap<Event>>),
            (<Wheel<Event> as Queue>::NAME, hold::<Wheel<Event>>),
            (<radix::Radix<Event> as Queue>::NAME, hold::<radix::Radix<Event>>),
            (<calendar::Calendar<Event> as Queue>::NAME, hold::<calendar::Calendar<Event>>),
        ];
        let mut ratios = vec![Vec::new(); runners.len()];
        let mut base_ns = Vec::new();
        for round in 0..ROUNDS {
            let results: Vec<_> = runners.iter().map(|r| r.1(n, STEPS, round as u64)).collect();
            base_ns.push(results[0].0);
            for (i, result) in results.iter().enumerate() {
                assert_eq!(result.1, results[0].1, "{} pops in another order", runners[i].0);
                ratios[i].push(result.0 / results[0].0);
            }
        }
        base_ns.sort_by(f64::total_cmp);
        println!("{n} pending (binary heap: {:.0} ns)", base_ns[ROUNDS / 2]);
        for (runner, r) in runners.iter().zip(&mut ratios) {
            r.sort_by(f64::total_cmp);
            println!("  {:<18} {:.2} ({:.2}-{:.2})", runner.0, r[ROUNDS / 2], r[0], r[ROUNDS - 1]);
        }
    }
}
