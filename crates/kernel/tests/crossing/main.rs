//! A guest that wants to be heard in another network, or as somebody else, against the loaded programs of two hosts: what it
//! sends goes through the programs of host A; what leaves, in the tunnel or without one, and what A's stack would forward, through the
//! uplink program of host B. `SELVEDGE_FRAMES` says how many frames; `make fuzz` runs ten million.
//!
//! A limited port's frames pass its queue as the kernel would carry them: with the mark, the segment size and the frame that the program
//! before has left. BPF_PROG_TEST_RUN, which runs each program, cannot do the rest:
//!
//! - It neither sets nor shows `tc_index`. So nothing comes out of a queue by a number (`SV_RETURN`): on a device of the host's own, and of a port
//!   without a network. What such a port gets back, by its time stamp, is tried. `hash` keeps a priority there; it is not shown either.
//! - Each frame has an Ethernet header. Ports without one (`SV_LIMITER_BARE`) are not tried.
//! - A segment has no `gso_type`, and no frame is in a tunnel of the kernel's (`skb->encapsulation`). The kernel makes no room in front of such a
//!   segment, so all segments to peers go to the cutter, before the stages or behind them, and are dropped where there is none. What the kernel
//!   would make of a segment is not cut here: it comes out of the cutter whole.
//! - No frame is larger than a page: none is too long for the tunnel.
//! - `vlan_present` is never set: tags stand in the frame.
//! - The device to which a program redirects is not shown. The mark tells what goes into a queue, to the cutter, or to the port again.
//! - The program inside a guest (`selvedge_limit_inside`) does nothing but stamp. What it turns back is tried with that stamp.
#![cfg(feature = "libbpf")]

mod arrivals;
#[path = "../fabric/mod.rs"]
mod fabric;
#[path = "../frames/mod.rs"]
mod frames;
mod guests;
mod host;
mod learning;
mod queue;
mod round;
mod seen;
mod shape;

use fabric::{in_namespace, Fabric};
use fuzz_drivers::{Addresses, Tenant};
use guests::addresses;
use host::Host;
use kernel::state::{Counter, VERSION_2};
use round::Round;
use seen::Seen;
use shape::Shape;
use std::collections::BTreeSet;

const UDP_PORT: u16 = 4789;
const REDIRECT: u32 = 7;
const SHOT: u32 = 2;
/// On to the next program, or the host.
const NEXT: u32 = u32::MAX;
/// So many frames at most meet one configuration, and one flow table, which they do not fill.
const ROUND: usize = 50_000;
/// And so many at least.
const SHORT: usize = 20_000;
/// Configurations, at least.
const ROUNDS: usize = 12;
/// So often the agent reads what the programs tell it.
const READ: usize = 500;

#[test]
fn no_frame_crosses_to_another_network_or_speaks_for_another() {
    if let Some(why) = fabric::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let frames = std::env::var("SELVEDGE_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS * SHORT);
    let each = (frames / ROUNDS).clamp(SHORT, ROUND);
    let fabric = Fabric::new("cx");
    for command in [
        "ip link add queue type veth peer name cutter",
        "ip link set cutter up",
        "ip link set queue up",
        "tc qdisc add dev queue root handle 5e1f: htb default 1",
        "tc class add dev queue parent 5e1f: classid 5e1f:1 htb rate 1gbit",
        "tc class add dev queue parent 5e1f: classid 5e1f:2 htb rate 1gbit",
    ] {
        fabric.exec_ok(&fabric.host(0), command);
    }
    let mut tenant = Tenant::new(13, addresses());
    let mut bare =
        Tenant::new(17, Addresses { hosts4: addresses().guests4, hosts6: addresses().guests6, ..addresses() });
    let (mut total, mut consumed) = (Seen::default(), 0);
    in_namespace(&fabric.host(0), || {
        for number in 0..frames.div_ceil(each) {
            let shape = Shape::of(number);
            let [a, b] = [0, 1].map(|me| Host::new(&fabric, me, shape));
            if shape.version == VERSION_2 && !shape.plain {
                a.hear_version_2(shape);
            }
            let tenant = if shape.plain { &mut bare } else { &mut tenant };
            let mut round = Round { shape, a: &a, b: &b, seen: Seen::default(), bits: 0, said: BTreeSet::new() };
            for i in 0..each {
                if i % READ == 0 {
                    round.read_events();
                }
                if i % 8 == 7 || i % 16 == 3 {
                    round.arrive_from_hosts(tenant, i);
                    continue;
                }
                let built = tenant.send();
                // Every part must pass, or nobody can put them together.
                let passed = built.frames.iter().filter(|frame| round.send(tenant, frame)).count();
                if let Some(whole) = built.whole.filter(|_| passed == built.frames.len()) {
                    round.arrive_forwarded(&whole);
                }
            }
            round.read_events();
            round.check_tried(each);
            consumed += b.count(Counter::MarksConsumed);
            println!("{shape:?}: {:?}", round.seen);
            total += round.seen;
        }
    });
    assert!(total.told > 0 && consumed > 0, "{total:?}: {consumed} counts of marks");
    println!("{total:?}, {consumed} counts of marks consumed");
}
