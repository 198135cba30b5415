//! Presto's receiver on real TCP: flowcells over paths of unequal delay, put in order before the guest sees them.

use crate::rig::{ok, signal, tcp, until, Rig};
use crate::slow::Slow;
use crate::stream::Transfer;
use std::time::Duration;

/// One host a leaf, and packets of the MTU on the wire, as on a cable.
const SHAPE: &[&str] = &["--edge", "--hosts", "1", "--wire", "mtu"];
/// By so much one of two spines is slower.
const SKEW: Duration = Duration::from_millis(2);
const MEGABYTE: u64 = 1_000_000;

pub(crate) fn counter(rig: &Rig, name: &str) -> u64 {
    let counters = rig.ctl("host2", "counters");
    let found = counters.as_array().unwrap().iter().find(|c| c["name"] == name).expect("a counter");
    found["value"].as_u64().unwrap()
}

const GUEST: &str = "172.20.2.1:7000";
const GUEST_V6: &str = "[fd5e:7::2:1]:7000";

/// Segments that came out of order to guest 2.1 in a transfer from guest 1.1, without its end.
fn out_of_order(rig: &Rig, address: &str, bytes: u64) -> u64 {
    let before = tcp(rig, "guest2.1", "TCPOFOQueue");
    let transfer = Transfer::start(rig, "guest1.1", "guest2.1", address, bytes);
    transfer.advance(bytes);
    let came = tcp(rig, "guest2.1", "TCPOFOQueue") - before;
    transfer.finish();
    came
}

/// Host 2 puts in order what it receives. A segment waits for long: what is tested is not how fast this machine is.
fn begin_to_reorder(rig: &Rig) {
    let text = rig.configuration("host2");
    rig.configure("host2", &(text + "\n[receive]\nreorder = true\ntimeout = \"100ms\"\n"));
}

/// Is the receiver's device there?
fn has_device(rig: &Rig) -> bool {
    rig.run("host2", "ip -o link").contains("svhold0")
}

#[test]
fn what_comes_over_unequal_paths_reaches_the_guest_in_order() {
    let Some(rig) = Rig::up("r", SHAPE) else { return };
    // The slower path is a thread, which comes late where processors are scarce: what waits for it must not be more than the receiver
    // waits for.
    ok(rig.spawn("guest2.1", "sh", &["-c", "echo 4096 131072 400000 >/proc/sys/net/ipv4/tcp_rmem"]).output());
    let _slow = Slow::spine2(&rig, SKEW);
    let without = [GUEST, GUEST_V6].map(|address| out_of_order(&rig, address, 8 * MEGABYTE));
    assert!(without.iter().all(|came| *came > 50), "{without:?} segments out of order without the receiver");
    assert_eq!(counter(&rig, "bounced_segments"), 0);
    begin_to_reorder(&rig);
    for address in [GUEST, GUEST_V6] {
        // Where processors are scarce its thread may be late, by more than the data path and the engine wait.
        let with = (0..12).map(|_| out_of_order(&rig, address, 3 * MEGABYTE));
        let with: Vec<u64> = with.take_while(|came| *came > 0).collect();
        assert!(with.len() < 12, "out of order with the receiver: {with:?}, without: {without:?}");
    }
    let status = rig.ctl("host2", "status");
    let receiver = &status["receiver"];
    assert!(receiver["gaps_filled"].as_u64() > Some(0), "{receiver}");
    assert_eq!(receiver["lost_segments"], 0);
    until("everything is back", || counter(&rig, "drained_segments") == counter(&rig, "bounced_segments"));
    assert_eq!(counter(&rig, "drop_foreign_segments"), 0);
}

#[test]
fn a_flow_leaves_the_receiver_when_paths_are_equal_again() {
    let Some(rig) = Rig::up("s", SHAPE) else { return };
    begin_to_reorder(&rig);
    let slow = Slow::spine2(&rig, SKEW);
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", GUEST, 4 * MEGABYTE);
    until("the flow is diverted", || counter(&rig, "bounced_segments") > 10);
    drop(slow);
    let mut last = (0, 0);
    until("segments go straight on", || {
        let now = (counter(&rig, "bounced_segments"), counter(&rig, "in_segments"));
        let straight = now.0 == last.0 && now.1 > last.1 + 10;
        last = now;
        std::thread::sleep(Duration::from_millis(20));
        straight
    });
    until("none is under way", || {
        let flows = rig.ctl("host2", "flows");
        flows["flows"].as_array().unwrap().iter().all(|flow| flow["diverted_segments"] == 0)
    });
    transfer.finish();
}

#[test]
fn an_agent_that_is_killed_takes_nothing_along() {
    let Some(rig) = Rig::up("t", SHAPE) else { return };
    begin_to_reorder(&rig);
    let _slow = Slow::spine2(&rig, SKEW);
    let transfer = Transfer::start(&rig, "guest1.1", "guest2.1", GUEST, 4 * MEGABYTE);
    until("the flow is diverted", || counter(&rig, "bounced_segments") > 10);
    assert!(has_device(&rig));
    let pid = rig.agent("host2");
    signal("KILL", pid);
    until("the agent's end", || !rig.namespace("host2").processes().contains(&pid));
    transfer.advance(4 * MEGABYTE);
    assert!(!has_device(&rig));
    rig.start_agent(2);
    let before = counter(&rig, "bounced_segments");
    until("the new agent's thread is in use", || counter(&rig, "bounced_segments") > before + 10);
    // One that hangs is not waited for either.
    let pid = rig.agent("host2");
    signal("STOP", pid);
    transfer.advance(4 * MEGABYTE);
    signal("CONT", pid);
    assert!(transfer.finish() > 12 * MEGABYTE);
}
