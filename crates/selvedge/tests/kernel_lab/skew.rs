//! What the receiver does for one connection of 20 Mb/s whose flowcells take paths that differ by a millisecond:
//! throughput and retransmissions with it and without it. Prints both.

use crate::receiver::counter;
use crate::rig::{tcp, Rig};
use crate::slow::Slow;
use crate::stream::{connect, listen};
use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// One host a leaf, and packets of the MTU on the wire, as on a cable.
const SHAPE: &[&str] = &["--edge", "--hosts", "1", "--wire", "mtu"];
const SKEW: Duration = Duration::from_millis(1);
const ADDRESS: &str = "172.20.2.1:7000";
/// Written at once.
const BLOCK: usize = 1 << 17;
/// Between two blocks at 20 Mb/s.
const EVERY: Duration = Duration::from_micros(52_429);
/// Blocks of one measurement: three seconds.
const BLOCKS: u32 = 60;
/// Both ways are measured this often, in turn, and their sums are judged: single rounds say little. Again so often if they do not suffice.
const ROUNDS: usize = 4;
/// Retransmissions without the receiver: with fewer, a share of them says nothing, and as many are allowed with it.
const ENOUGH: u64 = 30;
/// What the receiver has to reach, against nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bar {
    /// Retransmissions with the receiver are less than one in so many.
    one_in: u64,
    /// The least part of the throughput.
    carries: f64,
}

/// Where the clock counts instructions, as in the virtual machines of `scripts/kernels`.
const UNDISTURBED: Bar = Bar { one_in: 10, carries: 0.99 };
/// A machine that is busy makes skews and timeouts of its own (docs/presto-kernel.md).
const SHARED: Bar = Bar { one_in: 5, carries: 0.95 };

/// `said`: `SELVEDGE_CLOCK_COUNTS`, which `scripts/kernels` sets.
fn bar_of(said: Option<&str>) -> Bar {
    if said == Some("1") {
        UNDISTURBED
    } else {
        SHARED
    }
}

#[derive(Default)]
struct Outcome {
    bytes: u64,
    took: Duration,
    retransmits: u64,
    out_of_order: u64,
}

impl Outcome {
    fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.took.as_secs_f64()
    }

    fn add(&mut self, other: &Outcome) {
        self.bytes += other.bytes;
        self.took += other.took;
        self.retransmits += other.retransmits;
        self.out_of_order += other.out_of_order;
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { retransmits, out_of_order, .. } = self;
        write!(f, "{:.2} Mb/s, {retransmits} retransmits, {out_of_order} out of order", self.mbps())
    }
}

/// Sends [`BLOCKS`] from guest 1.1 to guest 2.1, a block every so often.
#[allow(clippy::disallowed_methods, reason = "measures real traffic")]
fn send(rig: &Rig, every: Duration) -> Outcome {
    let counts = || (tcp(rig, "guest1.1", "RetransSegs"), tcp(rig, "guest2.1", "TCPOFOQueue"));
    let listener = listen(rig, "guest2.1", ADDRESS);
    let mut sender = connect(rig, "guest1.1", ADDRESS);
    // Whatever this machine prefers.
    setsockopt(&sender, sockopt::TcpCongestion, &OsString::from("cubic")).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let before = counts();
    let begin = Instant::now();
    let reading = std::thread::spawn(move || {
        let mut buffer = vec![0; BLOCK];
        let mut bytes = 0;
        loop {
            match receiver.read(&mut buffer).expect("no reset") {
                0 => return (bytes, begin.elapsed()),
                n => bytes += n as u64,
            }
        }
    });
    let block = vec![0; BLOCK];
    for n in 0..BLOCKS {
        std::thread::sleep((every * n).saturating_sub(begin.elapsed()));
        sender.write_all(&block).expect("no reset");
    }
    drop(sender);
    let (bytes, took) = reading.join().unwrap();
    assert_eq!(bytes, u64::from(BLOCKS) * BLOCK as u64);
    let after = counts();
    // The last block has its time, too, or a connection could exceed the rate at which it is written.
    let took = took.max(every * BLOCKS);
    Outcome { bytes, took, retransmits: after.0 - before.0, out_of_order: after.1 - before.1 }
}

/// Is the outcome with the receiver what it is there for?
fn is_better(off: &Outcome, on: &Outcome, bar: Bar) -> bool {
    let few = off.retransmits < ENOUGH && on.retransmits < ENOUGH;
    on.mbps() >= bar.carries * off.mbps() && (few || on.retransmits * bar.one_in < off.retransmits)
}

/// `host1`: host 1's configuration made from the one that it has. True if the sums of all rounds say so.
fn compare(tag: &str, what: &str, every: Duration, host1: impl Fn(String) -> String) -> bool {
    let Some(rig) = Rig::up(tag, SHAPE) else { return true };
    let bar = bar_of(std::env::var("SELVEDGE_CLOCK_COUNTS").ok().as_deref());
    rig.configure("host1", &host1(rig.configuration("host1")));
    let plain = rig.configuration("host2");
    let _slow = Slow::spine2(&rig, SKEW);
    let mut sums = [Outcome::default(), Outcome::default()];
    for round in 1..=2 * ROUNDS {
        let [off, on] = [("off", ""), ("on", "\n[receive]\nreorder = true\n")].map(|(name, text)| {
            rig.configure("host2", &format!("{plain}{text}"));
            let one = send(&rig, every);
            eprintln!("{what}, round {round}, reorder {name}: {one}");
            one
        });
        let ahead = counter(&rig, "in_ahead_segments");
        eprintln!("receiver: {}, {ahead} segments ahead in all", rig.ctl("host2", "status")["receiver"]);
        sums[0].add(&off);
        sums[1].add(&on);
        if round == ROUNDS && is_better(&sums[0], &sums[1], bar) {
            break;
        }
    }
    eprintln!("{what}, sums, reorder off: {}; on: {}; {bar:?}", sums[0], sums[1]);
    is_better(&sums[0], &sums[1], bar)
}

#[test]
fn a_shared_machine_has_a_lower_bar() {
    assert_eq!([Some("1"), Some("0"), None].map(bar_of), [UNDISTURBED, SHARED, SHARED]);
    let outcome = |retransmits| Outcome { bytes: 1000, took: Duration::from_secs(1), retransmits, out_of_order: 0 };
    let with = |on| [UNDISTURBED, SHARED].map(|bar| is_better(&outcome(100), &outcome(on), bar));
    assert_eq!([9, 10, 19, 20].map(with), [[true, true], [false, true], [false, true], [false, false]]);
}

#[test]
fn bursts_of_a_connection_carry_no_less_with_few_of_the_retransmits() {
    assert!(compare("u", "bursts of 128 KiB", EVERY, |text| text));
}

/// One segment leaves every few milliseconds: hardly anything overtakes.
#[test]
fn a_connection_behind_a_rate_limit_carries_no_less() {
    let limit = |text: String| text.replacen("[[port]]\n", "[[port]]\negress_rate = \"20Mbps\"\n", 1);
    assert!(compare("v", "behind a rate limit", Duration::ZERO, limit));
}
